"""What `explain check` found: its measures against their thresholds, and what deleting attended windows does."""

import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bioattn.errors import FormatError
from bioattn.figures.style import BLUE, GREEN, GREY, ORANGE, PAGE_HEIGHT, SMALL_FONT, new_figure, styled
from bioattn.files import read_json

CHECK_FORMAT = "bioattn-check"
CURVES = ("deletion", "insertion")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One line of the check."""

    label: str
    value: float | None
    interval: tuple[float, float] | None
    threshold: float | None
    passed: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckPicture:
    """The figure's data."""

    verdict: str
    measures: list[Measure]
    curves: dict[str, dict[str, list[float]]]
    """Deletion and insertion, each with fraction, top and random; only those there are."""


def read_check(path: Path) -> CheckPicture:
    """Read the JSON of `explain check`. Raises: FormatError when it is none."""
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
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(
            f"{path}: is damaged or of another version ({error!r}); run the check again"
        ) from error
    return CheckPicture(verdict=verdict, measures=measures, curves=curves)


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
    """Draw the verdict, the curves, and one line per measure, `width` millimetres wide."""
    shown = [measure for measure in check.measures if measure.value is not None]
    lines = textwrap.wrap(check.verdict, int(width / 1.25))
    curves_height = 46.0 if check.curves else 0.0
    row = min(9.0, (PAGE_HEIGHT - curves_height - 12) / max(1, len(shown)))
    height = curves_height + row * len(shown) + 4 * len(lines) + 8
    figure = new_figure(width, height)
    figure.suptitle("\n".join(lines), x=0.01, ha="left")
    parts = figure.subfigures(
        2 if check.curves and shown else 1,
        1,
        squeeze=False,
        height_ratios=[part for part in (curves_height, row * len(shown)) if part],
    )
    if check.curves:
        axes = parts[0, 0].subplots(1, len(check.curves), squeeze=False, sharey=True)
        for axis, (name, curve) in zip(axes.flat, check.curves.items(), strict=True):
            _draw_curve(axis, name, curve)
        axes.flat[0].set_ylabel("prediction, of that of the whole promoter")
        axes.flat[0].legend()
    if shown:
        axes = parts[-1, 0].subplots(len(shown), 1, squeeze=False)
        for axis, measure in zip(axes.flat, shown, strict=True):
            _draw_measure(axis, measure, width)
    return figure


def _draw_curve(axis: Axes, name: str, curve: dict[str, list[float]]) -> None:
    percent = [100 * value for value in curve["fraction"]]
    axis.plot(percent, curve["top"], color=BLUE, marker="o", markersize=2, label="most attended windows")
    axis.plot(
        percent, curve["random"], color=GREY, marker="o", markersize=2, linestyle="--", label="random windows"
    )
    axis.set_title(name)
    axis.set_xlabel("share of the bases " + ("replaced, %" if name == "deletion" else "kept, %"))


def _draw_measure(axis: Axes, measure: Measure, width: float) -> None:
    assert measure.value is not None
    colour = {True: GREEN, False: ORANGE, None: GREY}[measure.passed]
    marker = {True: "o", False: "X", None: "D"}[measure.passed]
    low, high = measure.interval or (measure.value, measure.value)
    points = [0.0, low, high, measure.value, *([] if measure.threshold is None else [measure.threshold])]
    room = (max(points) - min(points)) or 1.0
    axis.plot([low, high], [0, 0], color=colour, linewidth=1.5)
    axis.plot([measure.value], [0], marker=marker, color=colour, markersize=4)
    if measure.threshold is not None:
        axis.axvline(measure.threshold, color=GREY, linewidth=0.8, linestyle=(0, (2, 1)))
    axis.set_xlim(min(points) - 0.06 * room, max(points) + 0.06 * room)
    axis.set_yticks([0], [textwrap.fill(measure.label, 38)])
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)
    text = f"{measure.value:.3g}".replace("-", "−")
    if measure.threshold is not None:
        text += f" (threshold {measure.threshold:.3g})".replace("-", "−")
    axis.annotate(
        text,
        (1, 0.5),
        xytext=(4, 0),
        xycoords="axes fraction",
        textcoords="offset points",
        va="center",
        fontsize=SMALL_FONT,
        color=colour,
    )
    axis.tick_params(axis="x", labelsize=SMALL_FONT)
    axis.locator_params(axis="x", nbins=4 if width < 120 else 6)
