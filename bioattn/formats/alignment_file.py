"""Reading an alignment of any format, plain, gzip or xz, and writing A3M.

The format is found by content; docs/formats/alignments.md has the rules. Two readings of rows exist. In A3M and
A2M the case carries meaning: upper case and `-` are match columns, lower case is an insertion; A2M pads insertions
with `.` to equal length, A3M leaves the padding out, and both are read alike. In all other rows every character is
a column: lower case is read as upper case, `.`, `~`, `_` and `?` as gaps.

PHYLIP has strict names of ten characters or relaxed ones ending at white space, interleaved or sequential. Nothing
in a file says which of the four it is: all are tried, and the row count and row lengths of the first line decide.
(Biopython reads relaxed names in interleaved files only, and its errors name no line; pyhmmer takes no row name
twice. So the readers are ours.)
"""

import hashlib
import io
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from bioattn.errors import BioattnError, FormatError
from bioattn.formats.alignment import (
    LOWER,
    WHITE_SPACE,
    Alignment,
    RawRows,
    has_dots_in_match_columns,
    match_columns_by_case,
    read_columns,
    read_with_insertions,
)
from bioattn.io.files import XZ_MAGIC, decompression_errors, is_packed, open_bytes, sha256_of, text_output
from bioattn.system.memory import free_memory
from bioattn.text import counted, human_bytes, quoted

LOGGER = logging.getLogger("bioattn")
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
    b"HMMER3": "a profile of HMMER, not an alignment",
    b"HHsearch": "a profile of HH-suite, not an alignment",
    b"##maf": "MAF",
    b"@": "FASTQ, not an alignment",
    b"<": "XML or HTML",
}
"""First bytes of what people may take for one of ours."""


def read_alignment(path: Path) -> Alignment:
    """Read the alignment in `path`, whose format is found by content.

    Raises: FormatError naming file, line and row for anything that is no alignment of its format: unequal rows,
    letters that are no residues, damaged compression, text that is not UTF-8; BioattnError when unreadable, or
    larger than memory.
    """
    return read_with_digest(path)[0]


def read_with_digest(path: Path) -> tuple[Alignment, str]:
    """An alignment as `read_alignment` reads it, and the SHA-256 of the file."""
    source = str(path)
    data, digest = _read_text(path)
    if not data.strip():
        raise FormatError(f"{source}: is empty, an alignment is needed")
    if b"\0" in data:
        data = _one_query(source, data)
    return find_parser(source, data)(source, data), digest


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


# --- FASTA-like records and bare rows ---


def parse_a3m(source: str, data: bytes) -> Alignment:
    """Read A3M or A2M text; HH-suite's structure records are passed over.

    Raises: FormatError naming the line for text before the first `>` and rows that do not fit each other (see
    `read_with_insertions`).
    """
    return read_with_insertions(_split_records(source, data)[0])


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
        misfit = len(widths) != 1 or has_dots_in_match_columns(raw)
        if misfit and not _NAMED_A3M.search(source):
            LOGGER.warning(
                "%s: lower-case letters are read as aligned residues, as in FASTA, for in A3M, where they are "
                "insertions, '.' stands beside them only and the other letters give rows of one length",
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


# --- rows broken into blocks ---

STOCKHOLM_HEADER = b"# STOCKHOLM"
CLUSTAL_HEADER = re.compile(
    rb"(CLUSTAL|MUSCLE|PROBCONS|MSAPROBS|KALIGN)\b|.*multiple sequence alignment", re.IGNORECASE
)
PHYLIP_HEADER = re.compile(rb"\s*(\d{1,9})\s+(\d{1,9})((?:\s+[A-Za-z])*)\s*$")
"""Rows, columns and option letters of old programs."""
_CONSENSUS = b" \t*:."
_NAME_LENGTH = 10
_NO_LETTERS = re.compile(rb"[^A-Za-z?*.~-]")


class _Blocks(RawRows):
    """Rows put together from their pieces: by name, and rows of one name by their order within a block."""

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self.row_of: dict[tuple[str, int], int] = {}
        self.in_block: Counter[str] = Counter()

    def add_piece(self, line: int, name: str, text: bytes) -> None:
        row = self.row_of.setdefault((name, self.in_block[name]), len(self.row_of))
        self.in_block[name] += 1
        if row == len(self.names):
            self.add(line, name, text)
        else:
            self.texts[row] += text


def parse_stockholm(source: str, data: bytes) -> Alignment:
    """Read a Stockholm file of one alignment.

    Insert columns (see `match_columns_by_case`) become insertions; where the case says nothing of the kind, each
    column is a match column. `#=GS name DE` is the row's description; all other annotation is passed over. A
    missing `//` is warned about.

    Raises: FormatError naming the line for a missing header, several alignments, a row without letters, and rows
    that do not fit each other.
    """
    blocks = _Blocks(source)
    described: dict[str, str] = {}
    ended = False
    for number, line in _after_header(source, data, re.compile(STOCKHOLM_HEADER), "# STOCKHOLM 1.0"):
        if ended and line.strip():
            raise FormatError(
                f"{source}:{number}: a second alignment starts here; split the file, one alignment each"
            )
        if line.startswith(b"//"):
            ended = True
        elif not line.strip():
            blocks.in_block.clear()
        elif line.startswith(b"#"):
            words = line.decode("utf-8").split(maxsplit=3)
            if words[0] == "#=GS" and words[2:3] == ["DE"]:
                described[words[1]] = f"{described.get(words[1], '')} {''.join(words[3:]).strip()}".strip()
        else:
            name, *letters = line.split(maxsplit=1)
            if not letters:
                raise FormatError(
                    f"{source}:{number}: a row needs a name and its letters, the line is "
                    f"{line.decode('utf-8').strip()[:60]!r}"
                )
            blocks.add_piece(number, name.decode("utf-8"), letters[0].strip())
    if not ended:
        LOGGER.warning("%s: the closing '//' is missing; the file may be cut off", source)
    blocks.descriptions = [described.get(name, "") for name in blocks.names]
    return read_columns(blocks) if match_columns_by_case(blocks) is None else read_with_insertions(blocks)


def parse_clustal(source: str, data: bytes) -> Alignment:
    """Read a Clustal file: a header line, then blocks of `name letters [count]`.

    Consensus lines and counts are passed over.

    Raises: FormatError naming the line for a missing header, a line that is neither row nor consensus, and rows
    that do not fit each other.
    """
    blocks = _Blocks(source)
    for number, line in _after_header(source, data, CLUSTAL_HEADER, "such as 'CLUSTAL W (1.83)'"):
        if line[:1] in b" \t" and not line.translate(None, _CONSENSUS):
            blocks.in_block.clear()
            continue
        words = line.decode("utf-8").split()
        if len(words) not in (2, 3) or (len(words) == 3 and not words[2].isdecimal()):
            raise FormatError(
                f"{source}:{number}: a Clustal row is 'name letters' and perhaps a count, the line is "
                f"{line.decode('utf-8').strip()[:60]!r}"
            )
        blocks.add_piece(number, words[0], words[1].encode("utf-8"))
    return read_columns(blocks)


def _after_header(
    source: str, data: bytes, header: re.Pattern[bytes], shown: str
) -> Iterator[tuple[int, bytes]]:
    """The lines below the first that is not blank. Raises: FormatError when that is no `header`."""
    started = False
    for number, line in enumerate(data.split(b"\n"), start=1):
        if started:
            yield number, line
        elif line.strip():
            started = header.match(line) is not None
            if not started:
                raise FormatError(f"{source}:{number}: the first line of this format is {shown}")


def parse_phylip(source: str, data: bytes) -> Alignment:
    """Read a PHYLIP file of one alignment; blank lines are passed over, `?` is read as a gap.

    Raises: FormatError for a first line that is not two numbers, a file that fits none of the four layouts or two
    of them with different rows, letters that are no residues, and `.` in any row but the first: it means the
    letter of the first row in some files and a gap in others, which a `.` in the first row tells.
    """
    lines = [(number, text) for number, text in enumerate(data.split(b"\n"), start=1) if text.strip()]
    match = PHYLIP_HEADER.match(lines[0][1]) if lines else None
    if not match:
        raise FormatError(f"{source}: a PHYLIP file starts with the numbers of rows and columns")
    num_rows, num_columns = int(match[1]), int(match[2])
    size = f"{counted(num_rows, 'row')} of {counted(num_columns, 'column')}"
    if not num_rows or not num_columns:
        raise FormatError(f"{source}:{lines[0][0]}: the alignment holds {size}")
    readings: list[RawRows] = []
    misfits: list[tuple[int, str]] = []
    for strict in (False, True):
        for sequential in (False, True):
            try:
                readings.append(_phylip_rows(source, lines[1:], num_rows, num_columns, strict, sequential))
            except ValueError as misfit:
                misfits.append(misfit.args)
    if not readings:
        line, reason = max(misfits, key=lambda misfit: misfit[0])
        raise FormatError(f"{source}:{line}: {reason}; the first line promises {size}")
    raw = readings[0]
    if any(reading.texts != raw.texts for reading in readings):
        raise FormatError(
            f"{source}: can be read as interleaved and as sequential PHYLIP with different rows; write it as FASTA"
        )
    for index, text in enumerate(raw.texts):
        if b"." in text and b"." not in raw.texts[0]:
            raise FormatError(
                f"{raw.where(index)}: '.' means the letter of the first row in some PHYLIP files and a gap in "
                "others; write the letter or -"
            )
    return read_columns(raw)


def _phylip_rows(
    source: str,
    lines: list[tuple[int, bytes]],
    num_rows: int,
    num_columns: int,
    strict: bool,
    sequential: bool,
) -> RawRows:
    """The rows in one of the four layouts. Raises: ValueError with line and reason when they do not come out."""
    raw = RawRows(source)
    rest = iter(lines)
    for row in range(num_rows):
        number, start = next(rest, (0, b""))
        if not number:
            raise ValueError(lines[-1][0] if lines else 1, f"the file ends after {counted(row, 'row')}")
        name, text = (
            (start[:_NAME_LENGTH], start[_NAME_LENGTH:]) if strict else [*start.split(maxsplit=1), b""][:2]
        )
        letters = _letters(number, text)
        if sequential:
            while len(letters) < num_columns and (line := next(rest, None)):
                letters += _letters(*line)
        else:
            letters += b"".join(_letters(*line) for line in lines[num_rows + row :: num_rows])
        shown = name.decode("utf-8", "replace").strip()
        if len(letters) != num_columns:
            raise ValueError(number, f"row {shown!r} has {counted(len(letters), 'column')}")
        raw.add(number, shown, letters)
    if sequential and (beyond := next(rest, None)):
        raise ValueError(beyond[0], "the file goes on after the last row")
    return raw


def _letters(number: int, text: bytes) -> bytes:
    """The letters of a line without the spaces people put after every ten."""
    letters = text.translate(None, WHITE_SPACE)
    wrong = _NO_LETTERS.search(letters)
    if wrong:
        raise ValueError(number, f"{wrong[0].decode('utf-8', 'replace')!r} stands where letters are expected")
    return letters


def _by_biopython(format: str, source: str, data: bytes) -> Alignment:
    """Read NEXUS, GCG's MSF or PIR. Raises: FormatError in Biopython's words."""
    from Bio import AlignIO

    raw = RawRows(source)
    text = re.split(r"begin\s+trees", data.decode("utf-8"), flags=re.IGNORECASE)[0]
    try:
        records = AlignIO.read(io.StringIO(text), format)
    except MemoryError:
        raise
    except Exception as error:  # whatever damaged text leads Biopython to
        reason = " ".join(str(error).split())
        raise FormatError(f"{source}: cannot be read as {format.upper()} ({reason})") from error
    for record in records:
        raw.add(1, record.id, str(record.seq).encode())
    return read_columns(raw)


# --- which format it is ---


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


def find_parser(source: str, data: bytes) -> Callable[[str, bytes], Alignment]:
    """The reader of a text, or of its beginning, not blank. Raises: FormatError when it is no alignment."""
    lines = (line.rstrip() for line in io.BytesIO(data) if line.strip())
    first = next(lines)
    if first.startswith(STOCKHOLM_HEADER):
        return parse_stockholm
    # ColabFold's A3M and old FASTA have comments on top.
    record = first if not first.startswith(_COMMENT) else next((x for x in lines if x[:1] not in b"#;"), b"")
    if re.match(rb">(P1|F1|DL|DC|RL|RC|N3|N1|XX);", record):
        return partial(_by_biopython, "pir")
    if record.startswith(b">"):
        return parse_records
    if CLUSTAL_HEADER.match(first):
        return parse_clustal
    if PHYLIP_HEADER.match(first):
        return parse_phylip
    if first.upper().startswith(b"#NEXUS"):
        return partial(_by_biopython, "nexus")
    if first.startswith((b"!!AA_MULTIPLE", b"!!NA_MULTIPLE", b"PileUp")):
        return partial(_by_biopython, "msf")
    if _BARE_ROW.match(first) and all(_BARE_ROW.match(line) for line in lines):
        return parse_psicov
    known = next((f"is {name}" for start, name in _OTHER_FORMATS.items() if first.startswith(start)), None)
    shown = first[:40].decode("utf-8", "replace")
    raise FormatError(
        f"{source}: {known or f'starts with {shown!r}, which no format known here does'}; alignments are read "
        "from A3M, A2M, aligned FASTA, Stockholm, Clustal, PSICOV .aln (bare rows), PHYLIP, NEXUS, MSF and PIR"
    )


def _is_packed_and_fits(path: Path) -> bool:
    """Whether a file is packed. Raises: BioattnError where it needs more memory than there is."""
    with path.open("rb") as file:
        packed = is_packed(file.read(len(XZ_MAGIC)))
    free = free_memory()
    size = path.stat().st_size * (_PACKED if packed else 1)
    needed = BYTES_PER_LETTER * size
    if free is not None and needed > free:
        raise BioattnError(
            f"{path}: an alignment of about {human_bytes(size)} of text needs about {human_bytes(needed)} of "
            f"memory, {human_bytes(free)} are free; give it fewer rows (the best ones usually come first)"
        )
    return packed


def _read_text(path: Path) -> tuple[bytes, str]:
    """All bytes of a text file, decompressed, line ends as `\\n`, no byte-order mark, checked to be UTF-8; and the
    SHA-256 of the file."""
    with decompression_errors(path):
        packed = path.is_file() and _is_packed_and_fits(path)
        with open_bytes(path) as file:
            data = file.read()
        digest = sha256_of(path) if packed else hashlib.sha256(data).hexdigest()
        if not data.isascii():
            data.decode("utf-8")
            data = data.removeprefix(b"\xef\xbb\xbf")
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    # MMseqs2 ends each alignment of its databases with a NUL, and ColabFold's server sends it along.
    return data.removesuffix(b"\0"), digest
