"""The family of MSA/pair models: its commands' settings, `bioattn run evoformer`, and the way to its training."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bioattn.errors import SettingsError
from bioattn.io.files import read_json, text_output
from bioattn.io.settings import (
    CONFIG,
    Settings,
    Writes,
    argument,
    build,
    option,
    output_option,
    settings_error,
    table,
    with_config_file,
)
from bioattn.models.evoformer.config import (
    EvoformerConfig,
    EvoformerTrainingConfig,
    InputSettings,
    Representation,
)
from bioattn.models.family import Family, imported
from bioattn.models.running import ResumableCommand, Running, RunReport
from bioattn.system.device import Compile, Kernels, Precision
from bioattn.text import listed
from bioattn.training.settings import TrainingCommand

if TYPE_CHECKING:
    from bioattn.store.schema import AttentionOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class EvoformerRun(ResumableCommand):
    """Predict contacts, distances and, if the parameters allow it, the structure of a protein from its alignment.

    Writes contacts.rr (CASP RR) and contacts.tsv, distogram.h5, structure.pdb and .cif with pLDDT as B-factor, and
    scores.json. With several alignments each has its own folder, and a failure does not stop the others. With
    several models each has a folder of its name with all that, and ranking.tsv ranks them by mean pLDDT.

    Settings come from the model, then --config (tables [inputs] and [attention], which
    docs/formats/evoformer-output.md explains), then the options here.

    Warns of alignments whose rows agree no more than by chance, or with few effective sequences (Neff).
    """

    alignment: Path = argument(
        "IN", "Alignment of any format and packing, or `-`; or a folder or a list of alignments.", recorded=""
    )
    output: Path = output_option("Folder of the results; one folder each for several inputs.")
    model: tuple[Path, ...] = option(
        "The model: a folder (`bioattn train evoformer`), AlphaFold's params_model_*.npz or an OpenFold .pt state "
        "dict; can be repeated.",
        "--model",
        "--parameters",
        default=(),
        metavar="PATH",
        recorded="",
    )
    templates: Path | None = option(
        "Known structures as templates: a file of `bioattn prepare templates` for this alignment's target."
    )
    query: str | None = option(
        "Name of the target row; its residues become the columns [default: row 1, all columns stay].",
        metavar="ID",
    )
    representations: tuple[Representation, ...] = option(
        "Also write this representation to representations.h5; can be repeated.", default=()
    )
    attention: Path | None = option("Also write attention here as HDF5.", metavar="FILE", writes=Writes.OTHER)
    sites: tuple[str, ...] = option(
        "Attention sites, for example 'evoformer.*.msa_row'; can be repeated [default: all].",
        default=(),
        metavar="PATTERN",
    )
    config: tuple[Path, ...] = CONFIG
    precision: Precision = option(
        "Precision of the layers; bf16 is faster on processors that support it.", default=Precision.FP32
    )
    chunk: str = option(
        "Rows or residues that layers take at a time at most; auto: as memory allows.",
        default="auto",
        metavar="N|auto",
    )
    compile: Compile = option(
        "Whether torch.compile makes one program of a block; auto: on a GPU, where the work pays for it.",
        default=Compile.AUTO,
    )
    kernels: Kernels = option(
        "Kernels on a GPU; auto: those of Triton and cuEquivariance too, where a trial agrees with torch's.",
        default=Kernels.AUTO,
    )
    seed: int = option("Seed of every random choice.", default=0, min=0)
    inputs: Mapping[str, Any] = table(InputSettings)
    """Fields of `InputSettings`, over those of the model."""
    attention_options: Mapping[str, Any] = table(name="attention")
    """Fields of `AttentionOptions`."""


def run(settings: EvoformerRun, running: Running) -> RunReport:
    """Predict all alignments. Raises: as `run_folders`, and for the settings."""
    from bioattn.alignments.templates import read_templates
    from bioattn.inference.alignment_inputs import alignments_for
    from bioattn.structures.predictions import SCORES

    if len(settings.model) > 1:
        return _run_models(settings, running)
    settings = with_config_file(settings)
    if not settings.model:
        raise SettingsError(
            "give the model: --model FOLDER (evoformer-contacts-covariances comes with bioattn), or --parameters "
            "FILE (AlphaFold's or OpenFold's)"
        )
    weights = settings.model[0]
    if settings.chunk != "auto" and not (settings.chunk.isdecimal() and int(settings.chunk) > 0):
        raise SettingsError(f"--chunk {settings.chunk}: give a number of rows from 1, or auto")
    wanted = _attention(settings)
    sources, several = alignments_for(settings, weights, SCORES)
    if several and settings.templates is not None:
        raise SettingsError("--templates: a file of templates is of one target; give one alignment")
    templates = None if settings.templates is None else read_templates(settings.templates)

    # What loads torch, which takes seconds, comes after the mistakes that need none of it.
    from bioattn.inference.folders import run_folders
    from bioattn.models.evoformer.run import AlignmentRunner, load_evoformer_model

    device = running.device(settings.device, settings.threads)
    loaded = load_evoformer_model(weights, device)
    # What the model wants, unless the user wants something else.
    inputs = build(InputSettings, {**asdict(loaded.inputs), **settings.inputs}, settings.source("inputs"))
    runner = AlignmentRunner(
        model=loaded,
        inputs=inputs,
        query=settings.query,
        seed=settings.seed,
        precision=settings.precision,
        chunk=None if settings.chunk == "auto" else int(settings.chunk),
        compile=settings.compile,
        kernel_choice=settings.kernels,
        remaining=len(sources),
        representations=settings.representations,
        templates=templates,
        progress=running.progress,
    )
    return run_folders(
        runner,
        settings,
        sources,
        several=several,
        options=wanted,
        figures={
            "model": {"file": loaded.name, "sha256": loaded.sha256},
            "device": str(device),
            "kernels": runner.kernels,
        },
    )


def _run_models(settings: EvoformerRun, running: Running) -> RunReport:
    from bioattn.inference.folders import folder_of_results
    from bioattn.structures.predictions import SCORES

    output = settings.output
    names = [path.resolve().name.removesuffix(".npz").removesuffix(".pt") for path in settings.model]
    if len(set(names)) < len(names):
        raise SettingsError(f"--model and --parameters: two models are called alike ({', '.join(names)})")
    if settings.attention or settings.shard:
        raise SettingsError("--attention and --shard are for one model; give one --model")
    sentences = []
    with folder_of_results(output):
        reports = [
            run(replace(settings, model=(path,), output=output / name), running)
            for path, name in zip(settings.model, names, strict=True)
        ]
        # The models of each alignment by mean pLDDT, as AlphaFold ranks them for monomers.
        with text_output(output / "ranking.tsv") as file:
            file.write("alignment\trank\tmodel\tmean_plddt\tptm\n")
            for name in reports[0].inputs:
                places = {model: (output / model / SCORES, output / model / name / SCORES) for model in names}
                scores = {
                    model: read_json(path) for model in names for path in places[model] if path.is_file()
                }
                order = sorted(scores, key=lambda model: -(scores[model].get("mean_plddt") or 0))
                for rank, model in enumerate(order, start=1):
                    plddt, ptm = (scores[model].get(key) for key in ("mean_plddt", "ptm"))
                    file.write(f"{name}\t{rank if plddt else ''}\t{model}\t{plddt or ''}\t{ptm or ''}\n")
                if order and (best := scores[order[0]].get("mean_plddt")):
                    sentences.append(f"{name}: {order[0]} ranks first with a mean pLDDT of {best:.1f}")
    failed = [name for name, report in zip(names, reports, strict=True) if report.failure]
    return RunReport(
        *(sentence for report in reports for sentence in report.sentences),
        *sentences,
        f"wrote {output / 'ranking.tsv'}",
        failure=f"alignments failed with {listed(failed)}; the reasons stand above" if failed else None,
        inputs=reports[0].inputs,
        outputs=[output],
        models=[report.figures for report in reports],
    )


def _attention(settings: EvoformerRun) -> "AttentionOptions | None":
    from bioattn.choices import Reduction
    from bioattn.store.schema import AttentionOptions

    configured, source = settings.attention_options, settings.source("attention")
    if settings.attention is None:
        if settings.sites or configured:
            what = "--sites" if settings.sites else source
            raise settings_error(what, "speaks of attention; give --attention FILE too")
        return None
    options = build(
        AttentionOptions,
        {"reduce": "mean-rows", **configured, **({"sites": list(settings.sites)} if settings.sites else {})},
        source if configured else "--sites",
    )
    if "top_k" in configured and options.reduce is not Reduction.TOP_K:
        raise settings_error(source, 'top_k is for reduce = "top-k"; say that too, or leave it out')
    return options


@dataclass(frozen=True, slots=True, kw_only=True)
class EvoformerTrainingSettings(TrainingCommand):
    """Train an MSA/pair model on distances, contacts and masked residues.

    docs/models/evoformer-training.md explains the tables [model] and [training] of --config. Shows the loss and
    the validation figures of every round, and prints the precision of contacts of the validation and test
    proteins, beside couplings. Several processes or machines train together under torchrun: docs/training.md.
    """

    dataset: Path = argument("DATASET", "Dataset of `bioattn prepare contacts`.")
    initial_model: Path | None = option(
        "Model folder whose weights and shape to start from.", metavar="FOLDER"
    )
    covariance: bool = option("Also give the model covariances of columns as pair features.", default=False)
    exclude: tuple[str, ...] = option("Leave out a protein; can be repeated.", default=(), metavar="ID")
    model: Mapping[str, Any] = table(EvoformerConfig)
    training: Mapping[str, Any] = table(EvoformerTrainingConfig)


class EvoformerFamily(Family):
    name = "evoformer"
    title = "alignments: contacts, distances and structures of proteins"
    settings: Mapping[str, type[Settings]] = {"train": EvoformerTrainingSettings, "run": EvoformerRun}
    table = "contacts.tsv"
    files: Sequence[str] = ("families.tsv",)

    load = imported("evoformer.run", "load_evoformer_model")
    load_file = load
    task = imported("evoformer.training_task", "EvoformerTask")
    run = staticmethod(run)
    export_parameters = imported("evoformer.parameter_export", "export_parameters")


FAMILY = EvoformerFamily()
