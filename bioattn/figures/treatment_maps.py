"""Maps by treatment of one gene or the mean over genes: a heatmap with clustered treatments.

Shape suffixes: T treatments, K bins.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.cluster.hierarchy import dendrogram, leaves_list, linkage, optimal_leaf_ordering
from scipy.spatial.distance import pdist

from bioattn.choices import MEAN
from bioattn.errors import BioattnError, SettingsError
from bioattn.figures import style
from bioattn.interpret.promoter_maps import PromoterMaps, attention_maps, chosen_quantity
from bioattn.store.reader import Attention
from bioattn.system.progress import SILENT, Progress

_ROW = 2.5
"""Least height in millimetres of a row with a name."""
_LEAST_ROW = 0.4
_LONGEST_NAME = 55.0
"""Most room of a drawn name, in millimetres."""


def described(reference: str) -> str:
    """The subtracted map, for a title."""
    return "the mean of treatments" if reference == MEAN else f"that in {reference}"


def window_zero(attention: Attention, zero: int | str | None) -> int | None:
    """The window position that the axis labels 0; None where it is not known.

    zero: the number of bases of the window before it; None = as the file says.

    Raises: SettingsError for another word, BioattnError when the window would end before position 0.
    """
    length = attention.window_length
    if zero is None:
        return None if attention.downstream is None else length - attention.downstream
    try:
        bases = int(zero)
    except ValueError:
        raise SettingsError(
            f"--zero {zero}: give the number of bases before position 0, or tss or cds with --annotation"
        ) from None
    if not 0 <= bases <= length:
        raise BioattnError(
            f"--zero {bases}: the windows have {length:,} bases; give what `prepare promoters` was told"
        )
    return bases


@dataclass(frozen=True, slots=True, kw_only=True)
class TreatmentHeatmap:
    """The data of the figure, rows in drawn order."""

    maps: PromoterMaps
    """Of one promoter: a gene, or the mean over genes."""
    treatments: list[str]
    values_TK: NDArray[np.float64]
    """Attention per base in multiples of uniform attention, or contributions per base; or differences from the
    reference."""
    tree: NDArray[np.float64] | None
    """SciPy's linkage matrix; its leaves are the rows in their order before clustering. None = not clustered."""
    order: list[int]
    zero: int | None = None

    def record(self) -> dict[str, Any]:
        """The figures of the run record."""
        return {"treatments": self.treatments, "quantity": str(self.maps.quantity)}


def read_treatment_heatmap(
    attention: Attention,
    *,
    genes: Sequence[str] = (),
    treatments: Sequence[str] | None = None,
    against: str | None = None,
    sites: Sequence[str] | None = None,
    heads: Sequence[int] | None = None,
    weights: bool = False,
    cluster: bool = True,
    zero: int | str | None = None,
    progress: Progress = SILENT,
) -> TreatmentHeatmap:
    """Read the maps of genes (none = all) and order treatments by a tree, or with `cluster=False` as in the file.

    genes: ids, or files with one id per line. weights: attention also where it has contributions. The others: as
    `attention_maps`, `PromoterMaps.averaged` and `window_zero`.
    """
    maps = attention_maps(attention, sites, heads, chosen_quantity(weights=weights))
    averaged = maps.averaged(genes, treatments, against, progress)
    return cluster_treatments(averaged, cluster=cluster, zero=window_zero(attention, zero))


def cluster_treatments(
    maps: PromoterMaps, *, cluster: bool = True, zero: int | None = None
) -> TreatmentHeatmap:
    """The map of each treatment, of maps of one promoter, ordered by a tree.

    Average linkage of Euclidean distances; leaves are ordered so that neighbours are as similar as possible.
    """
    values_TK = maps.shown(maps.block(slice(1))[0])
    tree, order = None, list(range(len(maps.treatments)))
    if cluster and len(order) > 2:
        apart = pdist(values_TK)
        tree = optimal_leaf_ordering(linkage(apart, "average"), apart)
        order = leaves_list(tree).tolist()
    return TreatmentHeatmap(
        maps=maps,
        treatments=[maps.treatments[number] for number in order],
        values_TK=values_TK[order],
        tree=tree,
        order=order,
        zero=zero,
    )


@style.figure_style()
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
    look = style.heat(heatmap.values_TK, signed=maps.reference is not None or maps.signed)
    edges, look = maps.key_edges + offset, look | {"linewidth": 0, "rasterized": True}
    mesh = axis.pcolormesh(edges, np.arange(number + 1), heatmap.values_TK, **look)
    axis.set_ylim(number, 0)
    axis.spines[:].set_visible(True)
    axis.yaxis.tick_right()
    step = int(np.ceil(_ROW / row - 1e-9))
    axis.set_yticks(np.arange(number)[::step] + 0.5, names[::step])
    axis.tick_params(axis="y", length=0)
    axis.set_title(maps.genes[0])
    axis.set_xlabel(style.position_label(heatmap.zero))
    style.whole_ticks(axis.xaxis, max(3, int(width / 25)))
    if heatmap.tree is not None:
        tree = figure.add_subplot(parts[0], label="tree", sharey=axis)
        branches = dendrogram(heatmap.tree, no_plot=True)
        for height, leaf in zip(branches["dcoord"], branches["icoord"], strict=True):
            # SciPy puts leaf i at 10 i + 5.
            tree.plot(height, np.asarray(leaf) / 10, color=style.GREY, linewidth=0.5)
        tree.set_xlim(tree.get_xlim()[1], 0)
        tree.set_xticks([])
        tree.tick_params(axis="y", length=0, labelleft=False, labelright=False)
        tree.spines[:].set_visible(False)
    what, unit = style.HEAT_LABELS[maps.signed]
    if maps.reference is not None:
        what += f" less {described(maps.reference)}"
    place: dict[str, Any] = {"aspect": 40, "shrink": 0.6, "location": "bottom", "pad": 0.03}
    style.colour_bar(figure, mesh, axis, f"{what}, {unit}", heatmap.values_TK, **place)
    return figure
