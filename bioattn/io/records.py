"""What stands beside an output: the record of its run, and the audit of what became of every item of the input."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bioattn import __version__
from bioattn.io.files import (
    remove_leftover,
    run_record_path,
    sha256_of,
    text_output,
    write_json,
    writing,
)

Cell = str | int | float | tuple[str, ...] | None


def audit_path(output: Path) -> Path:
    """Where the audit of a dataset stands: `X.dataset.h5` has `X.dataset.audit.tsv`."""
    return output.with_name(re.sub(r"\.(h5|hdf5)$", "", output.name) + ".audit.tsv")


def audit_text(columns: Sequence[str], rows: Iterable[Sequence[Cell]], decimals: int = 3) -> str:
    """The audit as TSV with a header; None is an empty cell, names are joined by commas."""

    def text(cell: Cell) -> str:
        if cell is None:
            return ""
        if isinstance(cell, float):
            return f"{cell:.{decimals}f}"
        return re.sub(r"\s", " ", ",".join(cell) if isinstance(cell, tuple) else str(cell))

    lines = ["\t".join(columns), *("\t".join(map(text, row)) for row in rows), ""]
    return "\n".join(lines)


def write_audit(output: Path, columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """Write the audit of the dataset `output` beside it."""
    with text_output(audit_path(output)) as file:
        file.write(audit_text(columns, rows))


def write_run_record(
    outputs: Sequence[Path],
    command: Sequence[str],
    inputs: Mapping[str, Path],
    seconds: float,
    **figures: Any,
) -> None:
    """Write `bioattn-records/NAME.json` beside the first output, NAME: command, version, inputs and outputs with
    digests, seconds and `figures`.

    Shards that share a folder have a record each, `NAME.K-of-N.json`. Records stand apart from the outputs so that
    these can be free of clocks and repeat byte for byte. Records of earlier runs that wrote the other outputs go:
    they are of files that are no more.
    """
    first, *others = outputs
    content = {
        "command": list(command),
        "bioattn_version": __version__,
        "inputs": {
            name: {"file": path.name, "sha256": sha256_of(path) if path.is_file() else None}
            for name, path in inputs.items()
        },
        "outputs": {
            os.path.relpath(path, first.parent): sha256_of(path) if path.is_file() else None
            for path in outputs
        },
        "seconds": round(seconds, 3),
        **figures,
    }
    path = run_record_path(first)
    if first.is_dir() and (shard := figures.get("shard")) is not None:
        path = path.with_stem(f"{path.stem}.{shard.replace('/', '-of-')}")
    with writing(path.parent):
        path.parent.mkdir(exist_ok=True)
    write_json(path, content)
    for other in others:
        remove_leftover(run_record_path(other))
