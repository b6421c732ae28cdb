"""Commands of diffusion models: their settings, and the way to what carries them out."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO, cast

from bioattn.errors import SettingsError
from bioattn.io.settings import (
    Settings,
    Writes,
    argument,
    force_option,
    option,
    output_option,
    resume_option,
    shard_option,
    threads_option,
)
from bioattn.models.attention_settings import ExportAttention
from bioattn.models.running import Running, RunReport, loaded_model
from bioattn.system.device import Device, device_option
from bioattn.text import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class PromoterGeneration(Settings):
    """Write new promoters for chosen treatments.

    Treatments that neither --treatment nor --not names are left open. The description of each design says what was
    asked for, the seed and the model. The same seed writes the same designs; an interrupted run goes on with
    --resume, and the FASTA files of shards are joined with `cat`. Designs are sequences like those of the training
    that a model expects to respond; whether they do, only an experiment tells (SECURITY.md).
    """

    model: Path = argument("MODEL", "Folder of a trained diffusion model.", recorded_file="model.safetensors")
    output: Path = output_option("FASTA to write.", Writes.FILE)
    treatments: tuple[str, ...] = option(
        "A treatment that designs are to respond to; can be repeated.",
        "--treatment",
        default=(),
        metavar="NAME",
    )
    without: tuple[str, ...] = option(
        "A treatment that they are not to respond to; can be repeated.", "--not", default=(), metavar="NAME"
    )
    number: int = option("Designs.", "--number", "-n", default=100, min=1)
    guidance: float = option(
        "How much further than the model expects designs go towards the treatments; 0: no guidance.",
        default=2.0,
        min=0,
    )
    classifier: Path | None = option(
        "A promoter model trained with noise as MODEL has it, which --guidance follows instead of MODEL itself.",
        metavar="FOLDER",
        recorded_file="model.safetensors",
    )
    steps: int = option("Steps from noise to promoter.", default=64, min=1)
    length: int | None = option("Bases of a design [default: as in training].", min=8)
    keep: Path | None = option("FASTA of one promoter, parts of which stay.", metavar="FASTA")
    parts: Path | None = option("With --keep: the parts that stay.", metavar="BED")
    attention: Path | None = option(
        "Also write the attention of every step here as HDF5.", writes=Writes.FILE
    )
    trajectory: Path | None = option(
        "Also write the designs after every step here: FASTA, N where a base is hidden.", writes=Writes.FILE
    )
    seed: int = option("Seed of the draws.", default=0, min=0)
    device: Device = device_option()
    threads: int | None = threads_option()
    shard: str | None = shard_option()
    resume: bool = resume_option()
    force: bool = force_option("Drop the parts of an interrupted run.")


def generate(settings: PromoterGeneration, running: Running) -> RunReport:
    import numpy as np

    from bioattn.io.files import sha256_of, text_output
    from bioattn.models.diffusion.classifier import classifier_guide
    from bioattn.models.diffusion.folder import load_denoiser
    from bioattn.models.diffusion.generation import read_kept, write_designs
    from bioattn.models.diffusion.sampling import Wanted
    from bioattn.models.family import WEIGHTS
    from bioattn.models.noise import HIDDEN
    from bioattn.promoters.promoter_fasta import describe_request
    from bioattn.system.shard import parse_shard

    if (settings.keep is None) != (settings.parts is None):
        raise SettingsError("--keep and --parts: give both, the promoter and the parts of it that stay")
    on, off = list(dict.fromkeys(settings.treatments)), list(dict.fromkeys(settings.without))
    if settings.classifier is not None and not on and not off:
        raise SettingsError("--classifier: guides towards treatments; name some with --treatment or --not")
    if settings.shard is not None:
        parse_shard(settings.shard)
    loaded = loaded_model(settings, running, load_denoiser)
    levels = loaded.wanted_levels(on, off)
    length = settings.length or loaded.config.length
    kept = np.full(length, HIDDEN, np.uint8)
    if settings.keep is not None and settings.parts is not None:
        kept = read_kept(settings.keep, settings.parts, length)
    guide, classifier = None, {}
    if settings.classifier is not None:
        guide = classifier_guide(settings.classifier, loaded.config.noise, on, off, length, loaded.device)
        classifier = {"classifier": sha256_of(settings.classifier / WEIGHTS)}
    wanted = Wanted(levels=levels, guidance=settings.guidance, steps=settings.steps, kept=kept, guide=guide)
    description = describe_request(
        on,
        off,
        guidance=f"{settings.guidance:g}",
        steps=settings.steps,
        seed=settings.seed,
        model=loaded.sha256,
        **classifier,
    )
    with ExitStack() as outputs:
        file = cast(TextIO, outputs.enter_context(text_output(settings.output)))
        trajectory = None
        if settings.trajectory is not None:
            trajectory = cast(TextIO, outputs.enter_context(text_output(settings.trajectory)))
        summary = write_designs(settings, running, loaded, wanted, description, file, trajectory)
    written = [
        path for path in (settings.output, settings.attention, settings.trajectory) if path is not None
    ]
    return RunReport(
        sentences=[f"wrote {settings.output}: {counted(summary.num_samples, 'design')}"],
        outputs=written,
        figures={"designs": summary.num_samples, "resumed_designs": summary.resumed_samples},
    )


def export_attention(settings: ExportAttention, running: Running) -> RunReport:
    from bioattn.models.diffusion.folder import load_denoiser
    from bioattn.models.diffusion.maps import write_maps

    settings.refuse(("targets", "window", "treatment_table", "phases"), "diffusion models")
    return write_maps(settings, running, loaded_model(settings, running, load_denoiser))
