"""Putting parts of tables of predictions together, line by line."""

from pathlib import Path
from typing import TextIO, cast

from bioattn.errors import FormatError
from bioattn.io.files import text_output
from bioattn.store.merging.part import Merged, MergeTask
from bioattn.store.prediction_table import open_part

_LINES_AT_ONCE = 256


def merge_tables(task: MergeTask) -> Merged:
    """Write the whole table to a file, plain or compressed by its name, or to an open text file.

    Raises: FormatError naming a part that is cut short or damaged, which is known at its end only.
    """
    if isinstance(task.output, Path):
        with text_output(task.output) as file:
            _write(task, cast(TextIO, file))
    else:
        # What was printed cannot be taken back, so all parts are read through before.
        _write(task, None)
        _write(task, task.output)
    return Merged(task.parts[0].record.total)


def _write(task: MergeTask, file: TextIO | None) -> None:
    """Write all parts to a file, or only read them."""
    parts, progress = task.parts, task.progress
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
                        task.check()
                    if file is not None:
                        file.write(line + "\n")
                    progress.advance()
    finally:
        progress.end()
