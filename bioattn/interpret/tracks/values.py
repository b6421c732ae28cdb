"""What promoters' attention is on each base of a chromosome: read, spread over bases, overlaps settled.

Shapes: B promoters, K bins, L bases of a window.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bioattn.formats.bedgraph import Intervals
from bioattn.interpret.maps.position_maps import mean_map
from bioattn.interpret.maps.upsampling import UpsamplingMethod, upsample
from bioattn.interpret.tracks.layout import Overlapping, Stretch
from bioattn.store.attention_reader import AttentionFile, SiteInfo

READ_BYTES = 1 << 25
"""Attention read at a time."""
SCATTERED = 4
"""Promoters are read with what lies between them in the file while that is at most so many times as much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapReader:
    """Attention of any promoters of an open file under one treatment, averaged over sites and heads."""

    attention: AttentionFile
    sites: Sequence[SiteInfo]
    heads: Sequence[int] | None
    value_weighted: bool

    def read(self, samples: NDArray[np.int64], treatment: str | None) -> NDArray[np.float64]:
        """Maps (B, K) of promoters given by ascending sample numbers. treatment: None averages over all."""
        wanted = np.asarray(samples)
        pieces = []
        first = 0
        while first < len(wanted):
            # As many as fit, and as lie close enough together.
            room = self._samples_at_once(treatment)
            span = wanted[first:] - wanted[first] + 1
            close = (span <= room) & (span <= SCATTERED * np.arange(1, len(span) + 1))
            number = len(span) if close.all() else max(1, int(np.argmin(close)))
            part = wanted[first : first + number]
            block = slice(int(part[0]), int(part[-1]) + 1)
            maps = [
                mean_map(
                    self.attention,
                    info,
                    block,
                    treatment=treatment,
                    heads=self.heads,
                    value_weighted=self.value_weighted,
                ).mean(axis=1)
                for info in self.sites
            ]
            pieces.append(np.mean(maps, axis=0)[part - part[0]])
            first += number
        return np.concatenate(pieces)

    def _samples_at_once(self, treatment: str | None) -> int:
        largest = 1
        for info in self.sites:
            sizes = dict(zip(info.dims[1:], info.shape[1:], strict=True))
            if treatment is not None:
                sizes.pop("treatment", None)
            # Averaging works in float64.
            largest = max(largest, 8 * math.prod(sizes.values()))
        return max(1, READ_BYTES // largest)


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseValues:
    """From maps over bins to values of bases."""

    key_edges: NDArray[np.int64]
    window_length: int
    upsampling: UpsamplingMethod
    receptive_field: int | None
    overlapping: Overlapping

    def of_stretch(self, maps_BK: NDArray[np.float64], stretch: Stretch) -> NDArray[np.float64]:
        """Values of the covered bases of a stretch, along the chromosome, from the maps of its promoters."""
        values_BL = upsample(
            maps_BK, self.key_edges, self.window_length, self.upsampling, self.receptive_field
        )
        if stretch.strand == "-":
            values_BL = values_BL[:, ::-1]
        along = np.zeros(stretch.bases)
        if self.overlapping is Overlapping.MAX:
            along.fill(-np.inf)
            for first, length, window, offset in stretch.pieces:
                part = along[first : first + length]
                np.maximum(part, values_BL[window, offset : offset + length], out=part)
            return along
        if self.overlapping is Overlapping.NEAREST_GENE:
            for first, length, window, offset in stretch.pieces:
                along[first : first + length] = values_BL[window, offset : offset + length]
            return along
        number = np.zeros(stretch.bases)
        for first, length, window, offset in stretch.pieces:
            along[first : first + length] += values_BL[window, offset : offset + length]
            number[first : first + length] += 1
        return along / number


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackValues:
    """Values of one track: attention for a treatment, or what it has more than a reference."""

    base_values: BaseValues
    maps: Callable[[NDArray[np.int64]], NDArray[np.float64]]
    """(B, K) of promoters by ascending sample numbers."""
    reference: Callable[[NDArray[np.int64]], NDArray[np.float64]] | None
    """Likewise; None = nothing is subtracted."""

    def of_bins(self, samples: NDArray[np.int64]) -> NDArray[np.float64]:
        """Values (B, K) of every bin of some promoters."""
        maps_BK = self.maps(samples)
        return maps_BK if self.reference is None else maps_BK - self.reference(samples)

    def of_bases(self, stretch: Stretch) -> NDArray[np.float64]:
        """Values of the covered bases of a stretch; overlaps are settled first, then the reference subtracted."""
        along = self.base_values.of_stretch(self.maps(stretch.samples), stretch)
        if self.reference is None:
            return along
        return along - self.base_values.of_stretch(self.reference(stretch.samples), stretch)


def intervals_of(stretch: Stretch, along: NDArray[np.float64]) -> Intervals:
    """Runs of equal values (as float32, which is what bigWig holds) along a stretch."""
    values = along.astype(np.float32)
    begins = np.ones(len(values), dtype=np.bool_)
    begins[1:] = values[1:] != values[:-1]
    begins[stretch.island_offsets[:-1]] = True
    firsts = np.flatnonzero(begins)
    lengths = np.diff(np.concatenate([firsts, [len(values)]]))
    island = np.searchsorted(stretch.island_offsets, firsts, side="right") - 1
    starts = firsts + (stretch.island_starts - stretch.island_offsets[:-1])[island]
    return Intervals(stretch.chrom, starts, starts + lengths, values[firsts])
