"""Inputs of an MSA/pair model from an alignment, drawn for each pass by the model's `InputSettings`.

Shapes: S MSA rows (cluster centres), E extra MSA rows, R residues (match columns), F pair features. No batch axis.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.alignments.alphabet import GAP, UNKNOWN
from bioattn.alignments.couplings import column_states, covariance_features
from bioattn.alignments.input_features import (
    EncodedAlignment,
    InputFeatures,
    encode_alignment,
    sample_input_features,
    shuffled_rows,
)
from bioattn.alignments.rows import random_rows, statistics_of_rows
from bioattn.alignments.templates import NOT_ALIGNED, Templates
from bioattn.alignments.weights import sequence_weights
from bioattn.errors import BioattnError
from bioattn.formats.alignment import Alignment
from bioattn.models.evoformer.config import EvoformerConfig, InputSettings
from bioattn.structures.ideal_geometry import torsion_features
from bioattn.system.progress import SILENT, Progress


class TemplateInputs(NamedTuple):
    """Structures laid on the residues of the target.

    aatype: (T, R) int64 in model order; 20 = unknown, 21 = no residue of the template is aligned. atom37:
    (T, R, 37, 3) Å, 0 where an atom is not there; atom37_mask: (T, R, 37), 1 where it is. angles: (T, R, 57),
    `torsion_features`. mask: (T,), 0 = this place holds no template.
    """

    aatype: Tensor
    atom37: Tensor
    atom37_mask: Tensor
    angles: Tensor
    mask: Tensor

    @classmethod
    def on_columns(cls, templates: Templates, target: str, columns: NDArray[np.integer]) -> "TemplateInputs":
        """Templates of the target (a letter per match column, `-` for a gap) on the columns that are seen."""
        residues = np.array(list(target)) != "-"
        places, gaps = np.cumsum(residues)[columns] - 1, ~residues[columns]
        aatype, mask = templates.aatype[:, places], templates.atom37_mask[:, places].astype(np.float32)
        aatype[:, gaps], mask[:, gaps] = NOT_ALIGNED, 0
        return cls.from_atoms(aatype, templates.atom37[:, places] * mask[..., None], mask)

    @classmethod
    def from_atoms(
        cls, aatype: NDArray[np.integer], atom37: NDArray[np.float32], atom37_mask: NDArray[np.float32]
    ) -> "TemplateInputs":
        """Of templates that are all there; shapes as above."""
        angles = torsion_features(aatype, atom37, atom37_mask)
        arrays = aatype.astype(np.int64), atom37, atom37_mask, angles, np.ones(len(aatype), np.float32)
        return cls(*map(torch.from_numpy, arrays))

    def to(self, device: torch.device) -> "TemplateInputs":
        return TemplateInputs._make(tensor.to(device) for tensor in self)


class ModelInputs(NamedTuple):
    """One sample of an alignment's input features; recycling may take another sample for every pass.

    Those of `InputFeatures` as tensors, whole numbers int64. Of residue_index only differences count. A model
    without extra-MSA stack takes no extra rows; others take one masked row where there is none.
    """

    aatype: Tensor
    residue_index: Tensor
    seq_mask: Tensor
    target_feat: Tensor
    msa_feat: Tensor
    msa_mask: Tensor
    extra_msa: Tensor | None = None
    extra_has_deletion: Tensor | None = None
    extra_deletion_value: Tensor | None = None
    extra_msa_mask: Tensor | None = None
    pair_feat: Tensor | None = None
    """(R, R, F) float for a model with pair input features (covariances, say), otherwise None."""
    templates: TemplateInputs | None = None
    """The same for all passes; None for none."""

    @property
    def pair_mask(self) -> Tensor:
        """(R, R) 1 = both residues exist."""
        return self.seq_mask[:, None] * self.seq_mask[None, :]

    def to(self, device: torch.device) -> "ModelInputs":
        return ModelInputs._make(None if tensor is None else tensor.to(device) for tensor in self)

    @classmethod
    def from_features(
        cls,
        features: InputFeatures,
        pair_feat: NDArray[np.float32] | None = None,
        templates: TemplateInputs | None = None,
    ) -> "ModelInputs":
        """The NumPy features of `bioattn.alignments.input_features` as tensors on the CPU."""
        arrays = {name: getattr(features, name) for name in cls._fields if hasattr(features, name)}
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        return cls(
            **{name: each if each.is_floating_point() else each.long() for name, each in tensors.items()},
            pair_feat=None if pair_feat is None else torch.from_numpy(pair_feat),
            templates=templates,
        )


_NUM_COVARIANCE_FEATURES = 3
_ROWS_LOOKED_AT = 2048
"""Number of rows that warnings are computed from; this takes a fraction of a second."""


@dataclass(frozen=True, eq=False, kw_only=True)
class AlignmentInputs:
    """An alignment ready to draw samples from; made by `prepare_inputs`."""

    encoded: EncodedAlignment
    """All rows without duplicates, all match columns."""
    columns: NDArray[np.intp]
    """(R,) 0-based match columns of the alignment that the model sees, ascending."""
    settings: InputSettings
    weights: NDArray[np.float64] | None
    """(S,) sequence weights, where rows are drawn by them."""
    pair_feat: NDArray[np.float32] | None
    """(R, R, F) for a model with pair features."""
    templates: TemplateInputs | None = None

    @property
    def num_clusters(self) -> int:
        room = int(self.num_drawn * (1 - self.settings.min_extra_share))
        return max(1, min(self.settings.max_msa_clusters, room, self.num_drawn))

    @property
    def num_extra(self) -> int:
        """Rows of the extra MSA: one masked row where there is none."""
        return max(1, min(self.settings.max_extra_msa, self.num_drawn - self.num_clusters))

    @property
    def num_drawn(self) -> int:
        """Rows that a sample is drawn from after weighting."""
        wanted = self.settings.max_msa_clusters + self.settings.max_extra_msa
        return min(len(self.encoded.msa), wanted) if self.settings.weighted_rows else len(self.encoded.msa)

    def warnings(self) -> list[str]:
        """Reasons not to expect contacts from the alignment, a sentence each; of a sample where rows are many."""
        sample = random_rows(len(self.encoded.msa), _ROWS_LOOKED_AT, np.random.default_rng(0))
        found = statistics_of_rows(self.encoded.msa[sample]).warnings()
        if len(sample) < len(self.encoded.msa):
            return [f"{sentence} (of a sample of {len(sample):,} rows)" for sentence in found]
        return found

    def sample(self, seed: int, number: int) -> ModelInputs:
        """What pass `number`, counted over all samples, gives the model; it does not depend on earlier passes."""
        random = np.random.default_rng([seed, number])
        features = sample_input_features(
            self.encoded.part(self._drawn(random), self.columns),
            max_clusters=self.num_clusters,
            max_extra=self.settings.max_extra_msa,
            masked_fraction=self.settings.masked_fraction,
            random=random,
        )
        return ModelInputs.from_features(features, self.pair_feat, self.templates)

    def rows_of(self, seed: int, number: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows of `encoded` that pass `number` draws: (N,) of the clustered MSA, and those of the extra MSA."""
        random = np.random.default_rng([seed, number])
        rows = self._drawn(random)
        order = rows[shuffled_rows(len(rows), random)]
        last = self.num_clusters + self.settings.max_extra_msa
        return order[: self.num_clusters], order[self.num_clusters : last]

    def _drawn(self, random: np.random.Generator) -> NDArray[np.intp]:
        """The rows of `encoded` that a sample is drawn from, the target first."""
        if self.weights is None:
            return np.arange(len(self.encoded.msa))
        return weighted_order(self.weights, 0, random)[: self.num_drawn]


def weighted_order(weights: NDArray[np.float64], first: int, random: np.random.Generator) -> NDArray[np.intp]:
    """All rows in random order, those of larger weights rather before others; row `first` before all."""
    # The order of exponential clocks with these rates is a weighted draw without repetition.
    clock = random.exponential(size=len(weights)) / weights
    clock[first] = -1
    return np.argsort(clock)


def target_columns(msa: NDArray[np.uint8], target: int, max_gaps: float) -> NDArray[np.intp]:
    """Columns where row `target` has a residue, or less than `max_gaps` of the rows have a gap."""
    return np.flatnonzero((msa[target] != GAP) | ((msa == GAP).mean(axis=0) < max_gaps))


def prepare_inputs(
    alignment: Alignment,
    config: EvoformerConfig,
    settings: InputSettings,
    *,
    source: str,
    progress: Progress = SILENT,
) -> AlignmentInputs:
    """Encode an alignment, choose its columns, and compute what all samples share.

    A gap of the target, row 1, counts as an unknown residue; insertions of the target are left out.

    Raises: BioattnError beginning with `source` when the alignment is of nucleotides, or its target has no residue
    of a known kind; when memory cannot hold the covariances of its columns; or the model takes other features.
    """
    encoded = encode_alignment(alignment, source=source)
    if config.pair_features not in (0, _NUM_COVARIANCE_FEATURES):
        raise BioattnError(
            f"the model takes {config.pair_features} features of column pairs; only the "
            f"{_NUM_COVARIANCE_FEATURES} covariance features are known"
        )
    if (encoded.aatype == UNKNOWN).all():
        raise BioattnError(
            f"{source}: row 1, {alignment.names[0]}, is the target and has no residue of a known kind"
        )
    columns = np.arange(encoded.msa.shape[1])
    if settings.max_gap_column < 1:
        columns = target_columns(encoded.msa, 0, settings.max_gap_column)
    weights = None
    if settings.weighted_rows or config.pair_features:
        weights = sequence_weights(encoded.msa, progress=progress)
    pair_feat = None
    if config.pair_features:
        try:
            pair_feat = covariance_features(column_states(encoded.msa[:, columns]), weights)
        except BioattnError as error:
            raise BioattnError(
                f"{source}: {error}; data/models/evoformer-contacts predicts from the alignment alone"
            ) from error
    return AlignmentInputs(
        encoded=encoded,
        columns=columns,
        settings=settings.for_columns(len(columns)),
        weights=weights if settings.weighted_rows else None,
        pair_feat=pair_feat,
    )
