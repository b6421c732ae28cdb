"""From a contact dataset to a model folder: the one function behind `bioattn train evoformer`."""

import logging
import platform
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bioattn import __version__
from bioattn.alignments.contact_dataset import TEST, TRAIN, VALIDATION, ContactDataset, open_contact_dataset
from bioattn.alignments.couplings import FEATURE_NAMES
from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.io.config_file import build
from bioattn.io.files import check_apart, sha256_of
from bioattn.io.input_watch import inputs_were_read
from bioattn.models.evoformer.config import EvoformerConfig
from bioattn.models.evoformer.folder import (
    MODEL_TYPE,
    load_evoformer_model,
    read_evoformer_config,
    write_evoformer_model,
)
from bioattn.models.evoformer.model import EvoformerModel
from bioattn.models.evoformer.training.config import SMALL_MODEL, EvoformerTrainingConfig
from bioattn.models.evoformer.training.evaluation import FamilyScores, evaluate_families
from bioattn.models.evoformer.training.families import SimulatedFamilies, TrainingFamily, load_families
from bioattn.models.evoformer.training.loop import EvoformerTrainer
from bioattn.models.evoformer.training.model_card import write_model_card
from bioattn.models.evoformer.training.samples import TrainingSamples
from bioattn.models.model_folder import (
    CONFIG,
    MODEL_CARD,
    WEIGHTS,
    read_model_config,
)
from bioattn.models.training_record import (
    HISTORY,
    TRAINING_RECORD,
    read_training_record,
    write_training_record,
)
from bioattn.system.progress import NoProgress, Progress
from bioattn.system.signals import StopRequest
from bioattn.text import quoted
from bioattn.training.distributed import ALONE, Processes
from bioattn.training.job import Job, plain_job, require_finished_by
from bioattn.training.output_folder import is_finished, publish, working_folder, write_history
from bioattn.training.state import STATE_FILE

LOGGER = logging.getLogger("bioattn")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvoformerTrainingJob:
    """What is trained on what, into which folder."""

    dataset_path: Path
    output: Path
    model: Mapping[str, Any]
    """Fields of `EvoformerConfig`, over those of `SMALL_MODEL`; with `initial` only pair features can be added."""
    training: EvoformerTrainingConfig
    initial: Path | None = None
    """A model folder whose weights are the first ones; the shape is then its own."""
    exclude: tuple[str, ...] = ()
    """Proteins of the dataset that are not used at all."""
    settings_source: str = "model settings"
    """Where `model` comes from, for messages."""


def train_evoformer(
    job: EvoformerTrainingJob,
    *,
    device: torch.device,
    resume: bool = False,
    force: bool = False,
    progress: Progress | None = None,
    stop: StopRequest | None = None,
    processes: Processes = ALONE,
) -> list[FamilyScores] | None:
    """Train an MSA/pair model and write its folder, which never exists incomplete: until the end everything lies
    in `<output>.partial/`. Returns the scores of the validation and test proteins; None when, with `resume`, the
    same job had been finished before, and in all processes but the first, which does what is left when training is
    over.

    Raises: SettingsError on settings that do not fit; BioattnError on a bad dataset, an output that exists
    (without `force`) or an interrupted run (without `resume` or `force`); Interrupted when `stop` was requested;
    LostProcess when another process ended.
    """
    finished = processes.is_first and resume and not force and is_finished(job.output)
    if processes.from_first(finished):
        if not processes.is_first:
            return None
        config = model_config(job.model, job.initial, job.settings_source)
        require_finished_by(job.output, _finished_job(job.output), _content(job, config))
        LOGGER.info(f"{job.output}: finished before with the same data and settings, nothing is left to do")
        return None
    check_apart(job.output, [job.dataset_path, *([] if job.initial is None else [job.initial])])
    folder = working_folder(job.output, resume=resume, force=force) if processes.is_first else nullcontext()
    with folder as partial:
        return _train(
            job, partial, device, resume, progress or NoProgress(), stop or StopRequest(), processes
        )


def model_config(
    settings: Mapping[str, Any], initial: Path | None = None, source: str = "model settings"
) -> EvoformerConfig:
    """The shape of the model: that of `initial`, or the settings given over those of the small model.

    To `initial` pair features may be added; no other setting may be given with it.

    Raises: SettingsError when one is, or a setting is unknown or contradicts another.
    """
    if initial is None:
        config = build(EvoformerConfig, {**SMALL_MODEL, **settings}, source)
    else:
        config, _ = read_evoformer_config(initial)
        others = [name for name in settings if name != "pair_features"]
        if others:
            raise SettingsError(
                f"{source}: {', '.join(others)}: --initial-model brings its own shape; leave out one of the two"
            )
        config = replace(config, pair_features=settings.get("pair_features", config.pair_features))
    _require_trunk(config, initial, source)
    if config.pair_features not in (0, len(FEATURE_NAMES)):
        raise SettingsError(
            f"{source}: pair_features is {config.pair_features}; 0 (none) or {len(FEATURE_NAMES)} (covariances)"
        )
    return config


def _require_trunk(config: EvoformerConfig, initial: Path | None, source: str) -> None:
    unfit = {
        "a structure module": config.structure_module is not None,
        "recycling": config.recycling,
        "no distogram head": not config.distogram_bins,
    }
    found = " and ".join(name for name, is_so in unfit.items() if is_so)
    if not found:
        return
    covers = "training covers the trunk with its distogram and masked-MSA heads"
    if initial is not None:
        raise SettingsError(
            f"--initial-model {initial}: has {found}, but {covers}; give a model of `bioattn train evoformer`"
        )
    raise SettingsError(
        f"{source}: {found}: {covers}; leave structure_module and recycling out, and distogram_bins out or above 0"
    )


def _train(
    job: EvoformerTrainingJob,
    partial: Path | None,
    device: torch.device,
    resume: bool,
    progress: Progress,
    stop: StopRequest,
    processes: Processes,
) -> list[FamilyScores] | None:
    """`train_evoformer` inside its folder `partial`, which gets its final name when all is done.

    Only the first process has a folder.
    """
    config = model_config(job.model, job.initial, job.settings_source)
    training = job.training
    dataset = open_contact_dataset(job.dataset_path)
    content = _content(job, config)
    processes.require_same_job(content)
    used = _used(dataset, job.exclude)
    places = {split: [i for i in used if dataset.splits[i] == split] for split in (TRAIN, VALIDATION, TEST)}
    if training.steps and not places[TRAIN]:
        raise BioattnError(f"{job.dataset_path}: has no training proteins left; prepare another split")
    covariance = config.pair_features > 0
    train, validation, test = (
        _load(dataset, places[s], covariance, progress) for s in (TRAIN, VALIDATION, TEST)
    )
    torch.manual_seed(training.seed)
    model = EvoformerModel(config)
    if job.initial is not None:
        _load_initial(model, job.initial)
    inputs_were_read()
    trainer = EvoformerTrainer(
        model=model.to(device),
        samples=TrainingSamples(
            train,
            SimulatedFamilies(training.seed, training.simulated_families),
            training,
            covariance=covariance,
        ),
        validation=validation,
        config=training,
        device=device,
        job=content,
        state_path=None if partial is None else partial / STATE_FILE,
        processes=processes,
    )
    processes.warn_of_idle("families_per_step", training.families_per_step)
    LOGGER.info(
        f"training {sum(p.numel() for p in model.parameters()):,} weights on {len(train)} families"
        + (f" and {training.simulated_families} simulated ones" if training.simulated_steps else "")
    )
    position, best = trainer.run(resume=resume, progress=progress, stop=stop)
    if partial is None:
        return None
    model.load_state_dict(best)
    model.eval()
    scores = [
        *evaluate_families(model, validation, training.prediction_inputs, "validation", progress),
        *evaluate_families(model, test, training.prediction_inputs, "test", progress),
    ]
    write_history(partial / HISTORY, position.history)
    write_evoformer_model(partial, model, training.prediction_inputs)
    record = {
        "dataset": {
            "file": job.dataset_path.name,
            "sha256": content["dataset"],
            "excluded": list(job.exclude),
        },
        "families": {"train": len(train), "validation": len(validation), "test": len(test)},
        "initial_model_sha256": content["initial_model"],
        "training": asdict(training),
        "steps_trained": min(position.epoch * training.steps_per_round, training.total_steps),
        "best_step": min((position.best_epoch + 1) * training.steps_per_round, training.total_steps),
        "versions": {
            "bioattn": __version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "evaluation": [each.to_json() for each in scores],
    }
    write_training_record(partial, record, (WEIGHTS, CONFIG, HISTORY))
    write_model_card(partial / MODEL_CARD, model, record, scores)
    publish(partial, job.output)
    return scores


def _load_initial(model: EvoformerModel, folder: Path) -> None:
    """Start from the weights of a model folder; what it has not, the projection of pair features, starts at 0."""
    initial = load_evoformer_model(folder, torch.device("cpu"))
    added = model.input_embedder.project_pair_features
    model.load_state_dict(initial.model.state_dict(), strict=initial.config == model.config)
    if added is not None and not initial.config.pair_features:
        torch.nn.init.zeros_(added.weight)
        torch.nn.init.zeros_(added.bias)


def _used(dataset: ContactDataset, exclude: Sequence[str]) -> list[int]:
    unknown = [name for name in exclude if name not in dataset.ids]
    if unknown:
        raise SettingsError(
            f"--exclude {quoted(unknown)}: {dataset.path} has no such protein; it has {quoted(dataset.ids)}"
        )
    return [i for i, name in enumerate(dataset.ids) if name not in exclude]


def _load(
    dataset: ContactDataset, places: Sequence[int], covariance: bool, progress: Progress
) -> list[TrainingFamily]:
    return load_families(
        (dataset.protein(i) for i in places), len(places), covariance=covariance, progress=progress
    )


def _content(job: EvoformerTrainingJob, config: EvoformerConfig) -> Job:
    return plain_job(
        {
            "bioattn_version": __version__,
            "dataset": sha256_of(job.dataset_path),
            "model": asdict(config),
            "training": asdict(job.training),
            "exclude": sorted(job.exclude),
            "initial_model": None if job.initial is None else sha256_of(job.initial / WEIGHTS),
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
            "exclude": sorted(record["dataset"]["excluded"]),
            "initial_model": record["initial_model_sha256"],
        }
    except (KeyError, TypeError) as error:
        raise FormatError(f"{folder / TRAINING_RECORD}: is incomplete ({error!r})") from error
