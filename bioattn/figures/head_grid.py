"""Draws the maps of heads as a grid: a line per layer, heads side by side, one colour scale."""

import math
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bioattn.errors import SettingsError
from bioattn.figures.head_maps import HeadGrid, HeadPanel
from bioattn.figures.style import (
    DIVERGING,
    PAGE_HEIGHT,
    SEQUENTIAL,
    SMALL_FONT,
    framed,
    new_figure,
    set_title,
    styled,
)

_LARGEST_PANEL = 45.0
_FOOT = 18.0
"""Height of the colour scale in millimetres."""
_ROBUST = 0.995
_LONGEST_NAME = 30


class _Spacing(NamedTuple):
    """Millimetres around panels."""

    side: float
    """Space beside the first panel of a layer, for its name and the ticks."""
    between: float
    """Space between panels."""
    title: float
    """Space above a panel."""
    least: float
    """Least size of a panel."""


_ROOMY = _Spacing(14.0, 1.5, 4.2, 13.0)
_DENSE = _Spacing(5.0, 1.0, 1.0, 5.0)
"""Spacing without ticks; only the first layer names its heads."""


class _Layout(NamedTuple):
    spacing: _Spacing
    groups: int
    """Number of columns of layers."""
    lines: int
    """Number of layers in a column."""
    panel: float
    """Size of a panel in millimetres."""


@styled
def draw_head_grid(grid: HeadGrid, width: float) -> Figure:
    """Draw the grid, `width` millimetres wide.

    Raises: SettingsError when there are more heads than a page has room for.
    """
    return _draw_promoters(grid, width) if grid.query_names is not None else _draw_layers(grid, width)


def _draw_layers(grid: HeadGrid, width: float) -> Figure:
    lines = [[panel for panel in grid.panels if panel.site == site] for site in grid.sites]
    across = max(map(len, lines))
    layout = _layout(len(lines), across, width)
    roomy = layout.spacing is _ROOMY
    height = layout.lines * (layout.panel + layout.spacing.title) + _FOOT + 6
    figure = new_figure(width, height)
    cells = figure.subplots(layout.lines, layout.groups * across, squeeze=False)
    norm = _norm(grid)
    image = None
    for number, line in enumerate(lines):
        group, row = divmod(number, layout.lines)
        for column in range(across):
            axis: Axes = cells[row, group * across + column]
            if column >= len(line):
                axis.set_axis_off()
                continue
            panel = line[column]
            size = panel.values.shape
            image = axis.imshow(
                panel.values,
                cmap=DIVERGING if grid.corrected else SEQUENTIAL,
                norm=norm,
                extent=(0.5, size[1] + 0.5, size[0] + 0.5, 0.5),
                aspect="auto",
            )
            framed(axis)
            axis.set_box_aspect(1)
            name = f"head {panel.head}" if panel.head.isdigit() else panel.head
            many = "" if math.isnan(panel.effective_keys) else f" ({panel.effective_keys:.0f})"
            if roomy:
                axis.set_title(name + many, fontsize=SMALL_FONT)
            elif row == 0:
                axis.set_title(panel.head, fontsize=SMALL_FONT)
            first, last = column == 0, row == layout.lines - 1 or number == len(lines) - 1
            axis.xaxis.set_major_locator(MaxNLocator(nbins=3, integer=True, steps=[1, 2, 5, 10]))
            axis.yaxis.set_major_locator(MaxNLocator(nbins=3, integer=True, steps=[1, 2, 5, 10]))
            axis.tick_params(labelleft=first and roomy, labelbottom=last and roomy, left=roomy, bottom=roomy)
            if first:
                name = _short_site(panel.site)
                axis.set_ylabel(name if roomy else name.removeprefix("layer "), fontsize=SMALL_FONT)
    for axis in cells.flat[len(lines) * across :]:
        if not axis.has_data():
            axis.set_axis_off()
    assert image is not None
    note = "; in brackets how many keys share a query's attention" if roomy and not grid.corrected else ""
    if not roomy:
        note = "; a line for each layer, a column for each head"
    set_title(figure, f"{grid.title}: {grid.query_label} (down) × {grid.key_label} (across){note}")
    extend = "both" if grid.corrected else "max"
    bar = figure.colorbar(image, ax=cells, location="bottom", aspect=50, shrink=0.5, pad=0.02, extend=extend)
    bar.set_label(
        "symmetrised, corrected attention" if grid.corrected else "attention weight", fontsize=SMALL_FONT
    )
    return figure


def _layout(lines: int, across: int, width: float) -> _Layout:
    """Choose the number of columns that makes panels largest, with space around them where there is room."""
    for spacing in (_ROOMY, _DENSE):
        best = _Layout(spacing, 1, lines, 0.0)
        for groups in range(1, lines + 1):
            rows = math.ceil(lines / groups)
            panel = min(
                (width - groups * spacing.side) / (groups * across) - spacing.between,
                (PAGE_HEIGHT - _FOOT - 6) / rows - spacing.title,
                _LARGEST_PANEL,
            )
            if panel > best.panel:
                best = _Layout(spacing, groups, rows, panel)
        if best.panel >= spacing.least:
            return best
    raise SettingsError(
        f"{lines} layers of {across} heads do not fit on a page of {width:g} mm; choose with --sites and --heads"
    )


def _norm(grid: HeadGrid) -> Normalize:
    if grid.corrected:
        # Neighbours in the chain look at each other most; the colours are for the others.
        far = np.concatenate([panel.values[np.triu_indices(len(panel.values), 6)] for panel in grid.panels])
        largest = float(np.quantile(np.abs(far), _ROBUST)) if far.size else 0.0
        largest = largest or 1.0
        return TwoSlopeNorm(0, -largest, largest)
    values = np.concatenate([panel.values.ravel() for panel in grid.panels])
    return Normalize(0, float(np.quantile(values, _ROBUST)) or 1.0)


def _draw_promoters(grid: HeadGrid, width: float) -> Figure:
    assert grid.query_names is not None
    assert grid.key_edges is not None
    number, rows = len(grid.panels), len(grid.query_names)
    across = 2 if number > 1 and width > 120 else 1
    down = math.ceil(number / across)
    panel = max(8.0, 2.6 * rows)
    least = (PAGE_HEIGHT - _FOOT - 6) / down - _ROOMY.title - 2
    panel = min(panel, least)
    if panel < max(4.0, 0.3 * rows):
        raise SettingsError(
            f"{number} heads × {rows} treatments do not fit on a page; choose with --heads and --treatment"
        )
    figure = new_figure(width, down * (panel + _ROOMY.title + 2) + _FOOT + 4)
    cells = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
    norm = _norm(grid)
    edges = grid.key_edges - (grid.zero or 0)
    mesh = None
    for axis, found in zip(cells.flat, grid.panels, strict=False):
        mesh = axis.pcolormesh(
            edges, np.arange(rows + 1), found.values, cmap=SEQUENTIAL, norm=norm, linewidth=0, rasterized=True
        )
        framed(axis)
        axis.set_title(_promoter_title(found), fontsize=SMALL_FONT)
    step = math.ceil(2.4 / (panel / rows))
    first = cells[0, 0]
    first.set_ylim(rows, 0)
    names = [
        name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…" for name in grid.query_names
    ]
    first.set_yticks(np.arange(rows)[::step] + 0.5, names[::step])
    for axis in cells.flat:
        axis.tick_params(axis="y", length=0)
    for axis in cells.flat[number:]:
        axis.set_axis_off()
    for axis in cells[-1]:
        axis.set_xlabel(grid.key_label)
    set_title(figure, f"{grid.title}; in brackets over how many bins a treatment's attention spreads")
    assert mesh is not None
    bar = figure.colorbar(mesh, ax=cells, location="bottom", aspect=50, shrink=0.5, pad=0.02, extend="max")
    bar.set_label("attention per base, × uniform", fontsize=SMALL_FONT)
    return figure


def _promoter_title(panel: HeadPanel) -> str:
    site = f"{panel.site}, " if panel.site else ""
    name = f"head {panel.head}" if panel.head.isdigit() else panel.head
    return f"{site}{name} ({panel.effective_keys:.1f})"


def _short_site(site: str) -> str:
    """`evoformer.07.msa_row` → `07`, other stacks by name."""
    words = site.split(".")
    if len(words) == 3 and words[0] == "evoformer":
        return f"layer {words[1]}" if words[2] == "msa_row" else f"{words[1]} {words[2].replace('_', ' ')}"
    return site.replace("_", " ")
