"""Alignments, and the contacts that a model predicts from them: what `explain check` asks an MSA/pair model.

Shape suffixes: S rows of the clustered or the extra MSA, R residues (columns that the model sees).
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import h5py
import numpy as np
import torch
from numpy.typing import NDArray

from bioattn.alignments.contact_dataset import SPLIT_NAMES, TEST, TRAIN, VALIDATION, open_contact_dataset
from bioattn.errors import BioattnError
from bioattn.inference.alignment_inputs import find_alignments, read_with_digest
from bioattn.io.files import sha256_of
from bioattn.models.evoformer.heads import contact_probabilities
from bioattn.models.evoformer.inputs import AlignmentInputs, ModelInputs, prepare_inputs
from bioattn.models.evoformer.sites import EXTRA_MSA_ROW, MSA_ROW
from bioattn.models.evoformer.training.samples import TrainingFamily
from bioattn.store.training_record import read_training_record
from bioattn.structures.contacts import contacts, known_pairs

if TYPE_CHECKING:
    from bioattn.models.evoformer.folder import LoadedEvoformerModel

SEED = 0
"""Of the draw of rows and of masked cells, as `bioattn run evoformer` has it by default."""
LAYERS = {
    "rows": ("msa_row",),
    "columns": ("msa_column", "msa_column_global"),
    "triangles": ("triangle_starting", "triangle_ending"),
}


class Aligned(NamedTuple):
    """One alignment."""

    id: str
    inputs: AlignmentInputs
    cb: NDArray[np.float32] | None
    """(columns of the alignment, 3), NaN where the structure has no residue; None without a structure."""


class EvoformerProbe:
    """A `bioattn.inference.runner.ContactProbe`."""

    def __init__(
        self, model: "LoadedEvoformerModel", aligned: Sequence[Aligned], sha256: str, held_out: str
    ) -> None:
        self._model, self._aligned = model, aligned
        self.sha256, self.held_out = sha256, held_out
        self.ids = [each.id for each in aligned]
        self.sites: Mapping[str, Sequence[str]] = {
            part: [name for name in model.sites if name.split(".")[-1] in layers]
            for part, layers in LAYERS.items()
        }
        self.sites |= {"maps": [name for name in self.sites["rows"] if not name.startswith("extra_msa.")]}
        self._drawn: tuple[int, ModelInputs] | None = None

    def truth(self, number: int) -> NDArray[np.float64] | None:
        aligned = self._aligned[number]
        if aligned.cb is None:
            return None
        seen = np.ix_(aligned.inputs.columns, aligned.inputs.columns)
        return np.where(known_pairs(aligned.cb), contacts(aligned.cb), np.nan)[seen]

    def separations(self, number: int) -> NDArray[np.int64]:
        columns = self._aligned[number].inputs.columns.astype(np.int64)
        return np.asarray(np.abs(columns[:, None] - columns))

    def contacts(
        self,
        number: int,
        *,
        shuffled: NDArray[np.bool_] | None = None,
        removed: Mapping[str, NDArray[np.bool_]] | None = None,
    ) -> NDArray[np.float64]:
        """By one pass on the first draw of an alignment."""
        if self._drawn is None or self._drawn[0] != number:
            self._drawn = number, self._aligned[number].inputs.sample(SEED, 0)
        inputs = self._drawn[1]
        if shuffled is not None:
            inputs = shuffle_columns(inputs, shuffled)
        for kind, name in ((MSA_ROW, "msa_mask"), (EXTRA_MSA_ROW, "extra_msa_mask")):
            if removed and kind in removed:
                kept = torch.from_numpy(~removed[kind])[:, None]
                inputs = inputs._replace(**{name: getattr(inputs, name) * kept})
        with torch.inference_mode():
            logits = self._model.model(inputs.to(self._model.device)).distogram_logits
        if logits is None:
            raise BioattnError(
                f"{self._model.path}: the model predicts no distances, so it has no contacts to check"
            )
        return contact_probabilities(logits).double().cpu().numpy()


def shuffle_columns(inputs: ModelInputs, columns_R: NDArray[np.bool_]) -> ModelInputs:
    """The inputs with the cells of some columns in random order among the rows but the target's, in each column
    another. Pair features of these columns become 0, as they are where columns do not vary together."""
    random, places = np.random.default_rng(SEED), torch.from_numpy(np.flatnonzero(columns_R))
    changed: dict[str, Any] = {}
    for first, *names in ((1, "msa_feat"), (0, "extra_msa", "extra_has_deletion", "extra_deletion_value")):
        given = {name: cells for name in names if (cells := getattr(inputs, name)) is not None}
        for name, cells in given.items():
            if name == names[0]:
                order = random.random((len(cells) - first, len(places))).argsort(0) + first
            changed[name] = cells.clone()
            changed[name][first:, places] = cells[torch.from_numpy(order), places]
    if inputs.pair_feat is not None:
        changed["pair_feat"] = inputs.pair_feat.clone()
        changed["pair_feat"][places] = changed["pair_feat"][:, places] = 0
    return inputs._replace(**changed)


def make_probe(model: "LoadedEvoformerModel", path: Path, number: int, seed: int) -> EvoformerProbe:
    """`number` proteins at most of a contact dataset, or of an alignment, a folder or a list of them.

    Of the dataset that the model was trained on, the test side (or else validation, or else training) is used; of
    another all proteins are.

    Raises: FormatError for what is neither; BioattnError for an alignment that the model cannot read.
    """
    aligned: list[Aligned] = []
    if not path.is_file() or not h5py.is_hdf5(path):
        sources, digests = find_alignments(path)[0], []
        for row in _draw(np.arange(len(sources)), number, seed):
            alignment, digest = read_with_digest(sources[row].path)
            inputs = prepare_inputs(alignment, model.config, model.inputs, source=str(sources[row].path))
            aligned.append(Aligned(sources[row].name, inputs, None))
            digests.append(digest)
        whole = hashlib.sha256("".join(digests).encode()).hexdigest() if len(digests) > 1 else digests[0]
        return EvoformerProbe(model, aligned, whole, "")
    dataset, sha256 = open_contact_dataset(path), sha256_of(path)
    rows, held_out = np.arange(len(dataset)), ""
    if read_training_record(model.path.parent).get("dataset", {}).get("sha256") == sha256:
        side = next((side for side in (TEST, VALIDATION) if len(dataset.proteins_in(side))), TRAIN)
        rows, held_out = dataset.proteins_in(side), SPLIT_NAMES[side]
    for row in _draw(rows, number, seed):
        family = TrainingFamily(dataset.protein(int(row)))
        inputs = family.inputs(model.inputs, covariance=bool(model.config.pair_features))
        aligned.append(Aligned(family.protein.id, inputs, family.protein.cb))
    return EvoformerProbe(model, aligned, sha256, held_out)


def _draw(rows: NDArray[np.int64], number: int, seed: int) -> NDArray[np.int64]:
    return rows[np.sort(np.random.default_rng([seed, 0]).permutation(len(rows))[:number])]
