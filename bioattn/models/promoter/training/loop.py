"""The training loop: steps, validation, early stopping, saving and going on.

It knows tensors and a dataset, no files of models: `train` gives it both and writes the folder.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.attention.capture import capture
from bioattn.attention.entropy import EntropyMeter
from bioattn.errors import BioattnError
from bioattn.models.promoter.batch_part import part_of_batch
from bioattn.models.promoter.model import PromoterModel
from bioattn.models.promoter.training.batches import Batch, TrainingBatches, centred_windows
from bioattn.models.promoter.training.config import Loss, Metric, TrainingConfig
from bioattn.models.promoter.training.losses import (
    cell_losses,
    classifier_free_loss,
    masked_mean,
    measured_cells,
)
from bioattn.models.promoter.treatment_vocabulary import TreatmentBatch
from bioattn.promoters.dataset import PromoterDataset
from bioattn.promoters.response_metrics import SharedAxis, per_treatment, summarise
from bioattn.system.progress import Progress
from bioattn.system.shard import Shard
from bioattn.system.signals import StopRequest
from bioattn.training.distributed import ALONE, Processes, saved_if_others_end
from bioattn.training.optimisation import copied_weights, make_optimizer, warm_up_and_cosine
from bioattn.training.state import Position, load_state, save_state
from bioattn.training.update import PartLoss, update_weights
from bioattn.training.weight_average import WeightAverage

METRIC_KEYS = {
    Metric.PEARSON: "mean_pearson",
    Metric.SPECIFIC_PEARSON: "specific_pearson",
    Metric.AUROC: "mean_auroc",
    Metric.AVERAGE_PRECISION: "mean_auprc",
}
"""Names of the metrics among the validation figures. Means over treatments, where tables show medians: a median
does not notice that a few treatments are not learned yet."""

STOPPING = ("pearson", "auroc", "auprc")
"""Figures per treatment whose means are watched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standardiser:
    """Dataset units ↔ standard units of training: one mean and sd over all training cells."""

    mean: float
    sd: float


@dataclass(slots=True, kw_only=True)
class Trainer:
    """One training run of one model."""

    model: PromoterModel
    dataset: PromoterDataset
    batches: TrainingBatches
    treatments: TreatmentBatch
    """The training treatments, encoded, on the device."""
    columns: NDArray[np.int64]
    """Their columns in the dataset's targets."""
    unconditional: TreatmentBatch | None
    """The unconditional token as a batch of one, when it is trained."""
    validation: NDArray[np.int64] | None
    """Genes on which an epoch is judged, under the training treatments; None without any."""
    axis: SharedAxis | None
    """The shared axis of the training targets, for the specific Pearson r."""
    standardiser: Standardiser
    config: TrainingConfig
    loss: Loss
    metric: Metric
    device: torch.device
    job: Mapping[str, Any]
    """Data and settings: a saved state of another job is refused."""
    state_path: Path | None
    """Where the first process saves; None in the others."""
    processes: Processes = ALONE
    average: WeightAverage = field(init=False)
    """Made when the run starts, after any warm start."""
    best: dict[str, Tensor] = field(init=False)
    """The best epoch's weights; the first process has them."""

    def run(
        self, *, resume: bool, progress: Progress, stop: StopRequest
    ) -> tuple[Position, dict[str, Tensor]]:
        """Train to the end; return the history and the best weights, in standard units (empty but in the first
        process).

        Raises: Interrupted when `stop` was requested in any process, after the step is finished and the state
        saved. LostProcess when another process ended, after the state is saved. BioattnError when the loss is no
        longer a number.
        """
        optimizer = self._optimizer()
        self.average = WeightAverage(self.model, self.config.average_decay)
        position = Position()
        self.best = {}
        if resume and self.state_path is not None and self.state_path.exists():
            position, self.best = load_state(
                self.state_path, self.job, self.model, self.average.model, optimizer
            )
        position = self.processes.share_state(position, self.model, self.average.model, optimizer)
        steps = self.batches.steps_per_epoch
        progress.begin("training", self.config.epochs * steps)
        progress.advance(position.epoch * steps + position.step)
        while position.epoch < self.config.epochs and not self._out_of_patience(position):
            with saved_if_others_end(partial(self._save, position, optimizer)):
                for batch in self._remaining(position):
                    position.epoch_loss += self._step(batch, optimizer, position, stop)
                    position.step += 1
                    self.average.update(self.model, position.epoch * steps + position.step)
                    progress.advance(
                        1, loss=position.epoch_loss / position.step, **_best_status(position, self.metric)
                    )
                    if self.processes.stopping(stop):
                        self._save(position, optimizer)
                        self.processes.wait_for_first()
                        stop.check(
                            f"training stopped in epoch {position.epoch + 1} after step {position.step} and "
                            "saved; go on with --resume"
                        )
                position = self._finish_epoch(position, optimizer)
            self._save(position, optimizer)
        progress.end()
        return position, self.best

    def predict(self, genes: NDArray[np.int64], batch_size: int = 128) -> Tensor:
        """Standard-unit answers for the unshifted windows of `genes` under the training treatments: float32
        (B, T) on the CPU; the processes share the work."""
        model = cast(PromoterModel, self.average.model)
        model.eval()
        answers_BT = torch.zeros(len(genes), self.treatments.size)
        # Whole batches to a process: an answer's last bit depends on its batch.
        own = Shard(self.processes.rank + 1, self.processes.count).slice(len(genes), batch_size)
        with torch.inference_mode(), self._autocast():
            for first in range(own.start, own.stop, batch_size):
                rows = slice(first, first + batch_size)
                codes_BL = centred_windows(self.dataset, genes[rows]).to(self.device)
                answers_BT[rows] = model.standardised(codes_BL, self.treatments).float().cpu()
        return self.processes.sum(answers_BT)

    def _remaining(self, position: Position) -> Iterator[Batch]:
        return self.batches.epoch(position.epoch, position.step)

    def _step(
        self, batch: Batch, optimizer: torch.optim.Optimizer, position: Position, stop: StopRequest
    ) -> float:
        """One update; returns its loss."""
        self.model.train()
        value = update_weights(
            self.model,
            optimizer,
            self._parts(batch, self._entropy_price(position)),
            learning_rate=self._learning_rate(position),
            gradient_clip=self.config.gradient_clip,
            processes=self.processes,
            stop=stop,
        )
        if not math.isfinite(value):
            raise BioattnError(
                f"the loss became {value} in epoch {position.epoch + 1}, step {position.step + 1}; "
                "try a smaller learning_rate, or --precision fp32"
            )
        return value

    def _parts(self, batch: Batch, entropy_price: float) -> Iterator[PartLoss]:
        """This process's part of a batch, as many promoters at a time as one pass takes."""
        size = len(batch.codes_BL)
        own = self.processes.share(size)
        each = self.config.micro_batch_size or max(1, own.stop - own.start)
        measured = measured_cells(batch.targets_BT).to(self.device)
        for first in range(own.start, own.stop, each):
            rows = slice(first, min(first + each, own.stop))
            # Every part draws what the whole batch would.
            torch.manual_seed(batch.seed)
            with part_of_batch(rows, size):
                part = self._part(batch, rows, measured, entropy_price)
            yield part

    def _part(self, batch: Batch, rows: slice, measured: Tensor, entropy_price: float) -> PartLoss:
        """What some promoters of a batch add to its loss. measured: cells of the whole batch."""
        codes_BL = batch.codes_BL[rows].to(self.device)
        targets_BT = (batch.targets_BT[rows] - self.standardiser.mean) / self.standardiser.sd
        asked = self.treatments.rows(batch.treatments_T.to(self.device))
        if self.unconditional is not None:
            asked = asked.joined(self.unconditional)
        meter = EntropyMeter()
        with (
            self._autocast(),
            capture(["*"], meter, gradients=True) if entropy_price else nullcontext(),
        ):
            answers_BT = self.model.standardised(codes_BL, asked)
        answers_BT = answers_BT.float()
        unconditional_B1 = None
        if self.unconditional is not None:
            answers_BT, unconditional_B1 = answers_BT[:, :-1], answers_BT[:, -1:]
        loss = classifier_free_loss(
            answers_BT,
            unconditional_B1,
            targets_BT.to(self.device),
            measured,
            loss=self.loss,
            huber_delta=self.config.huber_delta,
            probability=self.config.unconditional_probability,
        )
        if not entropy_price:
            return PartLoss(loss, loss)
        share = (rows.stop - rows.start) / len(batch.codes_BL)
        return PartLoss(loss + entropy_price * meter.mean() * share, loss)

    def _finish_epoch(self, position: Position, optimizer: torch.optim.Optimizer) -> Position:
        """Validate, note the history, keep the best weights; the first process decides which."""
        answers_BT = None if self.validation is None else self.predict(self.validation)
        if self.processes.is_first:
            self._note_epoch(position, optimizer, answers_BT)
        return self.processes.hold_together(position, self.model, self.average.model, optimizer)

    def _note_epoch(
        self, position: Position, optimizer: torch.optim.Optimizer, answers_BT: Tensor | None
    ) -> None:
        row = {
            "epoch": float(position.epoch + 1),
            "learning_rate": optimizer.param_groups[0]["lr"],
            "training_loss": position.epoch_loss / max(1, position.step),
        }
        score: float | None = None
        if answers_BT is not None:
            figures = self._figures(answers_BT)
            row |= {f"validation_{name}": value for name, value in figures.items()}
            score = -figures["loss"] if self.metric is Metric.LOSS else figures[METRIC_KEYS[self.metric]]
        position.history.append({name: value for name, value in row.items() if math.isfinite(value)})
        improved = score is None or (
            math.isfinite(score) and (position.best_score is None or score > position.best_score)
        )
        if improved or not self.best:
            position.best_epoch = position.epoch
            position.best_score = score
            self.best = copied_weights(self.average.model)
        position.epoch += 1
        position.step = 0
        position.epoch_loss = 0.0

    def _figures(self, answers_BT: Tensor) -> dict[str, float]:
        """Loss and metrics of answers for the validation genes."""
        targets = self.dataset.targets[np.ix_(cast(Any, self.validation), self.columns)]
        targets_BT = (torch.from_numpy(targets) - self.standardiser.mean) / self.standardiser.sd
        losses_BT = cell_losses(answers_BT, targets_BT, self.loss, self.config.huber_delta)
        dataset_units = (answers_BT * self.standardiser.sd + self.standardiser.mean).numpy()
        each = per_treatment(targets, dataset_units, self.dataset.task)
        return {
            "loss": float(masked_mean(losses_BT, targets_BT)),
            **{
                f"mean_{name}": float(np.nanmean(values)) for name, values in each.items() if name in STOPPING
            },
            **summarise(targets, dataset_units, self.axis, self.dataset.task),
        }

    def _out_of_patience(self, position: Position) -> bool:
        return (
            self.validation is not None and position.epoch - 1 - position.best_epoch >= self.config.patience
        )

    def _learning_rate(self, position: Position) -> float:
        steps = self.batches.steps_per_epoch
        return warm_up_and_cosine(
            position.epoch * steps + position.step,
            self.config.epochs * steps,
            peak=self.config.learning_rate,
            warmup_fraction=self.config.warmup_fraction,
        )

    def _entropy_price(self, position: Position) -> float:
        """What entropy costs in this step: attention must have found something before it is asked to be sure."""
        steps = self.batches.steps_per_epoch
        share = (position.epoch * steps + position.step) / (self.config.epochs * steps)
        return self.config.attention_entropy * share

    def _optimizer(self) -> torch.optim.Optimizer:
        config = self.config
        return make_optimizer(
            self.model, learning_rate=config.learning_rate, weight_decay=config.weight_decay
        )

    def _save(self, position: Position, optimizer: torch.optim.Optimizer) -> None:
        if self.state_path is not None:
            save_state(
                self.state_path, self.job, position, self.model, self.average.model, self.best, optimizer
            )

    def _autocast(self) -> AbstractContextManager[object]:
        return self.config.precision.autocast(self.device)


def _best_status(position: Position, metric: Metric) -> dict[str, float]:
    """The best validation score so far, under its name."""
    if position.best_score is None:
        return {}
    return {f"best {metric}": -position.best_score if metric is Metric.LOSS else position.best_score}
