"""What can be chosen of sequence datasets; nothing here imports NumPy."""

from enum import StrEnum


class Alphabet(StrEnum):
    """What sequences are made of, and what a token is."""

    DNA = "dna"
    """Bases; tokens are words of one or more of them."""
    CODON = "codon"
    """Coding sequences; tokens are codons."""
    PROTEIN = "protein"
    """Residues; tokens are single ones."""
    ALIGNMENT = "alignment"
    """Rows of a protein alignment; tokens are residues and gaps, one a column."""


class PairAlphabet(StrEnum):
    """What one side of a pair of sequences is made of; a token is a base, a codon, a residue or a character."""

    DNA = "dna"
    CODON = "codon"
    PROTEIN = "protein"
    CHARACTERS = "characters"
    """Any printable characters; the data decide which."""


class SequenceSplit(StrEnum):
    """What the sides of a split are made of."""

    RECORD = "record"
    """Whole records, such as chromosomes."""
    HOMOLOGY = "homology"
    """Groups of related records."""
    POSITION = "position"
    """Of every record the first part is for training, the next for validation, the last for test."""
