"""What can be chosen of sequence datasets; nothing here imports NumPy."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from bioattn.io.settings import Settings, Writes, argument, option, output_option


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


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguagePreparation(Settings):
    """Make a dataset of sequences for training, split without leakage.

    Writes X.dataset.h5 and X.dataset.audit.tsv, an audit: every record kept or dropped, and why. Files are
    streamed: a genome of any size needs little memory. The split is by record for five chromosomes or more, by
    position for fewer, and by homology for shorter records, unless --split says otherwise.
    """

    fasta: tuple[Path, ...] = argument("FASTA...", "Genomes, genes or proteins: plain, gzip or xz.")
    output: Path = output_option("Dataset to write, X.dataset.h5.", Writes.FILE)
    alphabet: Alphabet = option("What the sequences are.", default=Alphabet.DNA)
    kmer: int = option("Bases of a token of DNA.", default=1, min=1)
    split: SequenceSplit | None = option("Units of the split [default: chosen by the records].")
    holdout: tuple[str, ...] = option(
        "test=IV,XV (records) or validation=0.1 (share of letters); can be repeated [default: a tenth each].",
        default=(),
    )
    split_table: Path | None = option(
        "TSV/CSV with the columns gene (or the first) and split (train, validation, test), instead of --split."
    )
    genetic_code: int = option("NCBI genetic code, to find related genes (codon).", default=1)
    seed: int = option("Seed of the split.", default=0, min=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslationPreparation(Settings):
    """Make a dataset of pairs of sequences for training, split without leakage.

    PAIRS are two FASTA files with equal ids, sources first, one table with the columns id, source and target, or
    a folder of `simulate translation`.
    Writes X.dataset.h5 and X.dataset.audit.tsv, an audit: every pair kept or dropped, and why. Coding sequences
    must be whole codons without inner stops and encode the protein on the other side. The split keeps pairs whose
    proteins share three residue 6-mers on one side (DNA: by 14-mers), unless --split says otherwise.
    """

    pairs: tuple[Path, ...] = argument(
        "PAIRS...", "Two FASTA files, or one table or folder.", recorded="pairs.{}"
    )
    output: Path = output_option("Dataset to write, X.dataset.h5.", Writes.FILE)
    source_alphabet: PairAlphabet = option("What sources are made of.", default=PairAlphabet.PROTEIN)
    target_alphabet: PairAlphabet = option("What targets are made of.", default=PairAlphabet.CODON)
    split: SequenceSplit | None = option(
        "homology, or record (at random) [default: homology; record for characters]."
    )
    holdout: tuple[str, ...] = option(
        "test=0.1 (share) or, with --split record, test=ID,ID; can be repeated [default: a tenth each].",
        default=(),
    )
    split_table: Path | None = option(
        "TSV/CSV with the columns gene (or the first) and split (train, validation, test), instead of --split; "
        "pairs that are not in it are left out."
    )
    genetic_code: int = option("NCBI genetic code of coding sequences.", default=1)
    seed: int = option("Seed of the split.", default=0, min=0)
