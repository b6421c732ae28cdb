"""Count matrices of motif databases: JASPAR's (with or without letters and headers) and TRANSFAC's.

    >MA0271.1 ARG80                                AC  MA0271.1
    A [ 89 0 161 ]                                 ID  ARG80
    C [ 0 0 0 ]                                    P0  A  C  G  T
    G [ 0 301 0 ]                                  01  89 0  0  69
    T [ 69 0 0 ]                                   02  0  0  301 0
                                                   //

Rows are bases in the former, positions in the latter. `bioattn.formats.meme.read_meme` tells them apart.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from bioattn.errors import FormatError
from bioattn.formats.motif import Motif

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


def starts_transfac(line: str) -> bool:
    """Tell whether the first line of a file begins a TRANSFAC record."""
    return _TRANSFAC_START.match(line) is not None


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


def _from_positions(
    path: Path,
    line: int,
    name: str,
    alternative: str,
    counts: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
) -> Motif:
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
