"""What `bioattn export motifs` found (docs/formats/motifs.md), as far as a report shows it."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.errors import FormatError
from bioattn.files import read_lines

MAX_MOTIFS = 60
"""Logos on a page, those with most seqlets first."""


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
    """Closest motif of the database, empty without one."""
    match_q_value: float | None
    probabilities: NDArray[np.float64] | None
    """(W, 4): A, C, G, T."""


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
    num_motifs: int
    """Of the export; `motifs` may be fewer."""
    treatments: list[TreatmentMotif]
    attended: dict[str, list[AttendedSite]]
    """By gene."""


def read_motif_export(folder: Path) -> MotifResults:
    """Raises: FormatError when a table of the folder is missing or lacks a column."""
    from bioattn.formats.meme import read_meme

    motifs = _table(folder / "motifs.tsv", ("motif", "source", "consensus", "seqlets"))
    path = folder / "motifs.meme"
    matrices = {motif.name: motif.probabilities for motif in read_meme(path).motifs} if path.is_file() else {}
    found = [
        FoundMotif(
            name=row["motif"],
            source=row["source"],
            consensus=row["consensus"],
            seqlets=None if (n := _float(row.get("seqlets", ""))) is None else int(n),
            bits=_float(row.get("information_bits", "")),
            match=row.get("match", ""),
            match_q_value=_float(row.get("match_q_value", "")),
            probabilities=matrices.get(row["motif"]),
        )
        for row in motifs
    ]
    order = sorted(found, key=lambda motif: (motif.source == "filter", -(motif.seqlets or 0), motif.name))
    return MotifResults(
        motifs=order[:MAX_MOTIFS],
        num_motifs=len(found),
        treatments=_treatments(folder / "treatments.tsv"),
        attended=_attended(folder / "edges.tsv"),
    )


def _treatments(path: Path) -> list[TreatmentMotif]:
    if not path.is_file():
        return []
    return [
        TreatmentMotif(
            treatment=row["treatment"],
            motif=row["motif"],
            reference=row.get("reference", ""),
            ratio=_float(row.get("ratio", "")),
            q_value=_float(row.get("q_value", "")),
        )
        for row in _table(path, ("treatment", "motif"))
    ]


def _attended(path: Path) -> dict[str, list[AttendedSite]]:
    if not path.is_file():
        return {}
    sites: dict[str, list[AttendedSite]] = {}
    for number, row in enumerate(_table(path, ("treatment", "motif", "gene_id", "start", "end")), start=2):
        try:
            site = AttendedSite(row["treatment"], row["motif"], int(row["start"]), int(row["end"]))
        except ValueError as error:
            raise FormatError(f"{path}:{number}: {error}") from error
        sites.setdefault(row["gene_id"], []).append(site)
    return sites


def _table(path: Path, columns: tuple[str, ...]) -> list[dict[str, str]]:
    if not path.is_file():
        raise FormatError(f"{path.parent}: has no {path.name}; run `bioattn export motifs` again")
    lines = (line.split("\t") for _, line in read_lines(path) if line and not line.startswith("#"))
    header = next(lines, [])
    missing = [name for name in columns if name not in header]
    if missing:
        raise FormatError(f"{path}: has no column {missing[0]!r}; run `bioattn export motifs` again")
    return [dict(zip(header, cells, strict=False)) for cells in lines]


def _float(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def motif_table(results: MotifResults) -> pd.DataFrame:
    """Ratio of every motif (columns) under every treatment (rows), NaN where the export has none."""
    table = pd.DataFrame(
        [(each.treatment, each.motif, each.ratio) for each in results.treatments],
        columns=["treatment", "motif", "ratio"],
    )
    return table.pivot_table(index="treatment", columns="motif", values="ratio", aggfunc="first", sort=False)
