"""`bioattn explain …`: what a model used, and whether its attention can be believed."""

from dataclasses import MISSING
from pathlib import Path

import typer

from bioattn.choices import Method, Subset
from bioattn.errors import SettingsError
from bioattn.interpret.choices import AttributionBaseline, CurveSettings, KnownMotifSettings, MethodSettings
from bioattn.io.files import check_apart, write_json
from bioattn.io.settings import FORCE, RESUME, SEED, SHARD, THREADS, Writes, argument, option, table
from bioattn.models.running import RunReport
from bioattn.system.device import DEVICE, Device
from bioattn.system.shard import parse_shard
from bioattn.system.signals import stop_on_signals
from bioattn.text import counted, human_bytes, percentage, quoted
from bioattn_cli import options
from bioattn_cli.command import command
from bioattn_cli.reporting import Reporter


@command("explain attribution")
def attribution(
    reporter: Reporter,
    model: Path = options.MODEL,
    promoters: Path = options.PROMOTERS,
    output: Path = options.OUTPUT,
    settings: MethodSettings = table(MethodSettings),
    treatment: tuple[str, ...] = options.PREDICTED_TREATMENTS,
    treatment_table: Path | None = options.TREATMENT_TABLE,
    genes: tuple[str, ...] = options.GENES,
    device: Device = DEVICE,
    threads: int | None = THREADS,
    shard: str | None = SHARD,
    resume: bool = RESUME,
    force: bool = options.DROP_PARTS,
) -> RunReport:
    """Write the contribution of each base of each promoter to the response to each treatment, as HDF5.

    For every position the file holds a value for each of the four bases, centred on their mean. The difference of
    two values is the effect of replacing one base by the other; the value of the present base is its contribution.
    Binary models are explained in log-odds. The command prints the size first and refuses a file larger than the
    free disk. Until the file is complete, parts are kept in OUTPUT.partial; --resume continues from them, --force
    drops them. docs/formats/attribution.md has the schema.

    bioattn explain attribution model promoters.fa -o explain.h5 --treatment heat --genes genes.txt
    """
    from bioattn.inference.runner import with_ability
    from bioattn.interpret.attribution import run_attribution
    from bioattn.models.family import load_runner
    from bioattn.promoters.treatments import read_treatment_table, select_treatments

    part = None if shard is None else parse_shard(shard)
    of_path = settings.steps != 50 or settings.baseline is not AttributionBaseline.UNIFORM
    if of_path and settings.method is not Method.INTEGRATED_GRADIENTS:
        flag = "--steps" if settings.steps != 50 else "--baseline"
        raise SettingsError(
            f"{flag} is for --method integrated-gradients, not {settings.method}; leave it out"
        )
    chosen = reporter.device(device, threads)
    loaded = with_ability(
        load_runner(model, chosen), "predictor", "be explained base by base: they predict no responses"
    )
    table = None if treatment_table is None else read_treatment_table(treatment_table)
    treatments = select_treatments(loaded.treatments, treatment, table)
    summary, completeness = run_attribution(
        loaded,
        promoters,
        output,
        settings=settings,
        treatments=treatments,
        genes=genes,
        shard=part,
        resume=resume,
        force=force,
        progress=reporter.progress,
    )
    number, gap, difference = len(treatments.names), completeness.largest_gap, completeness.largest_difference
    scope = f"{counted(summary.num_samples, 'promoter')} × {counted(number, 'treatment')}"
    reporter.say(
        f"wrote {output}: attribution ({settings.method}) of {scope}, {human_bytes(summary.num_bytes)}"
    )
    if gap is not None and difference is not None:
        tell = reporter.warn if gap > 0.05 * difference else reporter.say
        tell(
            f"completeness: contributions miss f(promoter) − f(baseline) by at most {gap:.3g} (those of a "
            f"promoter sum to up to {difference:.3g}); more --steps bring them closer"
        )
    return RunReport(
        device=str(chosen),
        promoters=summary.num_samples,
        treatments=number,
        resumed_promoters=summary.resumed_samples,
        largest_completeness_gap=gap,
    )


@command("explain response-curve")
def response_curve(
    reporter: Reporter,
    responses: Path = argument("RESPONSES", "Measured responses: genes × treatments."),
    treatment_table: Path = argument("TREATMENTS", "Table of treatments with times or doses."),
    output: Path = options.OUTPUT,
    settings: CurveSettings = table(CurveSettings),
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


@command("explain heads")
def heads(
    reporter: Reporter,
    model: Path = argument("MODEL", "Folder of a trained model.", recorded_file="model.safetensors"),
    dataset: Path = argument("DATASET", "Dataset the model was trained on."),
    output: Path = option(
        "Folder of tables to write.", "--output", "-o", default=MISSING, writes=Writes.FOLDER
    ),
    split: Subset = option(
        "Genes, proteins, sequences or pairs on which importance is measured.", default=Subset.VALIDATION
    ),
    prune_to: int | None = option(
        "Keep N heads in all, at least one per site (promoter models).", min=1, metavar="N"
    ),
    pruned_model: Path | None = option(
        "Where --prune-to writes the smaller model.", metavar="FOLDER", writes=Writes.FOLDER
    ),
    device: Device = DEVICE,
    threads: int | None = THREADS,
    force: bool = FORCE,
) -> RunReport:
    """Rank attention heads by their importance for the predictions of a model.

    Importance is the mean absolute gradient of the loss with respect to a mask on the head (Michel et al. 2019).
    Heads are also described: entropy, distance, the neighbours that they attend to, whether they find the copy of
    a word (induction) or follow another sequence. But for MSA/pair models the command leaves each head out, and
    prunes the least important ones one after the other. --prune-to writes a model with the kept heads; heads keep
    their numbers.

    bioattn explain heads model X.dataset.h5 -o heads --prune-to 2 --pruned-model small
    """
    from bioattn.interpret.heads import explain_heads

    chosen = reporter.device(device, threads)
    said = explain_heads(
        model,
        dataset,
        output,
        device=chosen,
        split=split.value,
        prune_to=prune_to,
        pruned_model=pruned_model,
        force=force,
        progress=reporter.progress,
    )
    written = [output] if pruned_model is None else [output, pruned_model]
    return RunReport(
        *said, *(f"wrote {path}" for path in reversed(written)), outputs=written, device=chosen.type
    )


@command("explain motifs")
def motifs(
    reporter: Reporter,
    results: tuple[Path, ...] = argument(
        "RESULT",
        "Attention and attribution HDF5 over the same promoters; several of a kind are averaged.",
        recorded="result_{}",
    ),
    output: Path = options.OUTPUT,
    expected: Path = option(
        "Columns factor, jaspar_id, consensus, condition_group and direction.",
        default=MISSING,
        metavar="TABLE",
    ),
    motif_database: Path | None = option(
        "MEME or JASPAR file with the matrices of jaspar_id.", "--motifs", metavar="FILE", recorded="motifs"
    ),
    promoters: Path | None = option(
        "Promoter FASTA of the results; attribution files hold the sequences.", metavar="FASTA"
    ),
    treatment_groups: Path | None = option(
        "Treatments (first column) and their `group`, whose mean is then the condition "
        "[default: every treatment is one].",
        metavar="TABLE",
    ),
    settings: KnownMotifSettings = table(KnownMotifSettings),
) -> RunReport:
    """Score attention and attribution at known motifs, by condition.

    For each pair of the table the command compares the signal at the motif's sites with windows matched by
    position and G+C, and with shuffled motifs of equal information, of which at most 5 % may do as well.
    Attribution and contributions must have the expected direction; attention, which has no sign, must exceed
    the background. A pair of direction `none` passes without a signal. docs/known-motifs.md explains the
    columns.

    bioattn explain motifs attention.h5 explain.h5 -o motifs.tsv --expected expected.tsv --motifs JASPAR.meme
    """
    from bioattn.interpret.motifs.known_motifs import score_known_motifs, write_known_motifs

    found = score_known_motifs(
        results,
        expected,
        motifs=motif_database,
        promoters=promoters,
        treatment_groups=treatment_groups,
        settings=settings,
        progress=reporter.progress,
    )
    write_known_motifs(output, found.table)
    summaries = found.summaries()
    return RunReport(
        *(
            f"{each.signal}: {each.expected_passed} of {counted(each.expected, 'expected pair')} found, "
            f"{each.specific} of them also against the mean of all treatments; {each.none_passed} of {each.none} "
            f"that should be silent are; {percentage(each.shuffled_passing or 0, 1)} of shuffled motifs pass"
            for each in summaries
        ),
        f"wrote {output}: {counted(len(found.table), 'row')} over {counted(found.promoters, 'promoter')}",
        promoters=found.promoters,
        missing_conditions=found.missing_conditions,
        signals=[each._asdict() for each in summaries],
    )


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
    output: Path = options.OUTPUT,
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
    weights: bool = options.WEIGHTS,
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
