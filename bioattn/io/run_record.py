"""The record of a run, beside its output: command, versions, inputs with their digests, time."""

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bioattn import __version__
from bioattn.io.files import sha256_of, write_json
from bioattn.io.input_watch import has_changed
from bioattn.io.output_names import run_record_path

LOGGER = logging.getLogger("bioattn")


def write_run_record(
    output: Path,
    command: Sequence[str],
    inputs: Mapping[str, Path],
    seconds: float,
    **figures: Any,
) -> None:
    """Write `<output>.run.json`: command, versions, input names and digests, wall time and `figures`.

    It stands beside the output so that the output itself can be free of clocks and repeat byte for byte. An input
    that has changed since the output was finished is marked, and warned of: its digest is of what it is now.
    """
    for path in inputs.values():
        if has_changed(path):
            LOGGER.warning(f"{path}: changed after it was read; {output} was made of what it was before")
    record = {
        "command": list(command),
        "bioattn_version": __version__,
        "inputs": {
            name: {
                "file": path.name,
                "sha256": sha256_of(path) if os.path.isfile(path) else None,  # noqa: PTH113
                **({"changed_after_reading": True} if has_changed(path) else {}),
            }
            for name, path in inputs.items()
        },
        "output": {"file": output.name, "sha256": sha256_of(output) if output.is_file() else None},
        "seconds": round(seconds, 3),
        **figures,
    }
    write_json(run_record_path(output), record, of_inputs=False)
