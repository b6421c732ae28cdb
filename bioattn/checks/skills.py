"""Checks of accuracy: the model's skill, and its loss without attention, with one query, or with swapped maps.

*Skill* is one number for either task: the mean over treatments of Pearson r over genes, or of 2 · AUROC − 1 for a
binary task. A constant prediction, such as the training mean, has skill 0; a perfect one has skill 1. Intervals
resample genes with the same draws for all models, so differences are paired by gene.

Maps are swapped whole, or by gain and shape: how much a treatment attends, and where. Weight on the null key is no
attention to the sequence, and neither is weight on *idle* bins, whose values hardly vary over promoters: both only
make the rest smaller. The *gain* of a map is the weight that is left, its *shape* that weight divided by the gain.
Treatments may differ in one alone, so each is exchanged without the other; the sites of `cross` have weights
(B, H, T, P).

Shape suffixes: B promoters or genes, H heads, T treatments, P bins, K bins and the null key, V channels of a
value, R resamples.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from bioattn.attention.capture import Substitution, capture, capture_values, substitute
from bioattn.attention.site import AttentionSite, Tile
from bioattn.checks import thresholds
from bioattn.checks.deletion import mean_ignoring_nan
from bioattn.checks.engine import NO_SKILL, RESAMPLES
from bioattn.checks.measures import percent
from bioattn.checks.promoters import (
    CONTROLS,
    ONE_TREATMENT,
    HeldOut,
    PromoterProbe,
    key_edges,
    known_bins,
    map_sites,
    predict,
)
from bioattn.checks.thresholds import IDLE
from bioattn.checks.weights import Batches, KnownVisible, of_sample_before, uniform
from bioattn.inference.runner import Codes, Floats, Predictor
from bioattn.promoters.response_metrics import Estimate, Statistic, auroc, interval, pearson, resampled


def other_treatments(source: Sequence[int]) -> Substitution:
    """Treatment t uses the map of treatment `source[t]` of the same promoter; weights (B, H, T, P)."""
    return lambda _site, weights, _tile: _of(weights, source)


def exchanges(number: int, count: int, seed: int) -> list[list[int]]:
    """Up to `count` exchanges of `number` treatments (2 or more) in which each gets the map of another.

    In each exchange the seed draws a ring of treatments, and every treatment takes the map of the next.
    """
    rings = [np.random.default_rng([seed, 2, turn]).permutation(number) for turn in range(count)]
    sources = []
    for ring in rings if number > 2 else rings[:1]:
        source = np.empty(number, np.int64)
        source[ring] = np.roll(ring, -1)
        sources.append([int(treatment) for treatment in source])
    return sources


SMALLEST = 1e-12
"""Least divisor; what is divided by less is 0 too."""


class Parts(NamedTuple):
    """Gain and shape of weights, and what lies on the null key and on idle bins."""

    gain_BHT1: Tensor
    shape_BHTK: Tensor
    """Sums to 1 over the bins that are not idle; 0 elsewhere."""
    rest_BHTK: Tensor
    """Weights of the null key and of idle bins; 0 elsewhere."""


def split_weights(weights_BHTK: Tensor, idle_HP: Tensor, null_key: bool) -> Parts:
    """The parts of weights whose last key is the null key where `null_key` is True."""
    counted_H1K = pad((~idle_HP).to(weights_BHTK), (0, int(null_key)))[:, None]
    seen_BHTK = weights_BHTK * counted_H1K
    gain_BHT1 = seen_BHTK.sum(-1, keepdim=True)
    return Parts(gain_BHT1, seen_BHTK / gain_BHT1.clamp(min=SMALLEST), weights_BHTK - seen_BHTK)


def join_weights(gain_BHT1: Tensor, shape_BHTK: Tensor, parts: Parts, idle_HP: Tensor) -> Tensor:
    """Weights of this gain and shape; the rest is spread as in `parts`, or evenly where there was none."""
    null_keys = parts.rest_BHTK.shape[-1] - idle_HP.shape[-1]
    places_H1K = pad(idle_HP.to(gain_BHT1), (0, null_keys), value=1.0)[:, None]
    evenly_H1K = places_H1K / places_H1K.sum(-1, keepdim=True).clamp(min=1)
    before_BHT1 = parts.rest_BHTK.sum(-1, keepdim=True)
    spread_BHTK = torch.where(
        before_BHT1 > SMALLEST, parts.rest_BHTK / before_BHT1.clamp(min=SMALLEST), evenly_H1K
    )
    return gain_BHT1 * shape_BHTK + (1 - gain_BHT1) * spread_BHTK


@dataclass(frozen=True, slots=True)
class GainAndShape:
    """What gain and shape of a model's maps over some promoters are told apart by."""

    idle: dict[str, Tensor]
    """By site, (H, P): bins whose values hardly vary over promoters."""
    mean_shape: dict[str, Tensor]
    """By site, (H, T, P): mean over the promoters that have the bin."""
    known_BP: NDArray[np.bool_]
    has_gain: bool
    """Whether there is a null key or an idle bin; without, every gain is 1."""

    def exchanged(
        self, *, gains: Sequence[int] | None = None, shapes: Sequence[int] | None = None
    ) -> Substitution:
        """Weights (B, H, T, K) in which treatment t has the gain of `gains[t]` and the shape of `shapes[t]`."""

        def exchange(site: AttentionSite, weights: Tensor, _tile: Tile | None) -> Tensor:
            idle_HP = self.idle[site.name]
            parts = split_weights(weights, idle_HP, site.null_key)
            return join_weights(_of(parts.gain_BHT1, gains), _of(parts.shape_BHTK, shapes), parts, idle_HP)

        return exchange

    def averaged(self) -> Substitution:
        """Weights (B, H, T, K) with own gains and the treatment's mean shape, over bins that a promoter has.

        For one pass over the promoters, in their order.
        """
        visible = KnownVisible(self.known_BP)

        def average(site: AttentionSite, weights: Tensor, _tile: Tile | None) -> Tensor:
            idle_HP = self.idle[site.name]
            parts = split_weights(weights, idle_HP, site.null_key)
            shape_BHTK = pad(self.mean_shape[site.name].to(weights), (0, int(site.null_key)))
            shape_BHTK = shape_BHTK * visible(site, weights, None)
            shape_BHTK = shape_BHTK / shape_BHTK.sum(-1, keepdim=True).clamp(min=SMALLEST)
            return join_weights(parts.gain_BHT1, shape_BHTK, parts, idle_HP)

        return average


def gain_and_shape(predictor: Predictor, codes_BL: Codes, known_BP: NDArray[np.bool_]) -> GainAndShape:
    """Find idle bins and mean shapes, in two passes over promoters of which the bins `known_BP` hold bases."""
    batches, sums = Batches(), dict[str, Sequence[Tensor]]()
    known, count_P = torch.from_numpy(known_BP), torch.from_numpy(known_BP.sum(0)).clamp(min=1)

    def add_values(site: AttentionSite, value_BHPV: Tensor, /) -> None:
        value = value_BHPV.double()
        known_value = value * known[batches.rows(site, value)].to(value)[:, None, :, None]
        batch = known_value.sum(0), (known_value * value).sum((0, 3))
        before = sums.get(site.name, (torch.zeros(()), torch.zeros(())))
        sums[site.name] = [old.to(new) + new for old, new in zip(before, batch, strict=True)]

    predict(predictor, codes_BL, capture_values(map_sites(predictor), add_values))
    idle = {}
    for name, (sum_HPV, squares_HP) in sums.items():
        count = count_P.to(sum_HPV)
        variance_HP = squares_HP / count - (sum_HPV / count[:, None]).square().sum(-1)
        idle[name] = variance_HP < IDLE * variance_HP.mean(-1, keepdim=True)
    shapes = _Shapes(idle)
    predict(predictor, codes_BL, capture(map_sites(predictor), shapes))
    sites = predictor.runner.sites
    return GainAndShape(
        idle=idle,
        mean_shape={name: sum_HTP / count_P.to(sum_HTP.device) for name, sum_HTP in shapes.sums.items()},
        known_BP=known_BP,
        has_gain=any(bool(idle[name].any()) or sites[name].null_key for name in idle),
    )


class _Shapes:
    """A receiver that sums the shapes of maps over promoters, (H, T, P) by site."""

    def __init__(self, idle: dict[str, Tensor]) -> None:
        self._idle = idle
        self.sums: dict[str, Tensor] = {}

    def receive(
        self, site: AttentionSite, weights: Tensor, _value_weighted: Tensor | None, _tile: Tile | None = None
    ) -> None:
        if site.name in self._idle:  # a ridge weighs no values, and all bins alike
            shape_BHTP = split_weights(weights, self._idle[site.name], null_key=False).shape_BHTK
            self.sums[site.name] = self.sums.get(site.name, 0.0) + shape_BHTP.double().sum(0)


def _of(tensor_BHTK: Tensor, source: Sequence[int] | None) -> Tensor:
    """The treatments `source`; None = as they are."""
    if source is None:
        return tensor_BHTK
    return tensor_BHTK.index_select(-2, torch.as_tensor(list(source), device=tensor_BHTK.device))


def mean_skill(truth_BT: Floats, prediction_BT: Floats, task: str) -> Statistic:
    """The skill on resampled genes (weights, shape (R, B)): shape (R,)."""

    if task == "binary":
        return lambda weights: mean_ignoring_nan(2 * auroc(truth_BT, prediction_BT, weights) - 1, axis=1)
    return lambda weights: mean_ignoring_nan(pearson(truth_BT, prediction_BT, weights), axis=1)


class SkillComparison:
    """Skills of several predictors of the same genes, on the same draws."""

    def __init__(self, genes: HeldOut, resamples: int, seed: int) -> None:
        self.genes = genes
        self._resamples, self._seed = resamples, seed
        self._skills: dict[str, Floats] = {}

    def add(self, name: str, *predictions_BT: Floats) -> None:
        """Add a predictor; given several predictions, its skill is their mean."""
        genes, number = self.genes, len(self.genes.ids)
        skills = [mean_skill(genes.targets_BT, each, genes.task) for each in predictions_BT]
        self._skills[name] = np.mean(
            [resampled(each, number, self._resamples, self._seed) for each in skills], axis=0
        )

    def skill(self, name: str) -> Estimate:
        """The skill and its 95 % interval over genes."""
        return interval(self._skills[name])

    def lost(self, name: str, other: str) -> Estimate:
        """Skill of `name` minus skill of `other`, with a paired interval."""
        return interval(self._skills[name] - self._skills[other])

    def share_lost(self, name: str, other: str) -> Estimate:
        """The difference as a share of the skill of `name`; NaN where that skill is 0 or less."""
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = 1 - self._skills[other] / self._skills[name]
        return interval(np.where(self._skills[name] > 0, shares, np.nan))

    def __contains__(self, name: str) -> bool:
        return name in self._skills


OTHER_WEIGHTS: dict[str, tuple[str, str, float | None]] = {
    "forced": ("uniform weights forced on it", "Made to weigh all positions the same", None),
    "elsewhere": ("another promoter's maps", "Given the map of another promoter", None),
    "swapped": ("other treatments' maps", "When every treatment uses the map of another", thresholds.SWAPPED),
    "swapped_shapes": (
        "other treatments' shapes",
        "When every treatment attends as much as it does, but where another treatment does",
        thresholds.SHAPED,
    ),
    "mean_shapes": (
        "mean shapes",
        "When every treatment attends as much as it does, but where it does on average over promoters",
        thresholds.SHAPED,
    ),
    "swapped_gains": (
        "other treatments' gains",
        "When every treatment attends where it does, but as much as another treatment",
        None,
    ),
}
"""Weights that replace the model's without retraining, whole or a part (`bioattn.checks.skills`): label,
what was done, and least share of the skill that must be lost; None: not judged."""
ADD_UP = "contributions add up to the prediction, so they are judged whole"
NO_DATASET = "needs the measured responses: give the dataset with --dataset"


def check_recorded_skill(probe: PromoterProbe) -> None:
    """Add the accuracy of the model and of simple models on the same genes, from the training record."""
    figure, chance = ("auroc", 0.5) if probe.model.task == "binary" else ("pearson", 0)
    name = "median AUROC" if figure == "auroc" else "median Pearson r"
    if (evaluation := probe.evaluation) is None:
        return
    for cells in evaluation.by_cells:
        model, best = evaluation.model_and_simple(cells)
        own, simple = model.figure(figure), best.figure(figure)
        if own is None:
            continue
        if probe.genes is None:
            probe.measures.add(
                "recorded_skill",
                "skill, by the training record",
                2 * own - 1 if figure == "auroc" else own,
                f"By the record of its training the model reaches a {name} of {own:.2f} on {cells}; the training "
                f"mean has {chance}.",
                least=thresholds.SKILL,
            )
        if simple is not None:
            better = simple >= own
            probe.measures.add(
                "best_simple_model",
                "best simple model, by the training record",
                simple,
                f"A simple model predicts {'as well or better' if better else 'less well'}: "
                f"{best.plain_name} has a {name} of {simple:.2f} on {cells}, this model {own:.2f}.",
                most=own,
                also=not better,
            )
        return


def check_skill(probe: PromoterProbe) -> bool | None:
    """Add the skill on held-out genes. Returns whether the model predicts anything; None without evidence."""
    genes = probe.genes
    if genes is None:
        probe.measures.skip(NO_DATASET, "skill")
        return probe.measures.passed("recorded_skill")
    comparison = SkillComparison(genes, RESAMPLES, probe.settings.seed)
    comparison.add("own", predict(probe.predictor, genes.codes))
    kind = "2 · AUROC − 1" if genes.task == "binary" else "Pearson r"
    measure = probe.add(
        "skill",
        "skill on held-out genes",
        comparison.skill("own"),
        f"On {len(genes.ids):,} {genes.split} genes the predictions have a {kind} of {{value:.2f}}, mean over "
        "treatments; the training mean, which says the same of every promoter, has 0.",
        thresholds.SKILL,
    )
    return measure.passed


def compare_skills(probe: PromoterProbe) -> None:
    """Add the share of the skill that retrained controls lack, and the share lost with other attention weights."""
    if probe.genes is None or not probe.measures.passed("skill"):
        why = NO_DATASET if probe.genes is None else NO_SKILL
        probe.measures.skip(why, *(f"{name}_skill" for name in OTHER_WEIGHTS))
    else:
        _judge_skills(probe, probe.genes)
    # Predictions of the sampled promoters with other maps, and with other or mean shapes.
    names = ("swapped", "swapped_shapes", "mean_shapes")
    if len(probe.names) == 1:
        probe.measures.skip(ONE_TREATMENT, *(f"{name}_predictions" for name in names))
        return
    own_BT = predict(probe.predictor, probe.codes)
    others = _with_other_maps(probe, probe.codes, own_BT)
    probe.measures.skip(ADD_UP, *(f"{name}_predictions" for name in names if name not in others))
    for name in [name for name in names if name in others]:
        moved = probe.estimate(_mean_change(own_BT, others[name]))
        label, what, _ = OTHER_WEIGHTS[name]
        probe.add(
            f"{name}_predictions",
            f"1 − r of predictions with {label}",
            moved,
            f"{what}, predictions correlate with the model's own at r = {1 - moved.value:.2f}.",
            thresholds.SWAPPED,
        )


def _judge_skills(probe: PromoterProbe, genes: HeldOut) -> None:
    comparison = SkillComparison(genes, RESAMPLES, probe.settings.seed)
    own_BT = predict(probe.predictor, genes.codes)
    comparison.add("own", own_BT)
    table = probe.model.treatments.select(probe.names)
    for name, models in probe.retrained.items():
        if models:
            comparison.add(name, *(predict(model.predictor(table), genes.codes) for model in models))
    known = KnownVisible(known_bins(genes.codes, key_edges(probe.predictor)))
    comparison.add("forced", _attending(probe, genes.codes, uniform(known)))
    comparison.add("elsewhere", _attending(probe, genes.codes, of_sample_before))
    for name, predictions in _with_other_maps(probe, genes.codes, own_BT).items():
        comparison.add(name, *predictions)
    own, spread = comparison.skill("own"), 0.0
    if "seed" in comparison:
        lost = comparison.lost("own", "seed")
        spread = abs(lost.value)
        probe.add(
            "seed_skill",
            "skill of another seed, less",
            lost,
            f"The same model of another seed reaches {own.value - lost.value:.2f}: so much is chance of training.",
        )
    for name, control in CONTROLS.items():
        if name in comparison and name != "seed":
            share, lost = comparison.share_lost("own", name), comparison.lost("own", name)
            probe.measures.add(
                f"{name}_retrained",
                f"skill lost with {control.label}, retrained",
                share,
                f"A model retrained on the same data that {control.what} reaches {own.value - lost.value:.2f}: "
                f"{_less(share.value)}.",
                least=control.least,
                also=lost.value > spread,
            )
    for name, (label, what, wanted) in OTHER_WEIGHTS.items():
        if name in comparison:
            share = comparison.share_lost("own", name)
            if name == "swapped" and probe.quantity.signed:
                wanted = thresholds.SHAPED
            probe.add(
                f"{name}_skill",
                f"skill lost with {label}",
                share,
                f"{what}, the model has {_less(share.value)}.",
                wanted,
            )
        else:
            why = "no null key, and no bin whose value hardly varies: all gains are 1"
            why = ADD_UP if probe.quantity.signed else why
            probe.measures.skip(ONE_TREATMENT if len(probe.names) == 1 else why, f"{name}_skill")


def _attending(probe: PromoterProbe, codes_BL: Codes, substitution: Substitution) -> Floats:
    """Predictions (B, T) with other weights."""
    return predict(probe.predictor, codes_BL, substitute(map_sites(probe.predictor), substitution))


def _with_other_maps(probe: PromoterProbe, codes_BL: Codes, own_BT: Floats) -> dict[str, list[Floats]]:
    """Predictions with the maps of other treatments, or parts of these, by name in `OTHER_WEIGHTS`; none for a
    single treatment. Contributions add up to the prediction, so that with another's a treatment predicts what it
    does."""
    number, settings = len(probe.names), probe.settings
    if number == 1:
        return {}
    swaps = exchanges(number, settings.exchanges, settings.seed)
    if probe.quantity.signed:
        return {"swapped": [own_BT[:, source] for source in swaps]}
    parts = gain_and_shape(probe.predictor, codes_BL, known_bins(codes_BL, key_edges(probe.predictor)))
    others = {
        "swapped": [other_treatments(source) for source in swaps],
        "swapped_shapes": [parts.exchanged(shapes=source) for source in swaps],
        "mean_shapes": [parts.averaged()],
    }
    if parts.has_gain:
        others["swapped_gains"] = [parts.exchanged(gains=source) for source in swaps]
    return {
        name: [_attending(probe, codes_BL, other) for other in substitutions]
        for name, substitutions in others.items()
    }


def _mean_change(own_BT: Floats, changed: Sequence[Floats]) -> Statistic:
    """1 − r over promoters of predictions with changed ones, mean over treatments and changes."""
    return lambda weights_RB: (
        1
        - np.mean([mean_ignoring_nan(pearson(own_BT, each, weights_RB), axis=1) for each in changed], axis=0)
    )


def _less(share: float) -> str:
    if math.isnan(share):
        return "no skill to lose"
    return f"{percent(share)} less skill" if share >= 0 else f"{percent(-share)} more skill"
