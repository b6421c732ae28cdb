"""`bioattn plot contacts`: predicted contacts against the truth."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bioattn_cli.choice_options import ChainOption, SampleOption, StructureAlignmentOption
from bioattn_cli.plot_options import WidthOption, figure_command
from bioattn_cli.reporting import Reporter

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@figure_command("plot contacts")
def contacts(
    reporter: Reporter,
    prediction: Annotated[
        Path,
        typer.Argument(
            metavar="PREDICTION",
            help="Folder of `run evoformer`, distogram.h5, contacts.rr or .tsv, or a file of `export contacts`.",
        ),
    ],
    truth: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="PDB or mmCIF file, contact dataset, or a table with column_i and column_j (from 1).",
        ),
    ] = None,
    chain: ChainOption = None,
    alignment: StructureAlignmentOption = None,
    sample: SampleOption = None,
    width: WidthOption = 85,
) -> "tuple[Figure, dict[str, Any]]":
    """Draw a contact map: predicted contacts above the diagonal, true ones below.

    The L best pairs at least six columns apart are marked as right or wrong (L: columns with a residue in the
    structure).
    """
    from bioattn.errors import SettingsError
    from bioattn.figures.contact_map import compare_contacts, draw_contact_map
    from bioattn.figures.contact_prediction import read_contact_prediction, read_contact_truth

    if truth is None and (chain is not None or alignment is not None):
        raise SettingsError("--chain and --alignment say how to read --truth; give that too")
    found = read_contact_prediction(prediction, sample)
    known = (
        None
        if truth is None
        else read_contact_truth(truth, found, chain=chain, alignment=alignment, sample=sample)
    )
    record: dict[str, Any] = {}
    if known is not None:
        compared = compare_contacts(found, known)
        judged = compared.length > 0 and len(compared.right) + len(compared.wrong) > 0
        record = {
            "L": compared.length,
            "P@L": round(compared.precision_l, 6) if judged else None,
            "P@L/5": round(compared.precision_l5, 6) if judged else None,
        }
        reporter.say(
            f"of the {len(compared.right) + len(compared.wrong)} best pairs {len(compared.right)} are contacts"
        )
    return draw_contact_map(found, known, width), record
