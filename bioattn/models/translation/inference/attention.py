"""`export attention` of translation models: a second pass over the outputs, all steps at once."""

from collections.abc import Sequence
from pathlib import Path

import torch

from bioattn.attention.capture import capture
from bioattn.inference.attention_receiver import BatchReceiver
from bioattn.inference.run import MAX_PART_SAMPLES, ResultFile, RunSummary, Work, run_work, whole_batches
from bioattn.models.translation.batches import SOURCE_TEXT, TARGET_TEXT, PairSource, batch_of
from bioattn.models.translation.folder import LoadedTranslator
from bioattn.models.translation.layers import SLOTS, SOURCE_TOKENS, TARGET_TOKENS
from bioattn.store.schema import TEXT, AttentionOptions, Block, Column, FileLayout, ListColumn, site_layout
from bioattn.system.progress import SILENT, Progress
from bioattn.system.shard import Shard

PAIRS = "pairs"
"""What files over pairs say of their inputs."""
TITLES = {
    SOURCE_TOKENS: "tokens of the source: <cls>, the words, <eos>",
    TARGET_TOKENS: "steps of the decoder: the words of the output, <eos>",
    SLOTS: "slots of the memory of a Turing machine",
}
BATCH_BYTES = 1 << 26
"""What the maps of a batch take at most, but for one pair of more."""


def write_attention(
    loaded: LoadedTranslator,
    source: PairSource,
    output: Path,
    names: Sequence[str],
    options: AttentionOptions,
    *,
    batch_size: int | None = None,
    shard: Shard | None = None,
    resume: bool = False,
    force: bool = False,
    progress: Progress = SILENT,
) -> RunSummary:
    """Write the maps of the sites `names` for the pairs of `source`, with the words of both sides.

    Raises: as `run_work`; BioattnError for heads that the model lacks.
    """
    lengths = source.lengths
    layouts = tuple(site_layout(loaded.sites[name], options, lengths=lengths) for name in names)
    if batch_size is None:
        longest = {name: max(each[name] for each in lengths) for name in lengths[0]}
        largest = sum(layout.bytes_of_sample(longest) for layout in layouts)
        batch_size = max(1, min(64, BATCH_BYTES // largest))
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
    job = {
        "format": "bioattn-attention-parts",
        "model": loaded.sha256,
        "sources": source.sha256,
        "targets": [[int(token) for token in pair.target] for pair in source.pairs],
        **options.job(names),
        "batch_size": batch_size,
        "device": loaded.device.type,
    }
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
    file = ResultFile(
        output=output,
        layout=layout,
        job=job,
        part_samples=whole_batches(layouts, batch_size, None, MAX_PART_SAMPLES),
        about="attention",
        of_each="",
        smaller="choose fewer --sites or --heads, --reduce, or fewer sources",
    )
    return run_work(work, None, file, shard=shard, resume=resume, force=force, progress=progress)
