"""What can be chosen when an MSA/pair model is run; nothing here imports torch."""

from enum import StrEnum


class Representation(StrEnum):
    """What of a model's inner state can be kept."""

    SINGLE = "single"
    """(R, C) of the trunk."""
    PAIR = "pair"
    """(R, R, C)"""
    MSA = "msa"
    """(S, R, C)"""
    MSA_FIRST_ROW = "msa_first_row"
    """(R, C)"""
    STRUCTURE = "structure"
    """(R, C) single representation that leaves the structure module."""
