"""How a molecule model is trained: what `training/trainer.py` asks of this family."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray
from torch import Tensor, nn

from bioattn.choices import SPLIT_NAMES, TEST, TRAIN, VALIDATION
from bioattn.choices import Task as Kind
from bioattn.errors import BioattnError, SettingsError
from bioattn.io.settings import build
from bioattn.models.molecule.family import (
    DATASET_GIVES,
    MoleculeModelConfig,
    MoleculeTraining,
    MoleculeTrainingConfig,
)
from bioattn.models.molecule.model import MeasuredMolecules, MoleculeModel, logit, molecule_batch
from bioattn.models.molecule.run import in_units
from bioattn.models.molecule_layers import graph_batch
from bioattn.models.molecule_settings import MoleculeEncoding
from bioattn.molecules.dataset import open_molecule_dataset
from bioattn.molecules.similarity import MAX_PROCESS, NadarayaWatson, TanimotoProcess, packed_bits
from bioattn.promoters.response_metrics import (
    Statistic,
    auroc,
    average_precision,
    estimate,
    mean_squared_error,
    pearson,
)
from bioattn.store.training_record import MODEL_ROW
from bioattn.system.progress import Progress
from bioattn.system.shard import Shard
from bioattn.text import counted
from bioattn.training.predicted_tokens import Evaluation, Row
from bioattn.training.task import (
    ConfiguredTask,
    Judgement,
    Results,
    Step,
    figures_by_part,
    set_seed,
)

POOL = 8
"""A batch is drawn from so many times its molecules, ordered by size, so that little of it is padding."""
EVALUATION_BATCH = 64
RESAMPLES = 300
Floats = NDArray[np.float64]


class MoleculeTask(ConfiguredTask):
    smaller_is_better = True
    model: MoleculeModel
    family, training_kind = "molecule", MoleculeTrainingConfig

    def __init__(self, settings: MoleculeTraining, device: torch.device) -> None:
        super().__init__(settings, device)
        self.dataset = dataset = open_molecule_dataset(settings.dataset)
        self.rows = {side: dataset.side(side) for side in (TRAIN, VALIDATION, TEST)}
        train_NT = dataset.targets_NT[self.rows[TRAIN]].astype(np.float64)
        measured_T = np.isfinite(train_NT).sum(0)
        if not len(train_NT) or not measured_T.all():
            lacking = next((task for task, n in zip(dataset.tasks, measured_T, strict=True) if not n), "")
            raise BioattnError(
                f"{settings.dataset}: no training molecule was measured for the task {lacking!r}"
            )
        self.binary = dataset.task is Kind.BINARY
        self.metric = "log loss" if self.binary else "RMSE in standard deviations"
        self.shown = {"loss": self.metric}
        given = settings.model
        for name in DATASET_GIVES:
            if name in given:
                raise SettingsError(f"{name} is not a setting: the dataset decides it; leave it out")
        spread_T = np.nanstd(train_NT, axis=0)
        chosen = {
            "task": str(dataset.task),
            "tasks": list(dataset.tasks),
            "mean": [] if self.binary else np.nanmean(train_NT, axis=0).tolist(),
            "spread": [] if self.binary else np.where(spread_T > 0, spread_T, 1.0).tolist(),
        }
        config = build(MoleculeModelConfig, {**given, **chosen}, settings.source("model"))
        self.keeps_start = config.gaussian_process
        if config.gaussian_process:
            config = replace(config, measured=min(len(self.rows[TRAIN]), MAX_PROCESS))
        if config.encoder is MoleculeEncoding.FINGERPRINT:
            # The total that atoms write grows with their number; that of heads does not.
            written = (config.radius + 1) * float(dataset.molecules.sizes[self.rows[TRAIN]].mean())
            config = replace(config, scale=config.slots / written)
        self.config = config
        self.decided_by(dataset=settings.dataset)

    def prepare(self, progress: Progress) -> None:
        molecules = self.dataset.molecules
        targets_NT = torch.from_numpy(self.dataset.targets_NT)
        if not self.binary:
            mean_T, spread_T = (torch.tensor(each) for each in (self.config.mean, self.config.spread))
            targets_NT = (targets_NT - mean_T) / spread_T
        self.targets_NT = targets_NT.float()
        self.train = self.rows[TRAIN][np.argsort(molecules.sizes[self.rows[TRAIN]], kind="stable")]
        self.make(MoleculeModel)
        self.begin_NT = None if self.model.process is None else self._fit(self.model.process)
        self.summary = (
            f"{self.config.encoder} ({self.weights}) on {counted(len(self.train), 'molecule')} and "
            f"{counted(len(self.config.tasks), 'task')}"
        )

    def _fit(self, process: MeasuredMolecules) -> Tensor:
        """Fit the Gaussian process. What it says of training molecules without themselves, (all, T)."""
        train, molecules = self.rows[TRAIN], self.dataset.molecules
        bits = packed_bits(molecules, train)
        fitted = TanimotoProcess(bits, self.targets_NT[train].double().numpy())
        process.packed_bits.copy_(torch.from_numpy(fitted.fingerprints))
        process.weights_NT.copy_(torch.from_numpy(fitted.weights_NT))
        process.mean_T.copy_(torch.from_numpy(fitted.mean_T))
        begin = fitted.predict(bits)
        begin[fitted.rows] = np.where(np.isnan(fitted.left_out_NT), begin[fitted.rows], fitted.left_out_NT)
        begin_NT = torch.zeros(self.targets_NT.shape)
        begin_NT[train] = torch.from_numpy(begin).float()
        return logit(begin_NT) if self.binary else begin_NT

    def parts(self, step: Step, shard: Shard) -> Iterator[Tensor]:
        training = self.training
        generator = np.random.default_rng([training.seed, step.number])
        pool = np.sort(generator.integers(len(self.train), size=training.batch_size * POOL))
        first = int(generator.integers(POOL)) * training.batch_size
        drawn = self.train[pool[first : first + training.batch_size]]
        measured = max(1, int(torch.isfinite(self.targets_NT[drawn]).sum()))
        set_seed(training.seed * 1_000_003 + step.number)
        own = drawn[shard.slice(len(drawn))]
        if len(own):
            with training.precision.autocast(self.device):
                answer_BT = self.model.network(graph_batch(self.dataset.molecules, own).to(self.device))
                if self.begin_NT is not None:
                    answer_BT = answer_BT + self.begin_NT[own].to(self.device)
                loss = self._losses(answer_BT, own).sum() / measured
            yield loss

    def _losses(self, answer_BT: Tensor, rows: NDArray[np.int64]) -> Tensor:
        """Loss of every measured value of some molecules, one-dimensional."""
        wanted_BT = self.targets_NT[rows].to(self.device)
        measured_BT = torch.isfinite(wanted_BT)
        answers, wanted = answer_BT.float()[measured_BT], wanted_BT[measured_BT]
        if self.binary:
            return F.binary_cross_entropy_with_logits(answers, wanted, reduction="none")
        squared: Tensor = (answers - wanted).square()
        return squared

    def validate(self, model: nn.Module, shard: Shard) -> Tensor | None:
        """Number and sum of the losses of each batch of validation molecules."""
        batches = _batches(self.rows[VALIDATION])
        if not batches:
            return None

        def sums(rows: NDArray[np.int64]) -> Tensor:
            answer_BT = model(molecule_batch(self.dataset.molecules, rows, self.device))
            losses = self._losses(answer_BT, rows).double()
            return torch.stack([losses.new_tensor(len(losses)), losses.sum()])

        return figures_by_part(batches, shard, 2, sums)

    def judge(self, values: Tensor) -> Judgement:
        """The log loss, or the root of the mean squared error."""
        number, total = values.sum(0).tolist()
        loss = total / max(1.0, number)
        score = loss if self.binary else loss**0.5
        return Judgement(score, {"loss": score})

    def evaluate(self, progress: Progress) -> Results:
        dataset, fingerprints = self.dataset, self.dataset.molecules.fingerprints
        train = self.rows[TRAIN]
        targets_NT = dataset.targets_NT.astype(np.float64)
        simple: dict[str, NadarayaWatson | TanimotoProcess] = {
            "Nadaraya-Watson (Tanimoto)": NadarayaWatson(fingerprints[train], targets_NT[train]),
            "Gaussian process (Tanimoto)": TanimotoProcess(fingerprints[train], targets_NT[train]),
        }
        rows: list[Row] = []
        gains: dict[str, tuple[float, float]] = {}
        for side in (VALIDATION, TEST):
            own = self.rows[side]
            if not len(own):
                continue
            truth_NT, ours_NT = targets_NT[own], self._predicted(own)
            rows.append(Row(SPLIT_NAMES[side], MODEL_ROW, self._figures(truth_NT, ours_NT)))
            for name, each in simple.items():
                theirs_NT = each.predict(fingerprints[own])
                rows.append(Row(SPLIT_NAMES[side], name, self._figures(truth_NT, theirs_NT)))
                gain = estimate(self._gain(truth_NT, ours_NT, theirs_NT), len(own), RESAMPLES)
                if np.isfinite([gain.low, gain.high]).all():
                    gains[name] = gain.low, gain.high
        shown = {"rmse": ("RMSE", 4), "pearson": ("Pearson r", 4)}
        return Evaluation(
            rows,
            "molecules, mean over tasks" if len(dataset.tasks) > 1 else "molecules",
            {"auroc": ("AUROC", 4), "auprc": ("AUPRC", 4)} if self.binary else shown,
            smaller_is_better=not self.binary,
            gains=gains,
        )

    def _predicted(self, rows: NDArray[np.int64]) -> Floats:
        with torch.inference_mode():
            batches = [molecule_batch(self.dataset.molecules, batch, self.device) for batch in _batches(rows)]
            return np.concatenate([in_units(self.config, self.model(batch)) for batch in batches])

    def _figures(self, truth_NT: Floats, answers_NT: Floats) -> dict[str, float]:
        """Means over the tasks that can be judged."""
        if self.binary:
            found = {"auroc": auroc(truth_NT, answers_NT), "auprc": average_precision(truth_NT, answers_NT)}
        else:
            found = {
                "rmse": mean_squared_error(truth_NT, answers_NT) ** 0.5,
                "pearson": pearson(truth_NT, answers_NT),
            }
        return {name: float(_mean_over_tasks(each)[0]) for name, each in found.items()}

    def _gain(self, truth_NT: Floats, ours_NT: Floats, theirs_NT: Floats) -> Statistic:
        def gain(weights_RN: Floats) -> Floats:
            both = (ours_NT, theirs_NT)
            if self.binary:
                better, worse = (auroc(truth_NT, each, weights_RN) for each in both)
            else:
                worse, better = (mean_squared_error(truth_NT, each, weights_RN) ** 0.5 for each in both)
            return _mean_over_tasks(better) - _mean_over_tasks(worse)

        return gain

    def describe(self) -> tuple[str, str]:
        config = self.config
        return (
            f"Molecule model: {counted(len(config.tasks), 'task')} ({config.task})",
            f"{config.encoder}, radius {config.radius}, {config.channels} channels, {config.slots} slots. "
            f"Trained by bioattn on `{self.settings.dataset.name}` "
            f"({counted(len(self.rows[TRAIN]), 'molecule')}).",
        )


def _batches(rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    return [rows[first : first + EVALUATION_BATCH] for first in range(0, len(rows), EVALUATION_BATCH)]


def _mean_over_tasks(values_RT: Floats) -> Floats:
    """(R,); NaN where no task can be judged."""
    known_RT = np.isfinite(values_RT)
    mean_R: Floats = np.where(known_RT, values_RT, 0.0).sum(1) / np.where(
        known_RT.any(1), known_RT.sum(1), np.nan
    )
    return mean_R
