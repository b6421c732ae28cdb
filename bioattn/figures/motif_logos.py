"""Sequence logos of motifs, in bits."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bioattn.choices import not_there
from bioattn.errors import SettingsError
from bioattn.figures.sequence_letters import draw_letters, information_heights
from bioattn.figures.style import PAGE_HEIGHT, SMALL_FONT, new_figure, styled
from bioattn.formats.motif import Motif

_ROW = 15.0
_COLUMN = 55.0
"""Width of a logo in millimetres."""


def choose_motifs(motifs: Sequence[Motif], names: Sequence[str] | None) -> list[Motif]:
    """The motifs with these names or alternative names, in that order; None = all motifs.

    Raises: BioattnError for a name that no motif has.
    """
    if not names:
        return list(motifs)
    chosen = []
    for name in names:
        found = [motif for motif in motifs if name in (motif.name, motif.alternative_name)]
        if not found:
            raise not_there("--motif", name, "the file", "motif", [motif.name for motif in motifs])
        chosen += found
    return chosen


@styled
def draw_logos(
    motifs: Sequence[Motif],
    width: float,
    *,
    background: NDArray[np.float64] | None = None,
    reverse_complement: bool = False,
) -> Figure:
    """Draw a logo for each motif, `width` millimetres wide, all on one scale of bases and bits.

    background: None = uniform, so that a position has at most 2 bits.

    Raises: SettingsError when there are more than a page has room for.
    """
    across = min(len(motifs), max(1, int(width / _COLUMN)))
    down = math.ceil(len(motifs) / across)
    room = int((PAGE_HEIGHT - 5) / _ROW) * max(1, int(width / _COLUMN))
    if len(motifs) > room:
        raise SettingsError(
            f"{len(motifs):,} logos do not fit on a page, {room} do; choose with --motif or --first"
        )
    figure = new_figure(width if across > 1 else min(width, 85.0), down * _ROW + 4)
    axes = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
    widest, tallest = max(motif.width for motif in motifs), 2.0
    for axis, motif in zip(axes.flat, motifs, strict=False):
        matrix = motif.probabilities[::-1, ::-1] if reverse_complement else motif.probabilities
        heights = information_heights(matrix, background)
        tallest = max(tallest, float(heights.sum(axis=1).max()))
        draw_letters(axis, heights, 0.5)
        name = " ".join(filter(None, (motif.name, motif.alternative_name)))
        axis.set_title(f"{name} ({motif.sites:,} sites)" if motif.sites > 1 else name, fontsize=SMALL_FONT)
        axis.set_xticks(range(1, widest + 1), [])
        axis.tick_params(axis="x", length=1)
        axis.set_yticks([0, 1, 2])
    axes[0, 0].set_xlim(0.4, widest + 0.6)
    axes[0, 0].set_ylim(0, tallest)
    for axis in axes.flat[len(motifs) :]:
        axis.set_axis_off()
    for axis in axes[:, 0]:
        axis.set_ylabel("bits")
    return figure
