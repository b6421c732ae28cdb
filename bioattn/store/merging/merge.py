"""One file or folder of the parts of a sharded run."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from bioattn.errors import Interrupted, SettingsError
from bioattn.io.files import check_apart, check_output, check_parent
from bioattn.store.merging.part import MergeTask, Part
from bioattn.store.merging.part_set import complete_set
from bioattn.system.progress import NoProgress, Progress
from bioattn.system.signals import stop_on_signals


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSummary:
    """What was put together."""

    title: str
    """What it is, in words."""
    parts: list[Path]
    """In the order of their inputs."""
    num_inputs: int
    """Promoters, or alignments, of all parts."""
    num_missing: int
    """Alignments that failed in their parts, and so are not in the whole."""
    failed: dict[str, str]
    """Their names and why, where the parts say so."""


def merge_parts(
    paths: Sequence[Path],
    output: Path | TextIO,
    *,
    force: bool = False,
    progress: Progress | None = None,
) -> MergeSummary:
    """Make the whole that one process would have made, byte for byte, of all its parts, in any order.

    paths: outputs of commands with --shard: attention or attribution HDF5, tables of predictions (plain or
    compressed), or folders of results. output: a file that is replaced when the new one is whole; a folder, where
    parts are folders (force: replace one); tables also to an open text file. Memory stays flat.

    Raises: BioattnError when a part is missing, given twice, of another model, input, settings or version, or when
    the output cannot be written; FormatError when one is damaged; Interrupted. Nothing is left of the output then.
    """
    progress = progress or NoProgress()
    parts = complete_set(paths)
    first = parts[0]
    if isinstance(output, Path):
        _check_output(output, parts)
    elif not first.kind.is_text:
        raise SettingsError(
            f"{first.path}: {first.kind.title} cannot go to standard output; give --output a name"
        )
    try:
        with stop_on_signals() as request:
            task = MergeTask(parts=parts, output=output, force=force, progress=progress, check=request.check)
            merged = first.kind.merge(task)
    except Interrupted as stop:
        raise Interrupted(f"{stop}; nothing was written, run again", stop.exit_code) from stop
    return MergeSummary(
        title=first.kind.title,
        parts=[part.path for part in parts],
        num_inputs=first.record.total,
        num_missing=first.record.total - merged.inputs,
        failed=merged.failed,
    )


def _check_output(output: Path, parts: Sequence[Part]) -> None:
    given = [part.path for part in parts]
    if not parts[0].kind.is_folder:
        check_output(output, given)
        return
    if output.name in ("", "-", ".."):
        raise SettingsError(f"--output {output}: give the name of a folder to make")
    check_parent(output)
    check_apart(output, given)
