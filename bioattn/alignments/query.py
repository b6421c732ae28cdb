"""The query of an alignment: finding its row, and making the alignment one of the query's own columns."""

import re
from collections.abc import Sequence

from bioattn.choices import not_there
from bioattn.errors import BioattnError
from bioattn.formats.alignment import Alignment
from bioattn.text import listed

_SHOWN = 3
_RANGE = re.compile(r"/\d+-\d+$")


def find_name(names: Sequence[str], name: str, source: str) -> int:
    """Find the row called `name`: in full or, if one alone has it so, without `/start-end` or within `db|name|…`.

    Of rows with the same full name the first row of all is taken if it is among them. source: the file, as
    messages name it.

    Raises: BioattnError when no row or more than one is called so.
    """
    rows = [row for row, full in enumerate(names) if full == name]
    if len(rows) > 1 and rows[0] != 0:
        raise BioattnError(
            f"{source}: --query {name!r}: rows {listed([f'{row + 1:,}' for row in rows], _SHOWN)} are all called "
            "so; names of rows must differ for one to be chosen"
        )
    if rows:
        return rows[0]
    shortened = [_RANGE.sub("", full) for full in names]
    for called in (lambda short: short == name, lambda short: name in short.split("|")):
        rows = [row for row, short in enumerate(shortened) if called(short)]
        if len(rows) > 1:
            places = listed([f"{names[row]} (row {row + 1:,})" for row in rows], _SHOWN)
            raise BioattnError(f"{source}: --query {name!r} could be {places}; give the full name of one")
        if rows:
            return rows[0]
    raise not_there("--query", name, source, "row", names)


def centre_on_query(alignment: Alignment, query: int, source: str) -> Alignment:
    """The same rows, `query` first, with the query's residues as match columns and no others.

    `Alignment.centre_on_row` says what becomes of the letters of other columns.

    Raises: BioattnError when the query has no residue.
    """
    if not alignment.sequence(query):
        raise BioattnError(f"{source}: the query, {alignment.names[query]}, has no residue in the alignment")
    order = [query, *(row for row in range(alignment.num_rows) if row != query)]
    return alignment.select_rows(order).centre_on_row(0)
