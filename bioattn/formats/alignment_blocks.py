"""Alignments whose rows are broken into blocks: Stockholm, Clustal of any program, and PHYLIP.

PHYLIP has strict names of ten characters or relaxed ones ending at white space, interleaved or sequential. Nothing
in a file says which of the four it is: all are tried, and the row count and row lengths of the first line decide.
(Biopython reads relaxed names in interleaved files only, and its errors name no line; pyhmmer takes no row name
twice. So the readers are ours.)
"""

import logging
import re
from collections import Counter
from collections.abc import Iterator

from bioattn.errors import FormatError
from bioattn.formats.alignment import Alignment
from bioattn.formats.alignment_rows import (
    WHITE_SPACE,
    RawRows,
    match_columns_by_case,
    read_columns,
    read_with_insertions,
)
from bioattn.text import counted

LOGGER = logging.getLogger("bioattn")
STOCKHOLM_HEADER = b"# STOCKHOLM"
CLUSTAL_HEADER = re.compile(
    rb"(CLUSTAL|MUSCLE|PROBCONS|MSAPROBS|KALIGN)\b|.*multiple sequence alignment", re.IGNORECASE
)
PHYLIP_HEADER = re.compile(rb"\s*(\d{1,9})\s+(\d{1,9})((?:\s+[A-Za-z])*)\s*$")
"""Rows, columns and option letters of old programs."""
_CONSENSUS = b" \t*:."
_NAME_LENGTH = 10
_NO_LETTERS = re.compile(rb"[^A-Za-z?*.~-]")
_Line = tuple[int, bytes]
"""Number of the line, from 1, and what it says."""


class _Blocks:
    """Rows put together from their pieces: by name, and rows of one name by their order within a block."""

    def __init__(self, source: str) -> None:
        self.raw = RawRows(source)
        self._row_of: dict[tuple[str, int], int] = {}
        self._in_block: Counter[str] = Counter()

    def end_block(self) -> None:
        self._in_block.clear()

    def add(self, line: int, name: str, text: bytes) -> None:
        key = name, self._in_block[name]
        self._in_block[name] += 1
        row = self._row_of.setdefault(key, len(self._row_of))
        if row == len(self.raw.names):
            self.raw.add(line, name, text)
        else:
            self.raw.texts[row] += text


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
            blocks.end_block()
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
            blocks.add(number, name.decode("utf-8"), letters[0].strip())
    if not ended:
        LOGGER.warning("%s: the closing '//' is missing; the file may be cut off", source)
    blocks.raw.descriptions = [described.get(name, "") for name in blocks.raw.names]
    by_case = match_columns_by_case(blocks.raw) is not None
    return read_with_insertions(blocks.raw) if by_case else read_columns(blocks.raw)


def parse_clustal(source: str, data: bytes) -> Alignment:
    """Read a Clustal file: a header line, then blocks of `name letters [count]`.

    Consensus lines and counts are passed over.

    Raises: FormatError naming the line for a missing header, a line that is neither row nor consensus, and rows
    that do not fit each other.
    """
    blocks = _Blocks(source)
    for number, line in _after_header(source, data, CLUSTAL_HEADER, "such as 'CLUSTAL W (1.83)'"):
        if line[:1] in b" \t" and not line.translate(None, _CONSENSUS):
            blocks.end_block()
            continue
        words = line.decode("utf-8").split()
        if len(words) not in (2, 3) or (len(words) == 3 and not words[2].isdecimal()):
            raise FormatError(
                f"{source}:{number}: a Clustal row is 'name letters' and perhaps a count, the line is "
                f"{line.decode('utf-8').strip()[:60]!r}"
            )
        blocks.add(number, words[0], words[1].encode("utf-8"))
    return read_columns(blocks.raw)


def _after_header(source: str, data: bytes, header: re.Pattern[bytes], shown: str) -> Iterator[_Line]:
    """The lines below the first that is not blank. Raises: FormatError when that is no `header`."""
    started = False
    for number, line in enumerate(data.split(b"\n"), start=1):
        if started:
            yield number, line
        elif line.strip():
            started = header.match(line) is not None
            if not started:
                raise FormatError(f"{source}:{number}: the first line of this format is {shown}")


class _Misfit(Exception):  # noqa: N818 - not an error until all layouts have failed
    """The file is not in this layout; `line` is how far it went."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


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
    misfits: list[_Misfit] = []
    for strict in (False, True):
        for sequential in (False, True):
            try:
                readings.append(_phylip_rows(source, lines[1:], num_rows, num_columns, strict, sequential))
            except _Misfit as misfit:
                misfits.append(misfit)
    if not readings:
        furthest = max(misfits, key=lambda misfit: misfit.line)
        raise FormatError(f"{source}:{furthest.line}: {furthest}; the first line promises {size}")
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
    return read_columns(raw, gaps=b"?.")


def _phylip_rows(
    source: str, lines: list[_Line], num_rows: int, num_columns: int, strict: bool, sequential: bool
) -> RawRows:
    """The rows in one of the four layouts. Raises: _Misfit when they do not come out."""
    raw = RawRows(source)
    rest = iter(lines)
    for row in range(num_rows):
        number, start = next(rest, (0, b""))
        if not number:
            raise _Misfit(lines[-1][0] if lines else 1, f"the file ends after {counted(row, 'row')}")
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
            raise _Misfit(number, f"row {shown!r} has {counted(len(letters), 'column')}")
        raw.add(number, shown, letters)
    if sequential and (beyond := next(rest, None)):
        raise _Misfit(beyond[0], "the file goes on after the last row")
    return raw


def _letters(number: int, text: bytes) -> bytes:
    """The letters of a line without the spaces people put after every ten."""
    letters = text.translate(None, WHITE_SPACE)
    wrong = _NO_LETTERS.search(letters)
    if wrong:
        raise _Misfit(number, f"{wrong[0].decode('utf-8', 'replace')!r} stands where letters are expected")
    return letters
