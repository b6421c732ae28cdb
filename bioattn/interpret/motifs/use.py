"""Tests of maps at the hits of motifs, treatment by treatment, and edges from treatments to hits.

For every promoter with a motif, the map is averaged over the bases of all its hits there. Each test pairs a
promoter with itself: a treatment against a reference treatment, or against what is usual at the same place in all
promoters (`background`). Wilcoxon's signed ranks, two-sided; effect sizes are the ratio of means and the share of
promoters that gain.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import wilcoxon

from bioattn.formats.motifs import Motif
from bioattn.interpret.maps.promoter_maps import PromoterMaps
from bioattn.interpret.motifs.discovery import PAD
from bioattn.interpret.motifs.hits import MotifScores, base_composition, find_motif_hits
from bioattn.interpret.motifs.seqlets import Places, cut_codes

HIT_P_VALUE = 1e-4
"""Of a site anywhere in a promoter."""
SEQLET_HIT_P_VALUE = 1e-3
"""Of a site within a seqlet, where there are fewer places for a chance match; and of any site of a motif whose
best site is more likely than `HIT_P_VALUE`."""
MOTIFS_AT_ONCE = 32
"""Motifs whose hits are sought together, which bounds memory."""
MIN_PROMOTERS = 8
"""With fewer no test is made."""
BACKGROUND = "background"
USE_COLUMNS = (
    *("treatment", "motif", "reference", "promoters", "seqlets"),
    *("value", "reference_value", "ratio", "gaining", "p_value"),
)
EDGE_COLUMNS = ("treatment", "motif", "gene_id", "start", "end", "strand", "score", "hit_p_value")


def hits_of_motifs(
    codes_GL: NDArray[np.uint8], motifs: Sequence[Motif], background: NDArray[np.float64], p_value: float
) -> pd.DataFrame:
    """Hits of motifs with at most this p-value, or that of the motif's best site (up to `SEQLET_HIT_P_VALUE`).

    Columns gene and motif (their numbers), start, end, turned (whether the motif reads against the promoter) and
    p_value, ordered by gene, start and motif. Of a palindrome the better strand counts.
    """
    parts = []
    for first in range(0, max(1, len(motifs)), MOTIFS_AT_ONCE):
        some = motifs[first : first + MOTIFS_AT_ONCE]
        rarest = np.array([float(MotifScores(motif, background).tail[-1]) for motif in some])
        levels = np.clip(rarest, p_value, SEQLET_HIT_P_VALUE)
        hits = find_motif_hits(
            codes_GL, some, background=background, p_value=float(levels.max(initial=p_value))
        )
        names = {motif.name: number for number, motif in enumerate(some)}
        number = hits["motif"].map(names).to_numpy(dtype=np.int64)
        hits = hits.assign(motif=number + first, turned=hits["strand"] == "-").rename(columns={"row": "gene"})
        hits = hits[hits["p_value"].to_numpy() <= levels[number] * (1 + 1e-12)]
        hits = hits.sort_values(["gene", "start", "motif", "p_value", "strand"], kind="stable")
        parts.append(hits.drop_duplicates(["gene", "start", "motif"]).drop(columns=["strand", "score"]))
    found: pd.DataFrame = pd.concat(parts).sort_values(["gene", "start", "motif"], kind="stable")
    return found


class MotifUse:
    """The values of maps at the hits of motifs."""

    def __init__(self, maps: PromoterMaps, motifs: Sequence[Motif]) -> None:
        self.maps = maps
        self.motifs = list(motifs)
        self._signed = maps.signed
        self._background = base_composition(maps.codes)
        hits = hits_of_motifs(maps.codes, motifs, self._background, HIT_P_VALUE)
        self._gene, self._start, self._end = (hits[name].to_numpy() for name in ("gene", "start", "end"))
        pair = self._gene * max(1, len(motifs)) + hits["motif"].to_numpy()
        self._pairs, self._pair_of_hit = np.unique(pair, return_inverse=True)
        """Promoters with a motif, numbered; (pairs,) and (hits,)."""
        self._per_pair = np.bincount(self._pair_of_hit, minlength=self._pairs.size)
        of_motif = self._pairs % max(1, len(motifs))
        self._pairs_of_motif = [np.flatnonzero(of_motif == number) for number in range(len(motifs))]
        self._reference: NDArray[np.float64] | None = None

    def against(self, treatment: str, reference: str, seqlets: Sequence[int]) -> Iterator[dict[str, object]]:
        """Rows (`USE_COLUMNS`) of a treatment: every motif against the background and against `reference`.

        reference: a name; the maps hold its values. seqlets: how many of the treatment's hold each motif.
        """
        own = np.zeros(self._gene.size)
        total_L = np.zeros(self.maps.length)
        for rows in self.maps.blocks():
            part = self._part(rows)
            values_BL = self.maps.read(rows, treatment)
            own[part] = self._at_hits(values_BL, part, rows.start)
            total_L += values_BL.sum(axis=0)
        usual = self._at_hits(total_L[None] / len(self.maps.codes), slice(None), None)
        if self._reference is None:
            self._reference = np.zeros(self._gene.size)
            for rows in self.maps.blocks():
                part = self._part(rows)
                self._reference[part] = self._at_hits(self.maps.reference(rows), part, rows.start)
        own_pair = self._mean_of_pair(own)
        for name, values in ((BACKGROUND, usual), (reference, self._reference)):
            if name == treatment:
                continue
            other = self._mean_of_pair(values)
            for number, motif in enumerate(self.motifs):
                of_motif = self._pairs_of_motif[number]
                compared = _compared(own_pair[of_motif], other[of_motif], signed=self._signed)
                if self._signed and name == BACKGROUND:
                    # What is usual is a mean of both signs: its size is no measure.
                    compared["ratio"] = np.nan
                yield {
                    "treatment": treatment,
                    "motif": motif.name,
                    "reference": name,
                    "promoters": of_motif.size,
                    "seqlets": seqlets[number],
                    **compared,
                }

    def edges(
        self, treatment: str, places: Places, gene_ids: Sequence[str], seqlets: Sequence[int]
    ) -> pd.DataFrame:
        """Hits that lie in seqlets of a treatment (`EDGE_COLUMNS`), ordered by promoter and start.

        Of motifs that were found under this treatment: `seqlets` says in how many. A hit lies in a seqlet when its
        middle does. score: how far the map rises above the usual at the seqlet's middle.
        """
        numbers = np.flatnonzero(np.asarray(seqlets) > 0)
        half = -(-self.maps.reach // 2) + PAD
        windows = cut_codes(self.maps.codes, places, 2 * half)
        motifs = [self.motifs[number] for number in numbers]
        hits = hits_of_motifs(windows, motifs, self._background, SEQLET_HIT_P_VALUE)
        middle = (hits["start"] + hits["end"]) / 2 - half - 0.5
        hits = hits[middle.abs() <= self.maps.reach / 2]
        seqlet = hits["gene"].to_numpy()
        offset = places.centre[seqlet] - half
        table = pd.DataFrame(
            {
                "treatment": treatment,
                "motif": [motifs[number].name for number in hits["motif"]],
                "gene": places.gene[seqlet],
                "start": hits["start"].to_numpy() + offset,
                "end": hits["end"].to_numpy() + offset,
                "strand": np.where(hits["turned"], "-", "+").astype(object),
                "score": places.score[seqlet],
                "hit_p_value": hits["p_value"].to_numpy(),
                "number": hits["motif"].to_numpy(),
            }
        )
        # Seqlets are a reach apart, so that one site can lie in two of them.
        table = table.sort_values(["gene", "start", "number", "score"], ascending=[True, True, True, False])
        table = table.drop_duplicates(["gene", "start", "number"])
        return table.assign(gene_id=[gene_ids[gene] for gene in table["gene"]])[list(EDGE_COLUMNS)]

    def _part(self, rows: slice) -> slice:
        low, high = np.searchsorted(self._gene, [rows.start, rows.stop])
        return slice(int(low), int(high))

    def _at_hits(
        self, values_BL: NDArray[np.floating], part: slice, first: int | None
    ) -> NDArray[np.float64]:
        """Mean over the bases of each hit, of contributions the sum. first: None = one row for all promoters."""
        running = np.zeros((len(values_BL), values_BL.shape[1] + 1))
        np.cumsum(values_BL, axis=1, out=running[:, 1:])
        gene = 0 if first is None else self._gene[part] - first
        start, end = self._start[part], self._end[part]
        total: NDArray[np.float64] = running[gene, end] - running[gene, start]
        return total if self._signed else total / (end - start)

    def _mean_of_pair(self, of_hit: NDArray[np.float64]) -> NDArray[np.float64]:
        sums = np.bincount(self._pair_of_hit, weights=of_hit, minlength=self._pairs.size)
        return np.asarray(sums / self._per_pair)


def _compared(own: NDArray[np.float64], other: NDArray[np.float64], *, signed: bool) -> dict[str, float]:
    """Means, effect sizes and p-value of paired values; NaN where there is too little."""
    if not own.size:
        return dict.fromkeys(("value", "reference_value", "ratio", "gaining", "p_value"), np.nan)
    size, other_size = (np.abs(own), np.abs(other)) if signed else (own, other)
    mean = float(other_size.mean())
    difference = own - other
    p_value = np.nan
    if own.size >= MIN_PROMOTERS:
        p_value = float(wilcoxon(difference, method="approx").pvalue) if difference.any() else 1.0
    return {
        "value": float(own.mean()),
        "reference_value": float(other.mean()),
        "ratio": float(size.mean()) / mean if mean > 0 else np.nan,
        "gaining": float(np.mean(difference > 0) + np.mean(difference == 0) / 2),
        "p_value": p_value,
    }
