"""`bioattn export multiqc`: results as sections of a MultiQC report."""

import time
from pathlib import Path
from typing import Annotated

import typer

from bioattn_cli.options import ForceOption, OutputOption, command
from bioattn_cli.reporting import Reporter


def multiqc(
    reporter: Reporter,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Promoters or their audit, datasets, models, checks, alignment statistics, predictions.",
        ),
    ],
    output: OutputOption,
    sample: Annotated[
        str | None, typer.Option(metavar="NAME", help="What MultiQC calls all of them [default: by file].")
    ] = None,
    force: ForceOption = False,
) -> None:
    """Write figures of results for MultiQC.

    The output is a folder of *_mqc.json, which `multiqc` finds by their names: promoters by what became of them,
    datasets, training curves, accuracy beside the best simple model, verdicts on attention, alignments, contacts
    and structures. Sections of any number of such folders are joined, one line per sample:

    bioattn export multiqc promoters.fa demo.dataset.h5 model check.json --sample demo -o demo_multiqc
    """
    from bioattn.errors import BioattnError
    from bioattn.io.files import check_apart, check_parent, write_run_record
    from bioattn.report.multiqc import write_multiqc
    from bioattn.text import counted

    began = time.monotonic()
    check_parent(output)
    check_apart(output, files)
    if output.exists() and not force:
        raise BioattnError(f"{output}: exists already; choose another --output, or --force to replace it")
    sections = write_multiqc(files, output, sample)
    inputs = {f"file_{number}": path for number, path in enumerate(files, start=1)}
    write_run_record(output, reporter.command, inputs, time.monotonic() - began, sections=sections)
    reporter.say(f"wrote {output}: {counted(len(sections), 'section')} for MultiQC ({', '.join(sections)})")


def register(app: typer.Typer) -> None:
    """Add the command to `bioattn export`."""
    command(app, "multiqc")(multiqc)
