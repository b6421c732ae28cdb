"""What a page shows first: one promoter with its tracks, letters and predictions, or the contacts of one protein.

Shape suffixes: T treatments, K bins, L bases, R match columns that the model saw.
"""

import base64
import zlib
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.report.alignment_pages import TOUCHING, AlignmentPage
from bioattn.report.charts import ticks
from bioattn.structures.contacts import MIN_SEPARATION

LETTERS_SHOWN = 40
TRACKS_SHOWN = 4
WIDTH, MARGIN = 360.0, 26.0
"""Of the drawing of contacts, and where its map begins."""


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

    @property
    def length(self) -> int:
        """Bases of the window."""
        return int(self.key_edges[-1])

    @property
    def peak(self) -> tuple[int, int]:
        """First base of the bin looked at most for the best treatment, and the base behind it."""
        place = int(self.tracks[self.best].weights_K.argmax())
        return int(self.key_edges[place]), int(self.key_edges[place + 1])

    @property
    def first_letter(self) -> int:
        """The first base that is written as a letter, so that the peak is in the middle."""
        shown = min(LETTERS_SHOWN, len(self.sequence))
        return max(0, min(len(self.sequence) - shown, (sum(self.peak) - shown) // 2))

    @property
    def letters(self) -> str:
        """The bases around the peak."""
        return self.sequence[self.first_letter : self.first_letter + LETTERS_SHOWN]

    @property
    def contributes(self) -> bool:
        """Whether contributions are known of a track."""
        return any(track.contributions_L is not None for track in self.tracks)

    @property
    def scale(self) -> float:
        """The largest response of a track, predicted or measured."""
        answers = [value for track in self.tracks for value in (track.predicted, track.measured)]
        return max((abs(value) for value in answers if value is not None), default=0.0) or 1.0

    def outline(self, track: LeadTrack) -> str:
        """The weights as an SVG path, 44 high for the largest of all tracks."""
        largest = max(float(each.weights_K.max()) for each in self.tracks) or 1.0
        steps = [f"M{self.key_edges[0]} 44"]
        for left, right, weight in zip(self.key_edges[:-1], self.key_edges[1:], track.weights_K, strict=True):
            steps.append(f"L{left} {42 - float(weight) / largest * 40:.1f}H{right}")
        return "".join(steps) + "V44"

    def contribution_bars(self, track: LeadTrack) -> dict[str, str]:
        """Bars up and down from 14 as SVG paths, 13 long for the largest of all; equal neighbours are one."""
        values = track.contributions_L
        assert values is not None
        known = [each.contributions_L for each in self.tracks if each.contributions_L is not None]
        most = max(float(np.abs(each).max()) for each in known) or 1.0
        starts = np.flatnonzero(np.diff(values, prepend=np.nan))
        bars = {"up": "", "down": ""}
        for start, end, value in zip(starts, [*starts[1:], len(values)], values[starts], strict=True):
            tall = float(value) / most * 13
            bars["up" if value > 0 else "down"] += f"M{start} 14v{-tall:.1f}H{end}v{tall:.1f}Z"
        return bars


class ContactSquares(NamedTuple):
    """The likeliest pairs of a protein above the diagonal, contacts of its structure below, on 360 × 360."""

    pairs: list[tuple[int, int]]
    right: int
    """How many of them touch in the structure."""
    squares: list[tuple[float, float, str, str]]
    """Left, top, class and text."""
    side: str
    ticks: list[tuple[float, int]]
    apart: int
    """Least distance of a pair."""


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
    step = (WIDTH - MARGIN) / max(1, size)

    def square(row: int, column: int, kind: str, text: str) -> tuple[float, float, str, str]:
        i, j = sorted((row, column))
        names = f"{page.sequence[i]}{columns[i]} and {page.sequence[j]}{columns[j]}"
        return MARGIN + column * step, MARGIN + row * step, kind, names + text

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
        ticks=[(MARGIN + (i + 0.5) * step, at) for i, at in enumerate(page.columns) if at in rounds],
        apart=MIN_SEPARATION,
    )


def _unpacked(text: str, size: int) -> NDArray[np.uint8]:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8).reshape(size, size)


def minus(value: float, decimals: int = 0) -> str:
    """A number with a typographic minus."""
    return f"{value:.{decimals}f}".replace("-", "−")
