"""The figure of `explain check`: measures with thresholds, and deletion and insertion curves."""

import textwrap

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bioattn.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    LIGHT_GREY,
    ORANGE,
    PAGE_HEIGHT,
    SMALL_FONT,
    TITLE_LETTER,
    new_figure,
    set_title,
    styled,
)
from bioattn.views.check import CheckMeasure, CheckResult, PerturbationCurve

CURVES = ("deletion", "insertion")
_WIDE = 120.0


@styled
def draw_check(check: CheckResult, width: float) -> Figure:
    """Draw the verdict, the curves, and a line for each measure, `width` millimetres wide."""
    shown = [measure for measure in check.measures if measure.value is not None]
    sentences = [check.sentence, *(f"But: {caveat}" for caveat in check.caveats)]
    num_title = sum(len(textwrap.wrap(each, int(width / TITLE_LETTER))) for each in sentences)
    labels = [textwrap.wrap(measure.label, 50 if width > _WIDE else 26) for measure in shown]
    num_lines = sum(map(len, labels))
    curves = [curve for name in CURVES for curve in check.curves if curve.name == name]
    curves_height = 42.0 if curves else 0.0
    measures_height = 3.2 * num_lines + 1.2 * len(shown) + 10 if shown else 0.0
    figure = new_figure(width, min(PAGE_HEIGHT, curves_height + measures_height + 3.2 * num_title + 3))
    set_title(figure, *sentences)
    heights = [part for part in (curves_height, measures_height) if part]
    parts = figure.subfigures(len(heights), 1, squeeze=False, height_ratios=heights)
    if curves:
        axes = parts[0, 0].subplots(1, len(curves), squeeze=False, sharey=True)
        for axis, curve in zip(axes.flat, curves, strict=True):
            _draw_curve(axis, curve)
        axes.flat[0].set_ylabel("effect, share of the whole")
        axes.flat[-1].legend(loc="lower right", borderpad=0)
    if shown:
        _draw_measures(parts[-1, 0].subplots(), shown, labels)
    return figure


def _draw_curve(axis: Axes, curve: PerturbationCurve) -> None:
    percent = [100 * value for value in curve.fraction]
    axis.plot(percent, curve.top, color=BLUE, marker="o", markersize=2, label="most attended")
    axis.plot(percent, curve.random, color=GREY, marker="o", markersize=2, linestyle="--", label="random")
    axis.set_title(curve.name)
    axis.set_xlabel("bins replaced, %" if curve.name == "deletion" else "bins put back, %")


def _draw_measures(axis: Axes, measures: list[CheckMeasure], labels: list[list[str]]) -> None:
    """Draw a line for each measure: value, interval and, as a bar, the threshold."""
    place = 0.0
    places = []
    for measure, label in zip(measures, labels, strict=True):
        assert measure.value is not None
        middle = place + len(label) / 2
        places.append(middle)
        place += len(label) + 0.4
        colour = {True: GREEN, False: ORANGE, None: GREY}[measure.passed]
        marker = {True: "o", False: "X", None: "D"}[measure.passed]
        if measure.interval is not None:
            axis.plot(measure.interval, [middle, middle], color=colour, linewidth=1.5)
        axis.plot([measure.value], [middle], marker=marker, color=colour, markersize=3.5, linestyle="")
        if measure.threshold is not None:
            axis.plot(2 * [measure.threshold], [middle - 0.5, middle + 0.5], color=BLACK, linewidth=1)
        axis.annotate(
            f"{measure.value:.2f}".replace("-", "−"),
            (1, middle),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=SMALL_FONT,
            color=colour,
        )
    axis.axvline(0, color=LIGHT_GREY, linewidth=0.5, zorder=0)
    axis.set_yticks(places, ["\n".join(label) for label in labels])
    axis.tick_params(axis="y", length=0)
    axis.set_ylim(place, -0.2)
    axis.spines["left"].set_visible(False)
    entries = [
        Line2D([], [], color=GREEN, marker="o", markersize=3.5, linestyle="", label="passed"),
        Line2D([], [], color=ORANGE, marker="X", markersize=3.5, linestyle="", label="failed"),
        Line2D([], [], color=GREY, marker="D", markersize=3.5, linestyle="", label="not judged"),
        Line2D([], [], color=BLACK, marker="|", markersize=5, linestyle="", label="threshold"),
    ]
    axis.figure.legend(
        handles=entries, loc="outside lower center", ncols=4, handletextpad=0.1, columnspacing=1
    )
