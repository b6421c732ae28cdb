"""The family of promoter models: its commands' settings, and the way to its training and its models."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bioattn.choices import WeightType
from bioattn.errors import SettingsError
from bioattn.io.files import read_json, text_output
from bioattn.io.settings import RUNNING, Settings, Writes, argument, option, output_option, table
from bioattn.models.attention_settings import (
    BATCH_SIZE_HELP,
    DROP_PARTS_HELP,
    TREATMENT_HELP,
    TREATMENT_TABLE_HELP,
    ExportAttention,
)
from bioattn.models.family import CONFIG, Family, imported
from bioattn.models.promoter.config import PromoterModelConfig, Strand, TrainingConfig
from bioattn.models.running import ResumableCommand, Running, RunReport, stream_output
from bioattn.text import counted, human_bytes, some
from bioattn.training.settings import TrainingCommand

MOST_SENTENCES = 10

if TYPE_CHECKING:
    from bioattn.models.promoter.folder import LoadedPromoterModel
    from bioattn.promoters.treatments import TreatmentTable
    from bioattn.store.kinds import FileKind
    from bioattn.store.schema import AttentionOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class PromoterRun(ResumableCommand):
    """Predict the response of promoters to treatments.

    Writes a wide TSV, one row per gene and one column per treatment (`-o -` writes to standard output; a .gz name
    gives gzip): responses in the units of training, or probabilities for a binary model. --resume and --force
    apply to the parts that an interrupted run with --attention leaves in ATTENTION.partial.
    """

    model: Path = argument("MODEL", "Folder of a trained promoter model.", recorded_file="model.safetensors")
    sequences: Path = argument(
        "PROMOTERS", "Promoter FASTA (`bioattn prepare promoters`).", recorded="promoters"
    )
    output: Path = output_option("Result to write.", Writes.STREAM)
    treatments: tuple[str, ...] = option(TREATMENT_HELP, "--treatment", default=(), metavar="NAME")
    treatment_table: Path | None = option(TREATMENT_TABLE_HELP)
    attention: Path | None = option(
        "Also write all attention here as HDF5 (`export attention` has the choices).", writes=Writes.FILE
    )
    treatment_weights: Path | None = option(
        "Also write here, as a table, what each training treatment counts for each treatment "
        "(--treatment-encoder kernel).",
        writes=Writes.FILE,
    )
    batch_size: int | None = option(BATCH_SIZE_HELP, min=1)
    force: bool = option(DROP_PARTS_HELP, default=False, group=RUNNING)


def run(settings: PromoterRun, running: Running) -> RunReport:
    """Write predictions and, with `attention`, attention. Raises: as `run_promoters`, and for the settings."""
    return _run(settings, settings.output, settings.attention, None, running)


def export_attention(settings: ExportAttention, running: Running) -> RunReport:
    """Write attention. Raises: as `run_promoters`, and for the settings."""
    settings.refuse(("targets", "window"), "promoter models")
    if settings.dtype is WeightType.FLOAT16:
        running.warn("float16: h5py and h5netcdf read it, netCDF4 and programs built on it do not")
    return _run(settings, None, settings.output, settings.options(), running)


def _tell_weights(
    model: "LoadedPromoterModel", treatments: "TreatmentTable", output: Path | None
) -> list[str]:
    """What treatments that were not trained lean on, a sentence for each of the first; written to `output`.

    Raises: SettingsError for `output` of a model that knows treatments otherwise.
    """
    from bioattn.promoters.treatments import UNCONDITIONAL

    weights = model.treatment_weights(treatments)
    if weights is None:
        if output is not None:
            raise SettingsError("--treatment-weights is for models trained with --treatment-encoder kernel")
        return []
    if output is not None:
        with text_output(output) as file:
            weights.to_csv(file, sep="\t", float_format="%.6g", index_label="treatment", lineterminator="\n")
    new = [name for name in treatments.names if name not in (*weights.columns, UNCONDITIONAL)]
    shown = {name: weights.T[name].nlargest(3) for name in new[:MOST_SENTENCES]}
    return [
        f"{name}: {', '.join(f'{weight:.2f} {of}' for of, weight in largest.items() if weight >= 0.005)}"
        for name, largest in shown.items()
    ]


def _run(
    settings: PromoterRun | ExportAttention,
    predictions: Path | None,
    attention: Path | None,
    options: "AttentionOptions | None",
    running: Running,
) -> RunReport:
    from bioattn.models.promoter.folder import load_promoter_model
    from bioattn.models.promoter.running import run_promoters
    from bioattn.promoters.treatments import read_treatment_table, select_treatments
    from bioattn.system.shard import parse_shard

    shard = None if settings.shard is None else parse_shard(settings.shard)
    model = load_promoter_model(settings.model, running.device(settings.device, settings.threads))
    table = None if settings.treatment_table is None else read_treatment_table(settings.treatment_table)
    treatments = select_treatments(model.treatments, settings.treatments, table)
    weights = getattr(settings, "treatment_weights", None)
    leaning = _tell_weights(model, treatments, weights)
    with ExitStack() as outputs:
        text, streamed = None, list[Path]()
        if predictions is not None:
            text, streamed = outputs.enter_context(stream_output(predictions, running))
        summary = run_promoters(
            model,
            settings.sequences,
            treatments=treatments,
            predictions=text,
            attention=attention,
            options=options,
            genes=getattr(settings, "genes", ()),
            samples=getattr(settings, "samples", None),
            batch_size=settings.batch_size,
            shard=shard,
            resume=settings.resume,
            force=settings.force,
            progress=running.progress,
        )
    number = len(treatments.names)
    scope = f"{counted(summary.num_samples, 'promoter')} × {counted(number, 'treatment')}"
    written = {path: f"wrote {path}: predictions of {scope}" for path in streamed}
    if attention is not None:
        size = human_bytes(summary.num_bytes)
        written[attention] = f"wrote {attention}: attention of {scope}, {size}"
    return RunReport(
        *leaning,
        *written.values(),
        outputs=[*written, *([] if weights is None else [weights])],
        device=str(model.device),
        promoters=summary.num_samples,
        treatments=number,
        resumed_promoters=summary.resumed_samples,
    )


TREATMENTS = "treatments.json"
"""The file of a model folder that holds the treatments and how they are encoded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromoterTrainingSettings(TrainingCommand):
    """Train a model that predicts every promoter's response to every treatment.

    docs/models/promoter.md explains the tables [model] and [training] of --config. Shows losses and validation
    figures of every epoch, and prints the accuracy on validation and test genes beside simple models, and on test
    genes by treatment. Several processes or machines train together under torchrun: docs/training.md.
    """

    dataset: Path = argument("DATASET", "Dataset of `bioattn prepare dataset`.")
    encoder: Path | None = option(
        "Folder of a model of DNA, such as `train language` makes, for the pretrained stem.",
        recorded_file="model.safetensors",
    )
    reference: str | None = option(
        "The treatment that is the control, for contrasts.", wanted="the name of a treatment"
    )
    baselines: bool = option("Fit simple models on the same split, to compare with.", default=True)
    keep_best: bool = option(
        "Write the best of the simple models as the model folder where it is better on validation genes than the "
        "trained one.",
        default=False,
    )
    members: int = option(
        "Networks of each kind, trained with seeds that follow on each other: the mean of their predictions is "
        "the model's.",
        default=1,
        min=1,
    )
    networks: tuple[dict[str, Any], ...] = option("", wanted="tables with model and training", default=())
    """Settings of each network, in place of `model` and `training`; the mean of their predictions is kept."""
    strand: Strand = option(
        "Strands on which simple models count k-mers in windows: both, forward (bacteria, reporters with a "
        "direction), or as validation genes say.",
        default=Strand.AUTO,
    )
    check: bool = option(
        "Check at the end, in seconds, whether the maps point at what predictions depend on.", default=True
    )
    treatment_columns: tuple[str, ...] = option("", wanted="a list of column names", default=())
    """Features used by the features encoder; empty: every column that varies."""
    model: Mapping[str, Any] = table(PromoterModelConfig)
    training: Mapping[str, Any] = table(TrainingConfig)


def _describe(folder: Path) -> dict[str, Any]:
    import torch

    from bioattn.models.file_kinds import trained_figures
    from bioattn.models.promoter.folder import load_promoter_model

    model = load_promoter_model(folder, torch.device("cpu"))
    return {
        "generated_by": read_json(folder / CONFIG).get("generated_by"),
        "task": model.task,
        "length": model.length,
        "conditioning": str(model.config.conditioning),
        "treatment_encoder": str(model.config.treatment_encoder),
        "unconditional": model.config.unconditional,
        "reference_treatment": model.reference,
        "parameters": sum(parameter.numel() for parameter in model.model.parameters()),
        "sha256": model.sha256,
        "treatments": some(model.treatments.names),
        "treatment_features": list(model.treatments.columns),
        "attention_sites": list(model.sites),
        **trained_figures(folder),
    }


class PromoterFamily(Family):
    name = "promoter"
    title = "promoters × treatments: the response of each promoter to each treatment"
    settings: Mapping[str, type[Settings]] = {"train": PromoterTrainingSettings, "run": PromoterRun}
    files: Sequence[str] = (TREATMENTS,)

    load = imported("promoter.folder", "load_promoter_model")
    task = imported("promoter.training.task", "PromoterTask")
    run = staticmethod(run)
    export_attention = staticmethod(export_attention)

    def file_kinds(self) -> "Sequence[FileKind]":
        from bioattn.models.file_kinds import model_kind

        return (model_kind(self, _describe, name="model", slot="model"),)


FAMILY = PromoterFamily()
