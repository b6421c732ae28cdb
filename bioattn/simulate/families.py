"""Simulated protein families: a fold, generated or given, and an alignment whose couplings are its contacts."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bioattn.simulate.folds import generate_fold
from bioattn.simulate.potts import FamilySettings, PottsModel, potts_model, sample_family


@dataclass(frozen=True, slots=True)
class SimulatedFamily:
    """One family and its truth."""

    states: NDArray[np.uint8]
    """(S, R): 0..19 amino acids in the order of `potts.LETTERS`, 20 gap; the first row has no gap."""
    positions: NDArray[np.float64]
    """(R, 3) C-beta positions in Å."""
    structure: str
    """One letter per column: H, E or C for generated folds, `-` where the fold was given."""
    settings: FamilySettings
    """What it was drawn with."""
    model: PottsModel
    """What it was drawn from."""


DEPTHS = (300, 1500)
"""Sequences of a family, at least and at most; as likely to lie in one octave as in another."""


def random_settings(
    random: np.random.Generator, *, depths: tuple[int, int] = DEPTHS, strength: float | None = None
) -> FamilySettings:
    """Draw settings that vary as real families do: weak to strong couplings, conserved or not, related or not.

    strength: the scale of the couplings, where it is not to be drawn.
    """
    low, high = np.log(depths[0]), np.log(depths[1])
    return FamilySettings(
        depth=max(1, int(np.exp(random.uniform(low, high)))),
        strength=float(random.uniform(0.45, 1.05)) if strength is None else strength,
        field=float(random.uniform(0.5, 1.1)),
        gaps=float(random.uniform(0.01, 0.1)),
        tips=float(random.uniform(0.4, 0.8)),
    )


def simulate_family(
    random: np.random.Generator,
    *,
    positions: NDArray[np.floating] | None = None,
    settings: FamilySettings | None = None,
    lengths: tuple[int, int] = (50, 110),
) -> SimulatedFamily:
    """Simulate a family on the fold `positions` (R, 3), or on a generated one of `lengths` residues."""
    structure = "-" * len(positions) if positions is not None else ""
    if positions is None:
        fold = generate_fold(
            random, min_length=lengths[0], max_length=int(random.integers(lengths[0], lengths[1] + 1))
        )
        positions, structure = fold.positions, fold.structure
    chosen = settings or random_settings(random)
    model = potts_model(positions, chosen, random)
    states = sample_family(model, chosen, random)
    return SimulatedFamily(states, np.asarray(positions, np.float64), structure, chosen, model)
