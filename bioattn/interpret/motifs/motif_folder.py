"""What `bioattn export motifs` found (docs/formats/motifs.md), as far as a report shows it."""

import csv
import math
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import FormatError
from bioattn.io.files import read_json, read_lines

MAX_MOTIFS = 60
"""Logos on a page, those with most seqlets first."""

SURE = 0.05
"""A larger q-value is no finding."""
BACKGROUND = "background"
"""A reference of the export: the same motif's places in all promoters."""
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
    """Raises: FormatError when a table of the folder is missing or lacks a column."""
    from bioattn.formats.meme import read_meme

    motifs = _table(folder / "motifs.tsv", ("motif", "source", "consensus", "seqlets"))
    path = folder / "motifs.meme"
    # An export that found nothing has the header of a MEME file alone, which is no database to read.
    matrices = (
        {motif.name: motif.probabilities for motif in read_meme(path).motifs}
        if motifs and path.is_file()
        else {}
    )
    found = [
        FoundMotif(
            name=row["motif"],
            source=row["source"],
            consensus=row["consensus"],
            seqlets=None if (n := _float(row.get("seqlets", ""))) is None else int(n),
            bits=_float(row.get("information_bits", "")),
            match=_match(row.get("match", ""), row.get("match_name", "")),
            match_q_value=_float(row.get("match_q_value", "")),
            probabilities=matrices.get(row["motif"]),
        )
        for row in motifs
    ]
    order = sorted(found, key=lambda motif: (motif.source == "filter", -(motif.seqlets or 0), motif.name))
    return MotifResults(
        motifs=order[:MAX_MOTIFS],
        num_by_source=dict(sorted(Counter(motif.source for motif in found).items())),
        treatments=_treatments(folder / "treatments.tsv"),
        filters=frozenset(motif.name for motif in found if motif.source == "filter"),
        model_sha256=_model_digest(folder),
    )


def _model_digest(folder: Path) -> str:
    try:
        return str(read_json(folder / "motifs.json")["sources"]["model"]["sha256"])
    except (KeyError, TypeError):
        return ""


def _match(name: str, second: str) -> str:
    """An accession and the name of a factor, the latter first."""
    return f"{second} ({name})" if second and second != name else name


def _treatments(path: Path) -> list[TreatmentMotif]:
    if not path.is_file():
        return []
    rows = [
        TreatmentMotif(
            treatment=row["treatment"],
            motif=row["motif"],
            reference=row.get("reference", ""),
            ratio=_float(row.get("ratio", "")),
            q_value=_float(row.get("q_value", "")),
        )
        for row in _table(path, ("treatment", "motif"))
    ]
    compared = [row for row in rows if row.reference != BACKGROUND]
    return compared or rows


def read_attended(folder: Path, genes: Collection[str]) -> dict[str, list[AttendedSite]]:
    """The attended sites of some promoters, by gene, best first and `MAX_ATTENDED` of each at most.

    The table has a line for every motif, promoter and treatment, so it is read line by line. Raises: FormatError
    naming a line that is none of it.
    """
    path = folder / "edges.tsv"
    found: dict[str, list[tuple[float, int, AttendedSite]]] = {}
    if not path.is_file():
        return {}
    for number, row in _rows(path, ("treatment", "motif", "gene_id", "start", "end")):
        if row["gene_id"] not in genes:
            continue
        try:
            site = AttendedSite(row["treatment"], row["motif"], int(row["start"]), int(row["end"]))
        except ValueError as error:
            raise FormatError(f"{path}:{number}: {error}") from error
        kept = found.setdefault(row["gene_id"], [])
        kept.append((-(_float(row.get("score", "")) or 0.0), number, site))
        if len(kept) > 2 * MAX_ATTENDED:
            kept.sort(key=lambda entry: entry[:2])
            del kept[MAX_ATTENDED:]
    return {
        gene: [site for _, _, site in sorted(kept, key=lambda entry: entry[:2])[:MAX_ATTENDED]]
        for gene, kept in found.items()
    }


def _table(path: Path, columns: tuple[str, ...]) -> list[dict[str, str]]:
    return [row for _, row in _rows(path, columns)]


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    """Line numbers and cells by name of a table of the export."""
    if not path.is_file():
        raise FormatError(f"{path.parent}: has no {path.name}; run `bioattn export motifs` again")
    # As pandas writes them: names with quotes or tabs are quoted.
    lines = enumerate(csv.reader((line for _, line in read_lines(path)), delimiter="\t"), start=1)
    _, header = next(lines, (0, []))
    missing = [name for name in columns if name not in header]
    if missing:
        raise FormatError(f"{path}: has no column {missing[0]!r}; run `bioattn export motifs` again")
    for number, cells in lines:
        if len(cells) != len(header):
            raise FormatError(
                f"{path}:{number}: has {len(cells)} columns, the header has {len(header)}; run `bioattn export "
                "motifs` again"
            )
        yield number, dict(zip(header, cells, strict=True))


def _float(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
