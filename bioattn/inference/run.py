"""Running a model over all samples of a source: one stream of blocks, resumable, in shards, in flat memory.

A family says how a batch becomes a block of results (`Work`), which gives them one after the other; `run_work`
hands them to a file (`ResultFile`) and to whoever else takes them in order, such as the writer of a table.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from bioattn.attention.capture import capture
from bioattn.errors import Interrupted
from bioattn.inference.attention_receiver import BatchReceiver
from bioattn.inference.inputs import Source
from bioattn.inference.passes import finite_results, require_finite
from bioattn.inference.runner import Runner
from bioattn.io.files import partial_path, require_free_space
from bioattn.models.attention_settings import ExportAttention
from bioattn.models.running import Running, RunReport
from bioattn.promoters.genes import GeneNames, choose_genes
from bioattn.store import schema
from bioattn.store.contents import Held
from bioattn.store.shards import ShardRecord
from bioattn.store.writer import ResultWriter, result_file
from bioattn.system.memory import keep_freed_memory
from bioattn.system.progress import SILENT, Progress
from bioattn.system.shard import Shard, parse_shard
from bioattn.system.signals import StopRequest, stop_on_signals
from bioattn.text import counted, human_bytes

LOGGER = logging.getLogger("bioattn")

_LONG_MINUTES = 30
"""Runs of more are told how to bound what a killed process loses."""
_TRIAL_SECONDS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Samples, and how a batch of them becomes a block of results."""

    source: Source
    """All samples asked for, not only those of a shard."""
    noun: str
    batch_size: int
    compute: Callable[[Any], schema.Block]
    stream: Callable[[Any, Any], None] | None = None
    """Computes a batch of one sample instead, and writes it while it does: results that are too large for a
    block."""
    model: Path | None = None
    lengths: Sequence[Mapping[str, int]] = ()
    """Lengths of every sample's ragged axes, by column of the sample table; empty without such axes."""

    def part(self, rows: schema.Rows) -> Self:
        """Of some samples alone."""
        return replace(
            self, source=self.source.part(rows), lengths=self.lengths and schema.taken(self.lengths, rows)
        )

    def chosen(self, genes: Sequence[str], number: int | None, where: Path) -> Self:
        """Of those samples alone that `genes` name, as `choose_genes` takes them, or of `number` that are spread
        evenly over the input. where: the input, for messages.

        Raises: BioattnError for what is not there.
        """
        samples = self.source.samples
        rows = np.arange(len(samples))
        if genes:
            names = GeneNames(samples.ids, list(samples.columns.get("name", ())))
            rows = np.flatnonzero(np.isin(samples.ids, choose_genes(genes, names, where)))
        if number is not None and number < len(rows):
            rows = rows[np.linspace(0, len(rows) - 1, number).round().astype(int)]
        return self if len(rows) == len(samples) else self.part(rows)

    def block(self, batch: Source, layout: schema.FileLayout | None) -> schema.Block:
        """The results of a batch; layout: of the file that they go to.

        Raises: BioattnError naming the first sample with NaN or infinite values in one of the arrays.
        """
        block = self.compute(batch)
        groups = {} if layout is None else {group.path: group for group in layout.groups if group.ragged}
        # Predictions first: where they are not finite, all else seldom is.
        for path in sorted(block.arrays, key=lambda path: path != schema.PREDICTIONS):
            for name, values in block.arrays[path].items():
                # A sum of squares is quicker than a look at each value; that of large ones overflows, too.
                quick = values.dtype == np.float32 and np.isfinite(np.vdot(values, values))
                if quick or values.dtype.kind != "f" or np.isfinite(values).all():
                    continue
                is_prediction = path == schema.PREDICTIONS
                what = path if is_prediction else f"{name} of {path.removeprefix(f'{schema.SITES}/')}"
                for place, sample in enumerate(block.samples.ids):
                    own = values[place]
                    if path in groups:  # behind a sample's end stands anything
                        array = next(each for each in groups[path].arrays if each.name == name)
                        own = own[groups[path].within(array, block.samples.lengths(place))]
                    with finite_results(f"{self.noun} {sample!r}", self.model):
                        require_finite(own, what)
        return block

    def collect(self, layout: schema.FileLayout) -> Held:
        """The results of all samples, in memory. Raises: as `block`."""
        kept = Held(layout)
        for _ in self.blocks(layout, kept):
            pass
        return kept

    def blocks(
        self,
        layout: schema.FileLayout | None = None,
        into: ResultWriter | Held | None = None,
        *,
        progress: Progress = SILENT,
        request: StopRequest | None = None,
    ) -> Iterator[schema.Block]:
        """The results of all samples, one batch after the other, once they are written `into` what has `layout`.
        Of streamed results a block has the samples alone.

        Raises: as `block`; Interrupted.
        """
        for batch in self.source.batches(self.batch_size):
            if request is not None:
                request.check()
            if self.stream is None or into is None:
                block = self.block(batch, layout)
                if into is not None:
                    into.append(block)
            else:
                block = schema.Block(batch.samples, {})
                with finite_results(f"{self.noun} {batch.samples.ids[0]!r}", self.model):
                    self.stream(batch, into)
            yield block
            progress.advance(len(batch.samples))


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFile:
    """The HDF5 file that blocks make."""

    output: Path
    layout: schema.FileLayout
    settings: Mapping[str, Any]
    """JSON values of all that decides the content of the file beside model and samples. What an interrupted run
    left is gone on with, and shards are put together, only where all of it is equal."""
    about: str
    """What it holds, as `attention`."""
    of_each: str
    """What it holds for each sample, as ` × 4 treatments`."""
    smaller: str
    """What the user can do to make it smaller, as an imperative."""
    resume: bool
    force: bool
    """As `bioattn.store.writer.result_file` takes them."""


class RunSummary(NamedTuple):
    """What a run did."""

    num_samples: int
    num_bytes: int = 0
    """Size of the result file; 0 without one."""
    resumed_samples: int = 0
    """Samples whose results an interrupted run had left."""


def run_work(
    work: Work,
    take: Callable[[schema.Block], None] | None = None,
    file: ResultFile | None = None,
    *,
    shard: Shard | None = None,
    progress: Progress = SILENT,
) -> RunSummary:
    """Compute all samples, or those of a shard, and hand the blocks to `file` and `take`, in order.

    The outputs of a shard say so, and `bioattn.store.merging` makes the whole of all shards.

    Raises: BioattnError for a full disk or what is left of another run; Interrupted on Ctrl-C and SIGTERM, with
    `resume` able to go on.
    """
    if shard is not None:
        total = work.source.num_samples
        rows = shard.slice(total, work.batch_size)
        if file is not None:
            record = ShardRecord.of(shard, total, file.settings, work.batch_size)
            file = replace(file, layout=replace(file.layout, shard=record))
        LOGGER.info(f"shard {shard}: {counted(rows.stop - rows.start, work.noun)} of {total:,}")
        work = work.part(rows)
    number, noun = work.source.num_samples, work.noun
    take = take or (lambda block: None)
    progress.begin(f"{noun}s", number)
    keep_freed_memory()
    try:
        with stop_on_signals() as request:
            if file is not None:
                return _run_to_file(work, take, file, progress, request)
            for block in work.blocks(progress=progress, request=request):
                take(block)
    except Interrupted as stop:
        if file is not None:
            raise
        raise Interrupted(f"{stop}; no predictions were kept, run again", stop.exit_code) from stop
    finally:
        progress.end()
    return RunSummary(num_samples=number)


def _run_to_file(
    work: Work,
    take: Callable[[schema.Block], None],
    file: ResultFile,
    progress: Progress,
    request: StopRequest,
) -> RunSummary:
    number, noun, layout = work.source.num_samples, work.noun, file.layout
    resume, force, settings = file.resume, file.force, file.settings
    size = layout.stored_bytes(number, work.lengths)
    advice = f"; to make it smaller, {file.smaller}" if size > LARGE else ""
    LOGGER.info(f"{file.about} of {counted(number, noun)}{file.of_each} takes {human_bytes(size)}{advice}")
    partial = partial_path(file.output)
    there = partial.stat().st_size if resume and partial.is_file() else 0
    require_free_space(file.output, size - there, f"{file.smaller}, or another disk")
    done = resumed = 0
    try:
        with result_file(
            file.output, layout, number, settings=settings, resume=resume, force=force
        ) as writer:
            done = resumed = len(writer)
            if resumed:
                LOGGER.info(f"going on after {resumed:,} of {number:,} {noun}s of an earlier run")
                for block in writer.written():
                    take(block)
                progress.advance(resumed)
                work = work.part(slice(resumed, number))
            began, told = time.monotonic(), False
            for block in work.blocks(layout, writer, progress=progress, request=request):
                take(block)
                done += len(block.samples)
                seconds = time.monotonic() - began
                minutes = seconds * (number - resumed) / (done - resumed) / 60
                if not told and seconds > _TRIAL_SECONDS and minutes > _LONG_MINUTES:
                    shards = round(minutes / _LONG_MINUTES) + 1
                    LOGGER.info(
                        f"this takes about {minutes:,.0f} minutes. Ctrl-C keeps what is done, but a process that "
                        f"is killed loses it: --shard 1/{shards} to {shards}/{shards} are runs of some "
                        f"{minutes / shards:,.0f} minutes, which `bioattn merge` joins"
                    )
                told = seconds > _TRIAL_SECONDS
    except (Interrupted, KeyboardInterrupt) as stop:
        kept = "nothing is kept yet"
        if done:
            kept = f"they are kept in {partial}: repeat the command with --resume to go on"
        code = stop.exit_code if isinstance(stop, Interrupted) else 130
        raise Interrupted(f"stopped after {done:,} of {number:,} {noun}s; {kept}", code) from stop
    size = file.output.stat().st_size
    return RunSummary(num_samples=number, num_bytes=size, resumed_samples=resumed)


LARGE = 1_000_000_000
"""A file of more bytes is told how to be smaller."""
BATCH_BYTES = 1 << 26
"""What the maps of a batch take at most, but for one sample of more."""
MAX_BATCH = 64


def fitting_samples(bytes_of_largest: int) -> int:
    """Samples of a batch, so that their maps stay within `BATCH_BYTES`."""
    return max(1, min(MAX_BATCH, BATCH_BYTES // bytes_of_largest))


def attention_work(
    loaded: Runner,
    source: Source,
    forward: Callable[[Any], Mapping[str, Mapping[str, NDArray[Any]]]],
    options: schema.AttentionOptions,
    *,
    sites: Sequence[str],
    noun: str,
    columns: Sequence[schema.Column],
    lists: Sequence[schema.ListColumn] = (),
    more: Sequence[schema.GroupLayout] = (),
    attributes: Mapping[str, Any] = MappingProxyType({}),
    batch_size: int | None = None,
) -> tuple[Work, schema.FileLayout]:
    """How the maps of samples are computed.

    forward: runs the model on some samples; gives the arrays of the groups `more`, by their paths. sites: names of
    those that are heard. columns, lists: of the sample table. batch_size: None = as memory allows.

    Raises: BioattnError for heads that the model lacks.
    """
    lengths = [source.samples.lengths(number) for number in range(source.num_samples)]
    groups = (*(schema.site_layout(loaded.sites[name], options, lengths=lengths) for name in sites), *more)
    if batch_size is None:
        longest = {name: max(each[name] for each in lengths) for name in lengths[0]}
        batch_size = fitting_samples(sum(group.bytes_of_sample(longest) for group in groups))
    receiver = BatchReceiver(options)

    def compute(batch: Source) -> schema.Block:
        with torch.inference_mode(), capture(sites, receiver, value_weighted=options.value_weighted):
            arrays = forward(batch.items)
        return schema.Block(batch.samples, {**receiver.take(), **arrays})

    work = Work(
        source=source, noun=noun, batch_size=batch_size, compute=compute, model=loaded.path, lengths=lengths
    )
    layout = schema.FileLayout(
        inputs=f"{noun}s",
        model_sha256=loaded.sha256,
        attributes=attributes,
        columns=tuple(columns),
        lists=tuple(lists),
        groups=groups,
    )
    return work, layout


def write_attention_file(
    settings: ExportAttention,
    running: Running,
    work: Work,
    layout: schema.FileLayout,
    *,
    smaller: str = "choose fewer --sites or --heads, --samples, or --reduce",
    about: str = "attention",
    of_each: str = "",
    **deciding: Any,
) -> RunReport:
    """Write the file that `settings` ask for.

    smaller, about, of_each: as in `ResultFile`. deciding: JSON values of what decides its content beside the
    options and what the attributes of `layout` tell.

    Raises: as `run_work`.
    """
    if settings.genes or settings.samples is not None:
        work = work.chosen(settings.genes, settings.samples, settings.sequences)
        deciding["samples"] = work.source.samples.digest()
    paths = [group.path for group in layout.groups]
    sites = [path.removeprefix(f"{schema.SITES}/") for path in paths if path.startswith(f"{schema.SITES}/")]
    file = ResultFile(
        output=settings.output,
        layout=layout,
        settings={
            "model": layout.model_sha256,
            "attributes": dict(layout.attributes),
            **deciding,
            **asdict(settings.options()),
            "sites": sites,
        },
        about=about,
        of_each=of_each,
        smaller=smaller,
        resume=settings.resume,
        force=settings.force,
    )
    shard = None if settings.shard is None else parse_shard(settings.shard)
    summary = run_work(work, file=file, shard=shard, progress=running.progress)
    figures: dict[str, Any] = {f"{work.noun}s": summary.num_samples}
    return RunReport(
        f"wrote {settings.output}: {about} of {counted(summary.num_samples, work.noun)}{of_each} at "
        f"{counted(len(sites), 'site')}, {human_bytes(summary.num_bytes)}",
        **figures,
    )
