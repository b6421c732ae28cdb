"""What a trained model reaches on genes and treatments it has not seen, beside simple models on the same cells,
and the README.md of its folder.

The baseline for treatments that were not trained on answers as the nearest treatment that was.

Shape suffixes: G genes, H held-out treatments, C training treatments (candidates).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from bioattn.choices import TEST, TRAIN, VALIDATION
from bioattn.models.evaluation import FIGURES, Evaluation, Row
from bioattn.models.promoter.config import PromoterModelConfig, TreatmentEncoding
from bioattn.models.promoter.model import PromoterModel
from bioattn.models.promoter.training.baselines import Baseline, best_simple
from bioattn.models.promoter.training.data import centred_windows
from bioattn.models.promoter.training.ridge import Matrix
from bioattn.models.promoter.treatment_vocabulary import TreatmentVocabulary
from bioattn.promoters.dataset import PromoterDataset
from bioattn.promoters.response_metrics import (
    Floats,
    fit_shared_axis,
    interval,
    median_auroc,
    median_pearson,
    per_treatment,
    resampled,
    summarise,
)
from bioattn.promoters.treatments import TreatmentTable
from bioattn.store.training_record import MODEL_ROW, Comparison
from bioattn.text import counted, markdown_table


def nearest_treatments(
    dataset: PromoterDataset, base: Baseline, distance_TT: Floats, split: int = TEST
) -> tuple[list[str], Matrix]:
    """The nearest training treatment of each held-out one, and its answers (genes, held-out treatments): on
    training genes what was measured for it (its training mean where it was not), on all other genes what `base`
    predicts for it. distance_TT: of all treatments of the dataset."""
    held_out, candidates = dataset.treatments_in(split), dataset.treatments_in(TRAIN)
    train = dataset.genes_in(TRAIN)
    nearest_H = distance_TT[np.ix_(held_out, candidates)].argmin(axis=1)
    predictions_GH = base.predictions[:, nearest_H].copy()
    measured_GH = dataset.targets[np.ix_(train, candidates[nearest_H])]
    known_GH = ~np.isnan(measured_GH)
    totals_H = np.where(known_GH, measured_GH, 0.0).sum(axis=0, dtype=np.float64)
    means_H = (totals_H / np.maximum(known_GH.sum(axis=0), 1)).astype(np.float32)
    predictions_GH[train] = np.where(known_GH, measured_GH, means_H)
    return [dataset.treatments.names[candidates[index]] for index in nearest_H], predictions_GH


def feature_distances(table: TreatmentTable) -> Floats:
    """How different two treatments' features are, 0 to 1: shape=(treatments, treatments).

    The mean over features of: 0 or 1 for equal or different categories (missing is a category), and for numbers
    the difference of their ranks as a share of all ranks, so that 5 and 10 minutes are as near as 5 and 10 days;
    1 where only one of the two has a number.
    """
    size = len(table.names)
    total = np.zeros((size, size))
    for column in table.columns:
        values = table.frame[column].to_numpy()
        if table.is_numeric(column):
            numbers = values.astype(np.float64)
            missing = np.isnan(numbers)
            ranks = pd.Series(numbers).rank(method="dense").to_numpy()
            spread = max(1.0, np.nanmax(ranks, initial=1.0) - 1.0)
            distance = np.abs(np.subtract.outer(ranks, ranks)) / spread
            distance = np.where(np.isnan(distance), 1.0, distance)
            distance[np.ix_(missing, missing)] = 0.0
        else:
            distance = (values[:, None] != values[None, :]).astype(np.float64)
        total += distance
    return total / len(table.columns)


def response_units(dataset: PromoterDataset, treatments: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Mean and standard deviation of the responses (T,) that 0 and 1 of the dataset's units stand for."""
    if dataset.target_mean is None or dataset.target_sd is None:
        return np.zeros(len(treatments)), np.ones(len(treatments))
    return dataset.target_mean[treatments], dataset.target_sd[treatments]


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
    best = best_simple(simple, dataset.task)
    beside, around = None, None
    details: dict[str, dict[str, float]] = {}
    cells = [
        (f"{name} genes", dataset.genes_in(split))
        for split, name in ((VALIDATION, "validation"), (TEST, "test"))
    ]
    rows, predicted = _rows(model, dataset, vocabulary, device, cells, treatments)
    for baseline in simple:
        name = baseline.name + (f" ({baseline.choice})" if baseline.choice else "")
        for label, figures in (("validation genes", baseline.validation), ("test genes", baseline.test)):
            if figures:
                rows.append(Row(name=name, cells=label, figures=figures))
    for split, name in ((VALIDATION, "validation"), (TEST, "test")):
        held_out = dataset.treatments_in(split)
        if not len(held_out) or vocabulary.encoding is TreatmentEncoding.ID:
            continue
        cells = [
            (f"{genes} genes × {name} treatments", dataset.genes_in(of))
            for of, genes in ((TRAIN, "training"), (TEST, "test"))
        ]
        nearest = None
        if best is not None:
            nearest = nearest_treatments(dataset, best, feature_distances(dataset.treatments), split)[1]
        rows += _rows(model, dataset, vocabulary, device, cells, held_out, nearest)[0]
    if predicted is not None:
        label, genes, predicted_GT = predicted
        truth_GT = dataset.targets[np.ix_(genes, treatments)].astype(np.float64)
        statistic = median_auroc if dataset.task == "binary" else median_pearson
        ours_B = resampled(statistic(truth_GT, predicted_GT), len(genes))
        around = _ends(ours_B)
        if best is not None:
            simple_B = resampled(statistic(truth_GT, best.predictions[genes]), len(genes))
            figure, gain = next(iter(FIGURES[dataset.task].values())), _ends(ours_B - simple_B)
            beside = Comparison(label, figure, float(ours_B[0]), best.name, float(simple_B[0]), gain)
        mean_T, sd_T = response_units(dataset, treatments)
        by_metric = per_treatment(truth_GT * sd_T + mean_T, predicted_GT * sd_T + mean_T, dataset.task)
        details = {
            dataset.treatments.names[t]: {metric: float(values[i]) for metric, values in by_metric.items()}
            for i, t in enumerate(treatments)
        }
    return Evaluation(
        task=dataset.task,
        rows=rows,
        per_treatment=details,
        beside=beside,
        simple_model="" if best is None else best.name,
        interval=around,
    )


def _rows(
    model: PromoterModel,
    dataset: PromoterDataset,
    vocabulary: TreatmentVocabulary,
    device: torch.device,
    cells: Sequence[tuple[str, NDArray[np.int64]]],
    treatments: NDArray[np.int64],
    nearest_GT: Matrix | None = None,
) -> tuple[list[Row], tuple[str, NDArray[np.int64], Floats] | None]:
    """The rows of genes by their label, under some treatments; and of the last genes that there are label, numbers
    and predictions (B, T) in the dataset's units."""
    axis, last = None, None
    if dataset.task == "regression" and len(treatments) > 1:
        axis = fit_shared_axis(dataset.targets[np.ix_(dataset.genes_in(TRAIN), treatments)])
    mean_T, sd_T = response_units(dataset, treatments)
    rows = []
    for label, genes in cells:
        if not len(genes):
            continue
        answers = predict_responses(model, dataset, vocabulary, genes, treatments, device)
        # The shared axis lives in the dataset's units, so both sides are put there.
        predicted = (answers.astype(np.float64) - mean_T) / sd_T
        predictors: dict[str, NDArray[np.floating]] = {MODEL_ROW: predicted}
        if nearest_GT is not None:
            predictors["nearest treatment by features"] = nearest_GT[genes]
        truth = dataset.targets[np.ix_(genes, treatments)]
        rows += [
            Row(name=name, cells=label, figures=summarise(truth, prediction, axis, dataset.task))
            for name, prediction in predictors.items()
        ]
        last = label, genes, predicted
    return rows, last


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


def _ends(values_B: Floats) -> tuple[float, float] | None:
    """The 95 % interval of `resampled` values; None where they are none."""
    _, low, high = interval(values_B)
    return (low, high) if np.isfinite([low, high]).all() else None


def card_lines(
    config: PromoterModelConfig, dataset: PromoterDataset, record: Mapping[str, Any], evaluation: Evaluation
) -> list[str]:
    """The lines of the card. record: the training record."""
    comparison, kept, pruned = evaluation.beside, record.get("kept"), record.get("pruned")
    notes = []
    weights = "" if record["best_epoch"] is None else f"weights of epoch {record['best_epoch']}, "
    if len(record["networks"]) > 1:
        weights = f"mean of {len(record['networks'])} networks, "
    if kept is not None:
        notes.append(
            f"- **No network**: the {kept['simple_model']} ({kept['choice']}) was better on validation genes than "
            f"the trained one ({kept['simple_model_figure']:.3f}, {kept['network_figure']:.3f}), so --keep-best "
            "kept it. It has no attention."
        )
    if pruned is not None:
        heads = "; ".join(f"{site} {', '.join(map(str, left))}" for site, left in pruned["heads"].items())
        notes.append(f"- Attention heads left by pruning: {heads}; whole model's weights `{pruned['from']}`.")
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
        f"- Trained for {record['epochs_trained']} epochs, {weights}"
        f"seed {record['networks'][0]['training']['seed']}, bioattn {record['versions']['bioattn']}.",
        *notes,
        "",
        "Figures on the held-out cells of this one split and seed, beside simple models fitted on the same split:",
        "",
        *markdown_table(evaluation.table()),
        *(["", f"Note: {comparison.sentence()}."] if comparison is not None and comparison.below else []),
        "",
        evaluation.check
        or "Attention says where the model looked, not that it was right to; compare it with what is known.",
    ]
