"""`bioattn plot …`: figures of results, as PNG, SVG or PDF."""

import functools
import inspect
import warnings
from collections.abc import Callable
from dataclasses import MISSING
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bioattn.choices import parse_heads
from bioattn.interpret.choices import Upsampling
from bioattn.models.settings import Writes, argument, option, output_option
from bioattn.promoters.choices import Anchor
from bioattn_cli import options
from bioattn_cli.command import Record, command
from bioattn_cli.reporting import Reporter

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bioattn.figures.treatment_maps import TreatmentMaps
    from bioattn.store import AttentionFile

_OUTPUT = output_option("Figure to write: PNG, SVG or PDF by its name.", Writes.FILE)
_DPI = option("Dots per inch of PNG.", default=300, min=50, max=1200, group="Output")
Draw = Callable[..., "Figure | tuple[Figure, dict[str, Any]]"]
"""Makes a figure, alone or with what the run record says of it."""


def figure_command(words: str) -> Callable[[Draw], Draw]:
    """Register a function that makes a figure as the command `words`, which saves it; adds --output and --dpi."""

    def register(function: Draw) -> Draw:
        @functools.wraps(function)
        def run(reporter: Reporter, *, output: Path, dpi: int, **arguments: Any) -> Record:
            from bioattn.figures import require_figure_name, write_figure

            require_figure_name(output)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                made = function(reporter, **arguments)
                figure, figures = made if isinstance(made, tuple) else (made, {})
                write_figure(figure, output, dpi)
            if any("missing from font" in str(warning.message) for warning in caught):
                reporter.warn(
                    "some letters of names are not in the figures' font (DejaVu Sans); boxes stand for them"
                )
            width, height = figure.get_size_inches() * 25.4
            return Record(f"wrote {output} ({width:.0f} × {height:.0f} mm)", **figures)

        reporter, results, *chosen = inspect.signature(function).parameters.values()
        output = inspect.Parameter("output", results.kind, annotation=Path, default=_OUTPUT)
        dpi = inspect.Parameter("dpi", results.kind, annotation=int, default=_DPI)
        run.__signature__ = inspect.Signature([reporter, results, output, *chosen, dpi])  # type: ignore[attr-defined]
        command(words)(run)
        return function

    return register


@figure_command("plot attention")
def attention(
    reporter: Reporter,
    attention: Path = argument("ATTENTION", "Attention HDF5 over promoters."),
    gene: str = option("The gene whose promoter is drawn.", default=MISSING, metavar="ID"),
    treatment: tuple[str, ...] = option(
        "A treatment to draw; can be repeated [default: all up to 6, else those with the lowest "
        "and highest predictions].",
        default=(),
        metavar="NAME",
    ),
    against: str | None = options.AGAINST,
    sites: tuple[str, ...] = options.AVERAGED_SITES,
    heads: str | None = options.AVERAGED_HEADS,
    upsample: Upsampling = options.upsample(Upsampling.GAUSSIAN),
    region: str | None = option(
        "Zoom, in positions of the axis; bases are drawn where there is room.", metavar="FROM:TO"
    ),
    annotation: Path | None = option("GFF3, GTF or BED: draw genes, count from gene starts.", metavar="FILE"),
    id_attribute: str | None = option("Attribute of the annotation that holds gene ids.", metavar="NAME"),
    anchor: Anchor = option(
        "With --annotation: position 0 is the transcription start or the start codon.", default=Anchor.TSS
    ),
    upstream: int | None = option(
        "Without --annotation: bases of the window before position 0 [default: from the file].", min=0
    ),
    motifs: Path | None = option(
        "Motifs to look for (MEME, JASPAR; needs --promoters), or a table of sites (gene_id, motif, "
        "start, end, strand, treatment).",
        metavar="FILE",
    ),
    promoters: Path | None = option("Promoter FASTA from which the attention was exported.", metavar="FASTA"),
    attribution: Path | None = option(
        "Draw contributions of bases from here (`bioattn explain attribution`) [default: from ATTENTION].",
        metavar="HDF5",
    ),
    width: float = options.width(180),
) -> "tuple[Figure, dict[str, Any]]":
    """Draw attention by treatment along one promoter.

    Each row is one treatment: attention per base as a multiple of uniform attention, the mean over heads, and
    below it, where the file has contributions, what each base adds to the response. Genes and motif sites of the
    window are drawn above.

    bioattn plot attention attention.h5 --gene YBR072W -o figure.pdf --annotation genes.gff3
    --motifs JASPAR.meme --promoters promoters.fa --treatment heat --treatment H2O2
    """
    from bioattn.figures.promoter_attention import draw_promoter_attention
    from bioattn.figures.promoter_picture import PromoterRequest, read_promoter_picture

    picture = read_promoter_picture(
        attention,
        PromoterRequest(
            gene=gene,
            treatments=treatment or None,
            against=against,
            sites=sites or None,
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


@figure_command("plot heatmap")
def heatmap(
    reporter: Reporter,
    attention: Path = argument("ATTENTION", "Attention HDF5 over promoters."),
    genes: tuple[str, ...] = options.GENES,
    treatment: tuple[str, ...] = options.TREATMENTS,
    against: str | None = options.AGAINST,
    sites: tuple[str, ...] = options.AVERAGED_SITES,
    heads: str | None = options.AVERAGED_HEADS,
    contributions: bool = options.CONTRIBUTIONS,
    cluster: bool = option("Order treatments by a tree of their maps, or as in the file.", default=True),
    upstream: int | None = option("Bases of the window before position 0 [default: from the file].", min=0),
    width: float = options.width(180),
) -> "tuple[Figure, dict[str, Any]]":
    """Draw attention of all treatments by position as a heatmap.

    Draws one gene, or the mean over genes, which shows how attention depends on position alone. Treatments with
    similar maps are neighbours; the run record beside the figure holds their order.
    """
    from bioattn.figures.treatment_heatmap import cluster_treatments, draw_treatment_heatmap
    from bioattn.store import open_attention

    with open_attention(attention) as file:
        choices = {"treatments": treatment or None, "sites": sites or None, "heads": parse_heads(heads)}
        maps, titled = _treatment_maps(
            file, genes, upstream, reporter, **choices, against=against, contributions=contributions
        )
    shown = cluster_treatments(maps, cluster=cluster, **titled)
    return draw_treatment_heatmap(shown, width), {"treatments": shown.treatments}


def _treatment_maps(
    file: "AttentionFile", genes: tuple[str, ...], upstream: int | None, reporter: Reporter, **choices: Any
) -> "tuple[TreatmentMaps, dict[str, Any]]":
    """Maps of genes of a file by treatment, and the title and position 0 of their figure."""
    from bioattn.figures.treatment_maps import read_treatment_maps, window_zero
    from bioattn.promoters.gene_ids import choose_genes
    from bioattn.text import counted

    chosen = choose_genes(genes, file.samples.index, file.path) if genes else None
    maps = read_treatment_maps(file, genes=chosen, progress=reporter.progress(), **choices)
    title = maps.genes[0] if len(maps.genes) == 1 else f"mean over {counted(len(maps.genes), 'gene')}"
    return maps, {"title": title, "zero": window_zero(maps.window_length, maps.downstream, upstream)}


@figure_command("plot heads")
def heads(
    reporter: Reporter,
    attention: Path = argument("ATTENTION", "Attention HDF5."),
    genes: tuple[str, ...] = option(
        "Promoters: genes to average, or a file with one id per line; can be repeated [default: all].",
        default=(),
        metavar="ID|FILE",
    ),
    treatment: tuple[str, ...] = option(
        "Promoters: a treatment to draw; can be repeated [default: all].", default=(), metavar="NAME"
    ),
    sample: str | None = option("Alignments and sequences: which one [default: the only one].", metavar="ID"),
    sites: tuple[str, ...] = option(
        "Attention sites; can be repeated [default: those with positions; for alignments '*.msa_row'].",
        default=(),
        metavar="PATTERN",
    ),
    heads: str | None = options.HEADS,
    corrected: bool = option(
        "Alignments: symmetrise the maps and remove what a residue shares with all others (APC).",
        default=False,
    ),
    upstream: int | None = option(
        "Promoters: bases of the window before position 0 [default: from the file].", min=0
    ),
    width: float = options.width(180),
) -> "Figure":
    """Draw the attention of every head: of a promoter by treatment, of an alignment or sequence layer by layer.

    The number in brackets is the mean effective number of bins or keys of a row (2 to the power of its entropy): 1
    for a head that attends to one position, all of them for a uniform head. Small panels of many heads have none.
    """
    from bioattn.errors import BioattnError
    from bioattn.figures.head_grid import alignment_head_grid, draw_head_grid, promoter_head_grid
    from bioattn.store import open_attention

    kept = parse_heads(heads)
    with open_attention(attention) as file:
        if not file.over_promoters:
            if genes or treatment or upstream is not None:
                raise BioattnError(
                    f"{attention}: holds {file.inputs}; choose with --sample, --sites and --heads"
                )
            grid = alignment_head_grid(file, sample, sites=sites or None, heads=kept, corrected=corrected)
        else:
            if sample is not None or corrected:
                raise BioattnError(
                    f"{attention}: holds promoters, which --genes chooses; "
                    "--sample and --corrected are for alignments"
                )
            choices = {"treatments": treatment or None, "sites": sites or None, "heads": kept}
            maps, titled = _treatment_maps(file, genes, upstream, reporter, **choices)
            grid = promoter_head_grid(maps, **titled)
    return draw_head_grid(grid, width)


@figure_command("plot arcs")
def arcs(
    reporter: Reporter,
    attention: Path = argument("ATTENTION", "Attention HDF5 over alignments or sequences."),
    sample: str | None = option("Alignments and sequences: which one [default: the only one].", metavar="ID"),
    sites: tuple[str, ...] = option(
        "Attention sites, a panel each; can be repeated [default: row attention, or all].",
        default=(),
        metavar="PATTERN",
    ),
    heads: str | None = option(
        "Heads, for example 0,2 (counted from 0), a panel each [default: their mean].", metavar="LIST"
    ),
    top_k: int = option("Pairs drawn in each panel.", default=50, min=1),
    min_separation: int = option("Least distance of a pair along the sequence.", default=6, min=1),
    width: float = options.width(180),
) -> "Figure":
    """Draw arcs over the sequence between the residues or tokens that attend to each other most.

    An arc stands for both directions, averaged, and is wider with more attention; all panels have one scale.

    bioattn plot arcs family.attention.h5 --sites 'evoformer.0*.msa_row' --heads 0,1 -o arcs.png
    """
    from bioattn.figures.arcs import draw_arcs, read_arcs
    from bioattn.store import open_attention

    with open_attention(attention) as file:
        kept = parse_heads(heads)
        picture = read_arcs(
            file, sample, sites=sites or None, heads=kept, top_k=top_k, min_separation=min_separation
        )
    return draw_arcs(picture, width)


@figure_command("plot alignment")
def alignment(
    reporter: Reporter,
    attention: Path = argument("ATTENTION", "Attention HDF5 over pairs, or any with queries."),
    sample: str | None = option("Which pair [default: the first].", metavar="ID"),
    sites: tuple[str, ...] = option(
        "Attention sites; can be repeated [default: those where a decoder looks at its source].",
        default=(),
        metavar="PATTERN",
    ),
    heads: str | None = options.AVERAGED_HEADS,
    width: float = options.width(120),
) -> "Figure":
    """Draw what aligned with what: decoder steps against source tokens, white where the weight is 1.

    bioattn plot alignment alignment.attention.h5 --sample pair1 -o alignment.png
    """
    from bioattn.figures.alignment import draw_alignments, read_alignments
    from bioattn.store import open_attention

    with open_attention(attention) as file:
        name, found = read_alignments(file, sample, sites or None, parse_heads(heads))
    return draw_alignments(name, found, width)


@figure_command("plot molecule")
def molecule(
    reporter: Reporter,
    attention: Path = argument("ATTENTION", "Attention HDF5 over molecules."),
    sample: str | None = option("Which molecule [default: the first].", metavar="ID"),
    task: str | None = option("Contributions to which task [default: the first].", metavar="NAME"),
    by_attention: bool = option(
        "Colour atoms by attention, mean over heads and radii, and not by what they contribute.",
        "--attention",
        default=False,
    ),
    width: float = options.width(85),
) -> "Figure":
    """Draw a molecule with its atoms coloured by what they contribute to a prediction, or by attention.

    What stands at an atom at radius r is spread over the atoms up to r bonds away, which it knows. The mean over
    the atoms is taken away from contributions first.

    bioattn plot molecule attention.h5 --sample aspirin --task activity -o aspirin.svg
    """
    from bioattn.errors import SettingsError
    from bioattn.figures.molecule import draw_molecule, read_coloured_molecule
    from bioattn.store import open_attention

    if by_attention and task is not None:
        raise SettingsError("--task is for contributions; attention is the same for all tasks")
    with open_attention(attention) as file:
        return draw_molecule(read_coloured_molecule(file, sample, task, by_attention=by_attention), width)


@figure_command("plot response")
def response(
    reporter: Reporter,
    curves: Path = argument("CURVES", "JSON of `bioattn explain response-curve`."),
    series: tuple[str, ...] = option(
        "A series to draw; can be repeated [default: the first eight].", default=(), metavar="NAME"
    ),
    width: float = options.width(120),
) -> "Figure":
    """Draw responses over dose or time, and below what each measured treatment weighs along the curve."""
    from bioattn.figures.response_curve import draw_response_curves
    from bioattn.interpret.response_curve import read_curves

    return draw_response_curves(read_curves(curves), curves, series, width)


@figure_command("plot contacts")
def contacts(
    reporter: Reporter,
    prediction: Path = argument(
        "PREDICTION",
        "Folder of `run evoformer`, distogram.h5, contacts.rr or .tsv, or a file of `export contacts`.",
    ),
    truth: Path | None = option(
        "PDB or mmCIF file, contact dataset, or a table with column_i and column_j (from 1).", metavar="FILE"
    ),
    chain: str | None = options.CHAIN,
    alignment: Path | None = options.STRUCTURE_ALIGNMENT,
    sample: str | None = options.SAMPLE,
    width: float = options.width(85),
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
    known, record = None, dict[str, Any]()
    if truth is not None:
        known = read_contact_truth(truth, found, chain=chain, alignment=alignment, sample=sample)
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


@figure_command("plot distogram")
def distogram(
    reporter: Reporter,
    prediction: Path = argument("PREDICTION", "Folder of `run evoformer`, or its distogram.h5."),
    truth: Path | None = option(
        "PDB or mmCIF file, or contact dataset: true distances below the diagonal.", metavar="FILE"
    ),
    chain: str | None = options.CHAIN,
    alignment: Path | None = options.STRUCTURE_ALIGNMENT,
    width: float = options.width(180),
) -> "Figure":
    """Draw the expected distances of a model and the entropy of each."""
    from bioattn.errors import BioattnError, SettingsError
    from bioattn.figures.contact_map import draw_distogram
    from bioattn.figures.contact_prediction import read_contact_prediction, read_contact_truth
    from bioattn.structures.distogram_file import read_distances

    if truth is None and (chain is not None or alignment is not None):
        raise SettingsError("--chain and --alignment say how to read --truth; give that too")
    distances = read_distances(prediction, with_entropy=True)
    if truth is None:
        return draw_distogram(distances, width)
    found = read_contact_prediction(prediction)
    known = read_contact_truth(truth, found, chain=chain, alignment=alignment)
    if known.cb is None:
        raise BioattnError(f"--truth {truth}: a table of contacts has no distances; give a structure")
    return draw_distogram(distances, width, known.cb)


@figure_command("plot pae")
def pae(
    reporter: Reporter,
    prediction: Path = argument(
        "PREDICTION", "Folder of `run evoformer`, or a JSON file with PAE of AlphaFold DB or ColabFold."
    ),
    width: float = options.width(85),
) -> "tuple[Figure, dict[str, Any]]":
    """Draw the predicted aligned error: for each pair of residues, how far off one is when the other is aligned.

    Dark blocks are domains; light between two blocks means that their arrangement is not known.
    """
    from bioattn.figures.confidence import draw_aligned_error
    from bioattn.views.confidence import read_aligned_error

    errors = read_aligned_error(prediction)
    return draw_aligned_error(prediction.stem, errors, width), {"mean_pae": round(float(errors.mean()), 3)}


@figure_command("plot plddt")
def plddt(
    reporter: Reporter,
    predictions: tuple[Path, ...] = argument(
        "PREDICTION",
        "Folders of `run evoformer`, structures with pLDDT as B-factor, or JSON of AlphaFold DB or ColabFold.",
        recorded="prediction {}",
    ),
    chain: str | None = options.CHAIN,
    width: float = options.width(120),
) -> "tuple[Figure, dict[str, Any]]":
    """Draw pLDDT along the chain, a line for each prediction, over AlphaFold DB's four levels of confidence."""
    from bioattn.figures.confidence import draw_plddt
    from bioattn.views.confidence import read_plddt

    chains = [read_plddt(path, chain) for path in predictions]
    means = {each.name: round(float(each.plddt.mean()), 3) for each in chains}
    return draw_plddt(chains, width), {"mean_plddt": means}


@figure_command("plot logos")
def logos(
    reporter: Reporter,
    motifs: Path = argument("MOTIFS", "Motifs: MEME, JASPAR or TRANSFAC, plain or compressed."),
    motif: tuple[str, ...] = option(
        "A motif to draw; can be repeated [default: all].", default=(), metavar="NAME"
    ),
    first: int | None = option("Draw only the first N motifs of the file.", min=1),
    reverse_complement: bool = option("Draw the reverse complements.", default=False),
    use_background: bool = option(
        "Information against the file's base frequencies instead of equal ones.",
        "--background",
        default=False,
    ),
    width: float = options.width(180),
) -> "Figure":
    """Draw motifs as sequence logos, in bits, on one scale."""
    from bioattn.figures.motif_logos import choose_motifs, draw_logos
    from bioattn.formats.motifs import read_meme

    database = read_meme(motifs)
    return draw_logos(
        choose_motifs(database.motifs, motif or None)[:first],
        width,
        background=database.background if use_background else None,
        reverse_complement=reverse_complement,
    )


@figure_command("plot training")
def training(
    reporter: Reporter,
    runs: tuple[Path, ...] = argument("MODEL", "Model folders, or their history.csv.", recorded="run {}"),
    metric: tuple[str, ...] = option(
        "A column of history.csv; can be repeated [default: correlation and its specific part].",
        default=(),
        metavar="COLUMN",
    ),
    width: float = options.width(180),
) -> "Figure":
    """Draw training curves: losses and validation metrics.

    A dot marks the epoch whose weights were kept.
    """
    from bioattn.figures.curves import draw_training
    from bioattn.views.training_history import read_history

    return draw_training([read_history(path) for path in runs], width, metric)


@figure_command("plot check")
def draw(
    reporter: Reporter,
    check: Path = argument("CHECK", "JSON of `bioattn explain check`."),
    width: float = options.width(180),
) -> "Figure":
    """Draw the verdict on a model's attention: deletion and insertion curves, and each measure."""
    from bioattn.figures.curves import draw_check
    from bioattn.views.check import read_check

    return draw_check(read_check(check), width)


@figure_command("plot designs")
def designs(
    reporter: Reporter,
    check: Path = argument("CHECK", "JSON of `bioattn explain designs`."),
    width: float = options.width(120),
) -> "Figure":
    """Draw what designs do against how real they look, beside real promoters and simple means.

    bioattn plot designs check.json -o designs.png
    """
    from bioattn.figures.designs import draw_designs
    from bioattn.views.designs import read_designs_check

    return draw_designs(read_designs_check(check), width)
