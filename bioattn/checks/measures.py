"""Measures of a check: value, interval, threshold, whether it passed, and a sentence for a person."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

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
    """The result in plain words."""

    def to_json(self) -> dict[str, Any]:
        ends = None if self.interval is None else [rounded(end) for end in self.interval]
        return asdict(self) | {"value": rounded(self.value), "interval": ends}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "Measure":
        """Read what `to_json` wrote. Raises: KeyError, TypeError or ValueError when it is something else."""
        ends, threshold = content["interval"], content["threshold"]
        return cls(
            name=str(content["name"]),
            label=str(content["label"]),
            value=number(content["value"]),
            interval=None if ends is None else (float(ends[0]), float(ends[1])),
            threshold=None if threshold is None else float(threshold),
            passed=None if content["passed"] is None else bool(content["passed"]),
            sentence=str(content["sentence"]),
        )


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
        self._measures[name] = Measure(
            name=name,
            label=label,
            value=value,
            interval=None if ends is None or math.isnan(ends[0]) else ends,
            threshold=most if least is None else least,
            passed=passed,
            sentence=sentence.format(value=value, share=of_it(value)),
        )
        return self._measures[name]

    def add_entropy(self, of_heads: Sequence[float]) -> None:
        """Add the mean entropy of the heads' maps, which is not judged."""
        sentence = "Maps have {value:.2f} of the entropy of a uniform one, mean over heads."
        self.add("entropy", "entropy of the maps (1 = uniform)", sum(of_heads) / len(of_heads), sentence)

    def skip(self, why: str, *names: str) -> None:
        """Record that measures were skipped, and why."""
        self.skipped.update(dict.fromkeys(names, why))

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
