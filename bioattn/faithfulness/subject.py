"""What is checked: a model, the promoters and treatments it is asked about, and how thoroughly."""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from bioattn.errors import SettingsError
from bioattn.faithfulness.accuracy import HeldOutGenes
from bioattn.faithfulness.samples import Floats, Sample
from bioattn.faithfulness.similarity import mean_ignoring_nan
from bioattn.models.promoter.folder import LoadedPromoterModel
from bioattn.models.promoter.treatment_vocabulary import TreatmentBatch
from bioattn.promoters.bootstrap import Estimate, Statistic, estimate
from bioattn.system.progress import NoProgress, Progress
from bioattn.system.signals import StopRequest

RESAMPLES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSettings:
    """How thoroughly a model is checked."""

    samples: int = 300
    """Promoters whose maps and predictions are looked at."""
    mutated: int = 40
    """Of these, promoters that in-silico mutagenesis is run on."""
    probed: int = 8
    """Treatments whose promoters are cut up; the maps of all are compared."""
    backgrounds: int = 3
    """Shuffled versions of each promoter."""
    exchanges: int = 3
    """Ways of giving each treatment another's map."""
    other_seeds: int = 1
    """Seeds retrained, where controls are retrained."""
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
    """A model and what it is asked."""

    model: LoadedPromoterModel
    names: list[str]
    """Treatments."""
    treatments: TreatmentBatch
    """The same, encoded."""
    probed: list[int]
    """Numbers of those whose promoters are cut up."""
    sample: Sample
    genes: HeldOutGenes | None
    """Held-out genes with their responses; None without a dataset."""
    settings: CheckSettings
    progress: Progress = field(default_factory=NoProgress)
    stop: StopRequest = field(default_factory=StopRequest)

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
