"""The families a run learns from, and the samples drawn from them.

A sample is a target row, other rows drawn around it, a window of columns, and the distances known there; it is a
function of (seed, step, number in the step): nothing needs to be remembered to go on after an interruption, and a
resumed run sees what an undisturbed one would have.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from bioattn.alignments.alphabet import GAP, RESIDUES, UNKNOWN
from bioattn.alignments.contact_dataset import TRAIN, ContactProtein
from bioattn.alignments.couplings import column_states, covariance_features
from bioattn.alignments.input_features import EncodedAlignment, sample_input_features
from bioattn.alignments.weights import sequence_weights
from bioattn.errors import BioattnError
from bioattn.models.evoformer.config import (
    MIN_EXTRA_SHARE,
    MOSTLY_GAPS,
    EvoformerTrainingConfig,
    InputSettings,
)
from bioattn.models.evoformer.inputs import AlignmentInputs, ModelInputs, weighted_order
from bioattn.simulate.families import simulate_family
from bioattn.structures.contacts import distances
from bioattn.system.progress import SILENT, Progress


@dataclass(eq=False)
class TrainingFamily:
    """A protein of a contact dataset and what is computed once for all its samples."""

    protein: ContactProtein

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """(S,) sequence weights at 80 % identity."""
        return sequence_weights(self.protein.msa, threads=1)

    @cached_property
    def encoded(self) -> EncodedAlignment:
        return self.protein.encoded()

    @cached_property
    def columns(self) -> NDArray[np.intp]:
        """The columns a model sees when the first row is the target: C of R."""
        return target_columns(self.protein.msa, 0)

    @cached_property
    def covariance(self) -> NDArray[np.float32]:
        """(C, C, 3) covariance features of `columns`, over all rows."""
        return covariance_features(column_states(self.protein.msa[:, self.columns]), self.weights)

    def inputs(self, settings: InputSettings, *, covariance: bool) -> AlignmentInputs:
        """The whole family as a model is run on it, row 1 as target. covariance: with pair features."""
        return AlignmentInputs(
            encoded=self.encoded,
            columns=self.columns,
            settings=settings.for_columns(len(self.columns)),
            weights=self.weights if settings.weighted_rows else None,
            pair_feat=self.covariance if covariance else None,
        )

    def covariance_of(self, columns: NDArray[np.integer]) -> NDArray[np.float32]:
        """The covariance features of some of `columns`."""
        places = np.searchsorted(self.columns, columns)
        return np.ascontiguousarray(self.covariance[np.ix_(places, places)])


def target_columns(msa: NDArray[np.uint8], target: int) -> NDArray[np.intp]:
    """Columns where row `target` has a residue, or most rows have."""
    return np.flatnonzero((msa[target] != GAP) | ((msa == GAP).mean(axis=0) < MOSTLY_GAPS))


class SimulatedFamilies:
    """Simulated families by number; each is a function of (seed, number) and made when first asked for."""

    def __init__(self, seed: int, number: int) -> None:
        self.seed = seed
        self.number = number
        self._made: dict[int, TrainingFamily] = {}

    def __len__(self) -> int:
        return self.number

    def __getitem__(self, index: int) -> TrainingFamily:
        if index not in self._made:
            self._made[index] = TrainingFamily(simulated_protein(self.seed, index))
        return self._made[index]


def simulated_protein(seed: int, number: int) -> ContactProtein:
    """Simulated family `number` in the form of a contact dataset."""
    family = simulate_family(np.random.default_rng([seed, number]))
    gap_state = len(RESIDUES)
    msa = np.where(family.states == gap_state, GAP, family.states).astype(np.uint8)
    name = f"simulated{number:06d}"
    return ContactProtein(
        id=name,
        group=name,
        split=TRAIN,
        chain="A",
        msa=msa,
        deletions=csr_array(np.zeros(msa.shape, np.int32)),
        aatype=msa[0].astype(np.int32),
        cb=family.positions.astype(np.float32),
        residue_numbers=[str(column + 1) for column in range(msa.shape[1])],
    )


def load_families(
    proteins: Iterable[ContactProtein], total: int, *, covariance: bool, progress: Progress = SILENT
) -> list[TrainingFamily]:
    """Families with their weights, and with `covariance` their features, computed.

    Raises: BioattnError naming a protein that no pair of columns with known distance is left of.
    """
    families = []
    progress.begin("reading families", total)
    for protein in proteins:
        family = TrainingFamily(protein)
        if int(protein.mapped.sum()) < 2:
            raise BioattnError(
                f"protein {protein.id!r}: fewer than two columns have a residue in the structure"
            )
        _ = family.weights
        if covariance:
            _ = family.covariance
        families.append(family)
        progress.advance()
    progress.end()
    return families


_REAL_STAGE = 1


class Sample(NamedTuple):
    """What one forward pass is given and judged by."""

    inputs: ModelInputs
    distances_RR: Tensor
    """Å; NaN = not known."""
    true_msa_SR: Tensor
    chosen_SR: Tensor
    """1 = this cell was chosen for masking."""


class TrainingSamples:
    def __init__(
        self,
        real: Sequence[TrainingFamily],
        simulated: SimulatedFamilies,
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
        return make_sample(family, rows, columns, config=config, random=random, covariance=self.covariance)


def draw_rows(
    family: TrainingFamily, config: EvoformerTrainingConfig, random: np.random.Generator
) -> NDArray[np.intp]:
    """The target row and as many others as the model takes, without repetition."""
    number = family.protein.num_rows
    target = int(random.integers(number)) if random.random() < config.any_target else 0
    wanted = min(number, config.max_msa_clusters + config.max_extra_msa)
    weights = family.weights if config.weighted_rows else np.ones(number)
    return weighted_order(weights, target, random)[:wanted]


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
    encoded = family.encoded.part(rows, columns)
    encoded = replace(encoded, aatype=np.minimum(encoded.msa[0], UNKNOWN).astype(np.int32))
    features = sample_input_features(
        encoded,
        max_clusters=max(1, min(config.max_msa_clusters, int(len(rows) * (1 - MIN_EXTRA_SHARE)))),
        max_extra=config.max_extra_msa,
        masked_fraction=config.masked_fraction,
        random=random,
    )
    pair_feat = family.covariance_of(columns) if covariance else None
    return Sample(
        inputs=ModelInputs.from_features(features, pair_feat),
        distances_RR=torch.from_numpy(distances(protein.cb[columns])),
        true_msa_SR=torch.from_numpy(features.true_msa).long(),
        chosen_SR=torch.from_numpy(features.bert_mask),
    )
