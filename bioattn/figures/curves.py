"""Curves: training by epoch or step, responses over dose or time, and measures of checks of models and designs."""

import logging
import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from bioattn.checks.measures import Measure
from bioattn.checks.record import CheckRecord
from bioattn.choices import require_names
from bioattn.errors import BioattnError
from bioattn.figures import style
from bioattn.interpret.design_record import DesignsCheck
from bioattn.interpret.response_curve import ResponseCurves
from bioattn.models.evaluation import TrainingHistory, read_history

LOGGER = logging.getLogger("bioattn")

_WIDE = 120.0
MOST_SERIES = 8
_VERDICTS = {
    "passed": ("passed", "o", style.GREEN),
    "failed": ("failed", "X", style.ORANGE),
    "undecided": ("undecided", "s", style.BLUE),
    "": ("not judged", "D", style.GREY),
}


@style.figure_style()
def draw_check(check: CheckRecord, width: float) -> Figure:
    """Draw the verdict, the curves, and a line for each measure, `width` millimetres wide."""
    shown = [measure for measure in check.measures if not math.isnan(measure.value)]
    num_title = sum(len(textwrap.wrap(each, int(width / style.TITLE_LETTER))) for each in check.sentences)
    labels = [textwrap.wrap(measure.label, 50 if width > _WIDE else 26) for measure in shown]
    num_lines = sum(map(len, labels))
    flat = [name for name, curve in check.curves.items() if _is_flat([*curve.top, *curve.random])]
    if flat:
        LOGGER.warning(f"left out, as nothing changes along it: {' and '.join(flat)}")
    curves = {name: curve for name, curve in check.curves.items() if name not in flat}
    curves_height = 42.0 if curves else 0.0
    measures_height = 3.2 * num_lines + 1.2 * len(shown) + 10 if shown else 0.0
    height = curves_height + measures_height + 3.2 * num_title + 3
    figure = style.new_figure(width, min(style.PAGE_HEIGHT, height))
    style.set_title(figure, *check.sentences)
    heights = [part for part in (curves_height, measures_height) if part]
    parts = figure.subfigures(len(heights), 1, squeeze=False, height_ratios=heights)
    if curves:
        axes = parts[0, 0].subplots(1, len(curves), squeeze=False, sharey=True)
        for axis, (name, curve) in zip(axes.flat, curves.items(), strict=True):
            percent = [100 * value for value in curve.fraction]
            look: dict[str, Any] = {"marker": "o", "markersize": 2}
            axis.plot(percent, curve.top, color=style.BLUE, label="highest in the map", **look)
            axis.plot(percent, curve.random, color=style.GREY, linestyle="--", label="random", **look)
            axis.set_title(name)
            axis.set_xlabel("bins replaced, %" if name == "deletion" else "bins put back, %")
        axes.flat[0].set_ylabel("share of the effect")
        axes.flat[-1].legend(loc="best", borderpad=0)
    if shown:
        _draw_measures(figure, parts[-1, 0].subplots(), shown, labels)
    return figure


def _draw_measures(figure: Figure, axis: Axes, measures: list[Measure], labels: list[list[str]]) -> None:
    """Draw a line for each measure: value, interval and, as a bar, the threshold."""
    place = 0.0
    places = []
    for measure, label in zip(measures, labels, strict=True):
        places.append(middle := place + len(label) / 2)
        place += len(label) + 0.4
        _, marker, colour = _VERDICTS[measure.outcome]
        if measure.interval is not None:
            axis.plot(measure.interval, [middle, middle], color=colour, linewidth=1.5)
        axis.plot([measure.value], [middle], marker=marker, color=colour, markersize=3.5, linestyle="")
        if measure.threshold is not None:
            axis.plot(2 * [measure.threshold], [middle - 0.5, middle + 0.5], color=style.BLACK, linewidth=1)
        text = f"{round(measure.value, 2) + 0.0:.2f}".replace("-", "−")
        coordinates = ("axes fraction", "data")
        style.write_beside(axis, text, (1, middle), (4, 0), xycoords=coordinates, va="center", color=colour)
    axis.axvline(0, color=style.LIGHT_GREY, linewidth=0.5, zorder=0)
    axis.set_yticks(places, ["\n".join(label) for label in labels])
    axis.tick_params(axis="y", length=0)
    axis.set_ylim(place, -0.2)
    axis.spines["left"].set_visible(False)
    shown = [(*verdict, 3.5) for verdict in _VERDICTS.values()] + [("threshold", "|", style.BLACK, 5.0)]
    entries = [
        Line2D([], [], color=colour, marker=marker, markersize=size, linestyle="", label=label)
        for label, marker, colour, size in shown
    ]
    style.bottom_legend(figure, entries, handletextpad=0.1, columnspacing=1)


TRAINING_LOSS, VALIDATION_LOSS = "training_loss", "validation_loss"
_NAMES = {
    "validation_mean_pearson": ("Pearson r", "mean over treatments"),
    "validation_pearson": ("Pearson r", "median treatment"),
    "validation_specific_pearson": ("Pearson r", "shared response taken out"),
    "validation_gene_pearson": ("Pearson r across treatments", "median gene"),
    "validation_spearman": ("Spearman ρ", "median treatment"),
}
"""Quantity and title of metrics, all of validation genes."""
_DEFAULT = ("validation_mean_pearson", "validation_specific_pearson")
_STYLES: tuple[Literal["-", "--", ":", "-."], ...] = ("-", "--", ":", "-.")


class TrainingPicture(NamedTuple):
    """Runs, which all count epochs or all count steps, and the metrics that are drawn beside the losses."""

    histories: Sequence[TrainingHistory]
    metrics: list[str]


def read_training(paths: Sequence[Path], *, show: Sequence[str] = ()) -> TrainingPicture:
    """Read the histories of model folders, or `history.csv` files.

    show: columns; none = the two that matter most where the runs have them.

    Raises: BioattnError for runs that count epochs and runs that count steps, and for a column no run has.
    """
    return training_picture([read_history(path) for path in paths], show)


def training_picture(histories: Sequence[TrainingHistory], show: Sequence[str] = ()) -> TrainingPicture:
    """As `read_training`, of histories that were read."""
    if len({history.time for history in histories}) > 1:
        raise BioattnError("some of the runs count epochs, others steps; draw them apart")
    known = {name for history in histories for name in history.columns}
    for name in show:
        if name not in known:
            raise BioattnError(f"--show {name!r}: no run has it; there are {', '.join(sorted(known))}")
    return TrainingPicture(histories, list(show) or [name for name in _DEFAULT if name in known])


@style.figure_style()
def draw_training(picture: TrainingPicture, width: float) -> Figure:
    """Draw the losses, and one panel for each metric, `width` millimetres wide.

    Training is drawn faint, validation strong; a dot marks the epoch whose weights were kept.
    """
    histories, chosen = picture
    time = histories[0].time
    flat = [name for name in chosen if all(_is_flat(h.columns[name]) for h in histories if name in h.columns)]
    if flat:
        LOGGER.warning(f"left out, as it stays the same or could not be computed: {', '.join(flat)}")
    chosen = [name for name in chosen if name not in flat]
    panels = 1 + len(chosen)
    across = min(panels, max(1, int(width / 55)))
    down = -(-panels // across)
    names = [history.name for history in histories]
    rows = 0 if len(names) == 1 else -(-len(names) // style.legend_columns(width, names))
    figure = style.new_figure(width, 48 * down + 4 * rows)
    axes = style.panels(figure, panels, down, across)
    losses = axes.flat[0]
    kinds = {TRAINING_LOSS: 1.0}
    if any(VALIDATION_LOSS in history.columns for history in histories):
        kinds = {TRAINING_LOSS: 0.45, VALIDATION_LOSS: 1.0}
    handles = []
    for number, history in enumerate(histories):
        dashes = _STYLES[number // len(style.CYCLE) % len(_STYLES)]
        look: dict[str, Any] = {"color": style.colour_of(number), "linestyle": dashes}
        handles.append(Line2D([], [], label=history.name, **look))
        steps = history.columns[time]
        for kind, alpha in kinds.items():
            if kind in history.columns:
                label = f"{history.name}: {kind.partition('_')[0]}"
                losses.plot(steps, history.columns[kind], alpha=alpha, label=label, **look)
        for axis, metric in zip(axes.flat, [VALIDATION_LOSS, *chosen], strict=False):
            if metric not in history.columns:
                continue
            if metric != VALIDATION_LOSS:
                axis.plot(steps, history.columns[metric], label=history.name, **look)
            if history.best is not None:
                kept = steps == history.best
                best = history.columns[metric][kept]
                axis.plot(steps[kept], best, "o", color=style.colour_of(number), markersize=3)
    losses.set_ylabel("loss")
    colour = style.colour_of(0) if len(histories) == 1 else style.GREY
    lines = [(kind.partition("_")[0], alpha) for kind, alpha in kinds.items()]
    losses.legend(handles=[Line2D([], [], color=colour, alpha=each, label=name) for name, each in lines])
    for axis, metric in zip(axes.flat[1:], chosen, strict=False):
        quantity, title = _NAMES.get(metric, (metric.replace("_", " "), ""))
        axis.set_ylabel(quantity)
        axis.set_title(title)
        low, high = axis.get_ylim()
        if metric in _NAMES and low < high / 4:
            # Of curves far from 0 the line would flatten what they show.
            axis.axhline(0, color=style.GREY, linewidth=0.4)
    for axis in axes.flat[:panels]:
        axis.set_xlabel(time)
        axis.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    if len(histories) > 1:
        style.bottom_legend(figure, handles)
    else:
        style.set_title(figure, names[0])
    return figure


def _is_flat(values: Iterable[float]) -> bool:
    """Whether a line shows nothing: no number at all, or several that are the same."""
    known = [value for value in values if math.isfinite(value)]
    return not known or (len(known) > 1 and min(known) == max(known))


def read_shown_curves(path: Path, *, show: Sequence[str] = ()) -> ResponseCurves:
    """Read curves of `explain response-curve`. show: series by name; none = the first eight.

    Raises: BioattnError for another file, or a series that is not in it.
    """
    curves = ResponseCurves.read(path)
    known = {series.name: series for series in curves.series}
    require_names("--show", show, known, path, "series")
    return replace(curves, series=[known[name] for name in show] or curves.series[:MOST_SERIES])


@style.figure_style()
def draw_response_curves(curves: ResponseCurves, width: float) -> Figure:
    """A row for each series: points and curves of each gene, and the weights of treatments (dark: 1) below.

    width: millimetres. Raises: BioattnError for curves over several dimensions.
    """
    if len(curves.along) > 1:
        raise BioattnError(f"the curves are over {' and '.join(curves.along)}; a figure shows one of them")
    number = len(curves.series)
    figure = style.new_figure(width, min(230.0, 12 + 45.0 * number))
    rows = figure.subplots(2 * number, 1, squeeze=False, height_ratios=[3, 1] * number)[:, 0]
    # log2(x + offset) and its inverse, so that the curve stands above its weights.
    offset = curves.offset
    logarithm = (lambda x: np.log2(np.maximum(x + offset, 1e-9)), lambda y: np.exp2(y) - offset)
    for series, axis, below in zip(curves.series, rows[::2], rows[1::2], strict=True):
        positions, line = np.array(series.places)[:, 0], np.array(series.curve_places)[:, 0]
        for place, gene in enumerate(curves.genes):
            colour = style.colour_of(place)
            measured, curve = _values(series.measured[place]), _values(series.measured_curve[place])
            axis.plot(positions, measured, "o", color=colour, markersize=3, label=gene)
            axis.plot(line, curve, color=colour, linewidth=1)
            if series.predicted is not None and series.predicted_curve is not None:
                axis.plot(positions, _values(series.predicted[place]), "x", color=colour, markersize=3)
                axis.plot(line, _values(series.predicted_curve[place]), "--", color=colour, linewidth=1)
        axis.spines[:].set_visible(True)
        axis.set_ylabel("response")
        axis.set_title(series.name, fontsize=style.SMALL_FONT)
        axis.set_xlim(line[0], line[-1])
        names = [f"{value:g}" for value in positions]
        axis.set_xticks(positions, names, fontsize=style.SMALL_FONT - 1)
        if curves.log:
            axis.set_xscale("function", functions=logarithm)
        weights = np.array(series.weights).T
        below.imshow(weights, cmap=style.SEQUENTIAL, vmin=0, vmax=1, aspect="auto", interpolation="none")
        below.set_yticks(range(len(positions)), names, fontsize=style.SMALL_FONT - 2)
        below.set_xticks([])
        below.set_ylabel("weight of")
    unit = f" ({curves.units[0]})" if curves.units[0] else ""
    rows[-1].set_xlabel(f"{curves.along[0]}{unit}, left to right as above")
    rows[0].legend(fontsize=style.SMALL_FONT)
    predicted = any(series.predicted is not None for series in curves.series)
    style.set_title(figure, "points: measured" + ("; crosses and dashes: predicted" if predicted else ""))
    return figure


def _values(column: Sequence[float | None]) -> list[float]:
    return [np.nan if value is None else value for value in column]


@style.figure_style()
def draw_designs(check: DesignsCheck, width: float) -> Figure:
    """Draw the gain of designs, real promoters and simple designers against their distance from real promoters,
    and how both change with guidance; `width` in millimetres."""
    figure = style.new_figure(width, 0.7 * width)
    axis = figure.subplots()
    designs, real, *others = check.rows
    if check.guidance:
        places = [(each.distance_6, each.effect) for each in check.guidance]
        label = "designs by guidance"
        axis.plot(*zip(*places, strict=True), color=style.BLUE, marker=".", label=label)
        for each, place in zip(check.guidance, places, strict=True):
            axis.annotate(f"{each.guidance:g}", place, fontsize=style.SMALL_FONT, color=style.BLUE)
    axis.plot(designs.distance_6, designs.effect, "o", color=style.BLUE, label=designs.name)
    axis.plot(real.distance_6, real.effect, "s", color=style.BLACK, label=real.name)
    for number, each in enumerate(others):
        axis.plot(each.distance_6, each.effect, "^", color=style.colour_of(number + 1), label=each.name)
    by_model = [(each.distance_6, each.effect_model) for each in check.rows if each.effect_model is not None]
    if by_model:
        axis.plot(*zip(*by_model, strict=True), "x", color=style.GREY, label="by the promoter model")
    axis.axvline(1, color=style.LIGHT_GREY, linewidth=0.5, zorder=0)
    axis.set_xscale("log")
    for ticks in (axis.xaxis.set_major_formatter, axis.xaxis.set_minor_formatter):
        ticks(StrMethodFormatter("{x:g}"))
    axis.set_xlabel("6-mer distance from real promoters, in distances of held-out ones")
    axis.set_ylabel("gain by the held-out oracle, sd of real promoters")
    axis.legend(fontsize=style.SMALL_FONT)
    return figure
