"""The parts of an attention file over alignments: one complete file per alignment, put together at the end."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import h5py

from bioattn.errors import BioattnError, FormatError
from bioattn.io.hdf5_input import open_hdf5
from bioattn.store.alignment_attention_reader import row_names
from bioattn.store.alignment_attention_writer import AlignmentAttentionFile, alignment_attention_file
from bioattn.store.alignment_schema import AlignmentSample, AlignmentSiteLayout
from bioattn.store.part_folder import assembled_output, part_output, part_path, write_errors
from bioattn.store.shard_record import ShardRecord
from bioattn.store.stored_alignment import StoredSlab, copy_slabs, stored_sample, stored_slabs
from bioattn.system.progress import NoProgress, Progress

MADE_AGAIN = "the damaged part was removed, run again with --resume to make it again"


class AlignmentParts:
    """The parts of one output, in the folder that `bioattn.store.part_folder.open_parts` makes.

    An alignment that failed has no part and does not come into the file.
    """

    def __init__(
        self,
        output: Path,
        model_sha256: str,
        num_samples: int,
        *,
        several: bool,
        settings_sha256: str,
        shard: ShardRecord | None = None,
    ) -> None:
        """several: the file is put together from copies of its parts, though there may be but one; else the
        single part becomes the file. settings_sha256: as `bioattn.store.run_settings` makes it. shard: which part
        of which whole the file is."""
        self.output = output
        self.model_sha256 = model_sha256
        self.num_samples = num_samples
        self._several = several
        self._settings_sha256 = settings_sha256
        self._shard = shard

    def is_whole(self, number: int) -> bool:
        """Whether the part of the alignment with this number was written and closed."""
        return part_path(self.output, number).is_file()

    def bytes_on_disk(self) -> int:
        """Bytes of the parts that are whole."""
        return sum(part_path(self.output, number).stat().st_size for number in self._whole())

    @contextmanager
    def part_writer(self, number: int, sample: AlignmentSample) -> Iterator[AlignmentAttentionFile]:
        """Write one part; it gets its name only when the body ends well.

        Raises: BioattnError when the disk is full or the folder is not writable.
        """
        with (
            part_output(self.output, number) as path,
            alignment_attention_file(
                path, self.model_sha256, [sample], settings_sha256=self._settings_sha256
            ) as file,
        ):
            yield file

    def assemble(
        self,
        layouts: Callable[[AlignmentSample], Sequence[AlignmentSiteLayout]],
        progress: Progress | None = None,
    ) -> list[str]:
        """Make the output from the parts that there are, in order, replacing an older one; returns their ids.

        layouts: the sites of a sample.

        Raises: BioattnError when the disk is full, or there is no part (a shard may be empty); FormatError when a
        part is damaged (it is removed, so that resuming makes it again).
        """
        progress = progress or NoProgress()
        whole = self._whole()
        if not whole and self._shard is None:
            raise BioattnError(f"{self.output}: no alignment gave attention, so nothing was written")
        samples = [self._sample(number) for number in whole]

        def names(number: int, extra: bool) -> tuple[str, ...] | None:
            with self._open(whole[number]) as file:
                return row_names(file, 0, extra=extra)

        if not self._several:
            with write_errors(self.output, part_path(self.output, 0).parent):
                part_path(self.output, whole[0]).replace(self.output)
            return [samples[0].id]
        progress.begin("assembling", len(whole))
        try:
            with (
                assembled_output(self.output) as assembled,
                alignment_attention_file(
                    assembled, self.model_sha256, samples, self._shard, names, self._settings_sha256
                ) as file,
            ):
                for number, part in enumerate(whole):
                    if not copy_slabs(self._slabs(part, layouts(samples[number])), file, number):
                        path = part_path(self.output, part)
                        path.unlink(missing_ok=True)
                        raise FormatError(f"{path}: its values are not those that were written; {MADE_AGAIN}")
                    progress.advance()
        finally:
            progress.end()
        return [sample.id for sample in samples]

    def _whole(self) -> list[int]:
        return [number for number in range(self.num_samples) if self.is_whole(number)]

    def _sample(self, number: int) -> AlignmentSample:
        with self._open(number) as file:
            return stored_sample(file, 0, with_names=False)

    def _slabs(self, part: int, layouts: Sequence[AlignmentSiteLayout]) -> Iterator[StoredSlab]:
        """A generator, so that an error of the file that is written never passes for damage of the part."""
        with self._open(part) as file:
            yield from stored_slabs(file, 0, layouts)

    @contextmanager
    def _open(self, number: int) -> Iterator[h5py.File]:
        path = part_path(self.output, number)
        try:
            with open_hdf5(path) as file:
                yield file
        except FormatError as error:
            path.unlink(missing_ok=True)
            raise FormatError(f"{error}; {MADE_AGAIN}") from error
