"""`bioattn prepare promoters`: the promoter of every gene of a genome."""

from pathlib import Path
from typing import Annotated

import typer

from bioattn.promoters.choices import Anchor, Boundary, Feature, Overlap
from bioattn_cli.command import Output, Record, command
from bioattn_cli.options import ResultOption
from bioattn_cli.reporting import Reporter


@command("prepare promoters")
def promoters(
    reporter: Reporter,
    genome: Annotated[Path, typer.Argument(metavar="GENOME", help="Genome FASTA: plain, gzip or bgzip.")],
    annotation: Annotated[
        Path, typer.Argument(metavar="ANNOTATION", help="Genes: GFF3, GTF or BED6, gzip too.")
    ],
    output: ResultOption,
    upstream: Annotated[int, typer.Option(help="Bases before position 0.")] = 800,
    downstream: Annotated[int, typer.Option(help="Bases from position 0 on.")] = 200,
    anchor: Annotated[
        Anchor, typer.Option(help="Position 0: transcription start or start codon.")
    ] = Anchor.TSS,
    feature: Annotated[
        Feature,
        typer.Option(help="TSS of the gene (its 5' end) or of its mRNA with the longest CDS."),
    ] = Feature.GENE,
    overlap: Annotated[
        Overlap,
        typer.Option(help="Bases in other genes: keep, mask with N, trim the upstream side, drop the gene."),
    ] = Overlap.KEEP,
    boundary: Annotated[
        Boundary,
        typer.Option(help="Beyond the chromosome: pad with N, trim the upstream side, drop the gene."),
    ] = Boundary.PAD,
    max_n: Annotated[float, typer.Option(help="Drop windows with a larger fraction of N.")] = 1.0,
    biotype: Annotated[
        list[str] | None, typer.Option(help="Keep genes of this biotype only; can be repeated.")
    ] = None,
    chromosome_aliases: Annotated[
        Path | None, typer.Option(help="Table of two columns: names of the same chromosome.")
    ] = None,
    id_attribute: Annotated[
        str | None,
        typer.Option(
            help="Attribute that holds the gene id [default: GFF3 locus_tag, else gene_id, else ID without gene-; "
            "GTF gene_id; BED column 4]."
        ),
    ] = None,
    flank: Annotated[int, typer.Option(help="Extra bases on both sides, for shifts in training.")] = 0,
    index: Annotated[
        Path | None,
        typer.Option(help="Genome index file [default: in the cache folder, see above]."),
        Output.OTHER,
    ] = None,
) -> Record:
    """Cut the promoter of every gene: FASTA, BED and an audit of all genes.

    -o X.fa writes X.fa, X.bed and X.audit.tsv (one row for every gene of the annotation: kept, trimmed or dropped,
    and why). A window is [-upstream, +downstream) around position 0, in the direction of the gene.

    Each gene has one position 0. With --anchor tss it is the 5' end of the gene or, with --feature mRNA, of its
    representative mRNA: the one with the longest coding sequence, then the longest, then the most upstream. With
    --anchor cds it is the first base of the representative's coding sequence.

    --overlap uses the spans of all other genes of the annotation, on both strands and of any biotype. Only the
    upstream side is trimmed, so that position 0 stays at its distance from the end.

    The genome is indexed once, in BIOATTN_CACHE, else XDG_CACHE_HOME/bioattn, else ~/.cache/bioattn.
    """
    from collections import Counter

    from bioattn.promoters.preparation import PromoterFiles, prepare_promoters
    from bioattn.promoters.windows import WindowSettings

    settings = WindowSettings(
        upstream=upstream,
        downstream=downstream,
        anchor=anchor,
        feature=feature,
        overlap=overlap,
        boundary=boundary,
        max_n=max_n,
        biotypes=tuple(biotype or ()),
        flank=flank,
    )
    rows = prepare_promoters(
        genome,
        annotation,
        output,
        settings,
        id_attribute=id_attribute,
        aliases=chromosome_aliases,
        index=index,
        progress=reporter.progress(),
    )
    files = PromoterFiles.beside(output)
    return Record(
        f"wrote {files.fasta}, {files.bed} and {files.audit}", genes=dict(Counter(row.status for row in rows))
    )
