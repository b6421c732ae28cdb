"""Attribution of the promoters of a FASTA file into one HDF5 file: streamed in parts, resumable, memory flat."""

import hashlib
import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.special import expit

from bioattn import __version__
from bioattn.errors import BioattnError, Interrupted
from bioattn.interpret.attribution.methods import MethodSettings, make_attributor
from bioattn.interpret.attribution.values import Attributor
from bioattn.models.promoter.folder import LoadedPromoterModel
from bioattn.models.promoter.inference.batches import PromoterBatch, make_batch, scan_promoters
from bioattn.models.promoter.treatment_vocabulary import TreatmentBatch
from bioattn.promoters.gene_choice import choose_genes
from bioattn.promoters.promoter_fasta import Promoter, read_promoters
from bioattn.promoters.treatments import TreatmentTable
from bioattn.store.attribution_schema import ATTRIBUTION_PARTS_FORMAT, AttributionLayout
from bioattn.store.attribution_writer import AttributionBlock, AttributionParts
from bioattn.store.part_folder import open_parts, partial_folder, require_free_space
from bioattn.store.sample_writer import ResultHeader
from bioattn.store.shard_record import ShardRecord
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Promoters:
    """The promoters asked for, in file order."""

    path: Path
    length: int
    genes: frozenset[str] | None
    number: int
    first: int = 0
    """How many of them are passed over."""

    def promoters(self) -> Iterator[Promoter]:
        chosen = (
            promoter
            for promoter in read_promoters(self.path)
            if self.genes is None or promoter.gene_id in self.genes
        )
        return islice(chosen, self.first, self.first + self.number)


def run_attribution(
    model: LoadedPromoterModel,
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
    source = scan_promoters(promoters, model.length)
    asked, num_padded = _choose(promoters, model.length, genes)
    if num_padded:
        LOGGER.info(
            f"{num_padded:,} of {asked.number:,} promoters are shorter than the model's {model.length:,} bases "
            "and were padded with N upstream, which gets no values"
        )
    batch = model.encode_treatments(treatments).to(model.device)
    layout = AttributionLayout(
        method=settings.method,
        settings=settings.text(),
        num_treatments=batch.size,
        window_length=model.length,
    )
    attributor = make_attributor(model, batch, settings)
    at_once = attributor.promoters_at_once
    samples = _part_samples(layout, asked.number, at_once, part_samples)
    job = _job(model, source.sha256, asked, batch, settings, samples)
    record = None
    if shard is not None:
        # Shards end where the groups do that the method gets at once, which begin anew with every part.
        unit = at_once if samples % at_once == 0 else samples
        record = ShardRecord.of(shard, asked.number, unit, job)
        job |= record.place_as_json()
        asked = replace(asked, first=record.first, number=record.stop - record.first)
        LOGGER.info(f"shard {shard}: {counted(asked.number, 'promoter')} of {record.total:,}")
    store = AttributionParts(
        output,
        ResultHeader(
            model_sha256=model.sha256,
            input_sha256=source.sha256,
            window_length=model.length,
            task=model.task,
            downstream=source.downstream,
            shard=record,
        ),
        layout,
        treatments.names,
        asked.number,
        samples,
    )
    size = layout.stored_bytes(asked.number)
    LOGGER.info(
        f"attribution of {counted(asked.number, 'promoter')} × {counted(batch.size, 'treatment')} takes "
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
            LOGGER.info(f"going on after {resumed:,} of {asked.number:,} promoters of an earlier run")
        try:
            with stop_on_signals() as request:
                _write_parts(attributor, model, asked, store, progress, request)
                store.assemble(on_block=lambda block: sums.add(block, request), progress=progress)
        except (Interrupted, KeyboardInterrupt) as stop:
            done = store.num_done()
            raise Interrupted(
                f"stopped after {done:,} of {asked.number:,} promoters; "
                + (
                    f"they are kept in {partial_folder(output)}: repeat the command with --resume to go on"
                    if done
                    else "nothing is kept yet"
                ),
                stop.exit_code if isinstance(stop, Interrupted) else 130,
            ) from stop
    return AttributionSummary(
        num_promoters=asked.number,
        num_treatments=batch.size,
        num_padded=num_padded,
        num_bytes=output.stat().st_size,
        resumed_promoters=resumed,
        largest_gap=sums.largest_gap if layout.has_gap else None,
        largest_difference=sums.largest_difference if layout.has_gap else None,
    )


class _Sums:
    """How far contributions are from what they should sum to, as blocks go by."""

    def __init__(self) -> None:
        self.largest_gap = self.largest_difference = 0.0

    def add(self, block: AttributionBlock, request: StopRequest) -> None:
        """Look at a block, and whether to stop."""
        request.check()
        if block.gap is None:
            return
        present = (block.sequence[..., None] == np.arange(4)).astype(np.float32)
        sums = np.einsum("btla,bla->bt", block.values, present)
        self.largest_gap = max(self.largest_gap, float(np.abs(block.gap).max()))
        self.largest_difference = max(self.largest_difference, float(np.abs(sums).max()))


def _choose(path: Path, length: int, genes: Sequence[str]) -> tuple[_Promoters, int]:
    """The promoters asked for, and how many of them are shorter than the window."""
    windows = {each.gene_id: each.codes.size - 2 * each.flank for each in read_promoters(path)}
    chosen = frozenset(choose_genes(genes, windows, path)) if genes else None
    asked = windows if chosen is None else chosen
    padded = sum(windows[gene] < length for gene in asked)
    return _Promoters(path=path, length=length, genes=chosen, number=len(asked)), padded


def _write_parts(
    attributor: Attributor,
    model: LoadedPromoterModel,
    asked: _Promoters,
    store: AttributionParts,
    progress: Progress,
    request: StopRequest,
) -> None:
    """Compute the parts that are not there yet."""
    promoters = asked.promoters()
    progress.begin("promoters", asked.number)
    try:
        for part in range(store.num_parts):
            size = len(store.samples_of(part))
            if store.is_whole(part):
                progress.advance(sum(1 for _ in islice(promoters, size)))
                continue
            with store.part_writer(part) as writer:
                for first in range(0, size, attributor.promoters_at_once):
                    request.check()
                    group = list(islice(promoters, min(attributor.promoters_at_once, size - first)))
                    if not group:
                        raise BioattnError(f"{asked.path}: changed while it was read; run again")
                    writer.append(_attribute(attributor, model, make_batch(group, asked.length)))
                    progress.advance(len(group))
    finally:
        progress.end()


def _attribute(attributor: Attributor, model: LoadedPromoterModel, batch: PromoterBatch) -> AttributionBlock:
    try:
        found = attributor(batch.codes)
    except torch.OutOfMemoryError as error:
        raise BioattnError(
            f"{model.device}: out of memory; ask for fewer --treatment at a time, or use --device cpu"
        ) from error
    predictions = expit(found.predictions_BT) if model.task == "binary" else found.predictions_BT
    return AttributionBlock(batch.samples, batch.codes, found.values_BTLA, found.gap_BT, predictions)


def _part_samples(layout: AttributionLayout, num_samples: int, at_once: int, wanted: int | None) -> int:
    """Promoters of a part: whole chunks of the finished file, so that none is written in two goes, and whole
    groups of those that the method gets at once."""
    if wanted is not None:
        return wanted
    whole = math.lcm(layout.chunk(num_samples)[0], at_once)
    return max(1, min(MAX_PART_SAMPLES, PART_BYTES // layout.bytes_per_sample) // whole) * whole


def _job(
    model: LoadedPromoterModel,
    input_sha256: str,
    asked: _Promoters,
    treatments: TreatmentBatch,
    settings: MethodSettings,
    part_samples: int,
) -> dict[str, Any]:
    """Everything that decides the bytes of the result; parts are re-used only when all of it is equal."""
    names = hashlib.sha256("\0".join(treatments.names).encode())
    for tensor in treatments[1:]:
        names.update(tensor.cpu().numpy().tobytes())
    genes = "\0".join(sorted(asked.genes)) if asked.genes is not None else ""
    return {
        "format": ATTRIBUTION_PARTS_FORMAT,
        "generated_by": f"bioattn {__version__}",
        "method": str(settings.method),
        "settings": settings.text(),
        "model": model.sha256,
        "promoters": input_sha256,
        "num_promoters": asked.number,
        "genes": hashlib.sha256(genes.encode()).hexdigest() if asked.genes is not None else None,
        "treatments": names.hexdigest(),
        "part_samples": part_samples,
        "device": model.device.type,
    }
