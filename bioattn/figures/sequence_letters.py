"""Letters stretched to a height: sequence logos (Schneider & Stephens 1990) and contributions of bases.

Colours are safe for colour-blind readers: A green, C blue, G amber, T vermilion.
"""

import functools

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path as Outline
from matplotlib.textpath import TextPath
from matplotlib.transforms import Affine2D
from numpy.typing import NDArray

from bioattn.figures.style import AMBER, BLUE, GREEN, ORANGE

BASES = "ACGT"
BASE_COLOURS = {"A": GREEN, "C": BLUE, "G": AMBER, "T": ORANGE}
LETTER_WIDTH = 0.94
"""Width of a letter as a fraction of the base's place."""


def information_heights(
    probabilities: NDArray[np.floating], background: NDArray[np.floating] | None = None
) -> NDArray[np.float64]:
    """Heights (W, 4) of a logo in bits: each base's probability times the position's information.

    probabilities: (W, 4), rows sum to 1. background: (4,); None = uniform, where a position has 2 bits at most.
    """
    chances = np.asarray(probabilities, dtype=np.float64)
    expected = np.full(4, 0.25) if background is None else np.asarray(background, dtype=np.float64)
    ratio = np.where(chances > 0, chances / expected, 1.0)
    bits = (chances * np.log2(ratio)).sum(axis=1, keepdims=True)
    heights: NDArray[np.float64] = chances * bits
    return heights


def draw_letters(
    axis: Axes, heights: NDArray[np.floating], start: float = 0.0, *, alpha: float = 1.0
) -> PathCollection:
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
    letters = PathCollection(outlines, facecolors=colours, linewidths=0, alpha=alpha)
    axis.add_collection(letters, autolim=False)
    return letters


@functools.cache
def _unit_letter(letter: str) -> Outline:
    """The outline of a letter, stretched to the unit square."""
    outline = TextPath((0, 0), letter, size=1, prop=FontProperties(family="DejaVu Sans", weight="bold"))
    box = outline.get_extents()
    return Affine2D().translate(-box.x0, -box.y0).scale(1 / box.width, 1 / box.height).transform_path(outline)
