"""Letters of sequences from files: FASTA, and rows of alignments."""

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from bioattn.errors import FormatError
from bioattn.formats.alignment_file import read_alignment
from bioattn.formats.fasta import read_fasta
from bioattn.sequences.choices import Alphabet

LOGGER = logging.getLogger("bioattn")


def warn_of_nucleotides(what: Path | str, instead: str) -> None:
    """Say that letters given as residues are those of nucleotides: A, C, G and T are residues, too."""
    LOGGER.warning(f"{what}: looks like DNA or RNA, and is read as proteins; for nucleotides give {instead}")


def read_letters(path: Path, alphabet: Alphabet) -> Iterator[tuple[str, str]]:
    """Name and letters of each record of a FASTA file, or match columns of each row of an alignment in any format;
    a stop at the end of a protein is left out.

    Raises: as `read_fasta` and `read_alignment`; FormatError for two rows of one name.
    """
    if alphabet is not Alphabet.ALIGNMENT:
        end = "*" if alphabet is Alphabet.PROTEIN else ""
        yield from ((record.name, record.sequence.removesuffix(end)) for record in read_fasta(path))
        return
    alignment = read_alignment(path)
    name, times = Counter(alignment.names).most_common(1)[0]
    if times > 1:
        raise FormatError(f"{path}: the name {name!r} stands there {times} times; each row needs its own")
    yield from ((name, alignment.row(row)) for row, name in enumerate(alignment.names))
