"""Running a promoter model over a FASTA file: predictions, and attention if asked for, in flat memory."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from bioattn.inference.run import MAX_PART_SAMPLES, ResultFile, RunSummary, Work, run_work, whole_batches
from bioattn.models.promoter.inference.batches import PromoterSource
from bioattn.models.promoter.inference.predictions import PredictionWriter
from bioattn.models.promoter.inference.runner import PromoterRunner
from bioattn.promoters.treatments import TreatmentTable
from bioattn.store.prediction_table import PREDICTIONS_JOB
from bioattn.store.schema import SITES, AttentionOptions, FileLayout, GroupLayout, predictions_layout
from bioattn.store.windows import PROMOTER_COLUMNS, PROMOTERS, window_attributes
from bioattn.system.progress import Progress
from bioattn.system.shard import Shard
from bioattn.text import counted

if TYPE_CHECKING:
    from bioattn.models.promoter.folder import LoadedPromoterModel

LOGGER = logging.getLogger("bioattn")


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

    predictions: gets a wide TSV: responses, or probabilities of a binary model. attention: HDF5 file by
    `docs/formats/attention.md`. batch_size: promoters per forward pass, None = what keeps memory flat.
    part_samples: promoters per part of the attention, None = about 64 MB. shard, resume, force: as in `run_work`.

    Raises: BioattnError for promoters or treatments that the model cannot take, and as `run_work`.
    """
    source = model.read(promoters)
    runner = PromoterRunner(model.predictor(treatments), batch_size)
    if source.num_padded:
        LOGGER.info(
            f"{source.num_padded:,} of {source.num_samples:,} promoters are shorter than the model's "
            f"{model.length:,} bases and were padded with N upstream"
        )
    options = options or AttentionOptions()
    layouts = [] if attention is None else runner.listen(options)
    work = Work(source=source, noun="promoter", batch_size=runner.batch_size, compute=runner.compute)
    job = _job(runner, source, layouts)
    rows = file = None
    if predictions is not None:
        record = work.shard_record(shard, {"format": PREDICTIONS_JOB, **job})
        rows = PredictionWriter(predictions, treatments.names, record)
    if attention is not None:
        layout = FileLayout(
            inputs=PROMOTERS,
            model_sha256=model.sha256,
            attributes=window_attributes(source.sha256, model.length, model.task, source.downstream),
            columns=PROMOTER_COLUMNS,
            groups=(*layouts, predictions_layout(treatments.names)),
        )
        samples = whole_batches(layouts, runner.batch_size, part_samples, MAX_PART_SAMPLES)
        file = ResultFile(
            output=attention,
            layout=layout,
            job={
                "format": "bioattn-attention-parts",
                **job,
                "heads": None if options.heads is None else list(options.heads),
                "dtype": str(options.dtype),
                "reduce": str(options.reduce),
                "value_weighted": options.value_weighted,
                "top_k": options.top_k,
                "phases": options.phases,
                "part_samples": samples,
            },
            part_samples=samples,
            about="attention",
            of_each=f" × {counted(len(treatments.names), 'treatment')} at {counted(len(layouts), 'site')}",
            smaller="choose fewer --treatment, --sites or --heads, --reduce",
        )
    return run_work(work, rows, file, shard=shard, resume=resume, force=force, progress=progress)


def _job(runner: PromoterRunner, source: PromoterSource, layouts: Sequence[GroupLayout]) -> dict[str, Any]:
    """All that decides the predictions of all promoters."""
    return {
        "model": runner.predictor.runner.sha256,
        "promoters": source.sha256,
        "num_promoters": source.num_samples,
        "treatments": runner.predictor.digest(),
        # Attention that is kept is computed in another order, which can change the last digit.
        "sites": [layout.path.removeprefix(f"{SITES}/") for layout in layouts],
        "batch_size": runner.batch_size,
        "device": runner.device.type,
    }
