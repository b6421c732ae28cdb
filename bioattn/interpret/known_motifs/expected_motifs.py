"""The table of expected pairs: which motif should respond to which condition, and in which direction.

A table (tab, comma or semicolon) with the columns factor, consensus, condition_group, direction and, optionally,
jaspar_id; others are passed over. One row per pair of a motif and a condition:

    factor                  jaspar_id          consensus  condition_group   direction
    MSN2/MSN4, >=2 sites    MA0341.1;MA0342.1  AGGGG      heat_shock_25_37  up
    (negative control)                         ACCGTA     heat_shock_25_37  none

`direction` begins with `up`, `down`, `either` (or `up/down`) or `none` (no answer expected); what follows is a
remark. A factor that says `>=2 sites` counts promoters with so many. `consensus` is an IUPAC pattern, `n11` or
`(n11)` standing for eleven n, alternatives apart by `|`; what is no such pattern (`TGAAAAATTT-like`) needs
matrices.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import FormatError
from bioattn.formats.tables import is_missing, open_table, refuse_duplicate_columns
from bioattn.text import quoted

Direction = Literal["up", "down", "either", "none"]
DIRECTIONS: tuple[Direction, ...] = ("up", "down", "either", "none")
_COLUMNS = ("factor", "consensus", "condition_group", "direction")
_REPEATED = re.compile(r"\(?[nN](\d+)\)?")
_SITES = re.compile(r"(?:>=|≥)\s*(\d+)\s*sites?")
_IUPAC = {
    letter: np.array([base in bases for base in "ACGT"])
    for letter, bases in {
        **{base: base for base in "ACGT"},
        **{"R": "AG", "Y": "CT", "S": "CG", "W": "AT", "K": "GT", "M": "AC"},
        **{"B": "CGT", "D": "AGT", "H": "ACT", "V": "ACG", "N": "ACGT"},
    }.items()
}
_MOST_N = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedPair:
    """One row of the table."""

    line: int
    """Of the file, from 1."""
    factor: str
    matrices: tuple[str, ...]
    """Names in a motif database; may be empty."""
    consensus: str
    condition: str
    direction: Direction
    remark: str
    """What stands behind the direction."""

    @property
    def least_sites(self) -> int:
        """How many sites a promoter needs to count."""
        stated = _SITES.search(self.factor)
        return int(stated[1]) if stated else 1


def read_expected(path: Path) -> list[ExpectedPair]:
    """Read a table of expected pairs.

    Raises: FormatError naming the line when a column is missing, a direction is unknown, or a row names neither a
    matrix nor a consensus.
    """
    table = open_table(path)
    refuse_duplicate_columns(table)
    missing = [name for name in _COLUMNS if name not in table.header]
    if missing:
        raise FormatError(
            f"{path}: a table of expected pairs has the columns {quoted(_COLUMNS)}; {missing[0]!r} is missing"
        )
    place = {name: table.header.index(name) for name in (*_COLUMNS, "jaspar_id") if name in table.header}
    pairs = []
    for line, cells in table.rows():
        factor, consensus, condition, answer = (cells[place[name]] for name in _COLUMNS)
        matrices = cells[place["jaspar_id"]] if "jaspar_id" in place else ""
        matrices, consensus = ("" if is_missing(cell) else cell for cell in (matrices, consensus))
        words = re.match(r"(up/down|down/up|[A-Za-z]+)\W*(.*)", answer, re.IGNORECASE)
        direction = words[1].lower() if words else ""
        direction = "either" if "/" in direction else direction
        if direction not in DIRECTIONS:
            raise FormatError(
                f"{path}:{line}: the direction {answer!r} begins with none of {quoted(DIRECTIONS)}"
            )
        if not condition:
            raise FormatError(
                f"{path}:{line}: the condition_group is empty; name a treatment or group of them"
            )
        pair = ExpectedPair(
            line=line,
            factor=factor,
            matrices=tuple(name.strip() for name in re.split(r"[;,]", matrices) if name.strip()),
            consensus=consensus,
            condition=condition,
            direction=cast(Direction, direction),
            remark=words[2].rstrip(")") if words else "",
        )
        if not pair.matrices and not pair.consensus:
            raise FormatError(f"{path}:{line}: neither jaspar_id nor consensus says what {factor!r} binds")
        pairs.append(pair)
    if not pairs:
        raise FormatError(f"{path}: holds no expected pairs")
    return pairs


def parse_consensus(text: str) -> list[NDArray[np.bool_]] | None:
    """Parse a consensus: the bases each position allows, (width, 4), an array per alternative; None if it is none.

    Positions at the ends that allow every base are left out. A pattern that repeats another, read on either
    strand, is one with it.

    >>> [pattern.shape for pattern in parse_consensus("CGG(n11)CCG")]
    [(17, 4)]
    >>> len(parse_consensus("GAAnnTTC|TGACTC|GAGTCA")), parse_consensus("TGAAAAATTT-like")
    (2, None)
    """
    patterns: dict[bytes, NDArray[np.bool_]] = {}
    for alternative in text.split("|"):
        letters = _REPEATED.sub(
            lambda repeat: "N" * min(int(repeat[1]), _MOST_N), alternative.strip()
        ).upper()
        letters = letters.replace("U", "T").strip("N")
        if not letters or any(letter not in _IUPAC for letter in letters):
            return None
        pattern = np.array([_IUPAC[letter] for letter in letters])
        patterns.setdefault(min(pattern.tobytes(), pattern[::-1, ::-1].tobytes()), pattern)
    return list(patterns.values())
