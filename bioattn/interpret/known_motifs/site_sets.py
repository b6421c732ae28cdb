"""Sites of an expected motif, and of shuffled motifs like it.

A *site set* is where one or several matrices match a set of promoters, on either strand; a place that matches
twice counts once. What an expected row binds is given as a consensus (exact matches of an IUPAC pattern) or as
matrices (at `p_value`; a matrix so short that its best site is more likely than that takes its best sites).

A *shuffled* motif has the columns of the motif in another order, each read as it stands or complemented. It has
the motif's information, its G+C content and, against a background that is alike on both strands, the very
distribution of its scores, so it is found as often in random sequence. Positions that tell nothing (n) stay where
they are. A five-letter motif has fewer than a hundred such relatives; then bases are exchanged at will.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bioattn.formats.meme import Motif
from bioattn.interpret.motifs.hits import find_motif_hits

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
        edges = np.zeros((num_rows, length + 1), dtype=np.int32)
        np.add.at(edges, (sites.rows, sites.starts), 1)
        np.add.at(edges, (sites.rows, sites.starts + sites.widths), -1)
        self._before = np.zeros((num_rows, length + 1), dtype=np.int32)
        """Covered bases before each position."""
        np.cumsum(edges.cumsum(axis=1)[:, :-1] > 0, axis=1, out=self._before[:, 1:])

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
    return _merged(
        np.concatenate([each.rows for each in sets]),
        np.concatenate([each.starts for each in sets]),
        np.concatenate([each.widths for each in sets]),
    )


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
            draws = {width: _draw(width, rng, at_will=at_will) for width in widths}
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


def _draw(
    width: int, rng: np.random.Generator, *, at_will: bool
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Sort keys of the positions, and the columns read as A, C, G, T at each, (width, 4)."""
    keys = rng.random(width)
    if at_will:
        return keys, np.argsort(rng.random((width, 4)), axis=1)
    return keys, np.array(_COMPLEMENTS)[rng.integers(len(_COMPLEMENTS), size=width)]


def _signature(matrix: NDArray[Any]) -> bytes:
    """The same for a matrix and its reverse complement."""
    rounded = np.round(matrix.astype(np.float64), 2) + 0.0
    return min(rounded.tobytes(), np.ascontiguousarray(rounded[::-1, ::-1]).tobytes())
