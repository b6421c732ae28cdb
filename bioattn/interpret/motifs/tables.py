"""The tables of a folder of motifs (`docs/formats/motifs.md`)."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from bioattn.interpret.false_discovery import benjamini_hochberg
from bioattn.interpret.maps.promoter_maps import PromoterMaps
from bioattn.interpret.motifs.use import BACKGROUND, EDGE_COLUMNS, USE_COLUMNS
from bioattn.io.files import text_output
from bioattn.store.windows import genomic_interval

MOTIF_HEADER = (
    *(
        "motif",
        "source",
        "consensus",
        "width",
        "seqlets",
        "information_bits",
        "treatments",
        "surest_treatment",
    ),
    *("share", "control_share", "log10_p", "match", "match_name", "match_p_value", "match_q_value"),
)
_PLACE = ("chrom", "genomic_start", "genomic_end", "genomic_strand")
EDGE_HEADER = (*EDGE_COLUMNS[:6], *_PLACE, *EDGE_COLUMNS[6:])
_NUMBERS = "%.5g"


def write_motif_table(path: Path, rows: Sequence[dict[str, object]], matches: pd.DataFrame | None) -> None:
    """Write motifs.tsv. matches: as of `match_motifs`, in the order of `rows`; None = there was no database."""
    table = pd.DataFrame(rows, columns=list(MOTIF_HEADER))
    if matches is not None:
        for name in ("match", "match_name"):
            table[name] = matches[name].to_numpy()
        for name in ("p_value", "q_value"):
            table[f"match_{name}"] = matches[name].to_numpy()
    for name in ("width", "seqlets", "treatments"):
        table[name] = table[name].astype("Int64")
    _write(path, table)


def write_treatment_table(path: Path, rows: Sequence[dict[str, object]]) -> None:
    """Write treatments.tsv. The q-values are over all tests against the background, and over all others."""
    table = pd.DataFrame(rows, columns=[*USE_COLUMNS, "q_value"])
    table["q_value"] = np.nan
    for part in (table["reference"] == BACKGROUND, table["reference"] != BACKGROUND):
        p_values = table.loc[part, "p_value"].to_numpy(dtype=np.float64)
        table.loc[part, "q_value"] = benjamini_hochberg(p_values)
    _write(path, table)


def write_edges(file: io.TextIOBase, edges: pd.DataFrame, maps: PromoterMaps) -> int:
    """Write rows of edges.tsv with places on chromosomes, empty where a promoter has none; returns how many."""
    places = maps.samples.loc[edges["gene_id"]]
    start, end = edges["start"].to_numpy(dtype=np.int64), edges["end"].to_numpy(dtype=np.int64)
    low, high = np.zeros_like(start), np.zeros_like(end)
    strands = places["strand"].to_numpy(dtype=object)
    for strand in ("+", "-"):
        own = strands == strand
        low[own], high[own] = genomic_interval(
            start[own],
            end[own],
            places["start"].to_numpy()[own],
            places["end"].to_numpy()[own],
            strand,
            maps.length,
        )
    placed = np.isin(strands.astype(str), ("+", "-"))
    same = strands == edges["strand"].to_numpy(dtype=object)
    table = edges.assign(
        chrom=places["chrom"].to_numpy(),
        genomic_start=pd.array(np.where(placed, low, 0), dtype="Int64"),
        genomic_end=pd.array(np.where(placed, high, 0), dtype="Int64"),
        genomic_strand=np.where(placed, np.where(same, "+", "-"), ""),
    )
    table.loc[~placed, ["genomic_start", "genomic_end"]] = pd.NA
    table[list(EDGE_HEADER)].to_csv(
        file, sep="\t", index=False, header=False, float_format=_NUMBERS, lineterminator="\n"
    )
    return len(table)


def _write(path: Path, table: pd.DataFrame) -> None:
    with text_output(path) as file:
        table.to_csv(file, sep="\t", index=False, float_format=_NUMBERS, lineterminator="\n")
