"""Reading an alignment of any format, plain, gzip or xz, from a file or standard input, and writing A3M.

The format is found by content; docs/formats/alignments.md has the rules. A3M, A2M and aligned FASTA are three
readings of FASTA records. In A3M and A2M upper case and `-` are match columns and lower case is an insertion; A2M
pads insertions with `.` to equal length, A3M leaves the padding out, and both are read alike. In aligned FASTA
every character is a column.
"""

import io
import logging
import re
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

from bioattn.errors import BioattnError, FormatError
from bioattn.formats.alignment import LOWER, Alignment
from bioattn.formats.alignment_blocks import (
    CLUSTAL_HEADER,
    PHYLIP_HEADER,
    STOCKHOLM_HEADER,
    parse_clustal,
    parse_phylip,
    parse_stockholm,
)
from bioattn.formats.alignment_rows import (
    WHITE_SPACE,
    RawRows,
    match_columns_by_case,
    read_columns,
    read_with_insertions,
)
from bioattn.io.files import XZ_MAGIC, decompression_errors, is_packed, open_bytes, text_output
from bioattn.io.unpacking import unpacked
from bioattn.system.memory import free_memory
from bioattn.text import human_bytes, quoted

LOGGER = logging.getLogger("bioattn")
STANDARD_INPUT = Path("-")
ANNOTATION_RECORDS = ("ss_dssp", "sa_dssp", "aa_dssp", "ss_pred", "aa_pred", "ss_conf")
"""Records of HH-suite that are no rows: one character per match column, digits among them."""
BYTES_PER_LETTER = 8
"""Peak memory of reading and preparing an alignment, by the size of its text (docs/formats/msa.md)."""
_PACKED = 4
"""How much smaller alignments are packed, at least."""
_COMMENT = (b"#", b";")
_NAMED_A3M = re.compile(r"\.(a3m|a2m)(\.gz|\.xz)?$")
_CHAINS = re.compile(rb"#(\d+(?:,\d+)*)[ \t]+(\d+(?:,\d+)*)[ \t]*\n")
"""The first line of ColabFold's A3M: lengths of the chains, and copies of each; `#59 1` is one chain."""
_BARE_ROW = re.compile(rb"[A-Za-z.~_*?-]+[ \t]*$")
_OTHER_FORMATS = {
    b"#NEXUS": "NEXUS",
    b"HMMER3": "a profile of HMMER, not an alignment",
    b"HHsearch": "a profile of HH-suite, not an alignment",
    b"##maf": "MAF",
    b"!!AA_MULTIPLE": "GCG MSF",
    b"PileUp": "GCG MSF",
    b"@": "FASTQ, not an alignment",
    b"<": "XML or HTML",
}
"""First bytes of what people may take for one of ours."""


class AlignmentFormat(StrEnum):
    """The formats `read_alignment` knows."""

    A3M = "a3m"
    A2M = "a2m"
    FASTA = "fasta"
    STOCKHOLM = "stockholm"
    CLUSTAL = "clustal"
    PSICOV = "psicov"
    PHYLIP = "phylip"


def read_alignment(path: Path, *, format: AlignmentFormat | None = None) -> Alignment:
    """Read the alignment in `path` (`-`: standard input); without `format` the content decides.

    Raises: FormatError naming file, line and row for anything that is no alignment of that format: unequal rows,
    letters that are no residues, damaged compression, text that is not UTF-8; BioattnError when unreadable, or
    larger than memory.
    """
    source = "standard input" if path == STANDARD_INPUT else str(path)
    data = _read_text(path, source)
    if not data.strip():
        raise FormatError(f"{source}: is empty, an alignment is needed")
    if b"\0" in data:
        data = _one_query(source, data)
    parse = _PARSERS[format] if format else _find_parser(source, data)
    return parse(source, data)


def write_a3m(alignment: Alignment, path: Path) -> None:
    """Write A3M whole or not at all, one line a sequence; a `.gz` name gives gzip. `parse_a3m` reads it back.

    Raises: FormatError for a name or description that would not come back; BioattnError when it cannot be written.
    """
    with text_output(path) as file:
        for index, (name, description) in enumerate(
            zip(alignment.names, alignment.descriptions, strict=True)
        ):
            header = f"{name} {description}" if description else name
            if header.split(maxsplit=1)[:1] != [name] or "\n" in header or "\r" in header:
                raise FormatError(
                    f"row {index + 1}: {header[:60]!r} cannot be a header: no name, or a line break"
                )
            file.write(f">{header}\n{alignment.row_with_insertions(index)}\n")


def parse_a3m(source: str, data: bytes) -> Alignment:
    """Read A3M or A2M text; HH-suite's structure records are passed over.

    Raises: FormatError naming the line for text before the first `>` and rows that do not fit each other (see
    `read_with_insertions`).
    """
    return read_with_insertions(_split_records(source, data)[0])


def parse_aligned_fasta(source: str, data: bytes) -> Alignment:
    """Read FASTA text in which each character is a column.

    Raises: FormatError naming the line for text before the first `>` and rows that do not fit each other.
    """
    return read_columns(_split_records(source, data)[0])


def parse_records(source: str, data: bytes) -> Alignment:
    """Read A3M, A2M or aligned FASTA; the letters decide which (rules in docs/formats/alignments.md)."""
    raw, annotated = _split_records(source, data)
    if annotated:
        return read_with_insertions(raw)
    has_lower = any(text != text.upper() for text in raw.texts)
    has_upper = any(text != text.lower() for text in raw.texts)
    if not (has_lower and has_upper):
        return read_columns(raw)
    if len({len(text) for text in raw.texts}) == 1:
        widths = {len(text.translate(None, LOWER + b".")) for text in raw.texts}
        if len(widths) != 1 and not _NAMED_A3M.search(source):
            LOGGER.warning(
                "%s: the rows are equally long only with their lower-case letters, so these are read as aligned "
                "residues, as in FASTA; in A3M they would be insertions",
                source,
            )
            return read_columns(raw)
        if raw.names[1:] == [] or match_columns_by_case(raw) is None:
            LOGGER.warning(
                "%s: lower-case letters are read as insertions, as in A3M; write them in upper case if they are "
                "aligned residues",
                source,
            )
    return read_with_insertions(raw)


def _split_records(source: str, data: bytes) -> tuple[RawRows, bool]:
    """The records without white space and comment lines, and whether some are HH-suite's annotation."""
    chains = _CHAINS.match(data)
    if chains is not None and (b"," in chains[1] or int(chains[2]) > 1):
        raise FormatError(
            f"{source}:1: {chains[0].decode().strip()!r} is ColabFold's header of a multimer (lengths of chains, "
            "copies of each), and models here read one chain; give the alignment of one chain"
        )
    first, *records = (b"\n" + data).split(b"\n>")
    for number, text in enumerate(first.split(b"\n")):
        if text.strip() and not text.startswith(_COMMENT):
            shown = text[:40].decode("utf-8", "replace")
            raise FormatError(f"{source}:{number}: {shown!r} stands where a header ('>name') is expected")
    line = 1 + first.count(b"\n")
    raw, annotated = RawRows(source), False
    for record in records:
        header, _, body = record.partition(b"\n")
        name, description = [*header.decode("utf-8").split(maxsplit=1), "", ""][:2]
        if b"#" in body or b";" in body:
            body = b"\n".join(text for text in body.split(b"\n") if not text.startswith(_COMMENT))
        if name in ANNOTATION_RECORDS:
            annotated = True
        else:
            raw.add(line, name, body.translate(None, WHITE_SPACE), description.rstrip())
        line += 1 + record.count(b"\n")
    return raw, annotated


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


def _one_query(source: str, data: bytes) -> bytes:
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
    record = first if not first.startswith(_COMMENT) else next((x for x in lines if x[:1] not in b"#;"), b"")
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


def _refuse_too_large(path: Path) -> None:
    """Raises: BioattnError with the estimate for a file that needs more memory than there is."""
    free = free_memory()
    if free is None or not path.is_file():
        return
    with path.open("rb") as file:
        packed = is_packed(file.read(len(XZ_MAGIC)))
    size = path.stat().st_size * (_PACKED if packed else 1)
    needed = BYTES_PER_LETTER * size
    if needed > free:
        raise BioattnError(
            f"{path}: an alignment of about {human_bytes(size)} of text needs about {human_bytes(needed)} of "
            f"memory, {human_bytes(free)} are free; give it fewer rows (the best ones usually come first)"
        )


def _read_text(path: Path, source: str) -> bytes:
    """All bytes of a text file, decompressed, line ends as `\\n`, no byte-order mark; checked to be UTF-8."""
    with decompression_errors(Path(source)):
        _refuse_too_large(path)
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
