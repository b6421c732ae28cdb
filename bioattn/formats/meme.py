"""Motif files: MEME text is read and written, JASPAR's and TRANSFAC's count matrices are read.

The minimal format and what the programs of the MEME suite write (meme, streme, dreme as text) are read alike: of
their many other lines nothing is used. Count matrices are JASPAR's (with or without letters and headers), whose
rows are bases, and TRANSFAC's, whose rows are positions. Formats are told apart by content.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import BioattnError, FormatError
from bioattn.formats.motif import UNIFORM_BACKGROUND, USUAL_SITES, Motif, MotifDatabase
from bioattn.io.files import read_lines, text_output

_NUMBERS_ONLY = re.compile(r"[\s\[\]|0-9.eE+-]+")
_TRANSFAC_START = re.compile(r"(AC|ID|XX|VV|NA|DE|BF|P0|PO)(\s|$)")
_TRANSFAC_HEADER = ("P0", "PO")


def starts_jaspar(line: str) -> bool:
    """Tell whether the first line of a file begins a JASPAR or plain count matrix."""
    words = line.replace("[", " ").replace("|", " ").split()
    return (
        line.startswith(">")
        or _NUMBERS_ONLY.fullmatch(line) is not None
        or (words[0].rstrip(":") == "A" and len(words) > 1 and _NUMBERS_ONLY.fullmatch(words[1]) is not None)
    )


def jaspar_motifs(path: Path, lines: Iterable[tuple[int, str]]) -> Iterator[Motif]:
    """Yield the motifs of a JASPAR file. lines: numbered lines that are not blank."""
    header, header_line = [path.name.split(".")[0] or "motif"], 1
    rows: list[list[float]] = []
    started = False
    for number, line in lines:
        if line.startswith(">"):
            if started:
                yield _from_bases(path, header, header_line, rows)
            header, header_line, rows, started = line[1:].split(maxsplit=1), number, [], True
            if not header:
                raise FormatError(f"{path}:{number}: the motif has no name")
            continue
        started = True
        words = line.replace("[", " ").replace("]", " ").replace("|", " ").split()
        if words and words[0].rstrip(":").upper() in tuple("ACGTU"):
            letter = words.pop(0).rstrip(":").upper()
            if len(rows) > 3 or letter != "ACGT"[len(rows)]:
                raise FormatError(
                    f"{path}:{number}: row {letter}; the rows of a motif are A, C, G, T, in this order"
                )
        if len(rows) == 4:
            raise FormatError(f"{path}:{number}: a fifth row; a motif has one row for each of A, C, G, T")
        rows.append(_counts(path, number, words))
    if started:
        yield _from_bases(path, header, header_line, rows)


def transfac_motifs(path: Path, lines: Iterable[tuple[int, str]]) -> Iterator[Motif]:
    """Yield the motifs of a TRANSFAC file that are not empty: AC is the name (else ID), ID the second name."""
    names: dict[str, str] = {}
    rows: list[list[float]] = []
    columns: list[int] | None = None
    number = 0
    for number, line in lines:
        words = line.split()
        if words[0] == "//":
            if rows:
                yield _transfac_motif(path, number, names, rows)
            names, rows, columns = {}, [], None
        elif words[0] in _TRANSFAC_HEADER:
            letters = [word.upper() for word in words[1:]]
            if sorted(letters) != list("ACGT"):
                raise FormatError(
                    f"{path}:{number}: columns {' '.join(words[1:])!r}; A, C, G and T are needed"
                )
            columns = [letters.index(base) for base in "ACGT"]
        elif columns is not None and words[0].isdecimal():
            counts = _counts(path, number, words[1:5])
            if len(counts) != 4:
                raise FormatError(f"{path}:{number}: {len(counts)} counts; a position has four")
            rows.append([counts[column] for column in columns])
        elif words[0] in ("AC", "ID") and len(words) > 1:
            names[words[0]] = words[1]
    if rows:
        raise FormatError(f"{path}:{number}: the file ends within a record (no //)")


def _transfac_motif(path: Path, number: int, names: dict[str, str], rows: list[list[float]]) -> Motif:
    name = names.get("AC", names.get("ID"))
    if name is None:
        raise FormatError(f"{path}:{number}: the record that ends here has neither AC nor ID, so no name")
    return _from_positions(path, number, name, names.get("ID", ""), np.array(rows))


def _from_bases(path: Path, header: list[str], line: int, rows: list[list[float]]) -> Motif:
    if len(rows) != 4:
        raise FormatError(
            f"{path}:{line}: motif {header[0]} has {len(rows)} rows; one for each of A, C, G, T"
        )
    if len({len(row) for row in rows}) != 1 or not rows[0]:
        raise FormatError(
            f"{path}:{line}: the rows of motif {header[0]} have {', '.join(str(len(row)) for row in rows)} "
            "counts; all need the same number"
        )
    alternative = header[1].split()[0] if len(header) > 1 else ""
    return _from_positions(path, line, header[0], alternative, np.array(rows).T)


def _from_positions(path: Path, line: int, name: str, alternative: str, counts: NDArray[np.float64]) -> Motif:
    totals = counts.sum(axis=1)
    if totals.min() <= 0:
        raise FormatError(
            f"{path}:{line}: position {int(totals.argmin()) + 1} of motif {name} has no counts; remove it"
        )
    return Motif(
        name=name,
        alternative_name=alternative,
        probabilities=counts / totals[:, None],
        sites=max(1, round(float(totals.max()))),
    )


def _counts(path: Path, number: int, words: list[str]) -> list[float]:
    try:
        counts = [float(word) for word in words]
    except ValueError:
        counts = [-1.0]
    if not all(0 <= count < np.inf for count in counts):
        raise FormatError(f"{path}:{number}: {' '.join(words)[:60]!r} are not counts (numbers from 0)")
    return counts


MAX_ROW_ERROR = 0.05
"""How far from 1 the probabilities of a position may sum: databases round to two decimals now and then."""
_KEY_VALUE = re.compile(r"(\w+)\s*=\s*(\S+)")
_BACKGROUND_LINE = "background letter frequencies"
_MATRIX_LINE = "letter-probability matrix"


def read_meme(path: Path) -> MotifDatabase:
    """Read motifs: MEME text (version 4 or newer), JASPAR or plain count matrices, TRANSFAC; plain, gzip or xz.

    Counts are divided by their column's sum, nothing is added. A plain matrix without a header is named after
    its file.

    Raises: FormatError naming the line when the file is none of these, is not over DNA, holds no motif, holds
    two of one name, or a matrix is not what its header says.
    """
    lines = ((number, line) for number, line in read_lines(path) if line.strip())
    first = next(lines, None)
    if first is None:
        raise FormatError(f"{path}: is empty; motifs in MEME, JASPAR or TRANSFAC format are needed")
    rest = itertools.chain([first], lines)
    background = np.array(UNIFORM_BACKGROUND)
    if starts_jaspar(first[1]):
        motifs = list(jaspar_motifs(path, rest))
    elif _TRANSFAC_START.match(first[1]):
        motifs = list(transfac_motifs(path, rest))
    else:
        reader = _MemeReader(path)
        for number, line in rest:
            reader.take(number, line)
        motifs, background = reader.finish()
    if not motifs:
        raise FormatError(f"{path}: holds no motif")
    seen: set[str] = set()
    for motif in motifs:
        if motif.name in seen:
            raise FormatError(f"{path}: holds two motifs named {motif.name!r}; rename or remove one")
        seen.add(motif.name)
    return MotifDatabase(motifs=motifs, background=background)


def write_meme(
    path: Path,
    motifs: Sequence[Motif],
    background: Sequence[float] | NDArray[np.floating] = UNIFORM_BACKGROUND,
) -> None:
    """Write motifs in MEME's minimal format (version 4), probabilities with six decimals.

    background: frequencies of A, C, G, T. Raises: BioattnError for a name that is empty or holds blanks, which the
    format cannot, or when the file cannot be written.
    """
    for motif in motifs:
        if not motif.name or len(motif.name.split()) != 1:
            raise BioattnError(
                f"{path}: the motif name {motif.name!r} cannot stand in a MEME file, where names have no blanks; "
                "rename it"
            )
    frequencies = " ".join(
        f"{base} {float(share):.6g}" for base, share in zip("ACGT", background, strict=True)
    )
    with text_output(path) as file:
        file.write("MEME version 4\n\nALPHABET= ACGT\n\nstrands: + -\n\n")
        file.write(f"Background letter frequencies\n{frequencies}\n")
        for motif in motifs:
            file.write(f"\n{' '.join(['MOTIF', motif.name, *motif.alternative_name.split()[:1]])}\n")
            file.write(f"letter-probability matrix: alength= 4 w= {motif.width} nsites= {motif.sites} E= 0\n")
            for row in motif.probabilities:
                file.write(" ".join(f"{value:.6f}" for value in row) + "\n")


@dataclass(slots=True)
class _MemeReader:
    """What is known of a MEME file after so many lines."""

    path: Path
    version_seen: bool = False
    motifs: list[Motif] = field(default_factory=list)
    background: dict[str, float] = field(default_factory=dict)
    _in_background: bool = False
    _in_alphabet: bool = False
    _name: tuple[str, str] | None = None
    _name_line: int = 0
    _rows: list[list[float]] | None = None
    """Of the matrix that is being read."""
    _matrix_line: int = 0
    _width: int | None = None
    _sites: int = USUAL_SITES

    def take(self, number: int, line: str) -> None:
        """Read one line that is not blank."""
        where = f"{self.path}:{number}"
        words = line.split()
        if not self.version_seen:
            self.version_seen = line.startswith("MEME version")
            if self.version_seen and int((re.findall(r"\d+", line) or ["4"])[0]) < 4:
                raise FormatError(f"{where}: {line.strip()!r} is older than version 4, which is needed")
            return
        if self._in_alphabet:
            self._in_alphabet = not line.startswith("END ALPHABET")
            return
        if self._rows is not None and self._row(words, where):
            return
        if self._in_background and self._frequencies(words, where):
            return
        if line.startswith("ALPHABET"):
            self._alphabet(line, where)
        elif line.lower().startswith(_BACKGROUND_LINE):
            self._in_background = True
        elif words[0] == "MOTIF":
            self._motif(words, number, where)
        elif line.startswith(_MATRIX_LINE):
            self._matrix(line, number, where)

    def finish(self) -> tuple[list[Motif], NDArray[np.float64]]:
        """The motifs and the background, at the end of the file."""
        if not self.version_seen:
            raise FormatError(
                f"{self.path}: is no motif file (no line begins with 'MEME version', and it is neither JASPAR nor "
                "TRANSFAC)"
            )
        self._end_matrix()
        self._require_matrix()
        frequencies = np.array([self.background.get(base, 0.0) for base in "ACGT"])
        if not self.background:
            frequencies = np.array(UNIFORM_BACKGROUND)
        elif abs(frequencies.sum() - 1) > MAX_ROW_ERROR or len(self.background) != 4 or frequencies.min() < 0:
            raise FormatError(
                f"{self.path}: the background letter frequencies are not those of A, C, G and T with sum 1"
            )
        return self.motifs, frequencies / frequencies.sum()

    def _alphabet(self, line: str, where: str) -> None:
        _, equals, letters = line.partition("=")
        if equals:
            if letters.strip().upper() != "ACGT":
                raise FormatError(
                    f"{where}: the alphabet is {letters.strip()!r}; motifs over DNA (ACGT) are needed"
                )
            return
        if "DNA" not in line.upper():
            raise FormatError(f"{where}: {line.strip()!r}; motifs over DNA are needed")
        self._in_alphabet = True

    def _frequencies(self, words: list[str], where: str) -> bool:
        """Take a line of letters and frequencies; False when this is another line."""
        values = [_number(word) for word in words[1::2]]
        if len(words) % 2 or any(value is None for value in values):
            self._in_background = False
            return False
        for letter, value in zip(words[::2], values, strict=True):
            if letter not in tuple("ACGT") or value is None:
                raise FormatError(f"{where}: background of {letter!r}; the bases are A, C, G and T")
            self.background[letter] = value
        self._in_background = len(self.background) < 4
        return True

    def _motif(self, words: list[str], number: int, where: str) -> None:
        self._end_matrix()
        self._require_matrix()
        if len(words) < 2:
            raise FormatError(f"{where}: the motif has no name")
        # `meme` itself writes "MOTIF ACGT MEME-1 width = 4 …", older ones "MOTIF 1 width = 4 …".
        alternative = words[2] if len(words) > 2 and not words[2].startswith("width") else ""
        self._name, self._name_line = (words[1], alternative), number

    def _matrix(self, line: str, number: int, where: str) -> None:
        if self._name is None:
            raise FormatError(f"{where}: a matrix without a MOTIF line of its own before it")
        stated = dict(_KEY_VALUE.findall(line.partition(":")[2]))
        if stated.get("alength", "4") != "4":
            raise FormatError(f"{where}: alength= {stated['alength']}; motifs over DNA have 4 letters")
        width, sites = _number(stated.get("w", "")), _number(stated.get("nsites", ""))
        if ("w" in stated and (width is None or width < 1)) or ("nsites" in stated and sites is None):
            raise FormatError(f"{where}: w= and nsites= are not both numbers in {line.strip()!r}")
        self._width = None if width is None else int(width)
        self._sites = USUAL_SITES if sites is None else max(1, round(sites))
        self._rows, self._matrix_line = [], number

    def _row(self, words: list[str], where: str) -> bool:
        """Take a row of the matrix; False when the matrix has ended."""
        values = [_number(word) for word in words]
        if any(value is None for value in values):
            self._end_matrix()
            return False
        if len(self._rows or ()) == self._width:
            raise FormatError(f"{where}: a row more than w= {self._width} announces")
        row = [value for value in values if value is not None]
        if len(row) != 4 or min(row) < 0 or not abs(sum(row) - 1) <= MAX_ROW_ERROR:
            raise FormatError(
                f"{where}: {' '.join(words)!r} is no position of a motif; four probabilities with sum 1 are needed"
            )
        assert self._rows is not None  # the caller looked
        self._rows.append([value / sum(row) for value in row])
        return True

    def _end_matrix(self) -> None:
        if self._rows is None or self._name is None:
            return
        if not self._rows or (self._width is not None and len(self._rows) != self._width):
            wanted = "at least 1" if self._width is None else f"w= {self._width}"
            raise FormatError(
                f"{self.path}:{self._matrix_line}: the matrix of {self._name[0]} has {len(self._rows)} rows, "
                f"{wanted} expected"
            )
        name, alternative = self._name
        matrix = np.array(self._rows)
        self.motifs.append(
            Motif(name=name, alternative_name=alternative, probabilities=matrix, sites=self._sites)
        )
        self._rows = self._name = None

    def _require_matrix(self) -> None:
        if self._name is not None:
            raise FormatError(
                f"{self.path}:{self._name_line}: motif {self._name[0]} has no letter-probability matrix"
            )


def _number(word: str) -> float | None:
    """A finite number, or None."""
    try:
        value = float(word)
    except ValueError:
        return None
    return value if np.isfinite(value) else None
