"""Sequence logos of motifs in bits (Schneider & Stephens 1990), and the letters of all figures.

Colours are safe for colour-blind readers: A green, C blue, G amber, T vermilion.
"""

import functools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path as Outline
from matplotlib.textpath import TextPath
from matplotlib.transforms import Affine2D
from numpy.typing import NDArray

from bioattn.choices import not_there
from bioattn.errors import BioattnError
from bioattn.figures import style
from bioattn.formats.meme import Motif, read_meme

BASES = "ACGT"
BASE_COLOURS = {"A": style.GREEN, "C": style.BLUE, "G": style.AMBER, "T": style.ORANGE}
LETTER_WIDTH = 0.94


def information_heights(probabilities: NDArray[np.floating]) -> NDArray[np.float64]:
    """Heights (W, 4) of a logo in bits: each base's probability times the position's information, 2 at most.

    probabilities: (W, 4), rows sum to 1.
    """
    chances = np.asarray(probabilities, dtype=np.float64)
    ratio = np.where(chances > 0, chances / 0.25, 1.0)
    bits = (chances * np.log2(ratio)).sum(axis=1, keepdims=True)
    return np.asarray(chances * bits)


def draw_letters(axis: Axes, heights: NDArray[np.floating], start: float = 0.0) -> PathCollection:
    """Draw heights (W, 4) of A, C, G, T as stacked letters, position i over [start + i, start + i + 1).

    Positive heights are stacked above 0, the largest on top; negative heights hang below 0 upside down, the
    largest lowest. Zero is left out. Returns the letters in the order of their positions.
    """
    outlines, colours = [], []
    for place, row in enumerate(np.asarray(heights, dtype=np.float64)):
        for sign in (1, -1):
            base_line = 0.0
            chosen = [code for code in np.argsort(np.abs(row), kind="stable") if row[code] * sign > 0]
            for code in chosen:
                height = float(row[code])
                left = start + place + (1 - LETTER_WIDTH) / 2
                outlines.append(
                    Affine2D()
                    .scale(LETTER_WIDTH, height)
                    .translate(left, base_line)
                    .transform_path(_unit_letter(BASES[code]))
                )
                colours.append(BASE_COLOURS[BASES[code]])
                base_line += height
    letters = PathCollection(outlines, facecolors=colours, linewidths=0)
    axis.add_collection(letters, autolim=False)
    return letters


@functools.cache
def _unit_letter(letter: str) -> Outline:
    outline = TextPath((0, 0), letter, size=1, prop=FontProperties(family="DejaVu Sans", weight="bold"))
    box = outline.get_extents()
    return Affine2D().translate(-box.x0, -box.y0).scale(1 / box.width, 1 / box.height).transform_path(outline)


_ROW = 15.0
_COLUMN = 55.0
"""Width of a logo in millimetres."""


class Logos(NamedTuple):
    """Motifs to be drawn."""

    motifs: Sequence[Motif]


def read_logos(path: Path, *, show: Sequence[str] = (), top: int | None = None) -> Logos:
    """Read motifs of a MEME, JASPAR or TRANSFAC file.

    show: names or alternative names; none = all. top: only the first.

    Raises: FormatError; BioattnError for a name that no motif has.
    """
    every = read_meme(path).motifs
    motifs = [motif for name in show for motif in _named(every, name, path)] or every
    return Logos(motifs[:top])


def _named(motifs: Sequence[Motif], name: str, path: Path) -> list[Motif]:
    found = [motif for motif in motifs if name in (motif.name, motif.alternative_name)]
    if not found:
        raise not_there("--show", name, path, "motif", [motif.name for motif in motifs])
    return found


@style.figure_style()
def draw_logos(logos: Logos, width: float) -> Figure:
    """Draw a logo for each motif, `width` millimetres wide, all on one scale of bases and bits.

    Raises: BioattnError when there are more than a page has room for.
    """
    motifs = logos.motifs
    across = min(len(motifs), max(1, int(width / _COLUMN)))
    down = math.ceil(len(motifs) / across)
    room = int((style.PAGE_HEIGHT - 5) / _ROW) * max(1, int(width / _COLUMN))
    if len(motifs) > room:
        raise BioattnError(
            f"{len(motifs):,} logos do not fit on a page, {room} do; choose with --show or --top"
        )
    figure = style.new_figure(width if across > 1 else min(width, 85.0), down * _ROW + 4)
    axes = style.panels(figure, len(motifs), down, across, sharex=True, sharey=True)
    widest = max(motif.width for motif in motifs)
    for axis, motif in zip(axes.flat, motifs, strict=False):
        draw_letters(axis, information_heights(motif.probabilities), 0.5)
        name = " ".join(dict.fromkeys(filter(None, (motif.name, motif.alternative_name))))
        sites = f" ({motif.sites:,} sites)" if motif.sites > 1 else ""
        fitting = width / across - style.text_width(sites) - 8
        axis.set_title(style.shortened(name, fitting) + sites, fontsize=style.SMALL_FONT)
        axis.set_xticks(range(1, widest + 1), [])
        axis.tick_params(axis="x", length=1)
        axis.set_yticks([0, 1, 2])
    axes[0, 0].set_xlim(0.4, widest + 0.6)
    axes[0, 0].set_ylim(0, 2)
    for axis in axes[:, 0]:
        axis.set_ylabel("bits")
    return figure
