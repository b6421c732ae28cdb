"""What the methods of models hand over to: attribution and checks, which stand above the families."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bioattn.choices import chosen
from bioattn.errors import SettingsError
from bioattn.faithfulness.check import CheckReport, Evidence, check_by_likelihood, check_model
from bioattn.faithfulness.subject import CheckSettings
from bioattn.inference.runner import CheckableRunner, ResponseRunner, WindowSource
from bioattn.interpret.attribution.methods import MethodSettings
from bioattn.interpret.attribution.run import attribution_work
from bioattn.interpret.choices import AttributionBaseline
from bioattn.promoters.treatments import TreatmentTable
from bioattn.store.attribution import Attribution
from bioattn.store.choices import Method
from bioattn.store.contents import Collector

__all__ = ["CheckReport", "attribute", "check_by_tokens", "check_promoters"]


def attribute(
    model: ResponseRunner,
    source: WindowSource,
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
    kept = Collector(layout)
    for block in work.blocks():
        kept.append(block)
    return Attribution(kept.contents())


def check_promoters(
    model: CheckableRunner,
    inputs: Any,
    *,
    dataset: Path | str | None,
    controls: Path | str | None,
    seeds: int,
    other_models: Sequence[CheckableRunner],
    variants: Path | str | None,
    treatments: Sequence[str],
    samples: int,
    seed: int,
) -> CheckReport:
    """All checks of a promoter model. Raises: SettingsError for a folder of controls without a dataset."""
    if controls is not None and dataset is None:
        raise SettingsError("controls: models are retrained on the dataset; give it with dataset=")
    evidence = Evidence(
        model_folder=model.path or Path(),
        dataset=_path(dataset),
        controls=_path(controls),
        other_models=other_models,
        variants=_path(variants),
    )
    settings = CheckSettings(samples=samples, seed=seed, other_seeds=seeds)
    return check_model(model, inputs, evidence, treatments=treatments, settings=settings)


def check_by_tokens(
    model: Any,
    inputs: Path | str,
    *,
    dataset: Path | str | None = None,
    controls: Sequence[Any] = (),
    samples: int,
    seed: int,
) -> CheckReport:
    """All checks of a model of tokens, molecules or alignments."""
    settings = CheckSettings(samples=samples, seed=seed)
    return check_by_likelihood(model, Path(inputs), _path(dataset), controls=controls, settings=settings)


def _path(path: Path | str | None) -> Path | None:
    return None if path is None else Path(path)
