"""Values of tracks on each base of a chromosome: spread over bases, overlaps resolved.

Shapes: B promoters, K bins, L bases of a window.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bioattn.formats.bedgraph import Intervals
from bioattn.interpret.choices import Overlapping, Upsampling
from bioattn.interpret.maps.upsampling import upsample
from bioattn.interpret.tracks.layout import Stretch


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseValues:
    """Spreads maps over bins to bases."""

    key_edges: NDArray[np.int64]
    window_length: int
    upsampling: Upsampling
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
    """Values of one track: attention for a treatment, or its difference from a reference."""

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
