"""Controls: models retrained like the user's with one difference (uniform attention, one query, another seed).

A control lies in `<folder>/<name>-<digest>`. The digest covers all that determines its weights: data,
settings, version. So one folder serves many models, a control is trained once, and interrupted training resumes.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from bioattn import __version__
from bioattn.errors import BioattnError, FormatError, Interrupted, SettingsError
from bioattn.io.config_file import build
from bioattn.models.promoter.config import PromoterModelConfig, QuerySource
from bioattn.models.promoter.folder import LoadedPromoterModel, load_promoter_model
from bioattn.models.promoter.training.config import TrainingConfig
from bioattn.models.promoter.training.train import TrainingJob, train_promoter
from bioattn.models.training_record import TRAINING_RECORD
from bioattn.models.training_record import read_training_record as read_training_json
from bioattn.system.progress import Progress
from bioattn.system.signals import StopRequest
from bioattn.training.output_folder import is_finished


class Control(StrEnum):
    """The one difference between a control and the user's model."""

    UNIFORM = "uniform"
    """Uniform attention (Jain & Wallace 2019; Wiegreffe & Pinter 2019)."""
    SHARED = "shared"
    """One query for all treatments."""
    SEED = "seed"
    """Another seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRecord:
    """How a model was trained, from the `training.json` of its folder."""

    dataset_sha256: str
    training: TrainingConfig
    treatment_columns: tuple[str, ...]
    evaluation: dict[str, Any]
    """As `bioattn.models.promoter.training.evaluation.Evaluation.to_json`."""
    unnamed: tuple[str, ...] = ()
    """Settings that a record of an earlier version lacks; `training` holds today's defaults for them."""


def read_training_record(model: Path) -> TrainingRecord | None:
    """The record of a model folder, or None where it has none.

    Raises: FormatError when the record exists but is incomplete.
    """
    path = model / TRAINING_RECORD
    if not path.is_file():
        return None
    content = read_training_json(model)
    try:
        return TrainingRecord(
            dataset_sha256=content["dataset"]["sha256"],
            training=build(TrainingConfig, content["training"], str(path)),
            treatment_columns=tuple(content["treatment_columns"]),
            evaluation=content["evaluation"],
            unnamed=tuple(name for name in TrainingConfig().decisive() if name not in content["training"]),
        )
    except SettingsError as error:
        raise FormatError(f"{error}; the folder is of another version, or was edited") from error
    except (KeyError, TypeError) as error:
        raise FormatError(f"{path}: is incomplete ({error!r})") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlFolder:
    """The folder of controls, and the data they are trained on."""

    folder: Path
    dataset: Path
    record: TrainingRecord

    def retrained(
        self,
        model: LoadedPromoterModel,
        control: Control,
        *,
        step: int = 1,
        progress: Progress | None = None,
        stop: StopRequest | None = None,
    ) -> LoadedPromoterModel:
        """A control of `model`, trained unless the folder holds it. step: added to the seed of `Control.SEED`.

        Raises: Interrupted when `stop` was requested (the next call goes on); BioattnError when the folder cannot
        be written or the control cannot be trained.
        """
        job = self._job(model, control, step)
        if not is_finished(job.output):
            try:
                with _made(self.folder):
                    train_promoter(
                        job, device=model.device, resume=_can_go_on(job.output), progress=progress, stop=stop
                    )
            except Interrupted as stopped:
                raise Interrupted(
                    f"stopped while a control was trained; what is done lies in {self.folder}: repeat the command "
                    "to go on",
                    stopped.exit_code,
                ) from stopped
        return load_promoter_model(job.output, model.device)

    def _job(self, model: LoadedPromoterModel, control: Control, step: int) -> TrainingJob:
        config, training = model.config, self.record.training
        if control is Control.UNIFORM:
            config = replace(config, attention_query=QuerySource.UNIFORM)
        elif control is Control.SHARED:
            config = replace(config, attention_query=QuerySource.SHARED)
        else:
            training = replace(training, seed=training.seed + step)
        content = {
            "bioattn_version": __version__,
            "dataset": self.record.dataset_sha256,
            "model": _changed(config),
            "training": _changed(training),
            "treatment_columns": self.record.treatment_columns,
            "reference": model.reference,
        }
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        settings = asdict(config)
        del settings["length"]
        return TrainingJob(
            dataset_path=self.dataset,
            output=self.folder / f"{control}-{digest[:12]}",
            model=settings,
            training=training,
            treatment_columns=self.record.treatment_columns,
            reference=model.reference,
            baselines=False,
            settings_source="the model's own settings",
        )


def _changed(settings: PromoterModelConfig | TrainingConfig) -> dict[str, Any]:
    """The settings that differ from their defaults, so that a setting added later does not change the digest."""
    values = asdict(settings)
    return {
        field.name: values[field.name]
        for field in fields(settings)
        if field.default is not values[field.name] and field.default != values[field.name]
    }


def _can_go_on(output: Path) -> bool:
    return output.with_name(output.name + ".partial").exists()


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Create the folder of the controls if it is missing; remove it again if it stays empty."""
    try:
        folder.mkdir(exist_ok=True)
    except FileExistsError:
        raise SettingsError(f"--controls {folder}: is a file, a folder is needed") from None
    except OSError as error:
        raise BioattnError(
            f"--controls {folder}: cannot be made ({error.strerror or error}); name a folder that can be written"
        ) from error
    try:
        yield
    finally:
        if not any(folder.iterdir()):
            folder.rmdir()


def controls_wanted(model: LoadedPromoterModel, other_seeds: int) -> list[tuple[Control, int]]:
    """The controls that apply to this model, each with the step of its seed."""
    wanted = [(Control.UNIFORM, 0)]
    if model.config.attention_query is QuerySource.TREATMENT:
        wanted.append((Control.SHARED, 0))
    return wanted + [(Control.SEED, step) for step in range(1, other_seeds + 1)]


def described(control: Control, step: int) -> str:
    """The name of a control in progress and messages.

    >>> described(Control.SEED, 2)
    'control 2: another seed'
    """
    return {
        Control.UNIFORM: "control: uniform attention, retrained",
        Control.SHARED: "control: one query for all treatments, retrained",
        Control.SEED: f"control {step}: another seed",
    }[control]
