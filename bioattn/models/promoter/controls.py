"""Controls: models retrained like the user's with one difference (uniform attention, one query, …, another seed).

A control lies in `<folder>/<name>-<digest>`. The digest covers all that determines its weights: data,
settings, version. So one folder serves many models, a control is trained once, and interrupted training resumes.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from bioattn import __version__
from bioattn.choices import not_there
from bioattn.errors import BioattnError, FormatError, Interrupted
from bioattn.inference.runner import HeldOut
from bioattn.io.config_file import build
from bioattn.io.files import sha256_of
from bioattn.io.output_names import partial_path
from bioattn.models.promoter.config import PositionBias, PromoterModelConfig, QuerySource
from bioattn.models.promoter.family import FAMILY, PromoterTrainingSettings
from bioattn.models.promoter.folder import LoadedPromoterModel, load_promoter_model
from bioattn.models.promoter.training.config import TrainingConfig
from bioattn.promoters.dataset import TEST, TRAIN, VALIDATION, PromoterDataset, read_dataset
from bioattn.store.training_record import TRAINING_RECORD
from bioattn.store.training_record import read_training_record as read_training_json
from bioattn.system.progress import SILENT, Progress
from bioattn.system.signals import StopRequest
from bioattn.training.output_folder import is_finished
from bioattn.training.run import train

MIN_GENES = 20
"""Least number of held-out genes; fewer give no usable skill."""


class Control(StrEnum):
    """The one difference between a control and the user's model."""

    UNIFORM = "uniform"
    """Uniform attention (Jain & Wallace 2019; Wiegreffe & Pinter 2019)."""
    SHARED = "shared"
    """One query, and one position bias, for all treatments: one map."""
    GAIN = "gain"
    """Treatments share query and position bias; each has its own weight of the null key."""
    POSITION = "position"
    """No query; each treatment has its own position bias."""
    QUERY = "query"
    """Each treatment has its own query, and all share the position bias."""
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
    except FormatError as error:
        raise FormatError(f"{error}; the folder is of another version, or was edited") from error
    except (KeyError, TypeError) as error:
        raise FormatError(f"{path}: is incomplete ({error!r})") from error


@dataclass(frozen=True, slots=True)
class PromoterTraining:
    """How a model was trained: a `bioattn.inference.runner.Training`."""

    model: LoadedPromoterModel
    record: TrainingRecord | None

    @property
    def found(self) -> bool:
        return self.record is not None

    @property
    def evaluation(self) -> Mapping[str, Any]:
        """As `bioattn.models.promoter.training.evaluation.Evaluation.to_json`; empty without a record."""
        return {} if self.record is None else self.record.evaluation

    @property
    def unnamed(self) -> Sequence[str]:
        return () if self.record is None else self.record.unnamed

    def held_out(self, dataset: Path, tasks: Sequence[str]) -> HeldOut:
        """Test genes, or validation genes where there are too few, under the treatments `tasks`.

        Raises: BioattnError when the model was trained on another dataset, which may have had those genes, or it
        has too few of them or lacks a treatment.
        """
        if self.record is not None and sha256_of(dataset) != self.record.dataset_sha256:
            raise BioattnError(
                f"{dataset}: is not the dataset this model was trained on (its digest differs from that in "
                "training.json); give that one with --dataset"
            )
        content = read_dataset(dataset)
        if content.length != self.model.length:
            raise BioattnError(
                f"{dataset}: promoters of {content.length:,} bases, the model sees {self.model.length:,}; give "
                "the dataset it was trained on"
            )
        return held_out_genes(content, tasks)

    def controls_wanted(self, other_seeds: int) -> list[tuple[str, int]]:
        """Which controls say something of this model, and the step of the seed of each."""
        wanted = [(Control.UNIFORM, 0)]
        if self.model.config.attention_query is QuerySource.TREATMENT:
            wanted.append((Control.SHARED, 0))
            if len(self.model.treatments.names) > 1:
                wanted += [(Control.GAIN, 0), (Control.POSITION, 0)]
                if self.model.config.position_bias == PositionBias.TREATMENT:
                    wanted.append((Control.QUERY, 0))
        return [*wanted, *((Control.SEED, step) for step in range(1, other_seeds + 1))]

    def control(
        self,
        name: str,
        step: int,
        dataset: Path,
        folder: Path,
        *,
        progress: Progress = SILENT,
        stop: StopRequest | None = None,
    ) -> LoadedPromoterModel:
        """The control `name` (a `Control`), trained on `dataset` unless `folder` holds it; there must be a record.

        step: added to the seed of `Control.SEED`.

        Raises: Interrupted when `stop` was requested (the next call goes on); BioattnError when the folder cannot
        be written or the control cannot be trained.
        """
        settings = self.control_settings(Control(name), step, dataset, folder)
        if not is_finished(settings.output):
            try:
                with _made(folder):
                    train(FAMILY, settings, device=self.model.device, progress=progress, stop=stop)
            except Interrupted as stopped:
                raise Interrupted(
                    f"stopped while a control was trained; what is done lies in {folder}: repeat the command "
                    "to go on",
                    stopped.exit_code,
                ) from stopped
        return load_promoter_model(settings.output, self.model.device)

    def control_settings(
        self, control: Control, step: int, dataset: Path, folder: Path
    ) -> PromoterTrainingSettings:
        """Settings that train a control; there must be a record. Arguments as of `control`."""
        assert self.record is not None
        config, training = self.model.config, self.record.training
        match control:
            case Control.SEED:
                training = replace(training, seed=training.seed + step)
            case Control.QUERY:
                config = replace(config, position_bias=PositionBias.SHARED)
            case Control.SHARED:
                own = config.position_bias == PositionBias.TREATMENT
                bias = PositionBias.SHARED if own else config.position_bias
                config = replace(config, attention_query=QuerySource.SHARED, position_bias=bias)
            case Control.GAIN:
                config = replace(
                    config, attention_query=QuerySource.GAIN, sink=True, position_bias=PositionBias.SHARED
                )
            case Control.POSITION:
                config = replace(
                    config, attention_query=QuerySource.POSITION, position_bias=PositionBias.TREATMENT
                )
            case _:
                config = replace(config, attention_query=QuerySource(control))
        content = {
            "bioattn_version": __version__,
            "dataset": self.record.dataset_sha256,
            "model": _changed(config),
            "training": _changed(training),
            "treatment_columns": self.record.treatment_columns,
            "reference": self.model.reference,
        }
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        output = folder / f"{control}-{digest[:12]}"
        return PromoterTrainingSettings(
            dataset=dataset,
            output=output,
            model={name: value for name, value in asdict(config).items() if name != "length"},
            training=asdict(training),
            treatment_columns=self.record.treatment_columns,
            reference=self.model.reference,
            baselines=False,
            encoder=None if config.encoder is None else self.model.path,
            resume=partial_path(output).exists(),
        )


def held_out_genes(dataset: PromoterDataset, treatments: Sequence[str]) -> HeldOut:
    """The test genes, or the validation genes where there are too few, under `treatments`.

    Raises: BioattnError when the dataset has neither, or lacks one of the treatments.
    """
    known = {name: column for column, name in enumerate(dataset.treatments.names)}
    missing = [name for name in treatments if name not in known]
    if missing:
        error = not_there("treatment", missing[0], "--dataset", "treatment", known)
        raise BioattnError(f"{error}; give the dataset the model was trained on")
    columns = np.array([known[name] for name in treatments], np.int64)
    for split, name in ((TEST, "test"), (VALIDATION, "validation")):
        genes = dataset.genes_in(split)
        targets = dataset.targets[np.ix_(genes, columns)].astype(np.float64)
        measured = ~np.isnan(targets).all(axis=1)
        if measured.sum() >= MIN_GENES:
            genes = genes[measured]
            return HeldOut(
                split=name,
                ids=[dataset.gene_ids[gene] for gene in genes],
                codes=dataset.codes[genes, dataset.flank : dataset.flank + dataset.length],
                targets_BT=targets[measured],
                task=dataset.task,
                all_ids={
                    gene_id
                    for gene_id, split in zip(dataset.gene_ids, dataset.gene_split, strict=True)
                    if split != TRAIN
                },
            )
    raise BioattnError(
        f"--dataset: fewer than {MIN_GENES} test genes were measured, and as few validation genes; what a model "
        "predicts can be judged on genes only that it was not trained on"
    )


def _changed(settings: PromoterModelConfig | TrainingConfig) -> dict[str, Any]:
    """The settings that differ from their defaults, so that a setting added later does not change the digest."""
    values = asdict(settings)
    return {
        field.name: values[field.name]
        for field in fields(settings)
        if field.default is not values[field.name] and field.default != values[field.name]
    }


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Create the folder of the controls if it is missing; remove it again if it stays empty."""
    try:
        folder.mkdir(exist_ok=True)
    except FileExistsError:
        raise BioattnError(f"--controls {folder}: is a file, a folder is needed") from None
    except OSError as error:
        raise BioattnError(
            f"--controls {folder}: cannot be made ({error.strerror or error}); name a folder that can be written"
        ) from error
    try:
        yield
    finally:
        if not any(folder.iterdir()):
            folder.rmdir()
