"""Markdown tables of the yeast benchmark: medians with gene-bootstrap 95 % intervals, and paired differences."""

import numpy as np
from common import table
from yeast_statistics import (
    large_responses,
    median_average_precision,
    median_gene_pearson,
    median_specific_pearson,
)

from bioattn.choices import TEST, TRAIN, VALIDATION
from bioattn.promoters.dataset import PromoterDataset
from bioattn.promoters.response_metrics import (
    Estimate,
    SharedAxis,
    Statistic,
    fit_shared_axis,
    interval,
    median_auroc,
    median_pearson,
    resampled,
)

Rows = dict[str, list[np.ndarray]]

COLUMNS = {
    "a": "(a) median r of an array",
    "b": "(b) without PC1",
    "c": "(c) median r of a gene",
    "auroc": "(d) AUROC",
    "auprc": "(d) AUPRC",
}
DIFFERENCES = ("a", "b")
REFERENCES = (
    "k-mer ridge",
    "positional k-mer ridge",
    "component ridge",
    "region + codon ridge",
    "region + codon component ridge",
    "concat",
    "cross-kmer",
    "cross-shared",
    "cross-position",
    "cross-uniform",
)
"""Rows others are compared with, by how their names start (less the prefix of a variant)."""
COMPARED = ("cross", "cross-kmer", "cross-conv", "film", "cross-all")
"""Rows whose differences from these are printed."""


def print_tables(heading: str, dataset: PromoterDataset, rows: Rows, resamples: int) -> None:
    """Scores of every row on test genes, validation (a) beside them, then differences of the neural rows."""
    axis = fit_shared_axis(dataset.targets[dataset.genes_in(TRAIN)])
    test, validation = dataset.genes_in(TEST), dataset.genes_in(VALIDATION)
    print(f"\n## {heading}\n")
    print(
        f"{len(test):,} test genes × {dataset.num_treatments} treatments; 95 % intervals from {resamples:,} "
        "resamples of genes. Several seeds: the mean of their scores; ensemble: the score of their mean "
        "prediction.\n"
    )
    rows = with_ensembles(rows)
    lines = []
    values: dict[str, dict[str, np.ndarray]] = {}
    for name, predictions in rows.items():
        values[name] = {
            column: mean_over_seeds(
                [statistics(dataset, seed[test], test, axis)[column] for seed in predictions],
                len(test),
                resamples,
            )
            for column in COLUMNS
        }
        chosen = [statistics(dataset, seed[validation], validation, axis) for seed in predictions]
        points = [
            np.mean([one[column](np.ones((1, len(validation))))[0] for one in chosen])
            for column in ("a", "b")
        ]
        cells = [formatted(interval(values[name][column])) for column in COLUMNS]
        seeds = f", {len(predictions)} seeds" if len(predictions) > 1 else ""
        lines.append([f"{name}{seeds}", *points, *cells])
    print(table(["row", "validation (a)", "(b)", *COLUMNS.values()], lines))
    print_differences(values)
    print_seeds(dataset, rows, test, axis)


def print_seeds(dataset: PromoterDataset, rows: Rows, test: np.ndarray, axis: SharedAxis) -> None:
    seeded = {name: seeds for name, seeds in rows.items() if is_trained(name) and len(seeds) > 1}
    if not seeded:
        return
    lines = []
    for name, seeds in seeded.items():
        scores = [statistics(dataset, seed[test], test, axis) for seed in seeds]
        cells = [
            " · ".join(f"{one[column](np.ones((1, len(test))))[0]:.3f}" for one in scores)
            for column in COLUMNS
        ]
        lines.append([name, *cells])
    print(table(["row, by seed", *COLUMNS.values()], lines))


def print_differences(values: dict[str, dict[str, np.ndarray]]) -> None:
    """Differences of each compared row from each reference, on the same drawn genes."""
    trained = [name for name in values if is_trained(name)]
    references = [name for name in values if short(name).startswith(REFERENCES)]
    pairs = [
        (one, other)
        for one in trained
        for other in references
        if short(one).split()[0] in COMPARED and one != other and not other.endswith("ensemble")
    ]
    if not pairs:
        return
    lines = (
        [
            one,
            other,
            *(formatted(interval(values[one][c] - values[other][c]), signed=True) for c in DIFFERENCES),
        ]
        for one, other in pairs
    )
    print(table(["row", "compared with", *(f"Δ{COLUMNS[column]}" for column in DIFFERENCES)], lines))


def print_held_out(heading: str, dataset: PromoterDataset, rows: Rows, resamples: int) -> None:
    """Treatments that were not trained on: median r of an array on seen (training) and unseen (test) genes."""
    held_out = np.flatnonzero(dataset.treatment_split != TRAIN)
    axis = fit_shared_axis(dataset.targets[np.ix_(dataset.genes_in(TRAIN), held_out)])
    print(f"\n## {heading}: {len(held_out)} of {dataset.num_treatments} arrays\n")
    lines = []
    for name, predictions in with_ensembles(rows).items():
        cells = []
        for genes in (dataset.genes_in(TRAIN), dataset.genes_in(TEST)):
            truth = dataset.targets[np.ix_(genes, held_out)]
            for make in (median_pearson, lambda t, p: median_specific_pearson(t, p, axis)):
                found = mean_over_seeds(
                    [make(truth, seed[genes]) for seed in predictions], len(genes), resamples
                )
                cells.append(formatted(interval(found)))
        seeds = f", {len(predictions)} seeds" if len(predictions) > 1 else ""
        lines.append([f"{name}{seeds}", *cells])
    columns = [f"{genes} genes ({column})" for genes in ("seen", "unseen") for column in "ab"]
    print(table(["row", *columns], lines))


def statistics(
    dataset: PromoterDataset, prediction: np.ndarray, genes: np.ndarray, axis: SharedAxis
) -> dict[str, Statistic]:
    """The five columns for one set of genes; prediction in dataset units."""
    truth = dataset.targets[genes].astype(np.float64)
    truth_log2 = truth * dataset.target_sd + dataset.target_mean
    labels = large_responses(truth_log2)
    size = np.abs(prediction * dataset.target_sd + dataset.target_mean)
    return {
        "a": median_pearson(truth, prediction),
        "b": median_specific_pearson(truth, prediction, axis),
        "c": median_gene_pearson(truth, prediction),
        "auroc": median_auroc(labels, size),
        "auprc": median_average_precision(labels, size),
    }


def mean_over_seeds(of_each: list[Statistic], num_genes: int, resamples: int) -> np.ndarray:
    """The mean over seeds of a statistic, on the genes as they are and on every resample."""
    return np.mean([resampled(statistic, num_genes, resamples) for statistic in of_each], axis=0)


def with_ensembles(rows: Rows) -> Rows:
    """The rows with, after each that has several seeds, the mean of its predictions."""
    result: Rows = {}
    for name, predictions in sorted(rows.items(), key=lambda row: (is_trained(row[0]), row[0])):
        result[name] = predictions
        if len(predictions) > 1:
            result[f"{name} ensemble"] = [np.mean(predictions, axis=0)]
    return result


def is_trained(name: str) -> bool:
    return short(name).startswith(("cross", "concat", "film"))


def short(name: str) -> str:
    """The name without the prefix of its variant."""
    for prefix in ("groups-", "times-", "held-groups-"):
        name = name.removeprefix(prefix)
    return name


def formatted(estimate: Estimate, signed: bool = False) -> str:
    sign = "+" if signed else ""
    return f"{estimate.value:{sign}.3f} [{estimate.low:{sign}.3f}, {estimate.high:{sign}.3f}]"
