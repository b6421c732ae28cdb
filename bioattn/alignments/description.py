"""What `bioattn inspect` says of protein alignments, their statistics and contact datasets."""

from pathlib import Path
from typing import Any

from bioattn.alignments.contact_dataset import SPLIT_NAMES, open_contact_dataset
from bioattn.alignments.filtering import count_residues
from bioattn.errors import FormatError
from bioattn.formats.alignment import looks_like_nucleotides
from bioattn.formats.alignment_file import read_alignment
from bioattn.io.files import read_json
from bioattn.text import some

_ALIGNMENT_STARTS = (b"# STOCKHOLM", b"CLUSTAL")
_NUCLEOTIDES = b"ACGTUNRYSWKMBDHV"
_FOREIGN_PART = 0.1
"""DNA with a larger part of letters that mean no nucleotide is taken for protein."""
_STATISTICS = ("query", "depth", "columns", "neff", "median_query_identity", "warnings")


def looks_like_alignment(head: bytes) -> bool:
    """Whether the first bytes of a file are those of a protein alignment, and not of promoters."""
    text = head.lstrip()
    if text.startswith(_ALIGNMENT_STARTS):
        return True
    if not text.startswith(b">"):
        return False
    letters = b"".join(line for line in text.upper().splitlines() if not line.startswith(b">"))
    letters = bytes(letter for letter in letters if ord("A") <= letter <= ord("Z"))
    return len(letters.translate(None, _NUCLEOTIDES)) > _FOREIGN_PART * len(letters)


def describe_alignment(path: Path) -> dict[str, Any]:
    """Size and gaps of an alignment, its first row. Raises: FormatError as `read_alignment`."""
    alignment = read_alignment(path)
    residues = int(count_residues(alignment.residues).sum())
    return {
        "rows": alignment.num_rows,
        "columns": alignment.num_columns,
        "letters": "DNA or RNA (models read proteins)" if looks_like_nucleotides(alignment) else "protein",
        "first_row": alignment.names[0],
        "gaps": f"{100 * (1 - residues / alignment.residues.size):.3g} %",
        "inserted_letters": sum(len(text) for row in alignment.insertions for text in row.values()),
    }


def describe_statistics(path: Path) -> dict[str, Any]:
    """The main entries of a statistics file. Raises: FormatError when they are not there."""
    content = read_json(path)
    missing = [name for name in _STATISTICS if name not in content]
    if missing:
        raise FormatError(f"{path}: statistics of an alignment without {', '.join(missing)}")
    return {name: content[name] for name in _STATISTICS}


def describe_contact_dataset(path: Path) -> dict[str, Any]:
    """The main figures of a contact dataset. Raises: FormatError when it is damaged."""
    dataset = open_contact_dataset(path)
    return {
        "proteins": some(dataset.ids),
        "groups": len(set(dataset.groups)),
        "proteins_per_split": {name: len(dataset.proteins_in(code)) for code, name in enumerate(SPLIT_NAMES)},
        "rows": {"fewest": int(dataset.num_rows.min()), "most": int(dataset.num_rows.max())},
        "columns": {"fewest": int(dataset.num_columns.min()), "most": int(dataset.num_columns.max())},
        "mapped_columns": int(dataset.num_mapped.sum()),
        "settings": dataset.metadata,
    }
