"""Scoring the maps of an attention file, and its predictions, against planted truth."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from bioattn.choices import Task
from bioattn.errors import BioattnError
from bioattn.interpret.localisation import ALL, LocalisationReport, score_maps
from bioattn.interpret.promoter_maps import attention_maps, chosen_quantity
from bioattn.promoters.dataset import SPLIT_NAMES, read_dataset
from bioattn.promoters.response_metrics import per_treatment
from bioattn.simulate.truth import PlantedSite, noise_free_responses, read_truth
from bioattn.store.reader import open_attention
from bioattn.system.progress import SILENT, Progress
from bioattn.text import table_text


def score_attention_and_predictions(
    attention: Path,
    truth: Path,
    *,
    dataset: Path | None = None,
    split: str | None = "test",
    sites: Sequence[str] = ("*",),
    value_weighted: bool = False,
    weights: bool = False,
    progress: Progress = SILENT,
) -> tuple[LocalisationReport, pd.DataFrame | None]:
    """Score an attention file against a truth table, and with a dataset also the predictions it holds.

    The numbers are defined in `localisation`. dataset: the dataset of these promoters; only genes of its `split`
    (train, validation, test; None: all) are scored, and the second result is `score_predictions` of them, with the
    column `rule_share` (`rule_shares`). sites: shell patterns of attention sites whose keys are positions; several
    are averaged and must share their bins; one without a treatment axis counts for every treatment. Contributions
    are scored where the file has them (sums over heads and sites; their sizes, each row scaled to sum 1) unless
    `weights`. value_weighted: score weights times the norm of the value vector, each row scaled to sum 1.

    Raises: BioattnError when no attention site, promoter or treatment fits; FormatError for a damaged file.
    """
    sites_planted = read_truth(truth)
    genes: set[str] = set()
    predictions: pd.DataFrame | None = None
    if dataset is not None:
        data = read_dataset(dataset)
        names = np.array(data.gene_ids, dtype=object)
        if split is not None:
            names = names[data.gene_split == SPLIT_NAMES.index(split)]
        genes = set(names.tolist())
        if not genes:
            raise BioattnError(f"{dataset}: no gene is in the {split} split; choose another with --split")
        responses = pd.DataFrame(data.targets, index=data.gene_ids, columns=data.treatments.names)
    with open_attention(attention) as file:
        quantity = chosen_quantity(weights=weights, value_weighted=value_weighted)
        maps = attention_maps(file, sites, quantity=quantity)
        if genes:
            predicted = file.predictions()
            predicted = predicted[predicted.index.isin(genes)]
            predictions = score_predictions(predicted, responses)
            predictions["rule_share"] = rule_shares(sites_planted, predicted)
            maps = maps.chosen([gene for gene in maps.genes if gene in genes])
        return score_maps(maps, sites_planted, progress=progress), predictions


def score_predictions(predictions: pd.DataFrame, responses: pd.DataFrame) -> pd.DataFrame:
    """How well predictions (genes × treatments) agree with responses, per treatment and as the mean (`all`).

    Columns as `training.promoter.metrics.per_treatment`: those of a binary task when every response is 0, 1 or
    missing, of regression otherwise. Only genes and treatments that both tables name are used.

    Raises: BioattnError when they have no gene or no treatment in common.
    """
    shared = [gene for gene in predictions.index if gene in responses.index]
    treatments = [name for name in predictions.columns if name in responses.columns]
    if not shared or not treatments:
        what = "gene" if not shared else "treatment"
        raise BioattnError(f"predictions and responses have no {what} in common")
    truth = responses.loc[shared, treatments].to_numpy(dtype=np.float64)
    values = truth[~np.isnan(truth)]
    task = Task.BINARY if np.isin(values, (0.0, 1.0)).all() else Task.REGRESSION
    scores = per_treatment(truth, predictions.loc[shared, treatments].to_numpy(dtype=np.float64), task)
    table = pd.DataFrame(scores, index=treatments)
    table.loc[ALL] = table.mean(axis=0)
    return table


def rule_shares(truth: Sequence[PlantedSite], predictions: pd.DataFrame) -> pd.Series:
    """How much of each treatment's planted rule is in predictions (genes × treatments): 0 nothing, 1 all.

    The slope of predicted on noise-free responses. Where these do not follow from which motifs a promoter holds
    alone, only the remainder counts: with rules of distance the difference between near and far motifs, with pairs
    what both halves do beyond the sum of either, none of which a sum over motifs can predict. NaN where the truth
    table has no effects, or they do not vary over the promoters.

    Returns one share per treatment, and their mean (`all`).
    """
    genes, treatments = list(predictions.index), list(predictions.columns)
    true = noise_free_responses(truth, genes, treatments)
    rows = {gene: row for row, gene in enumerate(genes)}
    shares = {}
    for number, treatment in enumerate(treatments):
        sites = [site for site in truth if site.treatment == treatment and site.gene_id in rows]
        motifs = sorted({site.motif for site in sites})
        holds = np.ones((len(genes), 1 + len(motifs)))
        holds[:, 1:] = 0
        for site in sites:
            holds[rows[site.gene_id], 1 + motifs.index(site.motif)] = 1
        varying = true[:, number] - true[:, number].mean()
        remainder = varying - holds @ np.linalg.lstsq(holds, varying)[0]
        rule = remainder if np.abs(remainder).max() > 1e-6 * np.abs(varying).max() else varying
        size = rule @ rule
        shares[treatment] = rule @ predictions[treatment].to_numpy() / size if size else np.nan
    return pd.Series(shares | {ALL: pd.Series(shares).mean()})


MEASURES = (
    ("top_bin", "promoters whose highest peak is on the motif, share"),
    ("top_5_bins", "promoters with the motif in one of the 5 highest bins, share"),
    ("mass_causal", "{quantity} on the motif, share"),
    ("auroc", "AUROC of {quantity} per base, motif against all others"),
    ("decoy_auroc", "the same against bases of decoys"),
    ("planted_auroc", "the same against bases of other planted motifs"),
    ("wrong_auroc", "the same with other treatments' maps (control)"),
    ("auprc", "AUPRC of {quantity} per base"),
    ("ceiling_auprc", "the same of perfect {quantity} in these bins"),
    ("entropy", "entropy of {quantity} (1 = spread evenly)"),
)
"""Figures of the promoters that hold the motif of a treatment, means over promoters."""
PLACES = (
    ("mass_causal", "motif of the treatment"),
    ("mass_decoy", "decoys"),
    ("mass_other", "other planted motifs"),
    ("mass_background", "elsewhere"),
    ("mass_sink", "no position"),
)


def localisation_text(
    report: LocalisationReport, predictions: pd.DataFrame | None = None, *, aligned: bool = True
) -> str:
    """A table of figures by treatment and over all, then on what the maps lie.

    predictions: how well responses are predicted; its first column is a row of the table. aligned: columns in line
    as on a terminal, else separated by tabs.
    """
    scores, quantity = report.to_json(), report.quantity
    positives, negatives = scores["positives"], scores["negatives"]
    pairs = [f"{row['pairs']:,}" for row in positives.values()]
    rows = [["", *positives], ["promoters with the motif of the treatment", *pairs]]
    rows += [
        [title.format(quantity=quantity), *(_number(row[name]) for row in positives.values())]
        for name, title in MEASURES
        if name in positives[ALL]
    ]
    if predictions is not None:
        metric = str(predictions.columns[0])
        title = f"{'r' if metric == 'pearson' else metric} of predicted with measured responses"
        rows.append([title, *(_number(predictions[metric].get(name)) for name in positives)])
        if predictions["rule_share"].notna().any():
            title = "share of the planted rule predicted"
            rows.append([title, *(_number(predictions["rule_share"].get(name)) for name in positives)])
    places = [[f"share of {quantity} on", *(title for _, title in PLACES)]]
    for label, row in (("with the motif", positives[ALL]), ("without it", negatives[ALL])):
        places.append([f"promoters {label}", *(_number(row.get(name)) for name, _ in PLACES)])
    title = f"{report.genes:,} promoters of {report.window_length:,} bases, {quantity} in {report.bins} bins"
    return f"{title}\n\n{table_text(rows, aligned)}\n\n{table_text(places, aligned)}\n"


def _number(value: float | None) -> str:
    """Three decimals, `-` for a mean over nothing."""
    return "-" if value is None or math.isnan(value) else f"{value:.3f}"
