"""One check for models of any kind: a probe knows the samples and what the model predicts of them.

A model gives a probe by its method `check_probe(inputs, settings, evidence)`. The check takes the probe's measures
(does the model predict, are its weights needed, do they point at what predictions rest on?), asks its questions
and writes a record. Probes of likelihoods (tokens, atoms, alignments) share skill and other weights; promoters
compare predictions by treatment (`bioattn.checks.promoters`).

Shape suffixes: N samples, R resamples.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bioattn.attention.capture import Substitution, substitute
from bioattn.checks import thresholds
from bioattn.checks.measures import Measure, Measures, Verdict
from bioattn.checks.next_steps import Names, next_steps
from bioattn.checks.record import CheckRecord, Curve, HeadSpread
from bioattn.errors import BioattnError, SettingsError
from bioattn.inference.passes import finite_results, require_finite
from bioattn.inference.runner import Floats, Runner
from bioattn.io.files import sha256_of
from bioattn.promoters.response_metrics import Estimate, Statistic, estimate
from bioattn.system.progress import SILENT, Progress
from bioattn.system.signals import StopRequest
from bioattn.text import counted

RESAMPLES = 1000
MIN_SAMPLES = 20
"""Least number of samples; fewer give useless intervals."""
FEW = 5
"""Fewer samples get no intervals."""
NO_SKILL = "the model predicts too little to have anything to lose"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSettings:
    """Settings of a check: sample sizes and seed."""

    samples: int = 300
    """Number of samples (promoters, windows, molecules, proteins) whose maps and predictions are used."""
    mutated: int | None = None
    """Number of these samples whose bases or tokens are replaced one by one; None: two of 15, and at least 40."""
    probed: int = 8
    """Number of treatments (of several at least two) under which bins of promoters are replaced; maps of all
    treatments are compared."""
    backgrounds: int = 3
    """Number of shuffled versions of each sample."""
    exchanges: int = 3
    """Number of exchanges in which each treatment gets the map of another."""
    other_seeds: int = 1
    """Number of seeds retrained, where controls are retrained."""
    seed: int = 0
    """Decides which samples, treatments and backgrounds are drawn, and the resamples of intervals."""

    def __post_init__(self) -> None:
        for name, least in {"samples": 20, "probed": 1, "backgrounds": 1, "exchanges": 1}.items():
            if getattr(self, name) < least:
                raise SettingsError(f"--{name} is {getattr(self, name)}; it must be {least} or more")

    @property
    def num_mutated(self) -> int:
        return max(40, self.samples * 2 // 15) if self.mutated is None else self.mutated


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Optional inputs besides the model and the samples; a probe says which it takes."""

    dataset: Path | None = None
    """The dataset of the training: its held-out samples tell how well the model predicts."""
    controls: Path | None = None
    """Folder of retrained controls; None: none are retrained."""
    other_models: Sequence[Any] = ()
    """The same model trained with another seed, or with uniform attention."""
    variants: Path | None = None
    """Measured effects of variants of the promoters (`bioattn.checks.variants`)."""
    treatments: Sequence[str] = ()
    """Names out of the training treatments; none = all."""
    weights: bool = False
    """Whether attention weights are judged where a model has contributions, which are judged otherwise."""

    def __post_init__(self) -> None:
        if self.controls is not None and self.dataset is None:
            raise SettingsError(
                f"--controls {self.controls}: models are retrained on the dataset; give that with --dataset"
            )

    def options(self) -> dict[str, str]:
        """Option of the command for each field that was given."""
        options = {
            "controls": "--controls",
            "dataset": "--dataset",
            "other_models": "--other-model",
            "variants": "--variants",
            "treatments": "--treatment",
            "weights": "--weights",
        }
        return {name: option for name, option in options.items() if getattr(self, name)}


@dataclass(kw_only=True)
class Probe:
    """Samples, and the measures of a model on them."""

    takes: ClassVar[frozenset[str]] = frozenset()
    """Fields of `Evidence` that it can use."""
    instead: ClassVar[str] = ""
    """A sentence on what to look at instead of maps; may hold `{model}`, `{inputs}` and `{dataset}`."""
    noun: ClassVar[str]
    """A sample, as people call it."""
    more: ClassVar[str] = "give more"
    """How to have more samples where all that there are were used; holds what `instead` may."""

    inputs: Any
    """The file that the samples are from, or what the caller gave."""
    ids: list[str]
    sha256: str
    held_out: str = ""
    """The side of the split that they are from; empty when that is not known."""
    settings: CheckSettings
    evidence: Evidence = field(default_factory=Evidence)
    progress: Progress = SILENT
    stop: StopRequest = field(default_factory=StopRequest)
    measures: Measures = field(default_factory=Measures)
    curves: dict[str, Curve] = field(default_factory=dict)
    heads: list[HeadSpread] = field(default_factory=list)

    @property
    @abstractmethod
    def record(self) -> Mapping[str, Any]:
        """What a check file says of the samples besides the settings: numbers of them by name."""

    @abstractmethod
    def verdict(self) -> Verdict:
        """The verdict, by `judge`, once all measures are taken."""

    @abstractmethod
    def measure(self) -> None:
        """Add all measures."""

    def counted_for(self, _measure: str) -> tuple[int, str, bool]:
        """Number and noun of the samples that a measure is of, and whether there may be more to draw from."""
        return len(self.ids), f"{self.noun}s", len(self.ids) >= self.settings.samples

    def simple_model(self, _names: Names) -> list[str]:
        """What to do where a simple model predicts better."""
        return []

    def another(self, _names: Names) -> list[str]:
        """How to train a model whose maps may be better."""
        return []

    def estimate(self, statistic: Statistic) -> Estimate:
        """A statistic of the samples with its 95 % interval."""
        return estimate(statistic, len(self.ids), RESAMPLES, self.settings.seed)

    def add(
        self, name: str, label: str, value: Statistic | Estimate, sentence: str, least: float | None = None
    ) -> Measure:
        """Add a measure, as `Measures.add`, with an interval where there are samples enough."""
        known = value if isinstance(value, Estimate) else self.estimate(value)
        few = len(self.ids) < FEW
        return self.measures.add(name, label, known.value if few else known, sentence, least=least)


@dataclass(frozen=True, slots=True)
class OtherWeights:
    """Weights that a model attends with instead of its own."""

    name: str
    label: str
    what: str
    """What is done to the model, at the start of a sentence."""
    log_likelihoods: Callable[[], Floats]
    """Of the model with these weights, (N,)."""
    least: float | None
    """Least share of the skill that must be lost; None: not judged."""
    before: Callable[[], Floats] | None = None
    """The log likelihoods that something is lost of; None: those of the model with its own weights."""


@dataclass(kw_only=True)
class LikelihoodProbe(Probe):
    """Samples whose likelihood a model gives: tokens, atoms, alignments."""

    takes = frozenset({"dataset"})
    beyond: ClassVar[str]
    """The simple prediction that skill is measured from."""
    skill_label: ClassVar[str]
    least: ClassVar[int] = MIN_SAMPLES
    judged: "LikelihoodProbe | None" = None
    """Samples that tell how much is predicted, and lost with other weights; None: these."""

    @abstractmethod
    def log_likelihoods(self) -> Floats:
        """ln of the probability of what is true of each sample, (N,)."""

    @abstractmethod
    def simple_log_likelihoods(self) -> Mapping[str, Floats]:
        """`log_likelihoods` of what predicts without the network, by name, the simplest first."""

    @abstractmethod
    def skill_sentence(self, own_N: Floats, plain_N: Floats) -> str:
        """The skill in words, from log likelihoods of model and simplest prediction; may hold `{value}`."""

    @abstractmethod
    def other_weights(self) -> Iterable[OtherWeights]:
        """Weights to compare the model's own with, also those of controls."""

    @abstractmethod
    def point(self) -> None:
        """Add whether attention points at what predictions rest on."""

    def likely(self, listening: AbstractContextManager[object] | None = None) -> Floats:
        """`log_likelihoods` while something listens. Raises: BioattnError when one is not finite."""
        with listening or nullcontext():
            likely_N = self.log_likelihoods()
        require_finite(likely_N, "predictions")
        return likely_N

    def with_weights(self, sites: Sequence[str], substitution: Substitution) -> Callable[[], Floats]:
        """Gives `log_likelihoods` with other weights at some sites."""
        return lambda: self.likely(substitute(sites, substitution))

    def measure(self) -> None:
        judged = self if self.judged is None else self.judged
        judged.measures, judged.stop = self.measures, self.stop
        for probe in (self, judged):
            if len(probe.ids) < probe.least:
                raise BioattnError(
                    f"{probe.inputs}: gives {probe.counted()}; the checks need {probe.least} or more to say "
                    "anything"
                )
        judged.check_weights()
        if "skill" not in self.measures or self.measures.passed("skill"):
            self.point()

    def counted(self) -> str:
        """The number of samples, with their noun."""
        return counted(len(self.ids), f"{self.held_out} {self.noun}".strip())

    def check_weights(self) -> None:
        """Add the skill, what of it the network adds to simple predictions, and what other weights leave."""
        own_N, simple = self.likely(), dict(self.simple_log_likelihoods())
        beyond, plain_N = self.beyond, simple.pop(self.beyond)
        why_not = self.check_skill(own_N, plain_N)
        for name, simple_N in simple.items():
            measure = self.add(
                "without_network",
                f"skill lost with {name} alone",
                ratio_of_sums(own_N - simple_N, own_N - plain_N),
                f"Without the network, with {name} alone, the model loses {{share}} of what it knows beyond "
                f"{beyond}.",
                thresholds.USED,
            )
            if not measure.passed:
                why_not = why_not or f"the network adds nothing to {name} that it could lose"
            beyond, plain_N = name, simple_N
        for other in self.other_weights():
            self.stop.check()
            if why_not is not None:
                self.measures.skip(why_not, other.name)
                continue
            before_N = own_N if other.before is None else other.before()
            self.add(
                other.name,
                f"skill lost with {other.label}",
                ratio_of_sums(before_N - other.log_likelihoods(), own_N - plain_N),
                f"{other.what}, the model loses {{share}} of what it knows beyond {beyond}.",
                other.least,
            )

    def check_skill(self, own_N: Floats, plain_N: Floats) -> str | None:
        """Add the skill; returns why other weights say nothing, if so."""
        sentence = self.skill_sentence(own_N, plain_N)
        skill = ratio_of_sums(own_N - plain_N, -plain_N)
        measure = self.add("skill", self.skill_label, skill, sentence, thresholds.SAVED)
        return None if measure.passed else NO_SKILL


def check_model(
    model: Any,
    inputs: Any,
    evidence: Evidence | None = None,
    *,
    settings: CheckSettings | None = None,
    progress: Progress = SILENT,
    stop: StopRequest | None = None,
) -> CheckRecord:
    """Take every measure that the evidence allows, and judge; what is skipped is listed with its reason.

    model: any that has a method `check_probe`.

    Raises: BioattnError for a model without attention that can be checked, inputs or a dataset that do not fit it;
    SettingsError for evidence that models of this kind do not take; Interrupted when `stop` was requested
    (retrained controls go on from there).
    """
    evidence, settings = evidence or Evidence(), settings or CheckSettings()
    make_probe = checkable(model)
    with finite_results("explain check", model.path):
        probe: Probe = make_probe(inputs, settings, evidence)
        for name, option in evidence.options().items():
            if name not in probe.takes:
                raise SettingsError(f"{option}: is not for models of the family {model.family}; leave it out")
        probe.evidence, probe.progress, probe.stop = evidence, progress, stop or StopRequest()
        if isinstance(probe, LikelihoodProbe) and evidence.dataset is not None:
            judged = make_probe(evidence.dataset, settings, evidence)
            assert isinstance(judged, LikelihoodProbe)
            probe.judged = judged
        probe.measure()
    verdict = probe.verdict()
    dataset = evidence.dataset or (inputs if str(inputs).endswith(".h5") else None)
    folder = model.path if model.path is None or model.path.is_dir() else model.path.parent
    names = Names.of(model.family, folder, inputs, dataset)
    return CheckRecord(
        model_sha256=model.sha256,
        input_sha256=probe.sha256,
        settings={
            **asdict(settings),
            **probe.record,
            "dataset_sha256": None if evidence.dataset is None else sha256_of(evidence.dataset),
        },
        verdict=replace(verdict, next=next_steps(probe, verdict, names)),
        measures=list(probe.measures.values()),
        curves=probe.curves,
        heads=probe.heads,
        skipped=probe.measures.skipped,
    )


def checkable(model: Runner, option: str = "") -> Callable[[Any, CheckSettings, Evidence], Probe]:
    """The model's method `check_probe`. Raises: BioattnError naming the family when it has none."""
    method: Callable[[Any, CheckSettings, Evidence], Probe] | None = getattr(model, "check_probe", None)
    if method is None:
        sentence = f"models of the family {model.family} cannot have their attention checked"
        raise BioattnError(f"{option}: {sentence}" if option else sentence)
    return method


def draw_rows(number: int, count: int, seed: int) -> NDArray[np.int64]:
    """`count` of `number` rows at most, drawn uniformly, in their order."""
    return np.sort(np.random.default_rng([seed, 0]).permutation(number)[:count])


def draw_names(names: Sequence[str], count: int, seed: int) -> list[str]:
    """`count` of the names (treatments, tasks) drawn uniformly, in their order; all names, if there are no
    more."""
    if len(names) <= count:
        return list(names)
    rows = np.random.default_rng([seed, 1]).choice(len(names), count, replace=False)
    return [names[row] for row in np.sort(rows)]


def ratio_of_sums(above_N: Floats, below_N: Floats) -> Statistic:
    """Sum of one quantity over that of another, over resampled samples; NaN where the latter is not above 0."""

    def ratio(weights_RN: Floats) -> Floats:
        above_R, below_R = weights_RN @ above_N, weights_RN @ below_N
        return np.divide(above_R, below_R, out=np.full_like(above_R, np.nan), where=below_R > 0)

    return ratio
