"""The maps of the promoters that a page shows in full: read in one pass over all, packed while they fit.

Shape suffixes: G promoters, T treatments, H heads, K bins, L positions.

A script reads the attention of one promoter as numbers from 0 to 63 per row, deflated, base64. A row (one
treatment and head) is stored relative to its largest weight, in steps of a sixty-third of it: finer than a
track of 60 pixels can show, and a third smaller than 255 steps. Contributions are signed, in steps of 1/63 of
the largest of their row.

Layout before deflate: the largest weights (treatment, head) of every site and the largest contributions
(treatment), float32 little-endian; then the steps (treatment, head, bin) of every site, one byte each; then
those of the contributions (treatment, position), signed.
"""

import base64
import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import BioattnError
from bioattn.interpret.maps.contributions import Contributions
from bioattn.report.attention_summary import SiteSummary, summarise_site
from bioattn.store.reader import Attention, SiteInfo
from bioattn.system.progress import Progress

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


ALONE_BYTES, BESIDE_BYTES = 7_000_000, 5_000_000
"""What the promoters shown in full may take of a page that is theirs alone, and of one that shows proteins too."""
KEPT_BYTES = 64_000_000
"""Candidates held in memory while the file is read."""
_SMALLEST_RATIO = 0.25
"""Of packed maps to what they hold, as base64; what decides how many candidates are held."""


@dataclass(frozen=True, slots=True)
class ReadMaps:
    """What one pass over the attention gives."""

    sites: list[SiteSummary]
    kept: dict[int, list[Steps]]
    """By row of the file, best first: (T, H, K) of every site."""
    peak_bin_G: NDArray[np.int64]
    """The bin each promoter looks at most, at the first site and under the treatment it is most specific to."""


def read_maps(
    attention: Attention,
    infos: Sequence[SiteInfo],
    treatments: Sequence[str] | None,
    ranked: Sequence[int],
    best_G: NDArray[np.int64],
    *,
    at_least: int,
    room: int,
    progress: Progress,
) -> ReadMaps:
    """Summarise every site and keep the maps of the first of `ranked`, as many as could fit into a page.

    treatments: those wanted, None = all. ranked: rows of the file, best first. best_G: for each promoter the
    number of the treatment whose peak is asked for. at_least: so many are kept whatever their size. room: bytes of
    the page they may take.
    """
    raw = sum(
        len(treatments if treatments is not None and info.treatments else info.treatments or [""])
        * (len(info.heads) if "head" in info.dims else 1)
        * (len(info.key_edges if info.key_edges is not None else []) - 1)
        for info in infos
    )
    most = 1 + math.ceil(min(room / (_SMALLEST_RATIO * raw), KEPT_BYTES / raw))
    kept: dict[int, list[Steps]] = {row: [] for row in ranked[: max(most, at_least)]}
    peak_bin_G = np.zeros(len(best_G), np.int64)

    def keep(first: int, weights_GTHK: NDArray[np.float32]) -> None:
        for row in range(first, first + len(weights_GTHK)):
            if row in kept:
                kept[row].append(quantised(weights_GTHK[row - first]))

    def keep_and_find_peaks(first: int, weights_GTHK: NDArray[np.float32]) -> None:
        rows = np.arange(len(weights_GTHK))
        part = slice(first, first + len(rows))
        treatment = best_G[part] if weights_GTHK.shape[1] > 1 else 0
        peak_bin_G[part] = weights_GTHK[rows, treatment].mean(axis=1).argmax(axis=1)
        keep(first, weights_GTHK)

    sites = [
        summarise_site(attention, info, treatments, keep if number else keep_and_find_peaks, progress)
        for number, info in enumerate(infos)
    ]
    return ReadMaps(sites, kept, peak_bin_G)


def pack_within_budget(
    kept: dict[int, list[Steps]],
    contributions: Contributions | None,
    treatments: Sequence[str],
    ids: list[str],
    asked_for: int,
    *,
    room: int,
    context_bytes: Callable[[int], int],
) -> list[tuple[int, str, bool]]:
    """Row, packed maps and whether contributions are among them, of the first of `kept` that fit; `kept` is
    used up.

    treatments: those of the contributions. context_bytes: what the promoter in a row takes beside its maps, about.
    """
    shown: list[tuple[int, str, bool]] = []
    used = 0
    for rank, row in enumerate(list(kept)):
        parts = kept.pop(row)
        contributes = contributions is not None and ids[row] in contributions.genes
        if contributions is not None and contributes:
            parts.append(quantised(contributions.of(ids[row], treatments)))
        text = as_text(pack(parts))
        used += len(text) + context_bytes(row)
        if used > room and rank:
            if rank < asked_for:
                raise BioattnError(
                    f"--genes: {asked_for:,} genes do not fit into a report ({rank:,} do); name fewer, or fewer "
                    "treatments with --treatment"
                )
            break
        shown.append((row, text, contributes))
    return shown
