"""Style of all figures: journal widths, letters of at least 6 pt, colours safe for colour-blind readers.

The colours of treatments and bases are those of Okabe & Ito (2008), maps are viridis, cividis or grey. Figures are
made without pyplot: nothing global changes, and a reader's matplotlibrc has no say, so the same data give the same
bytes.
"""

import functools
import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backend_bases import get_registered_canvas_class
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize, TwoSlopeNorm, to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.textpath import TextPath
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from bioattn.errors import SettingsError
from bioattn.io.files import atomic_output

PAGE_HEIGHT = 230.0
"""Height available above a legend on one page, in millimetres."""
FONT_SIZE = 7.0
SMALL_FONT = 6.0
"""Size of the smallest letters in points."""

BLACK, BLUE, ORANGE, GREEN = "#000000", "#0072B2", "#D55E00", "#009E73"
PINK, SKY, AMBER = "#CC79A7", "#56B4E9", "#E69F00"
"""Okabe & Ito without their yellow, which is too light for a line on white."""
CYCLE = (BLUE, ORANGE, GREEN, PINK, SKY, AMBER, BLACK)
GREY = "#767676"
"""Grey that is dark enough for text on white."""
LIGHT_GREY = "#D0D0D0"
FLAT = 1e-3
"""A map whose values differ by less than this (of uniform attention, or of the largest) is flat."""
MANY_VALUES = 2_000
LEGEND_ROOM = 9.0
"""Millimetres that a legend's entry takes beside its name."""
SEQUENTIAL = "viridis"
DIVERGING = "PuOr_r"
RAISES, LOWERS = "#B35806", "#542788"
"""What raises a response and what lowers it: the colours near the ends of `DIVERGING`."""
HEAT_LABELS = {
    False: ("attention per base", "× uniform"),
    True: ("contribution per base", "units of the response (purple lowers it, orange raises it)"),
}
"""Quantity and unit of promoter maps in colours, by whether they are contributions."""

_SETTINGS: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.labelsize": FONT_SIZE,
    "axes.linewidth": 0.5,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlepad": 3.0,
    "axes.titlesize": FONT_SIZE,
    "figure.constrained_layout.h_pad": 0.02,
    "figure.constrained_layout.w_pad": 0.02,
    "figure.titlesize": FONT_SIZE,
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same letters on every machine
    "font.size": FONT_SIZE,
    "image.interpolation": "nearest",
    "legend.fontsize": SMALL_FONT,
    "legend.frameon": False,
    "lines.linewidth": 0.9,
    "patch.linewidth": 0.5,
    "pdf.fonttype": 42,  # letters stay letters in Illustrator and Inkscape
    "svg.fonttype": "none",
    "svg.hashsalt": "bioattn",
    "text.parse_math": False,  # a treatment may be called "$5"
    "xtick.labelsize": SMALL_FONT,
    "xtick.major.size": 2.0,
    "xtick.major.width": 0.5,
    "ytick.labelsize": SMALL_FONT,
    "ytick.major.size": 2.0,
    "ytick.major.width": 0.5,
}

TITLE_LETTER = 1.5
"""Approximate width of a title's letter in millimetres."""


@contextmanager
def figure_style() -> Iterator[None]:
    """Inside the `with`, or as a decorator: Matplotlib has its defaults and the settings of this file."""
    with mpl.rc_context():
        mpl.rcdefaults()
        cast(Any, mpl.rcParams).update(_SETTINGS)
        yield


def new_figure(width: float, height: float) -> Figure:
    """An empty figure; width and height in millimetres."""
    figure = Figure(figsize=(width / 25.4, height / 25.4), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def panels(figure: Figure, number: int, rows: int, columns: int, **options: Any) -> NDArray[Any]:
    """A grid of axes (rows, columns), those behind the first `number` hidden; options: as `Figure.subplots`."""
    axes: NDArray[Any] = figure.subplots(rows, columns, squeeze=False, **options)
    for axis in axes.flat[number:]:
        axis.set_axis_off()
    return axes


@functools.lru_cache(maxsize=4096)
def text_width(text: str, size: float = SMALL_FONT) -> float:
    """Width of a line of text in millimetres; size in points."""
    if not text.strip():
        return 0.0
    path = TextPath((0, 0), text, size=size, prop=FontProperties(family="DejaVu Sans"), usetex=False)
    return float(path.get_extents().width) * 25.4 / 72


def set_title(figure: Figure, *sentences: str) -> None:
    """Write sentences above the figure, each on lines of its own that fit into its width."""
    letters = int(figure.get_size_inches()[0] * 25.4 / TITLE_LETTER)
    lines = [line for sentence in sentences for line in textwrap.wrap(sentence, letters)]
    figure.suptitle("\n".join(lines), x=0.01, ha="left")


def colour_of(number: int) -> str:
    """The colour of the series `number`, counted from 0; a second round is darker, a third paler."""
    lap, place = divmod(number, len(CYCLE))
    parts = np.array(to_rgb(CYCLE[place]))
    shades = (parts, 0.55 * parts + 0.1, 0.5 * parts + 0.3)
    red, green, blue = shades[lap % len(shades)].tolist()
    return to_hex((red, green, blue))


def data_limits(values: NDArray[np.float64]) -> tuple[float, float]:
    """Ends of a colour scale: the least and the largest value, of many the 0.5 % and 99.5 % quantiles.

    So a single bin does not stretch the scale. A scale that would begin just above 0 begins there; values that are
    all the same get a scale around them.
    """
    known = values[np.isfinite(values)]
    if not known.size:
        return 0.0, 1.0
    low, high = np.quantile(known, [0.005, 0.995] if known.size >= MANY_VALUES else [0, 1]).tolist()
    if high - low <= FLAT * max(abs(high), abs(low)):
        margin = abs(high) / 10 or 1.0
        return low - margin, high + margin
    return (0.0 if 0 < low < high / 10 else low), high


def heat(values: NDArray[np.float64], *, signed: bool) -> dict[str, Any]:
    """Colours of a map and their scale; of signed ones with 0 in the middle."""
    low, high = data_limits(values)
    if not signed:
        return {"cmap": SEQUENTIAL, "norm": Normalize(low, high)}
    largest = max(-low, high)
    return {"cmap": DIVERGING, "norm": TwoSlopeNorm(0, -largest, largest)}


def colour_bar(
    figure: Figure, image: ScalarMappable, axes: Any, label: str, values: NDArray[np.float64], **place: Any
) -> None:
    """Draw the colour scale of a map below or beside `axes`, with points where values lie beyond its ends."""
    low, high = image.get_clim()
    below, above = bool(np.nanmin(values) < low - 1e-9), bool(np.nanmax(values) > high + 1e-9)
    extend = {(False, False): "neither", (True, False): "min", (False, True): "max", (True, True): "both"}
    bar = figure.colorbar(image, ax=axes, extend=extend[below, above], ticks=MaxNLocator(nbins=5), **place)
    bar.set_label(label, fontsize=SMALL_FONT)


def legend_columns(width: float, names: Sequence[str]) -> int:
    """How many columns a legend has room for below a figure that is `width` millimetres wide."""
    longest = max(text_width(shortened(name, width - LEGEND_ROOM)) for name in names)
    return max(1, min(len(names), 4, int(width / (longest + LEGEND_ROOM))))


def bottom_legend(figure: Figure, handles: Sequence[Line2D], **options: Any) -> None:
    """Draw a legend below the axes, in as many columns as fit, with names cut to the width of the figure."""
    width = figure.get_size_inches()[0] * 25.4
    columns = legend_columns(width, [str(handle.get_label()) for handle in handles])
    for handle in handles:
        handle.set_label(shortened(str(handle.get_label()), width - LEGEND_ROOM))
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, **options)


def shortened(name: str, width: float) -> str:
    """A name cut to `width` millimetres in small letters, … where something is missing.

    >>> shortened("heat", 20), shortened("a name that is far too long", 20)[-1]
    ('heat', '…')
    """
    if text_width(name) <= width:
        return name
    fitting = (name[:length].rstrip() + "…" for length in range(len(name) - 1, 0, -1))
    return next((each for each in fitting if text_width(each) <= width), "…")


def bare(axis: Axes) -> None:
    """Remove ticks and frame of an axis."""
    axis.set_xticks([])
    axis.set_yticks([])
    axis.spines[:].set_visible(False)


def whole_ticks(ticks: Axis, number: int) -> None:
    """Set about `number` ticks at round whole numbers."""
    ticks.set_major_locator(MaxNLocator(nbins=number, integer=True, steps=[1, 2, 5, 10], min_n_ticks=2))


NAME_HEIGHT = 2.3
"""Millimetres between the lines of names of places."""


def name_ticks(axis: Axis, names: Sequence[str], room: float, first: int = 0) -> None:
    """Call the places `first`, … along an axis by their names: all where `room` millimetres are enough, else those
    of round numbers."""
    across = axis.axes is not None and axis is axis.axes.xaxis
    widest = max(map(text_width, names))
    shown: Sequence[int] = range(len(names))
    if len(names) * NAME_HEIGHT <= room:
        upright = across and len(names) * (widest + 1) > room
        axis.set_tick_params(rotation=90 if upright else 0)
    else:
        numbers = [int(found[1]) if (found := _NUMBER.search(name)) else 0 for name in names]
        widest = max(
            (text_width(name) for name, number in zip(names, numbers, strict=True) if number), default=widest
        )
        most = max(2.0, room / (widest + 4 if across else 3 * NAME_HEIGHT))
        step = next(step for step in _ROUND_STEPS if len(names) / step <= most)
        round_ones = [place for place in shown if numbers[place] and numbers[place] % step == 0]
        shown = round_ones if len(round_ones) > 1 else range(0, len(names), step)
    axis.set_ticks([place + first for place in shown], [names[place] for place in shown])


_ROUND_STEPS = [digit * 10**power for power in range(9) for digit in (1, 2, 5)]
_NUMBER = re.compile(r"(\d+)(?:-\d+)?$")
"""The number of a residue or of a token's first letter at the end of its name."""


def write_beside(
    axis: Axes, text: str, at: tuple[float, float], apart: tuple[float, float], **look: Any
) -> None:
    """Write small letters `apart` points from `at`, a fraction of the axes (unless `xycoords` says otherwise)."""
    look = {"xycoords": "axes fraction", "textcoords": "offset points", "fontsize": SMALL_FONT, **look}
    axis.annotate(text, at, xytext=apart, **look)


def position_label(zero: int | None) -> str:
    """The label of an axis of bases; zero: the window position of the gene's start, None where it is not known."""
    return "position in the window, bases" if zero is None else "position from the start of the gene, bases"


def signed(value: float, digits: int = 1) -> str:
    """A number with its sign and a typographic minus; a number that rounds to 0 has no sign.

    >>> signed(-1.25), signed(0.5), signed(-0.001)
    ('−1.2', '+0.5', '0.0')
    """
    rounded = round(value, digits)
    return f"{rounded:+.{digits}f}".replace("-", "−") if rounded else f"{0:.{digits}f}"


DPI = 300
"""Dots per inch of PNG, as journals ask for."""
_METADATA: dict[str, dict[str, Any]] = {
    ".png": {"Software": None},
    ".svg": {"Creator": None, "Date": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def require_figure_name(output: Path | str) -> None:
    """Raises: SettingsError when the name does not say which format is wanted."""
    if Path(output).suffix.lower() not in _METADATA:
        raise SettingsError(f"--output {output}: end its name in .png, .svg or .pdf")


def write_figure(figure: Figure, output: Path | str, dpi: int = DPI) -> None:
    """Save `figure` in the format of its file name. dpi: dots per inch of PNG, and of maps within SVG and PDF.

    The same figure gives the same bytes with one version of matplotlib.

    Raises: SettingsError for another name; BioattnError when the file cannot be written.
    """
    require_figure_name(output)
    output = Path(output)
    suffix = output.suffix.lower()
    with atomic_output(output) as temporary, figure_style():
        figure.set_dpi(dpi if suffix == ".png" else 72)
        # Laid out and drawn once; `savefig` draws twice.
        if (layout := figure.get_layout_engine()) is not None:
            layout.execute(figure)
        figure.set_layout_engine("none")
        for axis in figure.axes:  # the last digits of a layout differ between processes
            axis.set_position(np.round(axis.get_position().bounds, 7).tolist())
        figure.set_dpi(dpi)
        canvas = get_registered_canvas_class(suffix[1:])(figure)
        getattr(canvas, f"print_{suffix[1:]}")(temporary, metadata=_METADATA[suffix])
