"""How much a map lies on motifs, treatment by treatment, and where: tests against a reference, and edges.

For every promoter with a motif, the map is averaged over the bases of all its hits there. Each test pairs a
promoter with itself: a treatment against a reference treatment, or against what is usual at the same place in all
promoters (`background`). Wilcoxon's signed ranks, two-sided; effect sizes are the ratio of means and the share of
promoters that gain.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import wilcoxon

from bioattn.formats.motif import Motif
from bioattn.interpret.motif_hits import MotifScores, base_composition, find_motif_hits
from bioattn.interpret.promoter_maps import ATTRIBUTION, PromoterMaps
from bioattn.interpret.seqlets import Places

HIT_P_VALUE = 1e-4
"""Of a site anywhere in a promoter."""
SEQLET_HIT_P_VALUE = 1e-3
"""Of a site within a seqlet, where there are fewer places for a chance match; and of any site of a motif whose
best site is more likely than `HIT_P_VALUE`."""
MIN_PROMOTERS = 8
"""With fewer no test is made."""
BACKGROUND = "background"
USE_COLUMNS = (
    "treatment",
    "motif",
    "reference",
    "promoters",
    "seqlets",
    "value",
    "reference_value",
    "ratio",
    "gaining",
    "p_value",
)
EDGE_COLUMNS = ("treatment", "motif", "gene_id", "start", "end", "strand", "score", "hit_p_value")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MotifHits:
    """Hits of the motifs of one source in all its promoters, ordered by promoter; arrays of shape (hits,)."""

    motifs: list[str]
    motif: NDArray[np.intp]
    """Number of the motif."""
    gene: NDArray[np.intp]
    start: NDArray[np.intp]
    end: NDArray[np.intp]
    strand: NDArray[np.object_]
    p_value: NDArray[np.float64]
    anywhere: NDArray[np.bool_]
    """Whether the hit is rare enough wherever it lies."""


def hits_of_motifs(codes_GL: NDArray[np.uint8], motifs: Sequence[Motif]) -> MotifHits:
    """Find motifs in all promoters at `SEQLET_HIT_P_VALUE`."""
    background = base_composition(codes_GL)
    hits = find_motif_hits(codes_GL, motifs, background=background, p_value=SEQLET_HIT_P_VALUE)
    numbers = {motif.name: number for number, motif in enumerate(motifs)}
    number_of_hit = hits["motif"].map(numbers).to_numpy(dtype=np.intp)
    # A palindrome matches on both strands: once is enough, on the better one.
    hits = hits.assign(number=number_of_hit).sort_values(
        ["row", "start", "number", "p_value", "strand"], kind="stable"
    )
    hits = hits.drop_duplicates(["row", "start", "number"])
    rarest = np.array([float(MotifScores(motif, background).tail[-1]) for motif in motifs])
    motif, p_value = hits["number"].to_numpy(dtype=np.intp), hits["p_value"].to_numpy(dtype=np.float64)
    return MotifHits(
        motifs=list(numbers),
        motif=motif,
        gene=hits["row"].to_numpy(dtype=np.intp),
        start=hits["start"].to_numpy(dtype=np.intp),
        end=hits["end"].to_numpy(dtype=np.intp),
        strand=hits["strand"].to_numpy(dtype=object),
        p_value=p_value,
        anywhere=p_value <= np.maximum(rarest, HIT_P_VALUE)[motif] * (1 + 1e-12),
    )


class MotifUse:
    """What maps have at the hits of motifs."""

    def __init__(self, maps: PromoterMaps, hits: MotifHits) -> None:
        self.maps = maps
        self.hits = hits
        self._signed = maps.kind == ATTRIBUTION
        self._counted = np.flatnonzero(hits.anywhere)
        self._gene, self._start, self._end = (
            each[self._counted] for each in (hits.gene, hits.start, hits.end)
        )
        pair = self._gene * max(1, len(hits.motifs)) + hits.motif[self._counted]
        self._pairs, self._pair_of_hit = np.unique(pair, return_inverse=True)
        """Promoters with a motif, numbered; (pairs,) and (hits counted,)."""
        self._motif_of_pair = self._pairs % max(1, len(hits.motifs))
        self._per_pair = np.bincount(self._pair_of_hit, minlength=self._pairs.size)
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
            for number, motif in enumerate(self.hits.motifs):
                of_motif = self._motif_of_pair == number
                compared = _compared(own_pair[of_motif], other[of_motif], signed=self._signed)
                if self._signed and name == BACKGROUND:
                    # What is usual is a mean of both signs: its size is no measure.
                    compared["ratio"] = np.nan
                yield {
                    "treatment": treatment,
                    "motif": motif,
                    "reference": name,
                    "promoters": int(of_motif.sum()),
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
        found_here = np.asarray(seqlets) > 0
        order = np.argsort(places.gene, kind="stable")
        half = self.maps.reach / 2
        found: dict[int, float] = {}
        hit_genes = self.hits.gene
        for place in order:
            gene = int(places.gene[place])
            low, high = np.searchsorted(hit_genes, [gene, gene + 1])
            middle = (self.hits.start[low:high] + self.hits.end[low:high]) / 2
            near = np.abs(middle - places.centre[place] - 0.5) <= half
            for hit in np.flatnonzero(near & found_here[self.hits.motif[low:high]]):
                number = int(low + hit)
                found[number] = max(found.get(number, -np.inf), float(places.score[place]))
        chosen = np.array(sorted(found), dtype=np.intp)
        return pd.DataFrame(
            {
                "treatment": treatment,
                "motif": [self.hits.motifs[number] for number in self.hits.motif[chosen]],
                "gene_id": [gene_ids[gene] for gene in self.hits.gene[chosen]],
                "start": self.hits.start[chosen],
                "end": self.hits.end[chosen],
                "strand": self.hits.strand[chosen],
                "score": [found[int(number)] for number in chosen],
                "hit_p_value": self.hits.p_value[chosen],
            },
            columns=list(EDGE_COLUMNS),
        )

    def _part(self, rows: slice) -> slice:
        """The counted hits of some promoters."""
        low, high = np.searchsorted(self._gene, [rows.start, rows.stop])
        return slice(int(low), int(high))

    def _at_hits(
        self, values_BL: NDArray[np.floating], part: slice, first: int | None
    ) -> NDArray[np.float64]:
        """Mean over the bases of each hit, of attribution the sum. first: None = one row for all promoters."""
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
        some = np.any(difference != 0)
        p_value = float(wilcoxon(difference, method="approx").pvalue) if some else 1.0
    return {
        "value": float(own.mean()),
        "reference_value": float(other.mean()),
        "ratio": float(size.mean()) / mean if mean > 0 else np.nan,
        "gaining": float(np.mean(difference > 0) + np.mean(difference == 0) / 2),
        "p_value": p_value,
    }
