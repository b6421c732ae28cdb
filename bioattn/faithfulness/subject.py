"""The subject of a check: a model, the promoters and treatments drawn for it, and the settings of the check.

Shape suffixes: B promoters, T treatments, L bases, P bins, R resamples.
"""

from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from bioattn.errors import BioattnError, SettingsError
from bioattn.faithfulness.similarity import mean_ignoring_nan
from bioattn.formats.nucleotides import UNKNOWN
from bioattn.inference.finite import finite_results, require_finite
from bioattn.inference.runner import CheckableRunner, Codes, Floats, HeldOut, Predictor, WindowSource
from bioattn.promoters.response_metrics import Estimate, Statistic, estimate
from bioattn.system.progress import SILENT, Progress
from bioattn.system.signals import StopRequest
from bioattn.text import counted

READ_AT_ONCE = 1024
MIN_PROMOTERS = 20
"""Least number of promoters; fewer give useless intervals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Promoters drawn from a FASTA, in file order."""

    ids: list[str]
    codes: Codes
    """Codes (B, length) as the model takes them."""
    sha256: str
    """SHA-256 of the whole FASTA."""
    held_out: bool
    """Whether all of them are genes the model was not trained on."""


def draw_sample(source: WindowSource, count: int, seed: int, held_out: Collection[str] = ()) -> Sample:
    """`count` samples drawn uniformly from a source (all of them, if it holds no more).

    held_out: ids that the model was not trained on; where enough of them are in the source, only they are drawn.

    Raises: BioattnError when the source holds fewer than `MIN_PROMOTERS`.
    """
    if source.num_samples < MIN_PROMOTERS:
        raise BioattnError(
            f"{source.path}: holds {counted(source.num_samples, 'promoter')}; the checks need {MIN_PROMOTERS} or "
            "more to say anything"
        )
    preferred = np.array(
        [name in held_out for batch in source.batches(READ_AT_ONCE) for name in batch.samples.ids], np.bool_
    )
    only_held_out = int(preferred.sum()) >= MIN_PROMOTERS
    rows = np.flatnonzero(preferred) if only_held_out else np.arange(source.num_samples)
    if len(rows) > count:
        rows = np.sort(np.random.default_rng([seed, 0]).choice(rows, count, replace=False))
    ids, codes = [], []
    for number, batch in enumerate(source.batches(READ_AT_ONCE)):
        chosen = rows[rows // READ_AT_ONCE == number] % READ_AT_ONCE
        ids += [batch.samples.ids[row] for row in chosen]
        codes.append(batch.codes[chosen])
    return Sample(ids=ids, codes=np.concatenate(codes), sha256=source.sha256, held_out=only_held_out)


def draw_treatments(names: list[str], count: int, seed: int) -> list[str]:
    """`count` of the names drawn uniformly, in their order; all names, if there are no more."""
    if len(names) <= count:
        return list(names)
    rows = np.random.default_rng([seed, 1]).choice(len(names), count, replace=False)
    return [names[row] for row in np.sort(rows)]


def known_bins(codes_BL: Codes, edges: tuple[int, ...]) -> NDArray[np.bool_]:
    """(B, P): True where a bin [edges[p], edges[p + 1]) holds at least one base that is not N."""
    known_BL = codes_BL != UNKNOWN
    return np.stack([known_BL[:, start:end].any(1) for start, end in pairwise(edges)], 1)


def map_sites(predictor: Predictor) -> list[str]:
    """The sites at which treatments attend to positions; positions may attend to each other at others."""
    return [name for name, site in predictor.runner.sites.items() if site.axis("treatment") is not None]


def predict(
    predictor: Predictor, codes_BL: Codes, listening: AbstractContextManager[object] | None = None
) -> Floats:
    """Predictions (B, T) in response units (binary: logits); `listening` is a `capture` or `substitute`.

    Raises: BioattnError when one is NaN or infinite.
    """
    answers, size = [], predictor.batch_size
    with torch.inference_mode(), listening or nullcontext():
        for first in range(0, len(codes_BL), size):
            codes = torch.from_numpy(np.ascontiguousarray(codes_BL[first : first + size]))
            answers.append(predictor.forward(codes.to(predictor.runner.device)).double().cpu().numpy())
    answers_BT = np.concatenate(answers)
    with finite_results("explain check", predictor.runner.path):
        require_finite(answers_BT, "predictions")
    return answers_BT


RESAMPLES = 1000
ONE_TREATMENT = "there is one treatment only"


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
        at_least = {"samples": 20, "mutated": 1, "probed": 1, "backgrounds": 1, "exchanges": 1}
        for name, least in at_least.items():
            if getattr(self, name) < least:
                raise SettingsError(f"--{name} is {getattr(self, name)}; it must be {least} or more")


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
    progress: Progress = field(default=SILENT)
    stop: StopRequest = field(default_factory=StopRequest)

    @property
    def names(self) -> list[str]:
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
        return np.asarray(np.divide(sums_R, total_R, out=np.full_like(total_R, np.nan), where=total_R > 0))

    return mean
