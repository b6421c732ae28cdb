"""Coordinates that look like folds: helices and strands packed side by side and joined by loops.

Made to give simulated alignments contact maps with the patterns of real ones (ladders of paired strands, the comb
of packed helices), not to be physically right. One point per residue is made, where its C-beta would be.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

HELIX_RISE, HELIX_RADIUS, HELIX_TURN = 1.5, 3.3, np.deg2rad(100)
"""Å per residue, Å from the axis to C-beta, radians per residue."""
STRAND_RISE, STRAND_OFFSET = 3.3, 1.5
"""Å per residue, Å by which C-betas alternate above and below the sheet."""
STRAND_SPACING, HELIX_SPACING, LAYER_SPACING = 4.8, 9.5, 10.0
"""Å between neighbours within a sheet, within a layer of helices, and between layers."""
LOOP_STEP = 3.3
"""Å a loop covers per residue."""


@dataclass(frozen=True, slots=True)
class Fold:
    """One generated chain."""

    positions: NDArray[np.float64]
    """C-beta positions (R, 3) in Å."""
    structure: str
    """One letter per residue: H helix, E strand, C loop."""


@dataclass(frozen=True, slots=True)
class _Slot:
    """A place for one helix or strand; its axis runs along y, tilted with x as in twisted sheets."""

    kind: str
    x: float
    z: float


def generate_fold(random: np.random.Generator, *, min_length: int = 50, max_length: int = 130) -> Fold:
    """A random fold of `min_length` to `max_length` residues: layers of strands and helices in one of five
    arrangements, visited in an order that prefers neighbours."""
    while True:
        points, letters = _chain(_order(_slots(random), random), random)
        if min_length <= len(letters):
            keep = min(len(letters), max_length)
            return Fold(points[:keep], "".join(letters[:keep]))


def _slots(random: np.random.Generator) -> list[_Slot]:
    strands, helices = int(random.integers(3, 7)), int(random.integers(2, 5))
    sheet = [_Slot("E", STRAND_SPACING * (k - (strands - 1) / 2), 0.0) for k in range(strands)]
    layer = [_Slot("H", HELIX_SPACING * (k - (helices - 1) / 2), LAYER_SPACING) for k in range(helices)]
    match random.integers(5):
        case 0:
            return [*layer, *(_Slot("H", s.x + HELIX_SPACING / 2, 1.5) for s in layer[: helices - 1])]
        case 1:
            return [*sheet, *(_Slot("E", s.x, LAYER_SPACING) for s in sheet[: max(2, strands - 1)])]
        case 2:
            return [*sheet, *layer]
        case 3:
            return [*sheet, *layer[:2], *(_Slot("H", s.x, -LAYER_SPACING) for s in layer[:2])]
        case _:
            return [*sheet, _Slot("H", float(random.normal(0, 3)), LAYER_SPACING)]


def _order(slots: list[_Slot], random: np.random.Generator) -> list[_Slot]:
    """All slots in the order the chain visits them."""
    left = list(slots)
    order = [left.pop(int(random.integers(len(left))))]
    while left:
        distance = np.array([np.hypot(s.x - order[-1].x, s.z - order[-1].z) for s in left])
        chance = np.exp(-(distance - distance.min()) / 4.0)
        order.append(left.pop(int(random.choice(len(left), p=chance / chance.sum()))))
    return order


def _chain(order: Sequence[_Slot], random: np.random.Generator) -> tuple[NDArray[np.float64], list[str]]:
    """C-beta points and structure letters along the chain."""
    points: list[NDArray[np.float64]] = []
    letters: list[str] = []
    up = bool(random.integers(2))
    twist = random.normal(-0.06, 0.02)
    end: NDArray[np.float64] | None = None
    heading = np.zeros(3)
    for slot in order:
        element, start, stop, direction = _element(slot, up, twist, random)
        if end is not None:
            loop = _loop(end, heading, start, direction, random)
            points.append(loop)
            letters += "C" * len(loop)
        points.append(element)
        letters += slot.kind * len(element)
        end, heading = stop, direction
        up = not up if random.random() < 0.92 else up
    return np.concatenate(points), letters


def _element(
    slot: _Slot, up: bool, twist: float, random: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Points of one helix or strand, both ends of its axis, and the direction in which the chain runs."""
    helix = slot.kind == "H"
    length = int(random.integers(9, 19)) if helix else int(random.integers(4, 10))
    rise = HELIX_RISE if helix else STRAND_RISE
    along = rise * (np.arange(length) - (length - 1) / 2)
    if helix:
        along += random.normal(0, 2)
        turn = HELIX_TURN * np.arange(length) + random.uniform(0, 2 * np.pi)
        side_x, side_z = HELIX_RADIUS * np.cos(turn), HELIX_RADIUS * np.sin(turn)
    else:
        along += STRAND_RISE * random.integers(-1, 2)
        # Neighbouring strands point the same way at the same height, so the side follows from the height.
        side = np.where(np.round(along / STRAND_RISE).astype(int) % 2 == 0, 1.0, -1.0)
        side_x, side_z = np.zeros(length), STRAND_OFFSET * side
    if not up:
        along, side_x, side_z = along[::-1], side_x[::-1], side_z[::-1]
    angle = twist * slot.x + random.normal(0, 0.15 if helix else 0.03)
    axis = np.array([0.0, np.cos(angle), np.sin(angle)])
    across = np.array([0.0, -np.sin(angle), np.cos(angle)])
    centre = np.array([slot.x, 0.0, slot.z]) + random.normal(0, [0.2, 0.0, 0.3])
    line = centre + along[:, None] * axis
    element = line + side_x[:, None] * np.array([1.0, 0.0, 0.0]) + side_z[:, None] * across
    return element + random.normal(0, 0.25, element.shape), line[0], line[-1], axis if up else -axis


def _loop(
    start: NDArray[np.float64],
    leaving: NDArray[np.float64],
    stop: NDArray[np.float64],
    arriving: NDArray[np.float64],
    random: np.random.Generator,
) -> NDArray[np.float64]:
    """Points on a curve that leaves and arrives along the axes of its neighbours."""
    gap = float(np.linalg.norm(stop - start))
    length = max(2, int(np.ceil(gap / LOOP_STEP)) - 1) + int(random.integers(0, 4))
    bend = 2.0 + LOOP_STEP * length / 3
    t = (np.arange(1, length + 1) / (length + 1))[:, None]
    one, two = start + bend * leaving, stop - bend * arriving
    curve = (1 - t) ** 3 * start + 3 * t * (1 - t) ** 2 * one + 3 * t**2 * (1 - t) * two + t**3 * stop
    curved: NDArray[np.float64] = curve + random.normal(0, 1.0, curve.shape)
    return curved
