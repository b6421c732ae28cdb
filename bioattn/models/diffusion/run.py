"""A diffusion model that is ready to run, and `bioattn generate promoters`: designs in batches, streamed to FASTA,
resumable and in shards.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Unpack

import numpy as np
import torch
from numpy.typing import NDArray

from bioattn.attention.capture import capture, sites_of
from bioattn.attention.site import Axis
from bioattn.choices import not_there
from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.formats.fasta import format_record, read_fasta
from bioattn.formats.nucleotides import decode, encode
from bioattn.inference.attention_receiver import BatchReceiver, choose_sites
from bioattn.inference.inputs import Inputs, Source, names_in, python_call
from bioattn.inference.run import ResultFile, Work, run_work
from bioattn.io.files import read_lines, sha256_of, text_output
from bioattn.models.attention_settings import AttentionKeywords, ExportAttention, attention_options
from bioattn.models.diffusion.family import DiffusionModelConfig, PromoterGeneration
from bioattn.models.diffusion.model import OFF, STEP, UNKNOWN, Denoiser
from bioattn.models.diffusion.sampling import AT_ONCE, Wanted, classifier_guide, designs
from bioattn.models.family import WEIGHTS
from bioattn.models.model_folder import LoadedModel
from bioattn.models.noise import BASES, HIDDEN
from bioattn.models.running import Running, RunReport
from bioattn.promoters.dataset import PromoterDataset
from bioattn.promoters.promoter_fasta import describe_request
from bioattn.promoters.treatments import TreatmentTable, named_treatments
from bioattn.store.reader import Attention
from bioattn.store.schema import Array, AttentionOptions, Block, FileLayout, GroupLayout, Samples, site_layout
from bioattn.store.training_record import read_training_record
from bioattn.system.shard import parse_shard
from bioattn.text import counted


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LoadedDenoiser(LoadedModel[Denoiser, DiffusionModelConfig]):
    """A diffusion model: new promoters for treatments, and where each treatment writes."""

    family: ClassVar[str] = "diffusion"

    def generate(
        self,
        number: int = 100,
        *,
        treatments: str | Sequence[str] = (),
        without: str | Sequence[str] = (),
        guidance: float = 2.0,
        steps: int = 64,
        seed: int = 0,
    ) -> list[str]:
        """Write new promoters that are to respond to `treatments` and not to those of `without`.

        Treatments that neither names are left open. guidance: how much further than the model expects designs go
        towards the treatments. steps: from noise to promoter. The same seed writes the same designs, those of
        `generate promoters`, which also keeps parts of a promoter and follows a classifier.

        Raises: BioattnError for a treatment that the model does not know.
        """
        with python_call(PromoterGeneration, number=number, guidance=guidance, steps=steps, seed=seed):
            codes_BL = self.designs(
                names_in(treatments), names_in(without), number, guidance=guidance, steps=steps, seed=seed
            )
        return [decode(row) for row in codes_BL]

    def attention(
        self,
        inputs: Inputs,
        *,
        treatments: str | Sequence[str] = (),
        batch_size: int | None = None,
        **choices: Unpack[AttentionKeywords],
    ) -> Attention:
        """Return weights of treatments at each position and step of promoters, in memory.

        inputs: those of `bioattn.inference.inputs`. treatments: names; none = all. batch_size: promoters per
        forward pass; None = 8. choices: what is kept, as `AttentionKeywords` has them: sites, heads, dtype,
        reduce, top_k, value_weighted.

        Raises: BioattnError for promoters, treatments, sites or heads that the model cannot take.
        """
        from bioattn.models.diffusion.maps import maps_work

        options = attention_options(**choices)
        with python_call(ExportAttention, batch_size=batch_size):
            work, layout = maps_work(self, inputs, names_in(treatments), options, batch_size)
            return Attention(work.collect(layout))

    @property
    def treatments(self) -> TreatmentTable:
        """Those of the training, by name alone."""
        return named_treatments(self.config.treatments)

    @property
    def treatment_names(self) -> Sequence[str]:
        return self.config.treatments

    @property
    def dataset_sha256(self) -> str:
        return str(self._record().get("dataset", {}).get("sha256", ""))

    def levels(self, dataset: PromoterDataset) -> NDArray[np.int64]:
        names = dataset.treatments.names
        targets_GT = dataset.targets[:, [names.index(each) for each in self.config.treatments]]
        cuts = self._record()["levels"]
        levels_GT = levels_of(targets_GT, np.array([cuts[each] for each in self.config.treatments]))
        highest = OFF + self.config.levels - 1
        return np.asarray((levels_GT == highest).astype(np.int64) - (levels_GT == OFF))

    def designs(
        self, on: Sequence[str], off: Sequence[str], number: int, *, guidance: float, steps: int, seed: int
    ) -> NDArray[np.uint8]:
        wanted = Wanted(
            levels=self.wanted_levels(on, off),
            guidance=guidance,
            steps=steps,
            kept=np.full(self.config.length, HIDDEN, np.uint8),
        )
        parts = []
        for first in range(0, number, AT_ONCE):
            rng = np.random.default_rng([seed, first])
            *_, last = designs(self.model, wanted, min(AT_ONCE, number - first), rng)
            parts.append(last)
        return np.concatenate(parts)

    def map_agreement(self, codes_BL: NDArray[np.uint8]) -> float | None:
        from bioattn.models.diffusion.maps import effects_and_weights

        if not self.sites:
            return None
        both = (each - each.mean(-1, keepdims=True) for each in effects_and_weights(self, codes_BL))
        effect_BTL, weights_BTL = (each / (each.std(-1, keepdims=True) + 1e-12) for each in both)
        return float((effect_BTL * weights_BTL).mean())

    def wanted_levels(self, on: Sequence[str], off: Sequence[str]) -> tuple[int, ...]:
        """Levels of all treatments. Raises: BioattnError for one that is not known, or in both lists."""
        known = self.config.treatments
        for option, names in (("--treatment", on), ("--not", off)):
            for name in names:
                if name not in known:
                    raise not_there(option, name, self.path, "treatment", known)
        both = sorted({*on} & {*off})
        if both:
            raise SettingsError(
                f"--treatment {both[0]} and --not {both[0]} contradict each other; give one of them"
            )
        highest = OFF + self.config.levels - 1
        return tuple(highest if name in on else OFF if name in off else UNKNOWN for name in known)

    def _record(self) -> Mapping[str, Any]:
        return {} if self.path is None else read_training_record(self.path)


def levels_of(targets_GT: NDArray[Any], cuts: NDArray[np.float64]) -> NDArray[np.int64]:
    """Levels of responses: 0 = unknown (NaN), 1 = off, … cuts: (T, levels - 1), above which a level begins."""
    above = (targets_GT[..., None] > cuts).sum(-1)
    return np.where(np.isnan(targets_GT), UNKNOWN, OFF + above)


def load_denoiser(folder: Path, device: torch.device) -> LoadedDenoiser:
    return LoadedDenoiser.of_folder(folder, device, DiffusionModelConfig, Denoiser)


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
