"""Measures of a check (value, interval, threshold, whether it passed), and from them a verdict in plain words.

Questions are asked in order, and each presupposes the one before: a model that predicts nothing has no meaningful
maps; maps that are not needed explain nothing; maps that follow from position alone, or point elsewhere, mislead.
The first question that does not pass gives the verdict: "undecided" where the interval of the measure holds its
threshold.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from bioattn.checks import thresholds
from bioattn.promoters.response_metrics import Estimate

DECIMALS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A measured figure."""

    name: str
    """Name for programs; it is the same in all versions."""
    label: str
    """Name in tables and figures."""
    value: float
    """The value; NaN where it cannot be computed."""
    interval: tuple[float, float] | None = None
    """95 % interval over samples."""
    threshold: float | None = None
    """The threshold; None for a measure that is reported without a judgement."""
    passed: bool | None = None
    """Whether the measure passes; None where it is not judged or cannot be computed."""
    sentence: str

    @property
    def unclear(self) -> bool:
        """Whether the interval holds the threshold: other samples could have passed, or failed."""
        if self.passed is None or self.threshold is None or self.interval is None:
            return False
        return self.interval[0] < self.threshold < self.interval[1]

    @property
    def outcome(self) -> Literal["passed", "failed", "undecided", ""]:
        """How the measure is shown; empty where it is not judged or cannot be computed."""
        if self.passed is None:
            return ""
        return "undecided" if self.unclear else "passed" if self.passed else "failed"


class Measures(dict[str, Measure]):
    """Measures by name, in the order they were made, and what was skipped."""

    def __init__(self) -> None:
        super().__init__()
        self.skipped: dict[str, str] = {}

    def add(
        self,
        name: str,
        label: str,
        estimate: Estimate | float,
        sentence: str,
        *,
        least: float | None = None,
        most: float | None = None,
        also: bool = True,
    ) -> Measure:
        """Add a measure. It passes with a value of `least` or more and an interval above 0, or of `most` or less;
        and if `also` holds. Without either it is not judged.

        sentence: may hold `{value}`, or `{share}`, the value in percent, or "all" of what there was to lose.
        """
        value = estimate.value if isinstance(estimate, Estimate) else float(estimate)
        ends = (estimate.low, estimate.high) if isinstance(estimate, Estimate) else None
        passed: bool | None = None
        if not math.isnan(value):
            if least is not None:
                passed = value >= least and (ends is None or ends[0] > 0) and also
            elif most is not None:
                passed = value <= most and also
        self[name] = Measure(
            name=name,
            label=label,
            value=value,
            interval=None if ends is None or math.isnan(ends[0]) else ends,
            threshold=most if least is None else least,
            passed=passed,
            sentence=sentence.format(value=value, share=of_it(value)),
        )
        return self[name]

    def add_entropy(self, of_heads: Sequence[float]) -> None:
        """Add the mean entropy of the heads' maps, which is not judged."""
        sentence = "Attention weights have {value:.2f} of the entropy of uniform ones, mean over heads."
        self.add("entropy", "entropy of the maps (1 = uniform)", sum(of_heads) / len(of_heads), sentence)

    def skip(self, why: str, *names: str) -> None:
        """Record that measures were skipped, and why."""
        self.skipped.update(dict.fromkeys(names, why))

    def passed(self, name: str) -> bool | None:
        """Whether a measure passed; None where it does not exist or was not judged."""
        measure = self.get(name)
        return None if measure is None else measure.passed

    def unclear(self, name: str) -> bool:
        """Whether the interval of a measure holds its threshold; False where there is no such measure."""
        measure = self.get(name)
        return measure is not None and measure.unclear

    def value(self, name: str) -> float:
        """The value of a measure; NaN where it does not exist."""
        measure = self.get(name)
        return math.nan if measure is None else measure.value


def rounded(value: float) -> float | None:
    """A number for JSON: six decimals; None for NaN."""
    return None if math.isnan(value) else round(float(value), DECIMALS)


def number(value: float | None) -> float:
    """A number of a JSON file; NaN for None."""
    return math.nan if value is None else float(value)


def percent(share: float) -> str:
    """A share for a sentence.

    >>> percent(0.417), percent(-0.002), percent(float("nan"))
    ('42 %', '0 %', 'an unknown share')
    """
    if math.isnan(share):
        return "an unknown share"
    return f"{round(100 * share) or 0} %"


def of_it(share: float) -> str:
    """A share of a loss, which may be larger than what there was to lose."""
    return "all" if share >= 1 else percent(share)


class Code(StrEnum):
    """Codes of the verdicts on a model's attention."""

    SPECIFIC = "used-treatment-specific"
    NOT_SPECIFIC = "used-not-treatment-specific"
    USED = "used"
    """Attention was needed and points; treatments are not compared."""
    NOT_USED = "not-used"
    UNDECIDED = "undecided"
    """The interval of the measure that decides holds its threshold."""
    POSITION_ONLY = "position-only"
    """The maps of another sample point as well."""
    NOT_PAIR_SPECIFIC = "not-pair-specific"
    """The weights of another residue of an alignment do as well."""
    UNFAITHFUL = "unfaithful"
    NOT_PREDICTIVE = "model-not-predictive"
    FAITHFUL_SPECIFIC = "faithful-treatment-specific"
    """The maps are faithful and treatment-specific; whether attention was needed was not tested."""
    FAITHFUL_NOT_SPECIFIC = "faithful-not-treatment-specific"
    FAITHFUL = "faithful"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict, its caveats, the names of the measures it rests on, the deciding one last, and what to do."""

    code: Code
    sentence: str
    caveats: list[str]
    rests_on: list[str]
    next: list[str] = field(default_factory=list)
    """Sentences with commands (`bioattn.checks.next_steps`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Measures that must pass where they were taken, and the verdict when one does not."""

    measures: Sequence[str]
    asks: str
    """The question, to follow "whether"."""
    code: Code
    sentence: str
    """May hold `{lost}`, the cost of uniform weights, and `{sentence}`, that of the measure that fails."""
    given: str | None = None
    """A measure without whose passing the question is not asked."""
    required: bool = False
    """Whether a measure that was not taken fails."""
    of_maps: bool = True
    """Whether maps explain nothing where it fails and attention was not needed."""

    def asked(self, measures: Measures) -> list[str]:
        """Names of the measures that it is about, of those that were taken."""
        if self.given is not None and not measures.passed(self.given):
            return []
        return [name for name in self.measures if name in measures]

    def failed(self, measures: Measures) -> str | None:
        """The first measure that fails, or else the first whose interval holds its threshold."""
        names = self.measures if self.required else self.asked(measures)
        open_ones = [name for name in names if not measures.passed(name) or measures.unclear(name)]
        sure = [name for name in open_ones if not measures.unclear(name)]
        return next(iter(sure or open_ones), None)


NEEDED = "uniform_retrained"
"""The measure of whether attention was needed, asked after the first question (does the model predict?)."""


def judge(
    measures: Measures,
    questions: Sequence[Question],
    passed: tuple[Code, Code, str],
    caveats: Mapping[str, bool],
) -> Verdict:
    """The verdict of the first question that does not pass.

    questions: the first is about skill. passed: code where attention was shown to be needed, code where that was
    not tested, and sentence of a model that passes all. caveats: those that hold are kept.
    """
    kept = [text for text, holds in caveats.items() if holds]
    rests_on: list[str] = []
    for number, question in enumerate(questions):
        rests_on += [name for name in question.asked(measures) if name not in rests_on]
        failed = question.failed(measures)
        if failed is not None:
            rests_on.sort(key=failed.__eq__)  # the one that decides last
            if measures.unclear(failed):
                return _undecided(measures, failed, question.asks, kept, rests_on)
            return Verdict(question.code, _filled(question.sentence, measures, failed), kept, rests_on)
        if number == 0 and NEEDED in measures:
            rests_on.append(NEEDED)
            needed = measures.passed(NEEDED)
            if measures.unclear(NEEDED) or (needed is False and measures.value(NEEDED) >= thresholds.USED):
                return _undecided(measures, NEEDED, "attention is needed", kept, rests_on)
            if needed is False:
                return _not_needed(measures, questions[1:], kept, rests_on)
    code = passed[0] if measures.passed(NEEDED) else passed[1]
    return Verdict(code, _filled(passed[2], measures, None), kept, rests_on)


def _undecided(measures: Measures, name: str, asks: str, caveats: list[str], rests_on: list[str]) -> Verdict:
    """The verdict where the interval of a measure holds its threshold, or another seed differs by as much."""
    measure = measures.get(name)
    assert measure is not None
    why = "and another seed differs by as much"
    if measure.interval is not None and measure.unclear:
        low, high = (f"{end:.3f}" for end in measure.interval)
        threshold = f"{measure.threshold:.3f}".removesuffix("0")
        why = f"with a 95 % interval of {low} to {high}, which holds the threshold {threshold}"
    sentence = f"Undecided whether {asks}. “{measure.label}” is {measure.value:.3f}, {why}."
    return Verdict(Code.UNDECIDED, sentence, caveats, rests_on)


def _filled(sentence: str, measures: Measures, failed: str | None) -> str:
    measure = measures.get(failed or "")
    lost = f"uniform weights cost {of_it(measures.value('uniform_weights'))} of what it knows"
    return sentence.format(lost=lost, sentence="" if measure is None else measure.sentence)


def _not_needed(
    measures: Measures, questions: Iterable[Question], caveats: list[str], rests_on: list[str]
) -> Verdict:
    """The verdict on a model that uniform attention, retrained, equals."""
    lost = measures.value(NEEDED)
    lacks = f"lacks {of_it(lost)}" if lost >= 0 else f"has {of_it(-lost)} more"
    sentence = (
        "Attention is not used to any gain: with uniform attention, retrained, the model predicts as well "
        f"({lacks} of its skill)."
    )
    questions = [question for question in questions if question.of_maps]
    failed = [name for question in questions if (name := question.failed(measures)) is not None]
    if any(not measures.unclear(name) for name in failed):
        return Verdict(Code.NOT_USED, f"{sentence} The maps explain nothing.", caveats, rests_on)
    if not failed:
        sentence += (
            " As it was trained the model relies on it, and the maps point at what its predictions rest on."
        )
    names = [name for question in questions for name in question.asked(measures)]
    return Verdict(Code.NOT_USED, sentence, caveats, [*rests_on, *names])
