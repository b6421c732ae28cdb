"""What can be chosen of promoter windows and of datasets made of them; nothing here imports NumPy."""

from enum import StrEnum


class Anchor(StrEnum):
    """What position 0 of a window is."""

    TSS = "tss"
    """The transcription start."""
    CDS = "cds"
    """The first base of the coding sequence."""


class Feature(StrEnum):
    """Which row of the annotation gives the transcription start."""

    GENE = "gene"
    """The gene."""
    MRNA = "mRNA"
    """Its representative mRNA."""


class Overlap(StrEnum):
    """What happens where a window reaches into another gene."""

    KEEP = "keep"
    MASK = "mask"
    """Bases of the other gene become N."""
    TRIM = "trim"
    """The upstream side is cut off."""
    DROP = "drop"
    """The gene is left out."""


class Boundary(StrEnum):
    """What happens where a window reaches beyond its chromosome."""

    PAD = "pad"
    """The window is filled up with N."""
    TRIM = "trim"
    """The upstream side is cut off."""
    DROP = "drop"
    """The gene is left out."""


class Direction(StrEnum):
    """Which responses count as 1 in the binary task."""

    BOTH = "both"
    """value <= -threshold or value >= threshold."""
    UP = "up"
    """value >= threshold."""
    DOWN = "down"
    """value <= -threshold."""


class Standardize(StrEnum):
    """How targets are scaled."""

    NONE = "none"
    """As in the tables."""
    TREATMENT = "treatment"
    """Each treatment to mean 0 and standard deviation 1 over the training genes."""


class Layout(StrEnum):
    """How a response table is laid out."""

    WIDE = "wide"
    """One row per gene, one column per treatment."""
    LONG = "long"
    """One row per gene and treatment, with a column that names the treatment."""
    CONTRAST = "contrast"
    """One row per gene of a single treatment: effect, standard error, adjusted p."""


class Split(StrEnum):
    """How sides are made; `treatment` can stand beside one of the others, which part the genes."""

    CHROMOSOME = "chromosome"
    BLOCK = "block"
    HOMOLOGY = "homology"
    RANDOM = "random"
    TREATMENT = "treatment"
