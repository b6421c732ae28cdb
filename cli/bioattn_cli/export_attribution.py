"""`bioattn export attribution`: attribution for TF-MoDISco and tangermeme."""

import time
from pathlib import Path
from typing import Annotated

import typer

from bioattn_cli.choice_options import GenesOption, TreatmentsOption
from bioattn_cli.options import ForceOption, OutputOption, command
from bioattn_cli.reporting import Reporter


def attribution(
    reporter: Reporter,
    attribution_file: Annotated[
        Path, typer.Argument(metavar="ATTRIBUTION", help="HDF5 of `explain attribution`.")
    ],
    output: OutputOption,
    treatment: TreatmentsOption = None,
    genes: GenesOption = None,
    force: ForceOption = False,
) -> None:
    """Write attribution as the NumPy archives that TF-MoDISco-lite and tangermeme read.

    OUTPUT is a folder: sequences.npz (one-hot) and an archive of hypothetical contributions for each treatment,
    all as `arr_0` of shape (genes, 4, positions); treatments.tsv and genes.tsv say which is which.

    bioattn export attribution explain.h5 -o arrays --treatment heat

    modisco motifs -s arrays/sequences.npz -a arrays/heat.npz -n 2000 -o modisco.h5
    """
    from bioattn.interpret.attribution.npz_export import export_attribution
    from bioattn.io.files import write_run_record
    from bioattn.text import counted

    began = time.monotonic()
    summary = export_attribution(
        attribution_file,
        output,
        treatments=treatment or (),
        genes=genes or (),
        force=force,
        progress=reporter.progress(),
    )
    write_run_record(
        output, reporter.command, {"attribution": attribution_file}, time.monotonic() - began, **summary
    )
    reporter.say(
        f"wrote {output}: sequences and {counted(summary['treatments'], 'treatment')} of "
        f"{counted(summary['genes'], 'gene')}"
    )


def register(app: typer.Typer) -> None:
    """Add the command to `export`."""
    command(app)(attribution)
