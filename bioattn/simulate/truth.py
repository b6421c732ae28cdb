"""The truth table: which motif was planted where, in which promoter, and whether it matters to a treatment.

Tab-separated with a header; `docs/formats/simulation.md` defines the columns and roles.
"""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import FormatError
from bioattn.formats.tables import open_table
from bioattn.io.files import text_output

CAUSAL, LONE, OUT_OF_RANGE, DECOY = "causal", "lone", "out-of-range", "decoy"
ROLES = (CAUSAL, LONE, OUT_OF_RANGE, DECOY)
COLUMNS = ("gene_id", "motif", "treatment", "role", "start", "end", "strand")
"""Columns that a table must have."""


class PlantedSite(NamedTuple):
    """One planted motif; the fields are the columns of the table."""

    gene_id: str
    motif: str
    treatment: str
    role: str
    start: int
    end: int
    strand: str
    effect: float = 0.0
    """What the site adds to the response; the halves of a pair add half each."""


def write_truth(path: Path, sites: Iterable[PlantedSite]) -> None:
    """Write the truth table; a `.gz` name gives gzip."""
    with text_output(path) as file:
        file.write("\t".join(PlantedSite._fields) + "\n")
        for site in sites:
            file.write("\t".join(map(str, site)) + "\n")


def noise_free_responses(
    sites: Iterable[PlantedSite], gene_ids: Sequence[str], treatments: Sequence[str]
) -> NDArray[np.float64]:
    """Responses of promoters to treatments without noise, shape (gene_ids, treatments).

    They are sums of the effects of sites; sites of other genes and treatments do not count.
    """
    rows = {gene_id: row for row, gene_id in enumerate(gene_ids)}
    columns = {treatment: column for column, treatment in enumerate(treatments)}
    true = np.zeros((len(rows), len(columns)))
    for site in sites:
        if site.gene_id in rows and site.treatment in columns:
            true[rows[site.gene_id], columns[site.treatment]] += site.effect
    return true


def read_truth(path: Path) -> list[PlantedSite]:
    """Read a truth table, in file order; further columns are ignored, and without a column `effect` effects are 0.

    Raises: FormatError naming the line for missing columns or fields, an unknown role or strand, coordinates or
    effects that are not numbers, coordinates not in order, a decoy with a treatment or another role without one.
    """
    table = open_table(path)
    missing = [name for name in COLUMNS if name not in table.header]
    if missing:
        where = f"{path}:{table.header_line}"
        raise FormatError(f"{where}: the header lacks the column {missing[0]!r} of a truth table")
    order = [table.header.index(name) for name in PlantedSite._fields if name in table.header]
    sites = [_site(f"{path}:{number}", *(row[column] for column in order)) for number, row in table.rows()]
    if not sites:
        raise FormatError(f"{path}: names no planted site; a truth table with a header is needed")
    return sites


def _site(
    where: str,
    gene_id: str,
    motif: str,
    treatment: str,
    role: str,
    start: str,
    end: str,
    strand: str,
    effect: str = "0",
) -> PlantedSite:
    try:
        site = PlantedSite(gene_id, motif, treatment, role, int(start), int(end), strand, float(effect))
    except ValueError as error:
        raise FormatError(f"{where}: start, end and effect must be numbers ({error})") from None
    if role not in ROLES or strand not in ("+", "-"):
        raise FormatError(f"{where}: role is {role!r} and strand {strand!r}; roles are {', '.join(ROLES)}")
    if (role == DECOY) == bool(treatment):
        raise FormatError(f"{where}: role {role} with treatment {treatment!r}; only decoys have none")
    if not 0 <= site.start < site.end or not math.isfinite(site.effect):
        raise FormatError(f"{where}: start {start} is not before end {end}, or effect {effect} is not finite")
    return site
