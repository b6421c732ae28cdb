"""What `run` and `export attention` share: their options and the one way they run a model."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO, cast

import typer

from bioattn.system.device import Device
from bioattn_cli.command import Input, Record
from bioattn_cli.reporting import Reporter

if TYPE_CHECKING:
    from bioattn.store.schema import AttentionOptions

ModelArgument = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="Folder of a trained promoter model."),
    Input(name="model", file="model.safetensors"),
]
PromotersArgument = Annotated[
    Path, typer.Argument(metavar="PROMOTERS", help="Promoter FASTA (`bioattn prepare promoters`).")
]
TreatmentOption = Annotated[
    list[str] | None,
    typer.Option(
        "--treatment",
        metavar="NAME",
        help="A treatment to predict; can be repeated; `unconditional` is the model's token for an unknown one "
        "[default: all].",
    ),
]
TreatmentTableOption = Annotated[
    Path | None,
    typer.Option(
        help="Table of treatments to predict instead of the training ones; unseen treatments need a model "
        "trained with --treatment-encoder features."
    ),
]
DropPartsOption = Annotated[
    bool,
    typer.Option(
        "--force", help="Drop the parts of an interrupted run (a finished file is always replaced)."
    ),
]
BatchSizeOption = Annotated[
    int | None,
    typer.Option(min=1, help="Promoters per forward pass [default: chosen to keep memory flat]."),
]


def run_model(
    reporter: Reporter,
    model: Path,
    promoters: Path,
    *,
    predictions: Path | None,
    attention: Path | None,
    options: "AttentionOptions | None",
    treatment: list[str] | None,
    treatment_table: Path | None,
    device: Device,
    threads: int | None,
    batch_size: int | None,
    shard: str | None,
    resume: bool,
    force: bool,
) -> Record:
    """Load and run; say what was written."""
    from bioattn.errors import SettingsError
    from bioattn.io.files import text_output
    from bioattn.models.promoter.folder import load_promoter_model
    from bioattn.models.promoter.inference.run import run_promoters
    from bioattn.promoters.treatments import read_treatment_table, select_treatments
    from bioattn.system.device import choose_device, describe_device, set_threads
    from bioattn.system.memory import keep_freed_memory
    from bioattn.system.shard import parse_shard
    from bioattn.text import counted, human_bytes

    part = None if shard is None else parse_shard(shard)
    to_stdout = predictions is not None and str(predictions) == "-"
    if predictions is not None and attention is not None and predictions.resolve() == attention.resolve():
        raise SettingsError("--output and --attention name the same file")
    keep_freed_memory()
    set_threads(threads)
    chosen = choose_device(device)
    loaded = load_promoter_model(model, chosen)
    reporter.say(f"running on {describe_device(chosen)}")
    table = None if treatment_table is None else read_treatment_table(treatment_table)
    treatments = select_treatments(loaded.treatments, treatment or (), table)
    with ExitStack() as outputs:
        text: TextIO | None = None
        if to_stdout:
            text = sys.stdout
        elif predictions is not None:
            text = cast(TextIO, outputs.enter_context(text_output(predictions)))
        summary = run_promoters(
            loaded,
            promoters,
            treatments=treatments,
            predictions=text,
            attention=attention,
            options=options,
            batch_size=batch_size,
            shard=part,
            resume=resume,
            force=force,
            progress=reporter.progress(),
        )
    scope = f"{counted(summary.num_promoters, 'promoter')} × {counted(summary.num_treatments, 'treatment')}"
    sentences = []
    if predictions is not None and not to_stdout:
        sentences.append(f"wrote {predictions}: predictions of {scope}")
    if attention is not None:
        sites = ", ".join(f"{name} {shape}" for name, shape in summary.sites.items())
        size = human_bytes(summary.attention_bytes)
        sentences.append(f"wrote {attention}: attention of {scope}, {size}: {sites}")
    return Record(
        *sentences,
        outputs=[path for path in (None if to_stdout else predictions, attention) if path is not None],
        device=str(chosen),
        promoters=summary.num_promoters,
        treatments=summary.num_treatments,
        resumed_promoters=summary.resumed_promoters,
    )
