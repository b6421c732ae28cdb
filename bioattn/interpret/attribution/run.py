"""Attribution of the promoters of a FASTA file into one HDF5 file: streamed, resumable, memory flat."""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit

from bioattn.errors import BioattnError
from bioattn.inference.run import ResultFile, RunSummary, Work, run_work
from bioattn.inference.runner import Predictor, ResponseRunner, WindowBatch, WindowSource
from bioattn.interpret.attribution.methods import Attributor, MethodSettings, make_attributor
from bioattn.promoters.treatments import TreatmentTable
from bioattn.store.attribution import (
    ATTRIBUTION,
    GAP,
    SEQUENCE,
    VALUES,
    attribution_file_layout,
)
from bioattn.store.schema import PREDICTIONS, Block, FileLayout
from bioattn.store.windows import window_attributes
from bioattn.system.progress import SILENT, Progress
from bioattn.system.shard import Shard
from bioattn.text import counted

LOGGER = logging.getLogger("bioattn")


@dataclass(slots=True)
class Completeness:
    """How far contributions are from what they should sum to, as blocks go by; None before the first gap."""

    largest_gap: float | None = None
    """Of integrated gradients, the furthest that contributions are from summing to f(promoter) − f(baseline)."""
    largest_difference: float | None = None

    def write(self, block: Block) -> None:
        """Look at the next block."""
        arrays = block.arrays[ATTRIBUTION]
        if GAP not in arrays:
            return
        present = (arrays[SEQUENCE][..., None] == np.arange(4)).astype(np.float32)
        sums = np.einsum("btla,bla->bt", arrays[VALUES], present)
        self.largest_gap = max(self.largest_gap or 0.0, float(np.abs(arrays[GAP]).max()))
        self.largest_difference = max(self.largest_difference or 0.0, float(np.abs(sums).max()))


def run_attribution(
    runner: ResponseRunner,
    promoters: Path,
    output: Path,
    *,
    settings: MethodSettings,
    treatments: TreatmentTable,
    genes: Sequence[str] = (),
    shard: Shard | None = None,
    resume: bool = False,
    force: bool = False,
    progress: Progress = SILENT,
) -> tuple[RunSummary, Completeness]:
    """Attribute the predictions of promoters of a FASTA to their bases, for each of `treatments`.

    output: HDF5 file by `docs/formats/attribution.md`. genes: ids or files of ids as `choose_genes` takes them,
    empty = all; file order is kept. shard, resume, force: as in `run_work`.

    Raises: BioattnError for promoters, genes or treatments that the model cannot take, and as `run_work`.
    """
    source = runner.read(promoters, genes)
    if source.num_padded:
        LOGGER.info(
            f"{source.num_padded:,} of {source.num_samples:,} promoters are shorter than the model's "
            f"{runner.length:,} bases and were padded with N upstream, which gets no values"
        )
    work, layout = attribution_work(runner, source, treatments, settings)
    completeness = Completeness()
    summary = run_work(
        work,
        completeness,
        ResultFile(
            output=output,
            layout=layout,
            settings=_settings(runner.predictor(treatments), source, settings),
            about="attribution",
            of_each=f" × {counted(len(treatments.names), 'treatment')}",
            smaller="choose fewer --treatment or --genes",
        ),
        shard=shard,
        resume=resume,
        force=force,
        progress=progress,
    )
    return summary, completeness


def attribution_work(
    runner: ResponseRunner, source: WindowSource, treatments: TreatmentTable, settings: MethodSettings
) -> tuple[Work, FileLayout]:
    """How promoters are attributed, batch by batch, and the layout of the results.

    Raises: BioattnError for treatments that the model cannot take.
    """
    predictor = runner.predictor(treatments)
    attributor = make_attributor(predictor, settings)
    layout = attribution_file_layout(
        settings.method,
        settings.text(),
        predictor.names,
        model_sha256=runner.sha256,
        attributes=window_attributes(source.sha256, runner.length, runner.task, source.downstream),
    )
    work = Work(
        source=source,
        noun="promoter",
        batch_size=attributor.promoters_at_once,
        compute=lambda batch: _attribute(attributor, runner, batch),
        model=runner.path,
    )
    return work, layout


def _attribute(attributor: Attributor, runner: ResponseRunner, batch: WindowBatch) -> Block:
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


def _settings(predictor: Predictor, source: WindowSource, settings: MethodSettings) -> dict[str, Any]:
    """All that decides the result."""
    genes = None if source.genes is None else "\0".join(sorted(source.genes))
    return {
        "method": str(settings.method),
        "settings": settings.text(),
        "model": predictor.runner.sha256,
        "promoters": source.sha256,
        "genes": None if genes is None else hashlib.sha256(genes.encode()).hexdigest(),
        "treatments": predictor.digest(),
    }
