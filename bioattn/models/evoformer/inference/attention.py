"""Writing the attention over alignments: a part for each, with arrays of its own, put together at the end.

    with alignment_attention(output, sites=…, options=…, …) as writer:
        for number, alignment in enumerate(alignments):
            with writer.sample(number, sample.samples) as receiver, capture(writer.site_names, receiver):
                model(…)  # the last recycling pass
        writer.assemble()

Every alignment has arrays of its own, never padded ones: one may fail, and no shard knows the sizes of another's.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bioattn.attention.site import AttentionSite
from bioattn.errors import SettingsError
from bioattn.inference.attention_receiver import choose_sites
from bioattn.inference.folders import AttentionWriter, attention_job, attention_writer
from bioattn.models.evoformer.inference.samples import (
    ALIGNMENT_COLUMNS,
    ALIGNMENT_LISTS,
    ALIGNMENTS,
    AlignmentSizes,
)
from bioattn.store.schema import AttentionOptions, FileLayout, site_layout
from bioattn.store.shard_record import SETTINGS, ShardRecord, settings_digest


@contextmanager
def alignment_attention(
    output: Path,
    *,
    sites: Mapping[str, AttentionSite],
    options: AttentionOptions,
    model_sha256: str,
    sizes: Sequence[AlignmentSizes],
    job: Mapping[str, Any],
    several: bool | None = None,
    shard: ShardRecord | None = None,
    resume: bool = False,
    force: bool = False,
) -> Iterator[AttentionWriter]:
    """Prepare to write the attention of a model's `sites` over some alignments to `output`.

    sizes: of each alignment, at most; the size of the file is said (logged) before anything runs. job: JSON values
    of all that decides the weights (model, inputs, seed, precision, …): parts of an interrupted run are used again
    with `resume` only when all of it is equal, and dropped with `force`. The folder of parts stays when the body
    raises. several: whether the file is one of several alignments, be there but one; None = when there are. shard:
    which part of which whole the file is; `attention_job` gives its job.

    Raises: SettingsError for sites or heads that the model lacks; BioattnError when the file does not fit on the
    disk, or for parts of another run.
    """
    chosen = [sites[name] for name in choose_sites(sites, options.sites)]
    settings = {**attention_job(sites, options), **job}
    layout = alignment_layout(
        chosen, options, model_sha256, settings_sha256=settings_digest(settings), shard=shard
    )
    with attention_writer(
        output,
        layout,
        chosen,
        [each.lengths for each in sizes],
        settings,
        noun="alignment",
        several=len(sizes) > 1 if several is None else several,
        resume=resume,
        force=force,
    ) as writer:
        yield writer


def alignment_layout(
    sites: Sequence[AttentionSite],
    options: AttentionOptions,
    model_sha256: str,
    *,
    settings_sha256: str | None = None,
    shard: ShardRecord | None = None,
) -> FileLayout:
    """The layout of a file over alignments.

    settings_sha256: as `bioattn.store.shard_record` makes it; None where no run makes the file.

    Raises: BioattnError when a head is asked for that a site does not have; SettingsError for what is not stored
    of alignments.
    """
    if options.value_weighted or options.phases > 1:
        raise SettingsError(
            "value-weighted attention and phases are for promoters; leave value_weighted and phases out"
        )
    return FileLayout(
        inputs=ALIGNMENTS,
        model_sha256=model_sha256,
        attributes={} if settings_sha256 is None else {SETTINGS: settings_sha256},
        columns=ALIGNMENT_COLUMNS,
        lists=ALIGNMENT_LISTS,
        groups=tuple(site_layout(site, options, per_sample=True) for site in sites),
        shard=shard,
    )
