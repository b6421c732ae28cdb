"""What a user chooses of an attention layer. Imports no torch, so that --help can show it."""

from enum import StrEnum


class AttentionScore(StrEnum):
    """Names of the scoring functions."""

    DOT = "dot"
    ADDITIVE = "additive"
    GAUSSIAN = "gaussian"


class PositionEncoding(StrEnum):
    """How self-attention is told where its queries and keys lie."""

    NONE = "none"
    """Not at all: it is blind to order."""
    SINUSOIDAL = "sinusoidal"
    """Sines and cosines of the position are added to the inputs (Vaswani et al. 2017)."""
    LEARNED = "learned"
    """A learned vector for each position is added to the inputs."""
    ROTARY = "rotary"
    """Queries and keys are rotated by angles that grow with the position, so that logits depend on the distance
    between the two alone (Su et al. 2021)."""
