"""PHYLIP: strict names of ten characters or relaxed ones ending at white space, interleaved or sequential.

Nothing in a file says which of the four it is. All are tried; a row count and row lengths that come out as the
first line says decide. (Biopython reads relaxed names in interleaved files only, and its errors name no line.)
"""

import re

from bioattn.errors import FormatError
from bioattn.formats.alignment import Alignment
from bioattn.formats.alignment_rows import WHITE_SPACE, RawRows, empty_rows, read_columns
from bioattn.text import counted

PHYLIP_HEADER = re.compile(rb"\s*(\d{1,9})\s+(\d{1,9})((?:\s+[A-Za-z])*)\s*$")
"""Rows, columns and option letters of old programs."""
_NAME_LENGTH = 10
_NO_LETTERS = re.compile(rb"[^A-Za-z?*.~-]")
_Line = tuple[int, bytes]
"""Number of the line, from 1, and what it says."""


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
    (first, header), *lines = [
        (number, text) for number, text in enumerate(data.split(b"\n"), start=1) if text.strip()
    ] or [(1, b"")]
    match = PHYLIP_HEADER.match(header)
    if not match:
        raise FormatError(f"{source}: a PHYLIP file starts with the numbers of rows and columns")
    num_rows, num_columns = int(match[1]), int(match[2])
    size = f"{counted(num_rows, 'row')} of {counted(num_columns, 'column')}"
    if not num_rows or not num_columns:
        raise FormatError(f"{source}:{first}: the alignment holds {size}")
    readings: list[RawRows] = []
    misfits: list[_Misfit] = []
    for strict in (False, True):
        for sequential in (False, True):
            try:
                readings.append(_read(source, lines, num_rows, num_columns, strict, sequential))
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
                f"{raw.place(index)}: '.' means the letter of the first row in some PHYLIP files and a gap in "
                "others; write the letter or -"
            )
    return read_columns(raw, gaps=b"?.")


def _read(
    source: str, lines: list[_Line], num_rows: int, num_columns: int, strict: bool, sequential: bool
) -> RawRows:
    """The rows in one of the four layouts. Raises: _Misfit when they do not come out."""
    raw = empty_rows(source)
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
        if len(letters) != num_columns:
            shown = name.decode("utf-8", "replace").strip()
            raise _Misfit(number, f"row {shown!r} has {counted(len(letters), 'column')}")
        raw.add(number, name.decode("utf-8", "replace").strip(), letters)
    beyond = next(rest, None) if sequential else None
    if beyond:
        raise _Misfit(beyond[0], "the file goes on after the last row")
    return raw


def _letters(number: int, text: bytes) -> bytes:
    """The letters of a line without the spaces people put after every ten."""
    letters = text.translate(None, WHITE_SPACE)
    wrong = _NO_LETTERS.search(letters)
    if wrong:
        raise _Misfit(number, f"{wrong[0].decode('utf-8', 'replace')!r} stands where letters are expected")
    return letters
