"""Where the lines, dots and letters of small drawings lie; the templates write them as SVG."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.formats.meme import position_information

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
    """Where the axis lies."""
    rows: list[Tick]
    columns: list[Tick]
    lines: list[tuple[str, str, float, float]]
    """Path, name, and where the name stands."""
    mark: float | None
    """Where a vertical line stands."""
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
    places = _legend_places([name for name, _ in series])
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


def _legend_places(names: Sequence[str]) -> list[tuple[float, int]]:
    places, x, row = [], LEFT, 0
    for name in names:
        needed = 40 + 8.5 * len(name)
        if x > LEFT and x + needed > WIDTH:
            x, row = LEFT, row + 1
        places.append((x, row))
        x += needed
    return places


class Strip(NamedTuple):
    """A dot for each of many names along one axis, 720 wide, piled where they would meet."""

    base: float
    dots: list[tuple[float, float, str]]
    """Where a dot lies, and its text."""
    columns: list[Tick]


def strip(values: Sequence[tuple[str, float]]) -> Strip:
    """Lay out the dots of names with values."""
    numbers = [value for _, value in values]
    low, high = min([0.0, *numbers]), max([0.05, *numbers])
    scale = (720.0 - 32.0) / (high - low)
    piles: dict[int, int] = {}
    dots = []
    for name, value in sorted(values, key=lambda each: each[1]):
        x_at = 16.0 + (value - low) * scale
        height = piles.get(round(x_at / 8), 0)
        piles[round(x_at / 8)] = height + 1
        dots.append((x_at, height, f"{name}: {value:.3f}"))
    step = min(9.0, 90.0 / max(piles.values(), default=1))
    base = max(piles.values(), default=1) * step + 6
    return Strip(
        base=base,
        dots=[(x_at, base - 5 - height * step, text) for x_at, height, text in dots],
        columns=[(16.0 + (tick - low) * scale, f"{tick:g}") for tick in ticks(low, high, 8)],
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
