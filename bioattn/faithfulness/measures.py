"""Measures of a check: value, interval, threshold, whether it passed, and a sentence for a person."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from bioattn.attention.capture import Substitution
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
    """95 % interval over genes or promoters."""
    threshold: float | None = None
    """The threshold; None for a measure that is reported without a judgement."""
    passed: bool | None = None
    """Whether the measure passes; None where it is not judged or cannot be computed."""
    sentence: str
    """The result in plain words."""

    def to_json(self) -> dict[str, Any]:
        ends = None if self.interval is None else [rounded(end) for end in self.interval]
        return asdict(self) | {"value": rounded(self.value), "interval": ends}


class Measures:
    """Measures in the order they were made, and what was skipped."""

    def __init__(self) -> None:
        self._measures: dict[str, Measure] = {}
        self.skipped: dict[str, str] = {}
        """Reasons of skipped measures, by name."""

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
        and if `also` holds. Without either it is not judged."""
        value = estimate.value if isinstance(estimate, Estimate) else float(estimate)
        ends = (estimate.low, estimate.high) if isinstance(estimate, Estimate) else None
        passed: bool | None = None
        if not math.isnan(value):
            if least is not None:
                passed = value >= least and (ends is None or ends[0] > 0) and also
            elif most is not None:
                passed = value <= most and also
        self._measures[name] = Measure(
            name=name,
            label=label,
            value=value,
            interval=None if ends is None or math.isnan(ends[0]) else ends,
            threshold=most if least is None else least,
            passed=passed,
            sentence=sentence,
        )
        return self._measures[name]

    def add_entropy(self, of_heads: Sequence[float]) -> None:
        """Add the mean entropy of the heads' maps, which is not judged."""
        entropy = sum(of_heads) / len(of_heads)
        sentence = f"Maps have {entropy:.2f} of the entropy of a uniform one, mean over heads."
        self.add("entropy", "entropy of the maps (1 = uniform)", entropy, sentence)

    def skip(self, name: str, why: str) -> None:
        """Record that a measure was skipped, and why."""
        self.skipped[name] = why

    def get(self, name: str) -> Measure | None:
        """A measure by name; None where it does not exist."""
        return self._measures.get(name)

    def passed(self, name: str) -> bool | None:
        """Whether a measure passed; None where it does not exist or was not judged."""
        measure = self._measures.get(name)
        return None if measure is None else measure.passed

    def value(self, name: str) -> float:
        """The value of a measure; NaN where it does not exist."""
        measure = self._measures.get(name)
        return math.nan if measure is None else measure.value

    def __iter__(self) -> Iterator[Measure]:
        return iter(self._measures.values())

    def __contains__(self, name: str) -> bool:
        return name in self._measures


def rounded(value: float) -> float | None:
    """A number for JSON: six decimals; None for NaN."""
    return None if math.isnan(value) else round(float(value), DECIMALS)


def percent(share: float) -> str:
    """A share for a sentence.

    >>> percent(0.417), percent(-0.002), percent(float("nan"))
    ('42 %', '0 %', 'an unknown share')
    """
    if math.isnan(share):
        return "an unknown share"
    return f"{round(100 * share) or 0} %"


class OtherWeights(NamedTuple):
    """Weights that the sites of a trained model attend with instead of their own, without retraining."""

    name: str
    """Of the measure."""
    label: str
    substitution: Substitution
    what: str
    """What is done to the model, as a participle."""
    least: float
    """Least share of the skill that must be lost."""


def add_lost_skill(
    measures: Measures,
    others: Iterable[OtherWeights],
    lost: Callable[[Substitution], Estimate],
    beyond: str,
    why_not: str | None,
) -> None:
    """Add the share that is `lost` with each of `others`, or that it was skipped and why.

    beyond: the simple prediction that skill is measured from.
    """
    for other in others:
        if why_not is not None:
            measures.skip(other.name, why_not)
            continue
        share = lost(other.substitution)
        measures.add(
            other.name,
            f"skill lost with {other.label}",
            share,
            f"Without retraining, {other.what}, the model loses {of_it(share.value)} of what it knows beyond "
            f"{beyond}.",
            least=other.least,
        )


def of_it(share: float) -> str:
    """A share of a loss, which may be larger than what there was to lose."""
    return "all" if share >= 1 else percent(share)
