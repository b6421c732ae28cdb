"""pLDDT along chains, and maps of the predicted aligned error."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from bioattn.figures import style
from bioattn.structures.predictions import MAX_ALIGNED_ERROR, AlignedError, Confidence, read_plddt

BANDS = (
    (90, 100, "#0053D6", "very high"),
    (70, 90, "#65CBF3", "high"),
    (50, 70, "#FFDB13", "low"),
    (0, 50, "#FF7D45", "very low"),
)
"""AlphaFold DB's colours and words for pLDDT."""


class PlddtChains(NamedTuple):
    """pLDDT of one chain or several."""

    chains: Sequence[Confidence]

    def record(self) -> dict[str, Any]:
        """The figures of the run record."""
        return {"mean_plddt": {chain.name: round(float(chain.plddt.mean()), 3) for chain in self.chains}}


def read_plddt_chains(paths: Sequence[Path], *, chain: str | None = None) -> PlddtChains:
    """Read pLDDT of predictions, by `read_plddt`. chain: of structures."""
    return PlddtChains([read_plddt(path, chain) for path in paths])


@style.styled
def draw_aligned_error(error: AlignedError, width: float) -> Figure:
    """Draw the map, `width` millimetres wide: aligned residue down, scored residue across."""
    name, errors_RR = error
    figure = style.new_figure(width, width * 0.88 + 5)
    axis = figure.add_subplot(label="pae")
    size = len(errors_RR)
    image = axis.imshow(
        errors_RR, cmap="Greens_r", vmin=0, vmax=MAX_ALIGNED_ERROR, extent=(0.5, size + 0.5, size + 0.5, 0.5)
    )
    style.framed(axis)
    axis.set_xlabel("scored residue")
    axis.set_ylabel("aligned residue")
    style.whole_ticks(axis.xaxis, 6)
    style.whole_ticks(axis.yaxis, 6)
    style.colour_bar(figure, image, axis, "expected error, Å", errors_RR, shrink=0.7, aspect=25)
    style.set_title(figure, f"{name}: predicted aligned error")
    return figure


@style.styled
def draw_plddt(predicted: PlddtChains, width: float) -> Figure:
    """Draw pLDDT by residue number, `width` millimetres wide: a line for each chain over AlphaFold DB's bands."""
    (chains,) = predicted
    figure = style.new_figure(width, 55 + 4 * len(chains))
    axis = figure.add_subplot(label="plddt")
    for low, high, colour, word in BANDS:
        axis.axhspan(low, high, color=colour, alpha=0.25, linewidth=0)
        style.write_beside(axis, word, (1, (low + high) / 200), (3, 0), va="center", annotation_clip=False)
    handles = []
    for number, chain in enumerate(chains):
        colour = style.BLACK if len(chains) == 1 else style.colour_of(number)
        # A break in the numbers is a break in the line.
        numbers = np.asarray(chain.numbers, dtype=np.float64)
        gaps = np.flatnonzero(np.abs(np.diff(numbers)) > 1) + 1
        label = f"{chain.name} (mean {chain.plddt.mean():.1f})"
        broken = (np.insert(values, gaps, np.nan) for values in (numbers, chain.plddt))
        handles += axis.plot(*broken, color=colour, label=label)
    axis.set_ylim(0, 100)
    axis.margins(x=0)
    axis.set_xlabel("residue")
    axis.set_ylabel("pLDDT")
    style.whole_ticks(axis.xaxis, 8)
    style.bottom_legend(figure, handles)
    return figure
