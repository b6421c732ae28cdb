"""The settings of a Phyloformer model; nothing here imports torch."""

from dataclasses import dataclass

from bioattn.errors import SettingsError
from bioattn.io.config_file import require

LETTERS = "ARNDCQEGHILKMFPSTWYVX-"
"""Residues in the order of the model's inputs; any other letter counts as X."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhyloformerConfig:
    """Architecture of a Phyloformer model (Nesterenko et al. 2025)."""

    num_blocks: int = 6
    """Blocks of attention over sites, attention over pairs, and a transition."""
    num_heads: int = 4
    """Attention heads; each has channels / num_heads channels."""
    channels: int = 64
    """Channels of a site of a pair."""

    def __post_init__(self) -> None:
        require(self, ("num_blocks", "num_heads", "channels"), lambda value: value >= 1, "be at least 1")
        if self.channels % self.num_heads:
            raise SettingsError(f"channels is {self.channels}; num_heads = {self.num_heads} must divide it")
