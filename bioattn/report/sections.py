"""The sections of a page."""

import numpy as np

from bioattn.interpret.motifs.motif_folder import FoundMotif, MotifResults
from bioattn.models.evaluation import HEADLINE_TITLES, METRIC_TITLES, AccuracyTable
from bioattn.models.training_history import TrainingHistory
from bioattn.report.charts import bars, curves, figure, interval_mark, logo, strip
from bioattn.report.collection import Report
from bioattn.report.findings import Finding, per_treatment_words
from bioattn.report.lead import contact_lead, promoter_lead
from bioattn.report.markup import (
    SIGN_WORDS,
    SIGNS,
    Markup,
    Section,
    details,
    element,
    figure_text,
    join,
    note,
    row,
    section,
    table,
)
from bioattn.text import counted, listed
from bioattn.views.check import CheckResult

LEADING = 3
"""Findings on the first screen."""
SHOWN_METRICS = {
    "mean_pearson": "mean r over treatments",
    "mean_auroc": "mean AUROC over treatments",
    "P@L": "precision of the L likeliest contacts",
}
"""Beside the losses, the columns of a training history that are drawn: by these the weights to keep are chosen."""
VERDICTS = {
    "good": "The maps may be believed",
    "open": "The maps may be believed in part",
    "bad": "Do not believe these maps",
}
MAX_BARS = 16
"""Treatments up to which each has a bar with its name."""


def summary_section(report: Report) -> Section:
    """A promoter or a protein, three findings, and the others behind them."""
    lead = None
    if report.browser is not None:
        lead = promoter_lead(report.browser.lead)
    elif report.pages:
        lead = contact_lead(report.pages[0])
    first = [each for each in report.found if each.leads][:LEADING]
    rest = [each for each in report.found if each not in first]
    first += rest[: LEADING - len(first)]
    rest = [each for each in report.found if each not in first]
    findings = _findings(first) if first else element("p", "The inputs hold no results.", class_="muted")
    return section(
        "summary",
        "In short",
        element("div", lead, findings, class_="opening" if lead is not None else None),
        details(f"More findings ({len(rest)})", _findings(rest), opened=True) if rest else None,
    )


def _findings(found: list[Finding]) -> Markup:
    items = [
        element(
            "li",
            _sign(each.tone),
            element("div", element("strong", each.topic), element("p", each.text)),
            class_=f"finding {each.tone}",
        )
        for each in found
    ]
    return element("ul", *items, class_="findings")


def alignments_section(report: Report) -> Section | None:
    """A place for the pages of alignments."""
    if not report.pages:
        return None
    left = ""
    if report.left_out:
        shown = ", ".join(report.left_out[:10]) + (", …" if len(report.left_out) > 10 else "")
        left = f" {counted(len(report.left_out), 'protein')} without a page: {shown}."
    maps = sum(len(page.heads) for page in report.pages)
    of_all = sum(page.num_heads for page in report.pages)
    kept = f" {maps:,} of {of_all:,} attention maps are in this page, those that say most of contacts."
    return section(
        "proteins",
        "Proteins: contacts, alignment, attention",
        note(
            "Point at a pair in any map, or move with the arrow keys: its two columns are marked in the alignment "
            f"and the same pair in every other map.{'' if maps == of_all else kept}{left}"
        ),
        element("div", id="alignment-browser", class_="app"),
        element("noscript", element("p", "The maps need JavaScript.")),
    )


def table_sections(report: Report) -> list[Section]:
    """A section for each result of which the page has a table."""
    sections = []
    for number, each in enumerate(report.tables, start=1):
        if each.rows:
            rows = [element("tr", *(element("td", _cell(value)) for value in cells)) for cells in each.rows]
            shown = table(rows, each.columns, label=each.title)
            sections.append(section(f"result-{number}", each.title, shown))
    return sections


def _cell(value: str | int | float | None) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else figure_text(value)


def inputs_section(report: Report) -> Section:
    """Of what the page was made."""
    rows = []
    for source in report.sources:
        figures = "; ".join(f"{name} {value}" for name, value in source.figures)
        kind = element("td", source.kind, class_="words")
        rows.append(row(source.name, kind, element("td", figures, class_="words muted")))
    asked = element("ul", *(element("li", text) for text in report.asked), class_="asked")
    settings = "; ".join(f"{name.replace('_', ' ')} {value}" for name, value in report.settings.items())
    return section(
        "inputs",
        "Made from",
        asked if report.asked else None,
        table(rows),
        element("p", element("strong", "Model: "), settings, class_="muted") if settings else None,
        note(
            "This page is one file: it loads nothing, sends nothing, and the same inputs give the same bytes. "
            "Attention is drawn in steps of 1/63 of a row's largest weight; the attention file has exact values."
        ),
    )


def accuracy_section(report: Report) -> Section | None:
    """The model beside simple models."""
    accuracy = report.accuracy
    if accuracy is None:
        return None
    first, metric = accuracy.tables[0], accuracy.headline
    rows = [(each.name.partition(" (")[0], each.figures.get(metric), each.is_model) for each in first.rows]
    rows.sort(key=lambda each: (-(each[1] if each[1] is not None else -9.0), each[0]))
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
        row(
            each.name,
            *(figure_text(each.figures.get(metric)) for metric in accuracy.metrics),
            class_="ours" if each.is_model else None,
        )
        for each in accuracy.rows
    ]
    names = ["predictor", *(METRIC_TITLES[metric] for metric in accuracy.metrics)]
    return details(title, table(rows, names, label=title), opened=opened)


def training_section(report: Report) -> Section | None:
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
            shown = SHOWN_METRICS.get(title, title)
            drawn.append(
                figure(
                    curves(
                        series,
                        f"{shown} while training {name}",
                        x_title=history.time,
                        mark=history.best if _is_best(history, title) else None,
                        mark_title="kept",
                    ),
                    f"{name}: {shown}.",
                )
            )
    return section("training", "Training", element("div", *drawn, class_="charts"))


def _is_best(history: TrainingHistory, title: str) -> bool:
    """Whether the weights that were kept are the best of the curve that is drawn."""
    values = history.columns.get(f"validation_{title}")
    if values is None or history.best is None or np.isnan(values).all():
        return False
    best = np.nanargmin(values) if title == "loss" else np.nanargmax(values)
    return history.steps[int(best)] == history.best


def check_section(report: Report) -> Section | None:
    """The verdict on the attention."""
    check, title = report.check, "May the attention be believed?"
    if check is None:
        if report.browser is None:
            return None
        words = element(
            "p",
            "No result of ",
            element("code", "bioattn explain check"),
            " was given. Attention can look convincing and mean nothing: maps of untrained models peak, too, and "
            "models can predict well from what attention passes by.",
        )
        return section("check", title, _verdict("open", "Not checked.", words))
    sentences = [check.sentence, *(f"But: {caveat}" for caveat in check.caveats)]
    heading = "Provisional" if check.is_provisional else VERDICTS[check.tone]
    return section(
        "check",
        title,
        _verdict(check.tone, heading, *(element("p", sentence) for sentence in sentences)),
        _measures(check),
        element("div", *_check_curves(check), class_="charts") if check.curves else None,
        _check_heads(check),
        details(
            f"Not run: {counted(len(check.skipped), 'test')}",
            element(
                "ul", *(element("li", element("strong", name), ": ", why) for name, why in check.skipped)
            ),
            opened=True,
        )
        if check.skipped
        else None,
    )


def _verdict(tone: str, heading: str, *paragraphs: Markup) -> Markup:
    words = element("div", element("strong", heading), *paragraphs)
    return element("div", _sign(tone), words, class_=f"verdict {tone}")


def _sign(tone: str) -> Markup:
    return element("span", SIGNS[tone], class_="sign", role="img", aria_label=SIGN_WORDS[tone])


def _measures(check: CheckResult) -> Markup | None:
    if not check.measures:
        return None
    rows = []
    for measure in check.measures:
        sure = measure.passed is not None and (check.has_controls or not measure.passed)
        state = "–" if measure.passed is None else "passes" if measure.passed else "✗ fails"
        state = f"✓ {state}" if sure and measure.passed else state
        value = "–" if measure.value is None else _plain(measure.value)
        if measure.interval is not None:
            value += f" [{_plain(measure.interval[0])}, {_plain(measure.interval[1])}]"
        passed = measure.passed if sure else None
        rows.append(
            row(
                measure.label,
                value,
                "" if measure.threshold is None else _plain(measure.threshold),
                interval_mark(measure.value, measure.interval, measure.threshold, passed),
                element("td", state, class_=("good" if measure.passed else "bad") if sure else None),
                element("td", measure.sentence, class_="words"),
            )
        )
    names = ("measure", "value [95 %]", "threshold", "", "", "")
    return table(rows, names, label="Measures", class_="measures")


def _plain(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.3g}"


def _check_curves(check: CheckResult) -> list[Markup]:
    return [
        figure(
            curves(
                [
                    ("most attended first", list(zip(curve.fraction, curve.top, strict=True))),
                    ("at random", list(zip(curve.fraction, curve.random, strict=True))),
                ],
                curve.name,
                x_title="part of the windows",
                y_title="change of the answer",
            ),
            f"{curve.name.capitalize()}: the farther apart the lines, the more the model relies on what it "
            "attends to.",
        )
        for curve in check.curves
        if len(curve.fraction) == len(curve.top) == len(curve.random)
    ]


def _check_heads(check: CheckResult) -> Markup | None:
    if not check.heads:
        return None
    names = list(dict.fromkeys(name for head in check.heads for name in head.figures))
    rows = [
        row(f"{head.site}, head {head.head}", *(figure_text(head.figures.get(name)) for name in names))
        for head in check.heads
    ]
    return details(
        f"{counted(len(check.heads), 'head')} one by one",
        table(rows, ["head", *(name.replace("_", " ") for name in names)]),
    )


SURE = 0.05
"""A larger q-value is no finding."""


def promoters_section(report: Report) -> Section | None:
    """A place for the browser of promoters."""
    browser = report.browser
    if browser is None:
        return None
    return section(
        "promoters",
        "Promoters",
        note(f"Asked for, but not in the attention file: {listed(browser.absent, 20)}.")
        if browser.absent
        else None,
        note(browser.chosen_by),
        element("div", id="promoter-browser", class_="app"),
        element(
            "noscript",
            element("p", "The browser of promoters needs JavaScript; nothing is loaded from anywhere."),
        ),
    )


def similarity_section(report: Report) -> Section | None:
    """A place for the heatmap of treatments."""
    browser = report.browser
    if browser is None or len(browser.sites[0].treatments) < 2:
        return None
    return section(
        "treatments",
        "How alike treatments are",
        element("div", id="similarity", class_="app"),
        element("noscript", element("p", "The heatmap needs JavaScript.")),
    )


def motifs_section(report: Report) -> Section | None:
    """Motifs found in attended windows."""
    motifs = report.motifs
    if motifs is None:
        return None
    more = motifs.num_motifs - len(motifs.motifs)
    found = [motif for motif in motifs.motifs if motif.source != "filter"]
    filters = [motif for motif in motifs.motifs if motif.source == "filter"]
    return section(
        "motifs",
        "Motifs",
        note(
            "Found in the windows that attention or attribution singles out; letters are as high as their "
            "information in bits." + (f" {more:,} more motifs are in the export only." if more else "")
        ),
        element("div", *(_motif_card(motif, motifs) for motif in found), class_="cards")
        if found
        else element("p", "No motif was found in them.", class_="muted"),
        details(
            f"What the first layer's filters respond to ({counted(len(filters), 'motif')})",
            element("div", *(_motif_card(motif, motifs) for motif in filters), class_="cards"),
            opened=not found,
        )
        if filters
        else None,
        _treatment_motifs(motifs),
    )


def _motif_card(motif: FoundMotif, results: MotifResults) -> Markup:
    facts = [motif.source]
    if motif.seqlets is not None:
        facts.append(counted(motif.seqlets, "seqlet"))
    if motif.bits is not None:
        facts.append(f"{motif.bits:.1f} bits")
    match = None
    if motif.match:
        q = "" if motif.match_q_value is None else f" (q = {motif.match_q_value:.2g})"
        if (motif.match_q_value or 0) <= SURE:
            match = element("p", "resembles ", element("strong", motif.match), q)
        else:
            match = element("p", "resembles none of the database; closest ", motif.match, q, class_="muted")
    gains = sorted(
        (
            each
            for each in results.treatments
            if each.motif == motif.name
            and each.ratio is not None
            and each.ratio > 1
            and (each.q_value is None or each.q_value <= SURE)
        ),
        key=lambda each: (-(each.ratio or 0), each.treatment),
    )
    named = join((join([element("b", each.treatment), f" ×{each.ratio:.2f}"]) for each in gains[:3]), ", ")
    return element(
        "article",
        element("h3", motif.name),
        logo(motif.probabilities, f"Logo of {motif.name}: {motif.consensus}")
        if motif.probabilities is not None
        else element("p", element("code", motif.consensus)),
        element("p", ", ".join(facts), class_="muted"),
        match,
        element("p", "gains attention in ", named, f" and {len(gains) - 3} more" if len(gains) > 3 else None)
        if gains
        else None,
        class_="card",
    )


def _treatment_motifs(results: MotifResults) -> Markup | None:
    if not results.treatments:
        return None
    shown = {motif.name for motif in results.motifs}
    by_treatment: dict[str, list[Markup]] = {}
    for each in sorted(results.treatments, key=lambda entry: -(entry.ratio or 0.0)):
        cells = by_treatment.setdefault(each.treatment, [])
        if each.motif not in shown or each.ratio is None or len(cells) >= 6:
            continue
        sure = each.q_value is not None and each.q_value <= SURE
        cells.append(
            element(
                "span",
                f"{each.motif} ×{each.ratio:.2f}",
                class_="chip sure" if sure else "chip",
                title=f"against {each.reference or 'its reference'}"
                + ("" if each.q_value is None else f", q = {each.q_value:.2g}"),
            )
        )
    rows = [
        row(name, element("td", join(by_treatment[name], " "), class_="words"))
        for name in dict.fromkeys(each.treatment for each in results.treatments)
    ]
    references = sorted({each.reference for each in results.treatments if each.reference})
    return details(
        f"Treatment by treatment ({counted(len(rows), 'treatment')})",
        note(
            "Share of attention on a motif, relative to the reference"
            + (f" ({', '.join(references[:3])}{', …' if len(references) > 3 else ''})" if references else "")
            + "; framed where q ≤ 0.05."
        ),
        table(rows, tall=True),
        opened=len(rows) <= 12,
    )
