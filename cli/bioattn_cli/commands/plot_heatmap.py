"""`bioattn plot heatmap`: treatments × positions."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bioattn.choices import parse_heads
from bioattn_cli.choice_options import (
    AgainstOption,
    AveragedHeadsOption,
    AveragedSitesOption,
    GenesOption,
    TreatmentsOption,
)
from bioattn_cli.plot_options import WidthOption, figure_command
from bioattn_cli.reporting import Reporter

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@figure_command("plot heatmap")
def heatmap(
    reporter: Reporter,
    attention: Annotated[Path, typer.Argument(metavar="ATTENTION", help="Attention HDF5 over promoters.")],
    genes: GenesOption = None,
    treatment: TreatmentsOption = None,
    against: AgainstOption = None,
    sites: AveragedSitesOption = None,
    heads: AveragedHeadsOption = None,
    cluster: Annotated[
        bool, typer.Option(help="Order treatments by a tree of their maps, or as in the file.")
    ] = True,
    upstream: Annotated[
        int | None,
        typer.Option(min=0, help="Bases of the window before position 0 [default: from the file]."),
    ] = None,
    width: WidthOption = 180,
) -> "tuple[Figure, dict[str, Any]]":
    """Draw attention of all treatments by position as a heatmap.

    Draws one gene, or the mean over genes, which shows how attention depends on position alone. Treatments with
    similar maps are neighbours; the run record beside the figure holds their order.
    """
    from bioattn.figures.treatment_heatmap import cluster_treatments, draw_treatment_heatmap
    from bioattn.figures.treatment_maps import read_treatment_maps, window_zero
    from bioattn.promoters.gene_ids import choose_genes
    from bioattn.store import open_attention
    from bioattn.text import counted

    with open_attention(attention) as file:
        maps = read_treatment_maps(
            file,
            genes=choose_genes(genes, file.samples.index, attention) if genes else None,
            treatments=treatment,
            against=against,
            sites=sites,
            heads=parse_heads(heads),
            progress=reporter.progress(),
        )
    zero = window_zero(maps.window_length, maps.downstream, upstream)
    title = maps.genes[0] if len(maps.genes) == 1 else f"mean over {counted(len(maps.genes), 'gene')}"
    shown = cluster_treatments(maps, cluster=cluster, title=title, zero=zero)
    return draw_treatment_heatmap(shown, width), {"treatments": shown.treatments}
