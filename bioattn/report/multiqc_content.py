"""What each kind of result says in which section of a MultiQC report."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bioattn.errors import BioattnError, FormatError
from bioattn.formats.rr import read_rr
from bioattn.io.files import read_json, read_lines
from bioattn.promoters.preparation import PromoterFiles
from bioattn.report.accuracy import METRIC_TITLES, collect_accuracy, read_record, read_training_history
from bioattn.report.check_result import read_check
from bioattn.store.inspection import inspect_file


@dataclass(frozen=True, slots=True)
class Content:
    """What one result says: figures by name for each section; of line plots, points by the name of a line."""

    name: str
    """What the sample is called if nobody says otherwise."""
    sections: Mapping[str, Mapping[str, Any]]


def content_of(path: Path) -> Iterator[Content]:
    """The content of one result; several of a folder of predictions.

    Raises: BioattnError when it is of a kind that says nothing to MultiQC; FormatError when it is damaged.
    """
    description = inspect_file(path)
    figures = description.figures
    match description.kind:
        case "promoters":
            yield _promoters(path, figures)
        case "audit":
            yield Content(_name(path), {"promoters": _audit(path)})
        case "dataset":
            yield Content(_name(path), {"datasets": _dataset(figures)})
        case "model" | "evoformer-model":
            yield _model(path, figures)
        case "check":
            yield _check(path)
        case "msa-statistics":
            yield _alignment(path)
        case "prediction":
            yield _prediction(path)
        case "predictions":
            for scores in sorted(path.glob("*/scores.json")):
                yield _prediction(scores.parent)
        case _:
            raise BioattnError(
                f"{path}: is {description.title}, of which a MultiQC report shows nothing; give promoters, "
                "audits, datasets, models, checks, alignment statistics or predictions"
            )


def _name(path: Path) -> str:
    """The file's name up to its first dot; a folder's whole name."""
    path = path.absolute()
    return path.name if path.is_dir() else path.name.lstrip(".").split(".")[0]


def _promoters(path: Path, figures: Mapping[str, Any]) -> Content:
    sections: dict[str, Mapping[str, Any]] = {"general": {"promoters": figures["promoters"]}}
    audit = PromoterFiles.beside(path).audit
    if not audit.is_file() and not figures["with_location"]:
        raise BioattnError(
            f"{path}: is no FASTA of `bioattn prepare promoters`: no record says where its promoter lies, and "
            f"there is no {audit.name} beside it"
        )
    if audit.is_file():
        sections["promoters"] = _audit(audit)
    return Content(_name(path), sections)


def _audit(path: Path) -> dict[str, int]:
    """Genes by what became of them: kept, trimmed, and dropped by reason."""
    lines = read_lines(path)
    columns = next(lines)[1].split("\t")
    try:
        status, reason = columns.index("status"), columns.index("reason")
        found = Counter(
            f"dropped: {cells[reason]}" if cells[status] == "dropped" else cells[status]
            for _, line in lines
            if (cells := line.split("\t"))
        )
    except (ValueError, IndexError) as error:
        raise FormatError(f"{path}: is no complete audit ({error}); prepare the promoters again") from error
    order = {"kept": 0, "trimmed": 1}
    return dict(sorted(found.items(), key=lambda item: (order.get(item[0], 2), item[0])))


def _dataset(figures: Mapping[str, Any]) -> dict[str, Any]:
    treatments = figures["treatments"]
    number = treatments["count"] if isinstance(treatments, dict) else len(treatments)
    cells = figures["genes"] * number
    return {
        "genes": figures["genes"],
        "treatments": number,
        "measured": 1 - figures["missing_targets"] / cells if cells else None,
        **figures["genes_per_split"],
    }


def _model(path: Path, figures: Mapping[str, Any]) -> Content:
    record = read_record(path)
    sections: dict[str, Mapping[str, Any]] = {}
    history = read_training_history(path, record)
    if history is not None:
        lines = {
            curve.name.removesuffix("_loss"): {
                str(step): value
                for step, value in zip(history.steps, curve.values, strict=True)
                if value is not None
            }
            for curve in history.curves
            if curve.name.endswith("loss")
        }
        sections[f"loss_{history.step_name}"] = {name: points for name, points in lines.items() if points}
    if isinstance(record.get("evaluation"), dict):
        accuracy = collect_accuracy(path, record, str(figures.get("task", "regression")))
        table = accuracy.tables[0] if accuracy is not None else None
        if accuracy is not None and table is not None and table.model is not None:
            metric = accuracy.headline
            best = table.best_baseline(metric)
            sections["accuracy"] = {
                "model": table.model.figures.get(metric),
                "baseline": None if best is None else best.figures.get(metric),
                "baseline_name": None if best is None else best.name,
                "specific": table.model.figures.get("specific_pearson"),
                "metric": METRIC_TITLES[metric],
                "cells": table.cells,
            }
            sections["general"] = {"accuracy": table.model.figures.get(metric)}
    if not sections:
        raise BioattnError(
            f"{path}: was not trained by bioattn, so there is nothing to show of it; leave it out"
        )
    return Content(_name(path), sections)


def _check(path: Path) -> Content:
    found = read_check(path)
    passed = [measure.passed for measure in found.measures]
    return Content(
        _name(path),
        {
            "general": {"verdict": found.code},
            "checks": {
                "verdict": found.code,
                "sentence": found.sentence,
                "passed": passed.count(True),
                "failed": passed.count(False),
                "not_taken": len(found.skipped),
            },
        },
    )


def _alignment(path: Path) -> Content:
    content = read_json(path)
    try:
        figures = {name: content[name] for name in ("depth", "columns", "neff", "gaps")}
        figures["query_identity"] = content["median_query_identity"]
        figures["warnings"] = len(content["warnings"])
    except (KeyError, TypeError) as error:
        raise FormatError(
            f"{path}: is no complete statistics of an alignment ({error!r}); prepare it again"
        ) from error
    return Content(_name(path), {"general": {"neff": figures["neff"]}, "alignments": figures})


def _prediction(path: Path) -> Content:
    scores = read_json(path / "scores.json")
    try:
        name, figures = str(scores["id"]), {key: scores[key] for key in ("rows", "columns")}
        general: dict[str, Any] = {}
        if "contact_pairs" in scores:
            pairs = sorted((pair.probability for pair in read_rr(path / "contacts.rr").pairs), reverse=True)
            likeliest = pairs[: scores["columns_used"]]
            if likeliest:
                general["contact_probability"] = round(sum(likeliest) / len(likeliest), 6)
        if scores.get("plddt"):
            general["plddt"] = round(sum(scores["plddt"]) / len(scores["plddt"]), 3)
    except (KeyError, TypeError) as error:
        raise FormatError(
            f"{path / 'scores.json'}: is not complete ({error!r}); run the prediction again with --force"
        ) from error
    return Content(name, {"general": general, "predictions": {**figures, **general}})
