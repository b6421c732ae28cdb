"""Reading an alignment of any format, plain, gzip or xz, from a file or standard input.

The format is found by content; see docs/formats/alignments.md for the rules.
"""

import gzip
import lzma
import sys
from enum import StrEnum
from pathlib import Path

from bioattn.errors import FormatError
from bioattn.files import GZIP_MAGIC, XZ_MAGIC, decompression_errors, open_bytes
from bioattn.formats.a3m import alignment_of_records, split_annotation_records, split_records
from bioattn.formats.alignment import Alignment
from bioattn.formats.alignment_rows import RawRows, match_texts, read_columns

STANDARD_INPUT = Path("-")


class AlignmentFormat(StrEnum):
    """The formats `read_alignment` knows."""

    A3M = "a3m"
    A2M = "a2m"
    FASTA = "fasta"


def read_alignment(path: Path, *, format: AlignmentFormat | None = None) -> Alignment:
    """Read the alignment in `path` (`-`: standard input); without `format` the content decides.

    Raises: FormatError naming file, line and row for anything that is no alignment of that format: unequal rows,
    letters that are no residues, damaged compression, text that is not UTF-8; BioattnError when unreadable.
    """
    source = "standard input" if path == STANDARD_INPUT else str(path)
    data = _read_text(path)
    if not data.strip():
        raise FormatError(f"{source}: is empty")
    raw = split_records(source, data)
    if format is None:
        format = _format_of_records(raw)
    if format is AlignmentFormat.FASTA:
        return read_columns(raw)
    return alignment_of_records(raw)


def _format_of_records(raw: RawRows) -> AlignmentFormat:
    """A3M (A2M is read alike) or aligned FASTA, by the letters of the rows."""
    rows, notes = split_annotation_records(raw)
    if notes.names:
        return AlignmentFormat.A3M
    has_lower = any(not text.isupper() and text != text.upper() for text in rows.texts)
    has_upper = any(text != text.lower() for text in rows.texts)
    if not has_lower or not has_upper:
        return AlignmentFormat.FASTA
    widths = {len(text) for text in match_texts(rows)}
    if len(widths) == 1 or len({len(text) for text in rows.texts}) != 1:
        return AlignmentFormat.A3M
    return AlignmentFormat.FASTA


def _read_text(path: Path) -> bytes:
    """All bytes of a text file, decompressed, line ends as `\\n`, no byte-order mark; checked to be UTF-8."""
    with decompression_errors(path):
        if path == STANDARD_INPUT:
            data = sys.stdin.buffer.read()
            if data.startswith(GZIP_MAGIC):
                data = gzip.decompress(data)
            elif data.startswith(XZ_MAGIC):
                data = lzma.decompress(data)
        else:
            with open_bytes(path) as file:
                data = file.read()
        if not data.isascii():
            data.decode("utf-8")
            data = data.removeprefix(b"\xef\xbb\xbf")
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return data
