"""What can be chosen when structures are read; nothing here imports NumPy or Biopython."""

from enum import StrEnum


class MissingCb(StrEnum):
    """Substitute for a missing CB."""

    CA = "ca"
    VIRTUAL = "virtual"
    """Its ideal place by N, CA and C; CA if one of them is missing."""
