"""The settings of a Phyloformer model and of its training; nothing here imports torch."""

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from bioattn.errors import SettingsError
from bioattn.io.settings import option, require
from bioattn.training.settings import UpdateConfig


class PhylogenyAlphabet(StrEnum):
    """What the sequences of an alignment are."""

    PROTEIN = "protein"
    DNA = "dna"


LETTERS = MappingProxyType(
    {PhylogenyAlphabet.PROTEIN: "ARNDCQEGHILKMFPSTWYVX-", PhylogenyAlphabet.DNA: "ACGTN-"}
)
"""Letters in the order of the model's inputs; any other letter counts as the one before the gap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhyloformerConfig:
    """Architecture of a Phyloformer model (Nesterenko et al. 2025)."""

    alphabet: PhylogenyAlphabet = option("What the sequences are.", default=PhylogenyAlphabet.PROTEIN)
    num_blocks: int = option(
        "Blocks of attention over sites, attention over pairs, and a transition; published models have 6.",
        "--blocks",
        default=3,
    )
    num_heads: int = 4
    """Attention heads; each has channels / num_heads channels."""
    channels: int = option("Channels of a site of a pair; published models have 64.", default=32)
    likelihood: bool = True
    """Whether distances begin as the likeliest of each pair (LG or K80 with Gamma rates), which the network
    multiplies by a factor."""

    def __post_init__(self) -> None:
        require(self, ("num_blocks", "num_heads", "channels"), lambda value: value >= 1, "be at least 1")
        if self.channels % self.num_heads:
            raise SettingsError(f"channels is {self.channels}; num_heads = {self.num_heads} must divide it")


@dataclass(frozen=True, slots=True, kw_only=True)
class PhyloformerTrainingConfig(UpdateConfig):
    """How a Phyloformer model is trained."""

    steps: int = option("Updates of the weights.", default=4000)
    batch_size: int = 4
    """Alignments of an update, over all processes."""
    learning_rate: float = 2e-3
    """Peak rate of AdamW."""
    weight_decay: float = 0.0
    """On matrices."""
    relative: bool = True
    """Whether errors count in units of the true distance, as of the published `pf`, or as they are."""
