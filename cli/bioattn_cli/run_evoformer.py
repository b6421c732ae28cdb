"""`bioattn run evoformer`: contacts, distances, structure and attention from alignments."""

import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bioattn_cli.export import WeightType, parse_heads
from bioattn_cli.export_parameters import StructureLayersOption
from bioattn_cli.options import (
    Device,
    DeviceOption,
    ForceOption,
    Precision,
    ResumeOption,
    SeedOption,
    ThreadsOption,
    command,
)
from bioattn_cli.reporting import Reporter

if TYPE_CHECKING:
    from bioattn.inference.alignment_runner import AttentionOutput
    from bioattn.models.evoformer.input_settings import InputSettings


SHOWN_FAILURES = 5
"""Names of alignments in the last sentence."""


class Representation(StrEnum):
    """Inner states that can be written (as in `bioattn.inference.evoformer_prediction`)."""

    SINGLE = "single"
    PAIR = "pair"
    MSA = "msa"
    MSA_FIRST_ROW = "msa_first_row"
    STRUCTURE = "structure"


class AlignmentReduction(StrEnum):
    """What is done to attention before it is written (as in `bioattn.store.alignment_schema`)."""

    MEAN_ROWS = "mean-rows"
    MAX_ROWS = "max-rows"
    TOP_K = "top-k"
    MEAN_HEADS = "mean-heads"
    MAX_HEADS = "max-heads"
    NONE = "none"


def evoformer(
    reporter: Reporter,
    alignment: Annotated[
        Path,
        typer.Argument(
            metavar="IN",
            help="Alignment of any format and packing, or `-`; or a folder or a list of alignments.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Folder of the results; one folder each for several inputs."),
    ],
    parameters: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="AlphaFold's params_model_*.npz or an OpenFold .pt state dict."),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Model folder (`bioattn train evoformer`); the same option as --parameters.",
        ),
    ] = None,
    query: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Name of the target row; its residues become the columns [default: row 1, all columns stay].",
        ),
    ] = None,
    recycles: Annotated[
        int | None, typer.Option(min=0, help="Passes after the first [default: the model's, 3 of AlphaFold].")
    ] = None,
    max_msa_clusters: Annotated[
        int | None, typer.Option(min=1, help="Rows of the clustered MSA at most [default: the model's].")
    ] = None,
    max_extra_msa: Annotated[
        int | None, typer.Option(min=1, help="Rows of the extra MSA at most [default: the model's].")
    ] = None,
    representations: Annotated[
        list[Representation] | None,
        typer.Option(help="Also write this inner state to representations.h5; can be repeated."),
    ] = None,
    attention: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write attention here as HDF5.")
    ] = None,
    sites: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Attention sites, for example 'evoformer.*.msa_row'; can be repeated [default: all].",
        ),
    ] = None,
    heads: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Heads to keep, for example 0,2 (counted from 0) [default: all]."),
    ] = None,
    reduce: Annotated[
        AlignmentReduction,
        typer.Option(help="What is kept of the attention: over MSA rows, over heads, or of the keys."),
    ] = AlignmentReduction.MEAN_ROWS,
    top_k: Annotated[
        int | None, typer.Option(min=1, help="Keys kept of each query with --reduce top-k [default: 16].")
    ] = None,
    dtype: Annotated[
        WeightType,
        typer.Option(help="How attention is stored; netCDF programs cannot read float16, half the size."),
    ] = WeightType.FLOAT32,
    precision: Annotated[
        Precision, typer.Option(help="Arithmetic of the layers; bf16 is faster where the processor has it.")
    ] = Precision.FP32,
    chunk: Annotated[
        str,
        typer.Option(
            metavar="N|auto",
            help="Rows or residues that layers take at a time at most; auto: as memory allows.",
        ),
    ] = "auto",
    structure_layers: StructureLayersOption = None,
    seed: SeedOption = 0,
    device: DeviceOption = Device.AUTO,
    threads: ThreadsOption = None,
    resume: ResumeOption = False,
    force: ForceOption = False,
) -> None:
    """Predict contacts, distances and, where the parameters can, the structure of a protein from its alignment.

    Writes contacts.rr (CASP RR) and contacts.tsv, distogram.h5, structure.pdb and .cif with pLDDT as B-factor, and
    scores.json. With several alignments each has its own folder, and one that fails does not stop the rest.

    Warns of an alignment whose rows agree no more than by chance, or with few effective sequences (Neff).
    """
    from bioattn.device import choose_device, describe_device, set_threads
    from bioattn.errors import BioattnError
    from bioattn.files import write_run_record
    from bioattn.inference.alignment_runner import RunSettings
    from bioattn.inference.alignment_sources import find_alignments
    from bioattn.inference.evoformer import run_alignments
    from bioattn.inference.evoformer_memory import Precision as LayerPrecision
    from bioattn.inference.evoformer_prediction import Representation as KeptRepresentation
    from bioattn.inference.run_paths import check_run_paths
    from bioattn.models.evoformer.folder import load_evoformer_model
    from bioattn.wording import counted

    began = time.monotonic()
    weights = _one_of(parameters, model)
    size = _chunk(chunk)
    sources, several = find_alignments(alignment)
    wanted = _attention(attention, sites, heads, reduce, top_k, dtype)
    check_run_paths(sources, output, several=several, attention=attention, model=weights)
    set_threads(threads)
    chosen = choose_device(device)
    loaded = load_evoformer_model(weights, chosen, structure_layers)
    reporter.say(f"running on {describe_device(chosen)}")
    inputs = _inputs(loaded.inputs, recycles, max_msa_clusters, max_extra_msa)
    summary = run_alignments(
        loaded,
        sources,
        output,
        RunSettings(
            inputs=inputs,
            query=query,
            seed=seed,
            precision=LayerPrecision(precision),
            chunk=size,
            representations=tuple(KeptRepresentation(name) for name in representations or ()),
        ),
        several=several,
        attention=wanted,
        resume=resume,
        force=force,
        progress=reporter.progress(),
    )
    figures = {
        "model": {"file": loaded.name, "sha256": loaded.sha256},
        "device": str(chosen),
        "finished": sorted(summary.finished),
        "resumed": sorted(summary.resumed),
        "failed": summary.failed,
    }
    record = {source.name: source.path for source in sources}
    for written in (output, attention):
        if written is not None and (summary.finished or written == output):
            write_run_record(written, reporter.command, record, time.monotonic() - began, **figures)
    for name, files in summary.finished.items():
        reporter.say(f"{output / name if several else output}: {', '.join(files)}")
    if summary.resumed:
        reporter.say(f"{counted(len(summary.resumed), 'alignment')} had been finished before")
    if summary.failed:
        more = len(summary.failed) - SHOWN_FAILURES
        raise BioattnError(
            f"{len(summary.failed):,} of {counted(len(sources), 'alignment')} failed: "
            f"{', '.join(list(summary.failed)[:SHOWN_FAILURES])}"
            + (f" and {more:,} more" if more > 0 else "")
            + f"; the reasons stand above and in {output.name}.run.json"
        )


def _one_of(parameters: Path | None, model: Path | None) -> Path:
    from bioattn.errors import SettingsError

    if parameters is not None and model is not None:
        raise SettingsError("--parameters and --model are two ways to name the model; give one of them")
    weights = parameters if parameters is not None else model
    if weights is None:
        raise SettingsError("give the model: --parameters FILE (AlphaFold's or OpenFold's) or --model FOLDER")
    return weights


def _chunk(text: str) -> int | None:
    from bioattn.errors import SettingsError

    if text == "auto":
        return None
    if not (text.isdecimal() and int(text) > 0):
        raise SettingsError(f"--chunk {text}: give a number of rows from 1, or auto")
    return int(text)


def _inputs(
    usual: "InputSettings", recycles: int | None, max_msa_clusters: int | None, max_extra_msa: int | None
) -> "InputSettings":
    """What the model wants, unless the user wants something else."""
    from dataclasses import replace

    return replace(
        usual,
        num_recycles=usual.num_recycles if recycles is None else recycles,
        max_msa_clusters=max_msa_clusters or usual.max_msa_clusters,
        max_extra_msa=max_extra_msa or usual.max_extra_msa,
    )


def _attention(
    path: Path | None,
    sites: list[str] | None,
    heads: str | None,
    reduce: AlignmentReduction,
    top_k: int | None,
    dtype: WeightType,
) -> "AttentionOutput | None":
    from bioattn.errors import SettingsError
    from bioattn.inference.alignment_runner import AttentionOutput
    from bioattn.store.alignment_schema import AlignmentAttentionOptions
    from bioattn.store.alignment_schema import AlignmentReduction as StoredReduction
    from bioattn.store.schema import WeightType as StoredType

    if path is None:
        changed = reduce is not AlignmentReduction.MEAN_ROWS or dtype is not WeightType.FLOAT32
        if sites or heads or top_k is not None or changed:
            raise SettingsError(
                "--sites, --heads, --reduce, --top-k and --dtype speak of attention: give --attention FILE too"
            )
        return None
    if top_k is not None and reduce is not AlignmentReduction.TOP_K:
        raise SettingsError(f"--top-k {top_k} is for --reduce top-k; give that too, or leave it out")
    usual = AlignmentAttentionOptions()
    return AttentionOutput(
        path=path,
        options=AlignmentAttentionOptions(
            sites=tuple(sites or ("*",)),
            heads=parse_heads(heads),
            reduce=StoredReduction(reduce),
            top_k=usual.top_k if top_k is None else top_k,
            dtype=StoredType(dtype),
        ),
    )


def register(app: typer.Typer) -> None:
    """Add the command to its verb."""
    command(app)(evoformer)
