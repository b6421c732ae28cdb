"""The sections on how well the model predicts, and on how it was trained."""

from bioattn.report.charts import bars, curves, figure, strip
from bioattn.report.collection import Report
from bioattn.report.findings import per_treatment_words
from bioattn.report.markup import Markup, element
from bioattn.report.section import Section, figure_text, section, table
from bioattn.views.evaluation import HEADLINE_TITLES, METRIC_TITLES, AccuracyTable

SHOWN_METRICS = ("pearson", "auroc", "precision_L")
"""Beside the losses, the columns of a training history that are drawn, of training or validation."""
MAX_BARS = 16
"""Treatments up to which each has a bar with its name."""


def accuracy_section(report: Report) -> Section | None:
    """The model beside simple models."""
    accuracy = report.accuracy
    if accuracy is None:
        return None
    first, metric = accuracy.tables[0], accuracy.headline
    rows = [(row.name, row.figures.get(metric), row.is_model) for row in first.rows]
    rows.sort(key=lambda row: (-(row[1] if row[1] is not None else -9.0), row[0]))
    interval = None if accuracy.interval is None else (accuracy.interval.low, accuracy.interval.high)
    caption = f"{HEADLINE_TITLES[metric]} on {first.cells}."
    if interval is not None:
        caption += " The line through the bar of this model is its 95 % interval over genes (bootstrap)."
    else:
        caption += " No interval: it needs the dataset and this model's predictions of its test genes."
    values = [(name, value) for name, value in accuracy.per_treatment.items() if value is not None]
    return section(
        "accuracy",
        "Accuracy beside simple models",
        figure(bars(rows, f"{HEADLINE_TITLES[metric]} on {first.cells}", interval), caption),
        element("h3", "Treatment by treatment") if values else None,
        _by_treatment(values, METRIC_TITLES[metric], per_treatment_words(accuracy)) if values else None,
        *(_accuracy_table(each, opened=number == 0) for number, each in enumerate(accuracy.tables)),
    )


def _by_treatment(values: list[tuple[str, float]], title: str, words: str) -> Markup:
    """A bar for each of a few treatments, a dot for each of many."""
    if len(values) <= MAX_BARS:
        rows = [(name, value, False) for name, value in sorted(values, key=lambda each: -each[1])]
        return figure(bars(rows, f"{title} of each treatment", None), words)
    drawing = strip(values, "A dot for each treatment", title)
    return figure(drawing, "Each dot is a treatment; rest on one for its name. " + words)


def _accuracy_table(accuracy: AccuracyTable, *, opened: bool) -> Markup:
    title = f"All figures: {accuracy.cells}"
    rows = [
        element(
            "tr",
            element("th", row.name, scope="row"),
            *(element("td", figure_text(row.figures.get(metric))) for metric in accuracy.metrics),
            class_="ours" if row.is_model else None,
        )
        for row in accuracy.rows
    ]
    names = ["predictor", *(METRIC_TITLES[metric] for metric in accuracy.metrics)]
    return element("details", element("summary", title), table(rows, names, label=title), open=opened)


def training_section(report: Report) -> Section | None:
    """How training went."""
    if not report.histories:
        return None
    drawn: list[Markup] = []
    for name, history in report.histories:
        groups: dict[str, list[tuple[str, list[tuple[float, float | None]]]]] = {}
        for column in history.columns:
            metric = column.removeprefix("validation_")
            if not (column.endswith("loss") or metric in SHOWN_METRICS):
                continue
            title = "loss" if column.endswith("loss") else metric
            points = [(float(step), value) for step, value in history.points(column)]
            groups.setdefault(title, []).append((column.replace("_", " "), points))
        for title, series in groups.items():
            shown = METRIC_TITLES.get(title, title)
            drawn.append(
                figure(
                    curves(
                        series,
                        f"{shown} while training {name}",
                        x_title=history.time,
                        mark=history.best,
                        mark_title="kept",
                    ),
                    f"{name}: {shown}" + (" (median over treatments)." if title != "loss" else "."),
                )
            )
    return section("training", "Training", element("div", *drawn, class_="charts"))
