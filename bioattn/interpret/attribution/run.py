"""Attribution of the promoters of a FASTA file into one HDF5 file: streamed in parts, resumable, memory flat."""

import hashlib
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit

from bioattn import __version__
from bioattn.errors import BioattnError, Interrupted
from bioattn.inference.runner import Batch, Predictor, ResponseRunner, Source
from bioattn.interpret.attribution.methods import MethodSettings, make_attributor
from bioattn.interpret.attribution.values import Attributor
from bioattn.io.output_names import partial_folder
from bioattn.promoters.treatments import TreatmentTable
from bioattn.store.attribution import (
    ATTRIBUTION,
    ATTRIBUTION_PARTS_FORMAT,
    GAP,
    SEQUENCE,
    VALUES,
    attribution_file_layout,
)
from bioattn.store.part_folder import open_parts, require_free_space
from bioattn.store.parts import Parts
from bioattn.store.schema import PREDICTIONS, Block, FileLayout
from bioattn.store.shard_record import ShardRecord
from bioattn.store.windows import window_attributes
from bioattn.system.progress import NoProgress, Progress
from bioattn.system.shard import Shard
from bioattn.system.signals import StopRequest, stop_on_signals
from bioattn.text import counted, human_bytes

LOGGER = logging.getLogger("bioattn")

PART_BYTES = 1 << 26
MAX_PART_SAMPLES = 256
"""A part is what a killed run loses at most: 64 MB or some hundred promoters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributionSummary:
    """What a run did."""

    num_promoters: int
    num_treatments: int
    num_padded: int
    """Promoters shorter than the model's window."""
    num_bytes: int
    """Size of the file."""
    resumed_promoters: int
    """Promoters whose results an interrupted run had left."""
    largest_gap: float | None
    """Of integrated gradients, the furthest that contributions are from summing to f(promoter) − f(baseline)."""
    largest_difference: float | None
    """The largest of those differences."""


def run_attribution(
    runner: ResponseRunner,
    promoters: Path,
    output: Path,
    *,
    settings: MethodSettings,
    treatments: TreatmentTable,
    genes: Sequence[str] = (),
    part_samples: int | None = None,
    shard: Shard | None = None,
    resume: bool = False,
    force: bool = False,
    progress: Progress | None = None,
) -> AttributionSummary:
    """Attribute the predictions of promoters of a FASTA to their bases, for each of `treatments`.

    output: HDF5 file by `docs/formats/attribution.md`, complete or absent; parts of an interrupted run are kept in
    `<output>.partial` and re-used with `resume` (the bytes are then those of an undisturbed run on the same device
    and threads), dropped with `force`. genes: ids or files of ids as `choose_genes` takes them, empty = all; file
    order is kept. part_samples: promoters per part, None = about 64 MB. shard: of the promoters only these; the
    output says so, and `bioattn.store.merging` makes the whole of all shards, byte for byte.

    Raises: BioattnError for promoters, genes or treatments that the model cannot take, a full disk, parts of
    another run; Interrupted on Ctrl-C and SIGTERM, with `resume` able to go on.
    """
    progress = progress or NoProgress()
    source: Source = runner.read(promoters, genes)
    num_padded = source.num_padded
    if num_padded:
        LOGGER.info(
            f"{num_padded:,} of {source.num_samples:,} promoters are shorter than the model's {runner.length:,} "
            "bases and were padded with N upstream, which gets no values"
        )
    predictor = runner.predictor(treatments)
    num_treatments = len(predictor.names)
    layout = attribution_file_layout(
        settings.method,
        settings.text(),
        predictor.names,
        model_sha256=runner.sha256,
        attributes=window_attributes(source.sha256, runner.length, runner.task, source.downstream),
    )
    attributor = make_attributor(predictor, settings)
    samples = _part_samples(layout, source.num_samples, attributor.promoters_at_once, part_samples)
    job = _job(predictor, source, settings, samples)
    record = None
    if shard is not None:
        # Shards end where the groups do that the method gets at once.
        record = ShardRecord.of(shard, source.num_samples, attributor.promoters_at_once, job)
        job |= record.place_as_json()
        source = source.part(slice(record.first, record.stop))
        LOGGER.info(f"shard {shard}: {counted(source.num_samples, 'promoter')} of {record.total:,}")
    store = Parts(output, replace(layout, shard=record), source.num_samples, samples)
    size = layout.stored_bytes(source.num_samples)
    LOGGER.info(
        f"attribution of {counted(source.num_samples, 'promoter')} × {counted(num_treatments, 'treatment')} takes "
        f"{human_bytes(size)}"
    )
    require_free_space(
        output,
        2 * size - (store.bytes_on_disk() if resume else 0),
        f"{human_bytes(size)}, and as much for its parts",
        "choose fewer --treatment or --genes, or another disk",
    )
    sums = _Sums()
    with open_parts(output, job, resume=resume, force=force):
        resumed = store.num_done()
        if resumed:
            LOGGER.info(f"going on after {resumed:,} of {source.num_samples:,} promoters of an earlier run")
        try:
            with stop_on_signals() as request:
                _write_parts(attributor, runner, source, store, progress, request)
                store.assemble(on_block=lambda block: sums.add(block, request), progress=progress)
        except (Interrupted, KeyboardInterrupt) as stop:
            done = store.num_done()
            raise Interrupted(
                f"stopped after {done:,} of {source.num_samples:,} promoters; "
                + (
                    f"they are kept in {partial_folder(output)}: repeat the command with --resume to go on"
                    if done
                    else "nothing is kept yet"
                ),
                stop.exit_code if isinstance(stop, Interrupted) else 130,
            ) from stop
    return AttributionSummary(
        num_promoters=source.num_samples,
        num_treatments=num_treatments,
        num_padded=num_padded,
        num_bytes=output.stat().st_size,
        resumed_promoters=resumed,
        largest_gap=sums.largest_gap,
        largest_difference=sums.largest_difference,
    )


class _Sums:
    """How far contributions are from what they should sum to, as blocks go by."""

    def __init__(self) -> None:
        self.largest_gap: float | None = None
        self.largest_difference: float | None = None

    def add(self, block: Block, request: StopRequest) -> None:
        """Look at a block, and whether to stop."""
        request.check()
        arrays = block.arrays[ATTRIBUTION]
        if GAP not in arrays:
            return
        present = (arrays[SEQUENCE][..., None] == np.arange(4)).astype(np.float32)
        sums = np.einsum("btla,bla->bt", arrays[VALUES], present)
        self.largest_gap = max(self.largest_gap or 0.0, float(np.abs(arrays[GAP]).max()))
        self.largest_difference = max(self.largest_difference or 0.0, float(np.abs(sums).max()))


def _write_parts(
    attributor: Attributor,
    runner: ResponseRunner,
    source: Source,
    store: Parts,
    progress: Progress,
    request: StopRequest,
) -> None:
    """Compute the parts that are not there yet."""
    batches = source.batches(attributor.promoters_at_once)
    progress.begin("promoters", source.num_samples)
    try:
        for part in range(store.num_parts):
            expected = math.ceil(len(store.samples_of(part)) / attributor.promoters_at_once)
            if store.is_whole(part):
                for batch in islice(batches, expected):
                    progress.advance(len(batch.codes))
                continue
            with store.part_writer(part) as writer:
                for _ in range(expected):
                    request.check()
                    try:
                        batch = next(batches)
                    except StopIteration:
                        raise BioattnError(f"{source.path}: changed while it was read; run again") from None
                    writer.append(_attribute(attributor, runner, batch))
                    progress.advance(len(batch.codes))
    finally:
        progress.end()


def _attribute(attributor: Attributor, runner: ResponseRunner, batch: Batch) -> Block:
    try:
        found = attributor(batch.codes)
    except torch.OutOfMemoryError as error:
        raise BioattnError(
            f"{runner.device}: out of memory; ask for fewer --treatment at a time, or use --device cpu"
        ) from error
    predictions = expit(found.predictions_BT) if runner.task == "binary" else found.predictions_BT
    arrays: dict[str, NDArray[Any]] = {SEQUENCE: batch.codes, VALUES: found.values_BTLA}
    if found.gap_BT is not None:
        arrays[GAP] = found.gap_BT
    return Block(batch.samples, {ATTRIBUTION: arrays, PREDICTIONS: {"values": predictions}})


def _part_samples(layout: FileLayout, num_samples: int, at_once: int, wanted: int | None) -> int:
    """Promoters of a part: whole chunks of the finished file, so that none is written in two goes, and whole
    groups of those that the method gets at once."""
    whole = at_once
    if wanted is None:
        group = next(group for group in layout.groups if group.path == ATTRIBUTION)
        values = next(array for array in group.arrays if array.name == VALUES)
        whole = math.lcm(group.chunk(values, num_samples)[0], at_once)
        wanted = min(MAX_PART_SAMPLES, PART_BYTES // group.bytes_of_sample())
    return max(1, wanted // whole) * whole


def _job(predictor: Predictor, source: Source, settings: MethodSettings, part_samples: int) -> dict[str, Any]:
    """Everything that decides the bytes of the result; parts are re-used only when all of it is equal."""
    genes = None if source.genes is None else "\0".join(sorted(source.genes))
    return {
        "format": ATTRIBUTION_PARTS_FORMAT,
        "generated_by": f"bioattn {__version__}",
        "method": str(settings.method),
        "settings": settings.text(),
        "model": predictor.runner.sha256,
        "promoters": source.sha256,
        "num_promoters": source.num_samples,
        "genes": None if genes is None else hashlib.sha256(genes.encode()).hexdigest(),
        "treatments": predictor.digest(),
        "part_samples": part_samples,
        "device": predictor.runner.device.type,
    }
