"""The motifs of one treatment, found in the peaks of its maps.

Where a reference is held, peaks are where the map gains against it, which finds what is particular to a treatment;
else where it is high. A place that is high in all promoters (near the start of transcription, say) is no peak: the
mean over promoters is taken off first.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bioattn.interpret.maps.promoter_maps import ATTRIBUTION, PromoterMaps
from bioattn.interpret.motifs.discovery import PAD, FoundMotif, discover_motifs
from bioattn.interpret.motifs.hits import base_composition
from bioattn.interpret.motifs.seqlets import (
    Places,
    Seqlets,
    best_places,
    control_places,
    cut_codes,
    cut_map,
    find_peaks,
    usual_map,
    without_copies,
)

PEAKS_PER_PROMOTER = 3
CONTROLS = 3
"""Control windows for each seqlet."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TreatmentMotifs:
    """The seqlets and motifs of one treatment."""

    places: Places
    """Of its seqlets."""
    motifs: list[FoundMotif]


def find_treatment_motifs(
    maps: PromoterMaps, treatment: str, *, max_seqlets: int, max_motifs: int, seed: int
) -> TreatmentMotifs:
    """Cut out up to `max_seqlets` seqlets of a treatment and look for motifs in them."""
    usual_L = usual_map((_heights(maps, rows, treatment) for rows in maps.blocks()), maps.length)
    parts = []
    for rows in maps.blocks():
        peaks = find_peaks(
            _heights(maps, rows, treatment),
            usual_L,
            apart=maps.reach,
            per_promoter=PEAKS_PER_PROMOTER,
            first=rows.start,
        )
        # Of a block no more than all blocks together may give, so that memory stays flat.
        parts.append(best_places([peaks], max_seqlets))
    width = maps.reach + 2 * PAD
    places = best_places(parts, max_seqlets)
    places = places.take(without_copies(cut_codes(maps.codes, places, width)))
    if not len(places):
        return TreatmentMotifs(places=places, motifs=[])
    controls = control_places(places, len(maps.codes), CONTROLS, np.random.default_rng(seed))
    prior = np.zeros((len(places), width), dtype=np.float32)
    for rows in maps.blocks():
        own = np.flatnonzero((places.gene >= rows.start) & (places.gene < rows.stop))
        if own.size:
            prior[own] = cut_map(_heights(maps, rows, treatment), places.take(own), width, first=rows.start)
    motifs = discover_motifs(
        Seqlets(codes=cut_codes(maps.codes, places, width), prior=prior),
        cut_codes(maps.codes, controls, width),
        base_composition(maps.codes),
        max_motifs=max_motifs,
    )
    return TreatmentMotifs(places=places, motifs=motifs)


def _heights(maps: PromoterMaps, rows: slice, treatment: str) -> NDArray[np.float64]:
    """The map in which peaks are sought: not negative, (B, L)."""
    values = maps.difference(rows, treatment) if maps.reference_held else maps.read(rows, treatment)
    return np.abs(values) if maps.kind == ATTRIBUTION else np.maximum(values, 0)
