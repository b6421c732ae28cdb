"""`export attention` of translation models: a second pass over the outputs, all steps at once."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bioattn.attention.capture import capture
from bioattn.inference.attention_file import attention_report, fitting_samples, write_attention_file
from bioattn.inference.attention_receiver import BatchReceiver, choose_sites
from bioattn.inference.inputs import HELD
from bioattn.inference.run import Work
from bioattn.models.attention_settings import ExportAttention
from bioattn.models.running import Running, RunReport
from bioattn.models.translation.batches import (
    SOURCE_TEXT,
    TARGET_TEXT,
    PairSource,
    batch_of,
    digest_of,
    read_given,
    read_sources,
)
from bioattn.models.translation.folder import LoadedTranslator
from bioattn.models.translation.inference.search import Search, translate
from bioattn.models.translation.layers import SLOTS, SOURCE_TOKENS, TARGET_TOKENS
from bioattn.sequences.pairs import Pair
from bioattn.store.schema import (
    TEXT,
    AttentionOptions,
    Block,
    Column,
    FileLayout,
    ListColumn,
    site_layout,
)
from bioattn.system.progress import SILENT, Progress
from bioattn.text import counted

LOGGER = logging.getLogger("bioattn")

PAIRS = "pairs"
"""What files over pairs say of their inputs."""
TITLES = {
    SOURCE_TOKENS: "tokens of the source: <cls>, the words, <eos>",
    TARGET_TOKENS: "steps of the decoder: the words of the output, <eos>",
    SLOTS: "slots of the memory of a Turing machine",
}


WITHOUT = "recurrent ones do not attend; train recurrent-attention"


def attention_work(
    loaded: LoadedTranslator,
    sources: Any,
    targets: Any,
    options: AttentionOptions,
    batch_size: int | None,
    progress: Progress = SILENT,
) -> tuple[Work, FileLayout]:
    """How maps of given outputs are computed or, without `targets`, of the likeliest token at each step.

    sources, targets: as `read_sources` takes them. Raises: BioattnError for sites or heads that the model lacks.
    """
    names = choose_sites(loaded.sites, options.sites, without=WITHOUT)
    if targets is not None:
        source = read_given(sources, targets, loaded.model)
    else:
        source = _written(sources, progress, loaded)
    tell_longer(loaded, [len(pair.source) for pair in source.pairs])
    lengths = source.lengths
    layouts = tuple(site_layout(loaded.sites[name], options, lengths=lengths) for name in names)
    if batch_size is None:
        longest = {name: max(each[name] for each in lengths) for name in lengths[0]}
        batch_size = fitting_samples(sum(layout.bytes_of_sample(longest) for layout in layouts))
    receiver = BatchReceiver(options)

    def compute(batch: PairSource) -> Block:
        tensors = batch_of(batch.pairs).to(loaded.device)
        with torch.inference_mode(), capture(names, receiver, value_weighted=options.value_weighted):
            loaded.model(tensors.source_BS, tensors.prefix_BT)
        return Block(batch.samples, receiver.take())

    work = Work(
        source=source,
        noun="pair",
        batch_size=batch_size,
        compute=compute,
        model=loaded.path,
        lengths=lengths,
    )
    layout = FileLayout(
        inputs=PAIRS,
        model_sha256=loaded.sha256,
        attributes={"input_sha256": source.sha256},
        columns=tuple(Column(name, "int32", TITLES[name]) for name in lengths[0]),
        lists=(
            ListColumn(SOURCE_TEXT, TEXT, "source_token", SOURCE_TOKENS, long_name="tokens of the source"),
            ListColumn(TARGET_TEXT, TEXT, "target_token", TARGET_TOKENS, long_name="tokens of the output"),
        ),
        groups=layouts,
    )
    return work, layout


def write_attention(settings: ExportAttention, running: Running, loaded: LoadedTranslator) -> RunReport:
    """Write the attention that `settings` ask for. Raises: as `attention_work` and `run_work`."""
    options = settings.options()
    work, layout = attention_work(
        loaded, settings.sequences, settings.targets, options, settings.batch_size, running.progress
    )
    source = work.source
    assert isinstance(source, PairSource)
    summary = write_attention_file(
        settings,
        running,
        loaded,
        work,
        layout,
        sites=choose_sites(loaded.sites, options.sites, without=WITHOUT),
        inputs={
            "sources": source.sha256,
            "targets": [[int(token) for token in pair.target] for pair in source.pairs],
        },
        smaller="choose fewer --sites or --heads, --reduce, or fewer sources",
    )
    inputs = {} if settings.targets is None else {"targets": settings.targets}
    return replace(attention_report(settings, summary, "pair"), inputs=inputs)


def _written(inputs: Any, progress: Progress, loaded: LoadedTranslator) -> PairSource:
    """Sources with their likeliest outputs."""
    sources = read_sources(inputs, loaded.model.source)
    pairs = []
    progress.begin("sources", len(sources))
    for name, each in sources.items():
        best = translate(loaded, each, Search(), name)[0]
        pairs.append(Pair(each, np.array(best.tokens, dtype=np.int64)))
        progress.advance(1)
    progress.end()
    path = inputs if isinstance(inputs, Path) else HELD
    return PairSource(path, digest_of(inputs, sources), list(sources), pairs, loaded.model)


def tell_longer(loaded: LoadedTranslator, lengths: list[int]) -> None:
    """Warn when sources are longer than those of the training."""
    longer = sum(each > loaded.config.longest_source for each in lengths)
    if longer:
        LOGGER.warning(
            f"{counted(longer, 'source')} of {len(lengths):,} longer than the "
            f"{loaded.config.longest_source:,} tokens that the model was trained on"
        )
