"""Predicted structures: contacts beside the true ones, distances, pLDDT, aligned errors."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from bioattn.choices import CONTACT_DISTANCE, MIN_SEPARATION
from bioattn.errors import BioattnError, SettingsError
from bioattn.figures import style
from bioattn.figures.contact_prediction import (
    ContactPrediction,
    ContactTruth,
    read_contact_prediction,
    read_contact_truth,
)
from bioattn.structures.contacts import distances as distances_between
from bioattn.structures.predictions import (
    MAX_ALIGNED_ERROR,
    AlignedError,
    Confidence,
    Distances,
    read_distances,
    read_plddt,
)

LOGGER = logging.getLogger("bioattn")
BANDS = (
    (90, 100, "#0053D6", "very high"),
    (70, 90, "#65CBF3", "high"),
    (50, 70, "#FFDB13", "low"),
    (0, 50, "#FF7D45", "very low"),
)
"""AlphaFold DB's colours and words for pLDDT."""
COLUMN = "column of the alignment"
"""Label of an axis over columns, from 1."""


def _draw_square(
    axis: Axes, values_RR: NDArray[np.float64], letters: str, room: float, label: str = COLUMN, **look: Any
) -> AxesImage:
    """Pairs of residues, whose numbers are on both axes, each `room` millimetres long."""
    axis.spines[:].set_visible(True)
    axis.set_xlabel(label)
    axis.set_ylabel(label)
    names = [f"{'' if letter in '-X' else letter}{place}" for place, letter in enumerate(letters, start=1)]
    for side in (axis.xaxis, axis.yaxis):
        style.name_ticks(side, names, room, first=1)
    end = len(letters) + 0.5
    return axis.imshow(values_RR, extent=(0.5, end, end, 0.5), **look)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContactComparison:
    """The L best pairs against the truth; columns from 0."""

    right: NDArray[np.intp]
    """(N, 2) pairs among the L best that are contacts, i < j."""
    wrong: NDArray[np.intp]
    """(M, 2) pairs among the L best that are not contacts."""
    missed: NDArray[np.intp]
    """(K, 2) contacts that are not among the L best."""
    precision_l: float
    """Precision among the L best; NaN where no pair can be scored."""
    precision_l5: float
    length: int
    """L, the number of columns with a residue in the structure."""


def compare_contacts(prediction: ContactPrediction, truth: ContactTruth) -> ContactComparison:
    """The L best predicted pairs, at least six columns apart and both in the structure, against the truth."""
    first, second = np.nonzero(np.triu(truth.known))
    values = prediction.scores[first, second]
    # Ties in the order of i, then j; pairs that the file left out come last.
    order = np.argsort(-np.where(np.isnan(values), -np.inf, values), kind="stable")
    first, second = first[order], second[order]
    is_contact = truth.contacts[first, second]
    best = np.zeros(len(first), dtype=np.bool_)
    best[: truth.length] = True
    pairs = np.stack([first, second], axis=1)
    fifth = is_contact[: max(1, truth.length // 5)]
    return ContactComparison(
        right=pairs[best & is_contact],
        wrong=pairs[best & ~is_contact],
        missed=pairs[~best & is_contact],
        precision_l=float(is_contact[best].mean()) if best.any() else float("nan"),
        precision_l5=float(fifth.mean()) if fifth.size else float("nan"),
        length=truth.length,
    )


class ContactPicture(NamedTuple):
    """A prediction and, where it is known, the truth."""

    prediction: ContactPrediction
    truth: ContactTruth | None = None

    @property
    def compared(self) -> ContactComparison | None:
        """The best pairs against the truth."""
        return None if self.truth is None else compare_contacts(self.prediction, self.truth)

    def record(self) -> dict[str, Any]:
        """The figures of the run record; null where no pair can be scored."""
        compared = self.compared
        if compared is None:
            return {}
        figures = {"P@L": compared.precision_l, "P@L/5": compared.precision_l5}
        judged = len(compared.right) + len(compared.wrong) > 0
        return {"L": compared.length} | {
            name: round(value, 6) if judged else None for name, value in figures.items()
        }


def read_contact_picture(
    path: Path,
    *,
    truth: Path | None = None,
    chain: str | None = None,
    sample: str | None = None,
) -> ContactPicture:
    """Read a prediction by `read_contact_prediction`, and its truth by `read_contact_truth`."""
    _require_truth(truth, chain)
    predicted = read_contact_prediction(path, sample)
    if truth is None:
        return ContactPicture(predicted)
    known = read_contact_truth(truth, predicted, chain=chain, sample=sample)
    compared = compare_contacts(predicted, known)
    right = len(compared.right)
    LOGGER.info(f"of the {right + len(compared.wrong)} best pairs {right} are contacts")
    return ContactPicture(predicted, known)


def _require_truth(truth: Path | None, chain: str | None) -> None:
    if truth is None and chain is not None:
        raise SettingsError("--chain chooses from a structure; give that too")


@style.figure_style()
def draw_contact_map(picture: ContactPicture, width: float) -> Figure:
    """Draw the map, `width` millimetres wide; without a truth both halves show the prediction."""
    prediction, truth = picture
    comparison = picture.compared
    figure = style.new_figure(width, width * 0.92 + (5 if comparison is None else 10))
    axis: Axes = figure.add_subplot(label="contacts")
    # Neighbours in the chain always touch: they are in no ranking.
    column = np.arange(len(prediction.letters))
    apart = column[None] - column[:, None]
    hidden = (apart if truth is not None else np.abs(apart)) < MIN_SEPARATION
    shown = np.where(hidden, np.nan, prediction.scores)
    low, high, label = 0.0, 1.0, "contact probability"
    if prediction.quantity != "probability":
        label = "score"
        low, high = np.nanquantile(prediction.scores, [0.5, 0.999]).tolist()
    look: dict[str, Any] = {"cmap": "Greys", "vmin": low, "vmax": high, "alpha": 0.9}
    image = _draw_square(axis, shown, prediction.letters, 0.7 * width, **look)
    axis.axline((0.5, 0.5), slope=1, color=style.BLACK, linewidth=0.5)
    if comparison is None or truth is None:
        style.set_title(figure, f"{prediction.name}: predicted contacts")
    else:
        _draw_truth(axis, truth, comparison, width * 72 / 25.4 * 0.8 / len(column))
        engine = figure.get_layout_engine()
        assert isinstance(engine, ConstrainedLayoutEngine)
        engine.set(h_pad=0.05)
        near = f" (CB < {CONTACT_DISTANCE:g} Å)" if truth.cb is not None else ""
        handles = [
            Line2D([], [], linestyle="", marker=marker, color=colour, markersize=3, label=title.format(near))
            for _, marker, colour, _, title in _MARKS
        ]
        style.bottom_legend(figure, handles, columnspacing=1.5, handletextpad=0.1, borderpad=0.3)
        figures = f"P@L {comparison.precision_l:.2f}, P@L/5 {comparison.precision_l5:.2f}"
        style.set_title(figure, f"{style.shortened(prediction.name, width / 2)}: {figures}")
    bar = figure.colorbar(image, ax=axis, location="right", shrink=0.6, aspect=25, pad=0.02)
    bar.set_label(label, fontsize=style.SMALL_FONT)
    return figure


_MARKS = (
    ("right", "o", style.BLUE, 0.5, "best pair, right"),
    ("found", "D", style.BLUE, 0.5, "contact{}, found"),
    ("wrong", "x", style.ORANGE, 0.7, "best pair, wrong"),
    ("missed", "+", style.BLACK, 0.8, "contact, missed"),
)
"""Name, marker, colour, share of a column's width and legend of pairs."""


def _draw_truth(axis: Axes, truth: ContactTruth, comparison: ContactComparison, cell: float) -> None:
    """Mark the best pairs above and the contacts below the diagonal. cell: points a column takes."""
    side = max(cell, 1.3)
    size = len(truth.contacts)
    unknown = np.flatnonzero(~truth.known.any(axis=1)) if truth.cb is not None else np.empty(0, np.intp)
    for column in unknown.tolist():
        # Below the diagonal only: the prediction has pairs there.
        low, high = column + 0.5, column + 1.5
        for ends, bottom in (([0.5, high], high), ([low, high], size + 0.5)):
            axis.fill_between(ends, low, bottom, color=style.LIGHT_GREY, alpha=0.4, linewidth=0)
    places = comparison.right[:, ::-1], comparison.right, comparison.wrong[:, ::-1], comparison.missed
    for pairs, (name, marker, colour, share, _) in zip(places, _MARKS, strict=True):
        look: dict[str, Any] = {"s": side**2 * share, "marker": marker, "color": colour, "label": name}
        axis.scatter(*(pairs.T + 1), linewidths=0.7 if marker in "x+" else 0, **look)


def expected_and_true(distances: Distances, cb: NDArray[np.float32] | None) -> NDArray[np.float64]:
    """(R, R) ångström over all match columns: expected above the diagonal, true below, NaN where not known.

    cb: (R, 3), NaN where a column has no residue in the structure; None = expected on both sides.
    """
    size = len(distances.letters)
    expected = np.full((size, size), np.nan)
    expected[np.ix_(distances.columns, distances.columns)] = distances.expected_distance
    if cb is None:
        return expected
    known = distances_between(cb).astype(np.float64)
    return np.where(np.tri(size, k=-1, dtype=bool), known, expected)


class DistogramPicture(NamedTuple):
    """Predicted distances, and where it is known the structure."""

    distances: Distances
    cb: NDArray[np.float32] | None = None
    """(R, 3) ångström, NaN where a column has no residue in the structure."""


def read_distogram(path: Path, *, truth: Path | None = None, chain: str | None = None) -> DistogramPicture:
    """Read `distogram.h5` or the folder of it, and true distances by `read_contact_truth`.

    Raises: BioattnError for a truth that is a table.
    """
    _require_truth(truth, chain)
    distances = read_distances(path)
    if truth is None:
        return DistogramPicture(distances)
    known = read_contact_truth(truth, read_contact_prediction(path), chain=chain)
    if known.cb is None:
        raise BioattnError(f"{truth}: a table of contacts has no distances; give a structure")
    return DistogramPicture(distances, known.cb)


@style.figure_style()
def draw_distogram(picture: DistogramPicture, width: float) -> Figure:
    """Draw the distances, `width` millimetres wide."""
    distances, cb = picture
    figure = style.new_figure(width, width * 0.8 + 8)
    axis = figure.add_subplot(label="distogram")
    shown = expected_and_true(distances, cb)
    look: dict[str, Any] = {"cmap": "viridis_r", "vmin": 2, "vmax": float(distances.bin_edges[-1])}
    image = _draw_square(axis, shown, distances.letters, 0.7 * width, **look)
    bar = figure.colorbar(image, ax=axis, shrink=0.7, aspect=25, extend="max")
    bar.set_label("distance between CB, Å", fontsize=style.SMALL_FONT)
    axis.set_title("expected distance" if cb is None else "above: expected distance, below: true")
    axis.axline((0.5, 0.5), slope=1, color=style.BLACK, linewidth=0.4)
    style.set_title(figure, distances.name)
    return figure


class PlddtChains(NamedTuple):
    """pLDDT of one chain or several."""

    chains: Sequence[Confidence]

    def record(self) -> dict[str, Any]:
        """The figures of the run record."""
        return {"mean_plddt": {chain.name: round(float(chain.plddt.mean()), 3) for chain in self.chains}}


def read_plddt_chains(paths: Sequence[Path], *, chain: str | None = None) -> PlddtChains:
    """Read pLDDT of predictions, by `read_plddt`. chain: of structures."""
    return PlddtChains([read_plddt(path, chain) for path in paths])


@style.figure_style()
def draw_aligned_error(error: AlignedError, width: float) -> Figure:
    """Draw the map, `width` millimetres wide: aligned residue down, scored residue across."""
    name, errors_RR = error
    figure = style.new_figure(width, width * 0.88 + 5)
    axis = figure.add_subplot(label="pae")
    look: dict[str, Any] = {"cmap": "Greens_r", "vmin": 0, "vmax": MAX_ALIGNED_ERROR}
    image = _draw_square(axis, errors_RR, "X" * len(errors_RR), 0.75 * width, "scored residue", **look)
    axis.set_ylabel("aligned residue")
    style.colour_bar(figure, image, axis, "expected error, Å", errors_RR, shrink=0.7, aspect=25)
    style.set_title(figure, f"{name}: predicted aligned error")
    return figure


@style.figure_style()
def draw_plddt(predicted: PlddtChains, width: float) -> Figure:
    """Draw pLDDT by residue number, `width` millimetres wide: a line for each chain over AlphaFold DB's bands."""
    (chains,) = predicted
    figure = style.new_figure(width, 55 + 4 * len(chains))
    axis = figure.add_subplot(label="plddt")
    for low, high, colour, word in BANDS:
        axis.axhspan(low, high, color=colour, alpha=0.25, linewidth=0)
        style.write_beside(axis, word, (1, (low + high) / 200), (3, 0), va="center", annotation_clip=False)
    handles = []
    for number, chain in enumerate(chains):
        colour = style.BLACK if len(chains) == 1 else style.colour_of(number)
        # A break in the numbers is a break in the line.
        numbers = np.asarray(chain.numbers, dtype=np.float64)
        gaps = np.flatnonzero(np.abs(np.diff(numbers)) > 1) + 1
        label = f"{chain.name} (mean {chain.plddt.mean():.1f})"
        broken = (np.insert(values, gaps, np.nan) for values in (numbers, chain.plddt))
        handles += axis.plot(*broken, color=colour, label=label)
    axis.set_ylim(0, 100)
    axis.margins(x=0)
    axis.set_xlabel("residue")
    axis.set_ylabel("pLDDT")
    style.whole_ticks(axis.xaxis, 8)
    style.bottom_legend(figure, handles)
    return figure
