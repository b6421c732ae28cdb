"""Signals that are scored at motif sites: attention or attribution over the bases of promoters, in blocks.

- `attention`: log2 of the attention on a base over what it would be if all known bases of the promoter had the
  same; mean over heads, at least 2^−10. Unsigned: attention lies somewhere or not.
- `value-weighted attention`: the same of attention times the norm of the value it multiplies, each row to sum 1.
- `contributions`: what attention to a bin adds to the response, shared equally by the bases of the bin. Signed.
- `attribution`: what the base that is there adds to the response. Signed.

Several files of one kind (seeds, say) are averaged. A signal is asked for *quantities*, weighted sums over the
treatments of the files: a treatment, a mean over a group, a difference.

Shape suffixes: B promoters, T treatments, Q quantities, K bins, L bases.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import BioattnError
from bioattn.interpret.maps.position_maps import position_maps
from bioattn.interpret.maps.upsampling import upsample
from bioattn.store.attribution import AttributionFile
from bioattn.store.reader import AttentionFile

BLOCK_BYTES = 1 << 26
"""What a block of promoters may take, as read and as a signal."""
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
    paths: list[Path]
    """The files, for messages; empty when there are none."""

    def blocks(
        self, mixing_QT: NDArray[np.float64], codes: NDArray[np.uint8]
    ) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """(which promoters, their (B, Q, L) signal), in order. codes: (promoters, L) of all, 4 for N."""


class AttentionSignal:
    """Attention of one or more files over the same promoters, or what it contributes."""

    def __init__(
        self,
        files: Sequence[AttentionFile],
        *,
        sites: Sequence[str] = ("*",),
        heads: Sequence[int] | None = None,
        value_weighted: bool = False,
        contributions: bool = False,
    ) -> None:
        """Raises: BioattnError when the files do not belong together or lack sites, heads or treatments."""
        self.name = "value-weighted attention" if value_weighted else "attention"
        if contributions:
            self.name = "contributions"
        self.signed = contributions
        self._maps = [
            position_maps(file, sites, heads, value_weighted=value_weighted, contributions=contributions)
            for file in files
        ]
        self._infos = [info for maps in self._maps for info in maps.sites]
        self.paths = [file.path for file in files]
        self.has_value_weighted = all(info.has_value_weighted for info in self._infos)
        self.has_contributions = all(
            any(info.has_contributions for info in maps.sites) for maps in self._maps
        )
        treatments = []
        for maps in self._maps:
            if maps.treatments is None:
                raise BioattnError(f"{maps.attention.path}: its attention does not tell treatments apart")
            treatments.append((maps.attention.path, maps.treatments))
        self.genes = _same("promoters", [(file.path, list(map(str, file.samples.index))) for file in files])
        self.treatments = _same("treatments", treatments)
        self.window_length = files[0].window_length

    def blocks(
        self, mixing_QT: NDArray[np.float64], codes: NDArray[np.uint8]
    ) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        read = max(8 * int(np.prod(info.shape[1:])) for info in self._infos)
        for part in _slices(len(self.genes), max(read, 8 * len(mixing_QT) * self.window_length)):
            known_B = np.maximum((codes[part] < 4).sum(axis=1), 1)
            total: NDArray[np.float64] | None = None
            for maps in self._maps:
                edges = maps.key_edges
                values_BTK = maps.block(part) / np.diff(edges)
                if not self.signed:
                    density_BTK = values_BTK * known_B[:, None, None]
                    values_BTK = np.log2(np.maximum(density_BTK, 2.0**LEAST_LOG_DENSITY))
                mixed_BQK = np.einsum("qt,btk->bqk", mixing_QT, values_BTK, optimize=True)
                signal_BQL = upsample(mixed_BQK * np.diff(edges), edges, self.window_length)
                total = signal_BQL if total is None else total + signal_BQL
            assert total is not None
            yield part, total / len(self._maps)


class AttributionSignal:
    """Attribution of one or more files over the same promoters."""

    name = "attribution"
    signed = True

    def __init__(self, files: Sequence[AttributionFile]) -> None:
        """Raises: BioattnError when the files do not belong together."""
        self._files = files
        self.paths = [file.path for file in files]
        self.genes = _same("promoters", [(file.path, list(map(str, file.samples.index))) for file in files])
        self.treatments = _same("treatments", [(file.path, list(file.treatments)) for file in files])
        self.window_length = files[0].window_length

    def blocks(
        self, mixing_QT: NDArray[np.float64], codes: NDArray[np.uint8]
    ) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        used_T = np.flatnonzero(np.any(mixing_QT != 0, axis=0))
        names = [self.treatments[number] for number in used_T]
        everything = len(names) == len(self.treatments)
        wide = max(16 * len(names), 8 * len(mixing_QT))
        for part in _slices(len(self.genes), wide * self.window_length):
            total = np.zeros((part.stop - part.start, len(mixing_QT), self.window_length))
            for file in self._files:
                parts_BTL = file.contributions(gene=part, treatment=None if everything else names)
                total += np.einsum("qt,btl->bql", mixing_QT[:, used_T], parts_BTL, optimize=True)
            yield part, total / len(self._files)


def _slices(number: int, bytes_each: int) -> Iterator[slice]:
    step = max(1, BLOCK_BYTES // max(1, bytes_each))
    for start in range(0, number, step):
        yield slice(start, min(start + step, number))


def _same(what: str, lists: Sequence[tuple[Path, list[str]]]) -> list[str]:
    """Check that all files list the same in the same order, and return it."""
    (first, expected), *others = lists
    for path, found in others:
        if found != expected:
            raise BioattnError(
                f"{path}: its {what} are not those of {first}, in the same order; only results over the same "
                f"{what} can be averaged"
            )
    return expected
