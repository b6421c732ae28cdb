"""The check of models that predict responses of promoters to treatments, by attention of treatments to positions.

Shape suffixes: B promoters, T treatments, L bases, P bins, R resamples.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from bioattn.attention.capture import capture
from bioattn.checks import thresholds
from bioattn.checks.deletion import mean_ignoring_nan
from bioattn.checks.engine import MIN_SAMPLES, NO_SKILL, Probe
from bioattn.checks.measures import NEEDED, Code, Measures, Question, Verdict, judge, percent
from bioattn.checks.next_steps import Names
from bioattn.checks.weights import MapSums
from bioattn.errors import BioattnError
from bioattn.formats.nucleotides import UNKNOWN
from bioattn.inference.passes import finite_results, require_finite
from bioattn.inference.promoter_windows import Promoters
from bioattn.inference.runner import Codes, Floats, Predictor, ResponseRunner
from bioattn.interpret.promoter_maps import PromoterMaps, Quantity, maps_in_memory
from bioattn.io.files import sha256_of
from bioattn.models.evaluation import Evaluation
from bioattn.promoters.response_metrics import Estimate, Statistic
from bioattn.text import counted

LOGGER = logging.getLogger("bioattn")
READ_AT_ONCE = 1024
ONE_TREATMENT = "there is one treatment only"
NO_CONTROLS = "needs models retrained on the same data: give --controls DIR to keep them in"


class HeldOut(NamedTuple):
    """Promoters of a dataset that were not trained on, with what was measured of them."""

    split: str
    """`test` or `validation`."""
    ids: list[str]
    codes: Codes
    """(B, L)."""
    targets_BT: Floats
    """In the dataset's units; NaN = not measured."""
    task: str
    all_ids: Collection[str]
    """All promoters of the dataset that were not trained on, also those that were not measured."""


class Control(NamedTuple):
    """A model retrained as the user's but for one thing."""

    label: str
    what: str
    """What it does, after "a model that"."""
    least: float
    """Least share of the skill that it must lack."""
    as_good: str
    """Caveat where it predicts as well."""


CONTROLS = {
    "uniform": Control("uniform attention", "weighs all positions the same", thresholds.USED, ""),
    "shared": Control(
        "one query",
        "has one query for all treatments",
        thresholds.SHARED,
        "One query shared by all treatments, retrained, predicts as well: queries of their own were not needed to "
        "predict so well.",
    ),
    "gain": Control(
        "own gains only",
        "has one shape for all treatments, of which each says only how much every head attends,",
        0.0,
        "One shape for all treatments, retrained with gains of their own, predicts as well: that treatments "
        "attend to different places was not needed to predict so well.",
    ),
    "position": Control(
        "own position bias only",
        "attends by the distance from the anchor alone, each treatment to its own,",
        0.0,
        "Own position biases alone, retrained, predict as well: that maps follow the sequence was not needed to "
        "predict so well.",
    ),
    "query": Control(
        "own query only",
        "has one position bias for all treatments",
        0.0,
        "Own queries and one position bias, retrained, predict as well: own position biases were not needed to "
        "predict so well.",
    ),
    "seed": Control("another seed", "", 0.0, ""),
}
PREDICTIVE = ("skill", "recorded_skill")
CHEATS = {
    "swapped_shapes": "treatments differ in how much they attend, not in where: where another does would do",
    "mean_shapes": "where a treatment attends does not depend on the promoter: its mean over promoters would do",
}
"""Measures, named as the deciding one, that must pass too: what it means when one does not."""
POINTING = ("deletion", "deletion_against_mutagenesis")
JUDGED = {
    Quantity.CONTRIBUTIONS: "contributions, which add up to the prediction,",
    Quantity.ATTENTION: "attention weights",
}
"""What a verdict is about, in words."""
TOP = {Quantity.CONTRIBUTIONS: "tenth of largest contributions", Quantity.ATTENTION: "most attended tenth"}
"""The bins of a promoter whose deletion is judged, in words."""
OTHER_PROMOTERS, OTHER_TREATMENTS = "deletion_of_other_promoters", "deletion_of_other_treatments"
SPECIFIC = ("swapped_skill", "swapped_predictions")
"""Measures of treatment-specificity; the first that exists decides."""


@dataclass(kw_only=True)
class PromoterProbe(Probe):
    """Promoters, and what a model predicts of their responses."""

    takes = frozenset({"dataset", "controls", "other_models", "variants", "treatments", "weights"})
    noun = "promoter"
    instead = (
        "Ask the model itself which bases a response rests on: "
        "`bioattn explain attribution {model} {inputs} -o attribution.h5`."
    )
    more = (
        "hold out more genes and train on the rest, `bioattn prepare dataset {inputs} RESPONSES.tsv "
        "-o larger-test.dataset.h5 --holdout test=0.3`"
    )

    model: ResponseRunner
    predictor: Predictor
    """The model asked for the treatments."""
    codes: Codes
    """(B, L) as the model takes them."""
    genes: HeldOut | None
    """Held-out genes with their responses; None without a dataset."""
    untrained: ResponseRunner
    """The same model with the weights it might have begun with."""
    evaluation: Evaluation | None
    """Of the training record; None without one."""
    controls: Sequence[tuple[str, int]]
    """Controls that say something of the model: name (`CONTROLS`), and a step of the seed."""
    train_control: Callable[[str, int, "PromoterProbe"], ResponseRunner] | None
    """Trains a control, or gives the one that is there; None: there is no record that tells how."""
    retrained: dict[str, list[ResponseRunner]] = field(
        default_factory=lambda: {name: [] for name in CONTROLS}
    )
    probed: list[int] = field(default_factory=list)
    """Indices of the treatments under which bins are replaced."""
    quantity: Quantity = Quantity.ATTENTION
    other_readout: tuple[str, str] = ("shared", "--readout shared")
    """Another readout to train the model with, as the name of a folder and as options."""

    @property
    def names(self) -> list[str]:
        return list(self.predictor.names)

    @property
    def record(self) -> Mapping[str, Any]:
        genes, variants = self.genes, self.evidence.variants
        return {
            "maps": str(self.quantity),
            "promoters": len(self.ids),
            "held_out_promoters": bool(self.held_out),
            "treatments": len(self.names),
            "probed_treatments": [self.names[number] for number in self.probed],
            "held_out_genes": None if genes is None else len(genes.ids),
            "split": None if genes is None else genes.split,
            "variants_sha256": None if variants is None else sha256_of(variants),
        }

    def counted_for(self, measure: str) -> tuple[int, str, bool]:
        if self.genes is None or not measure.endswith(("skill", "_retrained")):
            return super().counted_for(measure)
        return len(self.genes.ids), f"{self.genes.split} genes", False

    def simple_model(self, names: Names) -> list[str]:
        best = self.measures.get("best_simple_model")
        if best is None or best.passed:
            return []
        if self.model.task == "binary":
            return [best.sentence]
        return [f"{best.sentence} Keep it if validation genes say so: {names.train('best', ' --keep-best')}."]

    def another(self, names: Names) -> list[str]:
        if self.evidence.weights:
            shown = "what the model shows by itself, its contributions if it has them"
            return [f"Judge {shown}: leave out --weights."]
        ending, options = self.other_readout
        return [f"Or train with another readout, and check its maps: {names.train(ending, f' {options}')}."]

    def mean(self, values_BT: Floats) -> Estimate:
        """Mean over sampled promoters and treatments, NaN left out, with its interval over promoters."""
        return self.estimate(mean_over_promoters(values_BT))

    def measure(self) -> None:
        from bioattn.checks.pointing import check_maps, check_pointing
        from bioattn.checks.skills import check_recorded_skill, check_skill, compare_skills
        from bioattn.checks.variants import check_variants, read_variant_effects

        table = self.evidence.variants
        effects = None if table is None else read_variant_effects(table, self.names)
        check_recorded_skill(self)
        predictive = check_skill(self)
        self.retrain(worth_it=predictive is not False)
        maps = read_maps(self.predictor, self.codes, weights=self.evidence.weights)
        self.quantity = maps.quantity
        self.heads = read_weights(self.predictor, self.codes).spreads()
        compare_skills(self)
        check_maps(self, maps)
        check_pointing(self, maps)
        if effects is not None:
            check_variants(self, effects)

    def retrain(self, *, worth_it: bool) -> None:
        """Train the controls that are missing."""
        train = self.train_control
        why = None
        if self.evidence.dataset is None:
            why = f"{NO_CONTROLS}, and the dataset with --dataset"
        elif self.evidence.controls is None:
            why = NO_CONTROLS
        elif train is None:
            why = "the model folder has no training.json that would say how to train a control"
        elif not worth_it:
            why = NO_SKILL
        if train is None or why is not None:
            self.measures.skip(why or NO_CONTROLS, *(f"{name}_control" for name, _ in self.controls))
            return
        if all(name != "shared" for name, _ in self.controls):
            why = "the treatments of the model itself share what they attend by"
            self.measures.skip(why, "shared_control")
        for name, step in self.controls:
            self.stop.check()
            LOGGER.info(f"control: {CONTROLS[name].label}{f' ({step})' if step else ''}, retrained")
            self.retrained[name].append(train(name, step, self))

    def verdict(self) -> Verdict:
        return judge_promoters(self.measures, self.quantity)


def judge_promoters(measures: Measures, quantity: Quantity) -> Verdict:
    """The verdict on a promoter model whose maps of a quantity were judged."""
    deciding, points = _first(measures, SPECIFIC), _point(measures, quantity)
    passed = Code.USED, Code.FAITHFUL, f"{points}."
    if deciding is not None:
        sentence = f"{points} and are treatment-specific: {_swapped(measures, deciding)}."
        passed = Code.SPECIFIC, Code.FAITHFUL_SPECIFIC, sentence
    return judge(measures, _questions(measures, quantity), passed, _caveats(measures))


def _questions(measures: Measures, quantity: Quantity) -> Sequence[Question]:
    """The questions to a promoter model. The last is whether its maps belong to their treatment, where it has more
    than one."""
    used, predictive = measures.passed(NEEDED), _first(measures, PREDICTIVE)
    maps = f"{'Attention is used, but the' if used else 'The'} {JUDGED[quantity]}"
    questions = [
        Question(
            measures=() if predictive is None else (predictive,),
            asks="the model predicts enough for its attention to be judged",
            code=Code.NOT_PREDICTIVE,
            sentence=_too_little(measures, predictive),
        ),
        Question(
            measures=(OTHER_PROMOTERS,),
            given=POINTING[0],
            asks="maps belong to their promoter",
            code=Code.POSITION_ONLY,
            sentence=f"{maps} say where along a promoter the model looks, not at which sequence: deleting what "
            "those of another promoter point at takes away as much.",
        ),
        Question(
            measures=POINTING,
            asks="maps point at what the predictions depend on",
            code=Code.UNFAITHFUL,
            sentence=f"{maps} do not point at what the predictions depend on: deleting the {TOP[quantity]} of a "
            f"promoter takes away {percent(measures.value('deletion'))} of what the model says of it beyond a "
            f"random tenth, {percent(measures.value(POINTING[1]))} of what the right tenth would.",
            required=True,
        ),
    ]
    deciding = _first(measures, SPECIFIC)
    if deciding is not None:
        kind = deciding.removeprefix("swapped_")
        cheats = {f"{name}_{kind}": text for name, text in CHEATS.items() if f"{name}_{kind}" in measures}
        if quantity.signed or OTHER_TREATMENTS in measures:
            least = "less than half of the difference that mutagenesis finds"
            less = f"deleting what they point at for another treatment takes away as much, or {least}"
            cheats = {OTHER_TREATMENTS: measures.skipped.get(OTHER_TREATMENTS, less), **cheats}
        reasons = [text for name, text in cheats.items() if not measures.passed(name)]
        if not measures.passed(deciding):
            reasons = [f"{_swapped(measures, deciding)}, so one map would do for all treatments"]
        questions.append(
            Question(
                measures=(deciding, *cheats),
                asks="maps are treatment-specific",
                code=Code.NOT_SPECIFIC if used else Code.FAITHFUL_NOT_SPECIFIC,
                sentence=f"{_point(measures, quantity)}, but are not treatment-specific: "
                f"{'; '.join(reasons)}.",
                required=True,
                of_maps=False,
            )
        )
    return questions


def _point(measures: Measures, quantity: Quantity) -> str:
    start = "Attention is used, and the" if measures.passed(NEEDED) else "The"
    return f"{start} {JUDGED[quantity]} point at what the predictions depend on"


def _swapped(measures: Measures, deciding: str) -> str:
    if deciding == "swapped_skill":
        lost = percent(measures.value("swapped_skill"))
        return f"with those of other treatments the model loses {lost} of its skill"
    kept = f"{1 - measures.value('swapped_predictions'):.2f}"
    return f"with those of other treatments its predictions keep a correlation of {kept} with its own"


def _caveats(measures: Measures) -> Mapping[str, bool]:
    """Caveats of a check of a promoter model, and whether they hold."""
    predictive = _first(measures, PREDICTIVE)
    wanted = "--controls" if "skill" in measures else "--dataset and --controls"
    better = -measures.value("seed_skill")
    unknown, recorded = predictive is None, predictive == "recorded_skill"
    caveats = {
        "How well the model predicts is not known (no --dataset, no record of its training).": unknown,
        "How well the model predicts was taken from the record of its training, not measured.": recorded,
        f"Whether attention was needed was not tested: that takes {wanted}.": NEEDED not in measures,
        f"The same model of another seed predicts better by {better:.2f}: this one was not trained as well as it "
        "could be, and a verdict on that one may differ.": (
            better > thresholds.BETTER_SEED * measures.value("skill")
        ),
    }
    for name, control in CONTROLS.items():
        if control.as_good:
            caveats[control.as_good] = measures.passed(f"{name}_retrained") is False
    for name in ("best_simple_model", "randomised_weights", "seed_stability"):
        measure = measures.get(name)
        if measure is not None and measure.passed is False:
            caveats[measure.sentence] = True
    return caveats if predictive is None or measures.passed(predictive) else {}


def _first(measures: Measures, names: Sequence[str]) -> str | None:
    return next((name for name in names if measures.passed(name) is not None), None)


def _too_little(measures: Measures, predictive: str | None) -> str:
    """The sentence on a model whose skill fails: it predicts nothing only where the interval holds 0."""
    measure = measures.get(predictive or "")
    if measure is None:
        return ""
    interval, new = measure.interval, "on genes it was not trained on"
    if measure.value <= 0 if interval is None else interval[0] <= 0 <= interval[1]:
        return f"The model predicts nothing {new}, so its attention explains nothing."
    between = "" if interval is None else f", 95 % interval {interval[0]:.2f} to {interval[1]:.2f}"
    skill = f"a skill of {measure.value:.2f}{between}; {thresholds.SKILL:g} or more is needed"
    if measure.value < 0:
        return f"The model predicts the wrong way {new} ({skill}), so its attention explains nothing."
    return f"The model predicts too little {new} for its attention to be judged ({skill})."


def known_bins(codes_BL: Codes, edges: tuple[int, ...]) -> NDArray[np.bool_]:
    """(B, P): True where a bin [edges[p], edges[p + 1]) holds at least one base that is not N."""
    known_BL = codes_BL != UNKNOWN
    return np.stack([known_BL[:, start:end].any(1) for start, end in pairwise(edges)], 1)


def map_sites(predictor: Predictor) -> list[str]:
    """The sites at which treatments attend to positions; positions may attend to each other at others."""
    return [name for name, site in predictor.runner.sites.items() if site.axis("treatment") is not None]


def predict(
    predictor: Predictor, codes_BL: Codes, listening: AbstractContextManager[object] | None = None
) -> Floats:
    """Predictions (B, T) in response units (binary: logits); `listening` is a `capture` or `substitute`.

    Raises: BioattnError when one is NaN or infinite.
    """
    answers, size = [], predictor.batch_size
    with torch.inference_mode(), listening or nullcontext():
        for first in range(0, len(codes_BL), size):
            codes = torch.from_numpy(np.ascontiguousarray(codes_BL[first : first + size]))
            answers.append(predictor.forward(codes.to(predictor.runner.device)).double().cpu().numpy())
    answers_BT = np.concatenate(answers)
    with finite_results("explain check", predictor.runner.path):
        require_finite(answers_BT, "predictions")
    return answers_BT


def mean_over_promoters(values_BT: Floats) -> Statistic:
    """The mean of values (B, T), a promoter's mean over treatments first, over resampled promoters."""
    value_B = mean_ignoring_nan(values_BT, axis=1)
    known = np.flatnonzero(~np.isnan(value_B))

    def mean(weights_RB: Floats) -> Floats:
        total_R = weights_RB[:, known].sum(1)
        sums_R = weights_RB[:, known] @ value_B[known]
        return np.asarray(np.divide(sums_R, total_R, out=np.full_like(total_R, np.nan), where=total_R > 0))

    return mean


def key_edges(predictor: Predictor) -> tuple[int, ...]:
    """The P + 1 edges of the positions that a checkable model attends to."""
    return tuple(predictor.runner.sites[map_sites(predictor)[0]].key_edges)


def read_weights(predictor: Predictor, codes_BL: Codes) -> MapSums:
    """The attention of all promoters × treatments; memory is one map per pair, and the heads of one batch."""
    sums = MapSums(known_bins(codes_BL, key_edges(predictor)), len(predictor.names))
    predict(predictor, codes_BL, capture(map_sites(predictor), sums))
    return sums


def read_maps(predictor: Predictor, codes_BL: Codes, *, weights: bool = False) -> PromoterMaps:
    """The contributions of bins, summed over heads and sites, of a model that has them, else (or with `weights`)
    attention, averaged over these."""
    method: Callable[[Predictor, Codes], Floats | None] | None = None
    if not weights:
        method = getattr(predictor.runner, "contributions", None)
    maps_BTP: NDArray[Any] | None = None if method is None else method(predictor, codes_BL)
    quantity = Quantity.ATTENTION if maps_BTP is None else Quantity.CONTRIBUTIONS
    if maps_BTP is None:
        maps_BTP = read_weights(predictor, codes_BL).mean()
    return maps_in_memory(maps_BTP, predictor.names, np.array(key_edges(predictor)), quantity=quantity)


class Sample(NamedTuple):
    """Promoters drawn from a FASTA, in file order."""

    ids: list[str]
    codes: Codes
    """(B, L) as the model takes them."""
    held_out: bool
    """Whether all of them are genes the model was not trained on."""


def draw_sample(source: Promoters, count: int, seed: int, held_out: Collection[str] = ()) -> Sample:
    """`count` samples drawn uniformly from a source (all of them, if it holds no more).

    held_out: ids that the model was not trained on; where enough of them are in the source, only they are drawn.

    Raises: BioattnError when the source holds fewer than `MIN_SAMPLES`.
    """
    if source.num_samples < MIN_SAMPLES:
        raise BioattnError(
            f"{source.path}: holds {counted(source.num_samples, 'promoter')}; the checks need {MIN_SAMPLES} or "
            "more to say anything"
        )
    every = [name for batch in source.batches(READ_AT_ONCE) for name in batch.samples.ids]
    preferred = np.array([name in held_out for name in every], np.bool_)
    only_held_out = int(preferred.sum()) >= MIN_SAMPLES
    rows = np.flatnonzero(preferred) if only_held_out else np.arange(source.num_samples)
    if len(rows) > count:
        rows = np.sort(np.random.default_rng([seed, 0]).choice(rows, count, replace=False))
    ids, codes = [], []
    for number, batch in enumerate(source.batches(READ_AT_ONCE)):
        chosen = rows[rows // READ_AT_ONCE == number] % READ_AT_ONCE
        ids += [batch.samples.ids[row] for row in chosen]
        codes.append(batch.codes[chosen])
    return Sample(ids, np.concatenate(codes), only_held_out)
