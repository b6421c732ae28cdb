"""Tests of maps at the hits of motifs, treatment by treatment, and edges from treatments to hits.

For every promoter with a motif, the map is averaged over the bases of all its hits there. Each test pairs a
promoter with itself: a treatment against a reference treatment, or against what is usual at the same position in
all promoters (`background`). Wilcoxon's signed ranks, two-sided; effect sizes are the ratio of means and the share
of promoters that gain.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import false_discovery_control, wilcoxon

from bioattn.formats.meme import Motif
from bioattn.interpret.choices import HIT_P_VALUE
from bioattn.interpret.motifs.discovery import PAD
from bioattn.interpret.motifs.hits import base_composition, find_motif_hits
from bioattn.interpret.motifs.search import Searched, cut_codes
from bioattn.interpret.position_maps import running_sums
from bioattn.interpret.promoter_maps import PromoterMaps
from bioattn.system.progress import Progress, watched


def benjamini_hochberg(p_values: NDArray[np.floating]) -> NDArray[np.float64]:
    """q-values of p-values, shape (n,): the smallest false discovery rate at which each is called (1995).

    NaN stands for a test that was not made; it stays NaN and does not count.

    >>> benjamini_hochberg(np.array([0.01, 0.02, 0.9, np.nan])).round(3).tolist()
    [0.03, 0.03, 0.9, nan]
    """
    q_values = np.full(p_values.shape, np.nan)
    tested = ~np.isnan(p_values)
    if tested.any():
        q_values[tested] = false_discovery_control(p_values[tested])
    return q_values


SEQLET_HIT_P_VALUE = 1e-3
"""Of a site within a seqlet, where there are fewer positions for a chance match; and of any site of a motif whose
best site is more likely than `HIT_P_VALUE`."""
SHORT_HIT_P_VALUE = 1e-2
"""Of the best sites, within a seqlet, of a motif so short that even these are more likely (a 5-mer's are)."""
MIN_PROMOTERS = 8
"""With fewer no test is made."""
BACKGROUND = "background"
COMPARED = ("value", "reference_value", "ratio", "gaining", "p_value")
USE_COLUMNS = ("treatment", "motif", "reference", "promoters", "seqlets", *COMPARED)
EDGE_COLUMNS = ("treatment", "motif", "gene_id", "start", "end", "strand", "score", "hit_p_value")


def hits_of_motifs(
    codes_GL: NDArray[np.uint8],
    motifs: Sequence[Motif],
    background: NDArray[np.float64],
    p_value: float,
    best_up_to: float = SEQLET_HIT_P_VALUE,
) -> pd.DataFrame:
    """Find hits as `find_motif_hits`.

    Ordered by row, start and number of the motif; of a palindrome the better strand counts.
    """
    levels = {"p_value": p_value, "best_up_to": best_up_to}
    hits = find_motif_hits(codes_GL, motifs, background=background, **levels)
    hits = hits.sort_values(["row", "start", "number", "p_value", "strand"], kind="stable")
    return hits.drop_duplicates(["row", "start", "number"])


def compare_use(
    searched: Searched, motifs: Sequence[Motif], treatments: Sequence[str], reference: str, progress: Progress
) -> Iterator[dict[str, object]]:
    """Give rows of `USE_COLUMNS` but seqlets: every motif against the background and against `reference`.

    reference: a treatment, or `mean`.
    """
    maps, codes = searched.maps, searched.codes
    hits = hits_of_motifs(codes, motifs, base_composition(codes), HIT_P_VALUE)
    reference_GK = searched.reference(reference)
    rows = hits["row"].to_numpy()
    parts = [slice(*np.searchsorted(rows, [block.start, block.stop])) for block in maps.blocks()]
    held = np.zeros(len(hits))
    for block, part in zip(maps.blocks(), parts, strict=True):
        held[part] = _at_hits(maps, maps.per_base(reference_GK[block]), hits.iloc[part], block.start)
    for treatment in watched(progress, f"use of motifs in {searched.kind}", treatments):
        values = np.zeros(len(hits))
        total_L = np.zeros(maps.window_length)
        for block, part in zip(maps.blocks(), parts, strict=True):
            values_BL = maps.per_base(maps.block(block, [treatment])[:, 0])
            values[part] = _at_hits(maps, values_BL, hits.iloc[part], block.start)
            total_L += values_BL.sum(axis=0)
        usual = _at_hits(maps, total_L[None] / len(codes), hits, None)
        of_hits = hits[["number", "row"]].assign(values=values, background=usual, held=held)
        of_promoters = of_hits.groupby(["number", "row"]).mean()
        for name, column in ((BACKGROUND, "background"), (reference, "held")):
            if name == treatment:
                continue
            for number, motif in enumerate(motifs):
                pairs = of_promoters[of_promoters.index.get_level_values("number") == number]
                compared = _compared(pairs["values"].to_numpy(), pairs[column].to_numpy(), signed=maps.signed)
                if maps.signed and name == BACKGROUND:
                    # The usual value is a mean of both signs: its size is no measure.
                    compared["ratio"] = np.nan
                row = {
                    "treatment": treatment,
                    "motif": motif.name,
                    "reference": name,
                    "promoters": len(pairs),
                }
                yield row | compared


def edges(searched: Searched, treatment: str, seqlets: pd.DataFrame, motifs: Sequence[Motif]) -> pd.DataFrame:
    """Hits of `motifs` that lie in seqlets of a treatment (`EDGE_COLUMNS`), ordered by promoter and start.

    A hit lies in a seqlet when its middle does. score: the rise of the map above the usual at the seqlet's middle.
    """
    maps, codes = searched.maps, searched.codes
    half = -(-maps.reach // 2) + PAD
    windows = cut_codes(codes, seqlets, 2 * half)
    levels = SEQLET_HIT_P_VALUE, SHORT_HIT_P_VALUE
    hits = hits_of_motifs(windows, motifs, base_composition(codes), *levels)
    middle = (hits["start"] + hits["end"]) / 2 - half - 0.5
    hits = hits[middle.abs() <= maps.reach / 2]
    of_hits = seqlets.iloc[hits["row"]].set_index(hits.index)
    offset = of_hits["centre"] - half
    table = hits.assign(
        treatment=treatment,
        gene=of_hits["gene"],
        start=hits["start"] + offset,
        end=hits["end"] + offset,
        score=of_hits["score"],
        hit_p_value=hits["p_value"],
    )
    # Seqlets are a reach apart, so that one site can lie in two of them.
    table = table.sort_values(["gene", "start", "number", "score"], ascending=[True, True, True, False])
    table = table.drop_duplicates(["gene", "start", "number"])
    return table.assign(gene_id=maps.samples.index[table["gene"]])[list(EDGE_COLUMNS)]


def _at_hits(
    maps: PromoterMaps, values_BL: NDArray[np.floating], hits: pd.DataFrame, first: int | None
) -> NDArray[np.float64]:
    """Mean over the bases of each hit, of contributions the sum. first: None = one row for all promoters."""
    running = running_sums(values_BL)
    row, start, end = (hits[name].to_numpy() for name in ("row", "start", "end"))
    row = np.zeros_like(row) if first is None else row - first
    total: NDArray[np.float64] = running[row, end] - running[row, start]
    return total if maps.signed else total / (end - start)


def _compared(values: NDArray[np.float64], others: NDArray[np.float64], *, signed: bool) -> dict[str, float]:
    """Means, effect sizes and p-value of paired values (`COMPARED`); NaN where there is too little."""
    if not values.size:
        return dict.fromkeys(COMPARED, np.nan)
    size, other_size = (np.abs(values), np.abs(others)) if signed else (values, others)
    mean = float(other_size.mean())
    difference = values - others
    p_value = np.nan
    if values.size >= MIN_PROMOTERS:
        p_value = float(wilcoxon(difference, method="approx").pvalue) if difference.any() else 1.0
    return {
        "value": float(values.mean()),
        "reference_value": float(others.mean()),
        "ratio": float(size.mean()) / mean if mean > 0 else np.nan,
        "gaining": float(np.mean(difference > 0) + np.mean(difference == 0) / 2),
        "p_value": p_value,
    }
