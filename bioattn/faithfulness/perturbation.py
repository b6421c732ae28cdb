"""Deletion and insertion: what happens to a prediction when the bins that were attended to most are replaced by
background, or put back into it, against bins drawn at random (Petsiuk, Das, Saenko 2018; for attention Serrano &
Smith 2019).

Only pairs of promoter and treatment whose prediction stands out are used: an average prediction has nothing to
point at. An effect is the movement towards the treatment's mean prediction, so random jumps cancel out. It is
expressed as a share of the effect of replacing the whole promoter.

Shape suffixes: B promoters, T treatments, L bases, A the four bases, P bins; N pairs, R resamples.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.faithfulness.similarity import top_bins
from bioattn.faithfulness.subject import predict
from bioattn.inference.runner import Codes, Floats, Predictor
from bioattn.interpret.attribution.methods import Mutagenesis, contributions
from bioattn.interpret.maps.upsampling import bin_sums
from bioattn.promoters.response_metrics import Statistic
from bioattn.system.progress import Progress, watched
from bioattn.system.signals import StopRequest


def mutation_effects(
    predictor: Predictor, codes_BL: Codes, edges: tuple[int, ...], *, progress: Progress, stop: StopRequest
) -> Floats:
    """Effects (B, T, P): absolute change of the prediction, mean over the other bases, sum over the bin's bases.

    Attention has no sign, so both directions count alike.
    """
    mutagenesis = Mutagenesis(predictor)
    effects = []
    for codes_1L in watched(progress, "in-silico mutagenesis", list(codes_BL[:, None])):
        stop.check()
        values_1TLA = mutagenesis(codes_1L).values_BTLA
        present_1TL = contributions(values_1TLA, codes_1L)
        moved_1TL = np.abs(values_1TLA - present_1TL[..., None]).sum(-1) / 3
        moved_1TL = np.where(codes_1L[:, None] < 4, moved_1TL, 0.0)
        effects.append(bin_sums(moved_1TL, edges))
    return np.concatenate(effects)


FRACTIONS = (0.04, 0.1, 0.2, 0.35, 0.5, 1.0)
"""Shares of the bins that are replaced along the curves."""
AnyCodes = NDArray[np.integer[Any]]
"""Letters or tokens."""
JUDGED = 0.1
"""The share at which maps are compared."""
STANDING_OUT = 0.5
"""Share of the promoters used for a treatment: those whose predictions are farthest from its mean."""


class Pairs(NamedTuple):
    """Promoters and treatments whose predictions stand out."""

    promoter_N: NDArray[np.int64]
    treatment_N: NDArray[np.int64]
    scale_N: Floats
    """Factor of a difference of predictions: ±1 (above or below the treatment's mean) divided by the standard
    deviation of the treatment's predictions."""

    def kept(self, kept: NDArray[np.bool_]) -> "Pairs":
        """The pairs where `kept` (N,) is True."""
        return Pairs(self.promoter_N[kept], self.treatment_N[kept], self.scale_N[kept])


def pairs_that_stand_out(predictions_BT: Floats) -> Pairs:
    """For each treatment the `STANDING_OUT` share of promoters farthest from its mean; none for a treatment whose
    predictions are all the same."""
    deviation_BT = predictions_BT - predictions_BT.mean(0)
    sd_T = deviation_BT.std(0)
    number = max(1, round(STANDING_OUT * len(predictions_BT)))
    promoters, treatments = [], []
    for treatment in np.flatnonzero(sd_T > 1e-6 * np.maximum(1e-6, np.abs(predictions_BT).max(0))):
        farthest = np.argsort(-np.abs(deviation_BT[:, treatment]), kind="stable")[:number]
        promoters.append(np.sort(farthest))
        treatments.append(np.full(number, treatment))
    if not promoters:
        nothing = np.empty(0, np.int64)
        return Pairs(nothing, nothing, np.empty(0))
    promoter_N, treatment_N = np.concatenate(promoters), np.concatenate(treatments)
    scale_N = np.sign(deviation_BT[promoter_N, treatment_N]) / sd_T[treatment_N]
    return Pairs(promoter_N, treatment_N, scale_N)


def predictions_of(predictor: Predictor, pairs: Pairs, codes_NL: Codes) -> Floats:
    """(N,) each sequence under the treatment of its pair, a number among those that `predictor` is asked for."""
    answer_N = np.empty(len(codes_NL))
    for treatment in np.unique(pairs.treatment_N):
        rows = np.flatnonzero(pairs.treatment_N == treatment)
        answer_N[rows] = predict(predictor.chosen([int(treatment)]), codes_NL[rows])[:, 0]
    return answer_N


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """Promoters, whose bins background replaces, and the model that predicts the result."""

    predictions: Callable[[Pairs, Any], Floats]
    """Of sequences (N, L), each under the treatment of its pair: (N,)."""
    codes_BL: AnyCodes
    known_BP: NDArray[np.bool_]
    edges: tuple[int, ...]

    def deleted(self, pairs: Pairs, scores_NP: Floats, share: float, background_BL: AnyCodes) -> Floats:
        """Predictions (N,) with the bins of largest score, `share` of the known ones, replaced by background."""
        bases_NL = self._bases(pairs, scores_NP, share)
        codes_NL = np.where(bases_NL, background_BL[pairs.promoter_N], self.codes_BL[pairs.promoter_N])
        return self.predictions(pairs, codes_NL)

    def inserted(self, pairs: Pairs, scores_NP: Floats, share: float, background_BL: AnyCodes) -> Floats:
        """Predictions (N,) of background with those bins put back."""
        bases_NL = self._bases(pairs, scores_NP, share)
        codes_NL = np.where(bases_NL, self.codes_BL[pairs.promoter_N], background_BL[pairs.promoter_N])
        return self.predictions(pairs, codes_NL)

    def _bases(self, pairs: Pairs, scores_NP: Floats, share: float) -> NDArray[np.bool_]:
        chosen_NP = top_bins(scores_NP, self.known_BP[pairs.promoter_N], share)
        widths = np.diff(self.edges)
        bases_NL = np.zeros((len(scores_NP), self.codes_BL.shape[1]), np.bool_)
        bases_NL[:, self.edges[0] : self.edges[-1]] = np.repeat(chosen_NP, widths, axis=1)
        return bases_NL


@dataclass(slots=True, kw_only=True)
class Effects:
    """Movements (N,) of predictions towards the mean, summed over backgrounds, by name of the replacement."""

    pairs: Pairs
    moved: dict[str, Floats]

    def share(self, name: str, number: int) -> Statistic:
        """The movement `name` over that of replacing everything, both summed over promoters resampled `number`."""
        return ratio_of_sums(
            self._sums(self.moved[name], number), self._sums(self.moved["everything"], number)
        )

    def share_gained(self, name: str, other: str, number: int) -> Statistic:
        """`share(name)` minus `share(other)`."""
        gained = self.moved[name] - self.moved[other]
        return ratio_of_sums(self._sums(gained, number), self._sums(self.moved["everything"], number))

    def recovered(self, name: str, best: str, chance: str, number: int) -> Statistic:
        """Effect of `name` above `chance`, as a share of the effect of `best` above `chance`."""
        return ratio_of_sums(
            self._sums(self.moved[name] - self.moved[chance], number),
            self._sums(self.moved[best] - self.moved[chance], number),
        )

    def value(self, name: str) -> float:
        """`share(name)` of all pairs; NaN without any."""
        whole = self.moved["everything"].sum()
        return float(self.moved[name].sum() / whole) if whole > 0 else float("nan")

    def _sums(self, values_N: Floats, number: int) -> Floats:
        return np.bincount(self.pairs.promoter_N, weights=values_N, minlength=number).astype(np.float64)


def ratio_of_sums(above_B: Floats, below_B: Floats) -> Statistic:
    """Sum of one quantity over that of another, over resampled promoters; NaN where the latter is not above 0."""

    def ratio(weights_RB: Floats) -> Floats:
        above_R, below_R = weights_RB @ above_B, weights_RB @ below_B
        return np.divide(above_R, below_R, out=np.full_like(above_R, np.nan), where=below_R > 0)

    return ratio


def measure_effects(
    replacement: Replacement,
    pairs: Pairs,
    scores: dict[str, Floats],
    backgrounds: Sequence[AnyCodes],
    seed: int,
    *,
    curves: Sequence[str] = (),
    progress: Progress,
    stop: StopRequest,
) -> Effects:
    """Delete the `JUDGED` share of bins by each of `scores` (name → (N, P)) and by chance (`random`), over several
    backgrounds; and for the names in `curves` (and chance) delete and insert along `FRACTIONS`.

    Movements are called `NAME`, and along curves `deletion NAME FRACTION` and `insertion NAME FRACTION`.
    """
    before_N = replacement.predictions(pairs, replacement.codes_BL[pairs.promoter_N])
    moved: dict[str, Floats] = {}

    def add(name: str, movement_N: Floats) -> None:
        moved[name] = moved.get(name, 0.0) + pairs.scale_N * movement_N

    progress.begin("deletion and insertion" if curves else "deletion", len(backgrounds) * (len(scores) + 1))
    for draw, background_BL in enumerate(backgrounds):
        chance_NP = np.random.default_rng([seed, 3, draw]).random(
            (len(pairs.promoter_N), len(replacement.edges) - 1)
        )
        empty_N = replacement.predictions(pairs, background_BL[pairs.promoter_N])
        add("everything", before_N - empty_N)
        for name, scores_NP in {**scores, "random": chance_NP}.items():
            stop.check()
            progress.advance()
            judged_N = replacement.deleted(pairs, scores_NP, JUDGED, background_BL)
            add(name, before_N - judged_N)
            if name not in curves and not (curves and name == "random"):
                continue
            for fraction in FRACTIONS[:-1]:
                after_N = judged_N
                if fraction != JUDGED:
                    after_N = replacement.deleted(pairs, scores_NP, fraction, background_BL)
                add(f"deletion {name} {fraction}", before_N - after_N)
                filled_N = replacement.inserted(pairs, scores_NP, fraction, background_BL)
                add(f"insertion {name} {fraction}", filled_N - empty_N)
            for way in ("deletion", "insertion"):
                add(f"{way} {name} {FRACTIONS[-1]}", before_N - empty_N)
    progress.end()
    return Effects(pairs=pairs, moved=moved)
