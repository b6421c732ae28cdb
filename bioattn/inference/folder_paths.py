"""Where a run over single inputs may write: into nothing that it reads, nothing twice, and where it can."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bioattn.errors import BioattnError, SettingsError
from bioattn.formats.alignment_file import STANDARD_INPUT
from bioattn.io.files import OUTPUT_SUFFIXES, check_apart, check_output, check_parent
from bioattn.store.schema import AttentionOptions


class InputFile(NamedTuple):
    """One of several files that a command is given."""

    name: str
    """Without folder and suffixes; unique."""
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionOutput:
    """The attention file asked for."""

    path: Path
    options: AttentionOptions


def check_run_paths(
    sources: Sequence[InputFile], output: Path, *, several: bool, attention: Path | None, model: Path
) -> None:
    """Refuse outputs that would destroy an input or each other, or cannot be written, before any work is done.

    model: file or folder. With several inputs the attention file may stand beside their folders, in `output`
    that is not there yet; the folder of one input appears only when it is whole, so nothing can be put in it.

    Raises: SettingsError for names that collide; BioattnError for a place that is a file, missing or read-only.
    """
    if output.name in ("", "-", ".."):
        raise SettingsError(f"--output {output}: give the name of a folder to make")
    if output.exists() and not output.is_dir():
        raise BioattnError(f"{output}: is a file, the results need a folder; choose another --output")
    check_parent(output)
    inputs = [model, *(source.path for source in sources if source.path != STANDARD_INPUT)]
    folders = {source.name: output / source.name if several else output for source in sources}
    if several:
        _check_folders_in(output, folders, inputs)
    else:
        check_apart(output, inputs)
    if attention is None:
        return
    place = attention.resolve()
    for folder in folders.values():
        if any(place.is_relative_to(name) for name in _written(folder)[:2]) and place != folder.resolve():
            raise SettingsError(
                f"--attention {attention}: lies in {folder}, which appears only when its results are whole; put "
                f"it beside that folder, for example {output.with_name(output.name + '.attention.h5')}"
            )
    if several and attention.parent.resolve() == output.resolve() and not output.exists():
        check_apart(attention, inputs, "--attention")
    else:
        check_output(attention, inputs, "--attention")
    for folder in {output, *folders.values()}:
        if both := set(_written(attention)) & set(_written(folder)):
            raise SettingsError(
                f"--output and --attention name the same file: both would write {min(both).name}"
            )


def holds_result(folder: Path, record_file: str, *, resume: bool, force: bool) -> bool:
    """Whether a folder holds an earlier result that is to be kept, if it is of the same job.

    Raises: BioattnError when there is one and neither `resume` nor `force` is given, or the folder holds something
    else.
    """
    # os.path, unlike Path: a name that is longer than names can be names nothing
    if not os.path.exists(folder) or (folder.is_dir() and not any(folder.iterdir())):  # noqa: PTH110
        return False
    if not (folder / record_file).is_file():
        raise BioattnError(
            f"{folder}: exists and holds no earlier result, so it is not replaced; choose another --output"
        )
    if not (resume or force):
        raise BioattnError(f"{folder}: exists already; keep it with --resume, or replace it with --force")
    return resume


def _check_folders_in(output: Path, folders: Mapping[str, Path], inputs: Sequence[Path]) -> None:
    """`check_apart` for every folder of results, each with the inputs in it: there may be thousands."""
    target = output.resolve()
    # A model in `output` beside the results is safe, results in a model folder are not.
    check_apart(next(iter(folders.values())), inputs[:1])
    written = {name + end: name for name in folders for end in OUTPUT_SUFFIXES}
    for path in inputs:
        place = path.resolve()
        if target in place.parents and (name := written.get(place.relative_to(target).parts[0])):
            check_apart(folders[name], [path])


def _written(output: Path) -> list[Path]:
    place = output.resolve()
    return [place.with_name(place.name + end) for end in OUTPUT_SUFFIXES]
