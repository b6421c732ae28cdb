"""`bioattn simulate score`: attention against the motifs that were planted."""

from pathlib import Path
from typing import Annotated

import typer

from bioattn.interpret.choices import ScoredGenes, Upsampling
from bioattn_cli.choice_options import AveragedSitesOption
from bioattn_cli.command import Output, Record, command
from bioattn_cli.reporting import Reporter


@command("simulate score")
def score(
    reporter: Reporter,
    attention: Annotated[
        Path, typer.Argument(metavar="ATTENTION", help="Attention HDF5 of simulated promoters.")
    ],
    truth: Annotated[Path, typer.Argument(metavar="TRUTH", help="truth.tsv of the simulation.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Also write the scores as JSON here."),
        Output.FILE,
    ] = None,
    dataset: Annotated[
        Path | None,
        typer.Option(help="Dataset of these promoters: choose genes by its split, score predictions too."),
    ] = None,
    split: Annotated[
        ScoredGenes | None, typer.Option(help="Which genes of the dataset are scored [default: test].")
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
            help="From bins to bases: flat in a bin, smoothed by half a bin, or over all bases that a bin sees.",
        ),
    ] = Upsampling.GAUSSIAN,
) -> Record:
    """Score attention against planted motifs, for the right treatment and for others.

    Prints a table; without --dataset every promoter of the attention file is scored, training ones included.
    """
    from bioattn.errors import SettingsError
    from bioattn.interpret.planted.attention_score import score_attention_and_predictions
    from bioattn.interpret.planted.localisation import plain
    from bioattn.interpret.planted.localisation_table import localisation_text
    from bioattn.io.files import write_json

    if split is not None and dataset is None:
        raise SettingsError(f"--split {split.value}: the split stands in the dataset; give it with --dataset")
    report, predictions = score_attention_and_predictions(
        attention,
        truth,
        dataset=dataset,
        split=None if split is ScoredGenes.ALL else (split or ScoredGenes.TEST).value,
        sites=sites or ("*",),
        value_weighted=value_weighted,
        upsampling=upsampling,
        progress=reporter.progress(),
    )
    typer.echo(localisation_text(report, predictions), nl=False)
    if output is not None:
        write_json(
            output, report.to_json() | {"predictions": None if predictions is None else plain(predictions)}
        )
    return Record()
