"""`bioattn explain …`: what a model used, and whether its attention can be believed."""

from pathlib import Path

import typer

from bioattn.errors import SettingsError
from bioattn.interpret.choices import (
    OUTPUT,
    WEIGHTS,
    CurveSettings,
    ExplainAttribution,
    ExplainHeads,
    ExplainMotifs,
)
from bioattn.io.files import check_apart, write_json
from bioattn.io.settings import SEED, THREADS, Writes, argument, option, options_of
from bioattn.models.running import RunReport
from bioattn.system.device import DEVICE, Device
from bioattn.system.signals import stop_on_signals
from bioattn.text import quoted
from bioattn_cli.command import command
from bioattn_cli.commands.families import library, settings_command
from bioattn_cli.reporting import Reporter

settings_command(
    "explain attribution", ExplainAttribution, library("interpret.attribution", "run_attribution")
)
settings_command("explain heads", ExplainHeads, library("interpret.heads", "explain_heads"))
settings_command("explain motifs", ExplainMotifs, library("interpret.motifs.known_motifs", "explain_motifs"))


@command("explain response-curve")
def response_curve(
    reporter: Reporter,
    responses: Path = argument("RESPONSES", "Measured responses: genes × treatments."),
    treatment_table: Path = argument("TREATMENTS", "Table of treatments with times or doses."),
    output: Path = OUTPUT,
    settings: CurveSettings = options_of(CurveSettings),
    predictions: Path | None = option("Predictions of `bioattn run promoter`, smoothed beside."),
) -> RunReport:
    """Smooth responses over dose or time, and write what each measured treatment weighs along the curve.

    One width for all series and genes, which leave-one-out chooses. Prints the leave-one-out error beside that of
    the nearest treatment. Cells such as `5 min`, `2 h` or `0.5 mM` are converted; others must have one unit.

    bioattn explain response-curve responses.tsv treatments.tsv -o curves.json --along minutes --series group
    """
    from bioattn.interpret.response_curve import response_curves

    curves = response_curves(responses, treatment_table, settings, predictions)
    if curves.not_measured:
        reporter.warn(f"{responses}: has no responses to {quoted(curves.not_measured)}")
    errors = curves.left_out_error
    if errors is not None:
        typer.echo(f"left out\tRMSE\ncurve\t{errors['curve']:.4f}\nnearest\t{errors['nearest']:.4f}")
    curves.write(output)
    widths = ", ".join(f"{width:.3g}" for width in curves.width)
    return RunReport(f"wrote {output}: {len(curves.series)} series, width {widths}", width=curves.width)


@command("explain check")
def check(
    reporter: Reporter,
    model: Path = argument("MODEL", "Folder of a trained model.", recorded_file="model.safetensors"),
    promoters: Path = argument(
        "INPUT",
        "What to check it on: promoters of `bioattn prepare promoters` or other sequences as FASTA, alignments, "
        "a dataset, or designs, as below.",
        recorded="promoters",
    ),
    output: Path = OUTPUT,
    dataset: Path | None = option("The training dataset of MODEL, to measure accuracy on held-out genes."),
    controls: Path | None = option(
        "Retrain MODEL with uniform attention, with one query for all treatments and with another seed; "
        "keep these models in this folder, use them again, resume an interrupted training. Needs --dataset.",
        metavar="DIR",
        writes=Writes.FOLDER,
    ),
    seeds: int | None = option("With --controls: other seeds to retrain [default: 1].", min=0),
    other_model: tuple[Path, ...] = option(
        "The same model of another seed, to compare maps with; of alignments, the same model trained with "
        "uniform_msa_attention; of designs, a promoter model of other promoters, as a second oracle. Can be "
        "repeated.",
        default=(),
        metavar="MODEL",
        recorded="",
    ),
    oracle_dataset: Path | None = option(
        "Designs: the dataset of --other-model's training, which tells whether it shares promoters with MODEL.",
        metavar="DATASET",
    ),
    variants: Path | None = option(
        "Measured effects of mutations in promoters, to compare maps with: a table with the columns promoter, "
        "position (from 1, the first base), alternative (the new base), and one for each treatment or "
        "treatment and effect.",
        metavar="TABLE",
    ),
    motifs: Path | None = option("Motifs to count in designs and real promoters.", metavar="MEME"),
    treatment: tuple[str, ...] = option(
        "A treatment [default: all]; what designs of others are to respond to; can be repeated.",
        default=(),
        metavar="NAME",
        group="Inputs",
    ),
    without: tuple[str, ...] = option(
        "What designs of others are not to respond to; can be repeated.", "--not", default=(), metavar="NAME"
    ),
    weights: bool = WEIGHTS,
    samples: int | None = option(
        "Promoters, sequences, pairs or proteins to check, drawn by the seed [default: 300]; designs drawn at "
        "each guidance of the curve [default: 64], 0 for no curve.",
        min=0,
    ),
    seed: int = SEED,
    device: Device = DEVICE,
    threads: int | None = THREADS,
) -> RunReport:
    """Check whether the attention of a model can be believed, without ground truth.

    Prints a verdict in plain words with its measures, and writes both as JSON. With MODEL and INPUT alone it
    tests whether predictions depend on the positions that contributions (or attention weights) point at (deletion,
    insertion, in-silico mutagenesis), on whose map is used, and on training (random weights). --dataset adds the
    accuracy on held-out genes, --controls whether attention was needed at all, --variants whether maps predict
    what mutations do. Instead of promoters,
    language models take other sequences, translation and molecule models a dataset, MSA/pair models alignments or
    a dataset of contacts. docs/checks.md explains each check.

    Of a diffusion model the promoters that `bioattn generate promoters` or others designed are checked: whether
    they do what was asked for, look real, and are new. An oracle fitted on promoters of --dataset that the model
    has not seen judges designs, real promoters, and designs by simple means: a Markov chain, the same with words
    pasted in, hill-climbing and a genetic algorithm. docs/models/diffusion.md explains each measure.
    """
    from bioattn.checks.engine import CheckSettings, Evidence, check_model, checkable
    from bioattn.models.family import load_runner

    if seeds is not None and controls is None:
        raise SettingsError(f"--seeds {seeds}: is for --controls, which says where retrained models are kept")
    if controls is not None:
        check_apart(output, [controls])
    chosen = reporter.device(device, threads)
    runner = load_runner(model, chosen)
    others = [load_runner(path, chosen) for path in other_model]
    writes_designs = hasattr(runner, "designs")
    if not writes_designs:
        checkable(runner)
        for other in others:
            checkable(other, "--other-model")
    for flag, value, is_for_designs in (
        ("--controls", controls, False),
        ("--variants", variants, False),
        ("--oracle-dataset", oracle_dataset, True),
        ("--motifs", motifs, True),
        ("--not", without, True),
    ):
        if value and is_for_designs is not writes_designs:
            raise SettingsError(f"{flag}: is not for models of the family {runner.family}; leave it out")
    if writes_designs:
        from bioattn.interpret.design_check import check_designs, model_oracle, read_designs
        from bioattn.promoters.dataset import read_dataset

        if dataset is None:
            raise SettingsError("designs are judged on the dataset of the training; give that with --dataset")
        report = check_designs(
            runner,
            read_designs(promoters, read_dataset(dataset).length, treatment, without),
            dataset,
            samples=64 if samples is None else samples,
            motifs=motifs,
            oracle=model_oracle(others, oracle_dataset),
            seed=seed,
            progress=reporter.progress,
        )
        typer.echo(report.text())
        report.write(output)
        return RunReport(f"wrote {output}", device=str(chosen), verdict=report.code)
    with stop_on_signals() as stop:
        record = check_model(
            runner,
            promoters,
            Evidence(
                dataset=dataset,
                controls=controls,
                other_models=others,
                variants=variants,
                treatments=treatment,
                weights=weights,
            ),
            settings=CheckSettings(
                samples=300 if samples is None else samples,
                seed=seed,
                other_seeds=1 if seeds is None else seeds,
            ),
            progress=reporter.progress,
            stop=stop,
        )
    typer.echo(record.text(), nl=False)
    write_json(output, record.to_json())
    return RunReport(f"wrote {output}", device=str(chosen), verdict=str(record.verdict.code))
