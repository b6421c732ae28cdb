"""Signals that are scored at motif sites: attention or attribution over the bases of promoters, in blocks.

- `attention`: log2 of the attention on a base over what it would be if all known bases of the promoter had the
  same; mean over heads, at least 2^−10. Unsigned: attention lies somewhere or not.
- `value-weighted attention`: the same of attention times the norm of the value it multiplies, each row to sum 1.
- `contributions`: what attention to a bin adds to the response, shared equally by the bases of the bin. Signed.
- `attribution`: what the base that is there adds to the response. Signed.

Several files of one kind (seeds, say) are averaged. A signal is computed for *quantities*, weighted sums over the
treatments of the files: a treatment, a mean over a group, a difference.

Shape suffixes: B promoters, T treatments, Q quantities, K bins, L bases.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import BioattnError
from bioattn.interpret.maps.position_maps import PositionMaps
from bioattn.interpret.maps.upsampling import upsample
from bioattn.store.attribution import Attribution

BLOCK_BYTES = 1 << 26
"""Memory of a block of promoters, as read and as a signal."""
LEAST_LOG_DENSITY = -10.0
"""Attention below a thousandth of the uniform counts as that: the logarithm of nothing says nothing."""


class PositionSignal(Protocol):
    """A signal over the bases of all promoters of some files."""

    name: str
    signed: bool
    """Whether it has a direction; a site's value is then the sum over its bases, else their mean."""
    genes: list[str]
    """The promoters, in order."""
    treatments: list[str]
    """Names along T."""
    window_length: int

    def blocks(
        self, mixing_QT: NDArray[np.float64], codes: NDArray[np.uint8]
    ) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """(which promoters, their (B, Q, L) signal), in order. codes: (promoters, L) of all, 4 for N."""


class AttentionSignal:
    """Attention of one or more files over the same promoters, or what it contributes."""

    def __init__(self, maps: Sequence[PositionMaps]) -> None:
        """maps: of a file each, all of one quantity.

        Raises: BioattnError when the files do not belong together or do not tell treatments apart.
        """
        self.signed = maps[0].contributions
        self.name = "value-weighted attention" if maps[0].value_weighted else "attention"
        if self.signed:
            self.name = "contributions"
        self._maps = maps
        treatments = []
        for file_maps in maps:
            if file_maps.treatments is None:
                raise BioattnError(
                    f"{file_maps.attention.path}: its attention does not tell treatments apart"
                )
            treatments.append((file_maps.attention.path, file_maps.treatments))
        files = [file_maps.attention for file_maps in maps]
        self.genes = require_same("promoters", [(file.path, list(file.samples.index)) for file in files])
        self.treatments = require_same("treatments", treatments)
        self.window_length = files[0].window_length

    def blocks(
        self, mixing_QT: NDArray[np.float64], codes: NDArray[np.uint8]
    ) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """As of `PositionSignal`."""
        read = max(8 * int(np.prod(info.shape[1:])) for maps in self._maps for info in maps.sites)
        for part in _slices(len(self.genes), max(read, 8 * len(mixing_QT) * self.window_length)):
            known_B = np.maximum((codes[part] < 4).sum(axis=1), 1)
            total_BQL = np.zeros((part.stop - part.start, len(mixing_QT), self.window_length))
            for maps in self._maps:
                edges = maps.key_edges
                values_BTK = maps.block(part) / np.diff(edges)
                if not self.signed:
                    density_BTK = values_BTK * known_B[:, None, None]
                    values_BTK = np.log2(np.maximum(density_BTK, 2.0**LEAST_LOG_DENSITY))
                mixed_BQK = np.einsum("qt,btk->bqk", mixing_QT, values_BTK, optimize=True)
                total_BQL += upsample(mixed_BQK * np.diff(edges), edges, self.window_length)
            yield part, total_BQL / len(self._maps)


class AttributionSignal:
    """Attribution of one or more files over the same promoters."""

    name = "attribution"
    signed = True

    def __init__(self, files: Sequence[Attribution]) -> None:
        """Raises: BioattnError when the files do not belong together."""
        self._files = files
        self.genes = require_same("promoters", [(file.path, list(file.samples.index)) for file in files])
        self.treatments = require_same("treatments", [(file.path, list(file.treatments)) for file in files])
        self.window_length = files[0].window_length

    def blocks(
        self, mixing_QT: NDArray[np.float64], codes: NDArray[np.uint8]
    ) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """As of `PositionSignal`."""
        used_T = np.flatnonzero(np.any(mixing_QT != 0, axis=0))
        names = [self.treatments[number] for number in used_T]
        chosen = None if len(names) == len(self.treatments) else names
        wide = max(16 * len(names), 8 * len(mixing_QT))
        for part in _slices(len(self.genes), wide * self.window_length):
            total_BQL = np.zeros((part.stop - part.start, len(mixing_QT), self.window_length))
            for file in self._files:
                parts_BTL = file.contributions(gene=part, treatment=chosen)
                total_BQL += np.einsum("qt,btl->bql", mixing_QT[:, used_T], parts_BTL, optimize=True)
            yield part, total_BQL / len(self._files)


def _slices(number: int, bytes_each: int) -> Iterator[slice]:
    step = max(1, BLOCK_BYTES // max(1, bytes_each))
    for start in range(0, number, step):
        yield slice(start, min(start + step, number))


def require_same(what: str, lists: Sequence[tuple[Path, list[str]]]) -> list[str]:
    """Check that all files list the same in the same order, and return it."""
    (first, expected), *others = lists
    for path, names in others:
        if names != expected:
            raise BioattnError(
                f"{path}: its {what} are not those of {first}, in the same order; only results over the same "
                f"{what} can be scored together"
            )
    return expected
