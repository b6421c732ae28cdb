"""The subject of a check: a model, promoters, treatments and the settings of the check."""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from bioattn.errors import SettingsError
from bioattn.faithfulness.samples import Sample
from bioattn.faithfulness.similarity import mean_ignoring_nan
from bioattn.inference.runner import CheckableRunner, Floats, HeldOut, Predictor
from bioattn.promoters.bootstrap import Estimate, Statistic, estimate
from bioattn.system.progress import NoProgress, Progress
from bioattn.system.signals import StopRequest

RESAMPLES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSettings:
    """Settings of a check: sample sizes and seed."""

    samples: int = 300
    """Number of promoters whose maps and predictions are used."""
    mutated: int = 40
    """Number of these promoters that in-silico mutagenesis runs on."""
    probed: int = 8
    """Number of treatments under which bins of promoters are replaced; maps of all treatments are compared."""
    backgrounds: int = 3
    """Number of shuffled versions of each promoter."""
    exchanges: int = 3
    """Number of exchanges in which each treatment gets the map of another."""
    other_seeds: int = 1
    """Number of seeds retrained, where controls are retrained."""
    seed: int = 0
    """Decides which promoters, treatments and backgrounds are drawn, and the resamples of intervals."""

    def __post_init__(self) -> None:
        for name, least in (
            ("samples", 20),
            ("mutated", 1),
            ("probed", 1),
            ("backgrounds", 1),
            ("exchanges", 1),
        ):
            if getattr(self, name) < least:
                raise SettingsError(f"--{name} is {getattr(self, name)}; it must be {least} or more")

    def to_json(self) -> dict[str, Any]:
        """Plain JSON content."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A model with the promoters and treatments of a check."""

    model: CheckableRunner
    predictor: Predictor
    """The model asked for the treatments."""
    probed: list[int]
    """Indices of the treatments under which bins are replaced."""
    sample: Sample
    genes: HeldOut | None
    """Held-out genes with their responses; None without a dataset."""
    settings: CheckSettings
    progress: Progress = field(default_factory=NoProgress)
    stop: StopRequest = field(default_factory=StopRequest)

    @property
    def names(self) -> list[str]:
        """The treatments."""
        return list(self.predictor.names)

    def estimate(self, statistic: Statistic) -> Estimate:
        """A statistic of the sampled promoters with its 95 % interval."""
        return estimate(statistic, len(self.sample.ids), RESAMPLES, self.settings.seed)

    def mean(self, values_BT: Floats) -> Estimate:
        """Mean over sampled promoters and treatments, NaN left out, with its interval over promoters."""
        return self.estimate(mean_over_promoters(values_BT))


def mean_over_promoters(values_BT: Floats) -> Statistic:
    """The mean of values (B, T), a promoter's mean over treatments first, over resampled promoters."""
    value_B = mean_ignoring_nan(values_BT, axis=1)
    known = np.flatnonzero(~np.isnan(value_B))

    def mean(weights_RB: Floats) -> Floats:
        total_R = weights_RB[:, known].sum(1)
        sums_R = weights_RB[:, known] @ value_B[known]
        mean_R: Floats = np.divide(sums_R, total_R, out=np.full_like(total_R, np.nan), where=total_R > 0)
        return mean_R

    return mean
