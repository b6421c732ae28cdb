"""Writing the attention over alignments: a part for each, with arrays of its own, put together at the end.

    with alignment_attention(output, sites=…, options=…, …) as writer:
        for number, alignment in enumerate(alignments):
            with writer.sample(number, sample) as receiver, capture(writer.site_names, receiver):
                model(…)  # the last recycling pass
        writer.assemble()

Every alignment has arrays of its own, never padded ones: one may fail, and no shard knows the sizes of another's.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bioattn import __version__
from bioattn.attention.site import AttentionSite
from bioattn.errors import SettingsError
from bioattn.inference.attention_receiver import Masks, SampleReceiver, choose_sites
from bioattn.models.evoformer.inference.samples import (
    ALIGNMENT_COLUMNS,
    ALIGNMENT_LISTS,
    ALIGNMENTS,
    AlignmentSample,
    AlignmentSizes,
)
from bioattn.store.choices import Reduction
from bioattn.store.part_folder import open_parts, require_free_space
from bioattn.store.parts import Parts
from bioattn.store.run_settings import SETTINGS, settings_digest
from bioattn.store.schema import AttentionOptions, Block, FileLayout, site_layout
from bioattn.store.shard_record import ShardRecord
from bioattn.system.progress import Progress
from bioattn.text import counted, human_bytes

LOGGER = logging.getLogger("bioattn")


class AlignmentAttentionWriter:
    """Writes the attention over some alignments into one file; made by `alignment_attention`."""

    def __init__(self, parts: Parts, sites: Sequence[AttentionSite]) -> None:
        self._parts = parts
        self._sites = {f"sites/{site.name}": site for site in sites}

    @property
    def site_names(self) -> list[str]:
        """What to listen to with `bioattn.attention.capture.capture`."""
        return [site.name for site in self._sites.values()]

    def is_whole(self, number: int) -> bool:
        """Whether an interrupted run left the attention of the alignment with this number (0-based)."""
        return self._parts.is_whole(number)

    @contextmanager
    def sample(
        self, number: int, sample: AlignmentSample, masks: Masks | None = None
    ) -> Iterator[SampleReceiver]:
        """The receiver of one alignment. When the body raises, nothing of this alignment is kept.

        masks: by kind of axis; `mean-rows` and `max-rows` leave out rows and residues that are padding.

        Raises: BioattnError when the disk is full; RuntimeError when a site was not heard to its end.
        """
        with self._parts.part_writer(number) as file:
            file.append(Block(sample.samples, {}))
            groups = self._parts.layout.groups
            receiver = SampleReceiver(file, [self._sites[group.path] for group in groups], groups, masks)
            yield receiver
            receiver.require_complete()

    def assemble(self, progress: Progress | None = None) -> list[str]:
        """Put the alignments together into the file; returns their ids. Those that failed are left out.

        Raises: BioattnError when the disk is full or no alignment is there; FormatError for a damaged part.
        """
        return self._parts.assemble(progress=progress)


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
) -> Iterator[AlignmentAttentionWriter]:
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
    several = len(sizes) > 1 if several is None else several
    settings = {**attention_job(sites, options), **job}
    layout = alignment_layout(
        chosen, options, model_sha256, settings_sha256=settings_digest(settings), shard=shard
    )
    parts = Parts(output, layout, len(sizes), 1, may_fail=True, several=several)
    needed = layout.stored_bytes(len(sizes), [each.lengths for each in sizes])
    LOGGER.info(
        f"attention of {counted(len(sizes), 'alignment')} at {counted(len(chosen), 'site')} takes up to "
        f"{human_bytes(needed)}"
    )
    require_free_space(
        output,
        (2 if several else 1) * needed - (parts.bytes_on_disk() if resume else 0),
        human_bytes(needed) + (", and as much for its parts" if several else ""),
        "choose fewer --sites, fewer heads or another reduce ([attention] of --config), or another disk",
    )
    whole_job = {
        **settings,
        "model": model_sha256,
        "num_alignments": len(sizes),
        **({} if shard is None else shard.place_as_json()),
    }
    with open_parts(output, whole_job, resume=resume, force=force):
        yield AlignmentAttentionWriter(parts, chosen)


def alignment_layout(
    sites: Sequence[AttentionSite],
    options: AttentionOptions,
    model_sha256: str,
    *,
    settings_sha256: str | None = None,
    shard: ShardRecord | None = None,
) -> FileLayout:
    """The layout of a file over alignments.

    settings_sha256: as `bioattn.store.run_settings` makes it; None where no run makes the file.

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


def attention_job(sites: Mapping[str, AttentionSite], options: AttentionOptions) -> dict[str, Any]:
    """JSON values of all that the options decide of the file.

    Raises: SettingsError for sites that the model lacks.
    """
    return {
        "format": "bioattn-attention-parts",
        "generated_by": f"bioattn {__version__}",
        "sites": choose_sites(sites, options.sites),
        "heads": None if options.heads is None else list(options.heads),
        "dtype": str(options.dtype),
        "reduce": str(options.reduce),
        "top_k": options.top_k if options.reduce is Reduction.TOP_K else None,
        "may_fail": True,
    }
