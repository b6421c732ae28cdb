"""From a report to one HTML file, by Jinja templates, with a policy that lets the browser load nothing.

Names in the data are never trusted: all is escaped.

The scripts are given one JSON object, large arrays deflated and in base64.
"""

import base64
import hashlib
import json
import math
import zlib
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
from bioattn.checks.record import Curve
from bioattn.choices import MIN_SEPARATION
from bioattn.formats.meme import position_information
from bioattn.io.files import text_output
from bioattn.models.evaluation import HEADLINE_TITLES, METRIC_TITLES, Row, TrainingHistory
from bioattn.report import findings
from bioattn.report.alignments import TOUCHING, AlignmentPage
from bioattn.report.collection import Report
from bioattn.report.promoter_maps import STEPS, as_text, pack, pack_bytes, quantised
from bioattn.report.promoters import PromoterBrowser
from bioattn.store.kinds import ResultTable
from bioattn.text import counted, listed

Point = tuple[float, float | None]
Tick = tuple[float, str]
"""Where the number of an axis stands, and its text."""


def short(value: float, digits: int = 2) -> str:
    """A coordinate without zeros at its end."""
    return f"{value:.{digits}f}".rstrip("0").rstrip(".")


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers within a range.

    >>> ticks(0, 1)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    span = high - low
    if not math.isfinite(span) or span <= 0:
        return [low]
    rough = span / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(number * step, 10) for number in range(first, last + 1)]


WIDTH, LEFT, RIGHT, TOP = 460.0, 52.0, 24.0, 14.0
"""Of `Curves`, in the units of its drawing."""


class Curves(NamedTuple):
    """Lines over one axis with a legend, 460 wide."""

    height: float
    floor: float
    rows: list[Tick]
    columns: list[Tick]
    lines: list[tuple[str, str, float, float]]
    """Path, name, and where the name stands."""
    mark: float | None
    x_title: str
    y_title: str


def curves(
    series: Sequence[tuple[str, Sequence[Point]]],
    *,
    x_title: str,
    y_title: str = "",
    mark: float | None = None,
) -> Curves | None:
    """Lay out lines, parted where a value is not known; None where all are. mark: a place on the x axis."""
    xs = [x for _, points in series for x, _ in points]
    ys = [y for _, points in series for _, y in points if y is not None]
    if not xs or not ys:
        return None
    x_low, x_high, y_low, y_high = min(xs), max(xs), min(ys), max(ys)
    pad = (y_high - y_low or abs(y_high) or 1.0) * 0.06
    y_low, y_high = y_low - pad, y_high + pad
    places, x_next, row = [], LEFT, 0
    for name, _ in series:
        needed = 40 + 8.5 * len(name)
        if x_next > LEFT and x_next + needed > WIDTH:
            x_next, row = LEFT, row + 1
        places.append((x_next, row))
        x_next += needed
    bottom = 46.0 + 18 * (1 + places[-1][1])
    floor = 208.0
    x_scale = (WIDTH - LEFT - RIGHT) / ((x_high - x_low) or 1)
    y_scale = (floor - TOP) / (y_high - y_low)

    def at_x(x: float) -> float:
        return LEFT + (x - x_low) * x_scale

    def at_y(y: float) -> float:
        return floor - (y - y_low) * y_scale

    lines = []
    for (name, points), (x_legend, row) in zip(series, places, strict=True):
        steps, pen = [], "M"
        for x, y in points:
            if y is not None:
                steps.append(f"{pen}{short(at_x(x))} {short(at_y(y))}")
            pen = "M" if y is None else "L"
        lines.append(("".join(steps), name, x_legend, floor + 54 + 18 * row))
    return Curves(
        height=floor + bottom,
        floor=floor,
        rows=[(at_y(tick), f"{tick:g}") for tick in ticks(y_low, y_high)],
        columns=[(at_x(tick), f"{tick:g}") for tick in ticks(x_low, x_high, 6)],
        lines=lines,
        mark=None if mark is None or not x_low <= mark <= x_high else at_x(mark),
        x_title=x_title,
        y_title=y_title,
    )


LETTER, LOGO_HEIGHT = 22.0, 72.0
"""Width of a letter of a logo, and the height of 2 bits."""


def logo(probabilities: NDArray[np.floating]) -> list[tuple[str, str]]:
    """The letters of a logo of (W, 4) probabilities and how a glyph of 100 × 100 is moved to the place of each.

    Letters are as high as their part of the information, in bits against a uniform background.
    """
    matrix = np.asarray(probabilities, np.float64)
    matrix = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1e-12)
    letters = []
    for position, (row, information) in enumerate(zip(matrix, position_information(matrix), strict=True)):
        y = LOGO_HEIGHT
        for base in np.argsort(row, kind="stable"):
            tall = float(row[base] * information) / 2 * LOGO_HEIGHT
            if tall < 0.4:
                continue
            y -= tall
            place = f"translate({short(position * LETTER + 1)} {short(y)})"
            letters.append(("ACGT"[base], f"{place} scale({(LETTER - 2) / 100:.4f} {tall / 100:.4f})"))
    return letters


CONTACTS_WIDTH, CONTACTS_MARGIN = 360.0, 26.0
"""Of the drawing of contacts, and where its map begins."""


class ContactSquares(NamedTuple):
    """The likeliest pairs of a protein above the diagonal, contacts of its structure below, on 360 × 360."""

    pairs: list[tuple[int, int]]
    right: int
    squares: list[tuple[float, float, str, str]]
    """Left, top, class and text."""
    side: str
    ticks: list[tuple[float, int]]
    apart: int


def contact_squares(page: AlignmentPage) -> ContactSquares:
    """Lay out the contacts of a page that has predicted ones."""
    assert page.contact is not None
    size = len(page.sequence)
    probability_RR = _unpacked(page.contact, size) / 255
    touches_RR = None if page.truth is None else _unpacked(page.truth, size) == TOUCHING
    columns = np.array(page.columns)
    far_RR = np.triu(np.abs(columns[:, None] - columns[None]) >= MIN_SEPARATION)
    order = np.argsort(-probability_RR[far_RR], kind="stable")[:size]
    pairs = [(i, j) for i, j in np.argwhere(far_RR)[order].tolist()]
    step = (CONTACTS_WIDTH - CONTACTS_MARGIN) / max(1, size)

    def square(row: int, column: int, kind: str, text: str) -> tuple[float, float, str, str]:
        i, j = sorted((row, column))
        names = f"{page.sequence[i]}{columns[i]} and {page.sequence[j]}{columns[j]}"
        return CONTACTS_MARGIN + column * step, CONTACTS_MARGIN + row * step, kind, names + text

    right = [touches_RR is None or bool(touches_RR[pair]) for pair in pairs]
    squares = [
        square(i, j, "f0" if touches else "f1", f": probability {probability_RR[i, j]:.2f}")
        for (i, j), touches in zip(pairs, right, strict=True)
    ]
    if touches_RR is not None:
        squares += [square(j, i, "bar", " touch") for i, j in np.argwhere(far_RR & touches_RR).tolist()]
    # Columns with a round number.
    rounds = ticks(page.columns[0], page.columns[-1], 6) if size > 1 else page.columns
    return ContactSquares(
        pairs=pairs,
        right=sum(right),
        squares=squares,
        side=f"{max(2.0, step):.1f}",
        ticks=[(CONTACTS_MARGIN + (i + 0.5) * step, at) for i, at in enumerate(page.columns) if at in rounds],
        apart=MIN_SEPARATION,
    )


def _unpacked(text: str, size: int) -> NDArray[np.uint8]:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8).reshape(size, size)


MEAN_PROMOTER = "(mean of all promoters)"
MAX_CLUSTERED = 1500
"""Treatments up to which they are put in the order of a tree; beyond it they stay in the file's."""


def _promoters(browser: PromoterBrowser) -> dict[str, Any]:
    maps = as_text(pack([quantised(site.profile_THK) for site in browser.sites]))
    return {
        "length": browser.window_length,
        "zero": browser.zero,
        "countedFrom": browser.counted_from,
        "task": browser.task,
        "treatments": browser.treatments,
        "steps": STEPS,
        "sites": [
            {
                "name": site.name,
                "quantity": str(site.quantity),
                "signed": site.quantity.signed,
                "treatments": site.treatments,
                "heads": site.heads,
                "edges": site.key_edges.tolist(),
                "receptiveField": site.receptive_field,
            }
            for site in browser.sites
        ],
        "attribution": browser.attribution,
        "mean": {"id": MEAN_PROMOTER, "maps": maps},
        "genes": [asdict(gene) for gene in browser.genes],
        # Names of fields once, not five thousand times.
        "lines": browser.lines if len(browser.lines) > len(browser.genes) else [],
    }


def _similarity(browser: PromoterBrowser) -> dict[str, Any] | None:
    site = browser.sites[0]
    if len(site.treatments) < 2:
        return None
    name = "Contributions" if site.quantity.signed else "Attention weights"
    about = "Correlation of two treatments' maps over all promoters and bins"
    without = f"{about}, without the profile that all promoters share (each treatment's mean map)."
    matrices = [
        (f"{name} without the shared profile", without, site.specific_similarity_TT),
        (f"{name} as they are", f"{about}.", site.similarity_TT),
    ]
    shown = []
    for title, about, values in matrices:
        order = cluster_order(values).tolist()
        packed = pack_bytes((values + 1) * 127)
        shown.append({"title": title, "about": about, "order": order, "values": packed})
    return {"names": site.treatments, "matrices": shown}


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
            mark, values = None, history.columns.get(f"validation_{title}")
            # Where the weights that were kept are the best of the curve that is drawn.
            if values is not None and not np.isnan(values).all():
                best = np.nanargmin(values) if title == "loss" else np.nanargmax(values)
                mark = history.best if history.steps[int(best)] == history.best else None
            chart = curves(series, x_title=history.time, mark=mark)
            yield chart, f"{shown} while training {name}", f"{name}: {shown}."


def _check_curves(curve: Curve) -> Curves | None:
    lines = (("highest in the map first", curve.top), ("at random", curve.random))
    series = [(name, list(zip(curve.fraction, values, strict=True))) for name, values in lines]
    return curves(series, x_title="part of the windows", y_title="change of the answer")


def _bar_rows(rows: Sequence[Row], metric: str) -> list[tuple[str, float | None, bool]]:
    """Predictors without their settings, the best first, those without a figure last."""
    bars = [(each.plain_name, each.figure(metric), each.is_model) for each in rows]
    return sorted(bars, key=lambda each: (-(each[1] if each[1] is not None else -9.0), each[0]))


def _figure(value: float | None) -> str:
    """A figure of a table; a dash where it could not be computed."""
    return "–" if value is None else f"{value:.3f}"


def _plain(value: float | None) -> str:
    return _figure(value) if value is None or abs(value) < 100 else f"{value:.3g}"


def _cell(value: str | int | float | None) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else _figure(value)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("bioattn.report"),
        autoescape=True,
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
        "minus": findings.minus,
        "per_treatment_words": findings.per_treatment_words,
        "plain": _plain,
        "short": short,
        "thousands": lambda number: f"{number:,}",
        "training_charts": training_charts,
    }
    environment.globals |= {"headline_titles": HEADLINE_TITLES, "metric_titles": METRIC_TITLES}
    return environment


def write_page(path: Path, report: Report) -> None:
    """Write the page whole or not at all; the same report gives the same bytes.

    Raises: BioattnError when the file cannot be written.
    """
    data = {
        "promoters": None if report.browser is None else _promoters(report.browser),
        "similarity": None if report.browser is None else _similarity(report.browser),
        "alignments": [page.data() for page in report.pages],
    }
    # JSON that scripts of the page read and browsers do not run; nothing in it can end the block.
    block = Markup('<script type="application/json" id="{}">{}</script>')
    content = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        content = content.replace(character, f"\\u{ord(character):04x}")
    style, *scripts = (
        (files("bioattn.report") / "templates" / name).read_text(encoding="utf-8")
        for name in ("report.css", *SCRIPTS)
    )
    script = "\n".join(scripts)
    digests = [hashlib.sha256(text.encode()).digest() for text in (script, style)]
    script_digest, style_digest = (base64.b64encode(digest).decode() for digest in digests)
    # Nothing is loaded, sent or embedded; of styles and scripts those with these digests alone are used.
    policy = (
        f"default-src 'none'; script-src 'sha256-{script_digest}'; style-src 'sha256-{style_digest}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    template = _environment().get_template("page.html")
    text = template.render(
        report=report,
        sections=sections(report),
        policy=policy,
        generator=f"bioattn {__version__}",
        style=Markup(style),
        script=Markup(script),
        data=block.format("report-data", Markup(content)),
    )
    with text_output(path) as file:
        file.write(text)
