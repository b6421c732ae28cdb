"""Mapping between residues of a structure and match columns of an alignment.

Structure and alignment seldom hold the same sequence: a chain lacks disordered loops or has a tag, a family
alignment may not hold the protein itself. So the chain is aligned to one row: the query if that is close enough,
otherwise the closest row of all. A residue aligned to an insertion of that row, or to nothing, has no column.

The file form is a table with one line per mapped residue: `msa_column` (0-based), `resi`, and where wanted `icode`
(`.` = none) and `resname`.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bioattn.choices import MIN_IDENTITY
from bioattn.errors import BioattnError, FormatError
from bioattn.formats.alignment import GAP, Alignment
from bioattn.formats.tables import open_table
from bioattn.structures.chain import Chain, align_chain, protein_aligner
from bioattn.text import percentage

MIN_COVERAGE = 0.5
"""Least fraction of the shorter of chain and row that must be aligned."""
GOOD_IDENTITY = 0.95
"""Identity from which the query is taken without aligning other rows."""

_CANDIDATES = 20
_WORD = 3
_LETTERS = 27


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMapping:
    """M residues of a chain in ascending match columns."""

    columns: NDArray[np.intp]
    """(M,) match columns, 0-based."""
    residues: NDArray[np.intp]
    """(M,) indices into the chain."""
    row: int
    """Row of the alignment the chain was aligned to; -1 when the mapping was read from a file."""
    identity: float
    """Fraction of the aligned residues that are equal; NaN when the mapping was read from a file."""
    equal: int = 0
    """Number of these residues."""
    coverage: float = 0
    """Aligned part of the shorter of chain and row."""

    def column_cb(self, chain: Chain, num_columns: int) -> NDArray[np.float32]:
        """(R, 3) CB coordinates of the match columns in ångström, NaN where no residue is mapped."""
        coordinates = np.full((num_columns, 3), np.nan, np.float32)
        coordinates[self.columns] = chain.cb[self.residues]
        return coordinates


def map_columns(chain: Chain, alignment: Alignment, *, source: str = "the structure") -> ColumnMapping:
    """Align `chain` to the query, or else to the closest row, and take the columns of that row.

    Raises: BioattnError beginning with `source` when no row is close: less than `MIN_COVERAGE` of the shorter
    sequence aligned, or fewer than `MIN_IDENTITY` of the aligned residues equal.
    """
    best = _aligned(chain, alignment, 0)
    if best.identity < GOOD_IDENTITY or best.coverage < MIN_COVERAGE:
        # Rows that share the most words of three letters with the chain, without insertions.
        words = np.zeros(_LETTERS**_WORD, np.bool_)
        words[_words(np.frombuffer(chain.letters.encode("ascii"), np.uint8))] = True
        rows = (_words(residues[residues != GAP]) for residues in alignment.residues)
        shared = [len(np.unique(own[words[own]])) for own in rows]
        likely = np.argsort(-np.array(shared, np.int64), kind="stable")[:_CANDIDATES].tolist()
        others = (_aligned(chain, alignment, row) for row in likely if row)
        best = max((best, *others), key=lambda aligned: aligned.equal)
    if best.coverage < MIN_COVERAGE or best.identity < MIN_IDENTITY:
        raise BioattnError(
            f"{source}: the sequence of chain {chain.name} does not match the alignment: its closest row, "
            f"{alignment.names[best.row]!r}, has {percentage(best.identity)} equal residues over "
            f"{percentage(best.coverage)} of the shorter sequence ({percentage(MIN_IDENTITY)} over "
            f"{percentage(MIN_COVERAGE)} are needed); check that chain and alignment belong together"
        )
    if not best.columns.size:
        raise BioattnError(f"{source}: no residue of chain {chain.name} stands in a match column")
    return best


def read_mapping(path: Path, chain: Chain, num_columns: int) -> ColumnMapping:
    """Read a mapping table and find its residues in `chain`; coordinates are those of the chain.

    Raises: FormatError naming the line of a column that is out of range, not ascending or not a number, and of a
    residue that the chain does not have or has under another name.
    """
    table = open_table(path)
    for name in ("msa_column", "resi"):
        table.column(name, "a mapping has msa_column and resi")
    place = {
        (number, code): index
        for index, (number, code) in enumerate(zip(chain.numbers, chain.insertion_codes, strict=True))
    }
    columns: list[int] = []
    residues: list[int] = []
    for line, cells in table.rows():
        row = dict(zip(table.header, cells, strict=True))
        where = f"{path}:{line}"
        column = _integer(row["msa_column"], where, "msa_column")
        if not 0 <= column < num_columns:
            raise FormatError(f"{where}: match column {column}, the alignment has 0 to {num_columns - 1}")
        if columns and column <= columns[-1]:
            raise FormatError(f"{where}: match column {column} after {columns[-1]}; they must ascend")
        code = row.get("icode", ".").replace(".", "").replace("?", "")
        residue = place.get((_integer(row["resi"], where, "resi"), code))
        if residue is None:
            raise FormatError(f"{where}: chain {chain.name} has no residue {row['resi']}{code}")
        if row.get("resname", chain.residue_names[residue]) != chain.residue_names[residue]:
            raise FormatError(
                f"{where}: residue {row['resi']}{code} of chain {chain.name} is {chain.residue_names[residue]}, "
                f"not {row['resname']}; mapping and structure do not belong together"
            )
        columns.append(column)
        residues.append(residue)
    if not columns:
        raise FormatError(f"{path}: maps no residue")
    found = np.array(columns, np.intp), np.array(residues, np.intp)
    return ColumnMapping(columns=found[0], residues=found[1], row=-1, identity=float("nan"))


def _aligned(chain: Chain, alignment: Alignment, row: int) -> ColumnMapping:
    # Residues of the row, insertions included, and the match column of each; -1 for insertions.
    text = np.frombuffer(alignment.row_with_insertions(row).encode("ascii"), np.uint8)
    lower = text >= ord("a")
    columns = np.where(lower, -1, np.cumsum(~lower) - 1)[text != GAP]
    letters = alignment.sequence(row)
    in_row = in_chain = np.empty(0, np.intp)
    if letters:
        # A chain may hold more than the row, and the row more than the chain.
        aligner = protein_aligner("global", -11, free_ends=True)
        in_row, in_chain = align_chain(aligner, letters, chain)
    equal = sum(letters[i] == chain.letters[j] for i, j in zip(in_row, in_chain, strict=True))
    column = columns[in_row]
    return ColumnMapping(
        columns=column[column >= 0],
        residues=in_chain[column >= 0],
        row=row,
        identity=equal / max(1, len(in_row)),
        equal=equal,
        coverage=len(in_row) / max(1, min(len(letters), len(chain))),
    )


def _words(letters: NDArray[np.uint8]) -> NDArray[np.intp]:
    codes = letters.astype(np.intp) - ord("A")
    if len(codes) < _WORD:
        return np.empty(0, np.intp)
    return (codes[:-2] * _LETTERS + codes[1:-1]) * _LETTERS + codes[2:]


def _integer(cell: str, where: str, name: str) -> int:
    try:
        return int(cell)
    except ValueError as error:
        raise FormatError(f"{where}: {name} {cell!r} is not a whole number") from error
