"""`bioattn explain heads`: tables of what each head matters, the curve of pruning, and a model with fewer heads.

The folder's files are defined in `docs/heads.md`: `heads.tsv`, `treatments.tsv` or `proteins.tsv`, `pruning.tsv`
(promoter models) and `heads.json`.
"""

import csv
import logging
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bioattn import __version__
from bioattn.alignments.contact_dataset import open_contact_dataset
from bioattn.errors import BioattnError, SettingsError
from bioattn.interpret.heads.alignment_importance import alignment_head_importance, alignment_heads
from bioattn.interpret.heads.promoter_importance import (
    Figures,
    Head,
    HeadScorer,
    PruningStep,
    greedy_pruning,
    heads_left,
    leave_one_out,
)
from bioattn.io.files import check_apart, sha256_of, text_output, write_json
from bioattn.io.folders import atomic_folder
from bioattn.models.evoformer.folder import load_evoformer_model
from bioattn.models.evoformer.training.families import load_families
from bioattn.models.model_folder import CONFIG, MODEL_CARD, TREATMENTS, WEIGHTS
from bioattn.models.promoter.folder import LoadedPromoterModel, load_promoter_model, write_promoter_model
from bioattn.models.promoter.pruning import pruned
from bioattn.models.promoter.training.evaluation import evaluate
from bioattn.models.promoter.training.model_card import write_model_card
from bioattn.models.training_record import HISTORY, read_training_record, write_training_record
from bioattn.promoters.dataset import SPLIT_NAMES, TEST, PromoterDataset, read_dataset
from bioattn.store.head_folder import (
    BY_PROTEIN,
    BY_TREATMENT,
    FILES,
    FORMAT,
    FORMAT_VERSION,
    HEAD_FOLDER,
    HEADS,
    PRUNING,
    RECORD,
)
from bioattn.system.progress import NoProgress, Progress
from bioattn.training.output_folder import publish, working_folder

LOGGER = logging.getLogger("bioattn")

Cells = Sequence[str | int | float]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadReport:
    """What was found, for messages."""

    sites: int
    heads: int
    most: Head
    """The most important head, and the least."""
    least: Head
    whole: Figures | None = None
    """Of a promoter model on the genes asked for."""
    pruned: Figures | None = None
    """With the heads that were to go."""
    test: tuple[float, float] | None = None
    """Accuracy of the whole and the pruned model on test genes."""


def explain_promoter_heads(
    model_folder: Path,
    dataset_path: Path,
    output: Path,
    *,
    device: torch.device,
    split: str = "validation",
    prune_to: int | None = None,
    pruned_model: Path | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> HeadReport:
    """Score the heads of a promoter model on the genes of a split; with `prune_to` write a model of so many heads.

    Test genes are looked at once, at the end, for the whole and the pruned model.

    Raises: BioattnError for a model without heads, a dataset that does not fit it, a folder in the way;
    SettingsError for one of `prune_to` and `pruned_model` alone.
    """
    progress = progress or NoProgress()
    if (prune_to is None) != (pruned_model is None):
        raise SettingsError(
            "--prune-to and --pruned-model go together: how many heads, and the folder to write"
        )
    _check_outputs(output, pruned_model, [model_folder, dataset_path], force)
    model = load_promoter_model(model_folder, device)
    dataset = read_dataset(dataset_path)
    scorer = HeadScorer(model, dataset, SPLIT_NAMES.index(split))
    _warn_of_other_data(model_folder, dataset_path, split, error=prune_to is not None)
    importance = scorer.importance()
    whole = scorer.figures()
    alone = leave_one_out(scorer, progress)
    steps = greedy_pruning(scorer, progress)
    over_cells = {head: scorer.over_cells(values) for head, values in importance.items()}
    record: dict[str, Any] = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "generated_by": f"bioattn {__version__}",
        "model_type": "promoter",
        "model_sha256": model.sha256,
        "input_sha256": sha256_of(dataset_path),
        "split": split,
        "genes": len(scorer.genes),
        "treatments": len(scorer.treatments),
        "loss": "cross-entropy" if model.task == "binary" else "squared error, standard units",
        "accuracy": "mean AUROC over treatments"
        if model.task == "binary"
        else "mean Pearson r over treatments",
        "whole": _figures(whole),
    }
    found = HeadReport(
        sites=len(scorer.sites),
        heads=len(scorer.heads),
        most=max(over_cells, key=lambda head: over_cells[head]),
        least=min(over_cells, key=lambda head: over_cells[head]),
        whole=whole,
    )
    if prune_to is not None and pruned_model is not None:
        keep = heads_left(scorer, steps, prune_to)
        figures = next(step.figures for step in steps if step.heads_left == prune_to)
        record["pruned"] = {"heads": dict(keep), split: _figures(figures)}
        test = _write_pruned(
            pruned_model, model_folder, model, dataset, keep, record["pruned"], force, progress
        )
        if test is not None:
            record["pruned"]["test_accuracy"] = {"whole": test[0], "pruned": test[1]}
        found = replace(found, pruned=figures, test=test)
    with atomic_folder(output, FILES) as folder:
        _write(
            folder / HEADS,
            ("site", "head", "importance", "loss_without", "accuracy_without"),
            [(*head, over_cells[head], *alone[head]) for head in scorer.heads],
        )
        _write(
            folder / BY_TREATMENT,
            ("site", "head", "treatment", "importance"),
            [
                (*head, treatment, float(values[place]))
                for head, values in importance.items()
                for place, treatment in enumerate(scorer.treatments)
            ],
        )
        _write(
            folder / PRUNING,
            ("heads_left", "removed_site", "removed_head", "importance", "loss", "accuracy"),
            [_pruning_row(step) for step in steps],
        )
        _write_record(folder, record)
    return found


def explain_alignment_heads(
    model_path: Path,
    dataset_path: Path,
    output: Path,
    *,
    device: torch.device,
    split: str = "validation",
    force: bool = False,
    progress: Progress | None = None,
) -> HeadReport:
    """Score the heads of an MSA/pair model on the proteins of a split of a contact dataset.

    Raises: BioattnError for a split without proteins, or a dataset or folder in the way.
    """
    progress = progress or NoProgress()
    _check_outputs(output, None, [model_path, dataset_path], force)
    model = load_evoformer_model(model_path, device)
    dataset = open_contact_dataset(dataset_path)
    indices = dataset.proteins_in(SPLIT_NAMES.index(split))
    if not len(indices):
        raise BioattnError(f"{dataset_path}: no protein is in the {split} split; choose another with --split")
    families = load_families(
        (dataset.protein(int(index)) for index in indices),
        len(indices),
        covariance=bool(model.config.pair_features),
        progress=progress,
    )
    heads = alignment_heads(model)
    slopes = alignment_head_importance(model, families, progress)
    means = dict(zip(heads, slopes.mean(axis=0).tolist(), strict=True))
    with atomic_folder(output, FILES) as folder:
        _write(folder / HEADS, ("site", "head", "importance"), [(*head, means[head]) for head in heads])
        _write(
            folder / BY_PROTEIN,
            ("site", "head", "protein", "importance"),
            [
                (*head, family.protein.id, float(slopes[row, place]))
                for place, head in enumerate(heads)
                for row, family in enumerate(families)
            ],
        )
        record = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "generated_by": f"bioattn {__version__}",
            "model_type": "evoformer",
            "model_sha256": model.sha256,
            "input_sha256": sha256_of(dataset_path),
            "split": split,
            "proteins": len(families),
            "loss": "cross-entropy of the distogram",
        }
        _write_record(folder, record)
    return HeadReport(
        sites=len({site for site, _ in heads}),
        heads=len(heads),
        most=max(means, key=lambda head: means[head]),
        least=min(means, key=lambda head: means[head]),
    )


def _check_outputs(output: Path, pruned_model: Path | None, inputs: Sequence[Path], force: bool) -> None:
    HEAD_FOLDER.check_output(output, inputs, force=force)
    if pruned_model is not None:
        check_apart(pruned_model, [*inputs, output], "--pruned-model")


def _write_record(folder: Path, record: dict[str, Any]) -> None:
    """`heads.json`, which ends with the digests of the tables."""
    digests = {path.name: sha256_of(path) for path in sorted(folder.glob("*.tsv"))}
    write_json(folder / RECORD, record | {"sha256": digests})


def _warn_of_other_data(model_folder: Path, dataset_path: Path, split: str, *, error: bool) -> None:
    """Only the dataset of the training says which genes the model never learned from."""
    known = read_training_record(model_folder).get("dataset", {}).get("sha256")
    if known == sha256_of(dataset_path):
        return
    sentence = (
        f"{model_folder} was not trained on {dataset_path}, whose {split} genes it may have learned from"
    )
    if error:
        raise BioattnError(f"{sentence}; --prune-to needs the dataset of the training")
    LOGGER.warning(sentence)


def _write_pruned(
    output: Path,
    model_folder: Path,
    model: LoadedPromoterModel,
    dataset: PromoterDataset,
    keep: Mapping[str, Sequence[int]],
    note: Mapping[str, Any],
    force: bool,
    progress: Progress,
) -> tuple[float, float] | None:
    """The model folder, and the accuracies of whole and pruned model on test genes, if there are any."""
    smaller = pruned(model.model, model.vocabulary, keep).eval()
    record = read_training_record(model_folder)
    test = None
    if len(dataset.genes_in(TEST)):
        loaded = replace(model, model=smaller)
        test = (
            HeadScorer(model, dataset, TEST).figures().accuracy,
            HeadScorer(loaded, dataset, TEST).figures().accuracy,
        )
    with working_folder(output, resume=False, force=force) as partial:
        evaluation = evaluate(
            smaller, dataset, model.vocabulary, model.device, baselines=False, progress=progress
        )
        write_promoter_model(
            partial, smaller, model.vocabulary, model.treatments, task=model.task, reference=model.reference
        )
        files = [WEIGHTS, CONFIG, TREATMENTS]
        if (model_folder / HISTORY).is_file():
            files.append(HISTORY)
            shutil.copyfile(model_folder / HISTORY, partial / HISTORY)
        record |= {
            "pruned": {"from": model.sha256, **note},
            "evaluation": evaluation.to_json(),
        }
        write_training_record(partial, record, files)
        write_model_card(partial / MODEL_CARD, smaller.config, dataset, record, evaluation)
        publish(partial, output)
    return test


def _pruning_row(step: PruningStep) -> Cells:
    site, head = step.removed if step.removed is not None else ("", "")
    return (step.heads_left, site, head, step.importance, *step.figures)


def _figures(figures: Figures) -> dict[str, float | None]:
    return {
        name: None if math.isnan(value) else float(np.float32(value))
        for name, value in figures._asdict().items()
    }


def _write(path: Path, header: Sequence[str], rows: Sequence[Cells]) -> None:
    """A TSV; numbers with six digits, empty where there is none."""
    with text_output(path) as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(header)
        for row in rows:
            writer.writerow([_cell(value) for value in row])


def _cell(value: str | float) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.6g}"
    return str(value)
