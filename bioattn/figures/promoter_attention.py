"""Attention by treatment along one promoter, with its genes, motif sites and, beside it, contributions of bases.

Shape suffixes: T treatments, L bases of the window.
"""

import textwrap

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Polygon, Rectangle
from matplotlib.ticker import MaxNLocator

from bioattn.errors import SettingsError
from bioattn.figures.promoter_maps import described
from bioattn.figures.promoter_picture import PromoterPicture
from bioattn.figures.sequence_letters import draw_letters
from bioattn.figures.style import (
    BLACK,
    GREY,
    LIGHT_GREY,
    PAGE_HEIGHT,
    SMALL_FONT,
    bare,
    colour_of,
    new_figure,
    signed,
    styled,
    text_width,
)
from bioattn.figures.window_features import MotifSite, lanes

LETTER_ROOM = 1.3
"""Millimetres a base needs for its letter."""
_LABEL_LETTERS = 22
_LABEL_LINES = 3
_SIDE_ROOM = 40.0
"""Millimetres beside the tracks, about: names left, predictions right."""
_TRACK, _CONTRIBUTION, _GENES, _LANE, _LETTERS = 9.5, 8.0, 4.5, 3.4, 3.0
"""Heights in millimetres."""
_MOTIF_LANES = 4


@styled
def draw_promoter_attention(picture: PromoterPicture, width: float) -> tuple[Figure, int]:
    """Draw it, `width` millimetres wide; also returns how many motif sites found no room for their names.

    Raises: SettingsError when the treatments do not fit on a page.
    """
    room = width - _SIDE_ROOM
    placed = _placed_sites(picture, room)
    num_lanes = 1 + max((lane for _, lane in placed), default=-1)
    letters_fit = room / (picture.shown.end - picture.shown.start) >= LETTER_ROOM
    own_letters = letters_fit and picture.codes is not None and picture.contributions_TL is None
    heights: list[tuple[str, float]] = []
    if picture.genes is not None or picture.zero is not None:
        heights.append(("genes", _GENES))
    if num_lanes:
        heights.append(("sites", _LANE * num_lanes))
    for number in range(len(picture.treatments)):
        heights.append((f"attention {number}", _TRACK))
        if picture.contributions_TL is not None:
            heights.append((f"contributions {number}", _CONTRIBUTION))
    if own_letters:
        heights.append(("letters", _LETTERS))
    height = sum(each for _, each in heights) + 1.2 * len(heights) + 14
    if height > PAGE_HEIGHT:
        raise SettingsError(
            f"{len(picture.treatments)} treatments do not fit on a page; choose some with --treatment, or draw "
            "all with `bioattn plot heatmap`"
        )
    figure = new_figure(width, height)
    grid = figure.add_gridspec(len(heights), 1, height_ratios=[each for _, each in heights])
    axes: dict[str, Axes] = {}
    first: Axes | None = None
    for row, (name, _) in enumerate(heights):
        axes[name] = figure.add_subplot(grid[row], sharex=first, label=name)
        first = first or axes[name]
    assert first is not None
    first.set_title(picture.title, pad=8 if "genes" in axes else 4)
    first.set_xlim(picture.shown.start + picture.offset, picture.shown.end + picture.offset)
    if "genes" in axes:
        _draw_genes(axes["genes"], picture, room)
    if "sites" in axes:
        _draw_sites(axes["sites"], picture, placed, num_lanes)
    _draw_tracks(axes, picture, letters_fit)
    if own_letters:
        _draw_sequence(axes["letters"], picture)
    last = axes[heights[-1][0]]
    for axis in axes.values():
        if axis is not last:
            axis.tick_params(axis="x", bottom=False, labelbottom=False)
    last.set_xlabel(
        "position in the window, bases"
        if picture.zero is None
        else "position from the start of the gene, bases"
    )
    last.xaxis.set_major_locator(MaxNLocator(nbins=int(room / 12), integer=True, steps=[1, 2, 5, 10]))
    figure.align_ylabels()
    return figure, sum(1 for _, lane in placed if lane < 0)


def _placed_sites(picture: PromoterPicture, room: float) -> list[tuple[MotifSite, int]]:
    """The sites in view with the lane of each, -1 where there is none left for its name."""
    shown = picture.shown
    base = room / (shown.end - shown.start)
    sites = [site for site in picture.sites or [] if site.start < shown.end and site.end > shown.start]
    intervals = []
    for site in sites:
        half = max((site.end - site.start) * base, text_width(_site_label(site)) + 1) / 2
        middle = (site.start + site.end) / 2 * base
        intervals.append((middle - half, middle + half))
    return list(zip(sites, lanes(intervals, _MOTIF_LANES), strict=True))


def _site_label(site: MotifSite) -> str:
    return f"{site.motif} {'→' if site.strand == '+' else '←'}"


def _colour_of_site(picture: PromoterPicture, site: MotifSite) -> str:
    if site.treatment in picture.treatments:
        return colour_of(picture.treatments.index(site.treatment))
    return GREY if site.treatment or any(other.treatment for other in picture.sites or []) else BLACK


def _draw_genes(axis: Axes, picture: PromoterPicture, room: float) -> None:
    bare(axis)
    axis.set_ylim(0, 1)
    shown = picture.shown
    axis.plot(
        [shown.start + picture.offset, shown.end + picture.offset], [0.4, 0.4], color=GREY, linewidth=0.5
    )
    base = room / (shown.end - shown.start)
    for gene in picture.genes or []:
        start, end = max(gene.start, shown.start), min(gene.end, shown.end)
        if start >= end:
            continue
        colour = BLACK if gene.own else GREY
        tip = min((end - start) / 2, 1.5 / base)
        # A point only where the gene's end is in view.
        right = gene.forward and gene.end <= shown.end
        left = not gene.forward and gene.start >= shown.start
        body = _arrow(start + picture.offset, end + picture.offset, tip, left, right, 0.3)
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
                    0.3,
                )
                axis.add_patch(Polygon(points, facecolor=LIGHT_GREY, edgecolor=colour))
        name = f"{gene.name} →" if gene.forward else f"← {gene.name}"
        if text_width(name) + 1 < (end - start) * base:
            axis.text(
                (start + end) / 2 + picture.offset,
                0.4,
                name,
                ha="center",
                va="center",
                fontsize=SMALL_FONT,
            )
    if picture.zero is not None and shown.start <= picture.zero <= shown.end:
        axis.plot([0, 0], [0.4, 1.15], color=BLACK, linewidth=0.8, clip_on=False)
        arrow = FancyArrowPatch(
            (0, 1.15),
            (3.5 / base, 1.15),
            arrowstyle="-|>",
            mutation_scale=4,
            linewidth=0.8,
            color=BLACK,
            shrinkA=0,
            shrinkB=0,
            clip_on=False,
        )
        axis.add_patch(arrow)
        arrow.set_in_layout(False)


def _arrow(
    start: float, end: float, tip: float, left: bool, right: bool, half: float
) -> list[tuple[float, float]]:
    """A box around 0.4 with a point at either end."""
    low, high = 0.4 - half, 0.4 + half
    right_side = [(end - tip, high), (end, 0.4), (end - tip, low)] if right else [(end, high), (end, low)]
    left_side = (
        [(start + tip, low), (start, 0.4), (start + tip, high)] if left else [(start, low), (start, high)]
    )
    return [*left_side, *right_side]


def _draw_sites(
    axis: Axes, picture: PromoterPicture, placed: list[tuple[MotifSite, int]], num_lanes: int
) -> None:
    bare(axis)
    axis.set_ylim(0, num_lanes)
    for site, lane in placed:
        if lane < 0:
            continue
        colour = _colour_of_site(picture, site)
        axis.add_patch(
            Rectangle(
                (site.start + picture.offset, lane),
                site.end - site.start,
                0.16,
                facecolor=colour,
                linewidth=0,
            )
        )
        axis.text(
            (site.start + site.end) / 2 + picture.offset,
            lane + 0.22,
            _site_label(site),
            color=colour,
            fontsize=SMALL_FONT,
            ha="center",
            va="bottom",
        ).set_in_layout(False)


def _draw_tracks(axes: dict[str, Axes], picture: PromoterPicture, letters_fit: bool) -> None:
    shown = picture.shown
    part_TL = picture.attention_TL[:, shown.start : shown.end]
    largest = float(np.abs(part_TL).max()) or 1.0
    edges = np.arange(shown.start, shown.end + 1) + picture.offset
    for number, treatment in enumerate(picture.treatments):
        axis = axes[f"attention {number}"]
        colour = colour_of(number)
        _draw_bands(axis, picture, treatment)
        axis.stairs(part_TL[number], edges, fill=True, color=colour, alpha=0.3, linewidth=0)
        axis.stairs(part_TL[number], edges, baseline=None, color=colour, linewidth=0.9)
        if picture.reference is None:
            axis.axhline(1, color=GREY, linewidth=0.5, linestyle=(0, (2, 2)))
            axis.set_ylim(0, 1.08 * max(largest, 1.0))
            axis.set_yticks([0, _round_tick(max(largest, 1.0))])
        else:
            axis.axhline(0, color=BLACK, linewidth=0.5)
            axis.set_ylim(-1.08 * largest, 1.08 * largest)
            tick = _round_tick(largest)
            axis.set_yticks([-tick, 0, tick])
        axis.set_ylabel(_wrapped(treatment), rotation=0, ha="right", va="center", color=colour)
        if picture.predictions is not None:
            value = picture.predictions[number]
            text = f"{value:.2f}" if picture.task == "binary" else signed(value)
            axis.annotate(
                f"predicted\n{text}",
                (1, 0.5),
                xytext=(4, 0),
                xycoords="axes fraction",
                textcoords="offset points",
                va="center",
                fontsize=SMALL_FONT,
            )
        if picture.contributions_TL is not None:
            _draw_contributions(axes[f"contributions {number}"], picture, number, letters_fit)
    unit = (
        "attention, × uniform (dashed: 1)"
        if picture.reference is None
        else f"attention less {described(picture.reference)}, × uniform"
    )
    axes["attention 0"].annotate(
        unit,
        (0, 1),
        xytext=(2, 1),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=SMALL_FONT,
        color=GREY,
        va="bottom",
    )


def _draw_bands(axis: Axes, picture: PromoterPicture, treatment: str) -> None:
    """Shade the sites: in the treatment's colour those that act in it, in grey the others."""
    for site in picture.sites or []:
        if site.start < picture.shown.end and site.end > picture.shown.start:
            own = site.treatment == treatment
            axis.axvspan(
                site.start + picture.offset,
                site.end + picture.offset,
                color=colour_of(picture.treatments.index(treatment)) if own else GREY,
                alpha=0.22 if own else 0.12,
                linewidth=0,
                zorder=0,
            )


def _draw_contributions(axis: Axes, picture: PromoterPicture, number: int, letters_fit: bool) -> None:
    assert picture.contributions_TL is not None
    shown = picture.shown
    part_TL = picture.contributions_TL[:, shown.start : shown.end]
    largest = float(np.abs(part_TL).max()) or 1.0
    axis.axhline(0, color=BLACK, linewidth=0.4)
    if letters_fit and picture.codes is not None:
        codes = picture.codes[shown.start : shown.end]
        heights = np.zeros((len(codes), 4))
        known = codes < 4
        heights[np.flatnonzero(known), codes[known]] = part_TL[number, known]
        draw_letters(axis, heights, shown.start + picture.offset)
    else:
        edges = np.arange(shown.start, shown.end + 1) + picture.offset
        axis.stairs(part_TL[number], edges, fill=True, color=colour_of(number), linewidth=0)
    axis.set_ylim(-1.08 * largest, 1.08 * largest)
    tick = _round_tick(largest)
    axis.set_yticks([-tick, 0, tick])
    axis.set_ylabel(" ", rotation=0)
    if number == 0:
        unit = "log-odds" if picture.task == "binary" else "units of the response"
        axis.annotate(
            f"contribution of each base ({picture.contribution_method}), {unit}",
            (0, 1),
            xytext=(2, -1),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=SMALL_FONT,
            color=GREY,
            va="bottom",
        )


def _draw_sequence(axis: Axes, picture: PromoterPicture) -> None:
    assert picture.codes is not None
    shown = picture.shown
    codes = picture.codes[shown.start : shown.end]
    heights = np.zeros((len(codes), 4))
    known = np.flatnonzero(codes < 4)
    heights[known, codes[known]] = 1
    draw_letters(axis, heights, shown.start + picture.offset)
    axis.set_ylim(0, 1.1)
    axis.set_yticks([])
    axis.spines["left"].set_visible(False)


def _round_tick(value: float) -> float:
    """The largest of 1, 2 or 5 times a power of ten that is not above `value`."""
    power = 10.0 ** np.floor(np.log10(value))
    return float(max(step for step in (1, 2, 5) if step * power <= value * (1 + 1e-9)) * power)


def _wrapped(text: str) -> str:
    lines = textwrap.wrap(text, _LABEL_LETTERS, break_on_hyphens=False) or [text]
    if len(lines) > _LABEL_LINES:
        lines = [*lines[: _LABEL_LINES - 1], lines[_LABEL_LINES - 1][: _LABEL_LETTERS - 1] + "…"]
    return "\n".join(lines)
