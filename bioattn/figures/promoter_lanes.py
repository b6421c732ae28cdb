"""The lanes above and below the tracks of a promoter: genes, sites of motifs, bases."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Polygon, Rectangle

from bioattn.figures.motif_logos import draw_letters
from bioattn.figures.promoter_picture import PromoterPicture
from bioattn.figures.style import BLACK, GREY, LIGHT_GREY, SMALL_FONT, bare, text_width
from bioattn.figures.window_features import MotifSite, lanes

_MOTIF_LANES = 4


def placed_sites(picture: PromoterPicture, room: float) -> list[tuple[MotifSite, int]]:
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
        return picture.colour(site.treatment)
    return GREY if site.treatment or any(other.treatment for other in picture.sites or []) else BLACK


def draw_genes(axis: Axes, picture: PromoterPicture, room: float) -> None:
    """Draw genes as boxes with a point at their 3' end, coding parts grey, and an arrow where position 0 is.

    room: millimetres that the axis is wide.
    """
    bare(axis)
    axis.set_ylim(0, 1)
    shown = picture.shown
    axis.plot(
        [shown.start + picture.offset, shown.end + picture.offset],
        [0.4, 0.4],
        color=GREY,
        linewidth=0.5,
        zorder=0,
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
                (start + end) / 2 + picture.offset, 0.4, name, ha="center", va="center", fontsize=SMALL_FONT
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


def draw_sites(
    axis: Axes, picture: PromoterPicture, placed: list[tuple[MotifSite, int]], num_lanes: int
) -> None:
    """Draw a bar and a name for each site that has a lane."""
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


def draw_sequence(axis: Axes, picture: PromoterPicture) -> None:
    """Draw the bases of the view as letters of one height."""
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
