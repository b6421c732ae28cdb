"""`bioattn generate promoters`: designs in batches, streamed to FASTA, resumable and in shards."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from bioattn.attention.capture import capture
from bioattn.attention.site import Axis
from bioattn.errors import BioattnError, FormatError
from bioattn.formats.fasta import FastaRecord, format_record, read_fasta
from bioattn.formats.nucleotides import decode, encode
from bioattn.inference.attention_receiver import BatchReceiver, choose_sites
from bioattn.inference.run import ResultFile, RunSummary, Work, run_work
from bioattn.io.files import read_lines
from bioattn.models.diffusion.folder import LoadedDenoiser
from bioattn.models.diffusion.model import STEP
from bioattn.models.diffusion.running import PromoterGeneration
from bioattn.models.diffusion.sampling import AT_ONCE, Wanted, designs
from bioattn.models.noise import BASES, HIDDEN
from bioattn.models.running import Running
from bioattn.store.schema import Array, AttentionOptions, Block, FileLayout, GroupLayout, Samples, site_layout
from bioattn.system.shard import parse_shard

PART = 1024
"""Designs that a killed run loses at most."""
DESIGNS = "designs"


@dataclass(frozen=True, slots=True)
class DesignNumbers:
    """Which designs: a `bioattn.inference.runner.Source` that reads nothing."""

    numbers: range
    """From 0."""
    path: Path
    sha256: str = ""

    @property
    def num_samples(self) -> int:
        return len(self.numbers)

    @property
    def samples(self) -> Samples:
        return Samples({"id": [f"design_{number + 1}" for number in self.numbers]})

    def part(self, rows: slice) -> "DesignNumbers":
        return replace(self, numbers=self.numbers[rows])

    def batches(self, size: int) -> Iterator["DesignNumbers"]:
        for first in range(0, len(self.numbers), size):
            yield self.part(slice(first, first + size))


class DesignWriter:
    """Takes blocks of designs in order and writes them as FASTA, and their steps to another one."""

    def __init__(self, file: TextIO, description: str, trajectory: TextIO | None) -> None:
        self.file, self.description, self.trajectory = file, description, trajectory

    def write(self, block: Block) -> None:
        steps_BSL = block.arrays[DESIGNS]["values"]
        for name, steps_SL in zip(block.samples.ids, steps_BSL, strict=True):
            self.file.write(format_record(name, self.description, decode(steps_SL[-1])))
            if self.trajectory is not None:
                for number, codes_L in enumerate(steps_SL, start=1):
                    self.trajectory.write(format_record(f"{name}/{number}", "", decode(codes_L)))


def write_designs(
    settings: PromoterGeneration,
    running: Running,
    loaded: LoadedDenoiser,
    wanted: Wanted,
    description: str,
    file: TextIO,
    trajectory: TextIO | None,
) -> RunSummary:
    """Write designs to `file`, their attention to HDF5 and their steps to `trajectory`.

    A batch follows from the seed and the number of its first design, so that shards and resumed runs write what
    one run does.

    Raises: as `run_work`.
    """
    output, attention, seed, number = settings.output, settings.attention, settings.seed, settings.number
    model = loaded.model.of_length(len(wanted.kept))
    steps = wanted.steps_taken
    names = choose_sites(model.sites, ["*"], without="adagn alone") if attention is not None else []
    options = AttentionOptions()
    shown = steps if trajectory is not None else 1
    bases = Axis("position", size=len(wanted.kept))
    held = GroupLayout(
        path=DESIGNS,
        axes=(Axis(STEP, size=shown), bases),
        arrays=(Array("values", "uint8", (STEP, "position"), "A C G T N as 0 to 4, after each step"),),
    )
    layouts = [site_layout(model.sites[name], options, sizes={STEP: steps}) for name in names]
    receiver = BatchReceiver(options)

    def compute(batch: DesignNumbers) -> Block:
        rng = np.random.default_rng([seed, batch.numbers[0]])
        with capture(names, receiver):
            walk = list(designs(model, wanted, len(batch.numbers), rng))
        codes_BSL = np.stack(walk[-shown:], 1)
        return Block(batch.samples, {DESIGNS: {"values": codes_BSL}, **receiver.take()})

    settings_json = {
        "model": loaded.sha256,
        "description": description,
        "kept": decode(wanted.kept),
        "number": number,
        "sites": names,
        "shown": shown,
    }
    kept = (
        None
        if attention is None
        else ResultFile(
            output=attention,
            layout=FileLayout(
                inputs=DESIGNS,
                model_sha256=loaded.sha256,
                attributes={"designs": description},
                groups=(*layouts, held),
            ),
            settings=settings_json,
            about="attention",
            of_each="",
            smaller="ask for fewer designs or --steps",
        )
    )
    work = Work(
        source=DesignNumbers(range(number), output),
        noun="design",
        batch_size=AT_ONCE,
        compute=compute,
        model=loaded.path,
    )
    writer = DesignWriter(file, description, trajectory)
    return run_work(
        work,
        writer,
        kept,
        shard=None if settings.shard is None else parse_shard(settings.shard),
        resume=settings.resume,
        force=settings.force,
        progress=running.progress,
    )


def read_kept(fasta: Path, parts: Path, length: int) -> NDArray[np.uint8]:
    """The bases that stay: those of the only record of `fasta` in the intervals of the BED file `parts`.

    Raises: FormatError for several records, another length, an interval outside or of another record, or an N in
    one; BioattnError when nothing stays or nothing is left to design.
    """
    records: list[FastaRecord] = list(read_fasta(fasta))
    if len(records) != 1:
        raise FormatError(
            f"{fasta}: holds {len(records):,} records; one promoter is needed, whose parts stay"
        )
    record = records[0]
    codes = encode(record.sequence, f"{fasta}: {record.name}")
    if len(codes) != length:
        raise FormatError(
            f"{fasta}: {record.name} has {len(codes):,} bases, designs have {length:,}; give --length or another "
            "promoter"
        )
    kept = np.full(length, HIDDEN, np.uint8)
    for number, line in read_lines(parts):
        words = line.split()
        if not words or words[0] in ("track", "browser") or line.startswith("#"):
            continue
        start, end = (int(word) if word.isdigit() else -1 for word in (*words[1:3], "", "")[:2])
        if words[0] != record.name or not 0 <= start < end <= length:
            raise FormatError(
                f"{parts}:{number}: {line.strip()[:60]!r} is no part of {record.name}; its name, a start from 0 "
                f"and an end of at most {length} are needed"
            )
        if (codes[start:end] >= BASES).any():
            place = start + int(np.argmax(codes[start:end] >= BASES))
            raise FormatError(
                f"{parts}:{number}: the part holds an N (base {place + 1} of {record.name}); leave it out"
            )
        kept[start:end] = codes[start:end]
    if (kept < BASES).all() or (kept == HIDDEN).all():
        raise BioattnError(
            f"{parts}: {'all of' if kept[0] < BASES else 'nothing of'} {record.name} would stay"
        )
    return kept
