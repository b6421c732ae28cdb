"""Running a promoter model over a FASTA file: predictions, and attention if asked for, in flat memory."""

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from bioattn import __version__
from bioattn.errors import BioattnError, Interrupted
from bioattn.io.output_names import partial_folder
from bioattn.models.promoter.inference.batches import PromoterBatch, PromoterSource, scan_promoters
from bioattn.models.promoter.inference.predictions import PredictionWriter
from bioattn.models.promoter.inference.runner import PromoterRunner
from bioattn.promoters.treatments import TreatmentTable
from bioattn.store.part_folder import open_parts, require_free_space
from bioattn.store.parts import Parts
from bioattn.store.prediction_table import PREDICTIONS_JOB
from bioattn.store.schema import (
    PREDICTIONS,
    SITES,
    AttentionOptions,
    Block,
    FileLayout,
    GroupLayout,
    predictions_layout,
)
from bioattn.store.shard_record import ShardRecord
from bioattn.store.windows import PROMOTER_COLUMNS, PROMOTERS, window_attributes
from bioattn.system.progress import NoProgress, Progress
from bioattn.system.shard import Shard
from bioattn.system.signals import StopRequest, stop_on_signals
from bioattn.text import counted, human_bytes

if TYPE_CHECKING:
    from bioattn.models.promoter.folder import LoadedPromoterModel

LOGGER = logging.getLogger("bioattn")

PART_BYTES = 1 << 26
MAX_PART_SAMPLES = 4096
"""A part is what a killed run loses at most: 64 MB or some thousand promoters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """What a run did."""

    num_promoters: int
    num_treatments: int
    num_padded: int
    """Promoters of the whole file that are shorter than the model's window."""
    sites: dict[str, tuple[int, ...]]
    """Attention sites written, and the shape of their weights."""
    attention_bytes: int
    """Size of the attention file; 0 without one."""
    resumed_promoters: int
    """Promoters whose results an interrupted run had left."""


def run_promoters(
    model: "LoadedPromoterModel",
    promoters: Path,
    *,
    treatments: TreatmentTable,
    predictions: TextIO | None = None,
    attention: Path | None = None,
    options: AttentionOptions | None = None,
    batch_size: int | None = None,
    part_samples: int | None = None,
    shard: Shard | None = None,
    resume: bool = False,
    force: bool = False,
    progress: Progress | None = None,
) -> RunSummary:
    """Predict every promoter of a FASTA under `treatments`, and write the attention behind it.

    predictions: gets a wide TSV: responses, or probabilities of a binary model.
    attention: HDF5 file by `docs/formats/attention.md`, complete or absent; parts of an interrupted run are kept
    in `<attention>.partial` and re-used with `resume` (the bytes are then those of an undisturbed run on the same
    device and threads), dropped with `force`. batch_size: promoters per forward pass, None = what keeps memory
    flat. part_samples: promoters per part, None = about 64 MB. shard: of the promoters only these, whole batches;
    the outputs say so, and `bioattn.store.merging` makes the whole of all shards, byte for byte.

    Raises: BioattnError for promoters or treatments that the model cannot take, a full disk, parts of another
    run; Interrupted on Ctrl-C and SIGTERM, with `resume` able to go on.
    """
    progress = progress or NoProgress()
    source = scan_promoters(promoters, model.length)
    runner = PromoterRunner(model, treatments, batch_size)
    if source.num_padded:
        LOGGER.info(
            f"{source.num_padded:,} of {source.num_samples:,} promoters are shorter than the model's "
            f"{model.length:,} bases and were padded with N upstream"
        )
    options = options or AttentionOptions()
    layouts = [] if attention is None else runner.listen(options)
    rows = None
    if predictions is not None:
        record = _record(shard, source, runner, _prediction_job(runner, source, layouts))
        rows = PredictionWriter(predictions, treatments.names, record)
    if attention is None:
        try:
            with stop_on_signals() as request:
                return _predict(runner, _part(source, shard, runner), rows, progress, request)
        except Interrupted as stop:
            raise Interrupted(f"{stop}; no predictions were kept, run again", stop.exit_code) from stop
    samples = _part_samples(layouts, runner.batch_size, part_samples)
    job = _attention_job(runner, source, layouts, options, samples)
    record = _record(shard, source, runner, job)
    source = _part(source, shard, runner)
    layout = FileLayout(
        inputs=PROMOTERS,
        model_sha256=model.sha256,
        attributes=window_attributes(source.sha256, model.length, model.task, source.downstream),
        columns=PROMOTER_COLUMNS,
        groups=(*layouts, predictions_layout(treatments.names)),
        shard=record,
    )
    store = Parts(attention, layout, source.num_samples, samples)
    size = layout.stored_bytes(source.num_samples)
    LOGGER.info(
        f"attention of {counted(source.num_samples, 'promoter')} × "
        f"{counted(len(treatments.names), 'treatment')} at "
        f"{counted(len(layouts), 'site')} takes {human_bytes(size)}"
    )
    require_free_space(
        attention,
        2 * size - (store.bytes_on_disk() if resume else 0),
        f"{human_bytes(size)}, and as much for its parts",
        "choose fewer --treatment, --sites or --heads, --reduce, or another disk",
    )
    if record is not None:
        job |= record.place_as_json()
    with open_parts(attention, job, resume=resume, force=force):
        resumed = store.num_done()
        if resumed:
            LOGGER.info(f"going on after {resumed:,} of {source.num_samples:,} promoters of an earlier run")
        try:
            with stop_on_signals() as request:
                _write_parts(runner, source, store, progress, request)
                _assemble(store, rows, progress, request)
        except (Interrupted, KeyboardInterrupt) as stop:
            done = store.num_done()
            raise Interrupted(
                f"stopped after {done:,} of {source.num_samples:,} promoters; "
                + (
                    f"they are kept in {partial_folder(attention)}: repeat the command with --resume to go on"
                    if done
                    else "nothing is kept yet"
                ),
                stop.exit_code if isinstance(stop, Interrupted) else 130,
            ) from stop
    return RunSummary(
        num_promoters=source.num_samples,
        num_treatments=len(treatments.names),
        num_padded=source.num_padded,
        sites={_name(group): (source.num_samples, *group.shape(group.arrays[-1])) for group in layouts},
        attention_bytes=attention.stat().st_size,
        resumed_promoters=resumed,
    )


def _predict(
    runner: PromoterRunner,
    source: PromoterSource,
    writer: PredictionWriter | None,
    progress: Progress,
    request: StopRequest,
) -> RunSummary:
    progress.begin("promoters", source.num_samples)
    try:
        for batch in source.batches(runner.batch_size):
            request.check()
            answer = runner.predict(batch.codes)
            if writer is not None:
                writer.write(batch.samples.ids, answer)
            progress.advance(len(batch.samples.ids))
    finally:
        progress.end()
    if writer is not None:
        writer.finish()
    return RunSummary(
        num_promoters=source.num_samples,
        num_treatments=len(runner.names),
        num_padded=source.num_padded,
        sites={},
        attention_bytes=0,
        resumed_promoters=0,
    )


def _write_parts(
    runner: PromoterRunner, source: PromoterSource, store: Parts, progress: Progress, request: StopRequest
) -> None:
    """Compute the parts that are not there yet."""
    batches = source.batches(runner.batch_size)
    progress.begin("promoters", source.num_samples)
    try:
        for part in range(store.num_parts):
            expected = math.ceil(len(store.samples_of(part)) / runner.batch_size)
            if store.is_whole(part):
                for _ in range(expected):
                    progress.advance(len(_next_batch(batches, source).samples.ids))
                continue
            with store.part_writer(part) as writer:
                for _ in range(expected):
                    request.check()
                    batch = _next_batch(batches, source)
                    answer = runner.predict(batch.codes)
                    arrays = {**runner.attention(), PREDICTIONS: {"values": answer}}
                    writer.append(Block(batch.samples, arrays))
                    progress.advance(len(batch.samples.ids))
    finally:
        progress.end()


def _next_batch(batches: Iterator[PromoterBatch], source: PromoterSource) -> PromoterBatch:
    batch = next(batches, None)
    if batch is None:
        raise BioattnError(f"{source.path}: changed while it was read; run again")
    return batch


def _assemble(
    store: Parts, writer: PredictionWriter | None, progress: Progress, request: StopRequest
) -> None:
    def take(block: Block) -> None:
        request.check()
        if writer is not None:
            writer.write(block.samples.ids, block.arrays[PREDICTIONS]["values"])

    store.assemble(on_block=take, progress=progress)
    if writer is not None:
        writer.finish()


def _name(layout: GroupLayout) -> str:
    """The name of a site."""
    return layout.path.removeprefix(f"{SITES}/")


def _part_samples(layouts: Sequence[GroupLayout], batch_size: int, wanted: int | None) -> int:
    """Whole batches per part, so that a resumed run forms the batches an undisturbed one would."""
    if wanted is None:
        per_sample = max(1, sum(layout.bytes_of_sample() for layout in layouts))
        wanted = min(MAX_PART_SAMPLES, PART_BYTES // per_sample)
    return max(1, wanted // batch_size) * batch_size


def _part(source: PromoterSource, shard: Shard | None, runner: PromoterRunner) -> PromoterSource:
    """The promoters to run, whole batches of them: what a batch gives follows from all that is in it."""
    if shard is None:
        return source
    rows = shard.slice(source.num_samples, runner.batch_size)
    LOGGER.info(
        f"shard {shard}: {counted(rows.stop - rows.start, 'promoter')} of {source.num_samples:,}, in batches "
        f"of {runner.batch_size:,}"
    )
    return source.part(rows)


def _record(
    shard: Shard | None, source: PromoterSource, runner: PromoterRunner, job: dict[str, Any]
) -> ShardRecord | None:
    if shard is None:
        return None
    return ShardRecord.of(shard, source.num_samples, runner.batch_size, job)


def _prediction_job(
    runner: PromoterRunner, source: PromoterSource, layouts: Sequence[GroupLayout]
) -> dict[str, Any]:
    """Everything that decides the predictions of all promoters."""
    return {
        "format": PREDICTIONS_JOB,
        "generated_by": f"bioattn {__version__}",
        "model": runner.model.sha256,
        "promoters": source.sha256,
        "num_promoters": source.num_samples,
        "treatments": runner.fingerprint(),
        # Attention that is kept is computed in another order, which can change the last digit.
        "sites": [_name(layout) for layout in layouts],
        "batch_size": runner.batch_size,
        "device": runner.device.type,
    }


def _attention_job(
    runner: PromoterRunner,
    source: PromoterSource,
    layouts: Sequence[GroupLayout],
    options: AttentionOptions,
    part_samples: int,
) -> dict[str, Any]:
    """Everything that decides the bytes of the result; parts are re-used only when all of it is equal."""
    return {
        "format": "bioattn-attention-parts",
        "generated_by": f"bioattn {__version__}",
        "model": runner.model.sha256,
        "promoters": source.sha256,
        "num_promoters": source.num_samples,
        "treatments": runner.fingerprint(),
        "sites": [_name(layout) for layout in layouts],
        "heads": None if options.heads is None else list(options.heads),
        "dtype": str(options.dtype),
        "reduce": str(options.reduce),
        "value_weighted": options.value_weighted,
        "top_k": options.top_k,
        "phases": options.phases,
        "batch_size": runner.batch_size,
        "part_samples": part_samples,
        "device": runner.device.type,
    }
