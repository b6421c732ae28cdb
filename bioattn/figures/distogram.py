"""Distogram figure: expected distances, true distances below the diagonal where known, and the entropy."""

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bioattn.figures.style import BLACK, SMALL_FONT, column_axes, new_figure, set_title, styled
from bioattn.structures.contacts import distances as distances_between
from bioattn.structures.distogram_file import Distances

_BESIDE = 110.0
"""Width in millimetres from which the two maps are drawn side by side."""


def expected_and_true(distances: Distances, cb: NDArray[np.float32] | None) -> NDArray[np.float64]:
    """(R, R) ångström over all match columns: expected above the diagonal, true below, NaN where not known.

    cb: (R, 3), NaN where a column has no residue in the structure; None = expected on both sides.
    """
    size = len(distances.letters)
    expected = np.full((size, size), np.nan)
    expected[np.ix_(distances.columns, distances.columns)] = distances.expected_distance
    if cb is None:
        return expected
    known = distances_between(cb).astype(np.float64)
    both: NDArray[np.float64] = np.where(np.tri(size, k=-1, dtype=bool), known, expected)
    return both


@styled
def draw_distogram(distances: Distances, width: float, cb: NDArray[np.float32] | None = None) -> Figure:
    """Draw the figure, `width` millimetres wide: distances, and the entropy beside or below them."""
    beside = width >= _BESIDE
    panel = width / 2 if beside else width
    figure = new_figure(width, panel * 0.8 + 8 if beside else 2 * panel * 0.8 + 12)
    left, right = figure.subplots(1, 2) if beside else figure.subplots(2, 1)
    size = len(distances.letters)
    edges = (0.5, size + 0.5, size + 0.5, 0.5)
    limit = float(distances.bin_edges[-1])
    image = left.imshow(expected_and_true(distances, cb), cmap="viridis_r", vmin=2, vmax=limit, extent=edges)
    figure.colorbar(image, ax=left, shrink=0.7, aspect=25, extend="max").set_label(
        "distance between CB, Å", fontsize=SMALL_FONT
    )
    left.set_title("expected distance" if cb is None else "above: expected distance, below: true")
    entropy = np.full((size, size), np.nan)
    if distances.entropy is not None:
        entropy[np.ix_(distances.columns, distances.columns)] = distances.entropy
    most = float(np.log2(distances.num_bins))
    image = right.imshow(entropy, cmap="cividis", vmin=0, vmax=most, extent=edges)
    figure.colorbar(image, ax=right, shrink=0.7, aspect=25).set_label(
        f"entropy, bits ({most:g} = any of {distances.num_bins} bins)", fontsize=SMALL_FONT
    )
    right.set_title("how unsure it is")
    for axis in (left, right):
        column_axes(axis)
        axis.axline((0.5, 0.5), slope=1, color=BLACK, linewidth=0.4)
    set_title(figure, distances.name)
    return figure
