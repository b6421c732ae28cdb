"""What a trained model loses when its sites attend with other weights than their own, without retraining."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from bioattn.attention.capture import Substitution
from bioattn.faithfulness.measures import Measures, percent
from bioattn.promoters.bootstrap import Estimate


class OtherWeights(NamedTuple):
    """Weights that sites attend with instead of their own."""

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
