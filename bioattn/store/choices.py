"""What can be chosen of files of attention and attribution; nothing here imports h5py or NumPy."""

from enum import StrEnum


class WeightType(StrEnum):
    """How weights are stored."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"


class Reduction(StrEnum):
    """What is done to weights before writing. Rows are the outer axis: of the MSA, residues, treatments, …"""

    NONE = "none"
    MEAN_HEADS = "mean-heads"
    MAX_HEADS = "max-heads"
    MEAN_ROWS = "mean-rows"
    MAX_ROWS = "max-rows"
    TOP_K = "top-k"

    @property
    def over_heads(self) -> bool:
        """Whether no head axis is left."""
        return self in (Reduction.MEAN_HEADS, Reduction.MAX_HEADS)

    @property
    def over_rows(self) -> bool:
        """Whether no outer axis is left."""
        return self in (Reduction.MEAN_ROWS, Reduction.MAX_ROWS)


class Method(StrEnum):
    """How values are computed."""

    ISM = "ism"
    """In-silico mutagenesis: all three other bases at every position."""
    GRADIENT_INPUT = "gradient-input"
    """Gradient with its mean over the bases removed."""
    INTEGRATED_GRADIENTS = "integrated-gradients"
    """Mean gradient on the straight way from a baseline."""
