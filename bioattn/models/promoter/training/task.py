"""What `train promoter` trains: one network as the settings say, or those that the data call for."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from bioattn.checks.next_steps import Names
from bioattn.choices import Noise
from bioattn.errors import BioattnError, SettingsError
from bioattn.inference.runner import with_ability
from bioattn.io.files import partial_path, sha256_of
from bioattn.io.settings import build
from bioattn.models.family import CONFIG, WEIGHTS, load_runner
from bioattn.models.promoter.config import Conditioning, Stem, TrainingConfig, TreatmentEncoding
from bioattn.models.promoter.family import TREATMENTS, PromoterTrainingSettings
from bioattn.models.promoter.folder import LoadedPromoterModel
from bioattn.models.promoter.model import PromoterModel
from bioattn.models.promoter.training.baselines import (
    Baseline,
    BaselineData,
    as_promoter_model,
    best_simple,
    default_baselines,
    read_baselines,
    stacked,
    write_baselines,
)
from bioattn.models.promoter.training.data import split_certificate
from bioattn.models.promoter.training.evaluation import (
    FIGURES,
    Evaluation,
    Row,
    card_lines,
    evaluate,
    predict_responses,
    response_units,
)
from bioattn.models.promoter.training.network import Learned, NetworkTraining
from bioattn.models.promoter.training.ridge import Matrix
from bioattn.models.promoter.training.settings import (
    Plan,
    chosen_plans,
    model_config,
    report_features,
    with_stem_dropout,
)
from bioattn.models.promoter.treatment_vocabulary import TreatmentVocabulary
from bioattn.promoters.dataset import TRAIN, VALIDATION, read_dataset
from bioattn.promoters.response_metrics import summarise
from bioattn.promoters.treatments import UNCONDITIONAL, TreatmentTable
from bioattn.store.training_record import MODEL_ROW
from bioattn.system.progress import Progress
from bioattn.training.state import state_file
from bioattn.training.task import Results, Task

LOGGER = logging.getLogger("bioattn")

LEAST_SHARE = 0.1
"""Of a member of a mean: what is worth less is left out."""
OPEN_TO_CHOICE = {"epochs", "precision", "seed", "treatment_encoder"}
"""Settings that go with any other: with these alone given, the data choose the rest."""


class PromoterTask(Task):
    """One training run of a promoter model."""

    trainings: Sequence[NetworkTraining]
    model: PromoterModel

    def __init__(self, settings: PromoterTrainingSettings, device: torch.device) -> None:
        self.settings = settings
        self.device = device
        self.dataset = read_dataset(settings.dataset)
        self.binary = self.dataset.task == "binary"
        self.encoder = None
        model, encoder_sha256 = dict(settings.model), None
        if settings.encoder is not None:
            runner = load_runner(settings.encoder, device)
            self.encoder = with_ability(runner, "encoder", "encode promoters", "--encoder").encoder()
            model["encoder"], encoder_sha256 = self.encoder.description(), runner.sha256
        self.given = [
            self._plan(each.get("model", {}), each.get("training", {})) for each in settings.networks
        ]
        self.first = self.given[0] if self.given else self._plan(model, settings.training)
        self.digest = {
            "dataset": sha256_of(settings.dataset),
            **({"networks": [_plain(plan) for plan in self.given]} if self.given else _plain(self.first)),
            "members": settings.members,
            "treatment_columns": settings.treatment_columns,
            "reference": settings.reference,
            "keep_best": settings.keep_best,
            "encoder": encoder_sha256,
        }
        if settings.keep_best and not settings.baselines:
            raise SettingsError("--keep-best compares with the simple models that --no-baselines leaves out")
        if settings.keep_best and self.binary:
            raise SettingsError("--keep-best is for regression: ridges do not predict probabilities")
        self.simple: list[Baseline] | None = None
        self.kept: dict[str, Any] | None = None
        self.reason = "given"

    def _plan(self, model: Mapping[str, Any], training: Mapping[str, Any]) -> Plan:
        """Raises: SettingsError for settings that do not go together."""
        settings = self.settings
        how = build(TrainingConfig, training, settings.source("training"))
        config = model_config(self.dataset, model, how, settings.source("model"))
        if how.noise is Noise.GAUSSIAN and config.stem is Stem.PRETRAINED:
            raise SettingsError(
                "noise = gaussian makes numbers of bases, which --stem pretrained cannot read; choose masked"
            )
        if config.conditioning is Conditioning.RIDGE:
            raise SettingsError(
                "--conditioning ridge is not trained: --keep-best writes it where it is better"
            )
        return Plan(config=config, training=how)

    def prepare(self, progress: Progress) -> None:
        dataset, config = self.dataset, self.first.config
        self.columns = dataset.treatments_in(TRAIN)
        if not len(dataset.genes_in(TRAIN)) or not len(self.columns):
            raise BioattnError(
                "the dataset has no training genes or no training treatments; prepare another split"
            )
        self.table = dataset.treatments.select([dataset.treatments.names[t] for t in self.columns])
        reference = self.settings.reference
        if reference is not None and reference not in self.table.names:
            raise BioattnError(
                f"--reference {reference!r} is no training treatment; there are "
                f"{', '.join(self.table.names[:5])}…"
            )
        self.validation: NDArray[np.int64] | None = dataset.genes_in(VALIDATION)
        if not np.isfinite(dataset.targets[np.ix_(self.validation, self.columns)]).any():
            self.validation = None
            LOGGER.warning(
                "the dataset has no validation genes: training runs all epochs and keeps the last weights"
            )
        if self.settings.baselines:
            self.simple = self._simple_models(progress)
        plans = self.given or self._plans()
        vocabulary = TreatmentVocabulary.learn(
            self.table,
            encoding=config.treatment_encoder,
            unconditional=config.unconditional,
            columns=self.settings.treatment_columns,
        )
        report_features(dataset, vocabulary)
        frame = self.table.frame
        if config.unconditional:
            frame = frame.reindex(list(dict.fromkeys([*frame.index, UNCONDITIONAL])))
        learned = Learned(
            dataset=dataset,
            columns=self.columns,
            vocabulary=vocabulary,
            asked=vocabulary.encode(TreatmentTable(frame)).to(self.device),
            validation=self.validation,
            encoder=self.encoder,
            device=self.device,
        )
        self.vocabulary = vocabulary
        self.trainings = [NetworkTraining(plan, learned) for plan in plans]

    def _simple_models(self, progress: Progress) -> list[Baseline]:
        """Those that an interrupted run fitted, or new ones, which are kept for one that goes on."""
        kept = partial_path(self.settings.output) / state_file("simple")
        job = f"{self.digest['dataset']} {self.settings.strand}"
        rows = read_baselines(kept, self.dataset, job) if self.settings.resume else None
        if rows is None:
            rows = default_baselines(self.dataset, progress, self.settings.strand)
            if kept.parent.is_dir():
                write_baselines(kept, rows, job)
        return rows

    def _plans(self) -> list[Plan]:
        """What is trained: by the settings, or by the data where no setting of the model and of training is given
        but those of `OPEN_TO_CHOICE`."""
        settings = self.settings
        plans = [self.first]
        given = {*settings.model, *settings.training} - OPEN_TO_CHOICE
        if settings.model.get("conditioning") == Conditioning.CROSS:
            given -= {"conditioning"}
        if given:
            plans = [with_stem_dropout(self.first, self.dataset, settings.model)]
        elif self.validation is not None:
            plans, self.reason = chosen_plans(self.first, self.dataset, self.simple or ())
            LOGGER.info(f"networks: {self.reason}")
        return [
            replace(plan, training=replace(plan.training, seed=plan.training.seed + step))
            for plan in plans
            for step in range(settings.members)
        ]

    def evaluate(self, progress: Progress) -> Evaluation:
        """The model, in the units of the responses also for a standardised dataset, beside simple models."""
        dataset, columns = self.dataset, self.columns
        for training in self.trainings:
            training.finish()
        members = self._choose()
        simple = self.simple or []
        results = evaluate(self.model, dataset, self.vocabulary, self.device, simple)
        results = replace(results, rows=[*results.rows, *members])
        best = best_simple(simple, dataset.task)
        if not self.settings.keep_best or best is None:
            return self._checked(results)
        trained, figure = (results.figure(name, "validation genes") for name in (MODEL_ROW, best.name))
        if not figure > trained:
            return self._checked(results)
        self.vocabulary = TreatmentVocabulary.learn(
            self.table, encoding=TreatmentEncoding.ID, unconditional=False
        )
        self.model = as_promoter_model(
            best, self.vocabulary, dataset.length, *response_units(dataset, columns)
        ).to(self.device)
        self.kept = {
            "simple_model": best.name,
            "choice": best.choice,
            "simple_model_figure": figure,
            "network_figure": trained,
        }
        LOGGER.info(
            f"the {best.name} is kept: better than the network on validation genes ({figure:.3f}, {trained:.3f})"
        )
        kept = evaluate(self.model, dataset, self.vocabulary, self.device, simple)
        network = [replace(row, name="trained network") for row in results.rows if row.name == MODEL_ROW]
        return replace(kept, rows=[*kept.rows, *network], beside=None)

    def _choose(self) -> list[Row]:
        """Make `model` of the networks trained, and of the best simple model: the mean whose shares fit validation
        genes. Returns a row of each member.

        Shares are drawn to equal ones, or, of one network, to that alone: what fits a few hundred genes best may
        do so by chance, and members of different kinds make up for one another.
        """
        models = [training.model for training in self.trainings]
        self.model = PromoterModel.mean(models, self.vocabulary)
        self.used = list(range(len(models)))
        known = all(member.config.contribution for model in models for member in model.members)
        if self.given or self.reason == "given" or self.validation is None or not known:
            return []
        count, task = self.settings.members, self.dataset.task
        members = {kind: some for kind, some in (("cold", models[:count]), ("warm", models[count:])) if some}
        networks = len(members)
        simple = best_simple(self.simple or (), task)
        by_id = self.first.config.treatment_encoder is TreatmentEncoding.ID
        if simple is not None and simple.model is not None and by_id and not self.binary:
            units = response_units(self.dataset, self.columns)
            ridge = as_promoter_model(simple, self.vocabulary, self.dataset.length, *units)
            members[simple.name] = [ridge.to(self.device)]
        predictions = [self._predicted(some) for some in members.values()]
        truth_GT = self.dataset.targets[np.ix_(self.validation, self.columns)]
        share_M = np.ones(1)
        if len(members) > 1:
            usual_T = BaselineData(self.dataset).mean
            guess = np.full(len(members), 1 / len(members))
            if networks == 1:
                guess = np.eye(len(members))[0]
            beyond = [predicted_GT - usual_T for predicted_GT in predictions]
            share_M = stacked(truth_GT - usual_T, beyond, guess)
            share_M /= share_M.sum() or 1
            kept_M = share_M >= LEAST_SHARE
            kept_M[share_M[:networks].argmax()] = True  # a network stays, whatever the ridges are worth
            share_M = np.maximum(share_M, LEAST_SHARE) * kept_M
            share_M /= share_M.sum()
        named = list(zip(members, share_M, strict=True))
        shares = {
            model: share / len(members[name]) for name, share in named if share for model in members[name]
        }
        self.used = [number for number, model in enumerate(models) if model in shares]
        self.model = PromoterModel.mean([*shares], self.vocabulary, [*shares.values()])

        def figures(predicted_GT: Matrix) -> dict[str, float]:
            return summarise(truth_GT, predicted_GT, self.trainings[0].axis, task)

        reached, titles = figures(np.tensordot(share_M, predictions, 1).astype(np.float32)), FIGURES[task]
        self.reason = " and ".join(f"{share:.0%} {name}" for name, share in named if share)
        self.reason += ": on validation genes " + ", ".join(
            f"{titles[key]} {reached[key]:.3f}" for key in [*titles][:2] if key in reached
        )
        LOGGER.info(f"kept: {self.reason}")
        return [
            Row(name=f"member: {share:.0%} {name}", cells="validation genes", figures=figures(predicted_GT))
            for (name, share), predicted_GT in zip(named, predictions, strict=True)
        ]

    def _predicted(self, models: Sequence[PromoterModel]) -> Matrix:
        """The mean of what some models predict of validation genes, in the dataset's units."""
        assert self.validation is not None
        mean_T, sd_T = response_units(self.dataset, self.columns)
        of_each = [
            predict_responses(
                model, self.dataset, self.vocabulary, self.validation, self.columns, self.device
            )
            for model in models
        ]
        mean_GT: Matrix = (np.mean(of_each, axis=0) - mean_T) / sd_T
        return mean_GT

    def _checked(self, results: Evaluation) -> Evaluation:
        """The results with what a quick check of the maps says."""
        from bioattn.models.promoter.controls import quick_check

        if not self.settings.check:
            return results
        settings = self.settings
        names = Names.of("promoter", settings.output, None, settings.dataset)
        checked = quick_check(self._loaded(), self.dataset, replace(names, inputs="PROMOTERS.fa"))
        return replace(results, check=checked.sentence, verdict=checked.code, next=checked.next)

    def _loaded(self) -> LoadedPromoterModel:
        return LoadedPromoterModel(
            model=self.model.eval(),
            vocabulary=self.vocabulary,
            treatments=self.table,
            task=self.dataset.task,
            reference=self.settings.reference,
            downstream=self.dataset.metadata.get("downstream"),
            device=self.device,
            sha256="",
        )

    def write(self, folder: Path) -> Sequence[str]:
        self._loaded().write(folder)
        return (WEIGHTS, CONFIG, TREATMENTS)

    def record(self) -> dict[str, Any]:
        used = [self.trainings[number] for number in self.used]
        return {
            "dataset": {"file": self.settings.dataset.name, "sha256": self.digest["dataset"]},
            "networks": [_plain(Plan(config=each.config, training=each.training)) for each in used],
            "treatment_columns": list(self.settings.treatment_columns),
            "settings": self.reason,
            "split": split_certificate(self.dataset),
            "kept": self.kept,
        }

    def card(self, record: Mapping[str, Any], results: Results) -> list[str]:
        return card_lines(self.model.config, self.dataset, record, cast(Evaluation, results))


def _plain(plan: Plan) -> dict[str, Any]:
    """A plan as records have it."""
    return {"model": asdict(plan.config), "training": plan.training.decisive()}
