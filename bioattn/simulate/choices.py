"""What can be chosen when inputs are simulated; nothing here imports NumPy."""

from enum import StrEnum


class Difficulty(StrEnum):
    """Which of the two published sets of promoters is made."""

    STANDARD = "standard"
    HARD = "hard"


class Rule(StrEnum):
    """When the motifs of a treatment make a promoter respond to it."""

    ANYWHERE = "anywhere"
    """One motif, wherever it stands."""
    NEAR = "near"
    """The motif of another treatment, near the gene only."""
    FAR = "far"
    """The motif of another treatment, far from the gene only."""
    OPPOSITE = "opposite"
    """Two motifs, one raises and one lowers; the other treatment of the couple answers the other way round."""
    PAIR = "pair"
    """Two motifs that are both needed."""
