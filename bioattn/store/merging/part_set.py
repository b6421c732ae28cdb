"""The parts of one whole: what each is, and whether they are all there, each once, and of one run."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from bioattn import __version__
from bioattn.errors import BioattnError, FormatError
from bioattn.store.kinds import Candidate, find_kind
from bioattn.store.merging.part import Part
from bioattn.store.shard_folder import SHARD_FILE
from bioattn.text import listed

_SHOWN = 8
"""Numbers of missing parts in a message."""


def complete_set(paths: Sequence[Path]) -> list[Part]:
    """The parts at `paths` (any order) in the order of their inputs, none missing, doubled or of another run.

    Raises: BioattnError, one sentence that names the file or the numbers; FormatError for a damaged one.
    """
    places: dict[Path, Path] = {}
    for path in paths:
        if places.setdefault(path.resolve(), path) is not path:
            raise BioattnError(f"{path}: is given twice; give each part once")
    parts = [_read(path) for path in paths]
    first = parts[0]
    for part in parts[1:]:
        _require_same_run(first, part)
    _require_this_version(first)
    by_number: dict[int, Part] = {}
    for part in parts:
        other = by_number.setdefault(part.record.shard.number, part)
        if other is not part:
            raise BioattnError(
                f"{part.path}: is {part.record.part}, and so is {other.path}; give each part once"
            )
    count = first.record.shard.count
    if missing := [number for number in range(1, count + 1) if number not in by_number]:
        raise BioattnError(
            f"{first.path} is {first.record.part}, but {_numbers(missing)} {'is' if len(missing) == 1 else 'are'} "
            "missing; give all parts"
        )
    ordered = [by_number[number] for number in range(1, count + 1)]
    for part, following in pairwise(ordered):
        if part.record.stop != following.record.first:
            raise FormatError(
                f"{part.path} has inputs {part.record.inputs} and {following.path}, the next part, "
                f"{following.record.inputs}, so one of them is damaged; `bioattn validate` says which"
            )
    if (ordered[0].record.first, ordered[-1].record.stop) != (0, first.record.total):
        raise FormatError(
            f"{ordered[0].path} to {ordered[-1].path}: are not all of {first.record.total:,} inputs, so one of "
            "them is damaged; `bioattn validate` says which"
        )
    return ordered


def _read(path: Path) -> Part:
    candidate = Candidate(path)
    kind = find_kind(candidate)
    if kind is not None and kind.part is not None and (part := kind.part(path)) is not None:
        return part
    if candidate.is_folder:
        raise BioattnError(
            f"{path}: has no {SHARD_FILE}, so it is no finished part; end the command that makes it, with "
            "--shard and --resume"
        )
    raise BioattnError(f"{path}: is no part of a sharded run; give what commands with --shard wrote")


def _require_same_run(first: Part, part: Part) -> None:
    if part.kind != first.kind:
        raise BioattnError(
            f"{part.path}: holds {part.kind.title}, {first.path} {first.kind.title}; merge them apart"
        )
    if different := first.record.differing(part.record):
        raise BioattnError(
            f"{part.path}: is a part of another run than {first.path} (different: {', '.join(different)}); "
            "make all parts with one model, one input and the same options"
        )
    if (part.record.shard.count, part.record.total) != (first.record.shard.count, first.record.total):
        raise BioattnError(f"{part.path}: is {part.record.part}, but {first.path} is {first.record.part}")


def _require_this_version(part: Part) -> None:
    made_by, ours = part.record.job.get("generated_by"), f"bioattn {__version__}"
    if made_by != ours:
        raise BioattnError(
            f"{part.path}: was made by {made_by}, and this is {ours}, which need not give the same bytes; "
            "merge with the version that made the parts"
        )


def _numbers(missing: Sequence[int]) -> str:
    if len(missing) == 1:
        return f"part {missing[0]:,}"
    return f"parts {listed([f'{number:,}' for number in missing], _SHOWN)}"
