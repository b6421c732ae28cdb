"""The query of an alignment: finding its row, and making the alignment one of the query's own columns."""

import difflib
from collections.abc import Sequence

from bioattn.errors import BioattnError
from bioattn.formats.alignment import Alignment

_SHOWN = 3


def find_name(names: Sequence[str], name: str, source: str) -> int:
    """The row called `name`: in full or, if one alone has it so, without `/start-end` or within `db|name|…`.

    source: the file, as messages name it.

    Raises: BioattnError when no row or more than one is called so.
    """
    for called in (
        lambda full: full == name,
        lambda full: full.rpartition("/")[0] == name,
        lambda full: name in full.rpartition("/")[0].split("|") or name in full.split("|"),
    ):
        rows = [row for row, full in enumerate(names) if called(full)]
        if len(rows) > 1:
            places = ", ".join(f"{names[row]} (row {row + 1:,})" for row in rows[:_SHOWN])
            more = f" and {len(rows) - _SHOWN:,} more" if len(rows) > _SHOWN else ""
            raise BioattnError(f"{source}: --query {name} could be {places}{more}; give the full name of one")
        if rows:
            return rows[0]
    close = difflib.get_close_matches(name, names, n=_SHOWN, cutoff=0.5) or names[:_SHOWN]
    raise BioattnError(
        f"{source}: --query {name}: none of the {len(names):,} rows is called so; there are {', '.join(close)}"
    )


def centre_on_query(alignment: Alignment, query: int, source: str) -> Alignment:
    """The same rows, `query` first, with the query's residues as match columns and no others.

    `Alignment.centre_on_row` says what becomes of the letters of other columns.

    Raises: BioattnError when the query has no residue.
    """
    if not alignment.sequence(query):
        raise BioattnError(f"{source}: the query, {alignment.names[query]}, has no residue in the alignment")
    order = [query, *(row for row in range(alignment.num_rows) if row != query)]
    return alignment.select_rows(order).centre_on_row(0)
