"""The search for motifs in a file of attention or attribution: by treatment, merged, and tested for use.

Where a reference is held, peaks are where the map gains against it, which finds what is particular to a treatment;
else where it is high. A place that is high in all promoters (near the start of transcription, say) is no peak: the
mean over promoters is taken off first.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bioattn.choices import MEAN
from bioattn.errors import SettingsError
from bioattn.formats.motif import Motif
from bioattn.interpret.maps.promoter_maps import PromoterMaps
from bioattn.interpret.motifs.clusters import merge_motifs
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
from bioattn.interpret.motifs.use import MotifUse

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
            prior[own] = cut_map(maps.heights(rows, treatment), places.take(own), width, first=rows.start)
    motifs = discover_motifs(
        Seqlets(codes=cut_codes(maps.codes, places, width), prior=prior),
        cut_codes(maps.codes, controls, width),
        base_composition(maps.codes),
        max_motifs=max_motifs,
    )
    return TreatmentMotifs(places=places, motifs=motifs)


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
        self._found: dict[str, TreatmentMotifs] = {}
        self._members: list[list[tuple[str, FoundMotif]]] = []
        if settings.against is not None:
            maps.hold_reference(settings.against)

    def search(self, treatment: str) -> None:
        """Find the motifs of a treatment."""
        self._found[treatment] = find_treatment_motifs(
            self.maps,
            treatment,
            max_seqlets=self.settings.max_seqlets,
            max_motifs=self.settings.max_motifs,
            seed=self.settings.seed,
        )

    def merge(self) -> None:
        """Merge motifs of treatments that are alike."""
        motifs = [(name, motif) for name, each in self._found.items() for motif in each.motifs]
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
                **_row(motif, self.maps.kind),
                "treatments": len({name for name, _ in members}),
                "surest_treatment": treatment,
                "share": surest.share,
                "control_share": surest.control_share,
                "log10_p": surest.log_p / np.log(10),
            }

    def use(self) -> MotifUse:
        """Look for the motifs in all promoters; the reference is held from now on."""
        if not self.maps.reference_held:
            self.maps.hold_reference(None)
        return MotifUse(self.maps, self.motifs)

    def compared(self, use: MotifUse, treatment: str) -> list[dict[str, object]]:
        """Rows of treatments.tsv of a treatment, without q-values."""
        reference = self.settings.against or MEAN
        if reference == MEAN and len(self.maps.treatments) == 1:
            reference = treatment
        return list(use.against(treatment, reference, self._seqlets(treatment)))

    def edges(self, use: MotifUse, treatment: str) -> pd.DataFrame:
        """Rows of edges.tsv of a treatment, without chromosome places."""
        places = self._found[treatment].places
        return use.edges(treatment, places, list(self.maps.samples.index), self._seqlets(treatment))

    def _seqlets(self, treatment: str) -> list[int]:
        """How many seqlets of a treatment hold each motif."""
        return [
            sum(motif.seqlets for name, motif in members if name == treatment) for members in self._members
        ]


def filter_row(motif: Motif) -> dict[str, object]:
    """A row of motifs.tsv for the motif of a filter."""
    return _row(motif, FILTER)


def _row(motif: Motif, source: str) -> dict[str, object]:
    return {
        "motif": motif.name,
        "source": source,
        "consensus": motif.iupac_consensus,
        "width": motif.width,
        "seqlets": motif.sites,
        "information_bits": motif.information,
    }
