"""Putting parts of attention files over alignments together, array by array, each compared with its digest."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import h5py

from bioattn.errors import FormatError
from bioattn.io.files import atomic_output
from bioattn.io.hdf5_input import damage_named, open_hdf5
from bioattn.store.alignment_attention_reader import row_names
from bioattn.store.alignment_attention_validation import sample_findings
from bioattn.store.alignment_attention_writer import alignment_attention_file
from bioattn.store.alignment_schema import AlignmentSample
from bioattn.store.attention_reader import AttentionFile
from bioattn.store.merging.part import Part
from bioattn.store.part_folder import require_free_space
from bioattn.store.run_settings import settings_digest
from bioattn.store.stored_alignment import (
    StoredSlab,
    copy_slabs,
    stored_layout,
    stored_sample,
    stored_slabs,
)
from bioattn.system.progress import Progress
from bioattn.text import human_bytes


def merge_alignment_files(
    parts: Sequence[Part], output: Path, progress: Progress, check: Callable[[], None]
) -> int:
    """Make `output` of the parts, all there and in order; returns how many alignments are in it.

    check: called between arrays, may raise. Raises: FormatError naming a part that is damaged; BioattnError when
    the disk is full, or no alignment is in any part.
    """
    size = sum(part.path.stat().st_size for part in parts)
    require_free_space(output, size, human_bytes(size), "make room, or choose another disk")
    with ExitStack() as stack:
        files = stack.enter_context(_PartFiles())
        found = [(part, number, sample) for part in parts for number, sample in _samples(files, part)]
        if not found:
            raise FormatError(
                f"{parts[0].path}: neither this part nor any other holds an alignment; all failed"
            )
        first: dict[str, Path] = {}
        for part, _, sample in found:
            if first.setdefault(sample.id, part.path) is not part.path:
                raise FormatError(
                    f"{part.path}: holds {sample.id!r}, and so does {first[sample.id]}; make both again"
                )

        def names(number: int, extra: bool) -> tuple[str, ...] | None:
            part, place, _ = found[number]
            with damage_named(part.path):
                return row_names(files.open(part), place, extra=extra)

        model_sha256 = AttentionFile(parts[0].path, files.open(parts[0])).model_sha256
        temporary = stack.enter_context(atomic_output(output))
        progress.begin("assembling", len(found))
        try:
            with alignment_attention_file(
                temporary,
                model_sha256,
                [sample for _, _, sample in found],
                names=names,
                settings_sha256=settings_digest(parts[0].record.job),
            ) as file:
                for number, (part, place, _) in enumerate(found):
                    if not copy_slabs(_slabs(files, part, place, check), file, number):
                        raise FormatError(
                            f"{part.path}: its values are not those that were written; copy it or make it again"
                        )
                    progress.advance()
        finally:
            progress.end()
    return len(found)


class _PartFiles:
    """One open part at a time: they are read in order, and there may be more of them than a process can open."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._part: Part | None = None
        self._file: h5py.File | None = None

    def __enter__(self) -> "_PartFiles":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def open(self, part: Part) -> h5py.File:
        """The file of a part."""
        if part is not self._part:
            self._stack.close()
            self._file = self._stack.enter_context(open_hdf5(part.path))
            self._part = part
        return self._file


def _samples(files: _PartFiles, part: Part) -> Iterator[tuple[int, AlignmentSample]]:
    """Numbers and samples of a part, without the names of rows: of thousands of alignments they take much room."""
    file = files.open(part)
    AttentionFile(part.path, file)
    with damage_named(part.path):
        for finding in sample_findings(file["samples"]):
            raise FormatError(f"{part.path}: {finding.where}: {finding.message}; copy it or make it again")
        number = len(file["samples/id"])
        if number > part.record.stop - part.record.first:
            raise FormatError(f"{part.path}: holds more alignments than inputs; make it again")
        for place in range(number):
            yield place, stored_sample(file, place, with_names=False)


def _slabs(files: _PartFiles, part: Part, number: int, check: Callable[[], None]) -> Iterator[StoredSlab]:
    """A generator, so that an error of the file that is written never passes for damage of the part."""
    with damage_named(part.path):
        file = files.open(part)
        for site in part.record.job["sites"]:
            check()
            yield from stored_slabs(file, number, [stored_layout(file, site, number)])
