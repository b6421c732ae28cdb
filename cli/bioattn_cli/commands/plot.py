"""`bioattn plot`: a figure of any result, as PNG, SVG or PDF."""

import warnings
from enum import StrEnum
from pathlib import Path
from typing import Any

from bioattn.interpret.choices import HEADS, Upsampling
from bioattn.io.settings import Writes, argument, option, output_option
from bioattn.models.running import RunReport
from bioattn_cli.command import command
from bioattn_cli.reporting import Reporter


class Look(StrEnum):
    """How a picture is drawn, where not as usual."""

    WEIGHTS = "weights"
    UNCLUSTERED = "unclustered"
    CORRECTED = "corrected"
    ATTENTION = "attention"
    NEAREST = "nearest"
    RECEPTIVE_FIELD = "receptive-field"


_LOOKS: dict[Look, dict[str, Any]] = {
    Look.WEIGHTS: {"weights": True},
    Look.UNCLUSTERED: {"cluster": False},
    Look.CORRECTED: {"corrected": True},
    Look.ATTENTION: {"by_attention": True},
    Look.NEAREST: {"upsampling": Upsampling.NEAREST},
    Look.RECEPTIVE_FIELD: {"upsampling": Upsampling.RECEPTIVE_FIELD},
}
"""The same as options of `bioattn.plot`."""


@command("plot")
def plot(
    reporter: Reporter,
    files: tuple[Path, ...] = argument(
        "FILE",
        "The result to draw, then files to draw with it: promoter FASTA, motifs (MEME, JASPAR, or a table of "
        "sites), attribution; true contacts (structure, contact dataset or table).",
        recorded="file {}",
    ),
    output: Path = output_option("Figure to write: PNG, SVG or PDF by its name.", Writes.FILE),
    kind: str | None = option(
        "attention, heatmap, heads, arcs, alignment, molecule, response, contacts, distogram, pae, plddt, logos, "
        "training, check or designs [default: by the kind of FILE].",
        metavar="NAME",
    ),
    sample: tuple[str, ...] = option(
        "Gene, alignment, sequence, pair or molecule; of genes several, or a file with one id per line "
        "[default: all genes, or the only one].",
        "--gene",
        "--sample",
        default=(),
        metavar="ID|FILE",
        group="Inputs",
    ),
    treatments: tuple[str, ...] = option(
        "A treatment; can be repeated [default: all; of one gene up to 6, else those with the lowest and highest "
        "predictions].",
        "--treatment",
        default=(),
        metavar="NAME",
        group="Inputs",
    ),
    against: str | None = option(
        "Subtract the map of this treatment, or the `mean` over treatments.", metavar="NAME", group="Inputs"
    ),
    sites: tuple[str, ...] = option(
        "Attention sites, for example 'evoformer.0*.msa_row'; can be repeated [default: those of the picture].",
        default=(),
        metavar="PATTERN",
        group="Inputs",
    ),
    heads: tuple[int, ...] | None = HEADS,
    show: tuple[str, ...] = option(
        "A series, motif, column of history.csv, or the task of a molecule; can be repeated.",
        default=(),
        metavar="NAME",
        group="Inputs",
    ),
    top: int | None = option("Pairs of each panel of arcs [default: 50], or first motifs.", min=1),
    chain: str | None = option("Chain of a structure [default: the only one].", metavar="ID", group="Inputs"),
    annotation: Path | None = option("GFF3, GTF or BED: draw genes, count from gene starts.", metavar="FILE"),
    id_attribute: str | None = option("Attribute of the annotation that holds gene ids.", metavar="NAME"),
    zero: str | None = option(
        "Position 0: tss or cds with --annotation, or the number of bases of the window before it [default: tss, "
        "or from the file].",
        metavar="tss|cds|N",
    ),
    region: str | None = option(
        "Zoom into a promoter, in positions of the axis; bases are drawn where there is room.",
        metavar="FROM:TO",
    ),
    look: tuple[Look, ...] = option(
        "promoters: weights (where there are contributions); heatmap: unclustered; heads: corrected; molecule: "
        "attention; a gene: nearest (bins as they are), receptive-field; can be repeated.",
        "--as",
        default=(),
        metavar="LOOK",
    ),
    width: float | None = option(
        "Width in millimetres: 85 is one column of most journals, 180 are two [default: 85 to 180].",
        min=40,
        max=1000,
        group="Output",
    ),
    no_verdict: bool = option(
        "No word in the corner on maps that the check at the end of training did not believe.",
        default=False,
        group="Output",
    ),
    dpi: int = option("Dots per inch of PNG.", default=300, min=50, max=1200, group="Output"),
) -> RunReport:
    """Draw a result: its kind chooses the picture, --kind another one.

    Attention over promoters: contributions (or attention) by treatment along one gene (--gene), or the heatmap
    over genes, or heads.
    Over alignments and sequences: heads, or arcs; over pairs: alignment; over molecules: molecule. A prediction
    from an alignment: contacts, distogram, pae or plddt. Model folders: training.

    bioattn plot attention.h5 promoters.fa JASPAR.meme --gene YBR072W -o figure.pdf --annotation genes.gff3
    --treatment heat --treatment H2O2

    bioattn plot family structure.pdb -o contacts.png
    """
    from bioattn.figures import require_figure_name, write_figure
    from bioattn.figures.plot import draw

    require_figure_name(output)
    looks = {name: value for each in look for name, value in _LOOKS[each].items()}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        figure, figures = draw(
            files,
            kind,
            width=width,
            verdict=not no_verdict,
            progress=reporter.progress,
            sample=sample,
            treatments=treatments,
            against=against,
            sites=sites,
            heads=heads,
            show=show,
            top=top,
            chain=chain,
            annotation=annotation,
            id_attribute=id_attribute,
            zero=zero,
            region=region,
            **looks,
        )
        write_figure(figure, output, dpi)
    if any("missing from font" in str(warning.message) for warning in caught):
        reporter.warn(
            "some letters of names are not in the figures' font (DejaVu Sans); boxes stand for them"
        )
    width, height = figure.get_size_inches() * 25.4
    return RunReport(f"wrote {output} ({width:.0f} × {height:.0f} mm)", **figures)
