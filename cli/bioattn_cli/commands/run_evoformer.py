"""`bioattn run evoformer`: contacts, distances, structure and attention from alignments."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bioattn.models.evoformer.choices import Representation
from bioattn.system.device import Device
from bioattn.system.precision import Precision
from bioattn_cli.command import Input, Output, Record, command
from bioattn_cli.options import (
    ConfigOption,
    DeviceOption,
    ForceOption,
    ResumeOption,
    SeedOption,
    ShardOption,
    ThreadsOption,
)
from bioattn_cli.reporting import Reporter

if TYPE_CHECKING:
    from bioattn.models.evoformer.inference.runner import AttentionOutput
    from bioattn.models.evoformer.input_settings import InputSettings


SHOWN_FAILURES = 5
"""Names of alignments in the last sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterSettings:
    """Table [parameters]: what a file of parameters does not tell."""

    structure_layers: int | None = None
    """Layers of the structure module, which share their weights and so cannot be counted; None = AlphaFold's 8."""

    def __post_init__(self) -> None:
        from bioattn.errors import SettingsError

        if self.structure_layers is not None and self.structure_layers < 1:
            raise SettingsError(f"structure_layers is {self.structure_layers}; it must be at least 1")


@command("run evoformer")
def evoformer(
    reporter: Reporter,
    alignment: Annotated[
        Path,
        typer.Argument(
            metavar="IN",
            help="Alignment of any format and packing, or `-`; or a folder or a list of alignments.",
        ),
        Input(name=""),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Folder of the results; one folder each for several inputs."),
        Output.OTHER,
    ],
    model: Annotated[
        list[Path] | None,
        typer.Option(
            "--model",
            "--parameters",
            metavar="PATH",
            help="The model: a folder (`bioattn train evoformer`), AlphaFold's params_model_*.npz or an OpenFold "
            ".pt state dict.",
        ),
        Input(name=""),
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
    representations: Annotated[
        list[Representation] | None,
        typer.Option(help="Also write this representation to representations.h5; can be repeated."),
    ] = None,
    attention: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write attention here as HDF5."),
        Output.OTHER,
    ] = None,
    sites: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Attention sites, for example 'evoformer.*.msa_row'; can be repeated [default: all].",
        ),
    ] = None,
    config: ConfigOption = None,
    precision: Annotated[
        Precision, typer.Option(help="Precision of the layers; bf16 is faster on processors that support it.")
    ] = Precision.FP32,
    chunk: Annotated[
        str,
        typer.Option(
            metavar="N|auto",
            help="Rows or residues that layers take at a time at most; auto: as memory allows.",
        ),
    ] = "auto",
    seed: SeedOption = 0,
    device: DeviceOption = Device.AUTO,
    threads: ThreadsOption = None,
    shard: ShardOption = None,
    resume: ResumeOption = False,
    force: ForceOption = False,
) -> Record:
    """Predict contacts, distances and, if the parameters allow it, the structure of a protein from its alignment.

    Writes contacts.rr (CASP RR) and contacts.tsv, distogram.h5, structure.pdb and .cif with pLDDT as B-factor, and
    scores.json. With several alignments each has its own folder, and a failure does not stop the others.

    Settings come from the model, then --config (tables [inputs], [attention] and [parameters], which
    docs/formats/evoformer-output.md explains), then the options here.

    Warns of alignments whose rows agree no more than by chance, or with few effective sequences (Neff).
    """
    from bioattn.models.evoformer.folder import load_evoformer_model
    from bioattn.models.evoformer.inference.run import run_alignments
    from bioattn.models.evoformer.inference.run_paths import check_run_paths
    from bioattn.models.evoformer.inference.runner import RunSettings
    from bioattn.models.evoformer.inference.sources import find_alignments
    from bioattn.system.device import choose_device, describe_device, set_threads
    from bioattn.system.shard import parse_shard
    from bioattn.text import counted

    part = None if shard is None else parse_shard(shard)
    weights = _the_model(model)
    size = _chunk(chunk)
    settings = _settings(config)
    sources, several = find_alignments(alignment)
    wanted = _attention(attention, sites, settings.get("attention", {}), f"{config} [attention]")
    check_run_paths(sources, output, several=several, attention=attention, model=weights)
    set_threads(threads)
    chosen = choose_device(device)
    loaded = load_evoformer_model(weights, chosen, settings.get("parameters", {}).get("structure_layers"))
    reporter.say(f"running on {describe_device(chosen)}")
    given = {"num_recycles": recycles, "max_msa_clusters": max_msa_clusters}
    inputs = _inputs(
        loaded.inputs, settings.get("inputs", {}), given, f"{config} [inputs]" if config else "options"
    )
    summary = run_alignments(
        loaded,
        sources,
        output,
        RunSettings(
            inputs=inputs,
            query=query,
            seed=seed,
            precision=precision,
            chunk=size,
            representations=tuple(representations or ()),
        ),
        several=several,
        attention=wanted,
        shard=part,
        resume=resume,
        force=force,
        progress=reporter.progress(),
    )
    sentences = [
        f"wrote {output / name if several else output}: {', '.join(files)}"
        for name, files in summary.finished.items()
    ]
    if summary.resumed:
        sentences.append(f"{counted(len(summary.resumed), 'alignment')} had been finished before")
    taken = sources if part is None else sources[part.slice(len(sources))]
    outputs = [output]
    if attention is not None and (summary.finished or part is not None):
        outputs.append(attention)
        done = counted(len(taken) - len(summary.failed), "alignment")
        sentences.append(f"wrote {attention}: attention of {done}")
    failure = None
    if summary.failed:
        more = len(summary.failed) - SHOWN_FAILURES
        failure = (
            f"{len(summary.failed):,} of {counted(len(taken), 'alignment')} failed: "
            f"{', '.join(list(summary.failed)[:SHOWN_FAILURES])}"
            + (f" and {more:,} more" if more > 0 else "")
            + f"; the reasons stand above and in {output.name}.run.json"
        )
    return Record(
        *sentences,
        outputs=outputs,
        inputs={source.name: source.path for source in taken},
        failure=failure,
        model={"file": loaded.name, "sha256": loaded.sha256},
        device=str(chosen),
        finished=sorted(summary.finished),
        resumed=sorted(summary.resumed),
        failed=summary.failed,
    )


def _the_model(given: list[Path] | None) -> Path:
    from bioattn.errors import SettingsError

    match given or []:
        case [path]:
            return path
        case []:
            raise SettingsError(
                "give the model: --model FOLDER, or --parameters FILE (AlphaFold's or OpenFold's)"
            )
        case several:
            raise SettingsError(f"--model and --parameters name one model; {len(several)} are given")


def _settings(config: Path | None) -> dict[str, dict[str, Any]]:
    """The tables of the config file, by name."""
    from bioattn.errors import SettingsError
    from bioattn.io.config_file import build, read_toml

    tables = read_toml(config) if config else {}
    for name, value in tables.items():
        if name not in ("inputs", "attention", "parameters") or not isinstance(value, dict):
            raise SettingsError(
                f"{config}: unknown table or key {name!r}; known are the tables [inputs], [attention] and "
                "[parameters]"
            )
    build(ParameterSettings, tables.get("parameters", {}), f"{config} [parameters]")
    return tables


def _chunk(text: str) -> int | None:
    from bioattn.errors import SettingsError

    if text == "auto":
        return None
    if not (text.isdecimal() and int(text) > 0):
        raise SettingsError(f"--chunk {text}: give a number of rows from 1, or auto")
    return int(text)


def _inputs(
    usual: "InputSettings", configured: dict[str, Any], given: dict[str, int | None], source: str
) -> "InputSettings":
    """What the model wants, unless the user wants something else."""
    from dataclasses import asdict

    from bioattn.io.config_file import build

    options = {name: value for name, value in given.items() if value is not None}
    return build(type(usual), asdict(usual) | configured | options, source)


def _attention(
    path: Path | None, sites: list[str] | None, configured: dict[str, Any], source: str
) -> "AttentionOutput | None":
    from bioattn.errors import SettingsError
    from bioattn.io.config_file import build
    from bioattn.models.evoformer.inference.runner import AttentionOutput
    from bioattn.store.alignment_schema import AlignmentAttentionOptions, AlignmentReduction

    if path is None:
        if sites or configured:
            what = "--sites" if sites else source
            raise SettingsError(f"{what} speaks of attention: give --attention FILE too")
        return None
    options = build(
        AlignmentAttentionOptions,
        configured | ({"sites": sites} if sites else {}),
        source if configured else "--sites",
    )
    if "top_k" in configured and options.reduce is not AlignmentReduction.TOP_K:
        raise SettingsError(f'{source}: top_k is for reduce = "top-k"; say that too, or leave it out')
    return AttentionOutput(path=path, options=options)
