"""Maps of any promoters of an open attention file, read in pieces that fit into memory.

Shapes: B promoters, K bins.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bioattn.interpret.maps.position_maps import mean_map
from bioattn.store.reader import AttentionFile, SiteInfo

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
