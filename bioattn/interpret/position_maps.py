"""One map over positions from the attention sites of a promoter model, averaged over sites and heads, and spread
from bins to bases.

Shapes: B promoters, T treatments, K keys (bins of positions).
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import gaussian_filter1d

from bioattn.choices import matching_sites, not_there
from bioattn.errors import BioattnError, SettingsError
from bioattn.interpret.choices import Upsampling
from bioattn.store.reader import Attention, SiteInfo
from bioattn.text import quoted

SIGMA_IN_BINS = 0.5
"""Standard deviation of the Gaussian, in bin widths. Motifs straddle bin edges; so neighbours share them."""


def upsample(
    weights: ArrayLike,
    key_edges: Sequence[int] | NDArray[np.int64],
    length: int,
    method: Upsampling = Upsampling.NEAREST,
    receptive_field: int | None = None,
) -> NDArray[np.float64]:
    """Spread weights over bins, shape (..., K), to weights over the bases of a window, shape (..., length).

    key_edges: K + 1 increasing edges in bases from the window's first base, within 0..length; bin k is
    [key_edges[k], key_edges[k + 1]). A row keeps its sum: with `nearest` a bin's weight is shared equally by its
    bases; with `gaussian` that box is then smoothed by a Gaussian of half the bin's width, cut at 4 standard
    deviations and reflected at the window's ends; with `receptive-field` the weight is shared equally by all bases
    of the window that the bin's key sees: `receptive_field` bases centred on the bin (where that is half a base
    off, nearer to the window's start); a bin shorter than the widest is the right end of one of that width, as the
    first one of a window is. Bases outside all bins get 0 from `nearest`.

    >>> upsample([0.5, 0.25], [0, 2, 4], 4).tolist()
    [0.25, 0.25, 0.125, 0.125]
    """
    edges = tuple(int(edge) for edge in key_edges)
    weights_K = np.asarray(weights, dtype=np.float64)
    if method == "nearest":
        # The same as with the matrix, without a product that would take longer than all else in a track.
        widths = np.diff(edges)
        nearest = np.zeros((*weights_K.shape[:-1], length))
        nearest[..., edges[0] : edges[-1]] = np.repeat(weights_K / widths, widths, axis=-1)
        return nearest
    return weights_K @ upsampling_matrix(edges, length, method, receptive_field)


@functools.lru_cache(maxsize=8)
def upsampling_matrix(
    edges: tuple[int, ...], length: int, method: Upsampling, receptive_field: int | None = None
) -> NDArray[np.float64]:
    """What each bin gives to each base: shape (K, length), read-only. Arguments as of `upsample`."""
    matrix = np.zeros((len(edges) - 1, length))
    widest = int(np.diff(edges).max())
    for row, start, end in zip(matrix, edges[:-1], edges[1:], strict=True):
        if method == "receptive-field":
            assert receptive_field is not None
            first = (2 * end - widest - receptive_field) // 2
            first, last = max(first, 0), min(first + receptive_field, length)
            row[first:last] = 1 / (last - first)
            continue
        row[start:end] = 1 / (end - start)
        if method == "gaussian":
            row[:] = gaussian_filter1d(row, SIGMA_IN_BINS * (end - start), mode="reflect", truncate=4.0)
    matrix.flags.writeable = False
    return matrix


def bin_sums(values: NDArray[np.floating] | NDArray[np.bool_], key_edges: ArrayLike) -> NDArray[np.float64]:
    """Sum values over bases, shape (..., length), into bins, shape (..., K); edges as in `upsample`."""
    edges = np.asarray(key_edges, dtype=np.int64)
    running = np.cumsum(values, axis=-1, dtype=np.float64)
    running = np.concatenate([np.zeros_like(running[..., :1]), running], axis=-1)
    return running[..., edges[1:]] - running[..., edges[:-1]]


READ_BYTES = 1 << 25
"""Attention read at a time."""
SCATTERED = 8
"""Promoters less far apart in the file are read together, with those between them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionMaps:
    """Attention over positions of an open file, averaged over sites, heads and queries; see `position_maps`."""

    attention: Attention
    sites: list[SiteInfo]
    key_edges: NDArray[np.int64]
    """(K + 1,) in bases from the window's first base."""
    heads: Sequence[int] | None
    value_weighted: bool
    """Weights times the norm of the value vector, each row scaled to sum 1."""
    contributions: bool = False
    """What bins add to the prediction instead of weights; over heads and sites a sum, not a mean."""

    @property
    def treatments(self) -> list[str] | None:
        """None where attention does not tell treatments apart."""
        return self.sites[0].treatments

    @property
    def receptive_field(self) -> int | None:
        """Bases that the key of a bin sees; None where sites differ or do not tell."""
        fields = {info.receptive_field for info in self.sites}
        return fields.pop() if len(fields) == 1 else None

    def block(self, genes: slice, treatment: str | None = None) -> NDArray[np.float64]:
        """Maps (B, T, K) of promoters by sample numbers. treatment: T is 1; None = all of the file.

        A site without a treatment axis says the same for every treatment.

        Raises: BioattnError for a treatment or value-weighted attention that a site does not hold.
        """
        maps = [self._site(info, genes, treatment) for info in self.sites]
        return np.asarray(np.sum(maps, axis=0) if self.contributions else np.mean(maps, axis=0))

    def read(self, samples: NDArray[np.int64], treatment: str | None) -> NDArray[np.float64]:
        """Maps (B, K) of promoters given by ascending sample numbers. treatment: None averages over all."""
        skipped = ("sample",) if treatment is None else ("sample", "treatment")
        largest = max(
            math.prod(size for dim, size in zip(info.dims, info.shape, strict=True) if dim not in skipped)
            for info in self.sites
        )
        at_once = max(1, READ_BYTES // (8 * largest))  # averaging works in float64
        maps = []
        for run in np.split(samples, np.flatnonzero(np.diff(samples) > SCATTERED) + 1):
            for part in np.split(run, np.flatnonzero(np.diff((run - run[0]) // at_once)) + 1):
                block = self.block(slice(int(part[0]), int(part[-1]) + 1), treatment)
                maps.append(block.mean(axis=1)[part - part[0]])
        return np.concatenate(maps)

    def _site(self, info: SiteInfo, genes: slice, treatment: str | None) -> NDArray[np.float64]:
        tells_apart = "treatment" in info.dims
        queried = [treatment] if tells_apart and treatment is not None else None
        if self.contributions:
            weights = self.attention.contributions(info.name, gene=genes, treatment=queried)
        else:
            weights = self.attention.weights(
                info.name, gene=genes, treatment=queried, value_weighted=self.value_weighted
            )
        if self.heads is not None:
            numbers = [info.heads.index(head) for head in self.heads]
            weights = weights.take(numbers, axis=info.dims.index("head"))
        averaged = tuple(axis for axis, dim in enumerate(info.dims) if dim in ("head", "query"))
        weights = weights.astype(np.float64)
        maps: NDArray[np.float64] = weights.sum(averaged) if self.contributions else weights.mean(averaged)
        if not tells_apart:
            number = len(self.attention.treatments) if treatment is None else 1
            maps = np.broadcast_to(maps[:, None], (len(maps), number, maps.shape[-1]))
        if self.value_weighted:
            maps = maps / np.maximum(maps.sum(axis=-1, keepdims=True), np.finfo(np.float64).tiny)
        return maps


def position_maps(
    attention: Attention,
    patterns: Sequence[str] | None = None,
    heads: Sequence[int] | None = None,
    *,
    value_weighted: bool = False,
    contributions: bool = False,
) -> PositionMaps:
    """Maps of the sites matching shell patterns (None = all) whose keys are positions; all have the same bins.

    Where some tell treatments apart, only those; else where some have one query for all positions, only those.
    heads: the model's head numbers to average, None = all kept.

    Raises: BioattnError when a pattern matches no site, there is no such site, bins differ, or a site does not
    hold one of the heads or the contributions; SettingsError for contributions of value-weighted attention.
    """
    if value_weighted and contributions:
        raise SettingsError("--contributions and --value-weighted are two quantities; choose one")
    if attention.over_alignments:
        raise BioattnError(f"{attention.path}: holds attention over alignments; one over promoters is needed")
    names = matching_sites(patterns or ["*"], attention.sites, attention.path)
    infos = [attention.sites[name] for name in names]
    with_positions = [info for info in infos if info.key_edges is not None and "key" in info.dims]
    if not with_positions:
        raise BioattnError(
            f"{attention.path}: at no site of {quoted(names)} are positions looked at; choose others with --sites"
        )
    treatments = [info for info in with_positions if "treatment" in info.dims]
    if contributions:
        # Without any that has them, reading the first says what to do.
        treatments = [info for info in treatments if info.has_contributions] or treatments
    chosen = treatments or [info for info in with_positions if "query" not in info.dims] or with_positions
    first, edges = chosen[0], chosen[0].key_edges
    assert edges is not None
    for info in chosen:
        if not np.array_equal(edges, info.key_edges):  # type: ignore[arg-type]
            raise BioattnError(
                f"{attention.path}: sites {first.name} and {info.name} have different bins; "
                "choose one of them with --sites"
            )
        if heads is not None and "head" not in info.dims:
            raise BioattnError(
                f"{attention.path}: site {info.name} holds {info.reduce.value} only; leave --heads out, or export "
                "attention without --reduce"
            )
        for head in heads or ():
            if head not in info.heads:
                raise not_there("--heads", head, f"site {info.name} of {attention.path}", "head", info.heads)
    return PositionMaps(
        attention=attention,
        sites=chosen,
        key_edges=edges,
        heads=heads,
        value_weighted=value_weighted,
        contributions=contributions,
    )
