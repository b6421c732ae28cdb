"""Attention maps by treatment of one gene or the mean over genes, and their heatmap with clustered treatments.

Shape suffixes: T treatments, H heads, K bins.
"""

import math
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

from bioattn.choices import MEAN, require_names, require_reference
from bioattn.errors import BioattnError, SettingsError
from bioattn.figures import style
from bioattn.interpret.position_maps import position_maps
from bioattn.promoters.genes import choose_genes
from bioattn.store.reader import Attention, SiteInfo
from bioattn.system.progress import SILENT, Progress
from bioattn.text import counted

ALL_TREATMENTS = "all treatments"
"""The name of the one map of a model whose attention does not depend on the treatment."""
_BLOCK_BYTES = 1 << 26
_ROW = 2.5
"""Least height in millimetres of a row with a name."""
_LEAST_ROW = 0.4
_LONGEST_NAME = 55.0
"""Most room of a drawn name, in millimetres."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreatmentMaps:
    """Attention over the K bins of a window by head and treatment."""

    treatments: list[str]
    numbers: list[int]
    """Of each treatment in the file, from 0, which decides its colour."""
    heads: list[str]
    """H names: the head's number, preceded by the site where there are several sites."""
    weights_HTK: NDArray[np.float64]
    """Stored weights: rows sum to 1, or less with a null key. Sites with a query axis: the mean over queries."""
    key_edges: NDArray[np.int64]
    """(K + 1,) in bases from the window's first base."""
    window_length: int
    receptive_field: int | None
    """Bases that the key of a bin sees; None where sites differ or do not tell."""
    genes: list[str]
    reference: str | None = None
    """The map that was subtracted: a treatment, or `mean`; None = nothing."""
    contributions: bool = False
    """Whether the maps are contributions in place of weights."""

    @property
    def over_heads(self) -> NDArray[np.float64]:
        """Mean maps (T, K) over heads; of contributions the sum, as they add up."""
        return np.asarray(
            self.weights_HTK.sum(axis=0) if self.contributions else self.weights_HTK.mean(axis=0)
        )


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


def read_treatment_maps(
    attention: Attention,
    *,
    genes: Sequence[str] | None = None,
    treatments: Sequence[str] | None = None,
    against: str | None = None,
    sites: Sequence[str] | None = None,
    heads: Sequence[int] | None = None,
    contributions: bool = False,
    progress: Progress = SILENT,
) -> TreatmentMaps:
    """Read maps averaged over `genes` (None = all genes), in blocks.

    treatments: None = all, in the file's order. against: a treatment whose map is subtracted from the others' and
    which is left out; or `mean` (where no treatment is called so) for the mean over all treatments of the file.
    heads: of every site; None = all. contributions: of bins to the prediction, in place of weights.

    Raises: BioattnError for a gene, treatment, site or head that the file does not hold.
    """
    positions = position_maps(attention, sites, heads, contributions=contributions)
    require_names("--gene", genes or (), attention.samples.index, attention.path, "gene")
    known = positions.treatments or [ALL_TREATMENTS]
    require_names("--treatment", treatments or (), known, attention.path)
    require_reference("--against", against, known, attention.path)
    shown = [name for name in treatments or known if name != against]
    if not shown:
        raise BioattnError(f"--against {against!r}: is the only treatment; name others")
    names = list(shown)
    if against is not None:
        names = list(known) if against == MEAN and MEAN not in known else [*shown, against]
    maps, labels = [], []
    for info in positions.sites:
        site = f"{info.name.removeprefix('promoter.')} " if len(positions.sites) > 1 else ""
        if "head" not in info.dims:
            labels.append(site + info.reduce.replace("-", " over "))
        else:
            labels += [f"{site}{head}" for head in heads or info.heads]
        maps.append(_mean_over_genes(attention, info, heads, genes, names, contributions, progress))
    weights_HTK = np.concatenate(maps)
    if against is not None and names[-1] == against:
        weights_HTK = weights_HTK[:, :-1] - weights_HTK[:, -1:]
    elif against is not None:
        weights_HTK = weights_HTK - weights_HTK.mean(axis=1, keepdims=True)
        weights_HTK = weights_HTK[:, [names.index(name) for name in shown]]
    return TreatmentMaps(
        treatments=shown,
        numbers=[known.index(name) for name in shown],
        heads=labels,
        weights_HTK=weights_HTK,
        key_edges=positions.key_edges,
        window_length=attention.window_length,
        receptive_field=positions.receptive_field,
        genes=list(attention.samples.index if genes is None else genes),
        reference=against,
        contributions=contributions,
    )


def read_titled_maps(attention: Attention, genes: Sequence[str], **choices: Any) -> tuple[TreatmentMaps, str]:
    """The maps and a title.

    genes: ids, or files with one id per line; none = all. choices: of `read_treatment_maps`.
    """
    chosen = choose_genes(genes, attention.samples.index, attention.path) if genes else None
    maps = read_treatment_maps(attention, genes=chosen, **choices)
    return maps, maps.genes[0] if len(maps.genes) == 1 else f"mean over {counted(len(maps.genes), 'gene')}"


def _mean_over_genes(
    attention: Attention,
    info: SiteInfo,
    heads: Sequence[int] | None,
    genes: Sequence[str] | None,
    treatments: Sequence[str],
    contributions: bool,
    progress: Progress,
) -> NDArray[np.float64]:
    """Means (H, T, K) over genes of one site."""
    read = attention.contributions if contributions else attention.weights
    queried = None if info.treatments is None or treatments == info.treatments else treatments
    number = len(attention.samples) if genes is None else len(genes)
    sizes = dict(zip(info.dims[1:], info.shape[1:], strict=True)) | {"treatment": len(treatments)}
    size = max(1, _BLOCK_BYTES // (info.dtype.itemsize * math.prod(sizes.values())))
    total_HTK: Any = 0
    progress.begin(f"reading {info.name}", number)
    try:
        for start in range(0, number, size):
            block = slice(start, min(start + size, number))
            part = read(info.name, gene=block if genes is None else list(genes[block]), treatment=queried)
            if "query" in info.dims:
                part = part.mean(axis=info.dims.index("query"), dtype=np.float64)
            part = part.sum(axis=0, dtype=np.float64)
            if info.treatments is None:
                part = part[None]
            part_HTK = np.moveaxis(part, 1, 0) if "head" in info.dims else part[None]
            total_HTK = total_HTK + part_HTK
            progress.advance(block.stop - block.start)
    finally:
        progress.end()
    kept = slice(None) if heads is None else [info.heads.index(head) for head in heads]
    return np.asarray(total_HTK[kept] / number)


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
    maps, title = read_titled_maps(
        attention,
        genes,
        treatments=treatments,
        against=against,
        sites=sites,
        heads=heads,
        contributions=contributions,
        progress=progress,
    )
    return cluster_treatments(maps, cluster=cluster, title=title, zero=window_zero(attention, zero))


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
        order = leaves_list(tree).tolist()
    return TreatmentHeatmap(
        maps=maps,
        treatments=[maps.treatments[number] for number in order],
        values_TK=values_TK[order],
        tree=tree,
        order=order,
        title=title,
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
    branches = dendrogram(heatmap.tree, no_plot=True)
    for height, leaf in zip(branches["dcoord"], branches["icoord"], strict=True):
        # SciPy puts leaf i at 10 i + 5.
        axis.plot(height, np.asarray(leaf) / 10, color=style.GREY, linewidth=0.5)
    axis.set_xlim(axis.get_xlim()[1], 0)
    axis.set_xticks([])
    axis.tick_params(axis="y", length=0, labelleft=False, labelright=False)
    axis.spines[:].set_visible(False)
