"""The attribution methods by name, with their settings."""

from dataclasses import dataclass

from bioattn.errors import SettingsError
from bioattn.inference.runner import Predictor
from bioattn.interpret.attribution.gradients import GradientInput, IntegratedGradients
from bioattn.interpret.attribution.mutagenesis import Mutagenesis
from bioattn.interpret.attribution.values import Attributor
from bioattn.interpret.choices import AttributionBaseline
from bioattn.store.choices import Method

__all__ = ["AttributionBaseline", "Method", "MethodSettings", "make_attributor"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodSettings:
    """Which method, and what integrated gradients need to know."""

    method: Method = Method.ISM
    steps: int = 50
    """Points on the way from the baseline to the promoter."""
    baseline: AttributionBaseline = AttributionBaseline.UNIFORM
    """Where the way begins."""
    seed: int = 0
    """Of the shuffles of `dinucleotide-shuffled`."""

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise SettingsError(f"--steps is {self.steps}; it must be at least 1")

    def text(self) -> str:
        """What beside the method decides the values."""
        if self.method is not Method.INTEGRATED_GRADIENTS:
            return ""
        seed = f" seed={self.seed}" if self.baseline is AttributionBaseline.DINUCLEOTIDE_SHUFFLED else ""
        return f"steps={self.steps} baseline={self.baseline}{seed}"


def make_attributor(predictor: Predictor, settings: MethodSettings) -> Attributor:
    """The method of `settings`, ready to run."""
    match settings.method:
        case Method.ISM:
            return Mutagenesis(predictor)
        case Method.GRADIENT_INPUT:
            return GradientInput(predictor)
        case Method.INTEGRATED_GRADIENTS:
            return IntegratedGradients(
                predictor, steps=settings.steps, baseline=settings.baseline, seed=settings.seed
            )
