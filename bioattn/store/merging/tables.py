"""Putting parts of tables of predictions together, line by line."""

from collections.abc import Callable, Sequence
from typing import TextIO

from bioattn.errors import FormatError
from bioattn.store.merging.part_set import Part
from bioattn.store.prediction_table import open_part
from bioattn.system.progress import Progress

_LINES_AT_ONCE = 256


def merge_tables(
    parts: Sequence[Part], file: TextIO | None, progress: Progress, check: Callable[[], None]
) -> None:
    """Write the whole table to `file`; None only reads all parts through. check: called now and then, may raise.

    Raises: FormatError naming a part that is cut short or damaged, which is known at its end only.
    """
    progress.begin("merging" if file is not None else "checking", parts[0].record.total)
    header: str | None = None
    try:
        for part in parts:
            with open_part(part.path) as table:
                if header is None:
                    header = table.header
                    if file is not None:
                        file.write(header + "\n")
                if table.header != header:
                    raise FormatError(f"{part.path}: has other columns than {parts[0].path}; make it again")
                for number, line in enumerate(table.rows()):
                    if number % _LINES_AT_ONCE == 0:
                        check()
                    if file is not None:
                        file.write(line + "\n")
                    progress.advance()
    finally:
        progress.end()
