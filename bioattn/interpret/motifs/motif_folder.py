"""What `bioattn export motifs` found (docs/formats/motifs.md), as far as a report shows it."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TreatmentMotif:
    """A motif under a treatment beside its reference."""

    treatment: str
    motif: str
    reference: str
    ratio: float | None
    q_value: float | None


@dataclass(frozen=True, slots=True)
class AttendedSite:
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
    """Names of the motifs that are filters of the first layer."""
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
        gained = [
            each
            for each in self.treatments
            if each.motif == motif
            and (each.ratio or 0) > 1
            and (each.q_value is None or each.q_value <= SURE)
        ]
        return sorted(gained, key=lambda each: (-(each.ratio or 0), each.treatment))

    def by_treatment(self) -> dict[str, list[TreatmentMotif]]:
        """At most six motifs of every treatment, the largest ratios first, of those that are shown."""
        shown = {motif.name for motif in self.motifs}
        rows: dict[str, list[TreatmentMotif]] = {each.treatment: [] for each in self.treatments}
        for each in sorted(self.treatments, key=lambda entry: -(entry.ratio or 0.0)):
            if each.motif in shown and each.ratio is not None and len(rows[each.treatment]) < 6:
                rows[each.treatment].append(each)
        return rows


def read_motif_export(folder: Path) -> MotifResults:
    """Read motifs and their use. Raises: FormatError when a table of the folder is missing or lacks a column."""
    motifs = _table(folder / MOTIFS, ("motif", "source", "consensus", "seqlets"))
    path = folder / MEME
    # An export without motifs has the header of a MEME file alone, which is no database to read.
    matrices = (
        {motif.name: motif.probabilities for motif in read_meme(path).motifs}
        if len(motifs) and path.is_file()
        else {}
    )
    every = []
    for row in motifs.to_dict("records"):
        accession, factor, seqlets = row.get("match", ""), row.get("match_name", ""), _float(row, "seqlets")
        every.append(
            FoundMotif(
                name=row["motif"],
                source=row["source"],
                consensus=row["consensus"],
                seqlets=None if seqlets is None else int(seqlets),
                bits=_float(row, "information_bits"),
                match=f"{factor} ({accession})" if factor not in ("", accession) else accession,
                match_q_value=_float(row, "match_q_value"),
                probabilities=matrices.get(row["motif"]),
            )
        )
    order = sorted(every, key=lambda motif: (motif.source == "filter", -(motif.seqlets or 0), motif.name))
    use = []
    if (folder / TREATMENTS).is_file():
        use = [
            TreatmentMotif(
                treatment=row["treatment"],
                motif=row["motif"],
                reference=row.get("reference", ""),
                ratio=_float(row, "ratio"),
                q_value=_float(row, "q_value"),
            )
            for row in _table(folder / TREATMENTS, ("treatment", "motif")).to_dict("records")
        ]
    try:
        digest = str(read_json(folder / MOTIF_FOLDER.record)["sources"]["model"]["sha256"])
    except (KeyError, TypeError):
        digest = ""
    return MotifResults(
        motifs=order[:MAX_MOTIFS],
        num_by_source=dict(sorted(Counter(motif.source for motif in every).items())),
        treatments=[row for row in use if row.reference != BACKGROUND] or use,
        filters=frozenset(motif.name for motif in every if motif.source == "filter"),
        model_sha256=digest,
    )


def read_attended(folder: Path, genes: Collection[str]) -> dict[str, list[AttendedSite]]:
    """The attended sites of some promoters, by gene, best first and `MAX_ATTENDED` of each at most.

    Raises: FormatError when a column is missing or a position is no number.
    """
    path = folder / EDGES
    if not path.is_file():
        return {}
    edges = _table(path, ("treatment", "motif", "gene_id", "start", "end"))
    edges = edges[edges["gene_id"].isin(list(genes))]
    start, end = (pd.to_numeric(edges[name], errors="coerce") for name in ("start", "end"))
    if (bad := start.isna() | end.isna()).any():
        line = edges.index.to_numpy()[bad.to_numpy()][0] + 2  # below the header, counted from 1
        raise FormatError(f"{path}:{line}: a start or end is no number; run `bioattn export motifs` again")
    scores = edges["score"] if "score" in edges else pd.Series("", index=edges.index)
    edges = edges.assign(start=start, end=end, score=pd.to_numeric(scores, errors="coerce").fillna(0.0))
    best = edges.sort_values("score", ascending=False, kind="stable").groupby("gene_id").head(MAX_ATTENDED)
    attended: dict[str, list[AttendedSite]] = {}
    for row in best.to_dict("records"):
        site = AttendedSite(row["treatment"], row["motif"], int(row["start"]), int(row["end"]))
        attended.setdefault(row["gene_id"], []).append(site)
    return attended


def _table(path: Path, columns: tuple[str, ...]) -> pd.DataFrame:
    """The cells of a table of the export, as text."""
    if not path.is_file():
        raise FormatError(f"{path.parent}: has no {path.name}; run `bioattn export motifs` again")
    try:
        table = pd.read_csv(path, sep="\t", dtype=str, keep_default_na=False, index_col=False)
    except (ValueError, OSError) as error:
        raise FormatError(f"{path}: is no table ({error}); run `bioattn export motifs` again") from error
    missing = [name for name in columns if name not in table]
    if missing:
        raise FormatError(f"{path}: has no column {missing[0]!r}; run `bioattn export motifs` again")
    return table.fillna("")


def _float(row: Mapping[Any, Any], column: str) -> float | None:
    try:
        value = float(row.get(column, ""))
    except ValueError:
        return None
    return value if np.isfinite(value) else None
