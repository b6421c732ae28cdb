"""A multiple sequence alignment in memory: match columns as a matrix of letters, insertions beside it.

Match columns hold a residue (upper case) or a gap (`-`) in every row. Residues between two match columns are
insertions, as in A3M and A2M; they are not aligned to each other. Columns are counted from 0.
"""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bioattn.errors import FormatError
from bioattn.formats.nucleotides import are_nucleotides
from bioattn.text import counted

LOGGER = logging.getLogger("bioattn")
GAP = ord("-")
UPPER = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
LOWER = UPPER.lower()
_INSERTION = re.compile(b"[a-z]+")
_NUCLEOTIDES = np.frombuffer(b"ACGTUN", dtype=np.uint8)
_REMOVED = 0
"""Stands for a gap that a row loses with its column."""
_ROWS_AT_ONCE = 1024
"""NumPy counts with eight bytes a letter: this many rows at a time keep that small."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Alignment:
    """S rows over R match columns. Not compared by content: two are equal when they are the same object."""

    names: list[str]
    """S names: the first word of each header, `row1`, `row2`, ... where the file has none. May repeat."""
    descriptions: list[str]
    """S texts: the rest of each header, possibly empty."""
    residues: NDArray[np.uint8]
    """Shape (S, R), ASCII codes: `A`-`Z` and `-`."""
    insertions: list[dict[int, str]]
    """Per row: match column c -> the lower-case letters that stand before it; R -> those after the last one."""

    @classmethod
    def plain(cls, names: list[str], residues: NDArray[np.uint8] | str) -> Self:
        """Rows of letters and gaps without descriptions and insertions: (S, R) ASCII codes, or the text of one."""
        if isinstance(residues, str):
            residues = np.frombuffer(residues.encode("ascii"), np.uint8)[None].copy()
        rows = len(names)
        return cls(
            names=names, descriptions=[""] * rows, residues=residues, insertions=[{} for _ in range(rows)]
        )

    @property
    def num_rows(self) -> int:
        """S, the depth."""
        return int(self.residues.shape[0])

    @property
    def num_columns(self) -> int:
        """R, the number of match columns."""
        return int(self.residues.shape[1])

    def row(self, index: int) -> str:
        """The match columns of one row as text; insertions are left out."""
        return str(self.residues[index].tobytes(), "ascii")

    def row_with_insertions(self, index: int) -> str:
        """One row as A3M writes it: match columns upper case or `-`, insertions lower case."""
        return insert_letters(self.row(index), self.insertions[index])

    def sequence(self, index: int) -> str:
        """The unaligned sequence of one row: every residue upper case, insertions too, no gaps."""
        return self.row_with_insertions(index).replace("-", "").upper()

    def select_rows(self, indices: ArrayLike) -> Self:
        """The rows at `indices` (positions or a mask of S), in that order, with their insertions."""
        kept = np.arange(self.num_rows)[np.asarray(indices)]
        return replace(
            self,
            names=[self.names[row] for row in kept],
            descriptions=[self.descriptions[row] for row in kept],
            residues=self.residues[kept],
            insertions=[self.insertions[row] for row in kept],
        )

    def keep_as_match(self, indices: ArrayLike) -> Self:
        """Keep the match columns at `indices` (ascending positions or a mask); the others become insertions.

        This is how an alignment is centred on its query or thinned of gappy columns: every row keeps its whole
        sequence, residues of a column given up turn into lower-case letters, gaps in it vanish.
        """
        given_up = np.ones(self.num_columns, dtype=bool)
        given_up[np.asarray(indices)] = False
        lowered = self.residues.copy()
        lowered[:, given_up] = np.where(
            self.residues[:, given_up] == GAP, _REMOVED, self.residues[:, given_up] | 0x20
        )
        insertions = []
        for row, inserted in zip(lowered, self.insertions, strict=True):
            text = row.tobytes()
            if inserted:
                text = insert_letters(text.decode("ascii"), inserted).encode("ascii")
            insertions.append(split_insertions(text.translate(None, b"\0"))[1])
        return replace(
            self, residues=np.ascontiguousarray(self.residues[:, ~given_up]), insertions=insertions
        )

    def centre_on_row(self, index: int) -> Self:
        """Make exactly the residues of one row, the query, the match columns.

        Columns where it has a gap become insertions (see `keep_as_match`). A residue it has inserted becomes a
        column with gaps in all other rows, for insertions are not aligned to each other; what others have
        inserted there stays an insertion behind it.
        """
        cut = self.keep_as_match(self.residues[index] != GAP)
        of_query = cut.insertions[index]
        if not of_query:
            return cut
        columns = [column for column in sorted(of_query) for _ in of_query[column]]
        residues = np.insert(cut.residues, columns, GAP, axis=1)
        residues[index] = np.frombuffer(self.sequence(index).encode("ascii"), dtype=np.uint8)
        shift = np.searchsorted(columns, np.arange(cut.num_columns + 1), side="right")
        insertions = [
            {column + int(shift[column]): letters for column, letters in inserted.items()}
            for inserted in cut.insertions
        ]
        insertions[index] = {}
        return replace(cut, residues=residues, insertions=insertions)


def join_rows(parts: Sequence[Alignment]) -> Alignment:
    """The rows of alignments of the same columns, one after the other, without annotation."""
    return Alignment(
        names=[name for part in parts for name in part.names],
        descriptions=[words for part in parts for words in part.descriptions],
        residues=np.concatenate([part.residues for part in parts]),
        insertions=[inserted for part in parts for inserted in part.insertions],
    )


def split_insertions(text: bytes) -> tuple[bytes, dict[int, str]]:
    """Split a row of A3M (without `.`) into its match columns and its insertions.

    >>> split_insertions(b"aaMK-Ght")
    (b'MK-G', {0: 'aa', 4: 'ht'})
    """
    match = text.translate(None, LOWER)
    if len(match) == len(text):
        return match, {}
    inserted = {}
    letters_before = 0
    for run in _INSERTION.finditer(text):
        inserted[run.start() - letters_before] = run.group().decode("ascii")
        letters_before += run.end() - run.start()
    return match, inserted


def insert_letters(match: str, inserted: dict[int, str]) -> str:
    """The inverse of `split_insertions`: match columns with the insertions between them.

    >>> insert_letters("MK-G", {0: "aa", 4: "ht"})
    'aaMK-Ght'
    """
    if not inserted:
        return match
    parts = []
    start = 0
    for column in sorted(inserted):
        parts += [match[start:column], inserted[column]]
        start = column
    return "".join([*parts, match[start:]])


def looks_like_nucleotides(alignment: Alignment) -> bool:
    """Tell whether this is DNA or RNA: more than 98 % of ten or more residues are A, C, G, T, U or N."""
    counts = np.zeros(256, dtype=np.int64)
    for start in range(0, alignment.num_rows, _ROWS_AT_ONCE):
        counts += np.bincount(alignment.residues[start : start + _ROWS_AT_ONCE].ravel(), minlength=256)
    inserted = "".join(letters for row in alignment.insertions for letters in row.values()).upper()
    counts += np.bincount(np.frombuffer(inserted.encode("ascii"), dtype=np.uint8), minlength=256)
    total = int(counts.sum() - counts[GAP])
    return are_nucleotides(int(counts[_NUCLEOTIDES].sum()), total)


def require_proteins(alignment: Alignment, source: str) -> None:
    """Refuse DNA and RNA. Raises: FormatError beginning with `source`."""
    if looks_like_nucleotides(alignment):
        raise FormatError(f"{source}: an alignment of DNA or RNA; translate it, the models read proteins")


# --- rows of a file ---

WHITE_SPACE = b" \t\n\r\v\f"
_MATCH = UPPER + b"-"
_GAPS = b".~_?"
_HINTS = {
    "?": "write X for an unknown residue or - for a gap",
    ".": "write - for a gap",
    "~": "write - for a gap",
    "_": "write - for a gap",
    " ": "a row must not be broken by spaces",
}


@dataclass
class RawRows:
    """Rows of a file whose letters, without white space, have not been interpreted, and the line (from 1) on which
    each starts. source: the file, as messages name it."""

    source: str
    names: list[str] = field(default_factory=list)
    descriptions: list[str] = field(default_factory=list)
    texts: list[bytes] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    def where(self, index: int) -> str:
        """`file:line: row 'name'` for messages; a long name is cut."""
        return f"{self.source}:{self.lines[index]}: row {self.names[index][:60]!r}"

    def add(self, line: int, name: str, text: bytes, description: str = "") -> None:
        """Append a row; without a name it is given `row` and its number."""
        self.names.append(name or f"row{len(self.names) + 1}")
        self.descriptions.append(description)
        self.texts.append(text)
        self.lines.append(line)


def match_columns_by_case(raw: RawRows) -> NDArray[np.bool_] | None:
    """Mask of the match columns of equally long rows, as their case tells it; None when it does not.

    It does when there is a lower-case letter, and every column holds either lower-case letters and `.` only (an
    insert column) or neither of them (a match column), and there is one of the latter: the convention of A2M,
    which HMMER and Pfam follow in Stockholm files.
    """
    if not raw.texts or len({len(text) for text in raw.texts}) != 1:
        return None
    letters = np.frombuffer(b"".join(raw.texts), dtype=np.uint8).reshape(len(raw.texts), -1)
    lower = (letters >= ord("a")) & (letters <= ord("z"))
    insert = lower | (letters == ord("."))
    match: NDArray[np.bool_] = ~insert.any(axis=0)
    if not lower.any() or not np.array_equal(match, ~insert.all(axis=0)) or not match.any():
        return None
    return match


def read_with_insertions(raw: RawRows) -> Alignment:
    """Read rows of A3M or A2M: lower-case letters are insertions, `.` is dropped.

    Raises: FormatError for no rows, no match columns, rows with unequal numbers of them, or letters that are no
    residues.
    """
    rows = [split_insertions(text.translate(None, b".")) for text in raw.texts]
    which = " (upper-case letters and '-')"
    return _build(raw, [text for text, _ in rows], [each for _, each in rows], "match column", which)


def read_columns(raw: RawRows) -> Alignment:
    """Read rows of any other format: each character is a column, whatever its case.

    `.`, `~`, `_` and `?` are gaps; `.` is the letter of the first row in files written so (`_written_out`).
    Raises: FormatError for no rows, no columns, rows of unequal length, or letters that are no residues.
    """
    to_columns = bytes.maketrans(LOWER + _GAPS, UPPER + b"-" * len(_GAPS))
    texts = [text.translate(to_columns) for text in _written_out(raw)]
    return _build(raw, texts, [{} for _ in texts], "column")


def _written_out(raw: RawRows) -> list[bytes]:
    """The rows with the first row's letter for `.`, where `.` means that, as in MEGA's files; else as they are.

    It means a gap where the first row has it, or a row that has it writes a letter of the first row's in full.
    """
    first, *others = raw.texts or [b""]
    dotted = [text for text in others if b"." in text]
    if not dotted or b"." in first or any(len(text) != len(first) for text in dotted):
        return raw.texts
    letters = np.frombuffer(first.upper(), np.uint8)
    for text in dotted:
        equal = np.frombuffer(text.upper(), np.uint8) == letters
        if (equal & (letters >= ord("A")) & (letters <= ord("Z"))).any():
            return raw.texts
    LOGGER.warning(
        "%s: '.' is read as the letter of the first row, for no row that has it writes such a letter in full; "
        "write - where it means a gap",
        raw.source,
    )
    rows = [np.frombuffer(text, np.uint8) for text in others]
    return [
        first,
        *(
            np.where(row == ord("."), letters, row).tobytes() if ord(".") in row else row.tobytes()
            for row in rows
        ),
    ]


def _build(
    raw: RawRows, texts: list[bytes], insertions: list[dict[int, str]], column: str, which: str = ""
) -> Alignment:
    if not texts:
        raise FormatError(f"{raw.source}: the alignment holds no row")
    letters = bytearray().join(texts)
    if b"*" in letters:
        LOGGER.warning("%s: '*' (a stop) is read as X, an unknown residue", raw.source)
        texts = [text.replace(b"*", b"X") for text in texts]
        letters = letters.replace(b"*", b"X")
    if letters.translate(None, _MATCH):
        index, bad = next((i, bad) for i, text in enumerate(texts) if (bad := text.translate(None, _MATCH)))
        letter = bad.decode("utf-8", "replace")[0]
        position = raw.texts[index].decode("utf-8", "replace").find(letter) + 1
        hint = _HINTS.get(letter, "residues are the letters A to Z")
        raise FormatError(f"{raw.where(index)}, position {position:,}: {letter!r} is no residue ({hint})")
    width = len(texts[0])
    for index, text in enumerate(texts):
        if len(text) != width:
            gaps = any(b"-" in row or b"." in row for row in raw.texts)
            raise FormatError(
                f"{raw.where(index)} has {counted(len(text), column)}{which} but the first row, "
                f"{raw.names[0][:60]!r}, has {width:,}; the rows of an alignment are equally long"
                + ("" if gaps else ", and no row here has a gap: are these sequences aligned?")
            )
    if not width:
        raise FormatError(f"{raw.where(0)}, the first, has no {column}s{which}")
    return Alignment(
        names=raw.names,
        descriptions=raw.descriptions,
        residues=np.frombuffer(letters, dtype=np.uint8).reshape(len(texts), width),
        insertions=insertions,
    )


def has_dots_in_match_columns(raw: RawRows) -> bool:
    """Whether most `.` of equally long rows stand in columns that hold capitals but no lower-case letter."""
    letters = np.frombuffer(b"".join(raw.texts), dtype=np.uint8).reshape(len(raw.texts), -1)
    dots = (letters == ord(".")).sum(axis=0)
    lower = ((letters >= ord("a")) & (letters <= ord("z"))).any(axis=0)
    upper = ((letters >= ord("A")) & (letters <= ord("Z"))).any(axis=0)
    return bool(2 * dots[upper & ~lower].sum() > dots.sum())
