"""Samples of families, each a function of (seed, step, number in the step): nothing needs to be remembered to go
on after an interruption, and a resumed run sees what an undisturbed one would have.

A sample is a target row, other rows drawn around it, a window of columns, and the distances known there.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.alignments.alphabet import UNKNOWN
from bioattn.alignments.input_features import EncodedAlignment, sample_input_features
from bioattn.models.evoformer.alignment_inputs import to_model_inputs
from bioattn.models.evoformer.inputs import ModelInputs
from bioattn.models.evoformer.training.config import MIN_EXTRA_SHARE, EvoformerTrainingConfig
from bioattn.models.evoformer.training.families import TrainingFamily, target_columns
from bioattn.structures.contacts import distances

_REAL_STAGE = 1


class Sample(NamedTuple):
    """What one forward pass is given and judged by."""

    inputs: ModelInputs
    distances_RR: Tensor
    """Å; NaN = not known."""
    true_msa_SR: Tensor
    chosen_SR: Tensor
    """1 = this cell was chosen for masking."""


class Families(Protocol):
    """A list, or `SimulatedFamilies`."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> TrainingFamily: ...


class TrainingSamples:
    """The samples of a run."""

    def __init__(
        self,
        real: Sequence[TrainingFamily],
        simulated: Families,
        config: EvoformerTrainingConfig,
        *,
        covariance: bool,
    ) -> None:
        self.real = real
        self.simulated = simulated
        self.config = config
        self.covariance = covariance

    def step(self, step: int, numbers: slice = slice(None), *, simulated: bool = False) -> list[Sample]:
        """The samples whose gradients make update number `step` (from 0) of a stage, or some of them; sets torch's
        seed.

        simulated: whether the stage is that of simulated families alone.
        """
        # No function of the steps of the stage before: that may be another run.
        where = (step,) if simulated else (_REAL_STAGE, step)
        torch.manual_seed(int(np.random.default_rng([self.config.seed, *where]).integers(2**62)))
        return [
            self._draw(step, np.random.default_rng([self.config.seed, *where, number]), number, simulated)
            for number in range(self.config.families_per_step)[numbers]
        ]

    def _draw(self, step: int, random: np.random.Generator, number: int, simulated: bool) -> Sample:
        config = self.config
        if random.random() < config.simulated_share or simulated:
            family = self.simulated[int(random.integers(len(self.simulated)))]
        else:
            # Every family once per pass, in an order that is the pass's own.
            turn, place = divmod(step * config.families_per_step + number, len(self.real))
            order = np.random.default_rng([config.seed, turn]).permutation(len(self.real))
            family = self.real[int(order[place])]
        rows = draw_rows(family, config, random)
        # Covariances are those of the columns of the first row.
        columns = family.columns if self.covariance else target_columns(family.protein.msa, int(rows[0]))
        if len(columns) > config.crop:
            columns = columns[_window(family, columns, config.crop, random)]
        return make_sample(
            family,
            rows,
            columns,
            config=config,
            random=random,
            covariance=self.covariance,
        )


def draw_rows(
    family: TrainingFamily, config: EvoformerTrainingConfig, random: np.random.Generator
) -> NDArray[np.intp]:
    """The target row and as many others as the model takes, without repetition."""
    number = family.protein.num_rows
    target = int(random.integers(number)) if random.random() < config.any_target else 0
    wanted = min(number, config.max_msa_clusters + config.max_extra_msa)
    weights = family.weights if config.weighted_rows else np.ones(number)
    # Rows in the order of exponential clocks with these rates are a weighted draw without repetition.
    clock = random.exponential(size=number) / weights
    clock[target] = -1
    return np.argsort(clock)[:wanted]


def _window(
    family: TrainingFamily, columns: NDArray[np.intp], crop: int, random: np.random.Generator
) -> slice:
    """A window of `crop` of the columns, at random among those with most known residues of five tries."""
    mapped = family.protein.mapped[columns]
    starts = random.integers(len(columns) - crop + 1, size=5)
    known = [int(mapped[start : start + crop].sum() >= crop // 2) for start in starts]
    start = int(starts[int(np.argmax(known))])
    return slice(start, start + crop)


def make_sample(
    family: TrainingFamily,
    rows: NDArray[np.intp],
    columns: NDArray[np.intp],
    *,
    config: EvoformerTrainingConfig,
    random: np.random.Generator,
    covariance: bool,
) -> Sample:
    """Input features and truth of some rows, the target first, and columns of a family.

    At least half of the rows go to the extra MSA where there are not enough for both.
    """
    protein = family.protein
    msa = protein.msa[np.ix_(rows, columns)]
    encoded = EncodedAlignment(
        aatype=np.minimum(msa[0], UNKNOWN).astype(np.int32),
        msa=msa,
        deletions=protein.deletions[rows][:, columns],
        profile=family.profile[columns],
    )
    features = sample_input_features(
        encoded,
        max_clusters=max(1, min(config.max_msa_clusters, int(len(rows) * (1 - MIN_EXTRA_SHARE)))),
        max_extra=config.max_extra_msa,
        masked_fraction=config.masked_fraction,
        random=random,
    )
    pair_feat = family.covariance_of(columns) if covariance else None
    return Sample(
        inputs=to_model_inputs(features, pair_feat),
        distances_RR=torch.from_numpy(distances(protein.cb[columns])),
        true_msa_SR=torch.from_numpy(features.true_msa).long(),
        chosen_SR=torch.from_numpy(features.bert_mask),
    )
