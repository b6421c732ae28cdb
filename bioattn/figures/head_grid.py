"""Maps of every head: treatment × position for promoters, query × key by block for an alignment.

Blocks and heads are counted from 0, as in the files.

Shape suffixes: T treatments, K bins, Q queries.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, TwoSlopeNorm
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bioattn.alignments.couplings import average_product_correction
from bioattn.errors import BioattnError
from bioattn.figures import style
from bioattn.figures.treatment_maps import window_zero
from bioattn.interpret.alignment_maps import RESIDUES, choose_maps, head_map, only_sample
from bioattn.interpret.promoter_maps import PromoterMaps, Quantity, attention_maps, chosen_quantity
from bioattn.store.reader import Attention
from bioattn.system.progress import SILENT, Progress
from bioattn.text import quoted

_KINDS = {"msa_row": "sequence", "extra_msa_row": "sequence", "source_token": "token"}
"""What a figure calls the kinds of keys."""


class HeadPanel(NamedTuple):
    """The map of one head."""

    site: str
    head: str
    values: NDArray[np.float64]
    """(Q, K); of promoters (T, K)."""
    effective_keys: float
    """Mean effective number of keys of a row: 2 to the power of its entropy in bits. NaN for corrected maps."""
    names: tuple[Sequence[str], Sequence[str]] | None = None
    """Of queries and keys; None = numbers from 1."""

    @property
    def name(self) -> str:
        return f"head {self.head}" if self.head.isdigit() else self.head


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadGrid:
    """Panels by site, in the file's order, heads of a site side by side."""

    panels: list[HeadPanel]
    title: str
    query_label: str
    key_label: str
    query_names: list[str] | None = None
    key_edges: NDArray[np.int64] | None = None
    """Bin edges in bases, for promoters."""
    zero: int | None = None
    corrected: bool = False
    """Whether maps are symmetrised and corrected, so that they have both signs."""
    quantity: Quantity = Quantity.ATTENTION

    @property
    def values(self) -> NDArray[np.float64]:
        """The values of all panels, one after the other."""
        return np.concatenate([panel.values.ravel() for panel in self.panels])


def read_head_grid(
    attention: Attention,
    *,
    samples: Sequence[str] = (),
    treatments: Sequence[str] | None = None,
    sites: Sequence[str] | None = None,
    heads: Sequence[int] | None = None,
    corrected: bool = False,
    weights: bool = False,
    zero: int | str | None = None,
    progress: Progress = SILENT,
) -> HeadGrid:
    """Read the map of every head: of genes (none = all) by treatment, of an alignment or sequence by site.

    samples: genes, whose mean is taken, or the one alignment or sequence; none = the only one. sites: shell
    patterns; None = of genes all, else row attention, or all sites without it. corrected: maps of residues are
    symmetrised, and what a residue shares with all others is removed, as for contacts. weights: of genes attention
    also where it has contributions.

    Raises: BioattnError for options of the other kind of file, for what the file does not hold, and for sites of
    different keys, or none.
    """
    if attention.inputs == "promoters":
        if corrected:
            raise BioattnError(f"{attention.path}: holds promoters; corrected maps are those of alignments")
        maps = attention_maps(attention, sites, heads, chosen_quantity(weights=weights))
        averaged = maps.averaged(samples, treatments, progress=progress)
        return _promoter_grid(averaged, window_zero(attention, zero))
    if treatments or weights or zero is not None or len(samples) > 1:
        raise BioattnError(
            f"{attention.path}: holds {attention.inputs}; choose with one --sample, --sites and --heads"
        )
    sample = only_sample(attention, samples[0] if samples else None, RESIDUES)
    chosen = choose_maps(attention, sites, heads)
    kinds = {_KINDS.get(info.kind("key"), info.kind("key")) for info, _ in chosen}
    if len(kinds) > 1:
        names = quoted([info.name for info, _ in chosen])
        raise BioattnError(f"--sites: {names} look at residues and at sequences; choose one kind")
    kind = kinds.pop()
    if corrected and kind != "residue":
        raise BioattnError("corrected maps are those between residues; choose others with --sites")
    panels = []
    for info, own in chosen:
        called: tuple[list[str], list[str]] | None = None
        if kind != "sequence":
            query, key = (
                list(map(str, attention.coordinates(info.name, dim, sample))) for dim in ("query", "key")
            )
            called = query, key
        for head in own:
            values = head_map(attention, info, sample, head)
            effective = effective_keys(values)
            if corrected:
                values, effective = average_product_correction(values + values.T), math.nan
            name = str(info.reduce).replace("-", " over ") if head is None else str(head)
            panels.append(HeadPanel(info.name, name, values, effective, called))
    return HeadGrid(
        panels=panels, title=sample, query_label=f"query {kind}", key_label=f"key {kind}", corrected=corrected
    )


def _promoter_grid(maps: PromoterMaps, zero: int | None) -> HeadGrid:
    """A panel per head of maps of one promoter: treatments × bins, attention per base in multiples of uniform
    attention, or contributions per base."""
    names = [(site.name, head) for site in maps.sites for head in site.heads]
    many = len(maps.sites) > 1
    panels = [
        HeadPanel(
            site.removeprefix("promoter.") if many else "",
            head,
            maps.shown(values_TK),
            effective_keys(np.abs(values_TK)),
        )
        for (site, head), values_TK in zip(names, maps.by_head(slice(1))[0], strict=True)
    ]
    return HeadGrid(
        panels=panels,
        title=maps.genes[0],
        query_label="treatment",
        key_label=style.position_label(zero),
        query_names=maps.treatments,
        key_edges=maps.key_edges,
        zero=zero,
        quantity=maps.quantity,
    )


def effective_keys(weights: NDArray[np.float64]) -> float:
    """2 to the power of the entropy in bits, the mean over rows (..., K); rows are normalised first."""
    total = weights.sum(axis=-1, keepdims=True)
    shares = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    logs = np.log2(shares, out=np.zeros_like(shares), where=shares > 0)
    return float(np.exp2(-(shares * logs).sum(axis=-1)).mean())


_FOOT = 18.0
_ROBUST = 0.995
_LONGEST_NAME = 42.0
"""Most room of a drawn name, in millimetres."""
_BAR: dict[str, Any] = {"location": "bottom", "aspect": 50, "shrink": 0.5, "pad": 0.02}


_GAP, _TITLE = 1.5, 4.2
"""Millimetres between panels, and of the title above one."""
_ROOMY, _DENSE = 13.0, 5.0
"""Least millimetres of a panel with a title and ticks, and of one without, where the first row names the heads."""


@style.figure_style()
def draw_head_grid(grid: HeadGrid, width: float) -> Figure:
    """Draw the grid, `width` millimetres wide.

    Raises: BioattnError when there are more heads than a page has room for.
    """
    return _draw_promoters(grid, width) if grid.query_names is not None else _draw_layers(grid, width)


def _draw_layers(grid: HeadGrid, width: float) -> Figure:
    sites = dict.fromkeys(panel.site for panel in grid.panels)
    lines = [[panel for panel in grid.panels if panel.site == site] for site in sites]
    lines, groups, rows, size, title = _arranged(lines, width)
    across = max(map(len, lines))
    roomy = title == _TITLE
    figure = style.new_figure(width, rows * (size + title) + _FOOT + 9)
    cells = figure.subplots(rows, groups * across, squeeze=False)
    norm = Normalize(*style.data_limits(grid.values))
    if grid.corrected:
        # Neighbours in the chain look at each other most; the colours are for the others.
        far = np.concatenate([panel.values[np.triu_indices(len(panel.values), 6)] for panel in grid.panels])
        largest = (float(np.quantile(np.abs(far), _ROBUST)) if far.size else 0.0) or 1.0
        norm = TwoSlopeNorm(0, -largest, largest)
    image = None
    for number, line in enumerate(lines):
        group, row = divmod(number, rows)
        for column in range(across):
            axis: Axes = cells[row, group * across + column]
            if column >= len(line):
                axis.set_axis_off()
                continue
            panel = line[column]
            colours = style.DIVERGING if grid.corrected else style.SEQUENTIAL
            image = axis.imshow(panel.values, cmap=colours, norm=norm, aspect="auto")
            axis.spines[:].set_visible(True)
            axis.set_box_aspect(1)
            many = "" if math.isnan(panel.effective_keys) else f" ({panel.effective_keys:.0f})"
            if roomy:
                axis.set_title(panel.name + many, fontsize=style.SMALL_FONT)
            elif row == 0:
                axis.set_title(panel.head, fontsize=style.SMALL_FONT)
            first, last = column == 0, row == rows - 1 or number == len(lines) - 1
            names = panel.names or [
                [str(place + 1) for place in range(places)] for places in panel.values.shape
            ]
            for side, called in zip((axis.yaxis, axis.xaxis), names, strict=True):
                style.name_ticks(side, called, size)
            axis.tick_params(labelleft=first and roomy, labelbottom=last and roomy, left=roomy, bottom=roomy)
            if first:
                name = _short_site(panel.site)
                if roomy:
                    axis.set_ylabel(f"{name}\n{grid.query_label}", fontsize=style.SMALL_FONT)
                else:
                    upright: dict[str, Any] = {"rotation": 0, "ha": "right", "va": "center"}
                    axis.set_ylabel(name.removeprefix("block "), fontsize=style.SMALL_FONT, **upright)
            if last and roomy:
                axis.set_xlabel(grid.key_label, fontsize=style.SMALL_FONT)
    for axis in cells.flat[len(lines) * across :]:
        if not axis.has_data():
            axis.set_axis_off()
    assert image is not None
    note = "; in brackets how many keys share a query's attention" if roomy and not grid.corrected else ""
    if not roomy:
        note = f": {grid.query_label} (down) × {grid.key_label} (across); lines are blocks, columns heads"
    style.set_title(figure, grid.title + note)
    label = "symmetrised, corrected attention" if grid.corrected else "attention weight"
    style.colour_bar(figure, image, cells, label, grid.values, **_BAR)
    return figure


def _arranged(
    lines: list[list[HeadPanel]], width: float
) -> tuple[list[list[HeadPanel]], int, int, float, float]:
    """A line for a block's heads, or several where they do not fit across; how many lines stand side by side and
    below each other; the millimetres of a panel and of the title above it."""
    page, most = style.PAGE_HEIGHT - _FOOT - 9, max(map(len, lines))
    name = 2 + max(style.text_width(_short_site(line[0].site).removeprefix("block ")) for line in lines)
    for least, title, side in ((_ROOMY, _TITLE, 16.0), (_DENSE, 1.0, name)):
        fitting = max(1.0, (width - side) // (least + _GAP))
        across = math.ceil(most / math.ceil(most / fitting))
        broken = [line[first : first + across] for line in lines for first in range(0, len(line), across)]
        groups = math.ceil(len(broken) / (page // (least + title)))
        rows = math.ceil(len(broken) / groups)
        size = min((width - groups * side) / (groups * across) - _GAP, page / rows - title)
        if size >= least:
            return broken, groups, rows, size, title
    raise BioattnError(
        f"{len(lines)} blocks of {most} heads do not fit on a page of {width:g} mm; choose with --sites and "
        "--heads"
    )


def _draw_promoters(grid: HeadGrid, width: float) -> Figure:
    assert grid.query_names is not None
    assert grid.key_edges is not None
    number, rows = len(grid.panels), len(grid.query_names)
    across = 2 if number > 1 and width > 120 else 1
    down = math.ceil(number / across)
    panel = min(max(8.0, 2.6 * rows), (style.PAGE_HEIGHT - _FOOT - 6) / down - _TITLE - 2)
    if panel < max(4.0, 0.3 * rows):
        raise BioattnError(
            f"{number} heads × {rows} treatments do not fit on a page; choose with --heads and --treatment"
        )
    figure = style.new_figure(width, down * (panel + _TITLE + 2) + _FOOT + 4)
    cells = style.panels(figure, number, down, across, sharex=True, sharey=True)
    look = style.heat(grid.values, signed=grid.quantity.signed) | {"linewidth": 0, "rasterized": True}
    edges = grid.key_edges - (grid.zero or 0)
    mesh = None
    for axis, head in zip(cells.flat, grid.panels, strict=False):
        mesh = axis.pcolormesh(edges, np.arange(rows + 1), head.values, **look)
        axis.spines[:].set_visible(True)
        site = f"{head.site}, " if head.site else ""
        axis.set_title(f"{site}{head.name} ({head.effective_keys:.1f})", fontsize=style.SMALL_FONT)
    step = math.ceil(2.4 / (panel / rows))
    first = cells[0, 0]
    first.set_ylim(rows, 0)
    names = [style.shortened(name, _LONGEST_NAME) for name in grid.query_names]
    first.set_yticks(np.arange(rows)[::step] + 0.5, names[::step])
    for axis in cells.flat:
        axis.tick_params(axis="y", length=0)
    for axis in cells[-1]:
        axis.set_xlabel(grid.key_label)
    style.set_title(figure, f"{grid.title}; in brackets over how many bins a treatment's map spreads")
    assert mesh is not None
    label = ", ".join(style.HEAT_LABELS[grid.quantity.signed])
    style.colour_bar(figure, mesh, cells, label, grid.values, **_BAR)
    return figure


def _short_site(site: str) -> str:
    """`evoformer.07.msa_row` → `block 7`, other stacks by name."""
    words = site.split(".")
    if len(words) == 3 and words[0] == "evoformer":
        block = f"block {int(words[1])}"
        return block if words[2] == "msa_row" else f"{block} {words[2].replace('_', ' ')}"
    return site.replace("_", " ")
