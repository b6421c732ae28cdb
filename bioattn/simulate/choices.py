"""What can be chosen when inputs are simulated; nothing here imports NumPy."""

from enum import StrEnum


class Difficulty(StrEnum):
    """Which of the two published sets of promoters is made."""

    STANDARD = "standard"
    HARD = "hard"
