"""From a dataset to a model folder: the one function behind `bioattn train promoter`."""

import logging
import platform
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bioattn import __version__
from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.io.config_file import build
from bioattn.io.files import check_apart, sha256_of
from bioattn.io.input_watch import inputs_were_read
from bioattn.models.model_folder import (
    CONFIG,
    MODEL_CARD,
    TREATMENTS,
    WEIGHTS,
    read_model_config,
)
from bioattn.models.promoter.config import Conditioning, PromoterModelConfig, TreatmentEncoding
from bioattn.models.promoter.folder import MODEL_TYPE, write_promoter_model
from bioattn.models.promoter.model import PromoterModel, attention_sites, make_promoter_model
from bioattn.models.promoter.training.batches import TrainingBatches
from bioattn.models.promoter.training.config import FirstFilters, Loss, Metric, TrainingConfig
from bioattn.models.promoter.training.evaluation import Evaluation, evaluate
from bioattn.models.promoter.training.first_filters import start_filters
from bioattn.models.promoter.training.loop import Standardiser, Trainer
from bioattn.models.promoter.training.model_card import write_model_card
from bioattn.models.promoter.training.warm_start import warm_start
from bioattn.models.promoter.treatment_vocabulary import TreatmentVocabulary
from bioattn.models.training_record import (
    HISTORY,
    TRAINING_RECORD,
    read_training_record,
    write_training_record,
)
from bioattn.promoters.dataset import TEST, TRAIN, VALIDATION, PromoterDataset, read_dataset
from bioattn.promoters.response_metrics import SharedAxis, fit_shared_axis
from bioattn.promoters.treatments import UNCONDITIONAL, TreatmentTable, named_treatments
from bioattn.system.progress import NoProgress, Progress
from bioattn.system.signals import StopRequest
from bioattn.text import quoted
from bioattn.training.distributed import ALONE, Processes
from bioattn.training.job import Job, plain_job, require_finished_by
from bioattn.training.output_folder import is_finished, publish, working_folder, write_history
from bioattn.training.state import STATE_FILE

LOGGER = logging.getLogger("bioattn")

TRUNK_TREATMENTS_PER_STEP = 8
"""film and cross-all run their trunk once per treatment: by default only some are asked each step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJob:
    """What is trained on what, into which folder."""

    dataset_path: Path
    output: Path
    model: Mapping[str, Any]
    """Fields of `PromoterModelConfig` (not `length`, which the dataset gives)."""
    training: TrainingConfig
    treatment_columns: tuple[str, ...] = ()
    """Features used by the features encoder; empty: every column that varies."""
    reference: str | None = None
    """The treatment that is the control."""
    baselines: bool = True
    """Whether simple models are fitted on the same split for comparison."""
    settings_source: str = "model settings"
    """Where `model` comes from, for messages."""


def train_promoter(
    job: TrainingJob,
    *,
    device: torch.device,
    resume: bool = False,
    force: bool = False,
    progress: Progress | None = None,
    stop: StopRequest | None = None,
    processes: Processes = ALONE,
) -> Evaluation | None:
    """Train a promoter model and write its folder, which never exists incomplete: until the end everything lies
    in `<output>.partial/`. Returns None when, with `resume`, the same job had been finished before, and in all
    processes but the first, which does what is left when training is over.

    Raises: SettingsError on settings that do not fit; BioattnError on a bad dataset, an output that exists
    (without `force`) or an interrupted run (without `resume` or `force`); Interrupted when `stop` was requested;
    LostProcess when another process ended.
    """
    progress, stop = progress or NoProgress(), stop or StopRequest()
    finished = processes.is_first and resume and not force and is_finished(job.output)
    if processes.from_first(finished):
        if not processes.is_first:
            return None
        dataset = read_dataset(job.dataset_path)
        config = model_config(dataset, job.model, job.training, job.settings_source)
        require_finished_by(job.output, _finished_job(job.output), _content(job, config))
        LOGGER.info(f"{job.output}: finished before with the same data and settings, nothing is left to do")
        return None
    check_apart(job.output, [job.dataset_path])
    folder = working_folder(job.output, resume=resume, force=force) if processes.is_first else nullcontext()
    with folder as partial:
        return _train(job, partial, device, resume, progress, stop, processes)


def _train(
    job: TrainingJob,
    partial: Path | None,
    device: torch.device,
    resume: bool,
    progress: Progress,
    stop: StopRequest,
    processes: Processes,
) -> Evaluation | None:
    """`train_promoter` inside its folder `partial`, which gets its final name when all is done.

    Only the first process has a folder.
    """
    dataset = read_dataset(job.dataset_path)
    config = model_config(dataset, job.model, job.training, job.settings_source)
    _check_task(dataset, job.training)
    treatments = dataset.treatments_in(TRAIN)
    table = _checked_table(dataset, treatments, job.reference)
    vocabulary = TreatmentVocabulary.learn(
        table,
        encoding=config.treatment_encoder,
        unconditional=config.unconditional,
        columns=job.treatment_columns,
    )
    _report_features(dataset, vocabulary)
    torch.manual_seed(job.training.seed)
    model = make_promoter_model(config, vocabulary)
    content = _content(job, config)
    inputs_were_read()
    processes.require_same_job(content)
    processes.warn_of_idle("batch_size", job.training.batch_size)
    state_path = None if partial is None else partial / STATE_FILE
    trainer = _trainer(model, dataset, vocabulary, table, job, content, device, state_path, processes)
    # The first process gives all others its weights when training starts.
    if processes.is_first and job.training.first_filters is FirstFilters.KMERS:
        start_filters(model, dataset)
    if processes.is_first and job.training.warm_start:
        standard = trainer.standardiser
        warm_start(model, dataset, trainer.treatments, standard.mean, standard.sd)
    LOGGER.info(
        f"training {config.conditioning} ({sum(p.numel() for p in model.parameters()):,} weights) on "
        f"{len(trainer.batches.genes):,} promoters × {len(treatments)} treatments"
    )
    position, best = trainer.run(resume=resume, progress=progress, stop=stop)
    if partial is None:
        return None
    model.load_state_dict(best)
    _set_response_units(model, dataset, treatments, trainer.standardiser)
    evaluation = evaluate(model, dataset, vocabulary, device, baselines=job.baselines, progress=progress)
    write_history(partial / HISTORY, position.history)
    write_promoter_model(partial, model, vocabulary, table, task=dataset.task, reference=job.reference)
    record = {
        "dataset": {"file": job.dataset_path.name, "sha256": content["dataset"]},
        "training": job.training.decisive(),
        "treatment_columns": list(job.treatment_columns),
        "epochs_trained": position.epoch,
        "best_epoch": position.best_epoch + 1,
        "versions": {
            "bioattn": __version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "evaluation": evaluation.to_json(),
    }
    write_training_record(partial, record, (WEIGHTS, CONFIG, TREATMENTS, HISTORY))
    write_model_card(partial / MODEL_CARD, config, dataset, record, evaluation)
    publish(partial, job.output)
    return evaluation


def model_config(
    dataset: PromoterDataset,
    settings: Mapping[str, Any],
    training: TrainingConfig,
    source: str = "model settings",
) -> PromoterModelConfig:
    """The shape of the model: the dataset's length, the settings given, defaults for the rest."""
    values = {"unconditional": training.unconditional_probability > 0, **settings, "length": dataset.length}
    return build(PromoterModelConfig, values, source)


def _trainer(
    model: PromoterModel,
    dataset: PromoterDataset,
    vocabulary: TreatmentVocabulary,
    table: TreatmentTable,
    job: TrainingJob,
    content: Job,
    device: torch.device,
    state_path: Path | None,
    processes: Processes,
) -> Trainer:
    training = job.training
    config = model.config
    genes = dataset.genes_in(TRAIN)
    treatments = dataset.treatments_in(TRAIN)
    binary = dataset.task == "binary"
    targets = dataset.targets[np.ix_(genes, treatments)]
    per_step = training.treatments_per_step
    if per_step is None and config.conditioning in (Conditioning.FILM, Conditioning.CROSS_ALL):
        per_step = TRUNK_TREATMENTS_PER_STEP
    max_shift = dataset.flank if training.max_shift is None else training.max_shift
    if max_shift > dataset.flank:
        raise SettingsError(
            f"max_shift is {max_shift}, the dataset stores a flank of {dataset.flank}; "
            "prepare the promoters with a larger --flank, or set a smaller max_shift"
        )
    if training.attention_entropy and not attention_sites(model):
        raise SettingsError(
            f"attention_entropy is for models with attention; {config.conditioning} has none, leave it out"
        )
    unconditional = None
    if config.unconditional:
        unconditional = vocabulary.encode(named_treatments([UNCONDITIONAL])).to(device)
    return Trainer(
        model=model.to(device),
        dataset=dataset,
        batches=TrainingBatches(
            dataset, genes, treatments, training, max_shift=max_shift, treatments_per_step=per_step
        ),
        treatments=vocabulary.encode(table).to(device),
        columns=treatments,
        unconditional=unconditional,
        validation=_validation_genes(dataset, treatments),
        axis=_axis(dataset, targets),
        standardiser=_standardiser(targets, binary),
        config=training,
        loss=training.loss or (Loss.BINARY if binary else Loss.MSE),
        metric=training.metric or (Metric.AUROC if binary else Metric.PEARSON),
        device=device,
        job=content,
        state_path=state_path,
        processes=processes,
    )


def _validation_genes(dataset: PromoterDataset, treatments: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """The validation genes, if anything was measured there under the training treatments."""
    genes = dataset.genes_in(VALIDATION)
    if len(genes) and np.isfinite(dataset.targets[np.ix_(genes, treatments)]).any():
        return genes
    LOGGER.warning("the dataset has no validation genes: training runs all epochs and keeps the last weights")
    return None


def _axis(dataset: PromoterDataset, targets_GT: NDArray[np.float32]) -> SharedAxis | None:
    if dataset.task == "binary" or targets_GT.shape[1] < 2:
        return None
    return fit_shared_axis(targets_GT)


def _standardiser(targets_GT: NDArray[np.float32], binary: bool) -> Standardiser:
    if binary:
        return Standardiser(mean=0.0, sd=1.0)
    sd = float(np.nanstd(targets_GT, dtype=np.float64))
    return Standardiser(mean=float(np.nanmean(targets_GT, dtype=np.float64)), sd=sd if sd > 0 else 1.0)


def _set_response_units(
    model: PromoterModel, dataset: PromoterDataset, treatments: NDArray[np.int64], standardiser: Standardiser
) -> None:
    """Let the model answer in the units of the responses, also when the dataset was standardised."""
    mean_T = np.zeros(len(treatments)) if dataset.target_mean is None else dataset.target_mean[treatments]
    sd_T = np.ones(len(treatments)) if dataset.target_sd is None else dataset.target_sd[treatments]
    model.response_mean_T.copy_(torch.from_numpy(standardiser.mean * sd_T + mean_T))
    model.response_sd_T.copy_(torch.from_numpy(standardiser.sd * sd_T))


def _checked_table(
    dataset: PromoterDataset, treatments: NDArray[np.int64], reference: str | None
) -> TreatmentTable:
    if not len(dataset.genes_in(TRAIN)) or not len(treatments):
        raise BioattnError(
            "the dataset has no training genes or no training treatments; prepare another split"
        )
    table = dataset.treatments.select([dataset.treatments.names[t] for t in treatments])
    if reference is not None and reference not in table.names:
        raise SettingsError(
            f"--reference {reference!r} is no training treatment; there are {', '.join(table.names[:5])}…"
        )
    return table


def _report_features(dataset: PromoterDataset, vocabulary: TreatmentVocabulary) -> None:
    """Say by what treatments are known, and what the held-out ones have that training does not show."""
    if vocabulary.encoding is not TreatmentEncoding.FEATURES:
        return
    LOGGER.info(f"treatment features: {vocabulary.describe()} (choose with treatment_columns in --config)")
    names = dataset.treatments.names
    held_out = [names[t] for split in (VALIDATION, TEST) for t in dataset.treatments_in(split)]
    unseen = vocabulary.unseen(dataset.treatments.select(held_out))
    if unseen:
        values = "; ".join(f"{column} {quoted(cells)}" for column, cells in unseen.items())
        LOGGER.warning(
            f"held-out treatments have what training never saw ({values}): "
            "the model is asked about them without it"
        )


def _check_task(dataset: PromoterDataset, training: TrainingConfig) -> None:
    binary_loss = training.loss is Loss.BINARY
    if training.loss is not None and binary_loss != (dataset.task == "binary"):
        raise SettingsError(f"loss = {training.loss} does not fit the dataset, whose task is {dataset.task}")
    binary_metric = training.metric in (Metric.AUROC, Metric.AVERAGE_PRECISION)
    if training.metric not in (None, Metric.LOSS) and binary_metric != (dataset.task == "binary"):
        raise SettingsError(
            f"metric = {training.metric} does not fit the dataset, whose task is {dataset.task}"
        )


def _content(job: TrainingJob, config: PromoterModelConfig) -> Job:
    return plain_job(
        {
            "bioattn_version": __version__,
            "dataset": sha256_of(job.dataset_path),
            "model": asdict(config),
            "training": job.training.decisive(),
            "treatment_columns": job.treatment_columns,
            "reference": job.reference,
        }
    )


def _finished_job(folder: Path) -> Job:
    """The job by which a model folder was trained."""
    config = read_model_config(folder, MODEL_TYPE)
    record = read_training_record(folder)
    try:
        return {
            "bioattn_version": record["versions"]["bioattn"],
            "dataset": record["dataset"]["sha256"],
            "model": config["architecture"],
            "training": record["training"],
            "treatment_columns": record["treatment_columns"],
            "reference": config["reference"],
        }
    except (KeyError, TypeError) as error:
        raise FormatError(f"{folder / TRAINING_RECORD}: is incomplete ({error!r})") from error
