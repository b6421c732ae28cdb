"""Running a model over all samples of a source: results in parts, resumable, in shards, in flat memory.

A family says how a batch becomes a block of results (`Work`), what file the blocks make (`ResultFile`), and who
else sees them in order, such as the writer of a table (`Results`). `run_work` does the rest.
"""

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from bioattn import __version__
from bioattn.errors import BioattnError, Interrupted
from bioattn.inference.finite import finite_results, require_finite
from bioattn.inference.runner import Batch, Source
from bioattn.io.output_names import partial_folder
from bioattn.store.parts import Parts, open_parts, require_free_space
from bioattn.store.schema import PREDICTIONS, SITES, Block, FileLayout, GroupLayout
from bioattn.store.shard_record import ShardRecord
from bioattn.store.writer import ResultWriter
from bioattn.system.progress import SILENT, Progress
from bioattn.system.shard import Shard
from bioattn.system.signals import StopRequest, stop_on_signals
from bioattn.text import counted, human_bytes

LOGGER = logging.getLogger("bioattn")

PART_BYTES = 1 << 26
"""Bytes of a part at most. A part is what a killed run loses at most."""
MAX_PART_SAMPLES = 4096
_VERSION = {"generated_by": f"bioattn {__version__}"}
"""Part of every job: another version need not give the same bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Samples, and how a batch of them becomes a block of results."""

    source: Source
    """All samples asked for, not only those of a shard."""
    noun: str
    """What a sample is, for messages."""
    batch_size: int
    """Samples that are computed together. A batch is never cut by parts or shards: what it gives follows from all
    that is in it."""
    compute: Callable[[Any], Block]
    """Gets the batches of the source."""
    stream: Callable[[Any, ResultWriter], None] | None = None
    """Computes a batch of one sample instead, and writes it while it does: results that are too large for a
    block."""
    model: Path | None = None
    """For messages."""
    lengths: Sequence[Mapping[str, int]] = ()
    """Lengths of every sample's ragged axes, by column of the sample table; empty without such axes."""

    def block(self, batch: Batch, layout: FileLayout | None) -> Block:
        """The results of a batch; layout: of the file that they go to.

        Raises: BioattnError naming the first sample with NaN or infinite values in one of the arrays.
        """
        block = self.compute(batch)
        groups = {} if layout is None else {group.path: group for group in layout.groups if group.ragged}
        # Predictions first: where they are not finite, all else seldom is.
        for path in sorted(block.arrays, key=lambda path: path != PREDICTIONS):
            for name, values in block.arrays[path].items():
                if values.dtype.kind != "f" or np.isfinite(values).all():
                    continue
                what = PREDICTIONS if path == PREDICTIONS else f"{name} of {path.removeprefix(f'{SITES}/')}"
                for place, sample in enumerate(block.samples.ids):
                    own = values[place]
                    if path in groups:  # behind a sample's end stands anything
                        array = next(each for each in groups[path].arrays if each.name == name)
                        own = own[groups[path].within(array, block.samples.lengths(place))]
                    with finite_results(f"{self.noun} {sample!r}", self.model):
                        require_finite(own, what)
        return block

    def blocks(self) -> Iterator[Block]:
        """The results of all samples, batch by batch. Raises: as `block`."""
        for batch in self.source.batches(self.batch_size):
            yield self.block(batch, None)

    def shard_record(self, shard: Shard | None, job: Mapping[str, Any]) -> ShardRecord | None:
        """What a result of `job` says of being one shard of a whole; None without a shard."""
        if shard is None:
            return None
        return ShardRecord.of(shard, self.source.num_samples, self.batch_size, {**_VERSION, **job})


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFile:
    """The HDF5 file that blocks make."""

    output: Path
    layout: FileLayout
    """Without a shard."""
    job: Mapping[str, Any]
    """JSON values of all that decides the bytes of the file; parts are used again only when all of it is equal."""
    part_samples: int
    about: str
    """What it holds, as `attention`."""
    of_each: str
    """What it holds for each sample, as ` × 4 treatments`."""
    smaller: str
    """What the user can do to make it smaller, as an imperative."""


class Results(Protocol):
    """Takes all blocks of a run, or of its shard, in the order of samples."""

    def write(self, block: Block) -> None:
        """The next samples."""

    def finish(self) -> None:
        """All samples were written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """What a run did."""

    num_samples: int
    num_bytes: int = 0
    """Size of the result file; 0 without one."""
    resumed_samples: int = 0
    """Samples whose results an interrupted run had left."""
    sites: Mapping[str, tuple[int, ...]]
    """Attention sites of the result file, and the shape of their last array."""


def whole_batches(groups: Sequence[GroupLayout], batch_size: int, wanted: int | None, most: int) -> int:
    """Samples of a part of these arrays: `wanted`, or about 64 MB and at most `most`, in whole batches.

    So a resumed run forms the batches that an undisturbed one would.
    """
    if wanted is None:
        wanted = min(most, PART_BYTES // max(1, sum(group.bytes_of_sample() for group in groups)))
    return max(1, wanted // batch_size) * batch_size


def run_work(
    work: Work,
    results: Results | None = None,
    file: ResultFile | None = None,
    *,
    shard: Shard | None = None,
    resume: bool = False,
    force: bool = False,
    progress: Progress = SILENT,
) -> RunSummary:
    """Compute all samples, or those of a shard, and hand the blocks to `file` and `results`.

    The file is complete or absent. Parts of an interrupted run are kept in `<output>.partial` and used again with
    `resume` (the bytes are then those of an undisturbed run on the same device and threads), dropped with `force`.
    The outputs of a shard say so, and `bioattn.store.merging` makes the whole of all shards, byte for byte.

    Raises: BioattnError for a full disk or parts of another run; Interrupted on Ctrl-C and SIGTERM, with `resume`
    able to go on.
    """
    record = None if file is None else work.shard_record(shard, file.job)
    if shard is not None:
        rows = shard.slice(work.source.num_samples, work.batch_size)
        together = f", in batches of {work.batch_size:,}" if work.batch_size > 1 else ""
        LOGGER.info(
            f"shard {shard}: {counted(rows.stop - rows.start, work.noun)} of {work.source.num_samples:,}{together}"
        )
        work = replace(work, source=work.source.part(rows), lengths=work.lengths[rows])
    number = work.source.num_samples
    if file is None:
        try:
            with stop_on_signals() as request:
                for block in _blocks(work, progress, request):
                    if results is not None:
                        results.write(block)
        except Interrupted as stop:
            raise Interrupted(f"{stop}; no predictions were kept, run again", stop.exit_code) from stop
        if results is not None:
            results.finish()
        return RunSummary(num_samples=number, sites={})
    layout = replace(file.layout, shard=record)
    # What is streamed has its final form, so that the only part becomes the file.
    alone = number == 1 and work.stream is not None and results is None
    parts = Parts(file.output, layout, number, file.part_samples, several=not alone)
    size = layout.stored_bytes(number, work.lengths)
    with opened_parts(
        parts,
        {**_VERSION, **file.job, **({} if record is None else record.place_as_json())},
        size,
        f"{file.about} of {counted(number, work.noun)}{file.of_each} takes",
        file.smaller,
        copies=1 if alone else 2,
        resume=resume,
        force=force,
    ):
        resumed = parts.num_done()
        if resumed:
            LOGGER.info(f"going on after {resumed:,} of {number:,} {work.noun}s of an earlier run")
        try:
            with stop_on_signals() as request:
                _write_parts(work, parts, progress, request)
                _assemble(parts, results, progress, request)
        except (Interrupted, KeyboardInterrupt) as stop:
            done = parts.num_done()
            raise Interrupted(
                f"stopped after {done:,} of {number:,} {work.noun}s; "
                + (
                    f"they are kept in {partial_folder(file.output)}: repeat the command with --resume to go on"
                    if done
                    else "nothing is kept yet"
                ),
                stop.exit_code if isinstance(stop, Interrupted) else 130,
            ) from stop
    return RunSummary(
        num_samples=number,
        num_bytes=file.output.stat().st_size,
        resumed_samples=resumed,
        sites={
            group.path.removeprefix(f"{SITES}/"): (number, *group.shape(group.arrays[-1]))
            for group in layout.groups
            if group.path.startswith(f"{SITES}/")
        },
    )


@contextmanager
def opened_parts(
    parts: Parts,
    job: Mapping[str, Any],
    size: int,
    holds: str,
    smaller: str,
    *,
    copies: int = 2,
    resume: bool,
    force: bool,
) -> Iterator[None]:
    """Say how large the file will be, and hold the folder of its parts open (`open_parts`).

    size: bytes of the file; holds: what it holds, with the verb; smaller: what the user can do about its size;
    copies: 1 when the only part becomes the file.

    Raises: BioattnError when the disk has no room, or for parts of another run.
    """
    LOGGER.info(f"{holds} {human_bytes(size)}")
    require_free_space(
        parts.output,
        copies * size - (parts.bytes_on_disk() if resume else 0),
        human_bytes(size) + (", and as much for its parts" if copies > 1 else ""),
        f"{smaller}, or another disk",
    )
    with open_parts(parts.output, job, resume=resume, force=force):
        yield


def _blocks(work: Work, progress: Progress, request: StopRequest) -> Iterator[Block]:
    """All blocks, one batch after the other."""
    progress.begin(f"{work.noun}s", work.source.num_samples)
    try:
        for batch in work.source.batches(work.batch_size):
            request.check()
            yield work.block(batch, None)
            progress.advance(len(batch.samples))
    finally:
        progress.end()


def _write_parts(work: Work, parts: Parts, progress: Progress, request: StopRequest) -> None:
    """Compute the parts that are not there yet."""
    batches = work.source.batches(work.batch_size)
    progress.begin(f"{work.noun}s", work.source.num_samples)
    try:
        for part in range(parts.num_parts):
            expected = math.ceil(len(parts.samples_of(part)) / work.batch_size)
            if parts.is_whole(part):
                for _ in range(expected):
                    progress.advance(len(_next(batches, work).samples))
                continue
            with parts.part_writer(part) as writer:
                for _ in range(expected):
                    request.check()
                    batch = _next(batches, work)
                    if work.stream is None:
                        writer.append(work.block(batch, parts.layout))
                    else:
                        with finite_results(f"{work.noun} {batch.samples.ids[0]!r}", work.model):
                            work.stream(batch, writer)
                    progress.advance(len(batch.samples))
    finally:
        progress.end()


def _next(batches: Iterator[Batch], work: Work) -> Batch:
    batch = next(batches, None)
    if batch is None:
        raise BioattnError(f"{work.source.path}: changed while it was read; run again")
    return batch


def _assemble(parts: Parts, results: Results | None, progress: Progress, request: StopRequest) -> None:
    def take(block: Block) -> None:
        request.check()
        if results is not None:
            results.write(block)

    parts.assemble(on_block=take, progress=progress)
    if results is not None:
        results.finish()
