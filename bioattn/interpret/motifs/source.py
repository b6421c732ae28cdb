"""The search for motifs in a file of attention or attribution: by treatment, merged, and tested for use."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bioattn.choices import MEAN
from bioattn.errors import SettingsError
from bioattn.formats.motif import Motif
from bioattn.interpret.maps.promoter_maps import PromoterMaps
from bioattn.interpret.motifs.clusters import merge_motifs
from bioattn.interpret.motifs.discovery import FoundMotif
from bioattn.interpret.motifs.treatment_motifs import TreatmentMotifs, find_treatment_motifs
from bioattn.interpret.motifs.use import MotifUse

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
