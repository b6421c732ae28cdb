"""Attention by treatment along one promoter, with its genes, motif sites and, beside it, contributions of bases.

Shape suffixes: T treatments, L bases of the window.
"""

import logging
import textwrap

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Polygon, Rectangle
from numpy.typing import NDArray

from bioattn.errors import BioattnError
from bioattn.figures import style
from bioattn.figures.motif_logos import draw_letters
from bioattn.figures.promoter_picture import PromoterPicture
from bioattn.figures.treatment_maps import described
from bioattn.figures.window_features import MotifSite, lanes

LOGGER = logging.getLogger("bioattn")
LETTER_ROOM = 1.3
"""Width in millimetres that a base needs for its letter."""
_LABEL_LINES = 3
_TICK_ROOM, _PREDICTION_ROOM = 8.0, 13.0
"""Millimetres left and right of the tracks, about."""
_TRACK, _CONTRIBUTION, _GENES, _LANE, _LETTERS = 9.5, 8.0, 4.5, 3.4, 3.0
"""Heights in millimetres."""


@style.styled
def draw_promoter_attention(picture: PromoterPicture, width: float) -> Figure:
    """Draw the figure, `width` millimetres wide. Warns of motif sites without room for a name.

    Raises: BioattnError when the treatments do not fit on a page.
    """
    room = _room(picture, width)
    placed = _placed_sites(picture, room)
    num_lanes = 1 + max((lane for _, lane in placed), default=-1)
    letters_fit = room / (picture.shown.end - picture.shown.start) >= LETTER_ROOM
    own_letters = letters_fit and picture.codes is not None and not picture.contributions_of_bases
    heights: list[tuple[str, float]] = []
    shown, zero = picture.shown, picture.zero
    has_genes = any(gene.start < shown.end and gene.end > shown.start for gene in picture.genes or [])
    if has_genes or (zero is not None and shown.start <= zero <= shown.end):
        heights.append(("genes", _GENES))
    if num_lanes:
        heights.append(("sites", _LANE * num_lanes))
    for number in range(len(picture.treatments)):
        heights.append((f"attention {number}", _TRACK))
        if picture.contributions_TL is not None:
            as_letters = letters_fit and picture.contributions_of_bases
            heights.append((f"contributions {number}", _CONTRIBUTION * (1.4 if as_letters else 1)))
    if own_letters:
        heights.append(("letters", _LETTERS))
    height = sum(each for _, each in heights) + 1.2 * len(heights) + 14
    if height > style.PAGE_HEIGHT:
        raise BioattnError(
            f"{len(picture.treatments)} treatments do not fit on a page; choose some with --treatment, or draw "
            "all with --kind heatmap"
        )
    figure = style.new_figure(width, height)
    grid = figure.add_gridspec(len(heights), 1, height_ratios=[each for _, each in heights])
    axes: dict[str, Axes] = {}
    first: Axes | None = None
    for row, (name, _) in enumerate(heights):
        axes[name] = figure.add_subplot(grid[row], sharex=first, label=name)
        first = first or axes[name]
    assert first is not None
    style.set_title(figure, picture.title)
    first.set_xlim(picture.shown.start + picture.offset, picture.shown.end + picture.offset)
    if "genes" in axes:
        _draw_genes(axes["genes"], picture, room)
    if "sites" in axes:
        _draw_sites(axes["sites"], picture, placed, num_lanes)
    _draw_tracks(axes, picture, letters_fit, width, room)
    if own_letters:
        _draw_bases(axes["letters"], picture, np.ones(shown.end - shown.start))
        axes["letters"].set_ylim(0, 1.1)
        axes["letters"].set_yticks([])
        axes["letters"].spines["left"].set_visible(False)
    last = axes[heights[-1][0]]
    for axis in axes.values():
        if axis is not last:
            axis.tick_params(axis="x", bottom=False, labelbottom=False)
    last.set_xlabel(style.position_label(picture.zero))
    style.whole_ticks(last.xaxis, max(2, int(room / 13)))
    figure.align_ylabels()
    if hidden := sum(lane < 0 for _, lane in placed):
        LOGGER.warning(
            f"{hidden} less certain motif sites have no room for their names; they are shaded only"
        )
    return figure


def _room(picture: PromoterPicture, width: float) -> float:
    lines = [line for name in picture.treatments for line in _wrapped(name, width).split("\n")]
    sides = max(style.text_width(line, style.FONT_SIZE) for line in lines) + _TICK_ROOM
    return width - sides - (3.0 if picture.predictions is None else _PREDICTION_ROOM)


def _draw_tracks(
    axes: dict[str, Axes], picture: PromoterPicture, letters_fit: bool, width: float, room: float
) -> None:
    shown = picture.shown
    part_TL = picture.attention_TL[:, shown.start : shown.end]
    largest = float(np.abs(part_TL).max()) or 1.0
    edges = np.arange(shown.start, shown.end + 1) + picture.offset
    for number, treatment in enumerate(picture.treatments):
        axis = axes[f"attention {number}"]
        colour = picture.colour(treatment)
        _shade_sites(axis, picture, treatment)
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
        axis.set_ylabel(_wrapped(treatment, width), rotation=0, ha="right", va="center", color=colour)
        if picture.predictions is not None:
            value = picture.predictions[number]
            text = f"{value:.2f}" if picture.task == "binary" else style.signed(value)
            style.write_beside(axis, f"predicted\n{text}", (1, 0.5), (4, 0), va="center")
        if picture.contributions_TL is not None:
            _draw_contributions(axes[f"contributions {number}"], picture, number, letters_fit)
    if picture.contributions_TL is not None:
        response = "log-odds" if picture.task == "binary" else "units of the response"
        what = "contribution"
        if picture.reference is not None:
            what = f"contribution less {described(picture.reference)}"
        method = f"{what} of each base ({picture.contribution_method}), {response}"
        axis = axes["contributions 0"]
        legend_room = 0.0
        if not (letters_fit and picture.contributions_of_bases):
            legend_room = _draw_sign_legend(axis)
        _say(axis, method, f"{what}, {response}", room - legend_room)
    unit = (
        "attention, × uniform (dashed: 1)"
        if picture.reference is None
        else f"attention less {described(picture.reference)}, × uniform"
    )
    _say(axes["attention 0"], unit, unit.partition(" (")[0].removesuffix(", × uniform"), room)


def _say(axis: Axes, text: str, short: str, room: float) -> None:
    fitting = text if style.text_width(text) < room else short
    style.write_beside(axis, fitting, (0, 1), (2, 1), color=style.GREY, va="bottom")


def _draw_sign_legend(axis: Axes) -> float:
    """Write above a track, on the right, which colour raises and which lowers; its width in millimetres."""
    taken = 0.0
    for words, colour in (("■ lowers", style.LOWERS), ("■ raises", style.RAISES)):
        apart = (-taken * 72 / 25.4, 1)
        style.write_beside(axis, words, (1, 1), apart, color=colour, ha="right", va="bottom")
        taken += style.text_width(words) + 2
    return taken


def _shade_sites(axis: Axes, picture: PromoterPicture, treatment: str) -> None:
    """Shade the sites: in the treatment's colour those that act in it, in grey the others."""
    for site in picture.sites or []:
        if site.start < picture.shown.end and site.end > picture.shown.start:
            own = site.treatment == treatment
            axis.axvspan(
                site.start + picture.offset,
                site.end + picture.offset,
                color=picture.colour(treatment) if own else style.GREY,
                alpha=0.22 if own else 0.12,
                linewidth=0,
                zorder=0,
            )


def _draw_contributions(axis: Axes, picture: PromoterPicture, number: int, letters_fit: bool) -> None:
    assert picture.contributions_TL is not None
    shown = picture.shown
    part_TL = picture.contributions_TL[:, shown.start : shown.end]
    largest = float(np.abs(part_TL).max()) or 1.0
    axis.axhline(0, color=style.BLACK, linewidth=0.4)
    if letters_fit and picture.contributions_of_bases and picture.codes is not None:
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


_MOTIF_LANES = 4


def _placed_sites(picture: PromoterPicture, room: float) -> list[tuple[MotifSite, int]]:
    """The sites in view with the lane of each, -1 where there is none left for its name."""
    shown = picture.shown
    base = room / (shown.end - shown.start)
    sites = [site for site in picture.sites or [] if site.start < shown.end and site.end > shown.start]
    intervals = []
    for site in sites:
        half = max((site.end - site.start) * base, style.text_width(_site_label(site)) + 1) / 2
        middle = (site.start + site.end) / 2 * base
        intervals.append((middle - half, middle + half))
    return list(zip(sites, lanes(intervals, _MOTIF_LANES), strict=True))


def _site_label(site: MotifSite) -> str:
    return f"{site.motif} {'→' if site.strand == '+' else '←'}"


def _colour_of_site(picture: PromoterPicture, site: MotifSite) -> str:
    if site.treatment in picture.treatments:
        return picture.colour(site.treatment)
    any_acts = any(other.treatment for other in picture.sites or [])
    return style.GREY if any_acts else style.BLACK


def _draw_genes(axis: Axes, picture: PromoterPicture, room: float) -> None:
    """Draw genes as boxes with a point at their 3' end, coding parts grey, and an arrow where position 0 is.

    room: millimetres that the axis is wide.
    """
    style.bare(axis)
    axis.set_ylim(0, 1)
    shown = picture.shown
    ends = [shown.start + picture.offset, shown.end + picture.offset]
    axis.plot(ends, [0.4, 0.4], color=style.GREY, linewidth=0.5, zorder=0)
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
        body = _arrow(start + picture.offset, end + picture.offset, tip, left, right)
        axis.add_patch(Polygon(body, facecolor="white", edgecolor=colour))
        if gene.coding is not None:
            first, last = max(gene.coding[0], start), min(gene.coding[1], end)
            if first < last:
                points = _arrow(
                    first + picture.offset,
                    last + picture.offset,
                    min(tip, last - first),
                    left and first == start,
                    right and last == end,
                )
                axis.add_patch(Polygon(points, facecolor=style.LIGHT_GREY, edgecolor=colour))
        name = f"{gene.name} →" if gene.forward else f"← {gene.name}"
        if style.text_width(name) + 1 < (end - start) * base:
            middle = (start + end) / 2 + picture.offset
            axis.text(middle, 0.4, name, ha="center", va="center", fontsize=style.SMALL_FONT)
    if picture.zero is not None and shown.start <= picture.zero <= shown.end:
        axis.plot([0, 0], [0.4, 1.15], color=style.BLACK, linewidth=0.8, clip_on=False)
        arrow = FancyArrowPatch(
            (0, 1.15),
            (3.5 / base, 1.15),
            arrowstyle="-|>",
            mutation_scale=4,
            linewidth=0.8,
            color=style.BLACK,
            shrinkA=0,
            shrinkB=0,
            clip_on=False,
        )
        axis.add_patch(arrow)


def _arrow(start: float, end: float, tip: float, left: bool, right: bool) -> list[tuple[float, float]]:
    """A box around 0.4 with a point at either end."""
    low, high = 0.4 - 0.3, 0.4 + 0.3
    right_side = [(end - tip, high), (end, 0.4), (end - tip, low)] if right else [(end, high), (end, low)]
    left_side = (
        [(start + tip, low), (start, 0.4), (start + tip, high)] if left else [(start, low), (start, high)]
    )
    return [*left_side, *right_side]


def _draw_sites(
    axis: Axes, picture: PromoterPicture, placed: list[tuple[MotifSite, int]], num_lanes: int
) -> None:
    style.bare(axis)
    axis.set_ylim(0, num_lanes)
    for site, lane in placed:
        if lane < 0:
            continue
        colour = _colour_of_site(picture, site)
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


def _draw_bases(axis: Axes, picture: PromoterPicture, heights_L: NDArray[np.float64]) -> None:
    """Draw the known bases of the view as letters of these heights."""
    assert picture.codes is not None
    codes = picture.codes[picture.shown.start : picture.shown.end]
    known = np.flatnonzero(codes < 4)
    heights = np.zeros((len(codes), 4))
    heights[known, codes[known]] = heights_L[known]
    draw_letters(axis, heights, picture.shown.start + picture.offset)
