"""Running a toy model: calls as text, attention over bases, and new sequences."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bioattn.models.toy.calls import CallWriter
from bioattn.models.toy.data import padded, read_sequences
from bioattn.models.toy.runner import ToyRunner
from numpy.typing import NDArray

from bioattn.attention.capture import capture
from bioattn.attention.site import Axis
from bioattn.formats.fasta import FastaRecord, write_fasta
from bioattn.formats.nucleotides import decode
from bioattn.inference.attention_receiver import BatchReceiver, choose_sites
from bioattn.inference.run import ResultFile, Work, run_work
from bioattn.io.files import sha256_of, text_output
from bioattn.models.running import Running, RunReport
from bioattn.store.schema import (
    Array,
    AttentionOptions,
    Block,
    Column,
    FileLayout,
    GroupLayout,
    Samples,
    site_layout,
)
from bioattn.store.shards import ShardRecord
from bioattn.system.shard import parse_shard

BATCH = 3


@dataclass(frozen=True)
class Sequences:
    """A `bioattn.inference.runner.Source`, and its batches."""

    path: Path
    sha256: str
    codes: dict[str, NDArray[np.uint8]]

    @property
    def num_samples(self) -> int:
        """Sequences."""
        return len(self.codes)

    @property
    def samples(self) -> Samples:
        """Their names and lengths."""
        lengths = np.array([len(each) for each in self.codes.values()], dtype=np.int32)
        return Samples({"id": list(self.codes), "length": lengths})

    def part(self, rows: slice) -> "Sequences":
        """Some of them."""
        return replace(self, codes=dict(list(self.codes.items())[rows]))

    def batches(self, size: int) -> Iterator["Sequences"]:
        """Some after the other."""
        for first in range(0, self.num_samples, size):
            yield self.part(slice(first, first + size))


def toy_work(
    runner: ToyRunner, source: Sequences, options: AttentionOptions, sites: Sequence[str]
) -> tuple[Work, FileLayout]:
    """How sequences are called, batch by batch, and the layout of the results."""
    receiver = BatchReceiver(options)

    def compute(batch: Sequences) -> Block:
        codes_BL = torch.from_numpy(padded(list(batch.codes.values()))).to(runner.device)
        with torch.inference_mode(), capture(sites, receiver):
            called_BL = (runner.model(codes_BL) > 0).cpu().numpy().astype(np.uint8)
        return Block(batch.samples, {**receiver.take(), "calls": {"values": called_BL}})

    lengths = [{"length": len(each)} for each in source.codes.values()]
    groups = tuple(site_layout(runner.sites[site], options, lengths=lengths) for site in sites)
    longest = max(each["length"] for each in lengths)
    called = GroupLayout(
        path="calls",
        axes=(Axis("place", "base", size=longest, lengths="length"),),
        arrays=(Array("values", "uint8", ("place",), "1 for a base that was called seen before"),),
    )
    layout = FileLayout(
        inputs="sequences",
        model_sha256=runner.sha256,
        columns=(Column("length", "int32", "bases"),),
        groups=(*groups, called),
    )
    work = Work(source=source, noun="sequence", batch_size=BATCH, compute=compute, lengths=lengths)
    return work, layout


def run_toy(settings: Any, calls: Path | None, attention: Path | None, running: Running) -> RunReport:
    """Write calls, attention, or both."""
    device = running.device(settings.device, settings.threads)
    runner = running.loaded or ToyRunner(settings.model, device)
    source = Sequences(settings.sequences, sha256_of(settings.sequences), read_sequences(settings.sequences))
    options = AttentionOptions(sites=getattr(settings, "sites", ()) or ("*",))
    sites = choose_sites(runner.sites, options.sites) if attention is not None else []
    work, layout = toy_work(runner, source, options, sites)
    chosen = {"model": runner.sha256, "sequences": source.sha256, "sites": sites}
    shard = None if settings.shard is None else parse_shard(settings.shard)
    file = None
    if attention is not None:
        file = ResultFile(
            output=attention,
            layout=layout,
            settings=chosen,
            about="attention",
            of_each="",
            smaller="give fewer sequences",
        )
    with ExitStack() as outputs:
        writer = None
        if calls is not None:
            text = outputs.enter_context(text_output(calls))
            part = None if shard is None else ShardRecord.of(shard, source.num_samples, chosen, BATCH)
            writer = CallWriter(text, part)
        summary = run_work(
            work,
            writer,
            file,
            shard=shard,
            resume=settings.resume,
            force=settings.force,
            progress=running.progress,
        )
    written = [path for path in (calls, attention) if path is not None]
    return RunReport(
        sentences=[f"wrote {path}: {summary.num_samples} sequences" for path in written], outputs=written
    )


def generate_toys(settings: Any, running: Running) -> RunReport:
    """Write sequences of eight bases, each base the one that the model most surely calls new."""
    device = running.device(settings.device, settings.threads)
    runner = running.loaded or ToyRunner(settings.model, device)
    random = np.random.default_rng(settings.seed or 0)
    records = []
    for number in range(settings.number):
        codes = random.integers(4, size=1, dtype=np.uint8)
        while len(codes) < 8:
            tried_BL = np.stack([np.append(codes, np.uint8(base)) for base in range(4)])
            with torch.inference_mode():
                logits_B = runner.model(torch.from_numpy(tried_BL).to(runner.device))[:, -1]
            codes = tried_BL[int(logits_B.argmin())]
        records.append(FastaRecord(f"toy{number}", "", decode(codes)))
    write_fasta(settings.output, records)
    return RunReport(sentences=[f"wrote {settings.output}"], outputs=[settings.output])
