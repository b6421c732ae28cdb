"""`bioattn generate promoters`: designs in batches, streamed to FASTA, resumable and in shards."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bioattn.attention.capture import capture, sites_of
from bioattn.attention.site import Axis
from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.formats.fasta import format_record, read_fasta
from bioattn.formats.nucleotides import decode, encode
from bioattn.inference.attention_receiver import BatchReceiver, choose_sites
from bioattn.inference.inputs import Source
from bioattn.inference.run import ResultFile, Work, run_work
from bioattn.io.files import read_lines, sha256_of, text_output
from bioattn.models.diffusion.family import PromoterGeneration
from bioattn.models.diffusion.model import STEP
from bioattn.models.diffusion.run import LoadedDenoiser, load_denoiser
from bioattn.models.diffusion.sampling import AT_ONCE, Wanted, classifier_guide, designs
from bioattn.models.family import WEIGHTS
from bioattn.models.noise import BASES, HIDDEN
from bioattn.models.running import Running, RunReport
from bioattn.promoters.promoter_fasta import describe_request
from bioattn.store.schema import Array, AttentionOptions, Block, FileLayout, GroupLayout, Samples, site_layout
from bioattn.system.shard import parse_shard
from bioattn.text import counted

DESIGNS = "designs"


def generate(settings: PromoterGeneration, running: Running) -> RunReport:
    """Write designs, their attention to HDF5 and their steps to another FASTA.

    A batch follows from the seed and the number of its first design, so that shards and resumed runs write what
    one run does.
    """
    if (settings.keep is None) != (settings.parts is None):
        raise SettingsError("--keep and --parts: give both, the promoter and the parts of it that stay")
    on, off = list(dict.fromkeys(settings.treatments)), list(dict.fromkeys(settings.without))
    if settings.classifier is not None and not on and not off:
        raise SettingsError("--classifier: guides towards treatments; name some with --treatment or --not")
    shard = None if settings.shard is None else parse_shard(settings.shard)
    loaded = load_denoiser(settings.model, running.device(settings.device, settings.threads))
    length = settings.length or loaded.config.length
    wanted = Wanted(
        levels=loaded.wanted_levels(on, off),
        guidance=settings.guidance,
        steps=settings.steps,
        kept=_read_kept(settings.keep, settings.parts, length),
    )
    asked = {"guidance": f"{settings.guidance:g}", "steps": settings.steps, "seed": settings.seed}
    asked["model"] = loaded.sha256
    if settings.classifier is not None:
        guide = classifier_guide(settings.classifier, loaded.config.noise, on, off, length, loaded.device)
        wanted = replace(wanted, guide=guide)
        asked["classifier"] = sha256_of(settings.classifier / WEIGHTS)
    description = describe_request(on, off, **asked)
    work, file = _work(settings, loaded, wanted, description)
    with ExitStack() as outputs:
        fasta = outputs.enter_context(text_output(settings.output))
        trajectory = None
        if settings.trajectory is not None:
            trajectory = outputs.enter_context(text_output(settings.trajectory))

        def write(block: Block) -> None:
            steps_BSL = block.arrays[DESIGNS]["values"]
            for name, steps_SL in zip(block.samples.ids, steps_BSL, strict=True):
                fasta.write(format_record(name, description, decode(steps_SL[-1])))
                if trajectory is not None:
                    for number, codes_L in enumerate(steps_SL, start=1):
                        trajectory.write(format_record(f"{name}/{number}", "", decode(codes_L)))

        summary = run_work(work, write, file, shard=shard, progress=running.progress)
    written = (settings.output, settings.attention, settings.trajectory)
    return RunReport(
        f"wrote {settings.output}: {counted(summary.num_samples, 'design')}",
        outputs=[path for path in written if path is not None],
        designs=summary.num_samples,
        resumed_designs=summary.resumed_samples,
    )


def _work(
    settings: PromoterGeneration, loaded: LoadedDenoiser, wanted: Wanted, description: str
) -> tuple[Work, ResultFile | None]:
    """How designs are made, and the file of their attention, where it is asked for."""
    model = loaded.model.of_length(len(wanted.kept))
    known = sites_of(model)
    sites = choose_sites(known, ["*"], without="adagn alone") if settings.attention is not None else []
    shown = wanted.steps_taken if settings.trajectory is not None else 1
    receiver = BatchReceiver(AttentionOptions())

    def compute(batch: Source) -> Block:
        rng = np.random.default_rng([settings.seed, batch.items[0]])
        with capture(sites, receiver):
            walk = list(designs(model, wanted, len(batch.items), rng))
        codes_BSL = np.stack(walk[-shown:], 1)
        return Block(batch.samples, {DESIGNS: {"values": codes_BSL}, **receiver.take()})

    samples = Samples({"id": [f"design_{number + 1}" for number in range(settings.number)]})
    work = Work(
        source=Source(range(settings.number), samples),
        noun="design",
        batch_size=AT_ONCE,
        compute=compute,
        model=loaded.path,
    )
    if settings.attention is None:
        return work, None
    held = GroupLayout(
        path=DESIGNS,
        axes=(Axis(STEP, size=shown), Axis("position", size=len(wanted.kept))),
        arrays=(Array("values", "uint8", (STEP, "position"), "A C G T N as 0 to 4, after each step"),),
    )
    sizes = {STEP: wanted.steps_taken}
    groups = [site_layout(known[site], AttentionOptions(), sizes=sizes) for site in sites]
    layout = FileLayout(
        inputs=DESIGNS,
        model_sha256=loaded.sha256,
        attributes={"designs": description},
        groups=(*groups, held),
    )
    chosen = {
        "model": loaded.sha256,
        "description": description,
        "kept": decode(wanted.kept),
        "number": settings.number,
        "sites": sites,
        "shown": shown,
    }
    return work, ResultFile(
        output=settings.attention,
        layout=layout,
        settings=chosen,
        about="attention",
        of_each="",
        smaller="ask for fewer designs or --steps",
        resume=settings.resume,
        force=settings.force,
    )


def _read_kept(fasta: Path | None, parts: Path | None, length: int) -> NDArray[np.uint8]:
    """The bases that stay: those of the only record of `fasta` in the intervals of the BED file `parts`; none
    without these.

    Raises: FormatError for several records, another length, an interval outside or of another record, or an N in
    one; BioattnError when nothing stays or nothing is left to design.
    """
    kept = np.full(length, HIDDEN, np.uint8)
    if fasta is None or parts is None:
        return kept
    records = list(read_fasta(fasta))
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
