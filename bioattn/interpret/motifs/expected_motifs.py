"""The table of expected pairs: which motif should respond to which condition, in which direction, and its sites.

    factor                  jaspar_id          consensus  condition_group   direction
    MSN2/MSN4, >=2 sites    MA0341.1;MA0342.1  AGGGG      heat_shock_25_37  up
    (negative control)                         ACCGTA     heat_shock_25_37  none

`docs/known-motifs.md` defines the columns; `jaspar_id` may be left out, `up/down` stands for `either`.

A *site set* is where one or several matrices match a set of promoters, on either strand; a place that matches
twice counts once. What an expected row binds is given as a consensus (exact matches of an IUPAC pattern) or as
matrices (at `p_value`; a matrix so short that its best site is more likely than that takes its best sites).

A *shuffled* motif has the columns of the motif in another order, each read as it stands or complemented. It has
the motif's information, its G+C content and, against a background that is alike on both strands, the very
distribution of its scores, so it is found as often in random sequence. Positions that tell nothing (n) stay where
they are. A five-letter motif has fewer than a hundred such relatives; then bases are exchanged at will.
"""

import itertools
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from Bio.Data.IUPACData import ambiguous_dna_values
from numpy.typing import NDArray

from bioattn.errors import BioattnError, FormatError
from bioattn.formats.meme import Motif, MotifDatabase
from bioattn.formats.nucleotides import UNKNOWN
from bioattn.formats.tables import is_missing, open_table, refuse_duplicate_columns
from bioattn.interpret.choices import KnownMotifSettings, MatchBy
from bioattn.interpret.motifs.hits import base_composition, find_motif_hits
from bioattn.interpret.position_maps import covered_bases, running_sums
from bioattn.system.progress import SILENT, Progress, watched
from bioattn.text import counted, quoted

LOGGER = logging.getLogger("bioattn")
EXACT = 10**9
"""Sites said to be behind a consensus: so many that nothing is added to its counts."""
TELLING_BITS = 0.05
"""A position with less information than this stays in its place when a motif is shuffled."""
TRIES = 30
"""Candidates drawn for every shuffled motif wanted, before bases are exchanged at will, and again after."""
_COMPLEMENTS = ((0, 1, 2, 3), (3, 1, 2, 0), (0, 2, 1, 3), (3, 2, 1, 0))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SiteSet:
    """Places in promoters that match, ordered by row and start, each once."""

    rows: NDArray[np.int64]
    starts: NDArray[np.int64]
    """0-based, in window bases."""
    widths: NDArray[np.int64]
    """Bases each covers."""

    @property
    def promoters(self) -> int:
        return len(np.unique(self.rows))

    def part(self, chosen: NDArray[np.bool_]) -> "SiteSet":
        """Select sites by a mask."""
        return SiteSet(rows=self.rows[chosen], starts=self.starts[chosen], widths=self.widths[chosen])

    def of(self, rows: NDArray[np.integer]) -> "SiteSet":
        """Renumber promoter i as `rows[i]`; `rows` ascend."""
        return SiteSet(rows=rows[self.rows].astype(np.int64), starts=self.starts, widths=self.widths)

    def at_least(self, number: int) -> "SiteSet":
        """Select the sites in promoters with `number` sites or more."""
        _, inverse, counts = np.unique(self.rows, return_inverse=True, return_counts=True)
        return self.part(counts[inverse] >= number)


class Coverage:
    """The bases of `num_rows` windows of `length` bases that lie in a site."""

    def __init__(self, sites: SiteSet, num_rows: int, length: int) -> None:
        ends = sites.starts + sites.widths
        self._before = running_sums(covered_bases(sites.rows, sites.starts, ends, (num_rows, length)))
        """Covered bases before each position."""

    def windows(self, rows: slice, width: int) -> NDArray[np.bool_]:
        """(rows, length − width + 1) whether a window of `width` bases, by its first, shares one with a site."""
        before = self._before[rows]
        return np.asarray(before[:, width:] > before[:, : before.shape[1] - width])

    def outside(self, sites: SiteSet) -> SiteSet:
        """Select the sites that share no base with the sites covered."""
        ends = sites.starts + sites.widths
        return sites.part(self._before[sites.rows, ends] == self._before[sites.rows, sites.starts])


def consensus_motif(pattern: NDArray[np.bool_], background: NDArray[np.float64], name: str) -> Motif:
    """Make a motif whose best sites are exactly the matches of a pattern (width, 4)."""
    allowed = pattern * background
    return Motif(name=name, probabilities=allowed / allowed.sum(axis=1, keepdims=True), sites=EXACT)


def find_sites(
    codes: NDArray[np.uint8], motifs: Sequence[Motif], background: NDArray[np.float64], p_value: float
) -> list[SiteSet]:
    """Find the sites of each motif alone in codes (N, L).

    background: frequencies of A, C, G, T, alike on both strands. p_value: as in the module's docstring; 0 for best
    sites only (of a consensus, its exact matches).
    """
    hits = find_motif_hits(codes, motifs, background=background, p_value=p_value, best_up_to=1.0)
    hits = hits.sort_values("number", kind="stable")
    rows, starts = hits["row"].to_numpy(np.int64), hits["start"].to_numpy(np.int64)
    cuts = np.searchsorted(hits["number"], np.arange(len(motifs) + 1))
    return [
        _merged(rows[first:last], starts[first:last], np.full(last - first, motif.width, dtype=np.int64))
        for motif, (first, last) in zip(motifs, itertools.pairwise(cuts), strict=True)
    ]


def union(sets: Sequence[SiteSet]) -> SiteSet:
    """Join the sites of several motifs that stand for one; a place and width found twice counts once."""
    fields = ("rows", "starts", "widths")
    return _merged(*(np.concatenate([getattr(each, name) for each in sets]) for name in fields))


def _merged(rows: NDArray[np.int64], starts: NDArray[np.int64], widths: NDArray[np.int64]) -> SiteSet:
    # One number a place: sorting those is many times faster than sorting triples.
    wide, long = (int(values.max(initial=0)) + 1 for values in (widths, starts))
    places = np.unique((rows * long + starts) * wide + widths)
    return SiteSet(rows=places // (long * wide), starts=places // wide % long, widths=places % wide)


def shuffled_columns(
    matrices: Sequence[NDArray[Any]],
    telling: Sequence[NDArray[np.bool_]],
    number: int,
    rng: np.random.Generator,
) -> list[list[NDArray[Any]]]:
    """Up to `number` shuffled versions of matrices (width, 4) that stand for one motif (the module says how).

    telling: for each matrix which positions move, (width,). Matrices of one width share their shuffles, as those
    of one factor are alike. No version equals the motif or another version, on either strand, to two decimals.
    There are fewer than `number` where no more can be made.
    """
    versions: dict[bytes, list[NDArray[Any]]] = {}
    taken = {_signature(matrix) for matrix in matrices}
    widths = sorted({len(matrix) for matrix in matrices})
    for at_will in (False, True):
        for _ in range(TRIES * number):
            if len(versions) == number:
                break
            # Sort keys of the positions, and the columns read as A, C, G, T at each, (width, 4).
            draws: dict[int, tuple[NDArray[Any], NDArray[Any]]] = {}
            for width in widths:
                keys = rng.random(width)
                if at_will:
                    bases = np.argsort(rng.random((width, 4)), axis=1)
                else:
                    bases = np.array(_COMPLEMENTS)[rng.integers(len(_COMPLEMENTS), size=width)]
                draws[width] = keys, bases
            version = []
            for matrix, moves in zip(matrices, telling, strict=True):
                keys, bases = draws[len(matrix)]
                positions = np.flatnonzero(moves)
                order = positions[np.argsort(keys[positions], kind="stable")]
                moved = matrix.copy()
                moved[positions] = np.take_along_axis(matrix[order], bases[positions], axis=1)
                version.append(moved)
            signatures = [_signature(matrix) for matrix in version]
            if not taken & set(signatures):
                versions.setdefault(b"".join(signatures), version)
    return list(versions.values())


def telling_positions(
    probabilities: NDArray[np.float64], background: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Mask of the positions of a matrix (width, 4) with `TELLING_BITS` or more of information, shape (width,)."""
    odds = np.where(probabilities > 0, probabilities, background) / background
    return np.asarray((probabilities * np.log2(odds)).sum(axis=1) >= TELLING_BITS)


def _signature(matrix: NDArray[Any]) -> bytes:
    """The same for a matrix and its reverse complement."""
    rounded = np.round(matrix.astype(np.float64), 2) + 0.0
    return min(rounded.tobytes(), np.ascontiguousarray(rounded[::-1, ::-1]).tobytes())


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
        where = f"{path}:{line}"
        if words is None or direction not in DIRECTIONS:
            raise FormatError(f"{where}: the direction {answer!r} begins with none of {quoted(DIRECTIONS)}")
        if not condition:
            raise FormatError(f"{where}: the condition_group is empty; name a treatment or group of them")
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
            raise FormatError(f"{where}: neither jaspar_id nor consensus says what {factor!r} binds")
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
        letters = _REPEATED.sub(lambda repeat: "N" * min(int(repeat[1]), _MOST_N), alternative.strip())
        letters = letters.upper().replace("U", "T").strip("N")
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
    settings: KnownMotifSettings,
    progress: Progress = SILENT,
) -> list[ExpectedSites]:
    """Find the sites of each pair; pairs of one motif share them. codes: (promoters, L); all-N rows are left out.

    Raises: BioattnError when a pair names matrices that the database lacks, or needs one and none is given.
    """
    background, num_shuffled = base_composition(codes), settings.num_shuffled
    matrices = {motif.name: motif for motif in (database.motifs if database else [])}
    matched = [_matched(pair, settings.match_by, matrices, background) for pair in pairs]
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
        rng = np.random.default_rng([settings.seed, len(sites_of)])
        limit = 0.0 if key[1] else settings.p_value
        found = _locate(motifs, codes[rows], background, pair.least_sites, num_shuffled, limit, rng)
        shuffled = [sites.of(rows) for sites in found.shuffled]
        sites_of[key] = replace(found, sites=found.sites.of(rows), shuffled=shuffled)
        title, promoters = f"{pair.factor} ({found.matched_by})", found.sites.promoters
        if promoters < LEAST_PROMOTERS:
            LOGGER.warning(
                f"{title}: sites in {counted(promoters, 'promoter')}, fewer than {LEAST_PROMOTERS}; not scored"
            )
        elif len(found.shuffled) < num_shuffled:
            LOGGER.warning(
                f"{title}: only {len(found.shuffled)} shuffled motifs have sites in {LEAST_SHUFFLED_PROMOTERS} "
                f"promoters or more, {num_shuffled} were asked for"
            )
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
