"""Small drawings in SVG that need no script: bars, curves, intervals, sequence logos. Colours come from the
style sheet.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bioattn.formats.motifs import position_information
from bioattn.report.markup import Child, Markup, element, join

Point = tuple[float, float | None]


def figure(drawing: Markup, caption: str) -> Markup:
    return element("figure", drawing, element("figcaption", caption))


def svg_element(
    width: float, height: float, label: str, *children: Child, class_: str = "chart", **attributes: str
) -> Markup:
    """A drawing of its own coordinates, with a name for screen readers."""
    return element(
        "svg",
        *children,
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        aria_label=label,
        class_=class_,
        **attributes,
    )


def line(d: str, class_: str, **attributes: str) -> Markup:
    return element("path", d=d, class_=class_, **attributes)


def tick_text(x: float, y: float, words: str, anchor: str = "start") -> Markup:
    """Small words, such as the number of a tick."""
    return element("text", words, x=_n(x), y=_n(y), text_anchor=anchor, class_="tick")


def _n(value: float, digits: int = 2) -> str:
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


def bars(
    rows: Sequence[tuple[str, float | None, bool]], label: str, interval: tuple[float, float] | None
) -> Markup:
    """Horizontal bars with their figures: (name, value, highlighted); the interval is of the highlighted ones."""
    known = [value for _, value, _ in rows if value is not None]
    low, high = min([0.0, *known]), max([0.05, *known, *(interval or ())])
    drawn: list[Markup] = []
    for name, value, ours in rows:
        strong = "strong" if ours else None
        drawn.append(element("span", name, class_=strong))
        if value is None:
            drawn += [element("span", ""), element("span", "cannot be computed", class_="muted")]
            continue
        left, width = min(0.0, value), max(abs(value), (high - low) / 500)
        kind = "bar ours" if ours else "bar"
        bar = element("rect", x=_n(left, 4), y=2, width=_n(width, 4), height=12, class_=kind)
        whisker = None
        if ours and interval is not None:
            ends = f"M{_n(interval[0], 4)} 8H{_n(interval[1], 4)}"
            whisker = line(ends, "whisker", vector_effect="non-scaling-stroke")
        box = f"{_n(low, 4)} 0 {_n(high - low, 4)} 16"
        drawn.append(
            element("svg", bar, whisker, viewBox=box, preserveAspectRatio="none", aria_hidden="true")
        )
        drawn.append(element("span", f"{value:.3f}", class_=strong))
    return element("div", *drawn, class_="bars", role="group", aria_label=label)


def curves(
    series: Sequence[tuple[str, Sequence[Point]]],
    label: str,
    *,
    x_title: str,
    y_title: str = "",
    mark: float | None = None,
    mark_title: str = "",
) -> Markup:
    """Lines over one axis with a legend; `mark` is a place on the x axis worth a vertical line."""
    xs = [x for _, points in series for x, _ in points]
    ys = [y for _, points in series for _, y in points if y is not None]
    if not xs or not ys:
        return element("p", "Nothing was recorded.", class_="muted")
    x_low, x_high = min(xs), max(xs)
    y_low, y_high = min(ys), max(ys)
    pad = (y_high - y_low or abs(y_high) or 1.0) * 0.06
    y_low, y_high = y_low - pad, y_high + pad
    width, left, right, top = 460.0, 52.0, 24.0, 14.0
    legend = _legend_places([name for name, _ in series], left, width)
    bottom = 46.0 + 18 * (1 + legend[-1][1])
    height = 208.0 + bottom
    x_scale = (width - left - right) / ((x_high - x_low) or 1)
    y_scale = (height - top - bottom) / (y_high - y_low)

    def at(x: float, y: float) -> tuple[float, float]:
        return left + (x - x_low) * x_scale, height - bottom - (y - y_low) * y_scale

    drawn: list[Markup] = []
    for tick in ticks(y_low, y_high):
        _, y_at = at(x_low, tick)
        drawn.append(line(f"M{_n(left)} {_n(y_at)}H{_n(width - right)}", "grid"))
        drawn.append(tick_text(left - 6, y_at + 4, f"{tick:g}", "end"))
    for tick in ticks(x_low, x_high, 6):
        x_at, _ = at(tick, y_low)
        drawn.append(tick_text(x_at, height - bottom + 16, f"{tick:g}", "middle"))
    drawn.append(tick_text((left + width - right) / 2, height - bottom + 33, x_title, "middle"))
    if mark is not None and x_low <= mark <= x_high:
        x_at, _ = at(mark, y_low)
        drawn.append(line(f"M{_n(x_at)} {_n(top)}V{_n(height - bottom)}", "mark"))
        aside, anchor = (-5, "end") if x_at > width * 0.6 else (5, "start")
        drawn.append(tick_text(x_at + aside, top + 10, mark_title, anchor))
    for number, ((name, points), (x_legend, row)) in enumerate(zip(series, legend, strict=True)):
        steps, pen = [], "M"
        for x, y in points:
            if y is None:
                pen = "M"
                continue
            x_at, y_at = at(x, y)
            steps.append(f"{pen}{_n(x_at)} {_n(y_at)}")
            pen = "L"
        look = f"line s{number % 7} d{number % 7}"
        y_at = height - bottom + 54 + 18 * row
        drawn += [line("".join(steps), look), line(f"M{_n(x_legend)} {_n(y_at - 4)}h20", look)]
        drawn.append(tick_text(x_legend + 25, y_at, name))
    if y_title:
        drawn.append(tick_text(4, top - 3, y_title))
    return svg_element(width, height, label, *drawn)


def _legend_places(names: Sequence[str], left: float, width: float) -> list[tuple[float, int]]:
    places, x, line = [], left, 0
    for name in names:
        needed = 40 + 8.5 * len(name)
        if x > left and x + needed > width:
            x, line = left, line + 1
        places.append((x, line))
        x += needed
    return places


def interval_mark(
    value: float | None, interval: tuple[float, float] | None, threshold: float | None, passed: bool | None
) -> Markup:
    """A figure with its interval and the bar it is held to, on a scale of its own."""
    if value is None:
        return Markup("")
    places = [value, 0.0, *(interval or ()), *([threshold] if threshold is not None else [])]
    low, high = float(min(places)), float(max(places))
    span: float = (high - low) or 1.0

    def at(place: float) -> float:
        return 8.0 + 144 * (place - low) / span

    drawn = [line("M8 12H152", "grid")]
    if threshold is not None:
        drawn.append(line(f"M{_n(at(threshold))} 3V21", "mark"))
    if interval is not None:
        drawn.append(line(f"M{_n(at(interval[0]))} 12H{_n(at(interval[1]))}", "whisker"))
    state = "" if passed is None else " good" if passed else " bad"
    drawn.append(element("circle", cx=_n(at(value)), cy=12, r=4.5, class_=f"dot{state}"))
    return svg_element(160, 24, "", *drawn, class_="interval")


def strip(values: Sequence[tuple[str, float]], label: str, title: str) -> Markup:
    """A dot for each of many names along one axis, piled where they would meet."""
    numbers = [value for _, value in values]
    low, high = min([0.0, *numbers]), max([0.05, *numbers])
    width, left, right = 720.0, 16.0, 16.0
    scale = (width - left - right) / (high - low)
    piles: dict[int, int] = {}
    dots, tallest = [], 1
    for name, value in sorted(values, key=lambda each: each[1]):
        x_at = left + (value - low) * scale
        column = round(x_at / 8)
        height = piles.get(column, 0)
        piles[column] = height + 1
        tallest = max(tallest, height + 1)
        dots.append((x_at, height, name, value))
    step = min(9.0, 90.0 / tallest)
    base = tallest * step + 6
    drawn = [line(f"M{_n(left)} {_n(base)}H{_n(width - right)}", "axis")]
    for x_at, height, name, value in dots:
        label_of_dot, y_at = element("title", f"{name}: {value:.3f}"), base - 5 - height * step
        drawn.append(element("circle", label_of_dot, cx=_n(x_at), cy=_n(y_at), r=3.6, class_="dot soft"))
    for tick in ticks(low, high, 8):
        drawn.append(tick_text(left + (tick - low) * scale, base + 16, f"{tick:g}", "middle"))
    drawn.append(tick_text(width / 2, base + 32, title, "middle"))
    return svg_element(width, base + 38, label, *drawn)


_GLYPHS = {
    # Drawn on a square of 100, y downwards; logos stretch them.
    "A": "M0 100L38 0H62L100 100H78L70 76H30L22 100ZM36 58H64L50 16Z",
    "C": "M100 66C96 88 78 100 53 100C20 100 0 80 0 50C0 20 20 0 53 0C77 0 94 11 99 32L76 36C73 24 65 18 53 18"
    "C34 18 24 30 24 50C24 70 34 82 53 82C66 82 74 75 77 63Z",
    "G": "M53 46H100V86C88 95 72 100 55 100C20 100 0 80 0 50C0 20 21 0 55 0C78 0 93 9 99 27L76 33"
    "C72 23 65 18 54 18C34 18 24 30 24 50C24 71 35 82 56 82C64 82 72 80 78 76V63H53Z",
    "T": "M0 0H100V19H62V100H38V19H0Z",
}


def logo(probabilities: NDArray[np.floating], label: str) -> Markup:
    """A sequence logo of (W, 4) probabilities of A, C, G, T: letters as high as their part of the information, in
    bits against a uniform background."""
    matrix = np.asarray(probabilities, np.float64)
    matrix = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1e-12)
    bits = position_information(matrix)
    letter_width, height = 22.0, 72.0
    drawn = [line(f"M0 {_n(height)}H{_n(letter_width * len(matrix))}", "axis")]
    for position, (row, information) in enumerate(zip(matrix, bits, strict=True)):
        y = height
        for base in np.argsort(row, kind="stable"):
            tall = float(row[base] * information) / 2 * height
            if tall < 0.4:
                continue
            y -= tall
            place = f"translate({_n(position * letter_width + 1)} {_n(y)})"
            place += f" scale({(letter_width - 2) / 100:.4f} {tall / 100:.4f})"
            letter = "ACGT"[base]
            drawn.append(line(_GLYPHS[letter], f"base-{letter}", transform=place))
    return svg_element(letter_width * len(matrix), height + 1, label, join(drawn), class_="logo")
