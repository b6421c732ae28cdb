"""The figure of `explain check`: measures with thresholds, and deletion and insertion curves."""

import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bioattn.errors import FormatError
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
from bioattn.io.files import read_json

CHECK_FORMAT = "bioattn-check"
CURVES = ("deletion", "insertion")
_WIDE = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One measure of the check."""

    label: str
    value: float | None
    interval: tuple[float, float] | None
    threshold: float | None
    passed: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckPicture:
    """The figure's data."""

    verdict: str
    caveats: list[str]
    measures: list[Measure]
    curves: dict[str, dict[str, list[float]]]
    """Deletion and insertion, each with fraction, top and random; only those there are. Shares of what replacing
    the whole promoter changes, lost or regained."""


def read_check(path: Path) -> CheckPicture:
    """Read the JSON of `explain check`. Raises: FormatError when the file is not a check."""
    content = read_json(path)
    if not isinstance(content, dict) or content.get("format") != CHECK_FORMAT:
        raise FormatError(
            f"{path}: is no result of `bioattn explain check` (its format is not {CHECK_FORMAT!r})"
        )
    try:
        measures = [_measure(each) for each in content["measures"]]
        curves = {
            name: {part: [float(value) for value in found[part]] for part in ("fraction", "top", "random")}
            for name in CURVES
            if (found := content.get("curves", {}).get(name))
        }
        verdict = str(content["verdict"]["sentence"])
        caveats = [str(each) for each in content["verdict"].get("caveats", [])]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(
            f"{path}: is damaged or of another version ({error!r}); run the check again"
        ) from error
    return CheckPicture(verdict=verdict, caveats=caveats, measures=measures, curves=curves)


def _measure(found: dict[str, Any]) -> Measure:
    interval = found.get("interval")
    return Measure(
        label=str(found["label"]),
        value=None if found["value"] is None else float(found["value"]),
        interval=None if interval is None else (float(interval[0]), float(interval[1])),
        threshold=None if found.get("threshold") is None else float(found["threshold"]),
        passed=found.get("passed"),
    )


@styled
def draw_check(check: CheckPicture, width: float) -> Figure:
    """Draw the verdict, the curves, and a line for each measure, `width` millimetres wide."""
    shown = [measure for measure in check.measures if measure.value is not None]
    sentences = [check.verdict, *(f"But: {caveat}" for caveat in check.caveats)]
    num_title = sum(len(textwrap.wrap(each, int(width / TITLE_LETTER))) for each in sentences)
    labels = [textwrap.wrap(measure.label, 50 if width > _WIDE else 26) for measure in shown]
    num_lines = sum(map(len, labels))
    curves_height = 42.0 if check.curves else 0.0
    measures_height = 3.2 * num_lines + 1.2 * len(shown) + 10 if shown else 0.0
    figure = new_figure(width, min(PAGE_HEIGHT, curves_height + measures_height + 3.2 * num_title + 3))
    set_title(figure, *sentences)
    heights = [part for part in (curves_height, measures_height) if part]
    parts = figure.subfigures(len(heights), 1, squeeze=False, height_ratios=heights)
    if check.curves:
        axes = parts[0, 0].subplots(1, len(check.curves), squeeze=False, sharey=True)
        for axis, (name, curve) in zip(axes.flat, check.curves.items(), strict=True):
            _draw_curve(axis, name, curve)
        axes.flat[0].set_ylabel("effect, share of the whole")
        axes.flat[-1].legend(loc="lower right", borderpad=0)
    if shown:
        _draw_measures(parts[-1, 0].subplots(), shown, labels)
    return figure


def _draw_curve(axis: Axes, name: str, curve: dict[str, list[float]]) -> None:
    percent = [100 * value for value in curve["fraction"]]
    axis.plot(percent, curve["top"], color=BLUE, marker="o", markersize=2, label="most attended")
    axis.plot(percent, curve["random"], color=GREY, marker="o", markersize=2, linestyle="--", label="random")
    axis.set_title(name)
    axis.set_xlabel("bins replaced, %" if name == "deletion" else "bins put back, %")


def _draw_measures(axis: Axes, measures: list[Measure], labels: list[list[str]]) -> None:
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
