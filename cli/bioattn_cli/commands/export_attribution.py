"""`bioattn export attribution`: attribution for TF-MoDISco and tangermeme."""

from pathlib import Path
from typing import Annotated

import typer

from bioattn_cli.choice_options import GenesOption, TreatmentsOption
from bioattn_cli.command import Record, command
from bioattn_cli.options import FolderOption, ForceOption
from bioattn_cli.reporting import Reporter


@command("export attribution")
def export(
    reporter: Reporter,
    attribution: Annotated[
        Path, typer.Argument(metavar="ATTRIBUTION", help="HDF5 of `explain attribution`.")
    ],
    output: FolderOption,
    treatment: TreatmentsOption = None,
    genes: GenesOption = None,
    force: ForceOption = False,
) -> Record:
    """Write attribution as the NumPy archives that TF-MoDISco-lite and tangermeme read.

    OUTPUT is a folder: sequences.npz (one-hot) and an archive of hypothetical contributions for each treatment,
    all as `arr_0` of shape (genes, 4, positions); treatments.tsv and genes.tsv name the archives and rows.

    bioattn export attribution explain.h5 -o arrays --treatment heat

    modisco motifs -s arrays/sequences.npz -a arrays/heat.npz -n 2000 -o modisco.h5
    """
    from bioattn.interpret.attribution.npz_export import export_attribution
    from bioattn.text import counted

    summary = export_attribution(
        attribution,
        output,
        treatments=treatment or (),
        genes=genes or (),
        force=force,
        progress=reporter.progress(),
    )
    scope = f"{counted(summary['treatments'], 'treatment')} of {counted(summary['genes'], 'gene')}"
    return Record(
        f"wrote {output}: sequences and {scope}", treatments=summary["treatments"], genes=summary["genes"]
    )
