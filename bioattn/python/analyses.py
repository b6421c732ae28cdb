"""What the methods of models hand over to: attribution, which stands above the families."""

from bioattn.choices import chosen
from bioattn.inference.promoter_windows import Promoters
from bioattn.inference.runner import ResponseRunner
from bioattn.interpret.attribution import MethodSettings, attribution_work
from bioattn.interpret.choices import AttributionBaseline
from bioattn.promoters.treatments import TreatmentTable
from bioattn.store.attribution import Attribution
from bioattn.store.choices import Method

__all__ = ["attribute"]


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
