"""The search for motifs in a file of attention or attribution: by treatment, merged, and tested for use.

Where a reference is held, peaks are where the map gains against it, which finds what is particular to a treatment;
else where it is high. A place that is high in all promoters (near the start of transcription, say) is no peak: the
mean over promoters is taken off first.

What was found again and again is one motif: matrices of many treatments, aligned and merged. Two matrices are
as alike as the cosine of their information-weighted columns in the best alignment without gaps, on either
strand; columns that stand alone count against it. Average linkage joins matrices until clusters are less alike
than `SAME`.

Shapes: N matrices, W positions, K positions of the merged matrix.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from bioattn.choices import MEAN
from bioattn.errors import SettingsError
from bioattn.formats.motifs import UNIFORM_BACKGROUND, Motif, position_information
from bioattn.interpret.maps.promoter_maps import PromoterMaps
from bioattn.interpret.motifs.discovery import PAD, FoundMotif, discover_motifs, trim_vague_ends
from bioattn.interpret.motifs.hits import base_composition
from bioattn.interpret.motifs.seqlets import (
    Places,
    best_places,
    control_places,
    cut_codes,
    cut_map,
    find_peaks,
    usual_map,
    without_copies,
)
from bioattn.interpret.motifs.use import MotifUse

SAME = 0.85
"""Matrices this much alike on average are one motif."""


class MergedMotif(NamedTuple):
    """A motif of one or more matrices."""

    probabilities: NDArray[np.float64]
    """(K, 4)."""
    sites: int
    members: tuple[int, ...]
    """Numbers of the matrices, that of most sites first."""


def merge_motifs(matrices: Sequence[NDArray[np.float64]], sites: Sequence[int]) -> list[MergedMotif]:
    """Cluster matrices (W, 4) made of so many sites each; the motif of most sites first."""
    if not matrices:
        return []
    weighted = [information_weighted(matrix) for matrix in matrices]
    labels = np.zeros(1, dtype=np.int32)
    if len(weighted) > 1:
        distance = 1 - similarities(weighted)
        np.fill_diagonal(distance, 0)
        labels = fcluster(linkage(squareform(distance, checks=False), "average"), 1 - SAME, "distance")
    merged = []
    for label in np.unique(labels):
        members = sorted(np.flatnonzero(labels == label).tolist(), key=lambda n: (-sites[n], n))
        probabilities = _merged(
            [matrices[n] for n in members], [weighted[n] for n in members], [sites[n] for n in members]
        )
        merged.append(MergedMotif(probabilities, sum(sites[n] for n in members), tuple(members)))
    return sorted(merged, key=lambda motif: (-motif.sites, motif.members))


def information_weighted(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities less the background, times the position's bits, divided by the root of the sum of squares."""
    weighted = (matrix - UNIFORM_BACKGROUND) * position_information(matrix)[:, None]
    norm = float(np.sqrt(np.sum(weighted**2)))
    return weighted / max(norm, np.finfo(np.float64).tiny)


def best_alignment(first: NDArray[np.float64], second: NDArray[np.float64]) -> tuple[float, int, bool]:
    """Where `second` lies on `first`: cosine, offset of its first position, and whether turned round.

    Both as of `information_weighted`. Ties go to the strand as it stands and the smaller offset.
    """
    best = (-np.inf, 0, False)
    for turned in (False, True):
        other = second[::-1, ::-1] if turned else second
        for offset in range(1 - len(other), len(first)):
            low, high = max(0, offset), min(len(first), offset + len(other))
            value = float(np.sum(first[low:high] * other[low - offset : high - offset]))
            if value > best[0] + 1e-12:
                best = value, offset, turned
    return best


def similarities(weighted: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Cosine of every two matrices in their best alignment, (N, N); 0 where side by side is best."""
    number, width = len(weighted), max(len(matrix) for matrix in weighted)
    plain, turned = np.zeros((number, width, 4)), np.zeros((number, width, 4))
    for row, matrix in enumerate(weighted):
        plain[row, : len(matrix)] = matrix
        turned[row, width - len(matrix) :] = matrix[::-1, ::-1]
    best = np.zeros((number, number))
    for shift in range(1 - width, width):
        low, high = max(0, shift), min(width, width + shift)
        here = plain[:, low:high].reshape(number, -1)
        for other in (plain, turned):
            there = other[:, low - shift : high - shift].reshape(number, -1)
            np.maximum(best, here @ there.T, out=best)
    return np.minimum(np.maximum(best, best.T), 1.0)


def _merged(
    matrices: Sequence[NDArray[np.float64]], weighted: Sequence[NDArray[np.float64]], sites: Sequence[int]
) -> NDArray[np.float64]:
    """The mean of matrices weighted by their sites, aligned to the first; positions nobody knows are uniform."""
    margin = max(len(matrix) for matrix in matrices)
    counts = np.zeros((len(matrices[0]) + 2 * margin, 4))
    for matrix, columns, number in zip(matrices, weighted, sites, strict=True):
        _, offset, turned = best_alignment(weighted[0], columns)
        placed = np.tile(np.array(UNIFORM_BACKGROUND), (len(counts), 1))
        placed[margin + offset : margin + offset + len(matrix)] = matrix[::-1, ::-1] if turned else matrix
        counts += number * placed
    mean = counts / counts.sum(axis=1, keepdims=True)
    trimmed = trim_vague_ends(mean, 0.0)
    return np.asarray(matrices[0]) if trimmed is None else trimmed


PEAKS_PER_PROMOTER = 3
CONTROLS = 3
"""Control windows for each seqlet."""


FILTER = "filter"


@dataclass(frozen=True, slots=True, kw_only=True)
class MotifSettings:
    """Settings of the search for motifs."""

    sites: tuple[str, ...] = ("*",)
    """Shell patterns of attention sites, which are averaged."""
    heads: tuple[int, ...] | None = None
    """The model's heads that are averaged; None = all that the file holds."""
    against: str | None = None
    """A treatment, or `mean`: seqlets are where maps gain against it; None = where they are high."""
    max_seqlets: int = 1000
    """Of a treatment."""
    max_motifs: int = 5
    """Of a treatment."""
    seed: int = 0
    """Of the control windows."""

    def __post_init__(self) -> None:
        for name in ("max_seqlets", "max_motifs"):
            if getattr(self, name) < 1:
                raise SettingsError(
                    f"--{name.replace('_', '-')} must be at least 1, not {getattr(self, name)}"
                )


class MotifSource:
    """A file's maps with the motifs found in them."""

    def __init__(self, maps: PromoterMaps, treatments: Sequence[str], settings: MotifSettings) -> None:
        self.maps = maps
        self.treatments = list(treatments)
        self.settings = settings
        self.motifs: list[Motif] = []
        """After `merge`: named after the kind of map, those of most sites first."""
        self._found: dict[str, tuple[Places, list[FoundMotif]]] = {}
        """Seqlets and motifs by treatment."""
        self._members: list[list[tuple[str, FoundMotif]]] = []
        if settings.against is not None:
            maps.hold_reference(settings.against)

    def search(self, treatment: str) -> None:
        """Cut out the seqlets of a treatment and look for motifs in them."""
        maps, settings = self.maps, self.settings
        usual_L = usual_map((maps.heights(rows, treatment) for rows in maps.blocks()), maps.length)
        parts = []
        for rows in maps.blocks():
            peaks = find_peaks(
                maps.heights(rows, treatment),
                usual_L,
                apart=maps.reach,
                per_promoter=PEAKS_PER_PROMOTER,
                first=rows.start,
            )
            # Of a block no more than all blocks together may give, so that memory stays flat.
            parts.append(best_places([peaks], settings.max_seqlets))
        width = maps.reach + 2 * PAD
        places = best_places(parts, settings.max_seqlets)
        places = places.take(without_copies(cut_codes(maps.codes, places, width)))
        if not len(places):
            self._found[treatment] = places, []
            return
        controls = control_places(places, len(maps.codes), CONTROLS, np.random.default_rng(settings.seed))
        prior = np.zeros((len(places), width), dtype=np.float32)
        for rows in maps.blocks():
            own = np.flatnonzero((places.gene >= rows.start) & (places.gene < rows.stop))
            if own.size:
                prior[own] = cut_map(maps.heights(rows, treatment), places.take(own), width, first=rows.start)
        motifs = discover_motifs(
            cut_codes(maps.codes, places, width),
            prior,
            cut_codes(maps.codes, controls, width),
            base_composition(maps.codes),
            max_motifs=settings.max_motifs,
        )
        self._found[treatment] = places, motifs

    def merge(self) -> None:
        """Merge motifs of treatments that are alike."""
        motifs = [(name, motif) for name, (_, found) in self._found.items() for motif in found]
        merged = merge_motifs(
            [motif.probabilities for _, motif in motifs], [motif.seqlets for _, motif in motifs]
        )
        self.motifs = [
            Motif(name=f"{self.maps.kind}_{number}", probabilities=motif.probabilities, sites=motif.sites)
            for number, motif in enumerate(merged, start=1)
        ]
        self._members = [[motifs[number] for number in motif.members] for motif in merged]

    def table(self) -> Iterator[dict[str, object]]:
        """A row of motifs.tsv for each motif, without its matches."""
        for motif, members in zip(self.motifs, self._members, strict=True):
            treatment, surest = min(members, key=lambda member: member[1].log_p)
            yield {
                **motif_row(motif, self.maps.kind),
                "treatments": len({name for name, _ in members}),
                "surest_treatment": treatment,
                "share": surest.share,
                "control_share": surest.control_share,
                "log10_p": surest.log_p / np.log(10),
            }

    def find_use(self) -> None:
        """Look for the motifs in all promoters; the reference is held from now on."""
        if not self.maps.reference_held:
            self.maps.hold_reference(None)
        self._use = MotifUse(self.maps, self.motifs)

    def compared(self, treatment: str) -> list[dict[str, object]]:
        """Rows of treatments.tsv of a treatment, without q-values."""
        reference = self.settings.against or MEAN
        if reference == MEAN and len(self.maps.treatments) == 1:
            reference = treatment
        return list(self._use.against(treatment, reference, self._seqlets(treatment)))

    def edges(self, treatment: str) -> pd.DataFrame:
        """Rows of edges.tsv of a treatment, without chromosome places."""
        places, _ = self._found[treatment]
        return self._use.edges(treatment, places, list(self.maps.samples.index), self._seqlets(treatment))

    def _seqlets(self, treatment: str) -> list[int]:
        """How many seqlets of a treatment hold each motif."""
        return [
            sum(motif.seqlets for name, motif in members if name == treatment) for members in self._members
        ]


def motif_row(motif: Motif, source: str) -> dict[str, object]:
    """What a row of motifs.tsv says of every motif. source: `FILTER`, or the kind of its maps."""
    return {
        "motif": motif.name,
        "source": source,
        "consensus": motif.iupac_consensus,
        "width": motif.width,
        "seqlets": motif.sites,
        "information_bits": motif.information,
    }
