"""What can be chosen when results are interpreted; nothing here imports torch or NumPy."""

from enum import StrEnum


class AttributionBaseline(StrEnum):
    """Where integrated gradients begin. Where a promoter has N, every baseline has too."""

    UNIFORM = "uniform"
    """A quarter of each base."""
    ZEROS = "zeros"
    """No base at all."""
    DINUCLEOTIDE_SHUFFLED = "dinucleotide-shuffled"
    """The mean of sequences with the promoter's dinucleotide counts."""


class MatchBy(StrEnum):
    """What decides where an expected motif has sites, where a row gives both."""

    CONSENSUS = "consensus"
    MATRIX = "matrix"


class Overlapping(StrEnum):
    """What a base gets that lies in the windows of several genes of one strand."""

    NEAREST_GENE = "nearest-gene"
    """The value of the gene whose position 0 is nearest."""
    MAX = "max"
    MEAN = "mean"


class ScriptFormat(StrEnum):
    """Programs that a structure is written for."""

    CXC = "cxc"
    """ChimeraX."""
    PML = "pml"
    """PyMOL."""


class Upsampling(StrEnum):
    """How attention to bins becomes attention to bases (`bioattn.interpret.position_maps`)."""

    NEAREST = "nearest"
    """A bin's weight is shared equally by its bases."""
    GAUSSIAN = "gaussian"
    """Smoothed by a Gaussian of half a bin."""
    RECEPTIVE_FIELD = "receptive-field"
    """A bin's weight is shared equally by all bases that its key sees."""


class ScoredGenes(StrEnum):
    """Which genes attention is scored on against planted motifs."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"
    ALL = "all"
