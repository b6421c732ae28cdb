"""`bioattn export structure`: attention painted on a structure."""

from pathlib import Path
from typing import Annotated

import typer

from bioattn.choices import parse_heads
from bioattn_cli.choice_options import (
    AveragedHeadsOption,
    ChainOption,
    SampleOption,
    StructureAlignmentOption,
)
from bioattn_cli.command import Record, command
from bioattn_cli.options import OutputOption
from bioattn_cli.reporting import Reporter


@command("export structure")
def structure(
    reporter: Reporter,
    attention: Annotated[
        Path, typer.Argument(metavar="ATTENTION", help="Attention HDF5 of `run evoformer --attention`.")
    ],
    structure: Annotated[
        Path, typer.Argument(metavar="STRUCTURE", help="PDB or mmCIF file, plain or compressed.")
    ],
    output: OutputOption,
    sample: SampleOption = None,
    chain: ChainOption = None,
    alignment: StructureAlignmentOption = None,
    sites: Annotated[
        list[str] | None,
        typer.Option(
            "--sites",
            metavar="PATTERN",
            help="Attention sites, averaged; can be repeated [default: row attention of all layers].",
        ),
    ] = None,
    heads: AveragedHeadsOption = None,
    query_residue: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="Show the attention of this residue (number in the structure) [default: received attention].",
        ),
    ] = None,
) -> Record:
    """Colour a structure by attention, in place of B-factors.

    0 is the least attended residue of the chain, 100 the most attended; the command prints both in multiples of
    uniform attention. Atoms without attention (other chains, ligands, residues without a column in the alignment)
    get -1. All other bytes are kept. In PyMOL: spectrum b, minimum=0, maximum=100; in
    ChimeraX: color byattribute bfactor range 0,100.
    """
    from bioattn.interpret.structure_painting import paint_structure

    painted = paint_structure(
        attention,
        structure,
        output,
        sample=sample,
        chain=chain,
        alignment=alignment,
        sites=sites,
        heads=parse_heads(heads),
        query_residue=query_residue,
    )
    what = "attention received" if query_residue is None else f"attention of residue {query_residue}"
    return Record(
        f"{painted.sample} on chain {painted.chain}: {what} from {painted.minimum:.3g} (0) to "
        f"{painted.maximum:.3g} × uniform (100, {painted.most}); {painted.residues} of {painted.of_residues} "
        "residues have a column",
        f"wrote {output}",
        minimum=round(painted.minimum, 6),
        maximum=round(painted.maximum, 6),
    )
