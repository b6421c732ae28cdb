"""How one network of a promoter model is trained: what `training/trainer.py` asks of it."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bioattn.choices import TRAIN
from bioattn.errors import BioattnError
from bioattn.inference.runner import BinEncoder
from bioattn.models.evaluation import FIGURES
from bioattn.models.promoter.config import (
    Conditioning,
    FirstFilters,
    Loss,
    Metric,
    PromoterModelConfig,
    Readout,
    TrainingConfig,
)
from bioattn.models.promoter.cross import CrossModel
from bioattn.models.promoter.layers import part_of_batch
from bioattn.models.promoter.model import PromoterModel
from bioattn.models.promoter.training.data import (
    Batch,
    TargetScale,
    TrainingBatches,
    cell_losses,
    centred_windows,
    classifier_free_loss,
    log_odds,
    measured_cells,
)
from bioattn.models.promoter.training.evaluation import response_units
from bioattn.models.promoter.training.first_weights import (
    CLEAR_MOTIF,
    start_filters,
    start_for_clear_motifs,
    warm_start,
)
from bioattn.models.promoter.treatment_encoder import kernel_encoder
from bioattn.models.promoter.treatment_vocabulary import TreatmentBatch, TreatmentVocabulary
from bioattn.promoters.dataset import PromoterDataset
from bioattn.promoters.response_metrics import (
    SharedAxis,
    fit_shared_axis,
    known_mean,
    per_treatment,
    summarise,
)
from bioattn.promoters.treatments import UNCONDITIONAL
from bioattn.system.shard import Shard
from bioattn.text import counted
from bioattn.training.task import Judgement, Step, Training, set_seed

TRUNK_TREATMENTS_PER_STEP = 8
"""film and cross-all run their trunk once per treatment: by default only some are drawn in each step."""

VALIDATION_BATCH = 128
"""Promoters of one forward pass in validation."""

METRICS = {
    Metric.LOSS: ("loss", "loss"),
    Metric.PEARSON: ("mean_pearson", "mean r"),
    Metric.SPECIFIC_PEARSON: ("specific_pearson", FIGURES["regression"]["specific_pearson"]),
    Metric.AUROC: ("mean_auroc", "mean AUROC"),
    Metric.AVERAGE_PRECISION: ("mean_auprc", "mean AUPRC"),
}
"""Keys of the metrics among the validation figures, and their names in messages. Means over treatments, where
tables show medians: a median does not notice that a few treatments are not learned yet."""

AVERAGED_PROMOTERS = 500
"""Of the training, for the average that contributions are counted from."""

AVERAGED = ("pearson", "auroc", "auprc")
"""Figures per treatment whose means are watched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One network to train."""

    config: PromoterModelConfig
    training: TrainingConfig

    def record(self) -> dict[str, Any]:
        """The settings that weights follow from; a run may go on with the others changed."""
        training = asdict(self.training)
        del training["micro_batch_size"]
        return {"model": asdict(self.config), "training": training}


def loss_and_metric(training: TrainingConfig, task: str) -> tuple[Loss, Metric]:
    """Those of the settings, else the usual ones of the task.

    Raises: BioattnError when they are for the other kind of task.
    """
    binary = task == "binary"
    loss = training.loss or (Loss.BINARY if binary else Loss.MSE)
    metric = training.metric or (Metric.AUROC if binary else Metric.PEARSON)
    fits = {
        "loss": (loss is Loss.BINARY) == binary,
        "metric": metric is Metric.LOSS or (metric in (Metric.AUROC, Metric.AVERAGE_PRECISION)) == binary,
    }
    for name, value in (("loss", loss), ("metric", metric)):
        if not fits[name]:
            raise BioattnError(f"{name} = {value} does not fit the dataset, whose task is {task}")
    return loss, metric


class Learned(NamedTuple):
    """What all networks of a run learn from."""

    dataset: PromoterDataset
    columns: NDArray[np.int64]
    """The training treatments."""
    vocabulary: TreatmentVocabulary
    asked: TreatmentBatch
    """The training treatments, and behind them the unconditional token where there is one."""
    validation: NDArray[np.int64] | None
    """Genes; None where nothing was measured."""
    encoder: BinEncoder | None
    """Of a pretrained stem."""
    device: torch.device


class NetworkTraining(Training):
    """One network on its device."""

    counts: Literal["epoch", "step"] = "epoch"
    model: PromoterModel

    def __init__(self, plan: Plan, learned: Learned) -> None:
        """Make it, with random weights by the seed."""
        dataset, config, training = learned.dataset, plan.config, plan.training
        self.config, self.training, self.learned = config, training, learned
        self.binary = dataset.task == "binary"
        self.loss, watched = loss_and_metric(training, dataset.task)
        self.metric_key, self.metric = METRICS[watched]
        self.smaller_is_better = watched is Metric.LOSS
        key, heading = next(iter(FIGURES[dataset.task].items()))
        self.shown = {"loss": "loss", key: heading.removesuffix(" over treatments")}
        self.keeps_start = training.warm_start
        torch.manual_seed(training.seed)
        self.model = PromoterModel([config], learned.vocabulary)
        self.model.to(learned.device)
        genes, columns = dataset.genes_in(TRAIN), learned.columns
        self.treatments = learned.asked.rows(torch.arange(len(columns)))
        targets_GT = dataset.targets[np.ix_(genes, columns)]
        if (kernel := kernel_encoder(self.model)) is not None:
            kernel.remember(self.treatments, targets_GT.T)
        self.axis: SharedAxis | None = None
        if not self.binary and targets_GT.shape[1] > 1:
            self.axis = fit_shared_axis(targets_GT)
        each = config.readout is Readout.SHARED
        self.scale = TargetScale.of(targets_GT, binary=self.binary, each=each)
        if self.binary and each:
            self.model.members[0].set_units(log_odds(targets_GT), np.ones(len(columns)))
        by_trunk = config.conditioning in (Conditioning.FILM, Conditioning.CROSS_ALL)
        self.batches = TrainingBatches(
            dataset,
            genes,
            columns,
            training,
            treatments_per_step=TRUNK_TREATMENTS_PER_STEP if by_trunk else None,
        )
        per_epoch = self.batches.steps_per_epoch
        self.update_in_one_stage(training.epochs * per_epoch, per_epoch)
        self.summary = (
            f"{config.conditioning} ({sum(p.numel() for p in self.model.parameters()):,} weights) on "
            f"{counted(len(genes), 'promoter')} × {counted(len(columns), 'treatment')}"
        )

    def begin(self) -> None:
        """Start from an encoder, k-mers that the responses follow, and a ridge, where settings say so."""
        dataset, encoder = self.learned.dataset, self.learned.encoder
        if encoder is not None and self.model.encoder is not None:
            self.model.encoder.load_state_dict(encoder.state_dict())
        if self.training.first_filters is FirstFilters.KMERS:
            found = start_filters(self.model, dataset)
            if any(abs(kmer.r) >= CLEAR_MOTIF for kmer in found):
                start_for_clear_motifs(self.model)
        if self.training.warm_start:
            warm_start(self.model, dataset, self.treatments, self.scale)

    def finish(self) -> None:
        """Let the trained model answer in the units of the responses, also for a standardised dataset, and count
        contributions from the average promoter of the training."""
        dataset, network = self.learned.dataset, self.model.members[0].network
        if isinstance(network, CrossModel):
            genes = dataset.genes_in(TRAIN)
            some = genes[:: max(1, len(genes) // AVERAGED_PROMOTERS)]
            network.centre(centred_windows(dataset, some).to(self.learned.device), self.treatments)
        if not self.binary:
            mean_T, sd_T = response_units(self.learned.dataset, self.learned.columns)
            self.model.members[0].set_units(self.scale.mean_T * sd_T + mean_T, self.scale.sd_T * sd_T)

    def parts(self, step: Step, shard: Shard) -> Iterator[Tensor]:
        """This process's part of a batch, as many promoters at a time as one pass takes."""
        batch = self.batches.batch(*divmod(step.number, self.batches.steps_per_epoch))
        size = len(batch.codes_BL)
        own = shard.slice(size)
        each = self.training.micro_batch_size or max(1, own.stop - own.start)
        measured = measured_cells(batch.targets_BT).to(self.learned.device)
        for first in range(own.start, own.stop, each):
            rows = slice(first, min(first + each, own.stop))
            # Every part draws what the whole batch would.
            set_seed(batch.seed)
            with part_of_batch(rows, size):
                part = self._part_loss(batch, rows, measured)
            yield part

    def _part_loss(self, batch: Batch, rows: slice, measured: Tensor) -> Tensor:
        """What some promoters of a batch add to its loss. measured: cells of the whole batch."""
        index_T = batch.treatments_T
        if self.config.unconditional:
            index_T = torch.cat(
                [index_T, index_T.new_tensor([self.learned.asked.names.index(UNCONDITIONAL)])]
            )
        treatments = self.learned.asked.rows(index_T.to(self.learned.device))
        with self.training.precision.autocast(self.learned.device):
            bases_BL4 = None if batch.bases_BL4 is None else batch.bases_BL4[rows].to(self.learned.device)
            # Responses are in standard units as long as the model has none of its own.
            predicted_BT = self.model(batch.codes_BL[rows].to(self.learned.device), treatments, bases_BL4)
        unconditional_B1 = None
        if self.config.unconditional:
            predicted_BT, unconditional_B1 = predicted_BT[:, :-1], predicted_BT[:, -1:]
        return classifier_free_loss(
            predicted_BT,
            unconditional_B1,
            self.scale.standard(batch.targets_BT[rows], batch.treatments_T).to(self.learned.device),
            measured,
            loss=self.loss,
            huber_delta=self.training.huber_delta,
            probability=self.training.unconditional_probability,
        )

    def validate(self, model: nn.Module, shard: Shard) -> Tensor | None:
        """Predictions in standard units for the unshifted windows of the validation genes: float32 (B, T)."""
        dataset, genes, device = self.learned.dataset, self.learned.validation, self.learned.device
        if genes is None:
            return None
        predicted_BT = torch.zeros(len(genes), len(self.treatments.names))
        # Whole batches to a process: the last bit of a prediction depends on its batch.
        own = shard.slice(len(genes), VALIDATION_BATCH)
        with self.training.precision.autocast(device):
            for first in range(own.start, own.stop, VALIDATION_BATCH):
                rows = slice(first, first + VALIDATION_BATCH)
                codes_BL = centred_windows(dataset, genes[rows]).to(device)
                predicted_BT[rows] = model(codes_BL, self.treatments).cpu()
        return predicted_BT

    def judge(self, values: Tensor) -> Judgement:
        targets = self.learned.dataset.targets[
            np.ix_(cast(Any, self.learned.validation), self.learned.columns)
        ]
        targets_BT = self.scale.standard(torch.from_numpy(targets))
        losses_BT = cell_losses(values, targets_BT, self.loss, self.training.huber_delta)
        dataset_units = values.numpy() * self.scale.sd_T + self.scale.mean_T
        each = per_treatment(targets, dataset_units, self.learned.dataset.task)
        figures = {
            "loss": float(losses_BT.sum() / measured_cells(targets_BT)),
            **{f"mean_{name}": known_mean(each[name]) for name in each if name in AVERAGED},
            **summarise(targets, dataset_units, self.axis, self.learned.dataset.task),
        }
        return Judgement(figures[self.metric_key], figures)
