"""`bioattn plot attention`: where a model looks in one promoter, by treatment."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bioattn.choices import parse_heads
from bioattn.interpret.choices import Upsampling
from bioattn.promoters.choices import Anchor
from bioattn_cli.choice_options import (
    AgainstOption,
    AveragedHeadsOption,
    AveragedSitesOption,
    UpsampleOption,
)
from bioattn_cli.plot_options import WidthOption, figure_command
from bioattn_cli.reporting import Reporter

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@figure_command("plot attention")
def attention(
    reporter: Reporter,
    attention: Annotated[Path, typer.Argument(metavar="ATTENTION", help="Attention HDF5 over promoters.")],
    gene: Annotated[str, typer.Option(metavar="ID", help="The gene whose promoter is drawn.")],
    treatment: Annotated[
        list[str] | None,
        typer.Option(
            "--treatment",
            metavar="NAME",
            help="A treatment to draw; can be repeated [default: all up to 6, else those with the lowest "
            "and highest predictions].",
        ),
    ] = None,
    against: AgainstOption = None,
    sites: AveragedSitesOption = None,
    heads: AveragedHeadsOption = None,
    upsample: UpsampleOption = Upsampling.GAUSSIAN,
    region: Annotated[
        str | None,
        typer.Option(
            metavar="FROM:TO", help="Zoom, in positions of the axis; bases are drawn where there is room."
        ),
    ] = None,
    annotation: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="GFF3, GTF or BED: draw genes, count from gene starts."),
    ] = None,
    id_attribute: Annotated[
        str | None, typer.Option(metavar="NAME", help="Attribute of the annotation that holds gene ids.")
    ] = None,
    anchor: Annotated[
        Anchor,
        typer.Option(help="With --annotation: position 0 is the transcription start or the start codon."),
    ] = Anchor.TSS,
    upstream: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Without --annotation: bases of the window before position 0 [default: from the file].",
        ),
    ] = None,
    motifs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Motifs to look for (MEME, JASPAR; needs --promoters), or a table of sites (gene_id, motif, "
            "start, end, strand, treatment).",
        ),
    ] = None,
    promoters: Annotated[
        Path | None,
        typer.Option(metavar="FASTA", help="Promoter FASTA from which the attention was exported."),
    ] = None,
    attribution: Annotated[
        Path | None,
        typer.Option(
            metavar="HDF5", help="Also draw contributions of bases (`bioattn explain attribution`)."
        ),
    ] = None,
    width: WidthOption = 180,
) -> "tuple[Figure, dict[str, Any]]":
    """Draw attention by treatment along one promoter.

    Each row is one treatment: attention per base as a multiple of uniform attention, the mean over heads. Genes
    and motif sites of the window are drawn above.

    bioattn plot attention attention.h5 --gene YBR072W -o figure.pdf --annotation genes.gff3
    --motifs JASPAR.meme --promoters promoters.fa --treatment heat --treatment H2O2
    """
    from bioattn.figures.promoter_attention import draw_promoter_attention
    from bioattn.figures.promoter_picture import PromoterRequest, read_promoter_picture

    picture = read_promoter_picture(
        attention,
        PromoterRequest(
            gene=gene,
            treatments=treatment,
            against=against,
            sites=sites,
            heads=parse_heads(heads),
            upsampling=upsample,
            region=region,
            annotation=annotation,
            id_attribute=id_attribute,
            anchor=anchor,
            upstream=upstream,
            motifs=motifs,
            promoters=promoters,
            attribution=attribution,
        ),
    )
    figure, hidden = draw_promoter_attention(picture, width)
    if hidden:
        reporter.warn(f"{hidden} less certain motif sites have no room for their names; they are shaded only")
    return figure, {"treatments": picture.treatments, "motif_sites": len(picture.sites or [])}
