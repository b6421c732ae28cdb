"""`bioattn report`: one self-contained HTML page of what a model found."""

from pathlib import Path
from typing import Annotated

import typer

from bioattn_cli.choice_options import TreatmentsOption
from bioattn_cli.command import Input, Record, command
from bioattn_cli.options import OutputOption
from bioattn_cli.reporting import Reporter


@command("report")
def report(
    reporter: Reporter,
    inputs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN", help="Results in any order; the content decides their kind."),
        Input(name=""),
    ],
    output: OutputOption,
    annotation: Annotated[
        Path | None,
        typer.Option(
            metavar="GFF", help="GFF3, GTF or BED: names of genes, and the genes a window reaches into."
        ),
        Input(name=""),
    ] = None,
    motifs: Annotated[
        Path | None,
        typer.Option(metavar="MEME", help="Motifs (MEME, JASPAR) whose hits are marked."),
        Input(name=""),
    ] = None,
    genes: Annotated[
        list[str] | None,
        typer.Option(
            "--genes",
            metavar="ID|FILE",
            help="Promoters to show in full before others, or a file with one id per line; can be repeated.",
        ),
    ] = None,
    treatment: TreatmentsOption = None,
    title: Annotated[str | None, typer.Option(help="Title of the page [default: from the inputs].")] = None,
) -> Record:
    """Make one HTML page of results, to search and to send.

    RUN… are any of: a promoter model, its dataset, attention.h5, explain.h5 of `explain attribution`,
    check.json of `explain check`, a folder of `export motifs`, promoters.fa, predictions; folders of `run
    evoformer`, their attention.h5, the alignment that was run, and a structure or contact dataset to compare
    with:

    bioattn report model demo.dataset.h5 attention.h5 check.json promoters.fa -o report.html

    bioattn report family family.attention.h5 family.a3m family.pdb -o family.html

    The page is self-contained. It summarises all promoters and shows as many as fit in full.
    """
    from bioattn.report.collection import collect_report
    from bioattn.report.inputs import recognise_inputs
    from bioattn.report.page import write_page
    from bioattn.text import human_bytes

    found = recognise_inputs(inputs, annotation=annotation, motifs=motifs)
    collected = collect_report(
        found,
        title=title,
        genes=genes or [],
        treatments=treatment or [],
        progress=reporter.progress(),
    )
    write_page(output, collected)
    if collected.browser is not None:
        reporter.say(collected.browser.chosen_by)
    extra = [path for path in (annotation, motifs) if path is not None]
    return Record(
        f"wrote {output} ({human_bytes(output.stat().st_size)})",
        inputs={f"input {number}": path for number, path in enumerate([*inputs, *extra], start=1)},
    )
