"""`bioattn plot distogram`: predicted distances and how sure they are."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bioattn_cli.choice_options import ChainOption, StructureAlignmentOption
from bioattn_cli.plot_options import WidthOption, figure_command
from bioattn_cli.reporting import Reporter

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@figure_command("plot distogram")
def distogram(
    reporter: Reporter,
    prediction: Annotated[
        Path, typer.Argument(metavar="PREDICTION", help="Folder of `run evoformer`, or its distogram.h5.")
    ],
    truth: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="PDB or mmCIF file, or contact dataset: true distances below the diagonal."
        ),
    ] = None,
    chain: ChainOption = None,
    alignment: StructureAlignmentOption = None,
    width: WidthOption = 180,
) -> "Figure":
    """Draw the expected distances of a model and the entropy of each."""
    from bioattn.errors import SettingsError
    from bioattn.figures.contact_prediction import read_contact_prediction, read_contact_truth
    from bioattn.figures.distogram import draw_distogram
    from bioattn.structures.distogram_file import read_distances

    if truth is None and (chain is not None or alignment is not None):
        raise SettingsError("--chain and --alignment say how to read --truth; give that too")
    distances = read_distances(prediction, with_entropy=True)
    if truth is None:
        return draw_distogram(distances, width)
    found = read_contact_prediction(prediction)
    known = read_contact_truth(truth, found, chain=chain, alignment=alignment)
    if known.cb is None:
        raise SettingsError(f"--truth {truth}: a table of contacts has no distances; give a structure")
    return draw_distogram(distances, width, known.cb)
