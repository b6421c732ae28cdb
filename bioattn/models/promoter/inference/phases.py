"""Finer maps from the same model: attention averaged over windows that begin a fraction of a bin apart.

A bin says where a motif is to within its width, and where it begins is an accident. Windows shifted by 1/N of a
bin cut the same bases into bins N different ways (N *phases*); what all of them agree on is where the motif is.
Each window's weights are shared equally by the bases of its bins, then averaged, and stored in bins N times finer.

Shape suffixes: B promoters, L bases, P bins of the model, F finer bins; leading axes are `...`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import BioattnError
from bioattn.inference.promoter_windows import N_CODE
from bioattn.store.schema import KEY, QUERY, GroupLayout

Arrays: TypeAlias = Mapping[str, Mapping[str, NDArray[np.floating]]]
"""By path of the site in the file, and name."""


class PhaseAverage:
    """Averages the maps of a batch: `begin` with the window as it is, `add` those of `shifts`, then `take`."""

    def __init__(self, layouts: Sequence[GroupLayout], pool: int, number: int) -> None:
        """layouts: the sites as they would be stored without phases; pool: bases of a bin; number: of phases.

        Raises: BioattnError when the bins cannot be cut so, or a site has no positions as keys.
        """
        shifts = phase_shifts(pool, number)
        self.shifts = [shift for shift in shifts if shift]
        """Of all phases but the window as it is."""
        self.layouts = [_fine_layout(layout, pool, number) for layout in layouts]
        self._number = number
        self._phases = {
            layout.path: {
                shift: phase_of(layout.axis(KEY).edges or (), pool // number, shift) for shift in shifts
            }
            for layout in layouts
        }
        self._types = {layout.path: np.dtype(layout.arrays[0].dtype) for layout in layouts}
        self._sums: dict[str, dict[str, NDArray[np.float32]]] = {}

    def begin(self, arrays: Arrays) -> None:
        """Maps of the window as it is, (..., P)."""
        self._sums = {
            site: {name: spread(array, self._phases[site][0]) for name, array in of_site.items()}
            for site, of_site in arrays.items()
        }

    def add(self, shift: int, arrays: Arrays) -> None:
        """Maps of the window that begins `shift` bases later."""
        for site, of_site in arrays.items():
            for name, array in of_site.items():
                self._sums[site][name] += spread(array, self._phases[site][shift])

    def take(self) -> dict[str, dict[str, NDArray[np.floating]]]:
        """The means over all phases, (..., F), in the type they are stored in."""
        sums, self._sums = self._sums, {}
        return {
            site: {name: (total / self._number).astype(self._types[site]) for name, total in of_site.items()}
            for site, of_site in sums.items()
        }


class Phase(NamedTuple):
    """How one window's bins give to the finer ones."""

    source_F: NDArray[np.int64]
    """The bin each finer bin lies in."""
    share_F: NDArray[np.float32]
    """What of that bin's weight it gets."""


def phase_shifts(pool: int, number: int) -> list[int]:
    """The shifts of `number` phases in bases, the window as it is (0) among them.

    Raises: BioattnError when bins of `pool` bases cannot be cut into so many alike.
    """
    if number < 1 or pool % number:
        allowed = ", ".join(str(n) for n in range(1, pool + 1) if pool % n == 0)
        raise BioattnError(f"--phases {number}: the model's bins have {pool} bases; give one of {allowed}")
    return [pool // number * place for place in range(-(number // 2), number - number // 2)]


def fine_edges(length: int, width: int) -> tuple[int, ...]:
    """Edges of bins of `width` bases that end at the window's end; the first may be shorter."""
    return (0, *range(length - (length - 1) // width * width, length + 1, width))


def phase_of(edges: Sequence[int], width: int, shift: int) -> Phase:
    """A window that begins `shift` bases later, for bins of `width` bases; edges: of the model's bins."""
    length = edges[-1]
    fine = np.array(fine_edges(length, width))
    middle_F = (fine[:-1] + fine[1:]) / 2
    moved = np.clip(np.array(edges) + shift, 0, length)
    source_F = np.clip(np.searchsorted(moved, middle_F, side="right") - 1, 0, len(edges) - 2)
    seen_F = (middle_F > moved[0]) & (middle_F < moved[-1])
    share_F = np.where(seen_F, np.diff(fine) / np.maximum(np.diff(moved)[source_F], 1), 0)
    return Phase(source_F, share_F.astype(np.float32))


def shifted(codes_BL: NDArray[np.uint8], shift: int) -> NDArray[np.uint8]:
    """The window that begins `shift` bases later; what it has beyond the promoter is N."""
    moved_BL = np.full_like(codes_BL, N_CODE)
    length = codes_BL.shape[1]
    kept = slice(max(0, shift), length - max(0, -shift))
    moved_BL[:, kept.start - shift : kept.stop - shift] = codes_BL[:, kept]
    return moved_BL


def spread(weights: NDArray[np.floating], phase: Phase) -> NDArray[np.float32]:
    """Weights (..., P) of one window over the finer bins (..., F); rows keep their sum."""
    weights = weights.astype(np.float32)
    lost = np.setdiff1d(np.arange(weights.shape[-1]), phase.source_F[phase.share_F > 0])
    if lost.size:
        # A short first bin that was shifted out of the promoter: it weighs something only where nothing is known.
        weights[..., lost.max() + 1] += weights[..., lost].sum(-1)
    fine: NDArray[np.float32] = weights[..., phase.source_F] * phase.share_F
    return fine


def _fine_layout(layout: GroupLayout, pool: int, number: int) -> GroupLayout:
    key = layout.axes[-1]
    name = layout.path.rpartition("/")[2]
    if key.edges is None:
        raise BioattnError(
            f"--phases {number} is for attention to positions (--conditioning cross); the keys of {name} are "
            "none, leave it out"
        )
    if any(axis.name == QUERY for axis in layout.axes):
        raise BioattnError(
            f"--phases {number} is for the attention of treatments to positions; at {name} positions attend to "
            "positions, choose others with --sites"
        )
    width = pool // number
    edges = fine_edges(key.edges[-1], width)
    field = layout.attributes.get("receptive_field")
    # A finer bin gets weight from all bins it lies in, which reach beyond it on both sides.
    wider = {"receptive_field": field + 2 * (pool - width)} if isinstance(field, int) else {}
    return replace(
        layout,
        axes=(*layout.axes[:-1], replace(key, edges=edges, size=len(edges) - 1)),
        attributes={**layout.attributes, **wider, "phases": number},
    )
