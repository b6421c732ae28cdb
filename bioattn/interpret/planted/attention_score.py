"""Scoring an attention file, and its predictions, against planted truth."""

import logging
import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bioattn.choices import Task
from bioattn.errors import BioattnError
from bioattn.interpret.choices import Upsampling
from bioattn.interpret.maps.position_maps import position_maps
from bioattn.interpret.planted.localisation import ALL, LocalisationReport, LocalisationScorer
from bioattn.promoters.dataset import SPLIT_NAMES, read_dataset
from bioattn.promoters.response_metrics import per_treatment
from bioattn.simulate.truth import PlantedSite, read_truth
from bioattn.store.reader import open_attention
from bioattn.system.progress import NoProgress, Progress

LOGGER = logging.getLogger("bioattn")

BLOCK_BYTES = 1 << 26
"""Attention read at a time."""

COVERED_SHARE = 0.9
"""Planted sites end at the window's end unless the windows are not the simulated ones."""


def score_attention_and_predictions(
    attention: Path,
    truth: Path,
    *,
    dataset: Path | None = None,
    split: str | None = "test",
    sites: Sequence[str] = ("*",),
    value_weighted: bool = False,
    upsampling: Upsampling = Upsampling.GAUSSIAN,
    progress: Progress | None = None,
) -> tuple[LocalisationReport, pd.DataFrame | None]:
    """Score an attention file, and with a dataset also the predictions it holds, from files.

    dataset: the dataset of these promoters; only genes of its `split` (train, validation, test; None: all) are
    scored, and the second result is `score_predictions` of them. Otherwise as `score_attention_file`.
    """
    sites_planted = read_truth(truth)
    genes: set[str] | None = None
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
            predictions = score_predictions(file.predictions(), responses, genes)
    report = score_attention_file(
        attention,
        sites_planted,
        sites=sites,
        value_weighted=value_weighted,
        upsampling=upsampling,
        genes=genes,
        progress=progress,
    )
    return report, predictions


def score_attention_file(
    path: Path,
    truth: Sequence[PlantedSite],
    *,
    sites: Sequence[str] = ("*",),
    value_weighted: bool = False,
    upsampling: Upsampling = Upsampling.GAUSSIAN,
    genes: Collection[str] | None = None,
    progress: Progress | None = None,
) -> LocalisationReport:
    """Score the attention file `path` against a truth table; the numbers are defined in `localisation`.

    sites: shell patterns of attention sites whose keys are positions; several are averaged and must share their
    bins; one without a treatment axis counts for every treatment. value_weighted: score weights times the norm of
    the value vector, each row scaled to sum 1. genes: score only these promoters (a test split, say).

    Raises: BioattnError when no attention site, promoter or treatment fits; FormatError for a damaged file.
    """
    progress = progress or NoProgress()
    with open_attention(path) as attention:
        maps = position_maps(attention, sites, value_weighted=value_weighted)
        gene_ids = [str(name) for name in attention.samples.index]
        wanted = np.array([genes is None or gene_id in genes for gene_id in gene_ids], dtype=np.bool_)
        if not wanted.any():
            raise BioattnError(f"{path}: holds none of the promoters to be scored")
        scorer = LocalisationScorer(
            truth,
            gene_ids=[gene_id for gene_id, keep in zip(gene_ids, wanted, strict=True) if keep],
            treatments=attention.treatments,
            key_edges=maps.key_edges,
            window_length=attention.window_length,
            upsampling=upsampling,
            receptive_field=maps.sites[0].receptive_field,
        )
        if scorer.covered < COVERED_SHARE * attention.window_length:
            LOGGER.warning(
                f"{path}: planted sites end at base {scorer.covered:,} of windows of {attention.window_length:,}; "
                "were the promoters prepared with another --upstream than they were simulated for?"
            )
        largest = max(int(np.prod(info.shape[1:])) for info in maps.sites) * 4
        step = max(1, BLOCK_BYTES // largest)
        progress.begin("score", len(gene_ids))
        for first in range(0, len(gene_ids), step):
            part = slice(first, min(first + step, len(gene_ids)))
            scorer.add(maps.block(part)[wanted[part]])
            progress.advance(part.stop - part.start)
        progress.end()
    return scorer.report()


def score_predictions(
    predictions: pd.DataFrame, responses: pd.DataFrame, genes: Collection[str] | None = None
) -> pd.DataFrame:
    """How well predictions (genes × treatments) agree with responses, per treatment and as the mean (`all`).

    Columns as `training.promoter.metrics.per_treatment`: those of a binary task when every response is 0, 1 or
    missing, of regression otherwise. Only genes and treatments that both tables name are used.

    Raises: BioattnError when they have no gene or no treatment in common.
    """
    shared = [
        gene for gene in predictions.index if gene in responses.index and (genes is None or gene in genes)
    ]
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


POSITIVE_COLUMNS = (
    ("auroc", "AUROC"),
    ("auprc", "AUPRC"),
    ("ceiling_auprc", "ceiling"),
    ("top_bin", "top bin"),
    ("top_5_bins", "top 5"),
    ("decoy_auroc", "vs decoy"),
    ("planted_auroc", "vs motifs"),
    ("wrong_auroc", "wrong tr."),
    ("mass_causal", "on motif"),
    ("entropy", "entropy"),
)
"""Shown columns of positive pairs and their headings."""

MASSES = (
    ("mass_causal", "causal motifs"),
    ("mass_decoy", "decoys"),
    ("mass_other", "other planted motifs"),
    ("mass_background", "background"),
    ("mass_sink", "sink"),
)

LEGEND = """\
Each promoter is ranked by itself, bases of the treatment's motif against all others; means over promoters that
hold it. ceiling: AUPRC of perfect attention to these bins. top bin, top 5: the bin(s) of largest weight touch the
motif(s). vs decoy, vs motifs: AUROC against bases of decoys, of all other planted motifs. wrong tr.: control,
AUROC of other treatments' maps. on motif: share of the weight. entropy: 1 is uniform. pred.: how well the model's
predictions agree with the responses, over promoters."""


def localisation_text(report: LocalisationReport, predictions: pd.DataFrame | None = None) -> str:
    """A table per treatment and overall, then where the weight lies; `predictions` adds its first column."""
    scores = report.to_json()
    positives, negatives = scores["positives"], scores["negatives"]
    predicted: dict[Any, dict[Any, Any]] = {} if predictions is None else predictions.to_dict(orient="index")
    measures = [] if predictions is None else [str(predictions.columns[0])]
    columns = [(name, heading) for name, heading in POSITIVE_COLUMNS if name in positives[ALL]]
    rows = [["treatment", "promoters", *(heading for _, heading in columns)]]
    rows[0] += [f"pred. {name}" for name in measures]
    for treatment, row in positives.items():
        cells = [treatment, f"{row['pairs']:,}", *(number(row[name]) for name, _ in columns)]
        rows.append(cells + [number(predicted.get(treatment, {}).get(name)) for name in measures])
    masses = [["", *(heading for _, heading in MASSES), "entropy"]]
    for label, row in (("with the motif", positives[ALL]), ("without it", negatives[ALL])):
        masses.append([label, *(number(row.get(name)) for name in [*dict(MASSES), "entropy"])])
    lines = [
        f"{report.genes:,} promoters of {report.window_length:,} bp, {report.bins} bins, "
        f"{report.upsampling} upsampling",
        "",
        *aligned(rows),
        "",
        LEGEND,
        "",
        "Where the weight lies (shares):",
        *aligned(masses),
    ]
    return "\n".join(lines) + "\n"


def number(value: float | None) -> str:
    """Three decimals, `-` for a mean over nothing."""
    return "-" if value is None or math.isnan(value) else f"{value:.3f}"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table: the first column to the left, the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
