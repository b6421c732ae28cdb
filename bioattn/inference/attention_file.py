"""Attention of samples that models read whole: the stream of its blocks, and the file of `export attention`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import torch
from numpy.typing import NDArray

from bioattn.attention.capture import capture
from bioattn.inference.attention_receiver import BatchReceiver
from bioattn.inference.run import ResultFile, Work, run_work
from bioattn.inference.runner import Runner
from bioattn.models.attention_settings import ExportAttention
from bioattn.models.running import Running, RunReport
from bioattn.store.schema import (
    SITES,
    AttentionOptions,
    Block,
    Column,
    FileLayout,
    GroupLayout,
    ListColumn,
    Samples,
    site_layout,
)
from bioattn.system.shard import parse_shard
from bioattn.text import counted, human_bytes

BATCH_BYTES = 1 << 26
"""What the maps of a batch take at most, but for one sample of more."""
MAX_BATCH = 64
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class HeldSource(Generic[Item]):
    """Samples in memory: a `bioattn.inference.runner.Source`, and its batches."""

    items: Sequence[Item]
    samples: Samples

    @property
    def num_samples(self) -> int:
        return len(self.items)

    def part(self, rows: slice) -> "HeldSource[Item]":
        return HeldSource(self.items[rows], self.samples.part(rows))

    def batches(self, size: int) -> Iterator["HeldSource[Item]"]:
        for first in range(0, len(self.items), size):
            yield self.part(slice(first, first + size))


def fitting_samples(bytes_of_largest: int) -> int:
    """Samples of a batch, so that their maps stay within `BATCH_BYTES`."""
    return max(1, min(MAX_BATCH, BATCH_BYTES // bytes_of_largest))


def attention_work(
    loaded: Runner,
    source: HeldSource[Item],
    forward: Callable[[Sequence[Item]], Mapping[str, Mapping[str, NDArray[Any]]]],
    options: AttentionOptions,
    *,
    sites: Sequence[str],
    noun: str,
    columns: Sequence[Column],
    lists: Sequence[ListColumn] = (),
    more: Sequence[GroupLayout] = (),
    attributes: Mapping[str, Any] = MappingProxyType({}),
    batch_size: int | None = None,
) -> tuple[Work, FileLayout]:
    """How the maps of samples are computed.

    forward: runs the model on some samples; gives the arrays of the groups `more`, by their paths. sites: names of
    those that are heard. columns, lists: of the sample table. batch_size: None = as memory allows.

    Raises: BioattnError for heads that the model lacks.
    """
    lengths = [source.samples.lengths(number) for number in range(source.num_samples)]
    groups = (*(site_layout(loaded.sites[name], options, lengths=lengths) for name in sites), *more)
    if batch_size is None:
        longest = {name: max(each[name] for each in lengths) for name in lengths[0]}
        batch_size = fitting_samples(sum(group.bytes_of_sample(longest) for group in groups))
    receiver = BatchReceiver(options)

    def compute(batch: HeldSource[Item]) -> Block:
        with torch.inference_mode(), capture(sites, receiver, value_weighted=options.value_weighted):
            arrays = forward(batch.items)
        return Block(batch.samples, {**receiver.take(), **arrays})

    work = Work(
        source=source,
        noun=noun,
        batch_size=batch_size,
        compute=compute,
        model=loaded.path,
        lengths=lengths,
    )
    layout = FileLayout(
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
    layout: FileLayout,
    *,
    smaller: str,
    about: str = "attention",
    of_each: str = "",
    **deciding: Any,
) -> RunReport:
    """Write the file that `settings` ask for.

    smaller, about, of_each: as in `ResultFile`. deciding: JSON values of what decides its content beside the
    options and what the attributes of `layout` tell.

    Raises: as `run_work`.
    """
    paths = [group.path for group in layout.groups]
    sites = [path.removeprefix(f"{SITES}/") for path in paths if path.startswith(f"{SITES}/")]
    file = ResultFile(
        output=settings.output,
        layout=layout,
        settings={
            "model": layout.model_sha256,
            "attributes": dict(layout.attributes),
            **deciding,
            **settings.options().as_json(sites),
        },
        about=about,
        of_each=of_each,
        smaller=smaller,
    )
    summary = run_work(
        work,
        None,
        file,
        shard=None if settings.shard is None else parse_shard(settings.shard),
        resume=settings.resume,
        force=settings.force,
        progress=running.progress,
    )
    return RunReport(
        sentences=[
            f"wrote {settings.output}: {about} of {counted(summary.num_samples, work.noun)}{of_each} at "
            f"{counted(len(sites), 'site')}, {human_bytes(summary.num_bytes)}"
        ],
        outputs=[settings.output],
        figures={f"{work.noun}s": summary.num_samples},
    )
