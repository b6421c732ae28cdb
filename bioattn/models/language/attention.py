"""`export attention` of language models: every layer and head, a few sequences at a time."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

from bioattn.attention.capture import AttentionReceiver, capture
from bioattn.attention.site import MapTiles
from bioattn.inference.attention_receiver import BatchReceiver, SampleReceiver, choose_sites
from bioattn.inference.run import BATCH_BYTES, Work, fitting_samples, write_attention_file
from bioattn.models.attention_settings import ONLY_PROMOTERS, ExportAttention
from bioattn.models.language.config import Shape
from bioattn.models.language.folder import LoadedLanguageModel, load_language_model
from bioattn.models.language.model import SOURCE_TOKENS, TOKENS
from bioattn.models.language.source import (
    FIRST_WORD,
    NAMES,
    RESIDUES,
    TokenSource,
    read_tokens,
    tokens_at_once,
)
from bioattn.models.running import Running, RunReport
from bioattn.sequences.vocabulary import CLS, SPECIAL
from bioattn.store.contents import Held
from bioattn.store.schema import TEXT, AttentionOptions, Block, Column, FileLayout, ListColumn, site_layout
from bioattn.store.writer import ResultWriter
from bioattn.text import counted

LOGGER = logging.getLogger("bioattn")

COLUMNS = (
    Column(TOKENS, "int32", "tokens: <cls>, the words, <eos>"),
    Column(SOURCE_TOKENS, "int32", "tokens that an encoder read for the decoder"),
    Column(FIRST_WORD, "int64", "word of the sequence that is the first one read, from 0"),
    Column(RESIDUES, TEXT, "residues of the tokens, - for special ones"),
)
SEQUENCES = "sequences"
"""What files over sequences say of their inputs."""
SOURCE_NAMES = "source_names"
"""List of each sample: what the tokens that an encoder read are called."""


def attention_work(
    loaded: LoadedLanguageModel,
    inputs: Any,
    options: AttentionOptions,
    *,
    window: int | None,
    batch_size: int | None,
) -> tuple[Work, FileLayout]:
    """How the maps that `<cls>`, the words and `<eos>` of each sequence have of each other are computed.

    The decoder of an encoder-decoder reads the same sequence as its encoder. Of a sequence longer than `window`
    tokens each window is a sample (`TokenSource.in_windows`).

    Raises: as `read_tokens`; BioattnError for sites or heads that the model lacks.
    """
    sites, both = loaded.sites, loaded.config.shape is Shape.ENCODER_DECODER
    names = choose_sites(sites, options.sites)
    most = tokens_at_once(loaded.config, window)
    source = read_tokens(inputs, loaded.vocabulary, most, named=True)
    if source.longest > most:
        number = sum(len(tokens) > most for tokens in source.items)
        LOGGER.info(
            f"{counted(number, 'sequence')} of {source.num_samples:,} with more than {most:,} tokens: each window "
            "of so many, half of which the next one also reads, is a sample of its own (--window)"
        )
        source = source.in_windows(most, loaded.vocabulary)
    elif loaded.vocabulary.begins or any("encoder" in name for name in names):
        # T5's decoder reads other tokens at these places.
        source = source.with_residues(loaded.vocabulary)
    lists = [ListColumn(NAMES, TEXT, "token", TOKENS, long_name="tokens with their numbers from 1")]
    shifted = both and not loaded.vocabulary.begins
    if both:
        lists.append(replace(lists[0], name=SOURCE_NAMES, kind="source_token", lengths=SOURCE_TOKENS))
        read: Sequence[Any] = source.samples.lists[NAMES]
        written = [[SPECIAL[CLS], *called[:-1]] for called in read] if shifted else read
        listed = {NAMES: written, SOURCE_NAMES: read}
        source = replace(source, samples=replace(source.samples, lists=listed))
    lengths = [{TOKENS: len(each), SOURCE_TOKENS: len(each)} for each in source.items]
    # Before they are reduced the maps of a layer are whole, unless they are streamed.
    largest = sum(4 * sites[name].num_heads for name in names) * source.longest**2
    streamed = batch_size in (None, 1) and largest > BATCH_BYTES
    if batch_size is None:
        batch_size = 1 if streamed else fitting_samples(largest)
    shapes: dict[str, Any] = {"lengths": lengths, "per_sample": streamed or None}
    layouts = tuple(site_layout(sites[name], options, **shapes) for name in names)
    receiver = BatchReceiver(options)

    def attend(batch: TokenSource, receiver: AttentionReceiver, tiles: MapTiles | None = None) -> None:
        tokens_BL = batch.padded().to(loaded.device)
        source_BS = tokens_BL if both else None
        if shifted:
            # T5's decoder begins with a token that its encoder does not see, and ends one before it.
            tokens_BL = F.pad(tokens_BL, (1, -1), value=CLS)
        listening = capture(names, receiver, value_weighted=options.value_weighted, tiles=tiles)
        with torch.inference_mode(), listening:
            loaded.model.hidden(tokens_BL, source_BS)

    def compute(batch: TokenSource) -> Block:
        attend(batch, receiver)
        return Block(batch.samples, receiver.take())

    def stream(batch: TokenSource, writer: ResultWriter | Held) -> None:
        """Each tile of a map is written before the next one is computed."""
        with writer.sample(batch.samples) as arrays:
            receiver = SampleReceiver(arrays, [sites[name] for name in names], layouts)
            attend(batch, receiver, MapTiles(options.heads, queries_first=options.reduce.over_heads))
            receiver.require_complete()

    work = Work(
        source=source,
        noun="sequence",
        batch_size=batch_size,
        compute=compute,
        stream=stream if streamed else None,
        model=loaded.path,
        lengths=lengths,
    )
    layout = FileLayout(
        inputs=SEQUENCES,
        model_sha256=loaded.sha256,
        attributes={"input_sha256": source.sha256},
        columns=tuple(each for each in COLUMNS if each.name in source.samples.columns),
        lists=tuple(lists),
        groups=layouts,
    )
    return work, layout


def export_attention(settings: ExportAttention, running: Running) -> RunReport:
    """Write the attention that `settings` ask for. Raises: as `attention_work` and `run_work`."""
    settings.refuse((*ONLY_PROMOTERS, "targets"), "language models")
    loaded = load_language_model(settings.model, running.device(settings.device, settings.threads))
    work, layout = attention_work(
        loaded, settings.sequences, settings.options(), window=settings.window, batch_size=settings.batch_size
    )
    return write_attention_file(
        settings,
        running,
        work,
        layout,
        smaller="choose fewer --sites or --heads, --samples, --reduce, or shorter sequences",
        window=tokens_at_once(loaded.config, settings.window),
    )
