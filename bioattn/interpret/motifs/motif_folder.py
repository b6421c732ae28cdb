"""What `bioattn export motifs` found (docs/formats/motifs.md), as far as a report shows it."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.errors import FormatError
from bioattn.formats.meme import read_meme
from bioattn.interpret.file_kinds import EDGES, MEME, MOTIF_FOLDER, MOTIFS, TREATMENTS
from bioattn.interpret.motifs.use import BACKGROUND
from bioattn.io.files import read_json

MAX_MOTIFS = 60
"""Logos on a page, those with most seqlets first."""

SURE = 0.05
"""A larger q-value is no finding."""
MAX_ATTENDED = 200
"""Attended sites shown of one promoter, all treatments together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMotif:
    """One motif of the export."""

    name: str
    source: str
    """attention, attribution or filter."""
    consensus: str
    seqlets: int | None
    bits: float | None
    match: str
    match_q_value: float | None
    probabilities: NDArray[np.float64] | None
    """(W, 4): A, C, G, T."""

    @property
    def title(self) -> str:
        """The factor that it resembles, where that is sure, and the name."""
        sure = self.match_q_value is not None and self.match_q_value <= SURE
        return f"{self.match.partition(' (')[0]} ({self.name})" if self.match and sure else self.name


class TreatmentMotif(NamedTuple):
    """A motif under a treatment beside its reference."""

    treatment: str
    motif: str
    reference: str
    ratio: float | None
    q_value: float | None


class AttendedSite(NamedTuple):
    """A place in a window where attention under a treatment found a motif; positions from 0, 5'→3'."""

    treatment: str
    motif: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MotifResults:
    """The export."""

    motifs: list[FoundMotif]
    """Filters last."""
    num_by_source: dict[str, int]
    """Motifs of the export from attention, attribution and filters; `motifs` may be fewer."""
    treatments: list[TreatmentMotif]
    """Against another treatment or the mean of all where the export compares so, else against the background."""
    filters: frozenset[str]
    model_sha256: str
    """Empty where the export was made without the model."""

    def title(self, name: str) -> str:
        """How a motif is called on a page."""
        return next((motif.title for motif in self.motifs if motif.name == name), name)

    @property
    def num_motifs(self) -> int:
        return sum(self.num_by_source.values())

    def gains(self, motif: str) -> list[TreatmentMotif]:
        """The treatments in which a motif gains attention, unless that is not sure; the largest gain first."""
        sure = [each for each in self.treatments if each.q_value is None or each.q_value <= SURE]
        gained = [each for each in sure if each.motif == motif and (each.ratio or 0) > 1]
        return sorted(gained, key=lambda each: (-(each.ratio or 0), each.treatment))

    def by_treatment(self) -> dict[str, list[TreatmentMotif]]:
        """At most six motifs of every treatment, the largest ratios first, of those that are shown."""
        shown = {motif.name for motif in self.motifs}
        rows: dict[str, list[TreatmentMotif]] = {each.treatment: [] for each in self.treatments}
        for each in sorted(self.treatments, key=lambda entry: -(entry.ratio or 0.0)):
            if each.motif in shown and each.ratio is not None and len(rows[each.treatment]) < 6:
                rows[each.treatment].append(each)
        return rows


TEXT, NUMBER = "str", "float64"


def read_motif_export(folder: Path) -> MotifResults:
    """Read motifs and their use. Raises: FormatError when a table of the folder is missing or damaged."""
    texts, numbers = ("motif", "source", "consensus", "match", "match_name"), ("seqlets", "information_bits")
    columns = dict.fromkeys(texts, TEXT) | dict.fromkeys((*numbers, "match_q_value"), NUMBER)
    motifs = _table(folder / MOTIFS, columns)
    # An export without motifs has the header of a MEME file alone, which is no database to read.
    database = read_meme(folder / MEME).motifs if len(motifs) else []
    matrices = {motif.name: motif.probabilities for motif in database}
    every = [
        FoundMotif(
            name=row.motif,
            source=row.source,
            consensus=row.consensus,
            seqlets=None if np.isnan(row.seqlets) else int(row.seqlets),
            bits=_known(row.information_bits),
            match=f"{row.match_name} ({row.match})" if row.match_name not in ("", row.match) else row.match,
            match_q_value=_known(row.match_q_value),
            probabilities=matrices.get(row.motif),
        )
        for row in motifs.itertuples()
    ]
    order = sorted(every, key=lambda motif: (motif.source == "filter", -(motif.seqlets or 0), motif.name))
    columns = dict.fromkeys(("treatment", "motif", "reference"), TEXT) | {"ratio": NUMBER, "q_value": NUMBER}
    table = _table(folder / TREATMENTS, columns)
    table = table.astype(object).where(table.notna(), None)
    use = [TreatmentMotif(*row) for row in table.itertuples(index=False)]
    sources = read_json(folder / MOTIF_FOLDER.record).get("sources", {})
    return MotifResults(
        motifs=order[:MAX_MOTIFS],
        num_by_source=dict(sorted(Counter(motif.source for motif in every).items())),
        treatments=[row for row in use if row.reference != BACKGROUND] or use,
        filters=frozenset(motif.name for motif in every if motif.source == "filter"),
        model_sha256=sources.get("model", {}).get("sha256", ""),
    )


def read_attended(folder: Path, genes: Collection[str]) -> dict[str, list[AttendedSite]]:
    """The attended sites of some promoters, by gene, best first and `MAX_ATTENDED` of each at most.

    Raises: FormatError when the table is missing or damaged.
    """
    columns = dict.fromkeys(("treatment", "motif", "gene_id"), TEXT)
    edges = _table(folder / EDGES, columns | {"start": "int64", "end": "int64", "score": NUMBER})
    edges = edges[edges["gene_id"].isin(list(genes))]
    best = edges.sort_values("score", ascending=False, kind="stable").groupby("gene_id").head(MAX_ATTENDED)
    attended: dict[str, list[AttendedSite]] = {}
    for row in best.itertuples():
        site = AttendedSite(row.treatment, row.motif, row.start, row.end)
        attended.setdefault(row.gene_id, []).append(site)
    return attended


def _table(path: Path, columns: dict[str, str]) -> Any:
    """Some columns of a table of the export, by their types. Raises: FormatError when it is missing or damaged."""
    missing = {name: ["", "inf", "-inf"] for name, kind in columns.items() if kind == NUMBER}
    try:
        table = pd.read_csv(
            path, sep="\t", usecols=list(columns), dtype=columns, keep_default_na=False, na_values=missing
        )
        return table[list(columns)]
    except (ValueError, OSError) as error:
        raise FormatError(f"{path}: cannot be read ({error}); run `bioattn export motifs` again") from error


def _known(value: float) -> float | None:
    return value if np.isfinite(value) else None
