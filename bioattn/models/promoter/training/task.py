"""How a promoter model is trained: what `training/trainer.py` asks of this family."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn

from bioattn.attention.capture import capture
from bioattn.attention.measures import EntropyMeter
from bioattn.choices import Noise
from bioattn.errors import BioattnError, SettingsError
from bioattn.inference.runner import with_ability
from bioattn.io.files import sha256_of
from bioattn.io.settings import build
from bioattn.models.family import CONFIG, WEIGHTS, load_runner
from bioattn.models.promoter.config import (
    Conditioning,
    FirstFilters,
    Metric,
    Readout,
    Stem,
    TrainingConfig,
    TreatmentEncoding,
)
from bioattn.models.promoter.family import TREATMENTS, PromoterTrainingSettings
from bioattn.models.promoter.folder import write_promoter_model
from bioattn.models.promoter.layers import part_of_batch
from bioattn.models.promoter.model import PromoterModel, attention_sites
from bioattn.models.promoter.training.baselines import (
    Baseline,
    as_promoter_model,
    best_simple,
    default_baselines,
)
from bioattn.models.promoter.training.data import (
    Batch,
    TargetScale,
    TrainingBatches,
    cell_losses,
    centred_windows,
    classifier_free_loss,
    log_odds,
    measured_cells,
    training_treatments,
    validation_genes,
)
from bioattn.models.promoter.training.evaluation import (
    FIGURES,
    Evaluation,
    card_lines,
    evaluate,
    response_units,
)
from bioattn.models.promoter.training.first_weights import start_filters, warm_start
from bioattn.models.promoter.training.settings import (
    choose_settings,
    loss_and_metric,
    model_config,
    report_features,
    shared_stem_dropout,
)
from bioattn.models.promoter.treatment_encoder import kernel_encoder
from bioattn.models.promoter.treatment_vocabulary import TreatmentVocabulary
from bioattn.promoters.dataset import TRAIN, read_dataset
from bioattn.promoters.response_metrics import fit_shared_axis, known_mean, per_treatment, summarise
from bioattn.promoters.treatments import UNCONDITIONAL, TreatmentTable
from bioattn.store.training_record import MODEL_ROW
from bioattn.system.progress import Progress
from bioattn.system.shard import Shard
from bioattn.text import counted
from bioattn.training.task import Judgement, PartLoss, Results, Step, Task

LOGGER = logging.getLogger("bioattn")

TRUNK_TREATMENTS_PER_STEP = 8
"""film and cross-all run their trunk once per treatment: by default only some are drawn in each step."""

VALIDATION_BATCH = 128
"""Promoters of one forward pass in validation."""

OPTIONS = {"epochs", "precision", "seed"}
"""Settings of training that go with any other: with these alone given, the data choose the rest."""

METRICS = {
    Metric.LOSS: ("loss", "loss"),
    Metric.PEARSON: ("mean_pearson", "mean r"),
    Metric.SPECIFIC_PEARSON: ("specific_pearson", FIGURES["regression"]["specific_pearson"]),
    Metric.AUROC: ("mean_auroc", "mean AUROC"),
    Metric.AVERAGE_PRECISION: ("mean_auprc", "mean AUPRC"),
}
"""Keys of the metrics among the validation figures, and their names in messages. Means over treatments, where
tables show medians: a median does not notice that a few treatments are not learned yet."""

AVERAGED = ("pearson", "auroc", "auprc")
"""Figures per treatment whose means are watched."""


class PromoterTask(Task):
    """One training run of a promoter model."""

    counts: Literal["epoch", "step"] = "epoch"
    model: PromoterModel

    def __init__(self, settings: PromoterTrainingSettings, device: torch.device) -> None:
        self.settings = settings
        self.device = device
        self.training = build(TrainingConfig, settings.training, settings.source("training"))
        self.dataset = read_dataset(settings.dataset)
        self.binary = self.dataset.task == "binary"
        self.encoder = None
        model, encoder_sha256 = dict(settings.model), None
        if settings.encoder is not None:
            runner = load_runner(settings.encoder, device)
            self.encoder = with_ability(runner, "encoder", "encode promoters", "--encoder").encoder()
            model["encoder"], encoder_sha256 = self.encoder.description(), runner.sha256
        self.config = model_config(self.dataset, model, self.training, settings.source("model"))
        self.digest = {
            "dataset": sha256_of(settings.dataset),
            "model": asdict(self.config),
            "training": self.training.decisive(),
            "treatment_columns": settings.treatment_columns,
            "reference": settings.reference,
            "keep_best": settings.keep_best,
            "encoder": encoder_sha256,
        }
        if settings.keep_best and not settings.baselines:
            raise SettingsError("--keep-best compares with the simple models that --no-baselines leaves out")
        if settings.keep_best and self.binary:
            raise SettingsError("--keep-best is for regression: ridges do not predict probabilities")
        if self.training.noise is Noise.GAUSSIAN and self.config.stem is Stem.PRETRAINED:
            raise SettingsError(
                "noise = gaussian makes numbers of bases, which --stem pretrained cannot read; choose masked"
            )
        if self.config.conditioning is Conditioning.RIDGE:
            raise SettingsError(
                "--conditioning ridge is not trained: --keep-best writes it where it is better"
            )
        self.simple: list[Baseline] | None = None
        self.kept: dict[str, Any] | None = None
        self.reason = "given"

    def prepare(self, progress: Progress) -> None:
        dataset = self.dataset
        self.columns = dataset.treatments_in(TRAIN)
        self.table = training_treatments(dataset, self.columns, self.settings.reference)
        self.loss, watched = loss_and_metric(self.training, dataset.task)
        self.metric_key, self.metric = METRICS[watched]
        self.smaller_is_better = watched is Metric.LOSS
        key, heading = next(iter(FIGURES[dataset.task].items()))
        self.shown = {"loss": "loss", key: heading.removesuffix(" over treatments")}
        self._choose_settings(progress)
        training, conditioning = self.training, self.config.conditioning
        self.keeps_start = training.warm_start
        self._make_model()
        by_trunk = conditioning in (Conditioning.FILM, Conditioning.CROSS_ALL)
        self.batches = TrainingBatches(
            dataset,
            dataset.genes_in(TRAIN),
            self.columns,
            training,
            treatments_per_step=TRUNK_TREATMENTS_PER_STEP if by_trunk else None,
        )
        self.validation = validation_genes(dataset, self.columns)
        per_epoch = self.batches.steps_per_epoch
        self.update_in_one_stage(training.epochs * per_epoch, per_epoch)
        self.summary = (
            f"{conditioning} ({sum(p.numel() for p in self.model.parameters()):,} weights) on "
            f"{counted(len(self.batches.genes), 'promoter')} × {counted(len(self.columns), 'treatment')}"
        )

    def _choose_settings(self, progress: Progress) -> None:
        """Settings by the data, where no setting of the model and of training is given but those of options.

        Of a shared readout `stem_dropout` alone is chosen, where it is not given.
        """
        given, model = self.settings.training, self.settings.model
        dropped = self.config.readout is Readout.SHARED and self.config.stem is Stem.CONV and not self.binary
        if dropped and "stem_dropout" not in model:
            dropout, reason = shared_stem_dropout(self.dataset)
            self.config = replace(self.config, stem_dropout=dropout)
            LOGGER.info(f"settings: {reason}")
        if model or given.keys() - OPTIONS or not self.settings.baselines:
            return
        self.simple = default_baselines(self.dataset, progress)
        chosen = choose_settings(self.dataset, self.simple)
        self.training = build(TrainingConfig, {**chosen.training, **given}, "chosen settings")
        self.config = model_config(self.dataset, chosen.model, self.training, "chosen settings")
        self.reason = chosen.reason
        LOGGER.info(f"settings: {self.reason}")

    def _make_model(self) -> None:
        """The model with random weights, its treatments, and the units in which it is trained."""
        dataset, config = self.dataset, self.config
        self.vocabulary = TreatmentVocabulary.learn(
            self.table,
            encoding=config.treatment_encoder,
            unconditional=config.unconditional,
            columns=self.settings.treatment_columns,
        )
        report_features(dataset, self.vocabulary)
        torch.manual_seed(self.training.seed)
        self.model = PromoterModel(config, self.vocabulary)
        if self.training.attention_entropy and not attention_sites(self.model):
            raise BioattnError(
                f"attention_entropy is for models with attention; {config.conditioning} has none, leave it out"
            )
        self.model.to(self.device)
        frame = self.table.frame
        if config.unconditional:
            frame = frame.reindex(list(dict.fromkeys([*frame.index, UNCONDITIONAL])))
        self.asked = self.vocabulary.encode(TreatmentTable(frame)).to(self.device)
        """The training treatments, and behind them the unconditional token where there is one."""
        self.treatments = self.asked.rows(torch.arange(len(self.columns)))
        targets_GT = dataset.targets[np.ix_(dataset.genes_in(TRAIN), self.columns)]
        if (kernel := kernel_encoder(self.model)) is not None:
            kernel.remember(self.treatments, targets_GT.T)
        self.axis = None if self.binary or targets_GT.shape[1] < 2 else fit_shared_axis(targets_GT)
        each = config.readout is Readout.SHARED
        self.scale = TargetScale.of(targets_GT, binary=self.binary, each=each)
        if self.binary and each:
            self.model.response_mean_T.copy_(torch.from_numpy(log_odds(targets_GT)))

    def begin(self) -> None:
        """Start from an encoder, k-mers that the responses follow, and a ridge, where settings say so."""
        if self.encoder is not None and self.model.encoder is not None:
            self.model.encoder.load_state_dict(self.encoder.state_dict())
        if self.training.first_filters is FirstFilters.KMERS:
            start_filters(self.model, self.dataset)
        if self.training.warm_start:
            warm_start(self.model, self.dataset, self.treatments, self.scale)

    def parts(self, step: Step, shard: Shard) -> Iterator[PartLoss]:
        """This process's part of a batch, as many promoters at a time as one pass takes."""
        batch = self.batches.batch(*divmod(step.number, self.batches.steps_per_epoch))
        # The weight of the entropy rises from 0: attention must have found something before it is narrowed.
        entropy_weight = self.training.attention_entropy * (step.number / step.stage.steps)
        size = len(batch.codes_BL)
        own = shard.slice(size)
        each = self.training.micro_batch_size or max(1, own.stop - own.start)
        measured = measured_cells(batch.targets_BT).to(self.device)
        for first in range(own.start, own.stop, each):
            rows = slice(first, min(first + each, own.stop))
            # Every part draws what the whole batch would.
            torch.manual_seed(batch.seed)
            with part_of_batch(rows, size):
                part = self._part(batch, rows, measured, entropy_weight)
            yield part

    def _part(self, batch: Batch, rows: slice, measured: Tensor, entropy_weight: float) -> PartLoss:
        """What some promoters of a batch add to its loss. measured: cells of the whole batch."""
        index_T = batch.treatments_T
        if self.config.unconditional:
            index_T = torch.cat([index_T, index_T.new_tensor([self.asked.names.index(UNCONDITIONAL)])])
        treatments = self.asked.rows(index_T.to(self.device))
        meter = EntropyMeter()
        with (
            self.training.precision.autocast(self.device),
            capture(["*"], meter, gradients=True) if entropy_weight else nullcontext(),
        ):
            bases_BL4 = None if batch.bases_BL4 is None else batch.bases_BL4[rows].to(self.device)
            # Responses are in standard units as long as the model has none of its own: until `evaluate`.
            predicted_BT = self.model(batch.codes_BL[rows].to(self.device), treatments, bases_BL4)
        unconditional_B1 = None
        if self.config.unconditional:
            predicted_BT, unconditional_B1 = predicted_BT[:, :-1], predicted_BT[:, -1:]
        loss = classifier_free_loss(
            predicted_BT,
            unconditional_B1,
            self.scale.standard(batch.targets_BT[rows], batch.treatments_T).to(self.device),
            measured,
            loss=self.loss,
            huber_delta=self.training.huber_delta,
            probability=self.training.unconditional_probability,
        )
        if not entropy_weight:
            return PartLoss(loss, loss)
        share = (rows.stop - rows.start) / len(batch.codes_BL)
        return PartLoss(loss + entropy_weight * meter.mean() * share, loss)

    def validate(self, model: nn.Module, shard: Shard) -> Tensor | None:
        """Predictions in standard units for the unshifted windows of the validation genes: float32 (B, T)."""
        if self.validation is None:
            return None
        predicted_BT = torch.zeros(len(self.validation), len(self.treatments.names))
        # Whole batches to a process: the last bit of a prediction depends on its batch.
        own = shard.slice(len(self.validation), VALIDATION_BATCH)
        with self.training.precision.autocast(self.device):
            for first in range(own.start, own.stop, VALIDATION_BATCH):
                rows = slice(first, first + VALIDATION_BATCH)
                codes_BL = centred_windows(self.dataset, self.validation[rows]).to(self.device)
                predicted_BT[rows] = model(codes_BL, self.treatments).cpu()
        return predicted_BT

    def judge(self, values: Tensor) -> Judgement:
        targets = self.dataset.targets[np.ix_(cast(Any, self.validation), self.columns)]
        targets_BT = self.scale.standard(torch.from_numpy(targets))
        losses_BT = cell_losses(values, targets_BT, self.loss, self.training.huber_delta)
        dataset_units = values.numpy() * self.scale.sd_T + self.scale.mean_T
        each = per_treatment(targets, dataset_units, self.dataset.task)
        figures = {
            "loss": float(losses_BT.sum() / measured_cells(targets_BT)),
            **{f"mean_{name}": known_mean(each[name]) for name in each if name in AVERAGED},
            **summarise(targets, dataset_units, self.axis, self.dataset.task),
        }
        return Judgement(figures[self.metric_key], figures)

    def evaluate(self, progress: Progress) -> Evaluation:
        """The model, in the units of the responses also for a standardised dataset, beside simple models."""
        dataset, columns = self.dataset, self.columns
        mean_T, sd_T = response_units(dataset, columns)
        if not self.binary:
            self.model.response_mean_T.copy_(torch.from_numpy(self.scale.mean_T * sd_T + mean_T))
            self.model.response_sd_T.copy_(torch.from_numpy(self.scale.sd_T * sd_T))
        if self.simple is None:
            self.simple = default_baselines(dataset, progress) if self.settings.baselines else []
        results = evaluate(self.model, dataset, self.vocabulary, self.device, self.simple)
        best = best_simple(self.simple, dataset.task)
        if not self.settings.keep_best or best is None:
            return results
        trained, simple = (results.figure(name, "validation genes") for name in (MODEL_ROW, best.name))
        if not simple > trained:
            return results
        self.vocabulary = TreatmentVocabulary.learn(
            self.table, encoding=TreatmentEncoding.ID, unconditional=False
        )
        self.model = as_promoter_model(best, self.vocabulary, dataset.length, mean_T, sd_T).to(self.device)
        self.config = self.model.config
        self.kept = {
            "simple_model": best.name,
            "choice": best.choice,
            "simple_model_figure": simple,
            "network_figure": trained,
        }
        LOGGER.info(
            f"the {best.name} is kept: better than the network on validation genes ({simple:.3f}, {trained:.3f})"
        )
        kept = evaluate(self.model, dataset, self.vocabulary, self.device, self.simple)
        network = [replace(row, name="trained network") for row in results.rows if row.name == MODEL_ROW]
        return replace(kept, rows=[*kept.rows, *network], beside=None)

    def write(self, folder: Path) -> Sequence[str]:
        write_promoter_model(
            folder,
            self.model,
            self.vocabulary,
            self.table,
            task=self.dataset.task,
            reference=self.settings.reference,
            downstream=self.dataset.metadata.get("downstream"),
        )
        return (WEIGHTS, CONFIG, TREATMENTS)

    def record(self) -> dict[str, Any]:
        return {
            "dataset": {"file": self.settings.dataset.name, "sha256": self.digest["dataset"]},
            "training": self.training.decisive(),
            "treatment_columns": list(self.settings.treatment_columns),
            "settings": self.reason,
            "kept": self.kept,
        }

    def card(self, record: Mapping[str, Any], results: Results) -> list[str]:
        return card_lines(self.config, self.dataset, record, cast(Evaluation, results))
