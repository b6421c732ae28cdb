"""`bioattn simulate …`: make inputs whose truth is known, and score attention against that truth."""

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bioattn_cli.choice_options import AveragedSitesOption, Upsampling
from bioattn_cli.options import ForceOption, OutputOption, SeedOption, command
from bioattn_cli.reporting import Reporter
from bioattn_cli.verbs import Verb

app = typer.Typer(
    cls=Verb,
    help="Make inputs whose truth is known, and score attention against that truth.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class Difficulty(StrEnum):
    """Which set of promoters is made."""

    STANDARD = "standard"
    HARD = "hard"


class Task(StrEnum):
    """What responses are."""

    REGRESSION = "regression"
    BINARY = "binary"


class Split(StrEnum):
    """Which genes of a dataset are scored."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"
    ALL = "all"


@app.callback()
def _verb() -> None:
    """Make inputs whose truth is known, and score attention against that truth."""


@command(app)
def promoters(
    reporter: Reporter,
    output: OutputOption,
    genes: Annotated[int, typer.Option(min=1, help="Promoters.")] = 3000,
    treatments: Annotated[int, typer.Option(min=1, help="Treatments, each with its own motif.")] = 6,
    length: Annotated[
        int | None, typer.Option(min=1, help="Bases of a promoter [default: 400, hard 1000].")
    ] = None,
    difficulty: Annotated[
        Difficulty,
        typer.Option(
            help="standard: 8-bp motifs, 5 % substitutions, uniform background; hard: 1 kb, motifs sampled "
            "from matrices, order-2 background, half of the treatments need a pair of motifs, more noise."
        ),
    ] = Difficulty.STANDARD,
    task: Annotated[
        Task, typer.Option(help="Responses as log2 fold changes (0 or ±2, plus noise) or as 0 and 1.")
    ] = Task.REGRESSION,
    presence: Annotated[
        float, typer.Option(min=0, max=1, help="Chance that a promoter responds to a treatment.")
    ] = 0.5,
    decoys: Annotated[int, typer.Option(min=0, help="Motifs without effect, in every promoter.")] = 2,
    pairs: Annotated[
        int | None,
        typer.Option(min=0, help="Treatments that need two motifs [default: 0, hard half of them]."),
    ] = None,
    substitution_rate: Annotated[
        float, typer.Option(min=0, max=0.75, help="Chance of a substitution per base of a motif (standard).")
    ] = 0.05,
    noise: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Standard deviation added to responses [default: 0.5, hard 1], or share of labels flipped "
            "[default: 0.02, hard 0.05].",
        ),
    ] = None,
    chromosomes: Annotated[int, typer.Option(min=1, help="Chromosomes.")] = 8,
    compress: Annotated[bool, typer.Option("--gzip", help="Compress the larger files.")] = False,
    seed: SeedOption = 0,
    force: ForceOption = False,
) -> None:
    """Make a genome whose promoters hold planted motifs, and the responses that follow from them.

    Writes genome.fa, annotation.gff3, responses.tsv, treatments.tsv, truth.tsv, motifs.meme and simulation.json
    into the folder OUTPUT; the same options and seed give the same bytes. The promoters are the LENGTH bases
    upstream of each gene: bioattn prepare promoters genome.fa annotation.gff3 --upstream LENGTH --downstream 0
    """
    from bioattn.io.files import write_run_record
    from bioattn.simulate.promoter_files import check_output_folder, write_simulation
    from bioattn.simulate.promoters import simulate_promoters, simulation_settings
    from bioattn.text import counted

    began = time.monotonic()
    check_output_folder(output, force=force)
    settings = simulation_settings(
        difficulty.value,
        genes=genes,
        treatments=treatments,
        length=length,
        task=task.value,
        presence=presence,
        decoys=decoys,
        pairs=pairs,
        substitution_rate=substitution_rate,
        noise=noise,
        chromosomes=chromosomes,
        seed=seed,
    )
    simulated = simulate_promoters(settings)
    written = write_simulation(output, simulated, compress=compress, force=force)
    write_run_record(written["simulation.json"], reporter.command, {}, time.monotonic() - began)
    reporter.say(
        f"wrote {output}: {counted(settings.genes, 'promoter')} of {settings.length:,} bp, "
        f"{counted(settings.treatments, 'treatment')} ({settings.pairs} need a pair of motifs), "
        f"{counted(len(simulated.sites), 'planted site')}"
    )
    reporter.say(
        f"next: bioattn prepare promoters {written['genome.fa']} {written['annotation.gff3']} "
        f"--upstream {settings.length} --downstream 0 --flank 20 -o promoters.fa"
    )


@command(app)
def score(
    reporter: Reporter,
    attention: Annotated[
        Path, typer.Argument(metavar="ATTENTION", help="Attention HDF5 of simulated promoters.")
    ],
    truth: Annotated[Path, typer.Argument(metavar="TRUTH", help="truth.tsv of the simulation.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Also write the scores as JSON here.")
    ] = None,
    dataset: Annotated[
        Path | None,
        typer.Option(help="Dataset of these promoters: choose genes by its split, judge predictions too."),
    ] = None,
    split: Annotated[
        Split | None, typer.Option(help="Which genes of the dataset are scored [default: test].")
    ] = None,
    sites: AveragedSitesOption = None,
    value_weighted: Annotated[
        bool, typer.Option("--value-weighted", help="Score weights times the norm of the value vector.")
    ] = False,
    upsampling: Annotated[
        Upsampling,
        typer.Option(
            "--upsample",
            "--upsampling",
            help="From bins to bases: flat within a bin, smoothed by half a bin, or over all that a bin sees.",
        ),
    ] = Upsampling.GAUSSIAN,
) -> None:
    """Score attention against planted motifs: does it lie where the truth is, and for the right treatment?

    Prints a table; without --dataset every promoter of the attention file is scored, training ones included.
    """
    from bioattn.errors import SettingsError
    from bioattn.interpret.planted.attention_score import score_attention_and_predictions
    from bioattn.interpret.planted.localisation import plain
    from bioattn.interpret.planted.localisation_table import localisation_text
    from bioattn.io.files import check_output, write_json, write_run_record

    began = time.monotonic()
    if split is not None and dataset is None:
        raise SettingsError(f"--split {split.value}: the split stands in the dataset; give it with --dataset")
    inputs = {"attention": attention, "truth": truth} | ({"dataset": dataset} if dataset else {})
    if output is not None:
        check_output(output, inputs.values())
    report, predictions = score_attention_and_predictions(
        attention,
        truth,
        dataset=dataset,
        split=None if split is Split.ALL else (split or Split.TEST).value,
        sites=sites or ("*",),
        value_weighted=value_weighted,
        upsampling=upsampling.value,
        progress=reporter.progress(),
    )
    typer.echo(localisation_text(report, predictions), nl=False)
    if output is not None:
        write_json(
            output, report.to_json() | {"predictions": None if predictions is None else plain(predictions)}
        )
        write_run_record(output, reporter.command, inputs, time.monotonic() - began)
