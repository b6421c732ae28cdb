"""The maps over all promoters of a file, and the packed maps of those that a page shows in full: one pass.

Those are shown first that answer to a treatment most specifically, and as measured.

Shape suffixes: G promoters (of a block), T treatments, H heads, K bins, L positions.

A script reads the maps of one promoter as numbers from −63 to 63 per row, deflated, base64. A row (one treatment
and head) is stored relative to its largest size, in steps of a sixty-third of it: finer than a track of 60 pixels
can show, and a third smaller than 255 steps.

Layout before deflate: the largest sizes (treatment, head) of every site and of attribution (treatment), float32
little-endian; then the steps (treatment, head, bin) of every site, one signed byte each; then those of attribution
(treatment, position). Contributions, where there are any, are the first site, summed over heads and sites.
"""

import base64
import itertools
import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import BioattnError
from bioattn.interpret.promoter_maps import PromoterMaps, Quantity, attention_maps
from bioattn.store.reader import Attention
from bioattn.system.progress import Progress

BLOCK_BYTES = 24_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSummary:
    """What a site does over all promoters, or contributions of all sites."""

    name: str
    quantity: Quantity
    treatments: list[str]
    heads: list[str]
    """Titles along the head axis."""
    key_edges: NDArray[np.int64]
    receptive_field: int | None
    profile_THK: NDArray[np.float64]
    effective_bins_TH: NDArray[np.float64]
    """Mean over promoters of exp(entropy): over how many bins a head (of contributions their sizes) spreads."""
    similarity_TT: NDArray[np.float64]
    """Pearson r of two treatments' maps (means over heads) over all promoters and bins."""
    specific_similarity_TT: NDArray[np.float64]
    """The same after the mean over promoters is taken off, which every promoter's map shares."""
    between_share: float
    """Part of the maps' variance (less their mean over promoters) that differs between treatments."""


def shown_maps(attention: Attention) -> list[PromoterMaps]:
    """The maps of a page: contributions first, where there are any; then the weights of each site whose keys are
    positions and that has no query axis."""
    shown = [
        attention_maps(attention, [info.name], quantity=Quantity.ATTENTION).distinct
        for info in attention.sites.values()
        if info.key_edges is not None and set(info.dims) <= {"sample", "treatment", "head", "key"}
    ]
    if any(info.has_contributions for info in attention.sites.values()):
        shown.insert(0, attention_maps(attention))
    return shown


def heads_of(maps: PromoterMaps) -> list[str]:
    """Titles along H."""
    if maps.signed:
        return ["sum of heads"]
    words = {"mean over heads": "mean of heads", "max over heads": "largest head"}
    return [words.get(head, f"head {head}") for head in maps.sites[0].heads]


def blocks_of(
    maps: PromoterMaps, treatments: Sequence[str], progress: Progress
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Read maps once: the number of the first promoter of a block, and its values (G, T, H, K).

    Raises: FormatError when the data are damaged.
    """
    total = len(maps.samples)
    # A power of two, as the samples of a chunk are: so no chunk is read twice.
    room = max(1, BLOCK_BYTES // max(1, len(treatments) * len(heads_of(maps)) * len(maps.widths) * 4))
    step = 1 << min(12, room.bit_length() - 1)
    progress.begin(f"{maps.quantity} of {maps.sites[0].name}", total)
    try:
        for first in range(0, total, step):
            part = slice(first, min(first + step, total))
            if maps.signed:
                values = maps.block(part, treatments)[:, :, None]
            else:
                values = maps.by_head(part, treatments).swapaxes(1, 2)
            yield first, np.ascontiguousarray(values, np.float32)
            progress.advance(part.stop - part.start)
    finally:
        progress.end()


def treatments_of(maps: PromoterMaps, treatments: Sequence[str] | None) -> list[str]:
    """The names along the treatment axis of blocks. treatments: those wanted; None = all."""
    return maps.treatments if treatments is None or not maps.tells_apart else list(treatments)


class SiteSums:
    """Sums over the blocks of maps."""

    def __init__(self) -> None:
        self.number = 0
        self.profile_THK: Any = 0.0
        self.effective_TH: Any = 0.0
        self.products_TT: Any = 0.0
        self.shared_square = 0.0

    def add(self, maps: PromoterMaps, values_GTHK: NDArray[np.float32]) -> None:
        """Add the next block."""
        self.number += len(values_GTHK)
        self.profile_THK += values_GTHK.sum(axis=0, dtype=np.float64)
        shares_GTHK = maps.shares(values_GTHK)
        logs_GTHK = np.log(np.maximum(shares_GTHK, np.float32(1e-30)))
        entropy_GTH = -np.einsum("gthk,gthk->gth", shares_GTHK, logs_GTHK)
        self.effective_TH += np.exp(entropy_GTH).sum(axis=0, dtype=np.float64)
        maps_GTK = values_GTHK.mean(axis=2)
        by_treatment = maps_GTK.transpose(1, 0, 2).reshape(maps_GTK.shape[1], -1)
        self.products_TT += (by_treatment @ by_treatment.T).astype(np.float64)
        self.shared_square += float(np.square(maps_GTK.mean(axis=1)).sum(dtype=np.float64))

    def summary(self, maps: PromoterMaps, treatments: Sequence[str] | None) -> SiteSummary:
        """The summary of the maps whose blocks were added, for these treatments."""
        profile_TK = self.profile_THK.mean(axis=1) / self.number
        mean_T = profile_TK.mean(axis=1)
        per_value = self.products_TT / self.number / profile_TK.shape[1]
        squares = float(np.square(profile_TK).sum() / len(profile_TK))
        whole = np.trace(self.products_TT) / self.number / len(profile_TK) - squares
        shared = self.shared_square / self.number - float(np.square(profile_TK.mean(axis=0)).sum())
        return SiteSummary(
            name=str(maps.quantity) if maps.signed else maps.sites[0].name,
            quantity=maps.quantity,
            treatments=treatments_of(maps, treatments),
            heads=heads_of(maps),
            key_edges=maps.key_edges,
            receptive_field=maps.receptive_field,
            profile_THK=self.profile_THK / self.number,
            effective_bins_TH=self.effective_TH / self.number,
            similarity_TT=_correlation(per_value - np.outer(mean_T, mean_T)),
            specific_similarity_TT=_correlation(per_value - profile_TK @ profile_TK.T / profile_TK.shape[1]),
            # 1 − (variance of the maps' mean over treatments) / (mean variance of the maps).
            between_share=float(np.clip(1 - shared / whole, 0, 1)) if whole > 1e-12 else 0.0,
        )


def _correlation(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """What does not vary has correlation 0 with others and 1 with itself."""
    variance = np.diag(covariance)
    vary = variance > 1e-9 * max(1e-12, float(variance.max(initial=0.0)))
    deviation = np.sqrt(np.where(vary, variance, 1.0))
    r = np.where(vary[:, None] & vary[None], covariance / np.outer(deviation, deviation), 0.0)
    np.fill_diagonal(r, 1.0)
    return np.clip(r, -1, 1)


STEPS = 63


class Steps(NamedTuple):
    """Rows in steps."""

    largest: NDArray[np.float32]
    """(…): the largest magnitude of each row."""
    steps: NDArray[np.int8]
    """(…, K): −63 to 63."""

    def values(self) -> NDArray[np.float64]:
        """The array that was put in steps, but for rounding."""
        return self.largest[..., None].astype(np.float64) * self.steps / STEPS


def quantised(values: NDArray[np.floating]) -> Steps:
    """An array (…, K) whose last axis is a row each, in steps."""
    largest = np.abs(values).max(axis=-1).astype(np.float32)
    scale = np.where(largest > 0, largest, 1).astype(np.float64)
    return Steps(largest, np.rint(values / scale[..., None] * STEPS).astype(np.int8))


def pack(parts: Sequence[Steps]) -> bytes:
    """Deflated bytes of several arrays."""
    largest = b"".join(part.largest.astype("<f4").tobytes() for part in parts)
    return zlib.compress(largest + b"".join(part.steps.tobytes() for part in parts), 9)


def as_text(packed: bytes) -> str:
    """Base64."""
    return base64.b64encode(packed).decode("ascii")


def pack_bytes(values: NDArray[np.floating] | NDArray[np.uint8]) -> str:
    """An array rounded to whole numbers from 0 to 255, deflated, base64."""
    return as_text(zlib.compress(np.rint(values).astype(np.uint8).tobytes(), 9))


def specific_part(responses: NDArray[np.floating]) -> NDArray[np.float64]:
    """Responses (genes, treatments) in standard deviations of their treatment, less each gene's mean over
    treatments.

    What is missing counts as 0; with one treatment nothing is taken off.
    """
    values = np.asarray(responses, np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        known = ~np.isnan(values)
        count = np.maximum(known.sum(axis=0), 1)
        mean = np.where(known, values, 0).sum(axis=0) / count
        deviation = np.sqrt(np.where(known, np.square(values - mean), 0).sum(axis=0) / count)
    z = np.where(known, (values - mean) / np.where(deviation > 0, deviation, 1.0), 0.0)
    return z - z.mean(axis=1, keepdims=True) if z.shape[1] > 1 else z


def agreeing(
    predicted_GT: NDArray[np.float64], measured_GT: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """Sizes of the specific parts of predictions, as far as they were measured.

    That is the smaller of both sizes where both have one sign, less the more the responses themselves differ, and
    hardly anything elsewhere, but for ties in the order of the predictions.

    predicted_GT, measured_GT: responses; without measured ones, sizes of predictions alone.
    """
    specific_GT = specific_part(predicted_GT)
    sizes_GT = np.abs(specific_GT)
    if measured_GT is None:
        return sizes_GT
    truth_GT = specific_part(measured_GT)
    both_GT = np.where(specific_GT * truth_GT > 0, np.minimum(sizes_GT, np.abs(truth_GT)), 0.0)
    larger_GT = np.maximum(np.abs(predicted_GT), np.abs(measured_GT))
    apart_GT = np.abs(predicted_GT - measured_GT) / np.where(larger_GT > 0, larger_GT, 1.0)
    return np.asarray(both_GT * np.nan_to_num(np.maximum(0.0, 1 - apart_GT)) + 1e-6 * sizes_GT)


def ranked_genes(specific: NDArray[np.float64], unseen: NDArray[np.bool_]) -> list[int]:
    """All genes, those worth showing first: the treatments take turns, each naming the gene that responds to it
    most specifically; every second turn of a treatment is for genes that the model was not trained on, while
    there are.

    specific: (genes, treatments), how specific the response to a treatment is. unseen: (genes,) whether a gene
    was held out.
    """
    num_genes, num_treatments = specific.shape
    orders = [np.argsort(-specific[:, t], kind="stable") for t in range(num_treatments)]
    queues = [(iter(order[unseen[order]].tolist()), iter(order.tolist())) for order in orders]
    taken: dict[int, None] = {}
    turn = 0
    while len(taken) < num_genes:
        for held_out, everyone in queues:
            waiting = itertools.chain(held_out if turn % 2 == 0 else (), everyone)
            gene = next((gene for gene in waiting if gene not in taken), None)
            if gene is not None:
                taken[gene] = None
        turn += 1
    return list(taken)


ALONE_BYTES, BESIDE_BYTES = 7_000_000, 5_000_000
"""What the promoters shown in full may take of a page that is theirs alone, and of one that shows proteins too."""
KEPT_BYTES = 64_000_000
_SMALLEST_RATIO = 0.25
"""Of packed maps to what they hold, as base64; what decides how many candidates are held."""


def read_maps(
    every: Sequence[PromoterMaps],
    treatments: Sequence[str] | None,
    ranked: Sequence[int],
    best_G: NDArray[np.int64],
    *,
    at_least: int,
    room: int,
    progress: Progress,
) -> tuple[list[SiteSummary], dict[int, list[Steps]], NDArray[np.int64]]:
    """Summarise all maps and keep those of the first of `ranked`, as many as could fit into a page.

    Returns the summaries; by row of the file, best first, the maps (T, H, K) of every site; and the bin that each
    promoter looks at most, at the first site and under the treatment it is most specific to, (G,).

    treatments: those wanted, None = all. ranked: rows of the file, best first. best_G: for each promoter the
    number of the treatment whose peak is asked for. at_least: so many are kept whatever their size. room: bytes of
    the page they may take.
    """
    raw = sum(len(treatments_of(maps, treatments)) * len(heads_of(maps)) * len(maps.widths) for maps in every)
    most = 1 + math.ceil(min(room / (_SMALLEST_RATIO * raw), KEPT_BYTES / raw))
    kept: dict[int, list[Steps]] = {row: [] for row in ranked[: max(most, at_least)]}
    peak_bin_G = np.zeros(len(best_G), np.int64)
    sites = []
    for maps in every:
        sums = SiteSums()
        for first, values_GTHK in blocks_of(maps, treatments_of(maps, treatments), progress):
            sums.add(maps, values_GTHK)
            rows = np.arange(len(values_GTHK))
            if maps is every[0]:
                part = slice(first, first + len(rows))
                treatment = best_G[part] if values_GTHK.shape[1] > 1 else 0
                peak_bin_G[part] = np.abs(values_GTHK[rows, treatment].mean(axis=1)).argmax(axis=1)
            for row in rows.tolist():
                if first + row in kept:
                    kept[first + row].append(quantised(values_GTHK[row]))
        sites.append(sums.summary(maps, treatments))
    return sites, kept, peak_bin_G


def pack_within_budget(
    kept: dict[int, list[Steps]],
    attribution: PromoterMaps | None,
    treatments: Sequence[str],
    ids: list[str],
    asked_for: int,
    *,
    room: int,
    context_bytes: Sequence[int],
) -> list[tuple[int, str, bool]]:
    """Row, packed maps and whether attribution is among them, of the first of `kept` that fit; `kept` is used up.

    treatments: those of the attribution. context_bytes: what the promoter in a row takes beside its maps, about.
    """
    shown: list[tuple[int, str, bool]] = []
    used, attributed = 0, set() if attribution is None else set(attribution.genes)
    for rank, row in enumerate(list(kept)):
        parts = kept.pop(row)
        if attribution is not None and ids[row] in attributed:
            parts.append(quantised(attribution.averaged([ids[row]], treatments).block(slice(1))[0]))
        text = as_text(pack(parts))
        used += len(text) + context_bytes[row]
        if used > room and rank:
            if rank < asked_for:
                raise BioattnError(
                    f"--genes: {asked_for:,} genes do not fit into a report ({rank:,} do); name fewer, or fewer "
                    "treatments with --treatment"
                )
            break
        shown.append((row, text, ids[row] in attributed))
    return shown
