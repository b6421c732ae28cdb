"""The sink for attention over alignments: takes tiles as the model makes them and writes them as they come.

Nothing is kept of a site but one tile and, with a reduction over rows, one map (H, Q, K): no (S, H, R, R) tensor
is ever whole in memory.

    with alignment_attention(output, sites=…, options=…, …) as writer:
        for number, alignment in enumerate(alignments):
            with writer.sample(number, sample) as sink, capture(writer.site_names, sink):
                model(…)  # the last recycling pass
        writer.assemble()
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn import __version__
from bioattn.attention.site import AttentionSite, Tile
from bioattn.inference.attention_collector import TORCH_TYPES, choose_sites
from bioattn.store.alignment_attention_parts import AlignmentParts
from bioattn.store.alignment_attention_writer import AlignmentAttentionFile, SiteStream
from bioattn.store.alignment_schema import (
    KEY_INDEX,
    AlignmentAttentionOptions,
    AlignmentReduction,
    AlignmentSample,
    AlignmentSiteLayout,
    AlignmentSizes,
    alignment_attention_bytes,
    alignment_layout,
)
from bioattn.store.part_folder import open_parts, require_free_space
from bioattn.store.run_settings import settings_digest
from bioattn.store.schema import WEIGHTS
from bioattn.store.shard_record import ShardRecord
from bioattn.system.progress import Progress
from bioattn.text import counted, human_bytes

LOGGER = logging.getLogger("bioattn")

Masks = Mapping[str, NDArray[np.bool_]]
"""`row`, `extra_row`, `residue` → True where it is more than padding; what is absent is all True."""


class AlignmentAttentionWriter:
    """Writes the attention over some alignments into one file; made by `alignment_attention`."""

    def __init__(
        self, parts: AlignmentParts, sites: Sequence[AttentionSite], options: AlignmentAttentionOptions
    ) -> None:
        self._parts = parts
        self._sites = tuple(sites)
        self._options = options

    @property
    def site_names(self) -> list[str]:
        """What to listen to with `bioattn.attention.capture.capture`."""
        return [site.name for site in self._sites]

    def is_whole(self, number: int) -> bool:
        """Whether an interrupted run left the attention of the alignment with this number (0-based)."""
        return self._parts.is_whole(number)

    @contextmanager
    def sample(
        self, number: int, sample: AlignmentSample, masks: Masks | None = None
    ) -> Iterator["SampleSink"]:
        """The sink of one alignment. When the body raises, nothing of this alignment is kept.

        masks: `mean-rows` and `max-rows` leave out rows and residues that are padding.

        Raises: BioattnError when the disk is full; RuntimeError when a site was not heard to its end.
        """
        with self._parts.part_writer(number, sample) as file:
            sink = SampleSink(file, self._layouts(sample), masks or {})
            yield sink
            sink.require_complete()

    def assemble(self, progress: Progress | None = None) -> list[str]:
        """Put the alignments together into the file; returns their ids. Those that failed are left out.

        Raises: BioattnError when the disk is full or no alignment is there; FormatError for a damaged part.
        """
        return self._parts.assemble(self._layouts, progress)

    def _layouts(self, sample: AlignmentSample) -> list[AlignmentSiteLayout]:
        return [alignment_layout(site, sample.sizes, self._options) for site in self._sites]


class SampleSink:
    """An `AttentionSink` for one alignment; made by `AlignmentAttentionWriter.sample`."""

    def __init__(
        self, file: AlignmentAttentionFile, layouts: Sequence[AlignmentSiteLayout], masks: Masks
    ) -> None:
        self._masks = masks
        self._open = {layout.name: _SiteWriter(layout, file.site(layout, 0)) for layout in layouts}

    def receive(
        self, site: AttentionSite, weights: Tensor, value_weighted: Tensor | None, tile: Tile | None = None
    ) -> None:
        """Write one tile, or note it where rows are reduced over. Raises: OSError when the disk is full."""
        writer = self._open.get(site.name)
        if writer is None:
            raise RuntimeError(f"site {site.name} was heard twice")
        if value_weighted is not None:
            raise RuntimeError("value-weighted attention is not written for alignments")
        if writer.take(site, weights, tile, self._padding(site)):
            del self._open[site.name]

    def require_complete(self) -> None:
        """Raises: RuntimeError when a site was not heard to its end."""
        if self._open:
            raise RuntimeError(f"the model's sites {', '.join(self._open)} were not heard to their end")

    def _padding(self, site: AttentionSite) -> NDArray[np.bool_] | None:
        axis = site.axes[0]
        mask = self._masks.get("extra_row" if axis == "row" and site.extra_rows else axis)
        return mask if mask is not None and mask.any() else None


class _SiteWriter:
    """What is still being heard of one site."""

    def __init__(self, layout: AlignmentSiteLayout, stream: SiteStream) -> None:
        self._layout = layout
        self._stream = stream
        self._heard = 0
        self._total: Tensor | None = None
        self._summed = 0

    def take(
        self, site: AttentionSite, weights: Tensor, tile: Tile | None, mask: NDArray[np.bool_] | None
    ) -> bool:
        """Note or write the next tile; True when the site is complete.

        mask: along the whole outer axis, True where it is more than padding.
        """
        tile = tile or Tile(site.axes[0], 0, len(weights))
        stop = tile.start + len(weights)
        if tile.axis != site.axes[0] or tile.start != self._heard or stop > tile.total:
            raise RuntimeError(f"site {site.name}: {tile} follows {self._heard}, of {len(weights)} slices")
        self._heard = stop
        layout = self._layout
        if "head" in site.axes and layout.heads != tuple(range(site.num_heads)):
            index = torch.tensor(layout.heads, device=weights.device)
            weights = weights.index_select(site.axes.index("head"), index)
        last = stop == tile.total
        match layout.reduce:
            case AlignmentReduction.MEAN_ROWS | AlignmentReduction.MAX_ROWS:
                kept = range(len(weights)) if mask is None else np.flatnonzero(mask[tile.start : stop])
                for number in kept:
                    self._reduce(weights[int(number)])
                if last:
                    self._write(self._reduced())
            case AlignmentReduction.MEAN_HEADS:
                self._write(weights.mean(site.axes.index("head")))
            case AlignmentReduction.MAX_HEADS:
                self._write(weights.amax(site.axes.index("head")))
            case AlignmentReduction.TOP_K:
                self._write(*torch.topk(weights, layout.sizes[-1], dim=-1))
            case AlignmentReduction.NONE:
                self._write(weights)
        if last and not self._stream.complete:
            raise RuntimeError(f"site {site.name} ended after {stop} slices, {layout.sizes} were expected")
        return last

    def _reduce(self, row: Tensor) -> None:
        """Add one slice of the outer axis; one by one, so that the sum does not depend on the size of tiles."""
        self._summed += 1
        if self._total is None:
            self._total = row.clone()
        elif self._layout.reduce is AlignmentReduction.MEAN_ROWS:
            self._total += row
        else:
            torch.maximum(self._total, row, out=self._total)

    def _reduced(self) -> Tensor:
        total, self._total = self._total, None
        assert total is not None
        return total / self._summed if self._layout.reduce is AlignmentReduction.MEAN_ROWS else total

    def _write(self, weights: Tensor, key_index: Tensor | None = None) -> None:
        if tuple(weights.shape[1:]) != self._layout.sizes[1:]:
            raise RuntimeError(
                f"site {self._layout.name} gave {tuple(weights.shape)}, expected {self._layout.sizes}"
            )
        arrays = {WEIGHTS: weights.to(TORCH_TYPES[self._layout.dtype]).contiguous().cpu().numpy()}
        if key_index is not None:
            arrays[KEY_INDEX] = key_index.to(torch.int32).cpu().numpy()
        self._stream.write(arrays)


@contextmanager
def alignment_attention(
    output: Path,
    *,
    sites: Mapping[str, AttentionSite],
    options: AlignmentAttentionOptions,
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
    parts = AlignmentParts(
        output,
        model_sha256,
        len(sizes),
        several=several,
        settings_sha256=settings_digest(settings),
        shard=shard,
    )
    needed = alignment_attention_bytes(chosen, sizes, options)
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
        yield AlignmentAttentionWriter(parts, chosen, options)


def attention_job(sites: Mapping[str, AttentionSite], options: AlignmentAttentionOptions) -> dict[str, Any]:
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
        "top_k": options.top_k if options.reduce is AlignmentReduction.TOP_K else None,
    }
