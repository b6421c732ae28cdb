"""The families a run learns from, the samples drawn from them, and scores of those held out.

A sample is a target row, other rows drawn around it, a window of columns, and the distances known there; it is a
function of (seed, step, number in the step): nothing needs to be remembered to go on after an interruption, and a
resumed run sees what an undisturbed one would have.
"""

import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from bioattn.alignments.alphabet import GAP, RESIDUES, UNKNOWN
from bioattn.alignments.contact_dataset import ContactDataset, ContactProtein
from bioattn.alignments.couplings import (
    LIGHT_PSEUDOCOUNT,
    average_product_correction,
    column_states,
    covariance_features,
    mean_field_norms,
    mutual_information,
    pair_frequencies,
)
from bioattn.alignments.input_features import EncodedAlignment, sample_input_features
from bioattn.alignments.weights import sequence_weights
from bioattn.choices import TRAIN
from bioattn.errors import BioattnError
from bioattn.models.evoformer.config import (
    MIN_EXTRA_SHARE,
    MOSTLY_GAPS,
    EvoformerTrainingConfig,
    InputSettings,
)
from bioattn.models.evoformer.heads import contact_probabilities
from bioattn.models.evoformer.inputs import AlignmentInputs, ModelInputs, target_columns, weighted_order
from bioattn.models.evoformer.model import EvoformerModel
from bioattn.simulate.families import simulate_family
from bioattn.store.training_record import Comparison
from bioattn.structures.contacts import FIGURES, contact_scores, distances
from bioattn.system.progress import Progress, watched
from bioattn.text import counted, duration
from bioattn.training.task import set_seed


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
        return target_columns(self.protein.msa, 0, MOSTLY_GAPS)

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


def simulated_family(seed: int, number: int) -> TrainingFamily:
    """A simulated family in the form of a contact dataset's."""
    family = simulate_family(np.random.default_rng([seed, number]))
    gap_state = len(RESIDUES)
    msa = np.where(family.states == gap_state, GAP, family.states).astype(np.uint8)
    name = f"simulated{number:06d}"
    return TrainingFamily(
        ContactProtein(
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
    )


def load_families(
    dataset: ContactDataset, indices: Sequence[int], *, covariance: bool, progress: Progress
) -> list[TrainingFamily]:
    """Families of a dataset with their weights, and with `covariance` their features, computed.

    Raises: BioattnError naming a protein that no pair of columns with known distance is left of.
    """
    families = []
    for index in watched(progress, "reading families", indices):
        family = TrainingFamily(dataset.protein(index))
        if int(family.protein.mapped.sum()) < 2:
            raise BioattnError(
                f"protein {family.protein.id!r}: fewer than two columns have a residue in the structure"
            )
        _ = family.weights
        if covariance:
            _ = family.covariance
        families.append(family)
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


@dataclass(frozen=True, slots=True)
class TrainingSamples:
    """The samples of a training on these families, and on `config.simulated_families` simulated ones."""

    real: Sequence[TrainingFamily]
    config: EvoformerTrainingConfig
    covariance: bool = False
    """Whether samples have pair features."""
    _simulated: dict[int, TrainingFamily] = field(default_factory=dict, init=False)
    """By number, each made when it is first drawn."""

    def step(self, step: int, numbers: slice = slice(None), *, simulated: bool = False) -> list[Sample]:
        """The samples whose gradients make update number `step` (from 0) of a stage, or some of them; sets torch's
        seed.

        simulated: whether the stage is that of simulated families alone.
        """
        # No function of the steps of the stage before: that may be another run.
        where = (step,) if simulated else (_REAL_STAGE, step)
        set_seed(int(np.random.default_rng([self.config.seed, *where]).integers(2**62)))
        return [
            self._draw(step, np.random.default_rng([self.config.seed, *where, number]), number, simulated)
            for number in range(self.config.families_per_step)[numbers]
        ]

    def _draw(self, step: int, random: np.random.Generator, number: int, simulated: bool) -> Sample:
        config = self.config
        if random.random() < config.simulated_share or simulated:
            which = int(random.integers(config.simulated_families))
            if which not in self._simulated:
                self._simulated[which] = simulated_family(config.seed, which)
            family = self._simulated[which]
        else:
            # Every family once per pass, in an order that is the pass's own.
            turn, place = divmod(step * config.families_per_step + number, len(self.real))
            order = np.random.default_rng([config.seed, turn]).permutation(len(self.real))
            family = self.real[int(order[place])]
        protein, rows = family.protein, draw_rows(family, config, random)
        # Covariances are those of the columns of the first row.
        columns = (
            family.columns if self.covariance else target_columns(protein.msa, int(rows[0]), MOSTLY_GAPS)
        )
        if len(columns) > config.crop:
            # A window at random among those with most known residues of five tries.
            mapped, crop = protein.mapped[columns], config.crop
            starts = random.integers(len(columns) - crop + 1, size=5)
            known = [int(mapped[start : start + crop].sum() >= crop // 2) for start in starts]
            start = int(starts[int(np.argmax(known))])
            columns = columns[start : start + crop]
        encoded = family.encoded.part(rows, columns)
        encoded = replace(encoded, aatype=np.minimum(encoded.msa[0], UNKNOWN).astype(np.int32))
        features = sample_input_features(
            encoded,
            # At least half of the rows go to the extra MSA where there are not enough for both.
            max_clusters=max(1, min(config.max_msa_clusters, int(len(rows) * (1 - MIN_EXTRA_SHARE)))),
            max_extra=config.max_extra_msa,
            masked_fraction=config.masked_fraction,
            random=random,
        )
        pair_feat = None
        if self.covariance:
            places = np.searchsorted(family.columns, columns)
            pair_feat = np.ascontiguousarray(family.covariance[np.ix_(places, places)])
        return Sample(
            inputs=ModelInputs.from_features(features, pair_feat),
            distances_RR=torch.from_numpy(distances(protein.cb[columns])),
            true_msa_SR=torch.from_numpy(features.true_msa).long(),
            chosen_SR=torch.from_numpy(features.bert_mask),
        )


def draw_rows(
    family: TrainingFamily, config: EvoformerTrainingConfig, random: np.random.Generator
) -> NDArray[np.intp]:
    """The target row and as many others as the model takes, without repetition."""
    number = len(family.protein.msa)
    target = int(random.integers(number)) if random.random() < config.any_target else 0
    wanted = min(number, config.max_msa_clusters + config.max_extra_msa)
    weights = family.weights if config.weighted_rows else np.ones(number)
    return weighted_order(weights, target, random)[:wanted]


def predict_contacts(
    model: EvoformerModel, family: TrainingFamily, settings: InputSettings
) -> NDArray[np.float32]:
    """Contact probabilities (C, C) of the columns `family.columns`, row 1 as target, the mean over draws."""
    inputs = family.inputs(settings, covariance=bool(model.config.pair_features))
    device = next(model.parameters()).device
    total = np.zeros((len(family.columns), len(family.columns)), np.float32)
    for number in range(inputs.settings.num_samples):
        with torch.no_grad():
            logits = model(inputs.sample(0, number).to(device)).distogram_logits
        assert logits is not None
        total += contact_probabilities(logits).cpu().numpy() / inputs.settings.num_samples
    return total


def score_family(model: EvoformerModel, family: TrainingFamily, settings: InputSettings) -> dict[str, float]:
    return contact_scores(predict_contacts(model, family, settings), family.protein.cb, family.columns)


MODEL, MUTUAL_INFORMATION, MEAN_FIELD = "this model", "APC mutual information", "mean-field DCA"


@dataclass(frozen=True, slots=True)
class Evaluation:
    scores: pd.DataFrame
    """A row per family and predictor: id, split, rows, mapped_columns, predictor, and `FIGURES`."""

    def tables(self) -> list[list[list[str]]]:
        """Mean precisions of each predictor by split; no table without held-out families."""
        rows = [
            [str(split), str(name), str(len(each)), *(f"{each[figure].mean():.3f}" for figure in FIGURES)]
            for (split, name), each in self.scores.groupby(["split", "predictor"], sort=False)
        ]
        return [[["split", "predictor", "families", *FIGURES], *rows]] if rows else []

    def comparison(self) -> Comparison | None:
        """The model's P@L beside that of the coupling that is better on the validation families."""
        if self.scores.empty:
            return None
        means = self.scores.groupby(["split", "predictor"])["P@L"].mean().unstack()
        split, chosen_by = means.index[0], means.iloc[-1]  # test before validation
        best = max((MUTUAL_INFORMATION, MEAN_FIELD), key=lambda name: float(chosen_by[name]))
        ours, theirs = (float(means.loc[split, name]) for name in (MODEL, best))
        return Comparison(f"{split} families", "P@L", ours, best, theirs)

    def to_json(self) -> list[dict[Hashable, Any]]:
        return self.scores.to_dict("records")


def evaluate_families(
    model: EvoformerModel,
    sides: Mapping[str, Sequence[TrainingFamily]],
    settings: InputSettings,
    progress: Progress,
) -> Evaluation:
    """Score the families of each split with the model, APC mutual information and mean-field DCA."""
    found = []
    for split, families in sides.items():
        began = time.monotonic()
        for family in watched(progress, f"scoring {split} families", families):
            protein = family.protein
            known = (protein.id, split, len(protein.msa), int(protein.mapped.sum()))
            scores = {MODEL: score_family(model, family, settings), **coupling_scores(family)}
            found += [(*known, name, *figures.values()) for name, figures in scores.items()]
        if families:
            progress.note(
                f"{split} scored, {counted(len(families), 'family')} by this model and two couplings, in "
                f"{duration(time.monotonic() - began)}"
            )
    columns = ["id", "split", "rows", "mapped_columns", "predictor", *FIGURES]
    return Evaluation(pd.DataFrame(found, columns=columns))


def coupling_scores(family: TrainingFamily) -> dict[str, dict[str, float]]:
    columns = family.columns
    frequencies = pair_frequencies(column_states(family.protein.msa[:, columns]), family.weights)
    maps = {
        MUTUAL_INFORMATION: mutual_information(*frequencies, pseudocount=LIGHT_PSEUDOCOUNT),
        MEAN_FIELD: mean_field_norms(*frequencies),
    }
    return {
        name: contact_scores(average_product_correction(each), family.protein.cb, columns)
        for name, each in maps.items()
    }
