"""The Phyloformer family: its architecture, its training, and the settings of its commands."""

import zipfile
from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bioattn.errors import SettingsError
from bioattn.io.settings import FORCE, Settings, Writes, argument, option, output_option, require, table
from bioattn.models.family import Family, imported
from bioattn.models.running import ResumableCommand
from bioattn.training.settings import TrainingCommand, UpdateConfig


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
    num_blocks: int = 3
    """Blocks of attention over sites, attention over pairs, and a transition; published models have 6."""
    num_heads: int = 4
    """Attention heads; each has channels / num_heads channels."""
    channels: int = 32
    """Channels of a site of a pair; published models have 64."""
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

    steps: int = option("Updates of the weights.", default=4000, min=1)
    batch_size: int = 4
    """Alignments of an update, over all processes."""
    learning_rate: float = 2e-3
    """Peak rate of AdamW."""
    weight_decay: float = 0.0
    """On matrices."""
    relative: bool = True
    """Whether errors count in units of the true distance, as of the published `pf`, or as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeSimulation(Settings):
    """Make alignments of proteins or DNA with their true trees.

    Writes PAIRS.tsv, alignments/ (FASTA), trees/ (Newick) and simulation.json into the folder OUTPUT; the same
    options and seed give the same bytes. Trees are of a birth-death process with rates that drift. Proteins evolve
    by LG, DNA by a general time-reversible model drawn for each alignment, sites with Gamma-distributed rates.
    bioattn train phyloformer OUTPUT/PAIRS.tsv learns from them.
    """

    output: Path = output_option("Folder to write.", Writes.FOLDER)
    count: int = option("Alignments.", default=1000, min=1)
    alphabet: PhylogenyAlphabet = option("What the sequences are.", default=PhylogenyAlphabet.PROTEIN)
    sequences: str = option("Sequences of an alignment.", default="20", metavar="N|MIN-MAX")
    sites: str = option("Columns of an alignment.", default="200", metavar="N|MIN-MAX")
    deletions: float = option(
        "Deletions for each substitution, 3 sites long on average.", default=0.0, min=0, max=1
    )
    seed: int = option("Seed of every random choice.", default=0, min=0)
    force: bool = FORCE


@dataclass(frozen=True, slots=True, kw_only=True)
class PhyloformerRun(ResumableCommand):
    """Estimate the evolutionary distances of the sequences of an alignment, and trees of them.

    Writes distances.tsv (expected substitutions per site), nj.nwk (neighbour joining), bme.nwk (balanced minimum
    evolution) and phylogeny.json. With several alignments each has its own folder, and a failure does not stop
    the others. Letters other than amino acids, or bases, count as unknown. Trees need scikit-bio (extra phylo).
    """

    alignment: Path = argument(
        "IN", "Alignment of any format and packing, or `-`; or a folder or a list of alignments.", recorded=""
    )
    output: Path = output_option("Folder of the results; one folder each for several inputs.")
    model: Path = option(
        "The model: a folder (`bioattn train phyloformer`), or published parameters such as pf.ckpt.",
        "--model",
        "--parameters",
        default=MISSING,
        metavar="PATH",
        recorded="",
    )
    attention: Path | None = option("Also write attention here as HDF5.", metavar="FILE", writes=Writes.OTHER)
    sites: tuple[str, ...] = option(
        "Attention sites, for example 'phyloformer.*.over_sites'; can be repeated [default: all].",
        default=(),
        metavar="PATTERN",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PhyloformerTraining(TrainingCommand):
    """Train a model of evolutionary distances on alignments with known trees.

    docs/models/phyloformer.md explains the tables [model] and [training] of --config. Prints the error of
    distances on held-out alignments beside those of simple methods: Kimura 1983 and LG for proteins, JC and K80
    for DNA.
    """

    pairs: Path = argument(
        "PAIRS",
        "Table with the columns id, alignment and tree (`simulate trees`), and split where that is fixed.",
    )
    model: Mapping[str, Any] = table(PhyloformerConfig)
    training: Mapping[str, Any] = table(PhyloformerTrainingConfig)


class PhyloformerFamily(Family):
    name = "phyloformer"
    title = "alignments: evolutionary distances and trees of proteins or DNA"
    settings: Mapping[str, type[Settings]] = {
        "simulate": TreeSimulation,
        "train": PhyloformerTraining,
        "run": PhyloformerRun,
    }
    nouns: Mapping[str, str] = {"simulate": "trees"}
    table = "distances.tsv"

    load = imported("phyloformer.run", "load_phyloformer")
    load_file = load
    simulate = imported("phyloformer.simulation", "simulate")
    task = imported("phyloformer.task", "PhyloformerTask")
    run = imported("phyloformer.run", "run")
    export_attention = imported("phyloformer.run", "export_attention")

    def recognises(self, path: Path) -> bool:
        """Whether a file is a checkpoint whose names are Phyloformer's."""
        try:
            with zipfile.ZipFile(path) as archive:
                names = next(name for name in archive.namelist() if name.endswith("data.pkl"))
                return b"pwFNN.0.weight" in archive.read(names)
        except (OSError, zipfile.BadZipFile, StopIteration, RuntimeError):
            return False


FAMILY = PhyloformerFamily()
