"""`bioattn export multiqc`: results as sections of a MultiQC report."""

from pathlib import Path
from typing import Annotated

import typer

from bioattn_cli.command import Input, Record, command
from bioattn_cli.options import FolderOption, ForceOption
from bioattn_cli.reporting import Reporter


@command("export multiqc")
def multiqc(
    reporter: Reporter,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Promoters or their audit, datasets, models, checks, alignment statistics, predictions.",
        ),
        Input(name="file_{}"),
    ],
    output: FolderOption,
    sample: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Sample name of all results in MultiQC [default: by file]."),
    ] = None,
    force: ForceOption = False,
) -> Record:
    """Write results as sections for MultiQC.

    The output is a folder of *_mqc.json, which `multiqc` finds by their names: promoters kept, trimmed and
    dropped, datasets, training curves, accuracy beside the best simple model, verdicts on attention, alignments,
    contacts and structures. Sections of any number of such folders are joined, one line per sample:

    bioattn export multiqc promoters.fa demo.dataset.h5 model check.json --sample demo -o demo_multiqc
    """
    from bioattn.io.folders import already_there
    from bioattn.report.multiqc import write_multiqc
    from bioattn.text import counted

    if output.exists() and not force:
        raise already_there(output)
    sections = write_multiqc(files, output, sample)
    return Record(
        f"wrote {output}: {counted(len(sections), 'section')} for MultiQC ({', '.join(sections)})",
        sections=sections,
    )
