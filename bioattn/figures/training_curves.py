"""Training curves: losses and validation metrics by epoch or step, of one or several runs."""

from collections.abc import Sequence
from typing import Literal

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from bioattn.errors import SettingsError
from bioattn.figures.style import CYCLE, GREY, colour_of, new_figure, set_title, styled
from bioattn.views.training_history import TrainingHistory

TRAINING_LOSS, VALIDATION_LOSS, LEARNING_RATE = "training_loss", "validation_loss", "learning_rate"
_NAMES = {
    "validation_mean_pearson": "Pearson r (mean over treatments)",
    "validation_pearson": "Pearson r (median treatment)",
    "validation_specific_pearson": "Pearson r, treatment-specific part",
    "validation_gene_pearson": "Pearson r across treatments (median gene)",
    "validation_spearman": "Spearman ρ (median treatment)",
}
_DEFAULT = ("validation_mean_pearson", "validation_specific_pearson")
_STYLES: tuple[Literal["-", "--", ":", "-."], ...] = ("-", "--", ":", "-.")


def shown_metrics(histories: Sequence[TrainingHistory], metrics: Sequence[str] | None) -> list[str]:
    """The metrics that are drawn besides the losses.

    metrics: None = the two that matter most where the runs have them. Raises: SettingsError for one no run has.
    """
    known = {name for history in histories for name in history.columns}
    if metrics:
        for name in metrics:
            if name not in known:
                raise SettingsError(f"--metric {name!r}: no run has it; there are {', '.join(sorted(known))}")
        return list(metrics)
    return [name for name in _DEFAULT if name in known]


@styled
def draw_training(
    histories: Sequence[TrainingHistory], width: float, metrics: Sequence[str] | None = None
) -> Figure:
    """Draw the losses, and one panel for each metric, `width` millimetres wide.

    Training is drawn faint, validation strong; a dot marks the epoch whose weights were kept.

    Raises: SettingsError for runs that count epochs and runs that count steps, and for an unknown metric.
    """
    times = {history.time for history in histories}
    if len(times) > 1:
        raise SettingsError("some of the runs count epochs, others steps; draw them apart")
    (time,) = times
    chosen = shown_metrics(histories, metrics)
    panels = 1 + len(chosen)
    across = min(panels, max(1, int(width / 55)))
    down = -(-panels // across)
    figure = new_figure(width, 48 * down + (4 * -(-len(histories) // 3) if len(histories) > 1 else 0))
    axes = figure.subplots(down, across, squeeze=False)
    losses = axes.flat[0]
    has_validation = any(VALIDATION_LOSS in history.columns for history in histories)
    for number, history in enumerate(histories):
        colour, style = colour_of(number), _STYLES[number // len(CYCLE) % len(_STYLES)]
        steps = history.columns[time]
        losses.plot(
            steps,
            history.columns[TRAINING_LOSS],
            color=colour,
            linestyle=style,
            alpha=0.45 if has_validation else 1,
            label=f"{history.name}: training",
        )
        if VALIDATION_LOSS in history.columns:
            losses.plot(
                steps,
                history.columns[VALIDATION_LOSS],
                color=colour,
                linestyle=style,
                label=f"{history.name}: validation",
            )
        for axis, metric in zip(axes.flat[1:], chosen, strict=False):
            if metric in history.columns:
                axis.plot(steps, history.columns[metric], color=colour, linestyle=style, label=history.name)
        for axis, metric in zip(axes.flat, [VALIDATION_LOSS, *chosen], strict=False):
            if history.best is not None and metric in history.columns:
                kept = steps == history.best
                axis.plot(steps[kept], history.columns[metric][kept], "o", color=colour, markersize=3)
    losses.set_title("loss (faint: training)" if has_validation else "training loss")
    for axis, metric in zip(axes.flat[1:], chosen, strict=False):
        axis.set_title(_NAMES.get(metric, metric.replace("_", " ")))
        if metric in _NAMES:
            axis.axhline(0, color=GREY, linewidth=0.4)
    for axis in axes.flat[:panels]:
        axis.set_xlabel(time)
        axis.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    for axis in axes.flat[panels:]:
        axis.set_axis_off()
    if len(histories) > 1:
        handles = [
            Line2D(
                [],
                [],
                color=colour_of(number),
                linestyle=_STYLES[number // len(CYCLE) % len(_STYLES)],
                label=history.name,
            )
            for number, history in enumerate(histories)
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=min(3, len(histories)))
    else:
        set_title(figure, histories[0].name)
    return figure
