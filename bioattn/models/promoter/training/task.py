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
from bioattn.attention.entropy import EntropyMeter
from bioattn.choices import Noise
from bioattn.errors import BioattnError, SettingsError
from bioattn.inference.runner import EncodingRunner, with_ability
from bioattn.io.files import sha256_of
from bioattn.io.settings import build
from bioattn.models.family import CONFIG, WEIGHTS, load_runner
from bioattn.models.promoter.config import (
    Conditioning,
    FirstFilters,
    Loss,
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
    check_task,
    classifier_free_loss,
    log_odds,
    masked_mean,
    measured_cells,
    model_config,
    report_features,
    training_treatments,
    validation_genes,
)
from bioattn.models.promoter.training.evaluation import FIGURES, Evaluation, card_lines, evaluate
from bioattn.models.promoter.training.first_weights import start_filters, warm_start
from bioattn.models.promoter.training.settings import choose_settings, shared_stem_dropout
from bioattn.models.promoter.treatment_encoder import kernel_encoder
from bioattn.models.promoter.treatment_vocabulary import TreatmentBatch, TreatmentVocabulary
from bioattn.promoters.dataset import TRAIN, read_dataset
from bioattn.promoters.response_metrics import fit_shared_axis, known_mean, per_treatment, summarise
from bioattn.promoters.treatments import UNCONDITIONAL, named_treatments
from bioattn.store.training_record import MODEL_ROW
from bioattn.system.progress import Progress
from bioattn.system.shard import Shard
from bioattn.text import counted
from bioattn.training.task import Judgement, Optimisation, PartLoss, Results, Stage, Step, Task

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
        self.encoder = None
        model, encoder_sha256 = dict(settings.model), None
        if settings.encoder is not None:
            runner = load_runner(settings.encoder, device)
            self.encoder = with_ability(runner, EncodingRunner, "encode promoters", "--encoder").encoder()
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
        if settings.keep_best and self.dataset.task == "binary":
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

    def prepare(self, progress: Progress) -> None:
        dataset = self.dataset
        self.binary = dataset.task == "binary"
        self.columns = dataset.treatments_in(TRAIN)
        self.table = training_treatments(dataset, self.columns, self.settings.reference)
        check_task(dataset, self.training)
        self._choose_settings(progress)
        training = self.training
        self.loss = training.loss or (Loss.BINARY if self.binary else Loss.MSE)
        watched = training.metric or (Metric.AUROC if self.binary else Metric.PEARSON)
        self.metric_key, self.metric = METRICS[watched]
        self.smaller_is_better = watched is Metric.LOSS
        self.keeps_start = training.warm_start
        key, heading = next(iter(FIGURES[dataset.task].items()))
        self.shown = {"loss": "loss", key: heading.removesuffix(" over treatments")}
        self.vocabulary = TreatmentVocabulary.learn(
            self.table,
            encoding=self.config.treatment_encoder,
            unconditional=self.config.unconditional,
            columns=self.settings.treatment_columns,
        )
        report_features(dataset, self.vocabulary)
        torch.manual_seed(training.seed)
        self.model = PromoterModel(self.config, self.vocabulary)
        if training.attention_entropy and not attention_sites(self.model):
            raise BioattnError(
                f"attention_entropy is for models with attention; {self.config.conditioning} has none, "
                "leave it out"
            )
        self.model.to(self.device)
        self.treatments = self.vocabulary.encode(self.table).to(self.device)
        self.unconditional = None
        if self.config.unconditional:
            self.unconditional = self.vocabulary.encode(named_treatments([UNCONDITIONAL])).to(self.device)
        self.batches = self._batches()
        targets_GT = dataset.targets[np.ix_(self.batches.genes, self.columns)]
        kernel = kernel_encoder(self.model)
        if kernel is not None:
            kernel.remember(self.treatments, targets_GT.T)
        self.axis = None if self.binary or targets_GT.shape[1] < 2 else fit_shared_axis(targets_GT)
        each = self.config.readout is Readout.SHARED
        self.scale = TargetScale.of(targets_GT, binary=self.binary, each=each)
        if self.binary and each:
            self.model.response_mean_T.copy_(torch.from_numpy(log_odds(targets_GT)))
        self.validation = validation_genes(dataset, self.columns)
        self.stages = [
            Stage(
                steps=training.epochs * self.batches.steps_per_epoch,
                steps_per_round=self.batches.steps_per_epoch,
                learning_rate=training.learning_rate,
                warmup_fraction=training.warmup_fraction,
            )
        ]
        self.optimisation = Optimisation(
            weight_decay=training.weight_decay,
            gradient_clip=training.gradient_clip,
            average_decay=training.average_decay,
            patience=training.patience,
        )
        self.work_per_step = ("batch_size", training.batch_size)
        self.summary = (
            f"{self.config.conditioning} ({sum(p.numel() for p in self.model.parameters()):,} weights) on "
            f"{counted(len(self.batches.genes), 'promoter')} × {counted(len(self.columns), 'treatment')}"
        )

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
        treatments = self.treatments.rows(batch.treatments_T.to(self.device))
        if self.unconditional is not None:
            treatments = treatments.joined(self.unconditional)
        meter = EntropyMeter()
        with (
            self.training.precision.autocast(self.device),
            capture(["*"], meter, gradients=True) if entropy_weight else nullcontext(),
        ):
            bases_BL4 = None if batch.bases_BL4 is None else batch.bases_BL4[rows].to(self.device)
            predicted_BT = self._predict(
                self.model, batch.codes_BL[rows].to(self.device), treatments, bases_BL4
            )
        predicted_BT = predicted_BT.float()
        unconditional_B1 = None
        if self.unconditional is not None:
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
        predicted_BT = torch.zeros(len(self.validation), self.treatments.size)
        # Whole batches to a process: the last bit of a prediction depends on its batch.
        own = shard.slice(len(self.validation), VALIDATION_BATCH)
        with self.training.precision.autocast(self.device):
            for first in range(own.start, own.stop, VALIDATION_BATCH):
                rows = slice(first, first + VALIDATION_BATCH)
                codes_BL = centred_windows(self.dataset, self.validation[rows]).to(self.device)
                predicted_BT[rows] = self._predict(model, codes_BL, self.treatments).float().cpu()
        return predicted_BT

    def _predict(
        self,
        model: nn.Module,
        codes_BL: Tensor,
        treatments: TreatmentBatch,
        bases_BL4: Tensor | None = None,
    ) -> Tensor:
        """What losses compare with targets: standard units, or logits."""
        promoter_model = cast(PromoterModel, model)
        return (promoter_model if self.binary else promoter_model.standardised)(
            codes_BL, treatments, bases_BL4
        )

    def judge(self, values: Tensor) -> Judgement:
        targets = self.dataset.targets[np.ix_(cast(Any, self.validation), self.columns)]
        targets_BT = self.scale.standard(torch.from_numpy(targets))
        losses_BT = cell_losses(values, targets_BT, self.loss, self.training.huber_delta)
        dataset_units = values.numpy() * self.scale.sd_T + self.scale.mean_T
        each = per_treatment(targets, dataset_units, self.dataset.task)
        figures = {
            "loss": float(masked_mean(losses_BT, targets_BT)),
            **{f"mean_{name}": known_mean(each[name]) for name in each if name in AVERAGED},
            **summarise(targets, dataset_units, self.axis, self.dataset.task),
        }
        return Judgement(figures[self.metric_key], figures)

    def evaluate(self, progress: Progress) -> Evaluation:
        """The model, in the units of the responses also for a standardised dataset, beside simple models."""
        dataset, columns = self.dataset, self.columns
        mean_T = np.zeros(len(columns)) if dataset.target_mean is None else dataset.target_mean[columns]
        sd_T = np.ones(len(columns)) if dataset.target_sd is None else dataset.target_sd[columns]
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
            "job": self.digest,
        }

    def card(self, record: Mapping[str, Any], results: Results) -> list[str]:
        return card_lines(self.config, self.dataset, record, cast(Evaluation, results))

    def finished_digest(self, config: Mapping[str, Any], record: Mapping[str, Any]) -> dict[str, Any]:
        if "job" in record:
            return cast(dict[str, Any], record["job"])
        return {
            "dataset": record["dataset"]["sha256"],
            "model": config["architecture"],
            "training": record["training"],
            "treatment_columns": record["treatment_columns"],
            "reference": config["reference"],
            "keep_best": False,
        }

    def _batches(self) -> TrainingBatches:
        per_step = self.training.treatments_per_step
        if per_step is None and self.config.conditioning in (Conditioning.FILM, Conditioning.CROSS_ALL):
            per_step = TRUNK_TREATMENTS_PER_STEP
        flank = self.dataset.flank
        max_shift = flank if self.training.max_shift is None else self.training.max_shift
        if max_shift > flank:
            raise BioattnError(
                f"max_shift is {max_shift}, the dataset stores a flank of {flank}; "
                "prepare the promoters with a larger --flank, or set a smaller max_shift"
            )
        return TrainingBatches(
            self.dataset,
            self.dataset.genes_in(TRAIN),
            self.columns,
            self.training,
            max_shift=max_shift,
            treatments_per_step=per_step,
        )
