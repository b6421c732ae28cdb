"""One pass over an attention file: what all promoters say together, and the rows of those that a page shows in
full.

Shape suffixes: G promoters of a block, T treatments, H heads, K bins.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bioattn.store.reader import Attention, SiteInfo
from bioattn.system.progress import Progress

BLOCK_BYTES = 24_000_000
"""Weights held at once."""
ONE_ROW = "(all treatments)"
"""Stands for the treatments at a site that does not tell them apart."""

BlockReader = Callable[[int, NDArray[np.float32]], None]
"""Number of the first promoter of a block, and its weights (G, T, H, K)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSummary:
    """What a site does over all promoters."""

    name: str
    treatments: list[str]
    heads: list[str]
    """Titles along the head axis."""
    key_edges: NDArray[np.int64]
    receptive_field: int | None
    profile_THK: NDArray[np.float64]
    effective_bins_TH: NDArray[np.float64]
    """Mean over promoters of exp(entropy): over how many bins a head spreads."""
    similarity_TT: NDArray[np.float64]
    """Pearson r of two treatments' maps (means over heads) over all promoters and bins."""
    specific_similarity_TT: NDArray[np.float64]
    """The same after the mean over promoters is taken off, which every promoter's map shares."""
    between_share: float
    """Part of the maps' variance (less their mean over promoters) that differs between treatments."""


def shown_sites(attention: Attention) -> tuple[list[SiteInfo], list[str]]:
    """The sites whose keys are positions and that have no query axis, and the names of the others."""
    shown, others = [], []
    for info in attention.sites.values():
        fits = info.key_edges is not None and set(info.dims) <= {"sample", "treatment", "head", "key"}
        if fits:
            shown.append(info)
        else:
            others.append(info.name)
    return shown, others


def summarise_site(
    attention: Attention,
    info: SiteInfo,
    treatments: Sequence[str] | None,
    each_block: BlockReader,
    progress: Progress,
) -> SiteSummary:
    """Read a site once, in blocks of promoters; `each_block` sees every block.

    treatments: those wanted; None = all. Raises: FormatError when the data are damaged.
    """
    names = (list(treatments) if treatments is not None else info.treatments) or []
    if info.treatments is None:
        names = [ONE_ROW]
    num_heads = len(info.heads) if "head" in info.dims else 1
    assert info.key_edges is not None
    num_keys = len(info.key_edges) - 1
    total = len(attention.samples)
    sums = _Sums(len(names), num_heads, num_keys)
    # A power of two, as the samples of a chunk are: so no chunk is read twice.
    room = max(1, BLOCK_BYTES // max(1, len(names) * num_heads * num_keys * 4))
    step = 1 << min(12, room.bit_length() - 1)
    progress.begin(f"attention of {info.name}", total)
    try:
        for first in range(0, total, step):
            part = slice(first, min(first + step, total))
            chosen = None if treatments is None or info.treatments is None else list(treatments)
            weights = attention.weights(info.name, gene=part, treatment=chosen)
            shape = (part.stop - part.start, len(names), num_heads, num_keys)
            weights_GTHK = np.ascontiguousarray(weights, np.float32).reshape(shape)
            sums.add(weights_GTHK)
            each_block(first, weights_GTHK)
            progress.advance(part.stop - part.start)
    finally:
        progress.end()
    similarity_TT, specific_TT, between_share = sums.similarity()
    made_of_all = {"mean-heads": "mean of heads", "max-heads": "largest head"}.get(str(info.reduce), "head 0")
    heads = [f"head {head}" for head in info.heads] if "head" in info.dims else [made_of_all]
    return SiteSummary(
        name=info.name,
        treatments=names,
        heads=heads,
        key_edges=info.key_edges,
        receptive_field=info.receptive_field,
        profile_THK=sums.profile_THK / max(1, total),
        effective_bins_TH=sums.effective_TH / max(1, total),
        similarity_TT=similarity_TT,
        specific_similarity_TT=specific_TT,
        between_share=between_share,
    )


class _Sums:
    def __init__(self, num_treatments: int, num_heads: int, num_keys: int) -> None:
        self.number = 0
        self.profile_THK = np.zeros((num_treatments, num_heads, num_keys))
        self.effective_TH = np.zeros((num_treatments, num_heads))
        self.products_TT = np.zeros((num_treatments, num_treatments))
        self.shared_square = 0.0

    def add(self, weights_GTHK: NDArray[np.float32]) -> None:
        self.number += len(weights_GTHK)
        self.profile_THK += weights_GTHK.sum(axis=0, dtype=np.float64)
        logs_GTHK = np.log(np.maximum(weights_GTHK, np.float32(1e-30)))
        entropy_GTH = -np.einsum("gthk,gthk->gth", weights_GTHK, logs_GTHK)
        self.effective_TH += np.exp(entropy_GTH).sum(axis=0, dtype=np.float64)
        maps_GTK = weights_GTHK.mean(axis=2)
        by_treatment = maps_GTK.transpose(1, 0, 2).reshape(maps_GTK.shape[1], -1)
        self.products_TT += by_treatment @ by_treatment.T
        self.shared_square += float(np.square(maps_GTK.mean(axis=1)).sum(dtype=np.float64))

    def similarity(self) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Correlations of the maps, as they are and less their mean over promoters; and 1 − (variance of the maps'
        mean over treatments) / (mean variance of the maps)."""
        count = max(1, self.number)
        profile_TK = self.profile_THK.mean(axis=1) / count
        mean_T = profile_TK.mean(axis=1)
        per_value = self.products_TT / count / profile_TK.shape[1]
        centred = per_value - np.outer(mean_T, mean_T)
        specific = per_value - profile_TK @ profile_TK.T / profile_TK.shape[1]
        whole = np.trace(self.products_TT) / count / len(profile_TK) - float(
            np.square(profile_TK).sum() / len(profile_TK)
        )
        shared = self.shared_square / count - float(np.square(profile_TK.mean(axis=0)).sum())
        between = float(np.clip(1 - shared / whole, 0, 1)) if whole > 1e-12 else 0.0
        return _correlation(centred), _correlation(specific), between


def _correlation(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """What does not vary has correlation 0 with others and 1 with itself."""
    variance = np.diag(covariance)
    vary = variance > 1e-9 * max(1e-12, float(variance.max(initial=0.0)))
    deviation = np.sqrt(np.where(vary, variance, 1.0))
    r = np.where(vary[:, None] & vary[None], covariance / np.outer(deviation, deviation), 0.0)
    np.fill_diagonal(r, 1.0)
    return np.clip(r, -1, 1)
