"""What `train promoter` trains: one network as the settings say, or those that the data call for."""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from bioattn.checks.next_steps import Names
from bioattn.choices import TEST, TRAIN, VALIDATION, Noise
from bioattn.errors import BioattnError, SettingsError
from bioattn.inference.runner import with_ability
from bioattn.io.files import partial_path, sha256_of
from bioattn.io.settings import build
from bioattn.models.evaluation import FIGURES, Evaluation, Row
from bioattn.models.family import CONFIG, WEIGHTS, load_runner
from bioattn.models.promoter.config import (
    Conditioning,
    PositionBias,
    PromoterModelConfig,
    QuerySource,
    Readout,
    Stem,
    TrainingConfig,
    TreatmentEncoding,
)
from bioattn.models.promoter.family import TREATMENTS, PromoterTrainingSettings
from bioattn.models.promoter.folder import LoadedPromoterModel
from bioattn.models.promoter.model import PromoterModel
from bioattn.models.promoter.training.baselines import (
    Baseline,
    BaselineData,
    as_promoter_model,
    best_simple,
    component_ridge,
    default_baselines,
    read_baselines,
    stacked,
    write_baselines,
)
from bioattn.models.promoter.training.data import split_certificate
from bioattn.models.promoter.training.evaluation import (
    card_lines,
    evaluate,
    predict_responses,
    response_units,
)
from bioattn.models.promoter.training.first_weights import CLEAR_MOTIF, strongest_kmer
from bioattn.models.promoter.training.network import Learned, NetworkTraining, Plan
from bioattn.models.promoter.training.ridge import Matrix, kmer_counts
from bioattn.models.promoter.treatment_vocabulary import TreatmentVocabulary
from bioattn.promoters.dataset import PromoterDataset, read_dataset
from bioattn.promoters.response_metrics import summarise
from bioattn.promoters.treatments import UNCONDITIONAL, TreatmentTable
from bioattn.store.training_record import MODEL_ROW
from bioattn.system.progress import Progress
from bioattn.text import quoted
from bioattn.training.state import state_file
from bioattn.training.task import Results, Task

LOGGER = logging.getLogger("bioattn")

LEAST_SHARE = 0.1
"""Of a member of a mean: what is worth less is left out."""
OPEN_TO_CHOICE = {"epochs", "precision", "seed", "treatment_encoder"}
"""Settings that go with any other: with these alone given, the data choose the rest."""


FEW_PROMOTERS = 20_000
WARM: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "model": {
            "readout": Readout.SHARED,
            "sink": True,
            "stem": Stem.BOTH,
            "channels": 128,
            "num_heads": 8,
            "treatment_channels": 64,
            "stem_dropout": 0.3,
        },
        "training": {"warm_start": True, "learning_rate": 3e-3, "max_shift": 30},
    }
)
"""Of a network that starts as a ridge; as data/settings/small-noisy.toml, which says why."""


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
            **({"networks": [plan.record() for plan in self.given]} if self.given else self.first.record()),
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
        config, regression = self.first.config, self.dataset.task == "regression"
        shared = config.readout is Readout.SHARED and config.stem is Stem.CONV and regression
        if given and shared and "stem_dropout" not in settings.model:
            # This readout has no hidden layer to drop from, and few promoters are overfitted; where a single k-mer
            # tells much, dropout would unlearn it.
            few = len(self.dataset.genes_in(TRAIN)) < FEW_PROMOTERS
            dropout = 0.0
            if few and strongest_kmer(BaselineData(self.dataset)) < CLEAR_MOTIF:
                dropout = WARM["model"]["stem_dropout"]
            LOGGER.info(f"settings: stem_dropout = {dropout:g}")
            plans = [replace(self.first, config=replace(config, stem_dropout=dropout))]
        elif not given and self.validation is not None:
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
        rows = results.model_and_simple("validation genes")
        trained, figure = (row.figures.get(results.headline, math.nan) for row in rows)
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
        names = replace(names, inputs="PROMOTERS.fa")
        return replace(results, **quick_check(self._loaded(), self.dataset, names, results))

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
            "networks": [Plan(config=each.config, training=each.training).record() for each in used],
            "treatment_columns": list(self.settings.treatment_columns),
            "settings": self.reason,
            "split": split_certificate(self.dataset),
            "kept": self.kept,
        }

    def card(self, record: Mapping[str, Any], results: Results) -> list[str]:
        if len(self.trainings) > 1:  # of which each has an epoch of its own, and some are left out
            record = {**record, "best_epoch": None}
        return card_lines(self.model.config, self.dataset, record, cast(Evaluation, results))


def model_config(
    dataset: PromoterDataset, settings: Mapping[str, Any], training: TrainingConfig, source: str = "options"
) -> PromoterModelConfig:
    """The shape of the model: the dataset's length, the settings given, defaults for the rest.

    source: where the settings come from, for messages.
    """
    defaults: dict[str, Any] = {"unconditional": training.unconditional_probability > 0}
    if settings.get("readout") == Readout.SHARED:
        defaults["sink"] = True
    cross = settings.get("conditioning", Conditioning.CROSS) == Conditioning.CROSS
    if cross and settings.get("attention_query", QuerySource.TREATMENT) == QuerySource.TREATMENT:
        defaults["position_bias"] = PositionBias.TREATMENT
    return build(PromoterModelConfig, {**defaults, **settings, "length": dataset.length}, source)


def report_features(dataset: PromoterDataset, vocabulary: TreatmentVocabulary) -> None:
    """Say by what treatments are known, and what the held-out ones have that training does not show."""
    if vocabulary.encoding is TreatmentEncoding.ID:
        return
    LOGGER.info(f"treatment features: {vocabulary.describe()} (choose with treatment_columns in --config)")
    if unclear := vocabulary.unclear_doses(dataset.treatments):
        LOGGER.warning(f"doses that are no number with a unit count as unknown: {quoted(unclear)}")
    names = dataset.treatments.names
    held_out = [names[t] for split in (VALIDATION, TEST) for t in dataset.treatments_in(split)]
    unseen = vocabulary.unseen(dataset.treatments.select(held_out))
    if unseen:
        values = "; ".join(f"{column} {quoted(cells)}" for column, cells in unseen.items())
        LOGGER.warning(
            f"held-out treatments have what training never saw ({values}): "
            "the model predicts their responses without it"
        )


def chosen_plans(first: Plan, dataset: PromoterDataset, simple: Sequence[Baseline]) -> tuple[list[Plan], str]:
    """The networks to train where no setting was given, and why: a cold one, and for regression without a clear
    motif a warm one.

    Where a single k-mer tells much, gradient descent finds motifs by itself, and a warm network is of no use.
    Different kinds of networks help a mean more than other seeds do: gradient descent finds clear motifs, and a
    ridge what single treatments have of their own in noisy data. The warm network's k-mers are as long as those of
    the component ridge, and as many of them are dropped as fits it.
    """
    data = BaselineData(dataset)
    if dataset.task != "regression" or not data.deviations.any():
        return [first], "one from random weights (a warm start is for regression)"
    if strongest_kmer(data) >= CLEAR_MOTIF:
        return [first], "one from random weights, as one k-mer tells much by itself"
    ridge = next((row for row in simple if row.name == "component ridge"), None) or component_ridge(data)
    assert ridge.model is not None
    kmer, dropout = ridge.model.blocks[0].block.k, matching_dropout(data, ridge)
    model = {"kmer": kmer, "kmer_dropout": dropout, "treatment_encoder": first.config.treatment_encoder}
    training = {name: getattr(first.training, name) for name in ("seed", "precision", "epochs")}
    training |= WARM["training"]
    training["max_shift"] = min(training["max_shift"], dataset.flank)
    how = build(TrainingConfig, training, "chosen settings")
    warm = Plan(
        config=model_config(dataset, {**WARM["model"], **model}, how, "chosen settings"), training=how
    )
    reason = (
        f"one from random weights (cold), and one that starts as a ridge on {kmer}-mers (warm; {dropout:.0%} of "
        "them dropped in a step)"
    )
    return [first, warm], reason


def matching_dropout(data: BaselineData, ridge: Baseline) -> float:
    """The share of k-mers dropped in training with which a ridge's predictions neither shrink nor grow.

    Dropping a share p costs p / (1 − p) × c × (coefficient)² for each k-mer and treatment, c the sum of the
    squared weights of its occurrences (Wager, Wang & Liang 2013). The loss of scaled predictions has its minimum
    at scale 1 where all costs together are the sum of prediction × residual over promoters. Less dropout overfits,
    and more shrinks what the ridge knows faster than training learns.
    """
    assert ridge.model is not None
    codes = data.codes[data.train]
    (added_FT,), _ = ridge.model.per_count()
    block = ridge.model.blocks[0].block
    known_GT = np.isfinite(data.targets[data.train])
    predicted_GT = np.where(known_GT, ridge.predictions[data.train] - data.mean, 0.0)
    agreement = max(0.0, float((predicted_GT * (data.deviations - predicted_GT)).sum()))
    squares_L = np.square(block.weights(codes.shape[1]))
    squares_F = kmer_counts(codes, block.k, block.columns, squares_L).sum(axis=0)
    cost = float(squares_F @ np.square(added_FT).sum(axis=1))
    return round(agreement / (agreement + cost), 2) if agreement else 0.0
