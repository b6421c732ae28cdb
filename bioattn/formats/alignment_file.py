"""Reading an alignment of any format, plain, gzip or xz, from a file or standard input.

The format is found by content; docs/formats/alignments.md has the rules.
"""

import io
import re
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

from bioattn.errors import FormatError
from bioattn.formats.a3m import parse_a3m, parse_aligned_fasta, parse_records
from bioattn.formats.alignment import Alignment
from bioattn.formats.alignment_rows import WHITE_SPACE, RawRows, read_columns
from bioattn.formats.block_alignments import (
    CLUSTAL_HEADER,
    PHYLIP_HEADER,
    STOCKHOLM_HEADER,
    parse_clustal,
    parse_phylip,
    parse_stockholm,
)
from bioattn.io.files import XZ_MAGIC, decompression_errors, is_packed, open_bytes
from bioattn.io.unpacking import unpacked
from bioattn.text import quoted

STANDARD_INPUT = Path("-")


class AlignmentFormat(StrEnum):
    """The formats `read_alignment` knows."""

    A3M = "a3m"
    A2M = "a2m"
    FASTA = "fasta"
    STOCKHOLM = "stockholm"
    CLUSTAL = "clustal"
    PSICOV = "psicov"
    PHYLIP = "phylip"


def parse_psicov(source: str, data: bytes) -> Alignment:
    """Read the `.aln` of PSICOV, CCMpred and their kin: one row a line, no names.

    Rows are named `row1`, `row2`, ... Blank lines are passed over.

    Raises: FormatError naming the line for rows that do not fit each other or a row broken by white space.
    """
    raw = RawRows(source)
    for number, line in enumerate(data.split(b"\n"), start=1):
        text = line.strip(WHITE_SPACE)
        if text:
            raw.add(number, "", text)
    return read_columns(raw)


_PARSERS: dict[AlignmentFormat, Callable[[str, bytes], Alignment]] = {
    AlignmentFormat.A3M: parse_a3m,
    AlignmentFormat.A2M: parse_a3m,
    AlignmentFormat.FASTA: parse_aligned_fasta,
    AlignmentFormat.STOCKHOLM: parse_stockholm,
    AlignmentFormat.CLUSTAL: parse_clustal,
    AlignmentFormat.PSICOV: parse_psicov,
    AlignmentFormat.PHYLIP: parse_phylip,
}
_BARE_ROW = re.compile(rb"[A-Za-z.~_*?-]+[ \t]*$")
_OTHER_FORMATS = {
    b"#NEXUS": "NEXUS",
    b"HMMER3": "a profile of HMMER, not an alignment",
    b"HHsearch": "a profile of HH-suite, not an alignment",
    b"##maf": "MAF",
    b"!!AA_MULTIPLE": "GCG MSF",
    b"!!NA_MULTIPLE": "GCG MSF",
    b"PileUp": "GCG MSF",
    b"MSF:": "GCG MSF",
    b"@": "FASTQ, not an alignment",
    b"<": "XML or HTML",
}
"""First bytes of what people may take for one of ours."""


def read_alignment(path: Path, *, format: AlignmentFormat | None = None) -> Alignment:
    """Read the alignment in `path` (`-`: standard input); without `format` the content decides.

    Raises: FormatError naming file, line and row for anything that is no alignment of that format: unequal rows,
    letters that are no residues, damaged compression, text that is not UTF-8; BioattnError when unreadable.
    """
    source = "standard input" if path == STANDARD_INPUT else str(path)
    data = _read_text(path, source)
    if not data.strip():
        raise FormatError(f"{source}: is empty, an alignment is needed")
    if b"\0" in data:
        data = _join_blocks(source, data)
    parse = _PARSERS[format] if format else _find_parser(source, data)
    return parse(source, data)


def _join_blocks(source: str, data: bytes) -> bytes:
    """The A3M of one query in several databases, each block ended by a NUL and begun by the query.

    Raises: FormatError when the blocks are of several queries, as in a result database of MMseqs2, or no A3M.
    """
    blocks = [block.strip(WHITE_SPACE) for block in data.split(b"\0") if block.strip(WHITE_SPACE)]
    if not blocks or not all(block.startswith(b">") for block in blocks):
        raise FormatError(f"{source}: holds NUL bytes, so it is no text")
    queries = list(dict.fromkeys(block.split(b"\n>", 1)[0] for block in blocks))
    if len(queries) > 1:
        names = [query[1:].split(b"\n", 1)[0].decode("utf-8")[:60] for query in queries]
        raise FormatError(
            f"{source}: holds alignments of {len(queries):,} queries ({quoted(names)}), NUL bytes between them; "
            "give each a file of its own (mmseqs unpackdb makes them of a database)"
        )
    return b"\n".join(blocks) + b"\n"


def _find_parser(source: str, data: bytes) -> Callable[[str, bytes], Alignment]:
    lines = (line.rstrip() for line in io.BytesIO(data) if line.strip())
    first = next(lines)
    if first.startswith(STOCKHOLM_HEADER):
        return parse_stockholm
    # ColabFold's A3M and old FASTA have comments on top.
    record = (
        first if not first.startswith((b"#", b";")) else next((x for x in lines if x[:1] not in b"#;"), b"")
    )
    if record.startswith(b">"):
        return parse_records
    if CLUSTAL_HEADER.match(first):
        return parse_clustal
    if PHYLIP_HEADER.match(first):
        return parse_phylip
    if _BARE_ROW.match(first) and all(_BARE_ROW.match(line) for line in lines):
        return parse_psicov
    known = next((f"is {name}" for start, name in _OTHER_FORMATS.items() if first.startswith(start)), None)
    shown = first[:40].decode("utf-8", "replace")
    raise FormatError(
        f"{source}: {known or f'starts with {shown!r}, which no format known here does'}; alignments are read "
        "from A3M, A2M, aligned FASTA, Stockholm, Clustal, PSICOV .aln (bare rows) and PHYLIP"
    )


def _read_text(path: Path, source: str) -> bytes:
    """All bytes of a text file, decompressed, line ends as `\\n`, no byte-order mark; checked to be UTF-8."""
    with decompression_errors(Path(source)):
        if path == STANDARD_INPUT:
            data = sys.stdin.buffer.read()
            if is_packed(data):
                with unpacked(io.BytesIO(data), source, len(data), xz=data.startswith(XZ_MAGIC)) as file:
                    data = file.read()
        else:
            with open_bytes(path) as file:
                data = file.read()
        if not data.isascii():
            data.decode("utf-8")
            data = data.removeprefix(b"\xef\xbb\xbf")
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    # MMseqs2 ends each alignment of its databases with a NUL, and ColabFold's server sends it along.
    return data.removesuffix(b"\0")
