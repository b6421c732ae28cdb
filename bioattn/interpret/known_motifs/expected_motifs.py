"""The table of expected pairs: which motif should respond to which condition, and in which direction.

    factor                  jaspar_id          consensus  condition_group   direction
    MSN2/MSN4, >=2 sites    MA0341.1;MA0342.1  AGGGG      heat_shock_25_37  up
    (negative control)                         ACCGTA     heat_shock_25_37  none

`docs/known-motifs.md` defines the columns; `jaspar_id` may be left out, `up/down` stands for `either`.
"""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast

import numpy as np
from Bio.Data.IUPACData import ambiguous_dna_values
from numpy.typing import NDArray

from bioattn.errors import BioattnError, FormatError
from bioattn.formats.meme import Motif, MotifDatabase
from bioattn.formats.nucleotides import UNKNOWN
from bioattn.formats.tables import is_missing, open_table, refuse_duplicate_columns
from bioattn.interpret.choices import MatchBy
from bioattn.interpret.known_motifs.site_sets import (
    EXACT,
    Coverage,
    SiteSet,
    consensus_motif,
    find_sites,
    shuffled_columns,
    telling_positions,
    union,
)
from bioattn.interpret.motifs.hits import base_composition
from bioattn.system.progress import SILENT, Progress, watched
from bioattn.text import counted, quoted

LOGGER = logging.getLogger("bioattn")

Direction = Literal["up", "down", "either", "none"]
DIRECTIONS: tuple[Direction, ...] = ("up", "down", "either", "none")
_COLUMNS = ("factor", "consensus", "condition_group", "direction")
_REPEATED = re.compile(r"\(?[nN](\d+)\)?")
_SITES = re.compile(r"(?:>=|≥)\s*(\d+)\s*sites?")
_IUPAC = {
    letter: np.array([base in bases for base in "ACGT"])
    for letter, bases in ambiguous_dna_values.items()
    if letter != "X"
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
    pairs = []
    for line, cells in table.rows():
        row = dict(zip(table.header, cells, strict=False))
        factor, condition, answer = row["factor"], row["condition_group"], row["direction"]
        matrices, consensus = (
            "" if is_missing(cell) else cell for cell in (row.get("jaspar_id", ""), row["consensus"])
        )
        words = re.match(r"(up/down|down/up|[A-Za-z]+)\W*(.*)", answer, re.IGNORECASE)
        direction = words[1].lower() if words else ""
        direction = "either" if "/" in direction else direction
        if words is None or direction not in DIRECTIONS:
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
            remark=words[2].rstrip(")"),
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


LEAST_PROMOTERS = 10
"""A motif with sites in fewer promoters is not scored."""
LEAST_SHUFFLED_PROMOTERS = 5
"""A shuffled motif with sites in fewer promoters is passed over for another."""
SPARE = 3
"""Shuffled motifs drawn for every one wanted, as some have too few sites."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedSites:
    """The sites of one motif of the table."""

    matched_by: str
    """The consensus, or the names of the matrices."""
    sites: SiteSet
    shuffled: list[SiteSet]
    """Of motifs of equal information, where they share no base with a site of the motif."""


def locate(
    pairs: Sequence[ExpectedPair],
    codes: NDArray[np.uint8],
    database: MotifDatabase | None,
    *,
    match_by: MatchBy,
    num_shuffled: int,
    p_value: float,
    seed: int,
    progress: Progress = SILENT,
) -> list[ExpectedSites]:
    """Find the sites of each pair; pairs of one motif share them. codes: (promoters, L); all-N rows are left out.

    Raises: BioattnError when a pair names matrices that the database lacks, or needs one and none is given.
    """
    background = base_composition(codes)
    matrices = {motif.name: motif for motif in (database.motifs if database else [])}
    matched = [_matched(pair, match_by, matrices, background) for pair in pairs]
    # Pairs of the same matrices or consensus and the same least number of sites share their sites.
    keys = [
        (motifs[0].name, motifs[0].sites == EXACT, pair.least_sites)
        for motifs, pair in zip(matched, pairs, strict=True)
    ]
    rows = np.flatnonzero((codes < UNKNOWN).any(axis=1))
    sites_of: dict[tuple[str, bool, int], ExpectedSites] = {}
    watched_keys = watched(progress, "motifs and their shuffles", keys)
    for pair, motifs, key in zip(pairs, matched, watched_keys, strict=True):
        if key in sites_of:
            continue
        rng = np.random.default_rng([seed, len(sites_of)])
        limit = 0.0 if key[1] else p_value
        found = _locate(motifs, codes[rows], background, pair.least_sites, num_shuffled, limit, rng)
        sites_of[key] = replace(
            found, sites=found.sites.of(rows), shuffled=[sites.of(rows) for sites in found.shuffled]
        )
        _warn_of_few(pair, sites_of[key], num_shuffled)
    return [sites_of[key] for key in keys]


def _matched(
    pair: ExpectedPair, match_by: MatchBy, matrices: dict[str, Motif], background: NDArray[np.float64]
) -> list[Motif]:
    """The motifs that stand for a pair: patterns of its consensus, or matrices; all have the name of the whole."""
    patterns = parse_consensus(pair.consensus)
    if not pair.matrices or (patterns is not None and match_by is MatchBy.CONSENSUS):
        if patterns is None:
            raise BioattnError(
                f"line {pair.line} of the expected pairs: the consensus {pair.consensus!r} of {pair.factor!r} is "
                "no IUPAC pattern and there is no jaspar_id to use instead; give one of them"
            )
        return [consensus_motif(pattern, background, pair.consensus) for pattern in patterns]
    for wanted in pair.matrices:
        if wanted not in matrices:
            instead = "is not in the motif database" if matrices else "needs a motif database; give --motifs"
            raise BioattnError(
                f"line {pair.line} of the expected pairs: matrix {wanted!r} of {pair.factor!r} {instead}"
            )
    return [replace(matrices[wanted], name=";".join(pair.matrices)) for wanted in pair.matrices]


def _locate(
    motifs: Sequence[Motif],
    codes: NDArray[np.uint8],
    background: NDArray[np.float64],
    least_sites: int,
    num_shuffled: int,
    p_value: float,
    rng: np.random.Generator,
) -> ExpectedSites:
    every = union(find_sites(codes, motifs, background, p_value))
    covered = Coverage(every, *codes.shape)
    telling = [telling_positions(motif.probabilities, background) for motif in motifs]
    exact = motifs[0].sites == EXACT
    # Of a consensus it is the bases allowed that are shuffled.
    matrices = [motif.probabilities > 0 if exact else motif.probabilities for motif in motifs]
    versions = shuffled_columns(matrices, telling, SPARE * num_shuffled, rng)
    shuffled: list[SiteSet] = []
    for start in range(0, len(versions), max(1, num_shuffled)):
        candidates = [
            consensus_motif(matrix, background, motif.name) if exact else replace(motif, probabilities=matrix)
            for version in versions[start : start + num_shuffled]
            for motif, matrix in zip(motifs, version, strict=True)
        ]
        sets = find_sites(codes, candidates, background, p_value)
        for first in range(0, len(sets), len(motifs)):
            apart = covered.outside(union(sets[first : first + len(motifs)])).at_least(least_sites)
            if apart.promoters >= LEAST_SHUFFLED_PROMOTERS and len(shuffled) < num_shuffled:
                shuffled.append(apart)
        if len(shuffled) == num_shuffled:
            break
    return ExpectedSites(matched_by=motifs[0].name, sites=every.at_least(least_sites), shuffled=shuffled)


def _warn_of_few(pair: ExpectedPair, located: ExpectedSites, num_shuffled: int) -> None:
    if located.sites.promoters < LEAST_PROMOTERS:
        LOGGER.warning(
            f"{pair.factor} ({located.matched_by}): sites in {counted(located.sites.promoters, 'promoter')}, "
            f"fewer than {LEAST_PROMOTERS}; not scored"
        )
    elif len(located.shuffled) < num_shuffled:
        LOGGER.warning(
            f"{pair.factor} ({located.matched_by}): only {len(located.shuffled)} shuffled motifs have sites in "
            f"{LEAST_SHUFFLED_PROMOTERS} promoters or more, {num_shuffled} were asked for"
        )
