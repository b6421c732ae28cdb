"""The result file of a toy model: after a first line that names it, an id and a string of 0 and 1 on each line."""

from pathlib import Path
from typing import Any, TextIO

import pandas as pd

from bioattn.errors import FormatError
from bioattn.io.files import read_lines
from bioattn.models.model_kind import model_kind
from bioattn.store.kinds import FileKind, ReportInput, ResultTable, starts_with
from bioattn.store.problems import Problem, error
from bioattn.store.schema import Block
from bioattn.store.shards import ShardRecord, table_line
from bioattn.system.progress import Progress

FIRST_LINE = "#toy-calls"


class CallWriter:
    """Writes calls as they come; a shard says which it is."""

    def __init__(self, file: TextIO, shard: ShardRecord | None) -> None:
        self._file = file
        if shard is not None:
            file.write(table_line(shard))
        file.write(FIRST_LINE + "\n")

    def write(self, block: Block) -> None:
        """The next sequences."""
        for name, length, called in zip(
            block.samples.ids, block.samples.columns["length"], block.arrays["calls"]["values"], strict=True
        ):
            self._file.write(f"{name}\t{''.join(str(int(one)) for one in called[:length])}\n")


def _calls(path: Path) -> dict[str, str]:
    """Calls by id. Raises: FormatError naming a line that has none."""
    calls = {}
    for number, line in list(read_lines(path))[1:]:
        name, _, called = line.partition("\t")
        if not called or set(called) - {"0", "1"}:
            raise FormatError(f"{path}:{number}: {called!r} are no calls; an id, a tab, 0s and 1s are needed")
        calls[name] = called
    return calls


def _describe(path: Path) -> dict[str, Any]:
    calls = _calls(path)
    return {"sequences": len(calls), "seen_before": "".join(calls.values()).count("1")}


def _validate(path: Path, progress: Progress | None) -> list[Problem]:
    try:
        _calls(path)
    except FormatError as problem:
        return [error("", str(problem).removeprefix(f"{path}:"))]
    return []


def _report(path: Path) -> ReportInput:
    rows = [[name, called.count("1")] for name, called in _calls(path).items()]
    return ReportInput(
        "results", _describe(path), ResultTable(title="Toy calls", columns=["id", "seen"], rows=rows)
    )


def file_kinds(family: Any) -> list[FileKind]:
    """Model folders and calls."""
    calls = FileKind(
        name="toy-calls",
        title="calls of a toy model",
        matches=starts_with(FIRST_LINE.encode()),
        describe=_describe,
        read=lambda path: pd.DataFrame({"calls": _calls(path)}),
        validate=_validate,
        report=_report,
    )
    return [model_kind(family), calls]
