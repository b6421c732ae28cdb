"""`export attention` of translation models: a second pass over the outputs, all steps at once."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from bioattn.attention.capture import capture
from bioattn.inference.attention_file import attention_report, fitting_samples, write_attention_file
from bioattn.inference.attention_receiver import BatchReceiver, choose_sites
from bioattn.inference.run import Work
from bioattn.io.files import sha256_of
from bioattn.models.attention_settings import ExportAttention
from bioattn.models.running import Running, RunReport
from bioattn.models.translation.batches import (
    SOURCE_TEXT,
    TARGET_TEXT,
    PairSource,
    batch_of,
    read_given,
    read_sources,
)
from bioattn.models.translation.folder import LoadedTranslator
from bioattn.models.translation.inference.search import Search, translate
from bioattn.models.translation.layers import SLOTS, SOURCE_TOKENS, TARGET_TOKENS
from bioattn.sequences.pairs import Pair
from bioattn.store.schema import TEXT, Block, Column, FileLayout, ListColumn, site_layout
from bioattn.text import counted

PAIRS = "pairs"
"""What files over pairs say of their inputs."""
TITLES = {
    SOURCE_TOKENS: "tokens of the source: <cls>, the words, <eos>",
    TARGET_TOKENS: "steps of the decoder: the words of the output, <eos>",
    SLOTS: "slots of the memory of a Turing machine",
}


def write_attention(settings: ExportAttention, running: Running, loaded: LoadedTranslator) -> RunReport:
    """Write maps of given outputs, or of the likeliest token at each step, with the words of both sides.

    Raises: as `run_work`; BioattnError for sites or heads that the model lacks.
    """
    options, batch_size = settings.options(), settings.batch_size
    names = choose_sites(
        loaded.sites, options.sites, without="recurrent ones do not attend; train recurrent-attention"
    )
    if settings.targets is not None:
        source = read_given(settings.sequences, settings.targets, loaded.model)
    else:
        source = _written(settings.sequences, running, loaded)
    tell_longer(loaded, [len(pair.source) for pair in source.pairs], running)
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
    summary = write_attention_file(
        settings,
        running,
        loaded,
        work,
        layout,
        sites=names,
        inputs={
            "sources": source.sha256,
            "targets": [[int(token) for token in pair.target] for pair in source.pairs],
        },
        smaller="choose fewer --sites or --heads, --reduce, or fewer sources",
    )
    inputs = {} if settings.targets is None else {"targets": settings.targets}
    return replace(attention_report(settings, summary, "pair"), inputs=inputs)


def _written(path: Path, running: Running, loaded: LoadedTranslator) -> PairSource:
    """Sources with their likeliest outputs."""
    sources = read_sources(path, loaded.model.source)
    pairs = []
    running.progress.begin("sources", len(sources))
    for name, each in sources.items():
        best = translate(loaded, each, Search(), name)[0]
        pairs.append(Pair(each, np.array(best.tokens, dtype=np.int64)))
        running.progress.advance(1)
    running.progress.end()
    return PairSource(path, sha256_of(path), list(sources), pairs, loaded.model)


def tell_longer(loaded: LoadedTranslator, lengths: list[int], running: Running) -> None:
    """Say when sources are longer than those of the training."""
    longer = sum(each > loaded.config.longest_source for each in lengths)
    if longer:
        running.warn(
            f"{counted(longer, 'source')} of {len(lengths):,} longer than the "
            f"{loaded.config.longest_source:,} tokens that the model was trained on"
        )
