"""What a user chooses of an attention layer. Imports no torch, so that --help can show it."""

from enum import StrEnum


class AttentionScore(StrEnum):
    """Names of the scoring functions."""

    DOT = "dot"
    ADDITIVE = "additive"
    GAUSSIAN = "gaussian"
