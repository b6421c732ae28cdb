"""Options that choose in files of attention, attribution and structures, and mean the same in every command."""

from pathlib import Path
from typing import Annotated

import typer

from bioattn.interpret.choices import Upsampling

GenesOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ID|FILE", help="A gene, or a file with one id per line; can be repeated [default: all]."
    ),
]
TreatmentsOption = Annotated[
    list[str] | None,
    typer.Option("--treatment", metavar="NAME", help="A treatment; can be repeated [default: all]."),
]
AgainstOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Subtract the map of this treatment, or the `mean` over treatments.",
    ),
]
SitesOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATTERN",
        help="Attention sites, for example 'promoter.cross.*'; can be repeated [default: all].",
    ),
]
AveragedSitesOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATTERN",
        help="Attention sites to average, for example 'promoter.cross.0'; can be repeated [default: all].",
    ),
]
HeadsOption = Annotated[
    str | None,
    typer.Option(metavar="LIST", help="Heads, for example 0,2 (counted from 0) [default: all]."),
]
AveragedHeadsOption = Annotated[
    str | None,
    typer.Option(metavar="LIST", help="Heads to average, for example 0,2 (counted from 0) [default: all]."),
]
SampleOption = Annotated[
    str | None, typer.Option(metavar="ID", help="Which alignment [default: the only one].")
]
ChainOption = Annotated[
    str | None, typer.Option(metavar="ID", help="Chain of the structure [default: the only one].")
]
StructureAlignmentOption = Annotated[
    Path | None,
    typer.Option(
        metavar="MSA",
        help="The alignment, to find the structure's columns where the target is another protein.",
    ),
]
UpsampleOption = Annotated[
    Upsampling,
    typer.Option(
        help="From bins to bases: flat within a bin, smoothed by half a bin, or over all bases that a bin sees."
    ),
]
