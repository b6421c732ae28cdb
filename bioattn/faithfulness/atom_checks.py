"""The checks of models that sum what atoms of a molecule write: what they lose with other weights, and when the
atoms that they attend to write nothing.

As for promoter models, each question presupposes the one before: does the model predict more than the mean, and
its network more than what needs no network, does that use attention, and does attention point at what predictions
rest on?

Shape suffixes: N molecules, A atoms, T tasks, P pairs of molecule and task, B molecules of a batch, H heads,
R radii, K keys.
"""

from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray
from torch import Tensor

from bioattn.attention.capture import Substitution, capture, substitute
from bioattn.attention.site import AttentionSite, Tile
from bioattn.errors import BioattnError
from bioattn.faithfulness import thresholds
from bioattn.faithfulness.maps import HeadSpread, MapSums
from bioattn.faithfulness.measures import Measures, OtherWeights, add_lost_skill, of_it, percent
from bioattn.faithfulness.perturbation import (
    Pairs,
    Replacement,
    measure_effects,
    pairs_that_stand_out,
    ratio_of_sums,
)
from bioattn.faithfulness.pointing_checks import Curves, curves
from bioattn.faithfulness.subject import MIN_PROMOTERS, RESAMPLES, CheckSettings, draw_treatments
from bioattn.faithfulness.verdict import Code, Verdict
from bioattn.inference.finite import finite_results, require_finite
from bioattn.inference.runner import AtomProbe, AtomRunner, Floats
from bioattn.promoters.response_metrics import Estimate, estimate
from bioattn.system.progress import Progress
from bioattn.system.signals import StopRequest
from bioattn.text import counted

NO_MAPS = "every atom writes as much: weights over slots single out no atom"


def check_atoms(
    model: AtomRunner,
    molecules: Path,
    dataset: Path | None,
    settings: CheckSettings,
    measures: Measures,
    progress: Progress,
    stop: StopRequest,
) -> tuple[AtomProbe, list[HeadSpread], Curves]:
    """Add all measures, on held-out molecules. Returns these, the heads, and curves of deletion.

    dataset: its held-out molecules say how much is predicted, and lost with other weights; None: `molecules` do.

    Raises: BioattnError for too few molecules, or predictions that are not finite.
    """
    probe = model.atom_probe(molecules, settings.samples, settings.seed)
    judged = probe if dataset is None else model.atom_probe(dataset, settings.samples, settings.seed)
    for path, each in ((molecules, probe), (dataset, judged)):
        if len(each.ids) < MIN_PROMOTERS:
            raise BioattnError(
                f"{path}: has {counted(len(each.ids), f'measured {each.held_out} molecule')}; the checks need "
                f"{MIN_PROMOTERS} or more to say anything"
            )
    with finite_results("explain check", model.path):
        _check_weights(model, judged, settings, measures)
        if not measures.passed("skill"):
            return probe, [], {}
        return probe, *_check_pointing(model, probe, settings, measures, progress, stop)


def uniform(_site: AttentionSite, weights: Tensor, _tile: Tile | None) -> Tensor:
    """Uniform weights (..., K) over the keys that may be attended to: all others weigh exactly 0."""
    visible = (weights > 0).to(weights)
    return visible / visible.sum(-1, keepdim=True)


class Shuffled:
    """Weights (..., K) in random order among the keys that may be attended to."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng([seed, 5])

    def __call__(self, _site: AttentionSite, weights: Tensor, _tile: Tile | None) -> Tensor:
        visible = (weights > 0).to(weights)
        drawn = torch.from_numpy(self._random.random(weights.shape)).to(weights)
        places, others = (-visible).argsort(dim=-1, stable=True), (drawn - visible).argsort(dim=-1)
        return torch.empty_like(weights).scatter(-1, places, weights.gather(-1, others))


class OtherMolecules:
    """Each molecule's atoms use the weights (B, R, H, A, K) of those of the molecule before it, in their order and
    again from the first; for one pass over all molecules."""

    def __init__(self, probe: AtomProbe) -> None:
        self._sizes_N = torch.from_numpy(probe.known_NA.sum(1))
        self._done = 0

    def __call__(self, _site: AttentionSite, weights: Tensor, _tile: Tile | None) -> Tensor:
        sizes_B = self._sizes_N[self._done : self._done + len(weights)].to(weights.device).roll(1)
        self._done += len(weights)
        atoms_BA = torch.arange(weights.shape[-2], device=weights.device) % sizes_B[:, None]
        return weights.roll(1, 0).take_along_dim(atoms_BA[:, None, None, :, None], -2)


def _check_weights(model: AtomRunner, probe: AtomProbe, settings: CheckSettings, measures: Measures) -> None:
    """Add the skill, what of it the network adds, and what of that other weights leave."""

    over_molecules = partial(estimate, num_genes=len(probe.ids), resamples=RESAMPLES, seed=settings.seed)
    (beyond, plain_N), *others = probe.simple_log_likelihoods().items()
    own_N = probe.log_likelihoods()
    require_finite(own_N, "predictions")
    skill = over_molecules(ratio_of_sums(own_N - plain_N, -plain_N))
    measures.add(
        "skill",
        f"share of the error of {beyond} saved",
        skill,
        f"On {counted(len(probe.ids), f'{probe.held_out} molecule')} the model's error is "
        f"{percent(1 - skill.value)} of that of {beyond}.",
        least=thresholds.SAVED,
    )
    why_not = None if measures.passed("skill") else "the model predicts too little to have anything to lose"
    for name, simple_N in others:
        share = over_molecules(ratio_of_sums(own_N - simple_N, own_N - plain_N))
        measures.add(
            "without_network",
            f"skill lost with {name} alone",
            share,
            f"Without the network, {name} keeps {percent(1 - share.value)} of what the model knows beyond "
            f"{beyond}.",
            least=thresholds.USED,
        )
        if not measures.passed("without_network"):
            why_not = why_not or f"the network adds nothing to {name} that it could lose"
        beyond, plain_N = name, simple_N

    def lost(substitution: Substitution) -> Estimate:
        with substitute(list(model.sites), substitution):
            others_N = probe.log_likelihoods()
        require_finite(others_N, "predictions")
        return over_molecules(ratio_of_sums(own_N - others_N, own_N - plain_N))

    weights = [
        OtherWeights(
            "uniform_weights", "uniform weights", uniform, "made to attend to all alike", thresholds.USED
        )
    ]
    if _readouts(model):
        what = "given its weights over atoms in random order"
        shuffled = Shuffled(settings.seed)
        weights.append(
            OtherWeights("shuffled_weights", "shuffled weights", shuffled, what, thresholds.SWAPPED)
        )
    else:
        what = "given the weights of another molecule's atoms"
        other = OtherMolecules(probe)
        weights.append(
            OtherWeights(
                "other_molecules_weights", "another molecule's weights", other, what, thresholds.SWAPPED
            )
        )
    add_lost_skill(measures, weights, lost, beyond, why_not)


def _readouts(model: AtomRunner) -> list[str]:
    """The sites at which predictions themselves, and not atoms, attend to atoms."""
    return [name for name, site in model.sites.items() if site.axis("query") is None]


class _Readouts:
    """A receiver of weights (B, R, H, A) over atoms."""

    def __init__(self, known_NA: NDArray[np.bool_], radii: int) -> None:
        self.sums = MapSums(known_NA, radii)
        self._longest = known_NA.shape[1]

    def receive(
        self, site: AttentionSite, weights: Tensor, _value_weighted: Tensor | None, _tile: Tile | None = None
    ) -> None:
        self.sums.receive(site, F.pad(weights.transpose(1, 2), (0, self._longest - weights.shape[-1])), None)


def _check_pointing(
    model: AtomRunner,
    probe: AtomProbe,
    settings: CheckSettings,
    measures: Measures,
    progress: Progress,
    stop: StopRequest,
) -> tuple[list[HeadSpread], Curves]:
    """Add what predictions lose when the atoms that are attended to, or contribute, most write nothing."""
    number, known_NA = len(probe.ids), probe.known_NA
    heads: list[HeadSpread] = []
    maps_NA = None
    if readouts := _readouts(model):
        radius = model.sites[readouts[0]].axis("radius")
        assert radius is not None
        assert radius.size is not None
        received = _Readouts(known_NA, radius.size)
        with capture(readouts, received):
            probe.log_likelihoods()
        maps_NA = received.sums.mean_BTP.mean(1).astype(np.float64)
        heads = received.sums.spreads()
        measures.add_entropy([head.entropy for head in heads])
    chosen = draw_treatments(list(probe.tasks), settings.probed, settings.seed)
    tasks_T = np.array([probe.tasks.index(task) for task in chosen])

    def answers(pairs: Pairs, writing_PA: NDArray[np.int64]) -> Floats:
        answer_P = probe.answers(pairs.promoter_N, tasks_T[pairs.treatment_N], writing_PA > 0)
        require_finite(answer_P, "predictions")
        return answer_P

    molecules_P, tasks_P = (each.ravel() for each in np.indices((number, len(tasks_T))))
    whole = answers(
        Pairs(molecules_P, tasks_P, np.ones(len(tasks_P))), known_NA[molecules_P].astype(np.int64)
    )
    pairs = pairs_that_stand_out(whole.reshape(number, -1))
    if maps_NA is None:
        measures.skip("deletion", NO_MAPS)
    if not len(pairs.promoter_N):
        for name in ("deletion", "deletion_by_contributions", "deletion_against_contributions"):
            measures.skip(name, "the network says the same of every molecule")
        return heads, {}
    lost_NTA = probe.contributions()[:, tasks_T]
    scores = {"contributions": lost_NTA[pairs.promoter_N, pairs.treatment_N] * pairs.scale_N[:, None]}
    if maps_NA is not None:
        scores["own"] = maps_NA[pairs.promoter_N]
    effects = measure_effects(
        Replacement(
            predictions=answers,
            codes_BL=known_NA.astype(np.int64),
            known_BP=known_NA,
            edges=tuple(range(known_NA.shape[1] + 1)),
        ),
        pairs,
        scores,
        # An atom that writes nothing has no several versions, but each time other random atoms are drawn.
        [np.zeros(known_NA.shape, np.int64)] * settings.backgrounds,
        settings.seed,
        curves=["own"] if maps_NA is not None else [],
        progress=progress,
        stop=stop,
    )

    over_molecules = partial(estimate, num_genes=number, resamples=RESAMPLES, seed=settings.seed)
    for score, name, label, which in (
        ("own", "deletion", "most attended tenth", "the most attended tenth of its atoms"),
        (
            "contributions",
            "deletion_by_contributions",
            "tenth that contributes most",
            "the tenth of its atoms that contributes most",
        ),
    ):
        if score in scores:
            measures.add(
                name,
                f"deletion: {label}, beyond a random tenth",
                over_molecules(effects.share_gained(score, "random", number)),
                f"Without what {which} writes, a prediction loses {percent(effects.value(score))} of what it "
                f"loses without all, and {percent(effects.value('random'))} without that of a random tenth.",
                least=thresholds.POINTED,
            )
    if maps_NA is None:
        return heads, {}
    share = over_molecules(effects.recovered("own", "contributions", "random", number))
    measures.add(
        "deletion_against_contributions",
        "deletion: what maps find of what contributions find",
        share,
        "Of what the tenth that contributes most takes away beyond a random tenth "
        f"({percent(effects.value('contributions') - effects.value('random'))}), the most attended tenth takes "
        f"away {percent(share.value)}.",
        least=thresholds.FOUND,
    )
    return heads, curves(effects)


def judge_atoms(measures: Measures) -> Verdict:
    caveats = ["Whether a model that was trained without attention would predict as well was not tested."]
    if "without_network" in measures:
        caveats.append("What is said holds for what the network adds: the Gaussian process has no attention.")
    maps = "shuffled_weights" in measures
    if maps:
        caveats.append(
            "Maps are means over radii and heads of the weights of atoms; a single head may be better or worse."
        )

    def verdict(code: Code, sentence: str, *names: str) -> Verdict:
        return Verdict(code=code, sentence=sentence, caveats=caveats, rests_on=["skill", *names])

    if not measures.passed("skill"):
        return verdict(
            Code.NOT_PREDICTIVE,
            "The model predicts no better, or hardly better, than the training mean: its attention explains "
            "nothing.",
        )
    used = {
        "without_network": "without its network",
        "uniform_weights": "with uniform weights",
        "shuffled_weights": "with shuffled weights",
        "other_molecules_weights": "with another molecule's weights",
    }
    rests = [name for name in used if name in measures]
    for name in rests:
        if not measures.passed(name):
            return verdict(
                Code.NOT_USED,
                f"Attention is not used to any gain: {used[name]} the model predicts as well. The attention "
                "explains nothing.",
                name,
            )
    lost = f"uniform weights cost {of_it(measures.value('uniform_weights'))} of what it knows"
    pointing = ("deletion", "deletion_by_contributions", "deletion_against_contributions")
    found = [measure for name in pointing if (measure := measures.get(name)) is not None]
    rests += [measure.name for measure in found]
    does, does_not = (
        ("attention points", "attention does not point")
        if maps
        else ("contributions point", "contributions do not point")
    )
    for measure in found:
        if not measure.passed:
            return verdict(
                Code.UNFAITHFUL,
                f"Attention is used ({lost}), but {does_not} at what predictions rest on. {measure.sentence}",
                *rests,
            )
    return verdict(
        Code.FAITHFUL, f"Attention is used ({lost}) and {does} at what predictions rest on.", *rests
    )
