"""Responses over dose or time, measured and predicted, and what each treatment weighs along the curve."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from bioattn.choices import require_names
from bioattn.errors import BioattnError
from bioattn.figures.style import SEQUENTIAL, SMALL_FONT, colour_of, framed, new_figure, set_title, styled

MOST_SERIES = 8


@styled
def draw_response_curves(
    content: Mapping[str, Any], source: object, series: Sequence[str], width: float
) -> Figure:
    """A row for each series: points and curves of each gene, and the weights of treatments (dark: 1) below.

    series: names; none = the first eight. width: millimetres.

    Raises: BioattnError for a series that is not in the file, or curves over several dimensions.
    """
    known = {each["name"]: each for each in content["series"]}
    require_names("--series", series, known, source, "series")
    if len(content["along"]) > 1:
        raise BioattnError(f"{source}: is over {' and '.join(content['along'])}; a figure shows one of them")
    chosen = [known[name] for name in series] or list(known.values())[:MOST_SERIES]
    figure = new_figure(width, min(230.0, 12 + 45.0 * len(chosen)))
    rows = figure.subplots(2 * len(chosen), 1, squeeze=False, height_ratios=[3, 1] * len(chosen))[:, 0]
    unit = f" ({content['units'][0]})" if content["units"][0] else ""
    # log2(x + offset) and its inverse, so that the curve stands above its weights.
    offset = content["offset"]
    logarithm = (lambda x: np.log2(np.maximum(x + offset, 1e-9)), lambda y: np.exp2(y) - offset)
    for place, each in enumerate(chosen):
        axis, below = rows[2 * place : 2 * place + 2]
        measured = np.array(each["places"])[:, 0]
        curve = np.array(each["curve_places"])[:, 0]
        for number, gene in enumerate(content["genes"]):
            colour = colour_of(number)
            axis.plot(
                measured, _values(each["measured"][number]), "o", color=colour, markersize=3, label=gene
            )
            axis.plot(curve, _values(each["measured_curve"][number]), color=colour, linewidth=1)
            if "predicted" in each:
                axis.plot(measured, _values(each["predicted"][number]), "x", color=colour, markersize=3)
                axis.plot(curve, _values(each["predicted_curve"][number]), "--", color=colour, linewidth=1)
        framed(axis)
        axis.set_ylabel("response")
        axis.set_title(each["name"], fontsize=SMALL_FONT)
        axis.set_xlim(curve[0], curve[-1])
        axis.set_xticks(measured, [f"{value:g}" for value in measured], fontsize=SMALL_FONT - 1)
        if content["log"]:
            axis.set_xscale("function", functions=logarithm)
        below.imshow(
            np.array(each["weights"]).T, cmap=SEQUENTIAL, vmin=0, vmax=1, aspect="auto", interpolation="none"
        )
        below.set_yticks(range(len(measured)), [f"{value:g}" for value in measured], fontsize=SMALL_FONT - 2)
        below.set_xticks([])
        below.set_ylabel("weight of")
    rows[-1].set_xlabel(f"{content['along'][0]}{unit}, left to right as above")
    rows[0].legend(fontsize=SMALL_FONT)
    predicted = any("predicted" in each for each in chosen)
    set_title(figure, "points: measured" + ("; crosses and dashes: predicted" if predicted else ""))
    return figure


def _values(column: Sequence[float | None]) -> list[float]:
    return [np.nan if value is None else value for value in column]
