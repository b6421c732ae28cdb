"""What to do after a verdict, or after a training that a simple model beats: sentences with the next command,
complete with the user's names of files."""

import math
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bioattn.checks.measures import Code, Measure, Verdict
from bioattn.models.evaluation import HEADLINE_TITLES
from bioattn.store.training_record import Comparison

if TYPE_CHECKING:
    from bioattn.checks.engine import Probe

MANY = 10
"""So many times the samples are not to be had where all that there are were used."""
MEANING = {
    Code.NOT_USED: "A model without attention predicts as well, so no map tells why a response is as it is.",
    Code.POSITION_ONLY: "Read these maps as where the model looks on average, not as what it sees in one sample.",
    Code.NOT_PAIR_SPECIFIC: "Read these maps as which alignment they are of, not as which residues touch.",
    Code.UNFAITHFUL: "Do not read these maps: what they point at is not what predictions depend on.",
    Code.NOT_SPECIFIC: "Read these maps as one for all treatments.",
    Code.FAITHFUL_NOT_SPECIFIC: "Read these maps as one for all treatments.",
}
"""What a negative verdict means for whoever reads the maps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """A model's family, and what the user calls the model and its files, quoted for a shell."""

    family: str
    model: str = "MODEL"
    inputs: str = "INPUT"
    dataset: str = "DATASET"

    @classmethod
    def of(cls, family: str, model: Path | None, inputs: Any, dataset: Any) -> "Names":
        """Names of files as they are given; capital letters for what is no file."""
        known = {"model": model, "inputs": inputs, "dataset": dataset}
        return cls(
            family=family,
            **{
                name: shlex.quote(str(path))
                for name, path in known.items()
                if isinstance(path, Path) or (isinstance(path, str) and os.path.exists(path))  # noqa: PTH110
            },
        )

    def filled(self, sentence: str) -> str:
        """A sentence with `{model}`, `{inputs}` and `{dataset}` in place of names."""
        return sentence.format(model=self.model, inputs=self.inputs, dataset=self.dataset)

    def train(self, ending: str, options: str = "") -> str:
        """The command that trains a model on the same dataset, beside this one."""
        output = shlex.quote(f"{''.join(shlex.split(self.model)).rstrip('/')}-{ending}")
        return f"`bioattn train {self.family} {self.dataset} -o {output}{options}`"


def next_steps(probe: "Probe", verdict: Verdict, names: Names) -> list[str]:
    """What to do after a verdict; empty where nothing is wrong."""
    instead = names.filled(probe.instead)
    match verdict.code:
        case Code.NOT_PREDICTIVE:
            more = f"Train again with more data, or with better measured responses: {names.train('2')}."
            return [*probe.simple_model(names), more]
        case Code.UNDECIDED:
            measure = probe.measures.get(verdict.rests_on[-1])
            assert measure is not None
            return [_more_samples(probe, measure, names), instead, *probe.simple_model(names)]
        case code if code in MEANING:
            return [MEANING[code], instead, *probe.another(names), *probe.simple_model(names)]
    return probe.simple_model(names)


def _more_samples(probe: "Probe", measure: Measure, names: Names) -> str:
    check = f"bioattn explain check {names.model} {names.inputs} -o check.json"
    for name, option in probe.evidence.options().items():  # that name files, as they were given
        value = getattr(probe.evidence, name)
        for each in value if isinstance(value, list | tuple) else [value]:
            given = each if isinstance(each, str | Path) else getattr(each, "path", None)
            check += f" {option}" if value is True else f" {option} {shlex.quote(str(given))}"
    if not measure.unclear:
        return f"Compare with more seeds: `{check} --seeds 3`."
    number, noun, drawn = probe.counted_for(measure.name)
    wanted = samples_needed(measure, number)
    if drawn:
        return f"Take more samples, about {wanted:,}: `{check} --samples {wanted}`."
    text = f"All {number:,} {noun} were used; about {wanted:,} would decide"
    more = f": {names.filled(probe.more)}" if wanted <= MANY * number else ", more than can be had"
    return f"{text}{more}."


def samples_needed(measure: Measure, number: int) -> int:
    """Samples with which the interval would just leave out the threshold, as its width falls with the root of the
    number of samples; two digits, rounded up.

    measure: one whose interval, of `number` samples, holds its threshold.

    >>> measure = Measure(name="", label="", value=0.2, interval=(0.0, 0.4), threshold=0.1, sentence="")
    >>> samples_needed(measure, 300)
    1200
    """
    assert measure.interval is not None
    assert measure.threshold is not None
    apart = measure.threshold - measure.value
    end = measure.interval[apart > 0]
    factor = ((end - measure.value) / (apart or 1e-3)) ** 2
    digits: int = 10 ** max(0, math.floor(math.log10(number * factor)) - 1)
    return math.ceil(number * factor / digits - 1e-9) * digits


def beaten(comparison: Comparison, names: Names) -> str:
    """What to do with a trained model that ends below a simple one."""
    keep = ""
    if comparison.figure == HEADLINE_TITLES["pearson"]:  # of ridges a training can write those of regression
        keep = (
            f"Keep the {comparison.simple_model} where it is better: {names.train('best', ' --keep-best')}. "
        )
    train = "Otherwise train" if keep else "Train"
    return (
        f"{keep}{train} with more data, more passes or other settings: {names.train('2')} and your options."
    )
