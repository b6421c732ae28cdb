"""Putting parts of files of results together: the samples of all shards, in order, into one file."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from bioattn.errors import FormatError
from bioattn.io.files import atomic_output
from bioattn.io.hdf5_input import open_hdf5
from bioattn.store.merging.part import Part
from bioattn.store.part_folder import require_free_space
from bioattn.store.parts import PartFile, write_whole
from bioattn.store.result_validation import sample_problems
from bioattn.store.schema import Block
from bioattn.store.stored import read_samples, stored_layout
from bioattn.system.progress import Progress
from bioattn.text import human_bytes


def merge_result_files(
    parts: Sequence[Part], output: Path, progress: Progress, check: Callable[[], None]
) -> int:
    """Make `output` of the parts, all there and in order; returns how many samples are in it.

    check: called between samples, may raise. Raises: FormatError naming a part that is damaged; BioattnError when
    the disk is full, or no sample is in any part.
    """
    size = sum(part.path.stat().st_size for part in parts)
    require_free_space(output, size, human_bytes(size), "make room, or choose another disk")
    files, layouts = [], []
    first: dict[str, Path] = {}
    for part in parts:
        with open_hdf5(part.path, sealed=True) as file:
            layout = replace(stored_layout(part.path, file), shard=None)
            samples = read_samples(file, layout, lists=False)
            for problem in sample_problems(file, layout, samples):
                raise FormatError(
                    f"{part.path}: {problem.where}: {problem.message}; copy it or make it again"
                )
        wanted = part.record.stop - part.record.first
        if len(samples) > wanted or (len(samples) < wanted and not part.record.may_lack_samples):
            raise FormatError(
                f"{part.path}: holds {len(samples):,} samples for {wanted:,} inputs; make it again"
            )
        for name in samples.ids:
            if first.setdefault(name, part.path) is not part.path:
                raise FormatError(f"{part.path}: holds {name!r}, and so does {first[name]}; make both again")
        files.append(PartFile(part.path, len(samples)))
        if len(samples) or not any(group.per_sample for group in layout.groups):
            layouts.append((part.path, layout))
    if not layouts:
        raise FormatError(f"{parts[0].path}: neither this part nor any other holds a sample; all failed")
    layout = layouts[0][1]
    for path, other in layouts[1:]:
        if other != layout:
            raise FormatError(f"{path}: its arrays are not of the shapes of the other parts; make it again")

    def on_block(_: Block) -> None:
        check()

    with atomic_output(output) as temporary:
        write_whole(temporary, layout, files, _no_guard, on_block=on_block, progress=progress)
    return sum(file.num_samples for file in files)


@contextmanager
def _no_guard(_: PartFile) -> Iterator[None]:
    yield
