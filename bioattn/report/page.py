"""From a report to one HTML file, by Jinja templates, with a policy that lets the browser load nothing.

Names in the data are never trusted: all is escaped.

The scripts are given one JSON object, large arrays deflated and in base64.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from numpy.typing import NDArray
from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
from scipy.spatial.distance import squareform

from bioattn import __version__
from bioattn.checks.record import Curve, skipped_title
from bioattn.io.files import text_output
from bioattn.models.evaluation import HEADLINE_TITLES, METRIC_TITLES, AccuracyTable
from bioattn.models.training_history import TrainingHistory
from bioattn.report import findings
from bioattn.report.charts import Curves, curves, logo, short, strip
from bioattn.report.collection import Report
from bioattn.report.gene_maps import STEPS, as_text, pack, pack_bytes, quantised
from bioattn.report.lead import contact_squares, minus
from bioattn.report.promoter_browser import PromoterBrowser
from bioattn.store.kinds import ResultTable
from bioattn.text import counted, listed

MEAN_PROMOTER = "(mean of all promoters)"
MAX_CLUSTERED = 1500
"""Treatments up to which they are put in the order of a tree; beyond it they stay in the file's."""


def _promoters(browser: PromoterBrowser) -> dict[str, Any]:
    maps = as_text(pack([quantised(site.profile_THK) for site in browser.sites]))
    return {
        "length": browser.window_length,
        "task": browser.task,
        "treatments": browser.treatments,
        "steps": STEPS,
        "sites": [
            {
                "name": site.name,
                "treatments": site.treatments,
                "heads": site.heads,
                "edges": site.key_edges.tolist(),
                "receptiveField": site.receptive_field,
            }
            for site in browser.sites
        ],
        "contributions": browser.contributions,
        "mean": {"id": MEAN_PROMOTER, "maps": maps},
        "genes": [asdict(gene) for gene in browser.genes],
        # Names of fields once, not five thousand times.
        "lines": browser.lines if len(browser.lines) > len(browser.genes) else [],
    }


def _similarity(browser: PromoterBrowser) -> dict[str, Any] | None:
    site = browser.sites[0]
    if len(site.treatments) < 2:
        return None
    about = "Correlation of two treatments' maps over all promoters and bins"
    without = f"{about}, without the profile that all promoters share (each treatment's mean map)."
    matrices = [
        ("Attention without the shared profile", without, site.specific_similarity_TT),
        ("Attention as it is", f"{about}.", site.similarity_TT),
    ]
    for kind, similarity_TT in (
        ("predicted", browser.prediction_similarity_TT),
        ("measured", browser.measured_similarity_TT),
    ):
        if similarity_TT is not None and site.treatments == browser.treatments:
            about = f"Correlation of {kind} responses over promoters."
            matrices.append((f"{kind.capitalize()} responses", about, similarity_TT))
    return {
        "names": site.treatments,
        "matrices": [
            {
                "title": title,
                "about": about,
                "order": cluster_order(values).tolist(),
                "values": pack_bytes((values + 1) * 127),
            }
            for title, about, values in matrices
        ],
    }


def cluster_order(similarity_TT: NDArray[np.float64]) -> NDArray[np.int64]:
    """Treatments in the order of a tree's leaves (average linkage of 1 − r, neighbours as alike as can be)."""
    size = len(similarity_TT)
    if size < 3 or size > MAX_CLUSTERED:
        return np.arange(size)
    distance = np.clip(1 - (similarity_TT + similarity_TT.T) / 2, 0, 2)
    np.fill_diagonal(distance, 0)
    condensed = squareform(distance, checks=False)
    tree = linkage(condensed, "average")
    return leaves_list(optimal_leaf_ordering(tree, condensed)).astype(np.int64)


SCRIPTS = ("core.js", "tracks.js", "promoters.js", "similarity.js", "alignments.js")
"""In the order in which they are run, as one."""
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
"""Characters that HTML forbids."""
SHOWN_METRICS = {
    "mean_pearson": "mean r over treatments",
    "mean_auroc": "mean AUROC over treatments",
    "P@L": "precision of the L likeliest contacts",
}
"""Beside the losses, the columns of a training history that are drawn: by these the weights to keep are chosen."""


class Section(NamedTuple):
    """A section of the page."""

    identifier: str
    title: str
    template: str
    table: ResultTable | None = None


def sections(report: Report) -> list[Section]:
    """The sections of a report, in order."""
    browser = report.browser
    several = browser is not None and len(browser.sites[0].treatments) > 1
    known = [
        ("summary", "In short", True),
        ("promoters", "Promoters", browser is not None),
        ("proteins", "Proteins: contacts, alignment, attention", bool(report.pages)),
        ("check", "May the attention be believed?", report.check is not None or browser is not None),
        ("accuracy", "Accuracy beside simple models", report.accuracy is not None),
        ("treatments", "How alike treatments are", several),
        ("motifs", "Motifs", report.motifs is not None),
        ("results", "", True),
        ("training", "Training", bool(report.histories)),
        ("inputs", "Made from", True),
    ]
    shown = []
    for name, title, is_there in known:
        if name == "results":
            tables = [(number, each) for number, each in enumerate(report.tables, start=1) if each.rows]
            shown += [Section(f"result-{number}", each.title, "result", each) for number, each in tables]
        elif is_there:
            shown.append(Section(name, title, name))
    return shown


def training_charts(
    histories: Sequence[tuple[str, TrainingHistory]],
) -> Iterator[tuple[Curves | None, str, str]]:
    """The chart of every loss and metric of trainings, its label and its caption."""
    for name, history in histories:
        groups: dict[str, list[tuple[str, list[tuple[float, float | None]]]]] = {}
        for column in history.columns:
            metric = column.removeprefix("validation_")
            title = "loss" if column.endswith("loss") else metric
            if title == "loss" or metric in SHOWN_METRICS:
                points = [(float(step), value) for step, value in history.points(column)]
                groups.setdefault(title, []).append((column.replace("_", " "), points))
        for title, series in groups.items():
            shown = SHOWN_METRICS.get(title, title)
            mark = history.best if _is_best(history, title) else None
            chart = curves(series, x_title=history.time, mark=mark)
            yield chart, f"{shown} while training {name}", f"{name}: {shown}."


def _is_best(history: TrainingHistory, title: str) -> bool:
    """Whether the weights that were kept are the best of the curve that is drawn."""
    values = history.columns.get(f"validation_{title}")
    if values is None or history.best is None or np.isnan(values).all():
        return False
    best = np.nanargmin(values) if title == "loss" else np.nanargmax(values)
    return history.steps[int(best)] == history.best


def _check_curves(curve: Curve) -> Curves | None:
    lines = (("most attended first", curve.top), ("at random", curve.random))
    series = [(name, list(zip(curve.fraction, values, strict=True))) for name, values in lines]
    return curves(series, x_title="part of the windows", y_title="change of the answer")


def _bar_rows(table: AccuracyTable, metric: str) -> list[tuple[str, float | None, bool]]:
    """Predictors without their settings, the best first, those without a figure last."""
    rows = [(each.name.partition(" (")[0], each.figures.get(metric), each.is_model) for each in table.rows]
    return sorted(rows, key=lambda each: (-(each[1] if each[1] is not None else -9.0), each[0]))


def _figure(value: float | None) -> str:
    """A figure of a table; a dash where it could not be computed."""
    return "–" if value is None else f"{value:.3f}"


def _plain(value: float | None) -> str:
    return _figure(value) if value is None or abs(value) < 100 else f"{value:.3g}"


def _cell(value: str | int | float | None) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else _figure(value)


def _inert(value: object) -> object:
    """Text as it may stand in HTML: characters it forbids become U+FFFD; Jinja escapes the rest."""
    return (
        _FORBIDDEN.sub("\ufffd", value) if isinstance(value, str) and not isinstance(value, Markup) else value
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("bioattn.report"),
        autoescape=True,
        finalize=_inert,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {
        "bar_rows": _bar_rows,
        "cell": _cell,
        "check_curves": _check_curves,
        "contact_squares": contact_squares,
        "counted": counted,
        "figure": _figure,
        "listed": listed,
        "logo": logo,
        "metric_title": METRIC_TITLES.__getitem__,
        "minus": minus,
        "names": lambda mappings: list(dict.fromkeys(name for mapping in mappings for name in mapping)),
        "per_treatment_words": findings.per_treatment_words,
        "plain": _plain,
        "skipped_title": skipped_title,
        "short": short,
        "strip": strip,
        "thousands": lambda number: f"{number:,}",
        "training_charts": training_charts,
    }
    environment.globals |= {"headline_titles": HEADLINE_TITLES, "metric_titles": METRIC_TITLES}
    return environment


def write_page(path: Path, report: Report) -> None:
    """Write the page whole or not at all. Raises: BioattnError when the file cannot be written."""
    text = render_page(report)
    with text_output(path) as file:
        file.write(text)


def render_page(report: Report) -> str:
    """The page: the same report gives the same text."""
    data = {
        "promoters": None if report.browser is None else _promoters(report.browser),
        "similarity": None if report.browser is None else _similarity(report.browser),
        "alignments": [page.data() for page in report.pages],
    }
    style, script = _resource("report.css"), "\n".join(_resource(name) for name in SCRIPTS)
    return (
        _environment()
        .get_template("page.html")
        .render(
            report=report,
            sections=sections(report),
            policy=_policy(style, script),
            generator=f"bioattn {__version__}",
            style=Markup(style),
            script=Markup(script),
            data=data_block("report-data", data),
        )
    )


def data_block(identifier: str, content: Any) -> Markup:
    """JSON that scripts of the page read and browsers do not run; nothing in it can end the block."""
    text = json.dumps(content, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup('<script type="application/json" id="{}">{}</script>').format(identifier, Markup(text))


def _policy(style: str, script: str) -> str:
    """Nothing is loaded, sent or embedded; of styles and scripts those with these digests alone are used."""
    digests = [hashlib.sha256(text.encode()).digest() for text in (script, style)]
    script_digest, style_digest = (base64.b64encode(digest).decode() for digest in digests)
    return (
        f"default-src 'none'; script-src 'sha256-{script_digest}'; style-src 'sha256-{style_digest}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _resource(name: str) -> str:
    return (files("bioattn.report") / "templates" / name).read_text(encoding="utf-8")
