"""The section on whether the attention may be believed: the verdict, its measures and curves."""

from bioattn.report.charts import curves, figure, interval_mark
from bioattn.report.collection import Report
from bioattn.report.markup import Markup, element
from bioattn.report.section import SIGN_WORDS, SIGNS, Section, figure_text, section, table
from bioattn.text import counted
from bioattn.views.check import CheckResult


def check_section(report: Report) -> Section | None:
    """The verdict on the attention."""
    check = report.check
    if check is None:
        if report.browser is None:
            return None
        return section(
            "check",
            "May the attention be believed?",
            element(
                "div",
                element("span", "?", class_="sign", aria_hidden="true"),
                element(
                    "div",
                    element("strong", "Not checked."),
                    element(
                        "p",
                        "No result of ",
                        element("code", "bioattn explain check"),
                        " was given. Attention can look convincing and mean nothing: maps of untrained models "
                        "peak, too, and models can predict well from what attention passes by.",
                    ),
                ),
                class_="verdict open",
            ),
        )
    tone = check.tone
    return section(
        "check",
        "May the attention be believed?",
        element(
            "div",
            element("span", SIGNS[tone], class_="sign", role="img", aria_label=SIGN_WORDS[tone]),
            element(
                "div",
                element("strong", check.code),
                element("p", check.sentence),
                *(element("p", f"But: {caveat}") for caveat in check.caveats),
            ),
            class_=f"verdict {tone}",
        ),
        _measures(check),
        element("div", *_check_curves(check), class_="charts") if check.curves else None,
        _check_heads(check),
        element(
            "details",
            element("summary", f"Not taken: {counted(len(check.skipped), 'measure')}"),
            element(
                "ul", *(element("li", element("strong", name), ": ", why) for name, why in check.skipped)
            ),
            open=True,
        )
        if check.skipped
        else None,
    )


def _measures(check: CheckResult) -> Markup | None:
    if not check.measures:
        return None
    rows = []
    for measure in check.measures:
        state = "–" if measure.passed is None else "✓ passes" if measure.passed else "✗ fails"
        value = "–" if measure.value is None else _plain(measure.value)
        if measure.interval is not None:
            value += f" [{_plain(measure.interval[0])}, {_plain(measure.interval[1])}]"
        rows.append(
            element(
                "tr",
                element("th", measure.label, scope="row"),
                element("td", value),
                element("td", "" if measure.threshold is None else _plain(measure.threshold)),
                element(
                    "td", interval_mark(measure.value, measure.interval, measure.threshold, measure.passed)
                ),
                element(
                    "td", state, class_="" if measure.passed is None else "good" if measure.passed else "bad"
                ),
                element("td", measure.sentence, class_="words"),
            )
        )
    names = ("measure", "value [95 %]", "bar", "", "", "")
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
        element(
            "tr",
            element("th", f"{head.site}, head {head.head}", scope="row"),
            *(element("td", figure_text(head.figures.get(name))) for name in names),
        )
        for head in check.heads
    ]
    return element(
        "details",
        element("summary", f"{counted(len(check.heads), 'head')} one by one"),
        table(rows, ["head", *(name.replace("_", " ") for name in names)]),
    )
