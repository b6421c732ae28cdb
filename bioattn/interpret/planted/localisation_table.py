"""Localisation scores as a text table."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from bioattn.interpret.planted.localisation import ALL, LocalisationReport

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
