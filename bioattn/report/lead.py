"""What a page shows first: one promoter with its tracks, letters and predictions, or the contacts of one protein.

Shape suffixes: T treatments, K bins, L bases, R match columns that the model saw.
"""

import base64
import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bioattn.report.alignment_pages import TOUCHING, AlignmentPage
from bioattn.report.charts import line, svg_element, tick_text, ticks
from bioattn.report.markup import Markup, element, join
from bioattn.structures.contacts import MIN_SEPARATION
from bioattn.text import counted

LETTERS_SHOWN = 40
TRACKS_SHOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadTrack:
    """One treatment of the promoter shown first."""

    treatment: str
    weights_K: NDArray[np.float64]
    contributions_L: NDArray[np.float64] | None
    """Of each base to the response; None where they are not known."""
    predicted: float | None
    measured: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadPromoter:
    """The promoter shown first: that of the most treatment-specific response, or the first one asked for."""

    title: str
    place: str
    """On the chromosome; empty where not known."""
    split: str
    sequence: str
    """Empty where not known."""
    key_edges: NDArray[np.int64]
    tracks: list[LeadTrack]
    best: int
    """The track of the most specific response."""


def promoter_lead(lead: LeadPromoter) -> Markup:
    """Tracks, letters around the highest peak, and predictions beside measurements."""
    best = lead.tracks[lead.best]
    peak = int(best.weights_K.argmax())
    length = int(lead.key_edges[-1])
    start, end = int(lead.key_edges[peak]), int(lead.key_edges[peak + 1])
    held_out = lead.split in ("test", "validation")
    training = " The model was not trained on this gene." if held_out else ""
    words = f"The higher a curve, the more the model looks there.{training} "
    if any(track.contributions_L is not None for track in lead.tracks):
        words += (
            "Below a curve: what raises (orange, up) and what lowers (purple, down) the predicted response. "
        )
    subject = f"For {best.treatment} it" if len(lead.tracks) > 1 else "It"
    words += f"{subject} looks most at bases {minus(start - length)} to {minus(end - 1 - length)}"
    if best.predicted is not None:
        words += f" and predicts {minus(best.predicted, 2)}"
        words += "" if best.measured is None else f"; {minus(best.measured, 2)} was measured"
    words += "."
    if best.measured is not None:
        words += " Bars: predicted responses; lines across them: measured ones."
    largest = max(float(track.weights_K.max()) for track in lead.tracks)
    contributed = [track.contributions_L for track in lead.tracks if track.contributions_L is not None]
    most = max((float(np.abs(values).max()) for values in contributed), default=0.0)
    answers = [value for track in lead.tracks for value in (track.predicted, track.measured)]
    scale = max((abs(value) for value in answers if value is not None), default=0.0) or 1.0
    tracks = (
        _track(track, number, lead.key_edges, largest, most, scale)
        for number, track in enumerate(lead.tracks)
    )
    labels = [minus(-length), minus(-(length // 2)), "0 = end of the window"]
    axis = element("p", *(element("span", text) for text in labels), class_="lead-axis muted")
    return element(
        "figure",
        element("h3", lead.title, element("span", f" {lead.place}", class_="muted")),
        element("div", *tracks, element("p", "", class_="lead-name"), axis, class_="lead-tracks"),
        _letters(lead.sequence, start, end),
        element("figcaption", words),
        class_="lead",
    )


def _track(
    track: LeadTrack, number: int, key_edges: NDArray[np.int64], largest: float, most: float, scale: float
) -> Markup:
    height = 44.0
    steps = [f"M{key_edges[0]} {height:g}"]
    for left, right, weight in zip(key_edges[:-1], key_edges[1:], track.weights_K, strict=True):
        y = height - 2 - float(weight) / (largest or 1.0) * (height - 4)
        steps.append(f"L{left} {y:.1f}H{right}")
    outline = "".join(steps) + f"V{height:g}"
    drawing = svg_element(
        int(key_edges[-1]),
        height,
        f"Attention for {track.treatment}",
        line(outline, f"area f{number % 7}"),
        line(outline, f"edge s{number % 7}", vector_effect="non-scaling-stroke"),
        class_="stretched",
        preserveAspectRatio="none",
    )
    answer = None
    if track.predicted is not None:
        said = f"predicted {minus(track.predicted, 2)}"
        said += "" if track.measured is None else f", measured {minus(track.measured, 2)}"
        answer = element("span", said, _answer_bar(track, number, scale, said), class_="muted")
    name = element("p", element("strong", track.treatment), answer, class_="lead-name")
    return join([name, element("div", drawing, _contributions(track, most))])


def _contributions(track: LeadTrack, most: float) -> Markup | None:
    """Bars up and down, `most` being half of the height; runs of equal values are one bar."""
    if track.contributions_L is None:
        return None
    values, half = track.contributions_L, 14.0
    starts = np.flatnonzero(np.diff(values, prepend=np.nan))
    bars = {"up": "", "down": ""}
    for start, end, value in zip(starts, [*starts[1:], len(values)], values[starts], strict=True):
        tall = float(value) / (most or 1.0) * (half - 1)
        bars["up" if value > 0 else "down"] += f"M{start} {half:g}v{-tall:.1f}H{end}v{tall:.1f}Z"
    return svg_element(
        len(values),
        2 * half,
        f"What bases contribute to the response to {track.treatment}",
        line(f"M0 {half:g}H{len(values)}", "grid", vector_effect="non-scaling-stroke"),
        *(line(path, name) for name, path in bars.items()),
        class_="stretched contributed",
        preserveAspectRatio="none",
    )


def _answer_bar(track: LeadTrack, number: int, scale: float, label: str) -> Markup:
    """The prediction as a bar from 0, the measurement as a line across it."""
    value = 100 * (track.predicted or 0.0) / scale
    left, width = f"{min(0.0, value):.1f}", f"{abs(value):.1f}"
    bar = element("rect", x=left, y=3, width=width, height=8, class_=f"f{number % 7}")
    drawn = [bar, line("M0 0V14", "axis")]
    if track.measured is not None:
        drawn.append(line(f"M{100 * track.measured / scale:.1f} 0V14", "whisker"))
    return element("svg", *drawn, viewBox="-104 0 208 14", role="img", aria_label=label, class_="answer")


def _letters(sequence: str, start: int, end: int) -> Markup | None:
    if not sequence:
        return None
    shown = min(LETTERS_SHOWN, len(sequence))
    first = max(0, min(len(sequence) - shown, (start + end - shown) // 2))
    bases = [
        element("span", base, class_=f"base-{base}" + (" peak" if start <= place < end else ""))
        for place, base in enumerate(sequence[first : first + shown], start=first)
    ]
    from_to = f"{minus(first - len(sequence))} to {minus(first + shown - 1 - len(sequence))}"
    return element("p", element("span", f"bases {from_to}: ", class_="muted"), *bases, class_="lead-letters")


def contact_lead(page: AlignmentPage) -> Markup | None:
    """The likeliest pairs of a protein above the diagonal, contacts of its structure below; None without pairs."""
    if page.contact is None:
        return None
    size = len(page.sequence)
    probability_RR = _unpacked(page.contact, size) / 255
    truth_RR = None if page.truth is None else _unpacked(page.truth, size)
    columns = np.array(page.columns)
    far_RR = np.triu(np.abs(columns[:, None] - columns[None]) >= MIN_SEPARATION)
    pairs = np.argwhere(far_RR)
    order = np.argsort(-probability_RR[far_RR], kind="stable")[:size]
    margin, width = 26.0, 360.0
    step = (width - margin) / max(1, size)
    drawn: list[Markup] = []

    def square(row: int, column: int, class_: str, title: str) -> None:
        x, y = f"{margin + column * step:.1f}", f"{margin + row * step:.1f}"
        side = f"{max(2.0, step):.1f}"
        drawn.append(
            element("rect", element("title", title), x=x, y=y, width=side, height=side, class_=class_)
        )

    right = 0
    for i, j in pairs[order].tolist():
        touches = truth_RR is not None and truth_RR[i, j] == TOUCHING
        right += touches
        kind = "f0" if truth_RR is None or touches else "f1"
        name = f"{page.sequence[i]}{columns[i]} and {page.sequence[j]}{columns[j]}"
        square(i, j, kind, f"{name}: probability {probability_RR[i, j]:.2f}")
    if truth_RR is not None:
        for i, j in np.argwhere(far_RR & (truth_RR == TOUCHING)).tolist():
            square(j, i, "bar", f"{page.sequence[i]}{columns[i]} and {page.sequence[j]}{columns[j]} touch")
    drawn.append(line(f"M{margin:g} {margin:g}L{width:g} {width:g}", "grid"))
    # Places of columns with a round number.
    rounds = ticks(page.columns[0], page.columns[-1], 6) if size > 1 else page.columns
    for place, column in enumerate(page.columns):
        if column in rounds:
            at = margin + (place + 0.5) * step
            drawn.append(tick_text(at, margin - 6, str(column), "middle"))
            drawn.append(tick_text(margin - 5, at + 4, str(column), "end"))
    drawn.append(line(f"M{margin:g} {width:g}V{margin:g}H{width:g}", "axis"))
    words = f"{page.id}: the {counted(len(order), 'pair')} of residues that most likely touch"
    words += f", at least {MIN_SEPARATION} columns apart."
    if truth_RR is not None:
        words += (
            f" Blue: they touch in the structure ({right} of {len(order)}); orange: they do not. Below the "
            "diagonal, grey: all pairs that touch in the structure."
        )
    drawing = svg_element(width, width, words, *drawn, class_="chart contacts")
    return element("figure", drawing, element("figcaption", words), class_="lead")


def _unpacked(text: str, size: int) -> NDArray[np.uint8]:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8).reshape(size, size)


def minus(value: float, decimals: int = 0) -> str:
    """A number with a typographic minus."""
    return f"{value:.{decimals}f}".replace("-", "−")
