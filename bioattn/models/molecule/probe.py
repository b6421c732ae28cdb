"""Held-out molecules, and what a model predicts of them: what `explain check` asks a molecule model.

Shape suffixes: N molecules, B molecules of a batch, A atoms, R radii, S slots, T tasks, P pairs of molecule and
task.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray
from torch import Tensor

from bioattn.choices import Task
from bioattn.errors import BioattnError
from bioattn.io.files import sha256_of
from bioattn.models.molecule.folder import LoadedMoleculeModel
from bioattn.models.molecule.model import MoleculeBatch, molecule_batch
from bioattn.molecules.dataset import MoleculeDataset, open_molecule_dataset
from bioattn.promoters.dataset import SPLIT_NAMES, TEST, TRAIN, VALIDATION
from bioattn.text import some

BATCH = 64
PAIRS = 256
"""Pairs of molecule and task that are predicted together."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class MoleculeProbe:
    """A `bioattn.inference.runner.AtomProbe`."""

    loaded: LoadedMoleculeModel
    dataset: MoleculeDataset
    rows_N: NDArray[np.int64]
    sha256: str
    held_out: str

    @property
    def ids(self) -> list[str]:
        return [self.dataset.molecules.ids[row] for row in self.rows_N]

    @property
    def tasks(self) -> tuple[str, ...]:
        return self.loaded.config.tasks

    @property
    def known_NA(self) -> NDArray[np.bool_]:  # noqa: N802
        sizes_N = self.dataset.molecules.sizes[self.rows_N]
        return np.arange(sizes_N.max(initial=0)) < sizes_N[:, None]

    def simple_log_likelihoods(self) -> dict[str, Floats]:
        """Of the training mean, and of the model's Gaussian process, if it has one."""
        config, process = self.loaded.config, self.loaded.model.process
        mean_T = torch.zeros(len(config.tasks))
        if config.task is Task.BINARY:
            train_NT = self.dataset.targets_NT[self.dataset.side(TRAIN)]
            mean_T = torch.from_numpy(np.nanmean(train_NT, axis=0)).logit(1e-6)
        found = {"the training mean": self._likely(lambda batch: mean_T.expand(len(batch.bits_BRA), -1))}
        if process is not None:
            found["its Gaussian process"] = self._likely(lambda batch: process(batch.bits_BRA))
        return found

    def log_likelihoods(self) -> Floats:
        return self._likely(self.loaded.model)

    def contributions(self) -> Floats:
        lost_NTA = np.zeros((len(self.rows_N), len(self.tasks), self.known_NA.shape[1]))
        with torch.inference_mode():
            for own, batch in self._batches():
                lost_BTRA = self.loaded.model.network_contributions(batch.graphs)
                lost_NTA[own, :, : lost_BTRA.shape[-1]] = lost_BTRA.sum(2).cpu().numpy()
        return lost_NTA

    def answers(
        self, row_P: NDArray[np.int64], task_P: NDArray[np.int64], writing_PA: NDArray[np.bool_]
    ) -> Floats:
        answers = []
        with torch.inference_mode():
            for first in range(0, len(row_P), PAIRS):
                own = slice(first, first + PAIRS)
                writing_P1A = torch.from_numpy(writing_PA[own, None]).to(self._writes_NAS)
                answer_PT = self.loaded.model.read((writing_P1A @ self._writes_NAS[row_P[own]])[:, 0])
                answers.append(answer_PT.cpu().numpy()[np.arange(len(answer_PT)), task_P[own]])
        return np.concatenate(answers).astype(np.float64)

    @cached_property
    def _writes_NAS(self) -> Tensor:  # noqa: N802
        """What each atom writes at all radii together."""
        longest, written = self.known_NA.shape[1], []
        for _, batch in self._batches():
            writes_BAS = self.loaded.model.encoder(batch.graphs).sum(1)
            written.append(F.pad(writes_BAS, (0, 0, 0, longest - writes_BAS.shape[1])))
        return torch.cat(written)

    def _likely(self, predict: Callable[[MoleculeBatch], Tensor]) -> Floats:
        """ln of the probability (N,) under predictions (B, T)."""
        config, found = self.loaded.config, []
        wanted_NT = torch.from_numpy(self.dataset.targets_NT[self.rows_N]).double()
        for own, batch in self._batches():
            with torch.inference_mode():
                answer_BT = predict(batch).double().cpu()
            wanted_BT = wanted_NT[own]
            if config.task is Task.BINARY:
                likely_BT = -F.binary_cross_entropy_with_logits(answer_BT, wanted_BT, reduction="none")
            else:
                mean_T, spread_T = torch.tensor(config.mean), torch.tensor(config.spread)
                likely_BT = -(answer_BT - (wanted_BT - mean_T) / spread_T).square() / 2
            found.append(likely_BT.where(wanted_BT.isfinite(), 0.0).sum(1))
        return torch.cat(found).numpy()

    def _batches(self) -> Iterator[tuple[slice, MoleculeBatch]]:
        for first in range(0, len(self.rows_N), BATCH):
            own = slice(first, first + BATCH)
            yield own, molecule_batch(self.dataset.molecules, self.rows_N[own], self.loaded.device)


def make_probe(loaded: LoadedMoleculeModel, path: Path, number: int, seed: int) -> MoleculeProbe:
    """`number` measured molecules drawn from the test side (or else validation) of a dataset.

    Raises: FormatError for what is no such dataset; BioattnError when it measures something else.
    """
    dataset, config = open_molecule_dataset(path), loaded.config
    if (tuple(dataset.tasks), dataset.task) != (config.tasks, config.task):
        raise BioattnError(
            f"{path}: measures {some(dataset.tasks)} ({dataset.task}), the model predicts {some(config.tasks)} "
            f"({config.task}); give the dataset that it was trained on"
        )
    side = TEST if (dataset.split == TEST).any() else VALIDATION
    rows = dataset.side(side)
    rows = rows[np.isfinite(dataset.targets_NT[rows]).any(1)]
    chosen = np.sort(np.random.default_rng([seed, 0]).permutation(len(rows))[:number])
    return MoleculeProbe(
        loaded=loaded,
        dataset=dataset,
        rows_N=rows[chosen],
        sha256=sha256_of(path),
        held_out=SPLIT_NAMES[side],
    )
