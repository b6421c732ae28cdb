"""What a trained model reaches on genes and treatments it has not seen, beside simple models on the same cells,
and the README.md of its folder.

The baseline for treatments that were not trained on answers as the nearest treatment that was.

Shape suffixes: G genes, H held-out treatments, C training treatments (candidates).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata

from bioattn.errors import BioattnError
from bioattn.models.evaluation import METRIC_TITLES
from bioattn.models.promoter.config import PromoterModelConfig, TreatmentEncoding
from bioattn.models.promoter.model import PromoterModel
from bioattn.models.promoter.training.baselines import Baseline, best_simple
from bioattn.models.promoter.training.data import centred_windows
from bioattn.models.promoter.training.ridge import Matrix
from bioattn.models.promoter.treatment_vocabulary import TreatmentVocabulary
from bioattn.promoters.dataset import TEST, TRAIN, VALIDATION, PromoterDataset
from bioattn.promoters.response_metrics import (
    Floats,
    fit_shared_axis,
    interval,
    median_auroc,
    median_pearson,
    pearson,
    per_treatment,
    resampled,
    summarise,
)
from bioattn.promoters.treatments import TreatmentTable
from bioattn.store.training_record import MODEL_ROW, Comparison
from bioattn.text import counted, markdown_table


@dataclass(frozen=True, slots=True, kw_only=True)
class NearestTreatment:
    """Held-out treatments answered by their nearest training treatment."""

    name: str
    treatments: list[str]
    """The held-out treatments, in the order of the columns of `predictions`."""
    nearest: list[str]
    """The training treatment each is answered by."""
    predictions: Matrix
    """(genes, held-out treatments): on training genes what was measured for the nearest treatment (its training
    mean where it was not), on all other genes what the base model predicts for it."""


def nearest_treatment(
    dataset: PromoterDataset,
    base: Baseline,
    by: Literal["features", "responses"] = "features",
    split: int = TEST,
) -> NearestTreatment:
    """Answer the treatments of `split` by their nearest training treatments.

    by: "features" compares rows of the treatment table (`feature_distances`) and can be asked of any treatment;
    "responses" takes the training treatment whose responses correlate best over training genes, which nobody has
    before measuring: an upper mark.

    Raises: BioattnError when no treatment is held out, or there is no feature to compare.
    """
    held_out, candidates = dataset.treatments_in(split), dataset.treatments_in(TRAIN)
    if not len(held_out) or not len(candidates):
        raise BioattnError(
            f"{len(held_out)} treatments are held out and {len(candidates)} trained on; both are needed"
        )
    train = dataset.genes_in(TRAIN)
    if by == "features":
        nearest_H = feature_distances(dataset.treatments)[np.ix_(held_out, candidates)].argmin(axis=1)
    else:
        nearest_H = response_correlations(dataset.targets[train], held_out, candidates).argmax(axis=1)
    predictions_GH = base.predictions[:, nearest_H].copy()
    measured_GH = dataset.targets[np.ix_(train, candidates[nearest_H])]
    with np.errstate(invalid="ignore"):
        predictions_GH[train] = np.where(
            np.isnan(measured_GH), _column_means(measured_GH).astype(np.float32), measured_GH
        )
    names = dataset.treatments.names
    return NearestTreatment(
        name=f"nearest treatment by {by}",
        treatments=[names[column] for column in held_out],
        nearest=[names[candidates[index]] for index in nearest_H],
        predictions=predictions_GH,
    )


def feature_distances(table: TreatmentTable) -> Floats:
    """How different two treatments' features are, 0 to 1: shape=(treatments, treatments).

    The mean over features of: 0 or 1 for equal or different categories (missing is a category), and for numbers
    the difference of their ranks as a share of all ranks, so that 5 and 10 minutes are as near as 5 and 10 days;
    1 where only one of the two has a number.

    Raises: BioattnError when the table has no features.
    """
    if not table.columns:
        raise BioattnError(
            "the treatment table has no features, so no treatment is nearer than another; "
            "give --treatment-table when the dataset is prepared"
        )
    size = len(table.names)
    total = np.zeros((size, size))
    for column in table.columns:
        values = table.frame[column].to_numpy()
        if table.is_numeric(column):
            numbers = values.astype(np.float64)
            missing = np.isnan(numbers)
            ranks = rankdata(numbers, method="dense", nan_policy="omit")
            spread = max(1.0, np.nanmax(ranks, initial=1.0) - 1.0)
            distance = np.abs(np.subtract.outer(ranks, ranks)) / spread
            distance = np.where(np.isnan(distance), 1.0, distance)
            distance[np.ix_(missing, missing)] = 0.0
        else:
            distance = (values[:, None] != values[None, :]).astype(np.float64)
        total += distance
    return total / len(table.columns)


def response_correlations(
    targets: Matrix, held_out: NDArray[np.int64], candidates: NDArray[np.int64]
) -> Floats:
    """Pearson r over genes of each held-out with each candidate treatment: shape=(held-out, candidates).

    Over genes measured in both; −1 where undefined.
    """
    correlations_HC = np.full((len(held_out), len(candidates)), -1.0)
    others_GC = targets[:, candidates].astype(np.float64)
    for row, column in enumerate(held_out):
        own_GC = np.where(np.isnan(others_GC), np.nan, targets[:, [column]].astype(np.float64))
        r_C = pearson(own_GC, np.where(np.isnan(own_GC), 0.0, others_GC))[0]
        correlations_HC[row] = np.where(np.isnan(r_C), -1.0, r_C)
    return correlations_HC


def _column_means(values_GH: Matrix) -> Floats:
    measured_GH = ~np.isnan(values_GH)
    totals_H = np.where(measured_GH, values_GH, 0.0).sum(axis=0, dtype=np.float64)
    means_H: Floats = totals_H / np.maximum(measured_GH.sum(axis=0), 1)
    return means_H


FIGURES = {
    "regression": {
        "pearson": "median r over treatments",
        "specific_pearson": "treatment-specific median r",
        "gene_pearson": "median r over genes",
    },
    "binary": {"auroc": "AUROC", "auprc": "AUPRC"},
}
"""Which figures a table shows, and their headings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One predictor on one set of cells."""

    name: str
    cells: str
    """Such as `test genes` or `test genes × held-out treatments`."""
    figures: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """All rows, and the model's figures per treatment on the test (else validation) genes."""

    task: str
    rows: list[Row]
    treatments: list[str]
    per_treatment: dict[str, list[float]]
    beside: Comparison | None
    """On the test (else validation) genes."""

    def table(self) -> list[list[str]]:
        shown = FIGURES[self.task]
        body = [
            [row.name, row.cells, *(f"{row.figures[key]:.3f}" if key in row.figures else "" for key in shown)]
            for row in self.rows
        ]
        return [["predictor", "scored on", *shown.values()], *body]

    def tables(self) -> list[list[list[str]]]:
        """The comparison, without settings of simple models, and the figures of each treatment, if any."""
        comparison = [[name.partition(" (")[0], *cells] for name, *cells in self.table()]
        if not self.treatments:
            return [comparison]
        details = [
            [name, *(f"{values[i]:.3f}" for values in self.per_treatment.values())]
            for i, name in enumerate(self.treatments)
        ]
        header = ["treatment", *(METRIC_TITLES[metric] for metric in self.per_treatment)]
        return [comparison, [header, *details]]

    def comparison(self) -> Comparison | None:
        return self.beside

    def figure(self, name: str, cells: str) -> float:
        """The figure that words speak of, of the rows whose name begins so; NaN without one."""
        key = next(iter(FIGURES[self.task]))
        found = (row.figures for row in self.rows if row.cells == cells and row.name.startswith(name))
        return next(found, {}).get(key, math.nan)

    def to_json(self) -> dict[str, Any]:
        return {
            "rows": [
                {"name": row.name, "cells": row.cells, **{k: _finite(v) for k, v in row.figures.items()}}
                for row in self.rows
            ],
            "per_treatment": {
                name: {metric: _finite(values[i]) for metric, values in self.per_treatment.items()}
                for i, name in enumerate(self.treatments)
            },
        }


def evaluate(
    model: PromoterModel,
    dataset: PromoterDataset,
    vocabulary: TreatmentVocabulary,
    device: torch.device,
    simple: Sequence[Baseline],
) -> Evaluation:
    """Score `model` on validation and test genes under the training treatments, and on held-out treatments with
    seen and unseen genes where there are any, beside `simple` models; all in response units."""
    treatments = dataset.treatments_in(TRAIN)
    rows: list[Row] = []
    regression = dataset.task == "regression"
    training_truth = dataset.targets[np.ix_(dataset.genes_in(TRAIN), treatments)]
    axis = fit_shared_axis(training_truth) if regression and len(treatments) > 1 else None
    last: tuple[str, NDArray[np.int64], NDArray[np.float32]] | None = None
    for split, label in ((VALIDATION, "validation genes"), (TEST, "test genes")):
        genes = dataset.genes_in(split)
        if not len(genes):
            continue
        answers = predict_responses(model, dataset, vocabulary, genes, treatments, device)
        # The shared axis lives in the dataset's units, so both sides are put there.
        figures = summarise(
            dataset.targets[np.ix_(genes, treatments)],
            _dataset_units(dataset, answers, treatments),
            axis,
            dataset.task,
        )
        rows.append(Row(name=MODEL_ROW, cells=label, figures=figures))
        last = (label, genes, answers)
    best = best_simple(simple, dataset.task)
    for baseline in simple:
        name = baseline.name + (f" ({baseline.choice})" if baseline.choice else "")
        for label, figures in (("validation genes", baseline.validation), ("test genes", baseline.test)):
            if figures:
                rows.append(Row(name=name, cells=label, figures=figures))
    rows += _held_out_rows(model, dataset, vocabulary, device, best)
    names: list[str] = []
    details: dict[str, list[float]] = {}
    beside = None
    if last is not None:
        names = [dataset.treatments.names[t] for t in treatments]
        label, genes, answers = last
        if best is not None:
            beside = _beside(dataset, label, genes, _dataset_units(dataset, answers, treatments), best)
        truth = dataset.targets[np.ix_(genes, treatments)].astype(np.float64)
        if dataset.target_sd is not None and dataset.target_mean is not None:
            truth = truth * dataset.target_sd[treatments] + dataset.target_mean[treatments]
        details = {
            metric: values.tolist() for metric, values in per_treatment(truth, answers, dataset.task).items()
        }
    return Evaluation(task=dataset.task, rows=rows, treatments=names, per_treatment=details, beside=beside)


def predict_responses(
    model: PromoterModel,
    dataset: PromoterDataset,
    vocabulary: TreatmentVocabulary,
    genes: NDArray[np.int64],
    treatments: NDArray[np.int64],
    device: torch.device,
    batch_size: int = 64,
) -> NDArray[np.float32]:
    """(genes, treatments) answers in response units (binary: logits) for unshifted windows.

    What training never saw of a held-out treatment (its category, the unit of its dose) counts as missing.
    """
    model.eval()
    table = dataset.treatments.select([dataset.treatments.names[t] for t in treatments])
    batch = vocabulary.encode(table, unseen_is_missing=True).to(device)
    answers = [np.empty((0, len(treatments)), np.float32)]
    with torch.inference_mode():
        for first in range(0, len(genes), batch_size):
            codes_BL = centred_windows(dataset, genes[first : first + batch_size]).to(device)
            answers.append(model(codes_BL, batch).cpu().numpy())
    return np.concatenate(answers)


def _beside(
    dataset: PromoterDataset,
    cells: str,
    genes: NDArray[np.int64],
    predicted_GT: NDArray[np.floating],
    simple: Baseline,
) -> Comparison:
    """The model and the simple model on the same genes, with the interval of their difference over these genes."""
    truth_GT = dataset.targets[np.ix_(genes, dataset.treatments_in(TRAIN))]
    statistic = median_auroc if dataset.task == "binary" else median_pearson
    ours_B, simple_B = (
        resampled(statistic(truth_GT, each_GT), len(genes))
        for each_GT in (predicted_GT, simple.predictions[genes])
    )
    gain = interval(ours_B - simple_B)
    return Comparison(
        cells,
        next(iter(FIGURES[dataset.task].values())),
        float(ours_B[0]),
        simple.name,
        float(simple_B[0]),
        (gain.low, gain.high) if np.isfinite([gain.low, gain.high]).all() else None,
    )


def _held_out_rows(
    model: PromoterModel,
    dataset: PromoterDataset,
    vocabulary: TreatmentVocabulary,
    device: torch.device,
    simple: Baseline | None,
) -> list[Row]:
    """Held-out treatments on seen and unseen genes, beside the nearest training treatment."""
    rows = []
    for split, split_label in ((VALIDATION, "validation"), (TEST, "test")):
        treatments = dataset.treatments_in(split)
        if not len(treatments) or vocabulary.encoding is TreatmentEncoding.ID:
            continue
        axis = None
        if dataset.task == "regression" and len(treatments) > 1:
            axis = fit_shared_axis(dataset.targets[np.ix_(dataset.genes_in(TRAIN), treatments)])
        nearest = None if simple is None else nearest_treatment(dataset, simple, split=split)
        for gene_split, gene_label in ((TRAIN, "training genes"), (TEST, "test genes")):
            genes = dataset.genes_in(gene_split)
            if not len(genes):
                continue
            cells = f"{gene_label} × {split_label} treatments"
            answers = predict_responses(model, dataset, vocabulary, genes, treatments, device)
            truth = dataset.targets[np.ix_(genes, treatments)]
            predictors = {MODEL_ROW: _dataset_units(dataset, answers, treatments)}
            if nearest is not None:
                predictors[nearest.name] = nearest.predictions[genes]
            rows += [
                Row(name=name, cells=cells, figures=summarise(truth, prediction, axis, dataset.task))
                for name, prediction in predictors.items()
            ]
    return rows


def _dataset_units(
    dataset: PromoterDataset, answers: NDArray[np.float32], treatments: NDArray[np.int64]
) -> NDArray[np.floating]:
    values = answers.astype(np.float64)
    if dataset.target_sd is not None and dataset.target_mean is not None:
        values = (values - dataset.target_mean[treatments]) / dataset.target_sd[treatments]
    return values


def _finite(value: float) -> float | None:
    return round(value, 6) if math.isfinite(value) else None


def card_lines(
    config: PromoterModelConfig, dataset: PromoterDataset, record: Mapping[str, Any], evaluation: Evaluation
) -> list[str]:
    """The lines of the card. record: the training record."""
    comparison = evaluation.comparison()
    return [
        "---",
        "library_name: bioattn",
        f"tags: [promoter, {config.conditioning}, attention]",
        "---",
        f"# Promoter model, {config.conditioning}",
        "",
        f"Predicts the response of a promoter ({config.length} bases, 5'→3', right ends aligned) "
        f"to {'each of ' * (dataset.num_treatments > 1)}{counted(dataset.num_treatments, 'treatment')} "
        f"({dataset.task}).",
        "",
        f"- Data: `{record['dataset']['file']}`, {counted(dataset.num_genes, 'promoter')}, "
        f"SHA-256 `{record['dataset']['sha256']}`",
        f"- Treatments are known by {config.treatment_encoder}; settings in `config.json` and `training.json`: "
        f"{record.get('settings', 'given')}.",
        f"- Trained for {record['epochs_trained']} epochs, weights of epoch {record['best_epoch']}, "
        f"seed {record['training']['seed']}, bioattn {record['versions']['bioattn']}.",
        *_kept(record),
        *_pruning(record),
        "",
        "Figures on the held-out cells of this one split and seed, beside simple models fitted on the same split:",
        "",
        *markdown_table(evaluation.table()),
        *(["", f"Note: {comparison.sentence()}."] if comparison is not None and comparison.below else []),
        "",
        "Attention says where the model looked, not that it was right to; compare it with what is known.",
    ]


def _kept(record: Mapping[str, Any]) -> list[str]:
    """What stands here in place of the trained network, if anything."""
    kept = record.get("kept")
    if kept is None:
        return []
    return [
        f"- **No network**: the {kept['simple_model']} ({kept['choice']}) was better on validation genes than the "
        f"trained one ({kept['simple_model_figure']:.3f}, {kept['network_figure']:.3f}), so --keep-best kept "
        "it. It has no attention."
    ]


def _pruning(record: Mapping[str, Any]) -> list[str]:
    """What was taken out of the model after training, if anything."""
    if "pruned" not in record:
        return []
    heads = "; ".join(
        f"{site} {', '.join(map(str, left))}" for site, left in record["pruned"]["heads"].items()
    )
    return [
        f"- Attention heads left by pruning: {heads}; whole model's weights `{record['pruned']['from']}`."
    ]
