"""What can be chosen of files of attention and attribution; nothing here imports h5py or NumPy."""

from enum import StrEnum


class WeightType(StrEnum):
    """How weights are stored."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"


class Reduction(StrEnum):
    """What is done over heads before writing."""

    NONE = "none"
    MEAN_HEADS = "mean-heads"
    MAX_HEADS = "max-heads"


class Method(StrEnum):
    """How values are computed."""

    ISM = "ism"
    """In-silico mutagenesis: all three other bases at every position."""
    GRADIENT_INPUT = "gradient-input"
    """Gradient with its mean over the bases removed."""
    INTEGRATED_GRADIENTS = "integrated-gradients"
    """Mean gradient on the straight way from a baseline."""
