"""Responses over dose or time, measured and predicted, and what each treatment weighs along the curve."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from bioattn.choices import require_names
from bioattn.errors import BioattnError
from bioattn.figures.style import SEQUENTIAL, SMALL_FONT, colour_of, framed, new_figure, set_title, styled
from bioattn.interpret.response_curve import ResponseCurves

MOST_SERIES = 8


def read_shown_curves(path: Path, *, show: Sequence[str] = ()) -> ResponseCurves:
    """Read curves of `explain response-curve`. show: series by name; none = the first eight.

    Raises: BioattnError for another file, or a series that is not in it.
    """
    curves = ResponseCurves.read(path)
    known = {series.name: series for series in curves.series}
    require_names("--show", show, known, path, "series")
    return replace(curves, series=[known[name] for name in show] or curves.series[:MOST_SERIES])


@styled
def draw_response_curves(curves: ResponseCurves, width: float) -> Figure:
    """A row for each series: points and curves of each gene, and the weights of treatments (dark: 1) below.

    width: millimetres. Raises: BioattnError for curves over several dimensions.
    """
    if len(curves.along) > 1:
        raise BioattnError(f"the curves are over {' and '.join(curves.along)}; a figure shows one of them")
    number = len(curves.series)
    figure = new_figure(width, min(230.0, 12 + 45.0 * number))
    rows = figure.subplots(2 * number, 1, squeeze=False, height_ratios=[3, 1] * number)[:, 0]
    # log2(x + offset) and its inverse, so that the curve stands above its weights.
    offset = curves.offset
    logarithm = (lambda x: np.log2(np.maximum(x + offset, 1e-9)), lambda y: np.exp2(y) - offset)
    for series, axis, below in zip(curves.series, rows[::2], rows[1::2], strict=True):
        positions, line = np.array(series.places)[:, 0], np.array(series.curve_places)[:, 0]
        for place, gene in enumerate(curves.genes):
            colour = colour_of(place)
            measured, curve = _values(series.measured[place]), _values(series.measured_curve[place])
            axis.plot(positions, measured, "o", color=colour, markersize=3, label=gene)
            axis.plot(line, curve, color=colour, linewidth=1)
            if series.predicted is not None and series.predicted_curve is not None:
                axis.plot(positions, _values(series.predicted[place]), "x", color=colour, markersize=3)
                axis.plot(line, _values(series.predicted_curve[place]), "--", color=colour, linewidth=1)
        framed(axis)
        axis.set_ylabel("response")
        axis.set_title(series.name, fontsize=SMALL_FONT)
        axis.set_xlim(line[0], line[-1])
        names = [f"{value:g}" for value in positions]
        axis.set_xticks(positions, names, fontsize=SMALL_FONT - 1)
        if curves.log:
            axis.set_xscale("function", functions=logarithm)
        weights = np.array(series.weights).T
        below.imshow(weights, cmap=SEQUENTIAL, vmin=0, vmax=1, aspect="auto", interpolation="none")
        below.set_yticks(range(len(positions)), names, fontsize=SMALL_FONT - 2)
        below.set_xticks([])
        below.set_ylabel("weight of")
    unit = f" ({curves.units[0]})" if curves.units[0] else ""
    rows[-1].set_xlabel(f"{curves.along[0]}{unit}, left to right as above")
    rows[0].legend(fontsize=SMALL_FONT)
    predicted = any(series.predicted is not None for series in curves.series)
    set_title(figure, "points: measured" + ("; crosses and dashes: predicted" if predicted else ""))
    return figure


def _values(column: Sequence[float | None]) -> list[float]:
    return [np.nan if value is None else value for value in column]
