"""Related promoters, and leakage between the sides of a split.

Promoters are related by shared k-mers, overlap, or paralogous genes. A split that keeps each group on one side
does not let a model look up in training what it is tested on. Leakage is measured the same way for every split.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from bioattn.choices import SPLIT_NAMES, TEST, TRAIN, VALIDATION
from bioattn.errors import FormatError
from bioattn.formats.fasta import read_fasta
from bioattn.promoters.kmers import (
    DEFAULT_K,
    ROWS_AT_ONCE,
    distinct_kmers,
    distinct_values,
    is_low_complexity,
)
from bioattn.text import percentage

MIN_SHARE = 0.1
"""Promoters that share at least this part of the smaller one's k-mers are linked."""

MIN_COMMON_CAP = 200
"""k-mers in more promoters than this and than one in a hundred link nothing: repeats such as Alu are in a fifth of
all human promoters and would glue the genome into one group. (No yeast 14-mer is in more than 135.)"""

MOSTLY_COMMON = 0.5
"""Sequences that share at least this part of one's k-mers are linked although these k-mers are very common:
hundreds of variants of one promoter have hardly any others."""

PROTEIN_K = 5
PROTEIN_MIN_SHARE = 0.03
PROTEIN_MIN_COMMON = 5
"""Proteins that share 5 distinct 5-mers and 3 % of the smaller one's are linked. On the yeast proteome every pair
just above this line that was aligned (BLOSUM62) was homologous, at 44 % identity in the median."""

_AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"


class Links(NamedTuple):
    """Ordered pairs of items that share k-mers; both directions are there where both shares reach the limit.

    Items that share very common k-mers (`MOSTLY_COMMON`) are linked to a random sample of each other, not to all.
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    share: NDArray[np.float32]
    """Part of the distinct k-mers of `first` that `second` has."""


def promoter_links(codes_GL: NDArray[np.uint8]) -> Links:
    """Pairs of promoters in which the second has at least `MIN_SHARE` of the first one's canonical k-mers.

    k-mers of low complexity (`is_low_complexity`) are not counted as shared, nor are very common ones
    (`MIN_COMMON_CAP`) that are less than half of the promoter (`MOSTLY_COMMON`).
    """
    kmers, offsets = distinct_kmers(codes_GL)
    cap = max(MIN_COMMON_CAP, len(codes_GL) // 100)
    return _links(kmers, offsets, cap, MIN_SHARE, 1, dna=True)


def protein_links(
    proteins: Sequence[str],
    *,
    k: int = PROTEIN_K,
    min_share: float = PROTEIN_MIN_SHARE,
    min_common: int = PROTEIN_MIN_COMMON,
    cap: int | None = None,
) -> Links:
    """Pairs of proteins in which the second has enough of the first one's k-mers to be its paralogue.

    Letters other than the twenty amino acids end a k-mer; k-mers of fewer than three different letters and those
    in more than `cap` proteins (None: 2 %, at least 100) are not counted as shared, unless these are at least half
    of a protein's (`MOSTLY_COMMON`).
    """
    kmers, offsets = _protein_kmers(proteins, k)
    cap = max(100, len(proteins) // 50) if cap is None else cap
    return _links(kmers, offsets, cap, min_share, min_common, dna=False)


def overlap_links(
    chrom: Sequence[str], start: NDArray[np.int64], end: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of intervals that overlap by at least one base, enough of them to connect all that overlap.

    Intervals are 0-based and half-open; those with an empty chromosome name have no place and no pairs.
    """
    first, second = [], []
    placed = [index for index, name in enumerate(chrom) if name]
    furthest = -1
    for index in sorted(placed, key=lambda i: (chrom[i], int(start[i]), int(end[i]))):
        if furthest >= 0 and chrom[furthest] == chrom[index] and start[index] < end[furthest]:
            first.append(furthest)
            second.append(index)
        if furthest < 0 or chrom[furthest] != chrom[index] or end[index] > end[furthest]:
            furthest = index
    return np.array(first, dtype=np.int64), np.array(second, dtype=np.int64)


def group_labels(
    size: int, pairs: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]]
) -> NDArray[np.int64]:
    """Group of each of `size` items when every pair is in one group; groups are numbered by their first item."""
    first = np.concatenate([np.zeros(0, np.int64), *(pair[0] for pair in pairs)])
    second = np.concatenate([np.zeros(0, np.int64), *(pair[1] for pair in pairs)])
    graph = sparse.coo_matrix((np.ones(len(first), dtype=np.int32), (first, second)), shape=(size, size))
    _, labels = connected_components(graph.tocsr(), directed=False)
    _, first_item, renumbered = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first_item), dtype=np.int64)
    rank[np.argsort(first_item)] = np.arange(len(first_item))
    return rank[renumbered]


def read_proteins(path: Path) -> dict[str, str]:
    """Protein sequences by record name (the gene id), upper case, a final `*` removed."""
    proteins = {record.name: record.sequence.upper().removesuffix("*") for record in read_fasta(path)}
    if proteins and all(set(sequence) <= set("ACGTUN") for sequence in proteins.values()):
        raise FormatError(f"{path}: holds nucleotides; --proteins needs the protein sequences of the genes")
    return proteins


def _links(
    kmers: NDArray[np.int32],
    offsets: NDArray[np.int64],
    cap: int,
    min_share: float,
    min_common: int,
    dna: bool,
) -> Links:
    """Pairs of rows that share k-mers, counted by the product of the row × k-mer matrix with its transpose."""
    size = len(offsets) - 1
    sizes = np.diff(offsets)
    # One sort of k-mer and row in a single number is much faster than an argsort, and needs less room. Rows are
    # shuffled, otherwise than splits do: the first rows of a common k-mer are a sample, nearly the same one for
    # all k-mers of one sequence's variants.
    shuffled = np.random.default_rng((size, DEFAULT_K)).permutation(size)
    keys = kmers.astype(np.int64) << 32
    keys |= np.repeat(np.argsort(shuffled), sizes)
    keys.sort()
    ascending = (keys >> 32).astype(np.int32)
    starts = np.flatnonzero(np.diff(ascending, prepend=-1))
    counts = np.diff(starts, append=len(ascending))
    useful = counts > 1
    if dna:
        useful[useful] &= ~is_low_complexity(ascending[starts[useful]], DEFAULT_K)
    parts = [Links(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32))]
    for chosen, least, most in (
        (useful & (counts <= cap), min_share, cap),
        (useful & (counts > cap), max(min_share, MOSTLY_COMMON), min(cap, MIN_COMMON_CAP)),
    ):
        rows = shuffled[keys[np.repeat(chosen, counts)] & 0xFFFFFFFF]
        columns = np.repeat(np.arange(int(chosen.sum())), counts[chosen])
        place = np.arange(len(rows)) - np.repeat(np.cumsum(counts[chosen]) - counts[chosen], counts[chosen])
        shape = (size, int(chosen.sum()))
        ones = np.ones(len(rows), dtype=np.int32)
        matrix = sparse.csr_matrix((ones, (rows, columns)), shape=shape)
        sample = place < most
        partners = sparse.csr_matrix((ones[sample], (rows[sample], columns[sample])), shape=shape)
        transposed = partners.T.tocsr()
        able = np.flatnonzero(matrix.getnnz(axis=1) >= np.maximum(min_common, least * sizes))
        for begin in range(0, len(able), ROWS_AT_ONCE):
            some = able[begin : begin + ROWS_AT_ONCE]
            common = (matrix[some] @ transposed).tocoo()
            first, second = some[common.row], common.col.astype(np.int64)
            share = common.data / np.maximum(1, sizes[first])
            keep = (first != second) & (share >= least) & (common.data >= min_common)
            parts.append(Links(first[keep], second[keep], share[keep].astype(np.float32)))
    return Links(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def _protein_kmers(proteins: Sequence[str], k: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    code = np.full(256, 255, dtype=np.uint8)
    code[np.frombuffer(_AMINO_ACIDS.encode(), dtype=np.uint8)] = np.arange(len(_AMINO_ACIDS))
    parts, counts = [np.zeros(0, dtype=np.int32)], [0]
    for protein in proteins:
        letters = code[np.frombuffer(protein.encode("ascii", "replace"), dtype=np.uint8)]
        places = len(letters) - k + 1
        if places < 1:
            counts.append(0)
            continue
        windows = np.lib.stride_tricks.sliding_window_view(letters, k)
        ordered = np.sort(windows, axis=1)
        varied = (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1) >= 2
        usable = varied & (ordered[:, -1] != 255)
        weights = len(_AMINO_ACIDS) ** np.arange(k - 1, -1, -1)
        kmers = distinct_values(windows[usable].astype(np.int32) @ weights.astype(np.int32))
        parts.append(kmers)
        counts.append(len(kmers))
    return np.concatenate(parts), np.cumsum(counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leakage:
    """What the promoters of one side have in common with those of another."""

    side: str
    against: str
    """The side looked into: `train`, or `validation` for the test side."""
    promoters: int
    shared_kmers: float
    """Part of them that has at least `min_share` of its k-mers in common with one promoter of `against`."""
    overlapping: float | None
    """Part whose window (with flanks) overlaps one of `against`; None when the promoters have no location."""
    paralogues: float | None
    """Part whose protein has a paralogue in `against`; None when no proteins were given."""
    k: int = DEFAULT_K
    min_share: float = MIN_SHARE

    def sentence(self) -> str:
        """Describe the leakage in one line."""
        parts = [
            f"{percentage(self.shared_kmers, 1)} share at least {percentage(self.min_share)} of their "
            f"{self.k}-mers with one"
        ]
        if self.overlapping is not None:
            parts.append(f"{percentage(self.overlapping, 1)} overlap one")
        if self.paralogues is not None:
            parts.append(f"{percentage(self.paralogues, 1)} have a paralogue there")
        return f"{self.side} promoters against {self.against}: {', '.join(parts)} (of {self.promoters:,})"


def measure_leakage(
    gene_split: NDArray[np.uint8],
    links: Links,
    chrom: Sequence[str],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    paralogues: Links | None = None,
) -> list[Leakage]:
    """Leakage of validation and test against training, and of test against validation; empty sides are left out.

    links: of `homology.promoter_links`. start, end: windows WITH flanks, 0-based half-open.
    """
    located = any(chrom)
    figures = []
    for side, against in ((VALIDATION, TRAIN), (TEST, TRAIN), (TEST, VALIDATION)):
        here, there = gene_split == side, gene_split == against
        if not here.any() or not there.any():
            continue
        figures.append(
            Leakage(
                side=SPLIT_NAMES[side],
                against=SPLIT_NAMES[against],
                promoters=int(here.sum()),
                shared_kmers=_linked(links, here, there, MIN_SHARE),
                overlapping=float(overlaps_any(chrom, start, end, here, there)[here].mean())
                if located
                else None,
                paralogues=None if paralogues is None else _linked(paralogues, here, there, 0.0),
            )
        )
    return figures


def overlaps_any(
    chrom: Sequence[str],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    here: NDArray[np.bool_],
    there: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Whether each interval of `here` overlaps one of `there` by at least a base; False for all others.

    Intervals are 0-based and half-open; an empty chromosome name means no place.
    """
    result = np.zeros(len(start), dtype=np.bool_)
    names, number = np.unique(np.asarray(chrom, dtype=object).astype(str), return_inverse=True)
    for index, name in enumerate(names):
        mine, other = np.flatnonzero(here & (number == index)), np.flatnonzero(there & (number == index))
        if not name or not mine.size or not other.size:
            continue
        # Intervals overlap unless one ends before the other begins: those that begin in time, less those that
        # end too early. (Every interval has start < end, so the second set lies within the first.)
        begun = np.searchsorted(np.sort(start[other]), end[mine], side="left")
        over = np.searchsorted(np.sort(end[other]), start[mine], side="right")
        result[mine] = begun > over
    return result


def _linked(links: Links, here: NDArray[np.bool_], there: NDArray[np.bool_], min_share: float) -> float:
    hit = here[links.first] & there[links.second] & (links.share >= min_share)
    return len(np.unique(links.first[hit])) / int(here.sum())
