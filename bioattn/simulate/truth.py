"""The truth table: which motif was planted where, in which promoter, and whether it matters to a treatment.

Tab-separated with a header: gene_id, motif, treatment, role, start, end, strand. Positions are 0-based, half-open
and count from the first base of the promoter window, 5'→3' in the direction of the gene; strand is that of the
motif relative to the gene. Roles:

- `causal`: the site gives this promoter its response to `treatment`;
- `lone`: one half of a pair whose other half is missing here, so it gives no response to `treatment`;
- `decoy`: a motif no treatment knows; `treatment` is empty.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from bioattn.errors import FormatError
from bioattn.io.files import read_lines, text_output

CAUSAL, LONE, DECOY = "causal", "lone", "decoy"
ROLES = (CAUSAL, LONE, DECOY)
COLUMNS = ("gene_id", "motif", "treatment", "role", "start", "end", "strand")


class PlantedSite(NamedTuple):
    """One planted motif; the fields are the columns of the table."""

    gene_id: str
    motif: str
    treatment: str
    role: str
    start: int
    end: int
    strand: str


def write_truth(path: Path, sites: Iterable[PlantedSite]) -> None:
    """Write the truth table; a `.gz` name gives gzip."""
    with text_output(path) as file:
        file.write("\t".join(COLUMNS) + "\n")
        for site in sites:
            file.write("\t".join(map(str, site)) + "\n")


def read_truth(path: Path) -> list[PlantedSite]:
    """Read a truth table, in file order; further columns are ignored.

    Raises: FormatError naming the line for missing columns or fields, an unknown role or strand, coordinates that
    are not numbers or not in order, a decoy with a treatment or another role without one.
    """
    order: list[int] | None = None
    sites: list[PlantedSite] = []
    for number, line in read_lines(path):
        fields = line.split("\t")
        where = f"{path}:{number}"
        if order is None:
            missing = [name for name in COLUMNS if name not in fields]
            if missing:
                raise FormatError(f"{where}: the header lacks the column {missing[0]!r} of a truth table")
            order = [fields.index(name) for name in COLUMNS]
        elif line:
            if len(fields) <= max(order):
                raise FormatError(f"{where}: {len(fields)} fields where the header has more")
            sites.append(_site(where, [fields[column] for column in order]))
    if order is None:
        raise FormatError(f"{path}: is empty; a truth table with a header is needed")
    if not sites:
        raise FormatError(f"{path}: names no planted site")
    return sites


def _site(where: str, fields: list[str]) -> PlantedSite:
    gene_id, motif, treatment, role, start, end, strand = fields
    if not gene_id:
        raise FormatError(f"{where}: gene_id is empty")
    if role not in ROLES:
        raise FormatError(f"{where}: role is {role!r} but must be one of {', '.join(ROLES)}")
    if (role == DECOY) == bool(treatment):
        raise FormatError(f"{where}: role {role} with treatment {treatment!r}; only decoys have none")
    if strand not in ("+", "-"):
        raise FormatError(f"{where}: strand is {strand!r} but must be + or -")
    if not all(text.isascii() and text.isdigit() and len(text) < 16 for text in (start, end)):
        raise FormatError(
            f"{where}: start {start[:40]!r} and end {end[:40]!r} must be whole numbers, 0 or more"
        )
    if int(start) >= int(end):
        raise FormatError(f"{where}: start {start} is not before end {end}")
    return PlantedSite(gene_id, motif, treatment, role, int(start), int(end), strand)
