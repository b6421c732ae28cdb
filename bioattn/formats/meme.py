"""DNA motifs as position probability matrices, and files of them: MEME text, JASPAR, HOMER, TRANSFAC.

The minimal format and what the programs of the MEME suite write (meme, streme, dreme as text) are read alike: of
their many other lines nothing is used. Matrices of counts or probabilities have a row for each base (JASPAR, with
or without letters and headers) or for each position (HOMER, HOCOMOCO, CIS-BP, TRANSFAC). Formats are told apart by
content; MEME is written, too.
Bio.motifs is not used: its errors name no line, and it reads neither the programs' output nor plain matrices.
"""

import itertools
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import BioattnError, FormatError
from bioattn.formats.nucleotides import decode
from bioattn.io.files import read_lines, text_output

LOGGER = logging.getLogger("bioattn")
UNIFORM_BACKGROUND = (0.25, 0.25, 0.25, 0.25)
USUAL_SITES = 20
"""What MEME takes where a matrix does not say how many sites it was made of."""
_IUPAC = dict(zip((1, 2, 4, 8, 5, 10, 6, 9, 12, 3, 14, 13, 11, 7, 15), "ACGTRYSWKMBDHVN", strict=True))
"""Letter by the sum of 1 for A, 2 for C, 4 for G, 8 for T."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Motif:
    """A named motif."""

    name: str
    """What it is called in tables and files: an accession or a name, without blanks."""
    probabilities: NDArray[np.float64]
    """Probability of A, C, G, T at each position, shape (width, 4), rows sum to 1."""
    alternative_name: str = ""
    """A second name, such as the factor's; may be empty."""
    sites: int = USUAL_SITES

    @property
    def width(self) -> int:
        """Number of positions."""
        return int(self.probabilities.shape[0])

    @property
    def consensus(self) -> str:
        """The most probable base of every position."""
        return decode(self.probabilities.argmax(axis=1).astype(np.uint8))

    @property
    def iupac_consensus(self) -> str:
        """Consensus of one IUPAC letter per position, by Cavener's rules (1987).

        One base above one half and twice the next; else two bases that share three quarters; else N, or the
        letter of three where the fourth base never occurs.
        """
        return "".join(_letter(row) for row in self.probabilities)

    @property
    def information(self) -> float:
        """Information in bits against a uniform background, summed over positions."""
        return float(np.sum(position_information(self.probabilities)))

    def sample(self, rng: np.random.Generator, count: int) -> NDArray[np.uint8]:
        """Draw `count` sites on the motif's own strand; uint8 codes, shape (count, width)."""
        cumulative = np.cumsum(self.probabilities, axis=1)[:, :-1]
        draws = rng.random((count, self.width))
        sites: NDArray[np.uint8] = (draws[:, :, None] >= cumulative).sum(axis=2).astype(np.uint8)
        return sites


@dataclass(frozen=True, slots=True, kw_only=True)
class MotifDatabase:
    """The motifs of a file."""

    motifs: list[Motif]
    """In file order; names are unique."""
    background: NDArray[np.float64] = field(default_factory=lambda: np.array(UNIFORM_BACKGROUND))
    """Frequencies of A, C, G, T outside motifs, shape (4,), sum 1; uniform where the file does not say."""


def position_information(probabilities: NDArray[np.floating]) -> NDArray[np.float64]:
    """Bits of each position against a uniform background: (…, 4) probabilities to (…), between 0 and 2.

    >>> position_information(np.array([[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [0.25] * 4])).tolist()
    [2.0, 1.0, 0.0]
    """
    safe = np.where(probabilities > 0, probabilities, 1.0)
    bits: NDArray[np.float64] = 2 + np.sum(safe * np.log2(safe) * (probabilities > 0), axis=-1)
    return bits


def _letter(row: NDArray[np.float64]) -> str:
    order = np.argsort(-row, kind="stable")
    first, second, third, fourth = (float(row[base]) for base in order)
    bits = 1 << order
    if first > 0.5 and first > 2 * second:
        return _IUPAC[int(bits[0])]
    if first + second > 0.75:
        return _IUPAC[int(bits[:2].sum())]
    return _IUPAC[int(bits[:3].sum())] if fourth == 0 < third else "N"


_NUMBERS_ONLY = re.compile(r"[\s\[\]|0-9.eE+-]+")
_BASES_LINE = re.compile(r"#?\s*(pos(ition)?\s+)?A\s+C\s+G\s+[TU]\s*", re.IGNORECASE)
_TRANSFAC_START = re.compile(r"(AC|ID|XX|VV|NA|DE|BF|P0|PO)(\s|$)")
_TRANSFAC_HEADER = ("P0", "PO")
_FIELD = re.compile(r"(Motif|TF Name|TF|Gene|Family|Species|DBID|Protein)(?:\t|: ?)\s*([^\t]*)")
"""A line above a matrix of CIS-BP or UniPROBE."""


@dataclass(slots=True)
class _Matrix:
    name: str
    alternative: str
    line: int
    rows: list[list[float]] = field(default_factory=list)
    letters: str = ""
    """Bases of the rows, where they say them."""
    by_position: bool | None = None
    """Whether rows are positions, where header or letters say so."""

    def told_by_position(self) -> bool | None:
        """The same, also by shape and sums: the counts of every position have (about) one sum.

        None: nothing tells.
        """
        counts = np.array(self.rows)
        if self.by_position is not None or counts.shape != (4, 4):
            return len(self.rows) != 4 if self.by_position is None else self.by_position
        rows, columns = (
            max(_SUM_NOISE, float(np.ptp(counts.sum(axis))) / (counts.sum() / 4)) for axis in (1, 0)
        )
        return None if max(rows, columns) < 2 * min(rows, columns) else rows < columns


_SUM_NOISE = 0.01
"""Relative difference of sums that rounding makes."""


def matrix_motifs(path: Path, lines: Iterable[tuple[int, str]]) -> list[Motif]:
    """The motifs of a file of matrices, of JASPAR, HOMER or plain. lines: numbered lines that are not blank."""
    matrices: list[_Matrix] = []
    for number, line in lines:
        if line.startswith("//"):  # RSAT ends matrices so
            continue
        if line.startswith(">"):
            matrices.append(_headed(path, number, line))
            continue
        above = _FIELD.match(line)
        if not matrices or (above and matrices[-1].rows):
            matrices.append(_Matrix(path.name.split(".")[0] or "motif", "", number))
        matrix = matrices[-1]
        if above:
            if above[1] == "Motif":
                matrix.name = above[2].strip()
            elif above[1] in ("TF Name", "Protein"):
                matrix.alternative = above[2].strip()
            continue
        if _BASES_LINE.fullmatch(line):
            matrix.by_position = True
            continue
        words = line.replace("[", " ").replace("]", " ").replace("|", " ").split()
        if words and words[0].rstrip(":").upper() in tuple("ACGTU"):
            letter = words.pop(0).rstrip(":").upper().replace("U", "T")
            if len(matrix.letters) < len(matrix.rows) or letter in matrix.letters:
                raise FormatError(
                    f"{path}:{number}: row {letter}; a motif has one row for each of A, C, G, T"
                )
            matrix.letters += letter
            matrix.by_position = False
        matrix.rows.append(_counts(path, number, words))
        if matrix.by_position and len(matrix.rows[-1]) == 5:  # numbered
            del matrix.rows[-1][0]
    for matrix in matrices:
        if len(matrix.letters) == len(matrix.rows) == 4:  # YeTFaSCo's stand in the order A, T, G, C
            matrix.rows = [matrix.rows[matrix.letters.index(base)] for base in "ACGT"]
        first = [row[0] for row in matrix.rows if len(row) == 5]
        if len(first) != 4 and first in ([*range(len(matrix.rows))], [*range(1, len(matrix.rows) + 1)]):
            matrix.rows = [row[1:] for row in matrix.rows]  # numbered positions
        widths = {len(row) for row in matrix.rows}
        if widths != {4} and (len(matrix.rows) != 4 or len(widths) != 1 or 0 in widths):
            raise FormatError(
                f"{path}:{matrix.line}: motif {matrix.name} has {len(matrix.rows)} rows of "
                f"{', '.join(map(str, sorted(widths))) or 'no'} counts; a motif has a row for each of A, C, G, T "
                "(JASPAR), or one of four counts for each position (HOMER)"
            )
    motifs = []
    for matrix, by_position in zip(matrices, _by_position(path, matrices), strict=True):
        counts = np.array(matrix.rows)
        counts = counts if by_position else counts.T
        motifs.append(_from_positions(path, matrix.line, matrix.name, matrix.alternative, counts))
    return motifs


def _headed(path: Path, number: int, line: str) -> _Matrix:
    fields = [field.strip() for field in line[1:].split("\t")]
    if len(fields) > 2 and _number(fields[2]) is not None:  # HOMER: consensus, name, threshold, …
        name = "_".join(fields[1].split()) or fields[0]
        return _Matrix(name, re.split(r"[(/]", name)[0], number, by_position=True)
    words = line[1:].split()
    if not words:
        raise FormatError(f"{path}:{number}: the motif has no name")
    return _Matrix(words[0], words[1] if len(words) > 1 else "", number)


def _by_position(path: Path, matrices: Sequence[_Matrix]) -> list[bool]:
    """Of each matrix whether rows are positions; one that does not tell is as all others of the file."""
    told = [matrix.told_by_position() for matrix in matrices]
    known = set(told) - {None}
    usual = known == {True}
    unsure = [matrix for matrix, by in zip(matrices, told, strict=True) if by is None]
    if unsure and len(known) != 1:
        LOGGER.warning(
            f"{path}:{unsure[0].line}: nothing tells whether the rows of motif {unsure[0].name} (4 × 4) are bases "
            "or positions; they are taken for A, C, G and T, as in JASPAR's files"
        )
    return [usual if by is None else by for by in told]


def transfac_motifs(path: Path, lines: Iterable[tuple[int, str]]) -> Iterator[Motif]:
    """Yield the motifs of a TRANSFAC file that are not empty: named by AC (else ID, DE), and NA (else ID)."""
    names: dict[str, str] = {}
    rows: list[list[float]] = []
    columns = [0, 1, 2, 3]
    number = 0
    for number, line in lines:
        words = line.split()
        # STAMP names records by DE alone and ends them with XX.
        if words[0] == "//" or (words[0] == "XX" and rows and names.keys() == {"DE"}):
            name = names.get("AC", names.get("ID", names.get("DE")))
            if rows and name is None:
                raise FormatError(
                    f"{path}:{number}: the record that ends here has neither AC nor ID, so no name"
                )
            if rows and name is not None:
                alternative = names.get("NA", names.get("ID", ""))
                yield _from_positions(path, number, name, alternative, np.array(rows))
            names, rows, columns = {}, [], [0, 1, 2, 3]
        elif words[0] in _TRANSFAC_HEADER:
            letters = [word.upper() for word in words[1:]]
            if sorted(letters) != list("ACGT"):
                raise FormatError(
                    f"{path}:{number}: columns {' '.join(words[1:])!r}; A, C, G and T are needed"
                )
            columns = [letters.index(base) for base in "ACGT"]
        elif words[0].isdecimal():
            counts = _counts(path, number, words[1:5])
            if len(counts) != 4:
                raise FormatError(f"{path}:{number}: {len(counts)} counts; a position has four")
            rows.append([counts[column] for column in columns])
        elif words[0] in ("AC", "ID", "DE", "NA") and len(words) > 1:
            names[words[0]] = words[1]
    if rows:
        raise FormatError(f"{path}:{number}: the file ends within a record (no //)")


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
        sites=USUAL_SITES if totals.max() <= 1 + MAX_ROW_ERROR else round(float(totals.max())),
    )


def _counts(path: Path, number: int, words: list[str]) -> list[float]:
    try:
        counts = [float(word) for word in words]
    except ValueError:
        counts = [-1.0]
    if not all(0 <= count < np.inf for count in counts):
        raise FormatError(
            f"{path}:{number}: {' '.join(words)[:60]!r} are no counts (numbers from 0; not log-odds)"
        )
    return counts


MAX_ROW_ERROR = 0.05
"""How far from 1 the probabilities of a position may sum: databases round to two decimals now and then."""
_KEY_VALUE = re.compile(r"(\w+)\s*=\s*(\S+)")
_LETTER_SHARE = re.compile(r"\b([ACGT])\s+([0-9]*[.]?[0-9]+(?:[eE][-+]?[0-9]+)?)(?=\s|$)")
_BACKGROUND_LINE = "background letter frequencies"
_MATRIX_LINE = "letter-probability matrix"


def read_meme(path: Path) -> MotifDatabase:
    """Read motifs: MEME text (version 4 or newer), JASPAR, HOMER or plain matrices, TRANSFAC; plain, gzip or xz.

    Counts are divided by their position's sum, nothing is added. A plain matrix without a header is named after
    its file. Where nothing tells the positions of a 4 × 4 matrix from its bases, rows are bases, with a warning.

    Raises: FormatError naming the line when the file is none of these, is not over DNA, holds no motif, holds
    two of one name, or a matrix is not what its header says.
    """
    lines = (
        (number, line)
        for number, line in read_lines(path)
        if line.strip() and (line[0] not in "#;" or _BASES_LINE.fullmatch(line))
    )
    first = next(lines, None)
    if first is None:
        raise FormatError(f"{path}: is empty; motifs in MEME, JASPAR, HOMER or TRANSFAC format are needed")
    rest = itertools.chain([first], lines)
    background = np.array(UNIFORM_BACKGROUND)
    words = first[1].replace("[", " ").replace("|", " ").split()
    # A header of JASPAR or HOMER, numbers alone, a line of bases, or a row of counts that begins with A.
    if (
        first[1].startswith((">", "TF\t", "Protein:"))
        or _NUMBERS_ONLY.fullmatch(first[1])
        or _BASES_LINE.fullmatch(first[1])
        or (words[0].rstrip(":") == "A" and len(words) > 1 and _NUMBERS_ONLY.fullmatch(words[1]))
    ):
        motifs = matrix_motifs(path, rest)
    elif _TRANSFAC_START.match(first[1]):
        motifs = list(transfac_motifs(path, rest))
    else:
        motifs, background = _meme_motifs(path, list(rest))
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


def _meme_motifs(path: Path, lines: Sequence[tuple[int, str]]) -> tuple[list[Motif], NDArray[np.float64]]:
    """The motifs and the background of MEME text. lines: numbered lines that are not blank."""
    motifs: list[Motif] = []
    background: dict[str, float] = {}
    name: list[str] = []
    """First and second name of the motif whose matrix is not read yet."""
    start = next((place for place, (_, line) in enumerate(lines) if line.startswith("MEME version")), None)
    if start is None:
        raise FormatError(
            f"{path}: is no motif file (no line begins with 'MEME version'; nor is it JASPAR, HOMER, TRANSFAC)"
        )
    for place in range(start, len(lines)):
        number, line = lines[place]
        where, words = f"{path}:{number}", line.split()
        if line.startswith("ALPHABET"):
            _, equals, letters = line.partition("=")
            if (letters.strip().upper() != "ACGT") if equals else ("DNA" not in line.upper()):
                raise FormatError(f"{where}: {line.strip()!r}; motifs over DNA (ACGT) are needed")
        elif line.lower().startswith(_BACKGROUND_LINE):
            following = " ".join(line for _, line in lines[place + 1 : place + 5])
            background = {letter: float(share) for letter, share in _LETTER_SHARE.findall(following)[:4]}
        elif words[0] == "MOTIF":
            if len(words) < 2 or name:
                problem = f"motif {name[0]} above has no letter-probability matrix" if name else "no name"
                raise FormatError(f"{where}: {problem}")
            # `meme` itself writes "MOTIF ACGT MEME-1 width = 4 …", older ones "MOTIF 1 width = 4 …".
            name = [words[1], words[2] if len(words) > 2 and not words[2].startswith("width") else ""]
        elif line.startswith(_MATRIX_LINE):
            if not name:
                raise FormatError(f"{where}: a matrix without a MOTIF line of its own before it")
            motifs.append(_meme_motif(path, lines, place, name))
            name = []
    if name:
        raise FormatError(f"{path}: motif {name[0]} has no letter-probability matrix")
    frequencies = np.array(
        [background.get(base, 0.0) for base in "ACGT"] if background else UNIFORM_BACKGROUND
    )
    if abs(frequencies.sum() - 1) > MAX_ROW_ERROR:
        raise FormatError(
            f"{path}: the background letter frequencies are not those of A, C, G and T with sum 1"
        )
    return motifs, frequencies / frequencies.sum()


def _meme_motif(path: Path, lines: Sequence[tuple[int, str]], header: int, name: Sequence[str]) -> Motif:
    number, line = lines[header]
    stated = dict(_KEY_VALUE.findall(line.partition(":")[2]))
    width, sites = _number(stated.get("w", "")), _number(stated.get("nsites", ""))
    rows: list[list[float]] = []
    for place in range(header + 1, len(lines)):
        row = [_number(word) for word in lines[place][1].split()]
        if None in row:
            break
        values = [value or 0.0 for value in row]
        if len(values) != 4 or min(values) < 0 or not abs(sum(values) - 1) <= MAX_ROW_ERROR:
            raise FormatError(
                f"{path}:{lines[place][0]}: {lines[place][1].strip()!r} is no position of a motif; four "
                "probabilities with sum 1 are needed"
            )
        rows.append([value / sum(values) for value in values])
    if not rows or (width is not None and len(rows) != width):
        wanted = f"w= {stated['w']}" if "w" in stated else "at least 1"
        raise FormatError(f"{path}:{number}: the matrix of {name[0]} has {len(rows)} rows, {wanted} expected")
    return Motif(
        name=name[0],
        alternative_name=name[1],
        probabilities=np.array(rows),
        sites=USUAL_SITES if sites is None else max(1, round(sites)),
    )


def _number(word: str) -> float | None:
    try:
        value = float(word)
    except ValueError:
        return None
    return value if np.isfinite(value) else None
