"""Contributions or attention by treatment along one promoter, with its genes, motif sites and attribution.

Shape suffixes: T treatments, L bases of the window.
"""

import logging
import textwrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Polygon, Rectangle
from numpy.typing import NDArray

from bioattn.errors import BioattnError
from bioattn.figures import style
from bioattn.figures.motif_logos import draw_letters
from bioattn.figures.promoter_picture import MotifSite, PromoterPicture
from bioattn.figures.treatment_maps import described
from bioattn.interpret.promoter_maps import Quantity
from bioattn.text import counted

LOGGER = logging.getLogger("bioattn")
LETTER_ROOM = 1.3
"""Width in millimetres that a base needs for its letter."""
_LABEL_LINES = 3
_MOTIF_LANES = 4
_TICK_ROOM, _PREDICTION_ROOM = 8.0, 13.0
"""Millimetres left and right of the tracks, about."""
_TRACK, _BESIDE, _GENES, _LANE, _LETTERS = 9.5, 8.0, 4.5, 3.4, 3.0
"""Heights in millimetres."""


@style.figure_style()
def draw_promoter_attention(picture: PromoterPicture, width: float) -> Figure:
    """Draw the figure, `width` millimetres wide. Warns of motif sites without room for a name.

    Raises: BioattnError when the treatments do not fit on a page.
    """
    shown, zero, treatments = picture.shown, picture.zero, picture.treatments
    labels = [_wrapped(name, width) for name in treatments]
    sides = max(style.text_width(line, style.FONT_SIZE) for label in labels for line in label.split("\n"))
    room = width - sides - _TICK_ROOM - (3.0 if picture.predictions is None else _PREDICTION_ROOM)
    lanes = _lanes(picture, room)
    num_lanes = 1 + max(lanes.values(), default=-1)
    letters_fit = room / (shown.end - shown.start) >= LETTER_ROOM
    as_letters = letters_fit and picture.codes is not None
    heights: dict[str, float] = {}
    has_genes = any(gene.start < shown.end and gene.end > shown.start for gene in picture.genes or [])
    if has_genes or (zero is not None and shown.start <= zero <= shown.end):
        heights["genes"] = _GENES
    if num_lanes:
        heights["sites"] = _LANE * num_lanes
    for number in range(len(treatments)):
        for quantity in picture.tracks:
            height = _TRACK if quantity is picture.shown_first else _BESIDE
            heights[f"{quantity} {number}"] = height * (1.4 if as_letters and quantity.signed else 1)
    if as_letters and not any(quantity.signed for quantity in picture.tracks):
        heights["letters"] = _LETTERS
    height = sum(heights.values()) + 1.2 * len(heights) + 14
    if height > style.PAGE_HEIGHT:
        raise BioattnError(
            f"{len(treatments)} treatments do not fit on a page; choose some with --treatment, or draw "
            "all with --kind heatmap"
        )
    figure = style.new_figure(width, height)
    rows = figure.subplots(len(heights), 1, squeeze=False, sharex=True, height_ratios=list(heights.values()))
    axes: dict[str, Axes] = dict(zip(heights, rows[:, 0], strict=True))
    for name, axis in axes.items():
        axis.set_label(name)
        axis.tick_params(axis="x", bottom=axis is rows[-1, 0], labelbottom=axis is rows[-1, 0])
    style.set_title(figure, picture.title)
    rows[0, 0].set_xlim(shown.start + picture.offset, shown.end + picture.offset)
    if "genes" in axes:
        _draw_genes(axes["genes"], picture, room)
    if "sites" in axes:
        _draw_sites(axes["sites"], picture, lanes, num_lanes)
    for number, label in enumerate(labels):
        for quantity, values_TL in picture.tracks.items():
            axis, part_TL = axes[f"{quantity} {number}"], values_TL[:, shown.start : shown.end]
            if quantity.signed:
                _draw_signed(axis, picture, part_TL, number, as_letters=as_letters)
            else:
                _draw_weights(axis, picture, part_TL, number)
        _write_names(axes[f"{picture.shown_first} {number}"], picture, number, label)
    _write_units(axes, picture, room, with_legend=not as_letters)
    if "letters" in axes:
        _draw_bases(axes["letters"], picture, np.ones(shown.end - shown.start))
        axes["letters"].set_ylim(0, 1.1)
        axes["letters"].set_yticks([])
        axes["letters"].spines["left"].set_visible(False)
    rows[-1, 0].set_xlabel(style.position_label(zero))
    style.whole_ticks(rows[-1, 0].xaxis, max(2, int(room / 13)))
    figure.align_ylabels()
    if hidden := sum(lane < 0 for lane in lanes.values()):
        LOGGER.warning(
            f"without room for its name, and only shaded: {counted(hidden, 'less certain motif site')}"
        )
    return figure


def _draw_weights(axis: Axes, picture: PromoterPicture, part_TL: NDArray[np.float64], number: int) -> None:
    """Draw the attention of one treatment over the bases in view, or its difference from a reference."""
    shown, colour = picture.shown, picture.colours[picture.treatments[number]]
    largest = float(np.abs(part_TL).max()) or 1.0
    edges = np.arange(shown.start, shown.end + 1) + picture.offset
    axis.stairs(part_TL[number], edges, fill=True, color=colour, alpha=0.3, linewidth=0)
    axis.stairs(part_TL[number], edges, baseline=None, color=colour, linewidth=0.9)
    if picture.reference is None:
        axis.axhline(1, color=style.GREY, linewidth=0.5, linestyle=(0, (2, 2)))
        axis.set_ylim(0, 1.08 * max(largest, 1.0))
        axis.set_yticks([0, _round_tick(max(largest, 1.0))])
    else:
        axis.axhline(0, color=style.BLACK, linewidth=0.5)
        axis.set_ylim(-1.08 * largest, 1.08 * largest)
        tick = _round_tick(largest)
        axis.set_yticks([-tick, 0, tick])


def _draw_signed(
    axis: Axes, picture: PromoterPicture, part_TL: NDArray[np.float64], number: int, *, as_letters: bool
) -> None:
    """Draw what raises one response above a line at 0, and what lowers it below; as letters of that height."""
    shown = picture.shown
    largest = float(np.abs(part_TL).max()) or 1.0
    axis.axhline(0, color=style.BLACK, linewidth=0.4)
    if as_letters:
        _draw_bases(axis, picture, part_TL[number])
    else:
        edges = np.arange(shown.start, shown.end + 1) + picture.offset
        for colour, part in ((style.RAISES, part_TL.clip(0)), (style.LOWERS, part_TL.clip(max=0))):
            axis.stairs(part[number], edges, fill=True, color=colour, linewidth=0)
    low, high = min(float(part_TL.min()), -0.15 * largest), max(float(part_TL.max()), 0.15 * largest)
    axis.set_ylim(1.08 * low, 1.08 * high)
    tick = _round_tick(largest)
    axis.set_yticks([value for value in (-tick, 0, tick) if low <= value <= high])
    axis.set_ylabel(" ", rotation=0)


def _write_names(axis: Axes, picture: PromoterPicture, number: int, label: str) -> None:
    """Write the treatment's name and prediction beside its main track, and shade its motif sites."""
    shown, treatment = picture.shown, picture.treatments[number]
    colour = picture.colours[treatment]
    for site in picture.sites or []:
        if site.start < shown.end and site.end > shown.start:
            acts = site.treatment == treatment
            shade, alpha = (colour, 0.22) if acts else (style.GREY, 0.12)
            first, last = site.start + picture.offset, site.end + picture.offset
            axis.axvspan(first, last, color=shade, alpha=alpha, linewidth=0, zorder=0)
    axis.set_ylabel(label, rotation=0, ha="right", va="center", color=colour)
    if picture.predictions is not None:
        value = picture.predictions[number]
        text = f"{value:.2f}" if picture.task == "binary" else style.signed(value)
        style.write_beside(axis, f"predicted\n{text}", (1, 0.5), (4, 0), va="center")


def _write_units(axes: dict[str, Axes], picture: PromoterPicture, room: float, with_legend: bool) -> None:
    """Write above the first track of a quantity what it is.

    with_legend: also which colour of signed tracks raises the response, and which lowers it.
    """
    less = "" if picture.reference is None else f" less {described(picture.reference)}"
    response = "log-odds" if picture.task == "binary" else "units of the response"
    for quantity in picture.tracks:
        axis, width, short = axes[f"{quantity} 0"], room, f"{quantity}{less}"
        if not quantity.signed:
            text = f"{short}, × uniform" + ("" if less else " (dashed: 1)")
        else:
            taken = 0.0
            for words, colour in (
                (("■ lowers", style.LOWERS), ("■ raises", style.RAISES)) if with_legend else ()
            ):
                apart = (-taken * 72 / 25.4, 1)
                style.write_beside(axis, words, (1, 1), apart, color=colour, ha="right", va="bottom")
                taken += style.text_width(words) + 2
            of_bases = quantity is Quantity.ATTRIBUTION
            how = f" of each base ({picture.method})" if of_bases else " (they add up to the prediction)"
            text, width = f"{short}{how}, {response}", room - taken
        fitting = text if style.text_width(text) < width else short
        style.write_beside(axis, fitting, (0, 1), (2, 1), color=style.GREY, va="bottom")


def _round_tick(value: float) -> float:
    """The largest of 1, 2 or 5 times a power of ten that is not above `value`."""
    power = 10.0 ** np.floor(np.log10(value))
    return float(max(step for step in (1, 2, 5) if step * power <= value * (1 + 1e-9)) * power)


def _wrapped(text: str, width: float) -> str:
    """A name on at most three lines, those of narrow figures short."""
    letters = 22 if width > 120 else 13
    # A name may also be parted behind an underscore.
    parts = textwrap.wrap(text.replace("_", "_ "), letters, break_on_hyphens=False) or [text]
    lines = [part.replace("_ ", "_") for part in parts]
    if len(lines) > _LABEL_LINES:
        lines = [*lines[: _LABEL_LINES - 1], lines[_LABEL_LINES - 1][: letters - 1] + "…"]
    return "\n".join(lines)


def _site_label(site: MotifSite) -> str:
    return f"{site.motif} {'→' if site.strand == '+' else '←'}"


def _lanes(picture: PromoterPicture, room: float) -> dict[MotifSite, int]:
    """The sites in view with the lane of each for its name, -1 where there is none left."""
    shown = picture.shown
    base = room / (shown.end - shown.start)
    taken: list[list[tuple[float, float]]] = [[] for _ in range(_MOTIF_LANES)]
    chosen = {}
    for site in picture.sites or []:
        if site.start >= shown.end or site.end <= shown.start:
            continue
        half = max((site.end - site.start) * base, style.text_width(_site_label(site)) + 1) / 2
        middle = (site.start + site.end) / 2 * base
        start, end = middle - half, middle + half
        free = [not any(start < last and end > first for first, last in others) for others in taken]
        chosen[site] = free.index(True) if any(free) else -1
        if any(free):
            taken[chosen[site]].append((start, end))
    return chosen


def _draw_sites(axis: Axes, picture: PromoterPicture, lanes: dict[MotifSite, int], num_lanes: int) -> None:
    style.bare(axis)
    axis.set_ylim(0, num_lanes)
    any_acts = any(site.treatment for site in picture.sites or [])
    for site, lane in lanes.items():
        if lane < 0:
            continue
        colour = picture.colours.get(site.treatment, style.GREY if any_acts else style.BLACK)
        corner, width = (site.start + picture.offset, lane), site.end - site.start
        axis.add_patch(Rectangle(corner, width, 0.16, facecolor=colour, linewidth=0))
        axis.text(
            (site.start + site.end) / 2 + picture.offset,
            lane + 0.22,
            _site_label(site),
            color=colour,
            fontsize=style.SMALL_FONT,
            ha="center",
            va="bottom",
        ).set_in_layout(False)


def _draw_genes(axis: Axes, picture: PromoterPicture, room: float) -> None:
    """Draw genes as boxes with a point at their 3' end, coding parts grey, and an arrow where position 0 is.

    room: millimetres that the axis is wide.
    """
    style.bare(axis)
    axis.set_ylim(0, 1)
    shown, offset = picture.shown, picture.offset
    axis.plot(
        [shown.start + offset, shown.end + offset], [0.4, 0.4], color=style.GREY, linewidth=0.5, zorder=0
    )
    base = room / (shown.end - shown.start)
    for gene in picture.genes or []:
        start, end = max(gene.start, shown.start), min(gene.end, shown.end)
        if start >= end:
            continue
        colour = style.BLACK if gene.own else style.GREY
        tip = min((end - start) / 2, 1.5 / base)
        # A point only where the gene's end is in view.
        right = gene.forward and gene.end <= shown.end
        left = not gene.forward and gene.start >= shown.start
        body = _arrow(start + offset, end + offset, tip, left, right)
        axis.add_patch(Polygon(body, facecolor="white", edgecolor=colour))
        if gene.coding is not None and max(gene.coding[0], start) < min(gene.coding[1], end):
            first, last = max(gene.coding[0], start), min(gene.coding[1], end)
            ends_in_view = left and first == start, right and last == end
            points = _arrow(first + offset, last + offset, min(tip, last - first), *ends_in_view)
            axis.add_patch(Polygon(points, facecolor=style.LIGHT_GREY, edgecolor=colour))
        name = f"{gene.name} →" if gene.forward else f"← {gene.name}"
        if style.text_width(name) + 1 < (end - start) * base:
            middle = (start + end) / 2 + offset
            axis.text(middle, 0.4, name, ha="center", va="center", fontsize=style.SMALL_FONT)
    if picture.zero is not None and shown.start <= picture.zero <= shown.end:
        axis.plot([0, 0], [0.4, 1.15], color=style.BLACK, linewidth=0.8, clip_on=False)
        look: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": 4, "shrinkA": 0, "shrinkB": 0}
        look |= {"linewidth": 0.8, "color": style.BLACK, "clip_on": False}
        axis.add_patch(FancyArrowPatch((0, 1.15), (3.5 / base, 1.15), **look))


def _arrow(start: float, end: float, tip: float, left: bool, right: bool) -> list[tuple[float, float]]:
    """A box around 0.4 with a point at either end."""
    low, high = 0.4 - 0.3, 0.4 + 0.3
    right_side = [(end - tip, high), (end, 0.4), (end - tip, low)] if right else [(end, high), (end, low)]
    left_side = (
        [(start + tip, low), (start, 0.4), (start + tip, high)] if left else [(start, low), (start, high)]
    )
    return [*left_side, *right_side]


def _draw_bases(axis: Axes, picture: PromoterPicture, heights_L: NDArray[np.float64]) -> None:
    """Draw the known bases of the view as letters of these heights."""
    assert picture.codes is not None
    codes = picture.codes[picture.shown.start : picture.shown.end]
    known = np.flatnonzero(codes < 4)
    heights = np.zeros((len(codes), 4))
    heights[known, codes[known]] = heights_L[known]
    draw_letters(axis, heights, picture.shown.start + picture.offset)
