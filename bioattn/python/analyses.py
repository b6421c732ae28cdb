"""What the methods of models hand over to: attribution and checks."""

from pathlib import Path
from typing import Any

from bioattn.checks.engine import CheckSettings, Evidence, check_model
from bioattn.checks.record import CheckRecord
from bioattn.choices import Method, chosen
from bioattn.inference.inputs import python_warnings
from bioattn.inference.promoter_windows import Promoters
from bioattn.inference.runner import ResponseRunner
from bioattn.interpret.attribution import attribution_work
from bioattn.interpret.choices import AttributionBaseline, MethodSettings
from bioattn.promoters.treatments import TreatmentTable
from bioattn.store.attribution import Attribution

__all__ = ["CheckRecord", "attribute", "check"]


def attribute(
    model: ResponseRunner,
    source: Promoters,
    treatments: TreatmentTable,
    *,
    method: str,
    steps: int,
    baseline: str,
    seed: int,
) -> Attribution:
    """The attribution of all promoters of a source, in memory."""
    settings = MethodSettings(
        method=chosen(Method, "method", method),
        steps=steps,
        baseline=chosen(AttributionBaseline, "baseline", baseline),
        seed=seed,
    )
    work, layout = attribution_work(model, source, treatments, settings)
    return Attribution(work.collect(layout))


def check(model: Any, inputs: Path, *, dataset: Path | str | None, samples: int, seed: int) -> CheckRecord:
    """The record of a check, as `CheckedModel.check`."""
    evidence = Evidence(dataset=None if dataset is None else Path(dataset))
    with python_warnings():
        return check_model(model, inputs, evidence, settings=CheckSettings(samples=samples, seed=seed))
