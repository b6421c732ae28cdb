"""The search for motifs in maps: seqlets, the short stretches of promoters that a map (attention or attribution)
points at, and the motifs in them.

A map says where a model looked, a little blurred: an attended bin stands for all the bases its key sees. A seqlet
is therefore wider than the motif in it, and keeps the map as the prior of where in it the motif lies.

Shapes: B promoters of a block, L bases, S seqlets, W bases of a seqlet.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter1d

from bioattn.formats.meme import Motif
from bioattn.formats.nucleotides import UNKNOWN
from bioattn.interpret.choices import MotifSettings
from bioattn.interpret.motifs.discovery import PAD, FoundMotif, discover_motifs, merge_motifs
from bioattn.interpret.motifs.hits import base_composition
from bioattn.interpret.promoter_maps import PromoterMaps, Quantity
from bioattn.promoters.kmers import distinct_kmers, is_low_complexity
from bioattn.system.progress import SILENT, Progress, watched

_Number = TypeVar("_Number", bound=np.generic)

PEAKS_PER_PROMOTER = 3
SIGNS = {"raising": 1, "lowering": -1}
"""Contributions of attended bins are searched twice: where they raise the response, and where they lower it."""
CONTROLS = 3
"""Control windows for each seqlet."""
SMOOTHED_BASES = 9
"""Peaks are sought in the map's mean over so many bases, about a motif."""
SHARED_BASES = 14
"""Windows that share so many bases in a row, not a simple repeat, are copies of one another: one is kept."""


def find_peaks(
    map_BL: NDArray[np.floating],
    usual_L: NDArray[np.floating],
    *,
    apart: int,
    per_promoter: int,
    first: int = 0,
) -> pd.DataFrame:
    """Find where the map of a promoter rises most above the usual map, at least `apart` bases apart.

    map_BL: not negative. usual_L: the mean over promoters. first: number of the block's first promoter. Positions
    where the map does not rise above the usual are left out.

    Returns the columns gene, centre (middle base, from the window's first base) and score (the rise), ordered by
    promoter and score.
    """
    risen = uniform_filter1d(map_BL - usual_L, SMOOTHED_BASES, axis=1, mode="constant").astype(np.float32)
    rows = np.arange(len(risen))
    bases = np.arange(risen.shape[1])
    peaks = []
    for _ in range(per_promoter):
        best = risen.argmax(axis=1)
        height = risen[rows, best]
        peaks.append(pd.DataFrame({"gene": rows + first, "centre": best, "score": height})[height > 0])
        risen[np.abs(bases[None, :] - best[:, None]) < apart] = 0
    ordered: pd.DataFrame = pd.concat(peaks).sort_values("gene", kind="stable", ignore_index=True)
    return ordered


def best_seqlets(peaks: pd.DataFrame, number: int) -> pd.DataFrame:
    """The `number` peaks of highest score, best first; ties by promoter and position."""
    order = np.lexsort((peaks["centre"], peaks["gene"], -peaks["score"]))[:number]
    return peaks.iloc[order].reset_index(drop=True)


def cut_codes(codes_GL: NDArray[np.uint8], seqlets: pd.DataFrame, width: int) -> NDArray[np.uint8]:
    """The bases of windows of `width` bases, (S, W); N beyond the promoter."""
    return _cut(codes_GL, seqlets, width, UNKNOWN)


def cut_map(
    map_BL: NDArray[np.floating], seqlets: pd.DataFrame, width: int, first: int = 0
) -> NDArray[np.float32]:
    """A map in windows of `width` bases, (S, W); 0 beyond the promoter. first: number of its first promoter."""
    return _cut(map_BL, seqlets.assign(gene=seqlets["gene"] - first), width, 0).astype(np.float32)


def without_copies(codes_SW: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Which windows to keep, (S,), so that no two share `SHARED_BASES` bases in a row; the first of copies stays.

    Promoters of duplicated genes would otherwise make a motif of whatever they share.
    """
    kmers, offsets = distinct_kmers(codes_SW, SHARED_BASES)
    telling = ~is_low_complexity(kmers, SHARED_BASES)
    window = np.repeat(np.arange(len(codes_SW)), np.diff(offsets))[telling]
    order = np.argsort(kmers[telling], kind="stable")
    kmer, window = kmers[telling][order], window[order]
    shared = [members for members in np.split(window, np.flatnonzero(np.diff(kmer)) + 1) if members.size > 1]
    keep = np.ones(len(codes_SW), dtype=np.bool_)
    for members in sorted(shared, key=lambda members: tuple(members.tolist())):
        kept = members[keep[members]]
        keep[kept[1:]] = False
    return keep


def control_windows(
    seqlets: pd.DataFrame, num_genes: int, copies: int, rng: np.random.Generator
) -> pd.DataFrame:
    """`copies` windows for each seqlet, at the same position in other promoters, drawn at random."""
    step = 1 + (rng.random((copies, len(seqlets))) * max(1, num_genes - 1)).astype(np.int64)
    gene = (seqlets["gene"].to_numpy() + step) % max(1, num_genes)
    return pd.DataFrame({"gene": gene.ravel(), "centre": np.tile(seqlets["centre"], copies)})


def _cut(values_GL: NDArray[_Number], seqlets: pd.DataFrame, width: int, beyond: float) -> NDArray[_Number]:
    position = seqlets["centre"].to_numpy()[:, None] - width // 2 + np.arange(width)
    inside = (position >= 0) & (position < values_GL.shape[1])
    cut: NDArray[_Number] = values_GL[seqlets["gene"].to_numpy()[:, None], np.where(inside, position, 0)]
    cut[~inside] = beyond
    return cut


class MergedMotif(NamedTuple):
    """A motif of the maps of a file."""

    motif: Motif
    row: dict[str, object]
    """Of motifs.tsv, without matches."""
    seqlets: Counter[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """Maps in which motifs are searched where they are high, or where they raise or lower the response."""

    kind: str
    """`attention`, `attribution`, `raising` or `lowering`."""
    maps: PromoterMaps
    codes: NDArray[np.uint8]
    """(promoters, L)."""

    def reference(self, name: str | None) -> NDArray[np.float32]:
        """The maps (promoters, K) of a treatment, or with None (or `mean`, unless one is called so) the mean."""
        known = name if name in self.maps.treatments else None
        return self.maps.read(np.arange(len(self.codes)), known).astype(np.float32)

    def heights(
        self, rows: slice, treatment: str, reference: NDArray[np.float32] | None
    ) -> NDArray[np.float64]:
        """The map in which peaks are sought, less a reference (promoters, K): not negative, (B, L)."""
        values = self.maps.block(rows, [treatment])[:, 0]
        values = self.maps.per_base(values if reference is None else values - reference[rows])
        if self.kind == Quantity.ATTRIBUTION:
            return np.abs(values)
        return np.maximum(SIGNS.get(self.kind, 1) * values, 0)


def find_motifs(
    searched: Searched, treatments: Sequence[str], settings: MotifSettings, progress: Progress = SILENT
) -> tuple[list[MergedMotif], dict[str, pd.DataFrame]]:
    """Search the maps of each treatment, and merge motifs of treatments that are alike.

    Returns the motifs, named after the kind of map, those of most sites first, and by treatment the seqlets:
    columns gene, centre and score.
    """
    reference = None if settings.against is None else searched.reference(settings.against)
    seqlets: dict[str, pd.DataFrame] = {}
    found: list[tuple[str, FoundMotif]] = []
    for treatment in watched(progress, f"motifs in {searched.kind}", treatments):
        seqlets[treatment], motifs = search_treatment(searched, treatment, settings, reference)
        found += [(treatment, motif) for motif in motifs]
    merged = []
    probabilities = [motif.probabilities for _, motif in found]
    for number, cluster in enumerate(merge_motifs(probabilities, [motif.seqlets for _, motif in found]), 1):
        name, sites = f"{searched.kind}_{number}", cluster.sites
        motif = Motif(name=name, probabilities=cluster.probabilities, sites=sites)
        members = [found[member] for member in cluster.members]
        counts: Counter[str] = Counter()
        for treatment, member in members:
            counts[treatment] += member.seqlets
        treatment, surest = min(members, key=lambda member: member[1].log_p)
        row = {
            **motif_row(motif, searched.kind),
            "treatments": len(counts),
            "surest_treatment": treatment,
            "share": surest.share,
            "control_share": surest.control_share,
            "log10_p": surest.log_p / np.log(10),
        }
        merged.append(MergedMotif(motif, row, counts))
    return merged, seqlets


def highest_peaks(
    searched: Searched, treatment: str, settings: MotifSettings, reference: NDArray[np.float32] | None
) -> pd.DataFrame:
    """The `max_seqlets` highest peaks of a treatment's map: columns gene, centre and score, best first."""
    maps = searched.maps
    blocks = list(maps.blocks())
    total_L = np.zeros(maps.window_length)
    for rows in blocks:
        total_L += searched.heights(rows, treatment, reference).sum(axis=0)
    usual_L = total_L / max(1, len(maps.samples))
    parts = []
    for rows in blocks:
        peaks = find_peaks(
            searched.heights(rows, treatment, reference),
            usual_L,
            apart=maps.reach,
            per_promoter=PEAKS_PER_PROMOTER,
            first=rows.start,
        )
        # Of a block no more than all blocks together may give, so that memory stays flat.
        parts.append(best_seqlets(peaks, settings.max_seqlets))
    return best_seqlets(pd.concat(parts), settings.max_seqlets)


def search_treatment(
    searched: Searched, treatment: str, settings: MotifSettings, reference: NDArray[np.float32] | None = None
) -> tuple[pd.DataFrame, list[FoundMotif]]:
    """Cut out the seqlets of a treatment (columns gene, centre and score) and look for motifs in them."""
    maps, codes = searched.maps, searched.codes
    width = maps.reach + 2 * PAD
    seqlets = highest_peaks(searched, treatment, settings, reference)
    if searched.kind in SIGNS:
        # Both signs share the number, so that what is faint beside the other sign is no seqlet.
        (other,) = SIGNS.keys() - {searched.kind}
        rivals = highest_peaks(replace(searched, kind=other), treatment, settings, reference)
        scores = np.sort(np.concatenate([seqlets["score"], rivals["score"]]))[::-1]
        if len(scores) > settings.max_seqlets:
            seqlets = seqlets[seqlets["score"] > scores[settings.max_seqlets]]
    seqlets = seqlets[without_copies(cut_codes(codes, seqlets, width))].reset_index(drop=True)
    if seqlets.empty:
        return seqlets, []
    controls = control_windows(seqlets, len(codes), CONTROLS, np.random.default_rng(settings.seed))
    prior = np.zeros((len(seqlets), width), dtype=np.float32)
    for rows in maps.blocks():
        inside = seqlets["gene"].between(rows.start, rows.stop - 1)
        if inside.any():
            heights = searched.heights(rows, treatment, reference)
            prior[inside] = cut_map(heights, seqlets[inside], width, first=rows.start)
    return seqlets, discover_motifs(
        cut_codes(codes, seqlets, width),
        prior,
        cut_codes(codes, controls, width),
        base_composition(codes),
        max_motifs=settings.max_motifs,
    )


def motif_row(motif: Motif, source: str) -> dict[str, object]:
    """The columns of motifs.tsv that every motif has. source: `filter`, or the kind of its maps."""
    return {
        "motif": motif.name,
        "source": source,
        "consensus": motif.iupac_consensus,
        "width": motif.width,
        "seqlets": motif.sites,
        "information_bits": motif.information,
    }
