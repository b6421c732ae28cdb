"""`export attention` of models that read samples whole: one file with the weights of every sample."""

from collections.abc import Mapping, Sequence
from typing import Any

from bioattn.inference.run import ResultFile, RunSummary, Work, run_work
from bioattn.inference.runner import Runner
from bioattn.models.attention_settings import ExportAttention
from bioattn.models.running import Running, RunReport
from bioattn.store.schema import FileLayout
from bioattn.system.shard import parse_shard
from bioattn.text import counted, human_bytes

BATCH_BYTES = 1 << 26
"""What the maps of a batch take at most, but for one sample of more."""
MAX_BATCH = 64


def fitting_samples(bytes_of_largest: int) -> int:
    """Samples of a batch, so that their maps stay within `BATCH_BYTES`."""
    return max(1, min(MAX_BATCH, BATCH_BYTES // bytes_of_largest))


def write_attention_file(
    settings: ExportAttention,
    running: Running,
    loaded: Runner,
    work: Work,
    layout: FileLayout,
    *,
    sites: Sequence[str],
    inputs: Mapping[str, Any],
    about: str = "attention",
    of_each: str = "",
    smaller: str,
) -> RunSummary:
    """Write the file that `settings` ask for.

    sites: names of the attention sites in it. inputs: what else decides its content, the inputs above all. about,
    of_each, smaller: as in `ResultFile`.

    Raises: as `run_work`.
    """
    file = ResultFile(
        output=settings.output,
        layout=layout,
        settings={"model": loaded.sha256, **inputs, **settings.options().as_json(sites)},
        about=about,
        of_each=of_each,
        smaller=smaller,
    )
    return run_work(
        work,
        None,
        file,
        shard=None if settings.shard is None else parse_shard(settings.shard),
        resume=settings.resume,
        force=settings.force,
        progress=running.progress,
    )


def attention_report(settings: ExportAttention, summary: RunSummary, noun: str) -> RunReport:
    """What was written. noun: what a sample is."""
    return RunReport(
        sentences=[
            f"wrote {settings.output}: attention of {counted(summary.num_samples, noun)} at "
            f"{counted(len(summary.sites), 'site')}, {human_bytes(summary.num_bytes)}"
        ],
        outputs=[settings.output],
        figures={f"{noun}s": summary.num_samples},
    )
