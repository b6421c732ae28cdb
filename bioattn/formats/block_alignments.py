"""Alignments whose rows are broken into blocks: Stockholm, Clustal of any program, and PHYLIP.

PHYLIP has strict names of ten characters or relaxed ones ending at white space, interleaved or sequential.

Nothing in a PHYLIP file says which of the four it is. All are tried; a row count and row lengths that come out
as the first line says decide. (Biopython reads relaxed names in interleaved files only, and its errors name no
line.)
"""

import logging
import re
from collections import defaultdict
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bioattn.errors import FormatError
from bioattn.formats.alignment import Alignment, Annotations
from bioattn.formats.alignment_rows import (
    WHITE_SPACE,
    RawRows,
    match_columns_by_case,
    read_columns,
    read_with_insertions,
)
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


class BlockLine(NamedTuple):
    """One line of a block: a row or a piece of one."""

    line: int
    """1-based."""
    name: str
    text: bytes


def join_blocks(source: str, blocks: list[list[BlockLine]]) -> tuple[RawRows, list[list[int]]]:
    """Join the blocks to rows; return the rows, and for each line of each block the number of its row.

    Blocks that repeat the same names in the same order are pieces of the same rows, by position, so a name may
    stand for several rows. Blocks without a common name are groups of different rows. Blocks that repeat the same
    names in another order are joined by name.

    Raises: FormatError naming the line when blocks have some names in common but not all.
    """
    raw = RawRows(source)
    first, *others = blocks or [[]]
    names = [line.name for line in first]
    if all([line.name for line in block] == names for block in others):
        for number, line in enumerate(first):
            raw.add(line.line, line.name, b"".join(block[number].text for block in blocks))
        return raw, [list(range(len(names)))] * len(blocks)
    all_names = [name for block in blocks for name in {line.name for line in block}]
    if len(set(all_names)) == len(all_names):
        rows = []
        for block in blocks:
            rows.append(list(range(len(raw.names), len(raw.names) + len(block))))
            for line in block:
                raw.add(line.line, line.name, line.text)
        return raw, rows
    place = {name: index for index, name in enumerate(names)}
    for block in others:
        if len(place) != len(names) or sorted(line.name for line in block) != sorted(names):
            raise FormatError(
                f"{source}:{block[0].line}: the block starting here has {counted(len(block), 'row')}, the first "
                f"block {len(names):,}, and not all have the same names; each block needs a piece of each row"
            )
    pieces: list[list[bytes]] = [[] for _ in names]
    for block in blocks:
        for line in block:
            pieces[place[line.name]].append(line.text)
    for line, parts in zip(first, pieces, strict=True):
        raw.add(line.line, line.name, b"".join(parts))
    return raw, [[place[line.name] for line in block] for block in blocks]


CLUSTAL_HEADER = re.compile(
    rb"(CLUSTAL|MUSCLE|PROBCONS|MSAPROBS|KALIGN)\b|.*multiple sequence alignment", re.IGNORECASE
)
_CONSENSUS = b" \t*:."


def parse_clustal(source: str, data: bytes) -> Alignment:
    """Read a Clustal file: a header line, then blocks of `name letters [count]`.

    Consensus lines and counts are passed over.

    Raises: FormatError naming the line for a missing header, a line that is neither row nor consensus, blocks
    that do not fit and rows that do not fit each other.
    """
    blocks: list[list[BlockLine]] = [[]]
    started = False
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not started:
            started = bool(CLUSTAL_HEADER.match(line))
            if line.strip() and not started:
                raise FormatError(
                    f"{source}:{number}: a Clustal file starts with a line such as 'CLUSTAL W (1.83)'"
                )
        elif line[:1] in b" \t" and not line.translate(None, _CONSENSUS):
            if not line.strip() and blocks[-1]:
                blocks.append([])
        else:
            words = line.decode("utf-8").split()
            if len(words) not in (2, 3) or (len(words) == 3 and not words[2].isdecimal()):
                raise FormatError(
                    f"{source}:{number}: a Clustal row is 'name letters' and perhaps a count, the line is "
                    f"{line.decode('utf-8').strip()[:60]!r}"
                )
            blocks[-1].append(BlockLine(number, words[0], words[1].encode("utf-8")))
    raw, _ = join_blocks(source, [block for block in blocks if block])
    return read_columns(raw)


LOGGER = logging.getLogger("bioattn")
STOCKHOLM_HEADER = b"# STOCKHOLM"


class _ResiduesLine(NamedTuple):
    """A `#=GR` line."""

    name: str
    feature: str
    text: str
    block: int
    place: int | None
    """Place in its block of the last row of this name above the line."""


class _Lines:
    """The lines of one alignment, sorted by kind."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.blocks: list[list[BlockLine]] = [[]]
        self.places: dict[str, int] = {}
        """Name -> its last place in the block being read."""
        self.file: list[tuple[str, str]] = []
        self.rows: list[tuple[str, str, str]] = []
        """Name, feature and text of each `#=GS` line."""
        self.residues: list[_ResiduesLine] = []
        self.columns: dict[str, str] = {}

    def add(self, number: int, line: bytes) -> None:
        """Sort one line in. Raises: FormatError when a part of it is missing."""
        if not line.strip():
            if self.blocks[-1]:
                self.blocks.append([])
                self.places = {}
        elif not line.startswith(b"#"):
            name, letters = self._words(number, line, 2, "a row needs a name and its letters")
            self.places[name] = len(self.blocks[-1])
            self.blocks[-1].append(BlockLine(number, name, letters.encode("utf-8")))
        elif line.startswith(b"#=GF"):
            feature, text = self._words(number, line, 2, "'#=GF' needs a feature", most=3)[1:]
            self.file.append((feature, text))
        elif line.startswith(b"#=GS"):
            _, name, feature, text = self._words(
                number, line, 3, "'#=GS' needs a row name and a feature", most=4
            )
            self.rows.append((name, feature, text))
        elif line.startswith(b"#=GC"):
            _, feature, text = self._words(number, line, 3, "'#=GC' needs a feature and its columns", most=3)
            self.columns[feature] = self.columns.get(feature, "") + text
        elif line.startswith(b"#=GR"):
            _, name, feature, text = self._words(
                number, line, 4, "'#=GR' needs a row name, a feature and its columns", most=4
            )
            self.residues.append(
                _ResiduesLine(name, feature, text, len(self.blocks) - 1, self.places.get(name))
            )

    def _words(self, number: int, line: bytes, fewest: int, message: str, *, most: int = 2) -> list[str]:
        text = line.decode("utf-8").strip()
        words = text.split(maxsplit=most - 1)
        if len(words) < fewest:
            raise FormatError(f"{self.source}:{number}: {message}, the line is {text[:60]!r}")
        return words + [""] * (most - len(words))


def parse_stockholm(source: str, data: bytes) -> Alignment:
    """Read a Stockholm file of one alignment.

    Insert columns (see `match_columns_by_case`) become insertions; where the case says nothing of the kind, each
    column is a match column. `#=GS name DE` is the row's description, all other annotation is kept for the match
    columns. Annotation of rows that are not there is passed over with a warning, as is a missing `//`.

    Raises: FormatError naming the line for a missing header, several alignments, no rows, blocks that do not fit,
    annotation that is not as long as the rows, and rows that do not fit each other.
    """
    lines = _Lines(source)
    started = ended = False
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not started:
            started = line.startswith(STOCKHOLM_HEADER)
            if line.strip() and not started:
                raise FormatError(f"{source}:{number}: a Stockholm file starts with '# STOCKHOLM 1.0'")
        elif line.startswith(b"//"):
            ended = True
        elif ended:
            if line.strip():
                raise FormatError(
                    f"{source}:{number}: a second alignment starts here; split the file, one alignment each"
                )
        else:
            lines.add(number, line)
    if not ended:
        LOGGER.warning("%s: the closing '//' is missing; the file may be cut off", source)
    return _assemble(lines)


def _assemble(lines: _Lines) -> Alignment:
    blocks = [block for block in lines.blocks if block]
    raw, rows_of_blocks = join_blocks(lines.source, blocks)
    match = match_columns_by_case(raw)
    alignment = read_columns(raw) if match is None else read_with_insertions(raw)
    rows_of_name: dict[str, list[int]] = defaultdict(list)
    for row, name in enumerate(raw.names):
        rows_of_name[name].append(row)

    notes: dict[int, list[tuple[str, str]]] = defaultdict(list)
    strange: set[str] = set()
    for name, feature, text in lines.rows:
        for row in rows_of_name.get(name, ()):
            if feature == "DE":
                alignment.descriptions[row] = f"{alignment.descriptions[row]} {text}".strip()
            else:
                notes[row].append((feature, text))
        if name not in rows_of_name:
            strange.add(name)
    texts_of_rows: dict[int, dict[str, str]] = defaultdict(dict)
    for line in lines.residues:
        if line.name not in rows_of_name:
            strange.add(line.name)
            continue
        row = rows_of_name[line.name][0] if line.place is None else rows_of_blocks[line.block][line.place]
        texts_of_rows[row][line.feature] = texts_of_rows[row].get(line.feature, "") + line.text
    if strange:
        LOGGER.warning("%s: annotates rows that it does not hold, such as %s", lines.source, min(strange))

    kept = np.arange(len(raw.texts[0])) if match is None else np.flatnonzero(match)
    width = len(raw.texts[0])

    def cut(where: str, text: str) -> str:
        if len(text) != width:
            raise FormatError(f"{where} has {counted(len(text), 'character')} where the rows have {width:,}")
        return "".join(text[column] for column in kept)

    return replace(
        alignment,
        annotations=Annotations(
            alignment=lines.file,
            rows=dict(notes),
            residues={
                row: {
                    feature: cut(f"{raw.place(row)}: its #=GR {feature}", text)
                    for feature, text in texts.items()
                }
                for row, texts in texts_of_rows.items()
            },
            columns={
                feature: cut(f"{lines.source}: #=GC {feature}", text)
                for feature, text in lines.columns.items()
            },
        ),
    )
