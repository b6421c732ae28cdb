"""Heatmap of treatments × positions for one gene or the mean over genes, with clustered treatments.

Shape suffixes: T treatments, K bins.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, TwoSlopeNorm
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.cluster.hierarchy import dendrogram, leaves_list, linkage, optimal_leaf_ordering
from scipy.spatial.distance import pdist

from bioattn.errors import BioattnError
from bioattn.figures import style
from bioattn.figures.treatment_maps import TreatmentMaps, described, read_titled_maps
from bioattn.store.reader import Attention
from bioattn.system.progress import SILENT, Progress

_ROW = 2.5
"""Least height in millimetres of a row with a name."""
_LEAST_ROW = 0.4
_LONGEST_NAME = 55.0
"""Most room of a drawn name, in millimetres."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreatmentHeatmap:
    """The data of the figure, rows in drawn order."""

    maps: TreatmentMaps
    treatments: list[str]
    values_TK: NDArray[np.float64]
    """Attention per base in multiples of uniform attention, or contributions per base; or differences from the
    reference."""
    tree: NDArray[np.float64] | None
    """SciPy's linkage matrix; its leaves are the rows in their order before clustering. None = not clustered."""
    order: list[int]
    title: str = ""
    """What the maps are of: a gene, or the mean over genes."""
    zero: int | None = None

    def record(self) -> dict[str, Any]:
        """The figures of the run record."""
        return {"treatments": self.treatments}


def read_treatment_heatmap(
    attention: Attention,
    *,
    genes: Sequence[str] = (),
    treatments: Sequence[str] | None = None,
    against: str | None = None,
    sites: Sequence[str] | None = None,
    heads: Sequence[int] | None = None,
    contributions: bool = False,
    cluster: bool = True,
    zero: int | str | None = None,
    progress: Progress = SILENT,
) -> TreatmentHeatmap:
    """Read the maps of genes (none = all) and order treatments by a tree, or with `cluster=False` as in the file.

    genes: ids, or files with one id per line. The others: as `read_treatment_maps` and `window_zero`.
    """
    maps, title, position = read_titled_maps(
        attention,
        genes,
        zero,
        treatments=treatments,
        against=against,
        sites=sites,
        heads=heads,
        contributions=contributions,
        progress=progress,
    )
    return cluster_treatments(maps, cluster=cluster, title=title, zero=position)


def cluster_treatments(
    maps: TreatmentMaps, *, cluster: bool = True, title: str = "", zero: int | None = None
) -> TreatmentHeatmap:
    """The mean map over heads of each treatment, ordered by a tree.

    Average linkage of Euclidean distances; leaves are ordered so that neighbours are as similar as possible.
    """
    widths_K = np.diff(maps.key_edges)
    # Attention in multiples of what each base has where it is uniform; contributions in response units.
    values_TK = maps.over_heads / widths_K * (1 if maps.contributions else maps.window_length)
    tree, order = None, list(range(len(maps.treatments)))
    if cluster and len(order) > 2:
        apart = pdist(values_TK)
        tree = optimal_leaf_ordering(linkage(apart, "average"), apart)
        order = [int(leaf) for leaf in leaves_list(tree)]
    return TreatmentHeatmap(
        maps=maps,
        treatments=[maps.treatments[place] for place in order],
        values_TK=values_TK[order],
        tree=tree,
        order=order,
        title=title,
        zero=zero,
    )


@style.styled
def draw_treatment_heatmap(heatmap: TreatmentHeatmap, width: float) -> Figure:
    """Draw the figure, `width` millimetres wide. Where names have no room, only every second row or fewer get one.

    Raises: BioattnError when there are so many treatments that rows become hairlines.
    """
    maps, number = heatmap.maps, len(heatmap.treatments)
    room = style.PAGE_HEIGHT - 20
    row = min(_ROW, room / number)
    if row < _LEAST_ROW:
        raise BioattnError(
            f"{number:,} treatments do not fit on a page, {int(room / _LEAST_ROW)} do; choose with --treatment"
        )
    figure = style.new_figure(width, max(number * row, 12) + 20)
    names = [style.shortened(name, _LONGEST_NAME) for name in heatmap.treatments]
    parts = figure.add_gridspec(1, 2, width_ratios=[0.08 if heatmap.tree is not None else 0.001, 1], wspace=0)
    axis = figure.add_subplot(parts[1], label="heatmap")
    offset = -(heatmap.zero or 0)
    low, high = style.data_limits(heatmap.values_TK)
    norm = Normalize(low, high)
    has_sign = maps.reference is not None or maps.contributions
    if has_sign:
        largest = max(-low, high)
        norm = TwoSlopeNorm(0, -largest, largest)
    mesh = axis.pcolormesh(
        maps.key_edges + offset,
        np.arange(number + 1),
        heatmap.values_TK,
        cmap=style.DIVERGING if has_sign else style.SEQUENTIAL,
        norm=norm,
        linewidth=0,
        rasterized=True,
    )
    axis.set_ylim(number, 0)
    style.framed(axis)
    axis.yaxis.tick_right()
    step = int(np.ceil(_ROW / row - 1e-9))
    axis.set_yticks(np.arange(number)[::step] + 0.5, names[::step])
    axis.tick_params(axis="y", length=0)
    axis.set_title(heatmap.title)
    axis.set_xlabel(style.position_label(heatmap.zero))
    style.whole_ticks(axis.xaxis, max(3, int(width / 25)))
    if heatmap.tree is not None:
        _draw_tree(figure.add_subplot(parts[0], label="tree", sharey=axis), heatmap)
    what, unit = "attention per base", "× uniform"
    if maps.contributions:
        what, unit = "contribution per base", "units of the response (purple lowers it, orange raises it)"
    if maps.reference is not None:
        what += f" less {described(maps.reference)}"
    place: dict[str, Any] = {"aspect": 40, "shrink": 0.6, "location": "bottom", "pad": 0.03}
    style.colour_bar(figure, mesh, axis, f"{what}, {unit}", heatmap.values_TK, **place)
    return figure


def _draw_tree(axis: Axes, heatmap: TreatmentHeatmap) -> None:
    assert heatmap.tree is not None
    found = dendrogram(heatmap.tree, no_plot=True)
    for height, place in zip(found["dcoord"], found["icoord"], strict=True):
        # SciPy puts leaf i at 10 i + 5.
        axis.plot(height, np.asarray(place) / 10, color=style.GREY, linewidth=0.5)
    axis.set_xlim(axis.get_xlim()[1], 0)
    axis.set_xticks([])
    axis.tick_params(axis="y", length=0, labelleft=False, labelright=False)
    axis.spines[:].set_visible(False)
