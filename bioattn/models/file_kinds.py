"""The kinds of files of all model families, and model folders of none: a folder is known by `config.json`, which
names the family, beside `model.safetensors`."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bioattn.errors import BioattnError, NotFiniteError
from bioattn.io.files import read_json
from bioattn.models.evaluation import METRIC_TITLES, find_history, read_comparison, read_evaluation
from bioattn.models.family import CONFIG, WEIGHTS, Family, families, family_of, load_runner
from bioattn.store.kinds import FileKind, Problem, Sample, folder_with, sample_name, shown_as
from bioattn.store.training_record import read_training_record
from bioattn.text import some


def file_kinds() -> Sequence[FileKind]:
    """The kinds that families register, the models of the others, and what is left of a model folder."""
    return [*(kind for family in families().values() for kind in family.file_kinds()), _OF_NO_FAMILY]


def _refuse(folder: Path) -> dict[str, Any]:
    """Raises: FormatError: which other format, version or family the folder is of."""
    from bioattn.models.model_folder import check_model_config

    content = read_json(folder / CONFIG)
    if not isinstance(content, dict) or "architectures" not in content:  # which transformers writes
        check_model_config(folder / CONFIG, content)
    return {"family": family_of(folder).name}


def model_kind(
    family: Family,
    describe: Callable[[Path], dict[str, Any]] | None = None,
    *,
    name: str | None = None,
    title: str | None = None,
    slot: str = "trained_model",
) -> FileKind:
    """The kind of the model folders of one family.

    describe: main figures of a folder; None: those that every model has. name: None makes it of the family's name.
    slot: what a report takes a model as.
    """
    return FileKind(
        name=name or f"{family.name}-model",
        title=title or f"{family.name} model folder",
        matches=lambda candidate: (
            candidate.holds(CONFIG, WEIGHTS) and candidate.index(CONFIG).get("model_type") == family.name
        ),
        describe=describe or _describe,
        is_model=True,
        validate=lambda folder, _: _validate(folder, describe or _describe),
        report=shown_as(slot, describe or _describe),
        multiqc=_sample,
    )


def _describe(folder: Path) -> dict[str, Any]:
    """What can be said of a model of any family."""
    import torch

    runner = load_runner(folder, torch.device("cpu"))
    return {
        "generated_by": read_json(folder / CONFIG).get("generated_by"),
        "sha256": runner.sha256,
        "parameters": sum(parameter.numel() for parameter in runner.model.parameters()),
        "attention_sites": some(list(runner.sites)),
        **trained_figures(folder),
    }


def trained_figures(folder: Path) -> dict[str, Any]:
    """What a model was trained on, what it was fine-tuned to predict, and how it ended beside simple models."""
    record, tuned = read_training_record(folder), read_json(folder / CONFIG).get("fine_tuned", {})
    comparison = read_comparison(folder, record)
    targets = {each["name"]: ", ".join(each["classes"]) or each["kind"] for each in tuned.get("targets", ())}
    data = record.get("dataset") or {}
    return {
        **({"trained_on": data["file"]} if "file" in data else {}),
        **({"predicts": targets} if targets else {}),
        **({} if comparison is None else {"comparison": comparison.sentence()}),
    }


def _validate(folder: Path, describe: Callable[[Path], dict[str, Any]]) -> list[Problem]:
    """Whether the files are whole, and the model gives finite values for an input of its own making."""
    import torch

    describe(folder)
    runner = load_runner(folder, torch.device("cpu"))
    try:
        if hasattr(runner, "trial"):  # which runs the model on a small input, and which not every family has
            runner.trial()
    except NotFiniteError as problem:
        return [Problem(WEIGHTS, f"gives NaN or infinite {problem} for a random input; use another model")]
    return []


def _sample(folder: Path) -> Sample:
    """How a model was trained, and how well it predicts.

    Raises: BioattnError when nothing of that is recorded; FormatError when it is damaged.
    """
    sections: dict[str, Mapping[str, Any]] = {}
    if (history := find_history(folder)) is not None:
        losses = {
            column.removesuffix("_loss"): {
                str(step): value for step, value in history.points(column) if value is not None
            }
            for column in history.columns
            if column.endswith("loss")
        }
        sections[f"loss_{history.time}"] = {name: points for name, points in losses.items() if points}
    record = read_training_record(folder)
    task = str(read_json(folder / CONFIG).get("task", "regression"))
    evaluation = read_evaluation(folder, record, task) if isinstance(record.get("evaluation"), dict) else None
    if evaluation is not None:
        cells, metric = next(iter(evaluation.by_cells)), evaluation.headline
        model, best = evaluation.model_and_simple(cells)
        sections["accuracy"] = {
            "model": model.figure(metric),
            "baseline": best.figure(metric),
            "baseline_name": best.name or None,
            "specific": model.figure("specific_pearson"),
            "metric": METRIC_TITLES[metric],
            "cells": cells,
        }
        sections["general"] = {"accuracy": model.figure(metric)}
    if not sections:
        raise BioattnError(
            f"{folder}: was not trained by bioattn, so there is nothing to show of it; leave it out"
        )
    return Sample(sample_name(folder), sections)


_OF_NO_FAMILY = FileKind(
    name="unknown-model",
    title="model folder of no family here",
    matches=folder_with(CONFIG, WEIGHTS),
    describe=_refuse,
    order=1,
)
