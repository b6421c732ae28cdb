"""Deletion and insertion: what happens to a prediction when the bins that were attended to most are replaced by
background, or put back into it, against bins drawn at random (Petsiuk, Das, Saenko 2018; for attention Serrano &
Smith 2019); and similarity of two maps of the same promoter and treatment. Unknown bins rank last.

Only pairs of sample and task whose prediction stands out are used: an average prediction has nothing to point at.
An effect is the movement towards the task's mean prediction, so random jumps cancel out. It is expressed as a
share of the effect of replacing the whole sample.

Shape suffixes: B samples (promoters), T tasks (treatments), L letters, P bins; N pairs.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.checks.engine import Probe, ratio_of_sums
from bioattn.checks.measures import percent
from bioattn.checks.record import Curve
from bioattn.inference.runner import Floats
from bioattn.promoters.response_metrics import Statistic


def top_bins(scores: NDArray[np.floating], known: NDArray[np.bool_], share: float) -> NDArray[np.bool_]:
    """Mask (..., P) of the `share` of known bins, rounded and at least one, with the largest scores; of equal ones
    the first."""
    known = np.broadcast_to(known, scores.shape)
    order = np.argsort(-np.where(known, scores, -np.inf), axis=-1, kind="stable")
    number = np.maximum(1, np.floor(share * known.sum(-1, keepdims=True) + 0.5))
    top = np.zeros(scores.shape, np.bool_)
    np.put_along_axis(top, order, np.arange(scores.shape[-1]) < number, axis=-1)
    return top & known


MIN_BINS = 3
"""Least number of bins for a rank correlation."""


def _ranks(values: NDArray[np.floating]) -> Floats:
    """Ranks along the last axis, ties given their mean."""
    rows = values.reshape(-1, values.shape[-1])
    # A copy: arrays of pandas 3 cannot be written.
    return np.array(pd.DataFrame(rows).rank(axis=1)).reshape(values.shape)


def map_spearman(
    first_BTP: NDArray[np.floating], second_BTP: NDArray[np.floating], known_BP: NDArray[np.bool_]
) -> Floats:
    """Spearman rank correlation over the known bins of each map, (B, T); NaN where a map is constant."""
    result_BT = np.full(first_BTP.shape[:2], np.nan)
    kinds, kind_B = np.unique(known_BP, axis=0, return_inverse=True)
    for number, bins in enumerate(kinds):
        if bins.sum() < MIN_BINS:
            continue
        rows = np.flatnonzero(kind_B.ravel() == number)
        first, second = (_ranks(maps[rows][..., bins]) for maps in (first_BTP, second_BTP))
        first -= first.mean(-1, keepdims=True)
        second -= second.mean(-1, keepdims=True)
        spread = np.sqrt((first**2).sum(-1) * (second**2).sum(-1))
        with np.errstate(invalid="ignore"):
            result_BT[rows] = np.where(spread > 0, (first * second).sum(-1) / spread, np.nan)
    return result_BT


def mean_ignoring_nan(values: Floats, axis: int | None = None) -> Floats:
    """Mean over entries that are not NaN; NaN where there is none."""
    valid = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        mean: Floats = np.where(valid, values, 0.0).sum(axis) / valid.sum(axis)
    return mean


FRACTIONS = (0.04, 0.1, 0.2, 0.35, 0.5, 1.0)
"""Shares of the bins that are replaced along the curves."""
AnyCodes = NDArray[np.integer[Any]]
"""Letters or tokens, or 1 for an atom that is there."""
JUDGED = 0.1
"""The share at which maps are compared."""
STANDING_OUT = 0.5
"""Share of the samples used for a task: those whose predictions are farthest from its mean."""


class Pairs(NamedTuple):
    """Samples and tasks whose predictions stand out."""

    sample_N: NDArray[np.int64]
    task_N: NDArray[np.int64]
    scale_N: Floats
    """Factor of a difference of predictions: ±1 (above or below the task's mean) divided by the standard deviation
    of the task's predictions."""

    def kept(self, kept: NDArray[np.bool_]) -> "Pairs":
        """The pairs where `kept` (N,) is True."""
        return Pairs(self.sample_N[kept], self.task_N[kept], self.scale_N[kept])


def single_pairs(sample_N: NDArray[np.int64]) -> Pairs:
    """Samples of a model with a single task, and effects in the units of its predictions."""
    return Pairs(sample_N, np.zeros(len(sample_N), np.int64), np.ones(len(sample_N)))


def pairs_that_stand_out(predictions_BT: Floats) -> Pairs:
    """For each task the `STANDING_OUT` share of samples farthest from its mean; none for a task whose predictions
    are all the same."""
    deviation_BT = predictions_BT - predictions_BT.mean(0)
    sd_T = deviation_BT.std(0)
    number = max(1, round(STANDING_OUT * len(predictions_BT)))
    samples, tasks = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for task in np.flatnonzero(sd_T > 1e-6 * np.maximum(1e-6, np.abs(predictions_BT).max(0))):
        farthest = np.argsort(-np.abs(deviation_BT[:, task]), kind="stable")[:number]
        samples.append(np.sort(farthest))
        tasks.append(np.full(number, task))
    sample_N, task_N = np.concatenate(samples), np.concatenate(tasks)
    return Pairs(sample_N, task_N, np.sign(deviation_BT[sample_N, task_N]) / sd_T[task_N])


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """Samples, whose bins background replaces, and the model that predicts the result."""

    predictions: Callable[[Pairs, Any], Floats]
    """Of sequences (N, L), each under the task of its pair: (N,)."""
    codes_BL: AnyCodes
    known_BP: NDArray[np.bool_]
    edges: tuple[int, ...]

    def mixed(
        self, pairs: Pairs, scores_NP: Floats, share: float, inside_BL: AnyCodes, outside_BL: AnyCodes
    ) -> Floats:
        """Predictions (N,): known bins of largest score, a `share`, of `inside_BL`, all else of `outside_BL`."""
        chosen_NP = top_bins(scores_NP, self.known_BP[pairs.sample_N], share)
        inside_NL = np.zeros((len(scores_NP), self.codes_BL.shape[1]), np.bool_)
        inside_NL[:, self.edges[0] : self.edges[-1]] = np.repeat(chosen_NP, np.diff(self.edges), axis=1)
        codes_NL = np.where(inside_NL, inside_BL[pairs.sample_N], outside_BL[pairs.sample_N])
        return self.predictions(pairs, codes_NL)


@dataclass(slots=True, kw_only=True)
class Effects:
    """Movements (N,) of predictions towards the mean, summed over backgrounds, by name of the replacement."""

    pairs: Pairs
    moved: dict[str, Floats]
    number: int
    """Samples that the pairs are of."""

    def share_gained(self, name: str, other: str) -> Statistic:
        """Movement `name` minus movement `other`, over that of replacing everything, over resampled samples."""
        return self.ratio(self.moved[name] - self.moved[other], self.moved["everything"])

    def recovered(self, name: str, best: str) -> Statistic:
        """Effect of `name` beyond chance, as a share of the effect of `best` beyond chance."""
        chance_N = self.moved["random"]
        return self.ratio(self.moved[name] - chance_N, self.moved[best] - chance_N)

    def value(self, name: str) -> float:
        """The movement `name` over that of replacing everything, of all pairs; NaN without any."""
        whole = self.moved["everything"].sum()
        return float(self.moved[name].sum() / whole) if whole > 0 else float("nan")

    def percent(self, name: str, less: str | None = None) -> str:
        """`value(name)`, less that of another, for a sentence."""
        return percent(self.value(name) - (0.0 if less is None else self.value(less)))

    def curves(self) -> dict[str, Curve]:
        """Deletion and insertion along the fractions: shares of the whole effect, top bins and random bins."""
        curves = {}
        for way in ("deletion", "insertion"):
            own, chance = (
                [0.0, *(self.value(f"{way} {name} {fraction}") for fraction in FRACTIONS)]
                for name in ("own", "random")
            )
            curves[way] = Curve([0.0, *FRACTIONS], own, chance)
        return curves

    def ratio(self, above_N: Floats, below_N: Floats) -> Statistic:
        """A movement over another, over resampled samples."""
        above_B, below_B = (
            np.bincount(self.pairs.sample_N, weights=values_N, minlength=self.number).astype(np.float64)
            for values_N in (above_N, below_N)
        )
        return ratio_of_sums(above_B, below_B)


def measure_effects(
    probe: Probe,
    replacement: Replacement,
    pairs: Pairs,
    scores: Mapping[str, Floats],
    backgrounds: Sequence[AnyCodes],
    *,
    curves: bool = False,
) -> Effects:
    """Delete the `JUDGED` share of bins by each of `scores` (name → (N, P)) and by chance (`random`), over several
    backgrounds; with `curves`, delete and insert along `FRACTIONS` by the scores `own` and by chance.

    Movements are called `NAME`, and along curves `deletion NAME FRACTION` and `insertion NAME FRACTION`.
    """
    before_N = replacement.predictions(pairs, replacement.codes_BL[pairs.sample_N])
    moved: dict[str, Floats] = defaultdict(lambda: np.zeros(len(pairs.sample_N)))
    codes_BL = replacement.codes_BL
    what = "deletion and insertion" if curves else "deletion"
    probe.progress.begin(what, len(backgrounds) * (len(scores) + 1))
    for draw, background_BL in enumerate(backgrounds):
        random = np.random.default_rng([probe.settings.seed, 3, draw])
        chance_NP = random.random((len(pairs.sample_N), len(replacement.edges) - 1))
        empty_N = replacement.predictions(pairs, background_BL[pairs.sample_N])
        moved["everything"] += pairs.scale_N * (before_N - empty_N)
        for name, scores_NP in {**scores, "random": chance_NP}.items():
            probe.stop.check()
            probe.progress.advance()
            judged_N = replacement.mixed(pairs, scores_NP, JUDGED, background_BL, codes_BL)
            moved[name] += pairs.scale_N * (before_N - judged_N)
            if not curves or name not in ("own", "random"):
                continue
            for fraction in FRACTIONS[:-1]:
                after_N = judged_N
                if fraction != JUDGED:
                    after_N = replacement.mixed(pairs, scores_NP, fraction, background_BL, codes_BL)
                moved[f"deletion {name} {fraction}"] += pairs.scale_N * (before_N - after_N)
                filled_N = replacement.mixed(pairs, scores_NP, fraction, codes_BL, background_BL)
                moved[f"insertion {name} {fraction}"] += pairs.scale_N * (filled_N - empty_N)
            for way in ("deletion", "insertion"):
                moved[f"{way} {name} {FRACTIONS[-1]}"] += pairs.scale_N * (before_N - empty_N)
    probe.progress.end()
    return Effects(pairs=pairs, moved=dict(moved), number=len(probe.ids))
