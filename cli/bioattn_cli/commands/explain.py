"""`bioattn explain …`: what a model used, and whether its attention can be believed."""

from dataclasses import MISSING
from pathlib import Path

import typer

from bioattn.choices import Subset, parse_heads
from bioattn.interpret.choices import AttributionBaseline, MatchBy
from bioattn.io.settings import Writes, argument, option
from bioattn.store.choices import Method
from bioattn.system.device import Device
from bioattn_cli import options
from bioattn_cli.command import Record, command
from bioattn_cli.reporting import Reporter


@command("explain attribution")
def attribution(
    reporter: Reporter,
    model: Path = options.MODEL,
    promoters: Path = options.PROMOTERS,
    output: Path = options.OUTPUT,
    method: Method = option(
        "ism mutates every base to every other; gradient-input and integrated-gradients use the "
        "model's gradient.",
        default=Method.ISM,
    ),
    treatment: tuple[str, ...] = options.PREDICTED_TREATMENTS,
    treatment_table: Path | None = options.TREATMENT_TABLE,
    genes: tuple[str, ...] = options.GENES,
    steps: int | None = option(
        "integrated-gradients: points on the path from the baseline [default: 50].", min=1
    ),
    baseline: AttributionBaseline | None = option(
        "integrated-gradients: the baseline, where the path begins [default: uniform]."
    ),
    device: Device = options.DEVICE,
    threads: int | None = options.THREADS,
    seed: int = options.SEED,
    shard: str | None = options.SHARD,
    resume: bool = options.RESUME,
    force: bool = options.DROP_PARTS,
) -> Record:
    """Write the contribution of each base of each promoter to the response to each treatment, as HDF5.

    For every position the file holds a value for each of the four bases, centred on their mean. The difference of
    two values is the effect of replacing one base by the other; the value of the present base is its contribution.
    Binary models are explained in log-odds. The command prints the size first and refuses a file larger than the
    free disk. Until the file is complete, parts are kept in OUTPUT.partial; --resume continues from them, --force
    drops them. docs/formats/attribution.md has the schema.

    bioattn explain attribution model promoters.fa -o explain.h5 --treatment heat --genes genes.txt
    """
    from bioattn.errors import SettingsError
    from bioattn.inference.runner import with_ability
    from bioattn.interpret.attribution import MethodSettings, run_attribution
    from bioattn.models.family import load_runner
    from bioattn.promoters.treatments import read_treatment_table, select_treatments
    from bioattn.system.device import choose_device, describe_device, set_threads
    from bioattn.system.shard import parse_shard
    from bioattn.text import counted, human_bytes

    part = None if shard is None else parse_shard(shard)
    for name, value in (("--steps", steps), ("--baseline", baseline)):
        if value is not None and method is not Method.INTEGRATED_GRADIENTS:
            raise SettingsError(f"{name} is for --method integrated-gradients, not {method}; leave it out")
    set_threads(threads)
    chosen = choose_device(device)
    loaded = with_ability(
        load_runner(model, chosen), "predictor", "be explained base by base: they predict no responses"
    )
    reporter.say(f"running on {describe_device(chosen)}")
    table = None if treatment_table is None else read_treatment_table(treatment_table)
    treatments = select_treatments(loaded.treatments, treatment, table)
    summary, completeness = run_attribution(
        loaded,
        promoters,
        output,
        settings=MethodSettings(
            method=method,
            steps=50 if steps is None else steps,
            baseline=baseline or AttributionBaseline.UNIFORM,
            seed=seed,
        ),
        treatments=treatments,
        genes=genes,
        shard=part,
        resume=resume,
        force=force,
        progress=reporter.progress(),
    )
    number, gap, difference = len(treatments.names), completeness.largest_gap, completeness.largest_difference
    scope = f"{counted(summary.num_samples, 'promoter')} × {counted(number, 'treatment')}"
    reporter.say(f"wrote {output}: attribution ({method}) of {scope}, {human_bytes(summary.num_bytes)}")
    if gap is not None and difference is not None:
        tell = reporter.warn if gap > 0.05 * difference else reporter.say
        tell(
            f"completeness: contributions miss f(promoter) − f(baseline) by at most {gap:.3g} (those of a "
            f"promoter sum to up to {difference:.3g}); more --steps bring them closer"
        )
    return Record(
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
    output: Path = option("JSON to write.", "--output", "-o", default=MISSING, writes=Writes.FILE),
    along: tuple[str, ...] = option(
        "A column of TREATMENTS with times or doses; can be repeated.", default=MISSING, metavar="COLUMN"
    ),
    series: str | None = option(
        "The column that tells series apart [default: all are one].", metavar="COLUMN"
    ),
    genes: tuple[str, ...] = option(
        "Whose curves are written: ids, or a file with one per line; can be repeated [default: the mean of all].",
        default=(),
        metavar="ID|FILE",
    ),
    predictions: Path | None = option("Predictions of `bioattn run promoter`, smoothed beside."),
    local_linear: bool = option("Fit lines, which are less drawn to the mean at the ends.", default=False),
    bandwidth: tuple[float, ...] = option(
        "Width of the kernel for each --along, in doublings (--no-log: its unit) [default: by leave-one-out].",
        default=(),
    ),
    log: bool = option("Take distances between logarithms.", default=True),
    offset: float = option("Added before the logarithm, for zeros.", default=0.0, min=0),
    points: int = option("Places of a curve.", default=40, min=2, max=1000),
) -> Record:
    """Smooth responses over dose or time, and write what each measured treatment weighs along the curve.

    One width for all series and genes, which leave-one-out chooses. Prints the leave-one-out error beside that of
    the nearest treatment. Cells such as `5 min`, `2 h` or `0.5 mM` are converted; others must have one unit.

    bioattn explain response-curve responses.tsv treatments.tsv -o curves.json --along minutes --series group
    """
    from bioattn.interpret.response_curve import CurveSettings, response_curves
    from bioattn.text import quoted

    settings = CurveSettings(
        along=along,
        series=series,
        genes=genes,
        linear=local_linear,
        width=bandwidth,
        log=log,
        offset=offset,
        points=points,
    )
    curves = response_curves(responses, treatment_table, settings, predictions)
    if curves.not_measured:
        reporter.warn(f"{responses}: has no responses to {quoted(curves.not_measured)}")
    errors = curves.left_out_error
    if errors is not None:
        typer.echo(f"left out\tRMSE\ncurve\t{errors['curve']:.4f}\nnearest\t{errors['nearest']:.4f}")
    curves.write(output)
    widths = ", ".join(f"{width:.3g}" for width in curves.width)
    return Record(f"wrote {output}: {len(curves.series)} series, width {widths}", width=curves.width)


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
    device: Device = options.DEVICE,
    threads: int | None = options.THREADS,
    force: bool = options.FORCE,
) -> Record:
    """Rank attention heads by their importance for the predictions of a model.

    Importance is the mean absolute gradient of the loss with respect to a mask on the head (Michel et al. 2019).
    Heads are also described: entropy, distance, the neighbours that they attend to, whether they find the copy of
    a word (induction) or follow another sequence. But for MSA/pair models the command leaves each head out, and
    prunes the least important ones one after the other. --prune-to writes a model with the kept heads; heads keep
    their numbers.

    bioattn explain heads model X.dataset.h5 -o heads --prune-to 2 --pruned-model small
    """
    from bioattn.interpret.heads import explain_heads
    from bioattn.system.device import choose_device, set_threads
    from bioattn.text import counted

    set_threads(threads)
    chosen = choose_device(device.value)
    report = explain_heads(
        model,
        dataset,
        output,
        device=chosen,
        split=split.value,
        prune_to=prune_to,
        pruned_model=pruned_model,
        force=force,
        progress=reporter.progress(),
    )
    reporter.say(
        f"{counted(report.heads, 'head')} at {counted(report.sites, 'site')}; most important: head "
        f"{report.most[1]} of {report.most[0]}, least: head {report.least[1]} of {report.least[0]}"
    )
    if report.named:
        reporter.say("named: " + ", ".join(f"{number} {name}" for name, number in report.named.items()))
    if report.whole is not None and report.pruned is not None:
        reporter.say(
            f"{prune_to} of {report.heads} heads: accuracy {report.pruned.accuracy:.4f}, with all "
            f"{report.whole.accuracy:.4f} ({split.value} genes)"
        )
    if report.test is not None:
        reporter.say(f"on test genes: accuracy {report.test[1]:.4f}, with all heads {report.test[0]:.4f}")
    written = [output] if pruned_model is None else [output, pruned_model]
    return Record(*(f"wrote {path}" for path in reversed(written)), outputs=written, device=chosen.type)


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
    contrast: tuple[str, ...] = option(
        "Also score the pairs of CONDITION against OTHER; can be repeated.",
        default=(),
        metavar="CONDITION:OTHER",
    ),
    genes: tuple[str, ...] = options.GENES,
    sites: tuple[str, ...] = options.AVERAGED_SITES,
    heads: str | None = options.AVERAGED_HEADS,
    match: MatchBy = option(
        "Find motifs by consensus, or by matrix; the other where a row lacks one.", default=MatchBy.CONSENSUS
    ),
    shuffles: int = option("Shuffled motifs of equal information to compare each with.", default=100, min=20),
    p_value: float = option("Largest p-value of a matrix match, per base and strand.", default=1e-4),
    seed: int = options.SEED,
) -> Record:
    """Score attention and attribution at known motifs, by condition.

    For each pair of the table the command compares the signal at the motif's sites with windows matched by
    position and G+C, and with shuffled motifs of equal information, of which at most 5 % may do as well.
    Attribution and contributions must have the expected direction; attention, which has no sign, must exceed
    the background. A pair of direction `none` passes without a signal. docs/known-motifs.md explains the
    columns.

    bioattn explain motifs attention.h5 explain.h5 -o motifs.tsv --expected expected.tsv --motifs JASPAR.meme
    """
    from bioattn.errors import SettingsError
    from bioattn.interpret.motifs.known_motifs import (
        KnownMotifSettings,
        score_known_motifs,
        write_known_motifs,
    )
    from bioattn.text import counted, percentage

    if not 0 < p_value <= 1:
        raise SettingsError(f"--p-value {p_value:g}: a p-value is above 0 and at most 1")
    settings = KnownMotifSettings(
        contrasts=contrast,
        genes=genes,
        sites=sites or ("*",),
        heads=parse_heads(heads),
        match_by=match,
        num_shuffled=shuffles,
        p_value=p_value,
        seed=seed,
    )
    found = score_known_motifs(
        results,
        expected,
        motifs=motif_database,
        promoters=promoters,
        treatment_groups=treatment_groups,
        settings=settings,
        progress=reporter.progress(),
    )
    write_known_motifs(output, found.table)
    summaries = found.summaries()
    return Record(
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
        "or a dataset, as below.",
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
        "uniform_msa_attention. Can be repeated.",
        default=(),
        metavar="MODEL",
        recorded="",
    ),
    variants: Path | None = option(
        "Measured effects of mutations in promoters, to compare maps with: a table with the columns promoter, "
        "position (from 1, the first base), alternative (the new base), and one for each treatment or "
        "treatment and effect.",
        metavar="TABLE",
    ),
    treatment: tuple[str, ...] = options.TREATMENTS,
    samples: int = option(
        "Promoters, sequences, pairs or proteins to check, drawn by the seed.", default=300, min=20
    ),
    seed: int = options.SEED,
    device: Device = options.DEVICE,
    threads: int | None = options.THREADS,
) -> Record:
    """Check whether the attention of a model can be believed, without ground truth.

    Prints a verdict in plain words with its measures, and writes both as JSON. With MODEL and INPUT alone it
    tests whether predictions depend on the attended positions (deletion, insertion, in-silico mutagenesis), on
    whose map is used, and on training (random weights). --dataset adds the accuracy on held-out genes, --controls
    whether attention was needed at all, --variants whether maps predict what mutations do. Instead of promoters,
    language models take other sequences, translation and molecule models a dataset, MSA/pair models alignments or
    a dataset of contacts. docs/checks.md explains each check.
    """
    from bioattn.checks.engine import CheckSettings, Evidence, check_model, checkable
    from bioattn.errors import SettingsError
    from bioattn.io.files import check_apart, write_json
    from bioattn.models.family import load_runner
    from bioattn.system.device import choose_device, describe_device, set_threads
    from bioattn.system.signals import stop_on_signals

    if seeds is not None and controls is None:
        raise SettingsError(f"--seeds {seeds}: is for --controls, which says where retrained models are kept")
    if controls is not None:
        check_apart(output, [controls])
    set_threads(threads)
    chosen = choose_device(device)
    runner = load_runner(model, chosen)
    checkable(runner)
    others = [load_runner(path, chosen) for path in other_model]
    for other in others:
        checkable(other, "--other-model")
    reporter.say(f"running on {describe_device(chosen)}")
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
            ),
            settings=CheckSettings(samples=samples, seed=seed, other_seeds=1 if seeds is None else seeds),
            progress=reporter.progress(),
            stop=stop,
        )
    typer.echo(record.text(), nl=False)
    write_json(output, record.to_json())
    return Record(f"wrote {output}", device=str(chosen), verdict=str(record.verdict.code))


@command("explain designs")
def designs(
    reporter: Reporter,
    designs: Path = argument("DESIGNS", "FASTA of `bioattn generate promoters`, or of other designs."),
    model: Path = argument("MODEL", "Folder of a diffusion model.", recorded_file="model.safetensors"),
    dataset: Path = argument("DATASET", "Dataset the model was trained on."),
    output: Path = options.OUTPUT,
    treatment: tuple[str, ...] = option(
        "What designs of others are to respond to; can be repeated.", default=(), metavar="NAME"
    ),
    without: tuple[str, ...] = option(
        "What they are not to respond to; can be repeated.", "--not", default=(), metavar="NAME"
    ),
    motifs: Path | None = option("Motifs to count in designs and real promoters.", metavar="MEME"),
    oracle: Path | None = option(
        "A promoter model of other promoters than MODEL was trained on, as a second oracle.",
        metavar="FOLDER",
        recorded_file="model.safetensors",
    ),
    oracle_dataset: Path | None = option(
        "With --oracle: the dataset of its training, which tells whether it shares promoters with MODEL.",
        metavar="DATASET",
    ),
    samples: int = option("Designs drawn at each guidance of the curve; 0: no curve.", default=64, min=0),
    seed: int = options.SEED,
    device: Device = options.DEVICE,
    threads: int | None = options.THREADS,
) -> Record:
    """Check designed promoters: whether they do what was asked for, look real, and are new.

    Prints a verdict in plain words with its measures, and writes both as JSON. An oracle fitted on promoters that
    the model has not seen judges designs, real promoters, and designs by simple means: a Markov chain, the same
    with words pasted in, hill-climbing and a genetic algorithm. docs/models/diffusion.md explains each measure.
    """
    from bioattn.errors import SettingsError
    from bioattn.inference.runner import with_ability
    from bioattn.interpret.design_check import ModelOracle, check_designs, read_designs
    from bioattn.models.family import load_runner
    from bioattn.promoters.dataset import read_dataset
    from bioattn.system.device import choose_device, describe_device, set_threads

    if (oracle is None) != (oracle_dataset is None):
        raise SettingsError(
            "--oracle and --oracle-dataset: give both, the model and the dataset of its training"
        )
    set_threads(threads)
    chosen = choose_device(device)
    runner = with_ability(load_runner(model, chosen), "designs", "write designs")
    judge = None
    if oracle is not None and oracle_dataset is not None:
        deed = "judge designs: they predict no responses"
        second = with_ability(load_runner(oracle, chosen), "predictor", deed, "--oracle")
        judge = ModelOracle(second, oracle_dataset)
    read = read_designs(designs, read_dataset(dataset).length, treatment, without)
    reporter.say(f"running on {describe_device(chosen)}")
    report = check_designs(
        runner,
        read,
        dataset,
        samples=samples,
        motifs=motifs,
        oracle=judge,
        seed=seed,
        progress=reporter.progress(),
    )
    typer.echo(report.text())
    report.write(output)
    return Record(f"wrote {output}", device=str(chosen), verdict=report.code)
