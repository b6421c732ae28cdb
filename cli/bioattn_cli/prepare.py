"""`bioattn prepare …`: turn the files people have into inputs: promoters, alignments, datasets to train on."""

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bioattn_cli.choice_options import Anchor
from bioattn_cli.options import OutputOption, SeedOption, command
from bioattn_cli.reporting import Reporter
from bioattn_cli.verbs import Verb

app = typer.Typer(
    cls=Verb,
    help="Turn the files people have into inputs: promoters, alignments, datasets to train on.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def _verb() -> None:
    """Turn the files people have into inputs: promoters, alignments, datasets to train on."""


class Feature(StrEnum):
    """Which row of the annotation gives the TSS."""

    GENE = "gene"
    MRNA = "mRNA"


class Overlap(StrEnum):
    """What happens where a window reaches into another gene."""

    KEEP = "keep"
    MASK = "mask"
    TRIM = "trim"
    DROP = "drop"


class Boundary(StrEnum):
    """What happens where a window reaches beyond its chromosome."""

    PAD = "pad"
    TRIM = "trim"
    DROP = "drop"


@command(app, "promoters")
def promoters(
    reporter: Reporter,
    genome: Annotated[Path, typer.Argument(metavar="GENOME", help="Genome FASTA: plain, gzip or bgzip.")],
    annotation: Annotated[
        Path, typer.Argument(metavar="ANNOTATION", help="Genes: GFF3, GTF or BED6, gzip too.")
    ],
    output: OutputOption,
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
        Path | None, typer.Option(help="Genome index file [default: in the cache folder, see above].")
    ] = None,
) -> None:
    """Cut the promoter of every gene: FASTA, BED and a table of what became of each gene.

    -o X.fa writes X.fa, X.bed and X.audit.tsv (one row for every gene of the annotation: kept, trimmed or dropped,
    and why). A window is [-upstream, +downstream) around position 0, in the direction of the gene.

    Each gene has one position 0. With --anchor tss it is the 5' end of the gene or, with --feature mRNA, of its
    representative mRNA: the one with the longest coding sequence, then the longest, then the most upstream. With
    --anchor cds it is the first base of the representative's coding sequence.

    --overlap looks at the spans of all other genes of the annotation, on both strands, whatever --biotype keeps.
    Only the upstream side is ever trimmed, so that position 0 stays at its distance from the end.

    The genome is indexed once, in BIOATTN_CACHE, else XDG_CACHE_HOME/bioattn, else ~/.cache/bioattn.
    """
    from collections import Counter

    from bioattn.io.files import write_run_record
    from bioattn.promoters.preparation import PromoterFiles, prepare_promoters
    from bioattn.promoters.windows import WindowSettings

    settings = WindowSettings(
        upstream=upstream,
        downstream=downstream,
        anchor=anchor.value,
        feature=feature.value,
        overlap=overlap.value,
        boundary=boundary.value,
        max_n=max_n,
        biotypes=tuple(biotype or ()),
        flank=flank,
    )
    started = time.monotonic()
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
    inputs = {"genome": genome, "annotation": annotation}
    if chromosome_aliases is not None:
        inputs["chromosome_aliases"] = chromosome_aliases
    write_run_record(
        output,
        reporter.command,
        inputs,
        time.monotonic() - started,
        genes=dict(Counter(row.status for row in rows)),
    )
    files = PromoterFiles.beside(output)
    reporter.say(f"wrote {files.fasta}, {files.bed} and {files.audit}")


class Task(StrEnum):
    """What a model of the dataset predicts."""

    REGRESSION = "regression"
    BINARY = "binary"


class Direction(StrEnum):
    """Which responses are 1 in the binary task."""

    BOTH = "both"
    UP = "up"
    DOWN = "down"


class Split(StrEnum):
    """What is kept on one side."""

    CHROMOSOME = "chromosome"
    HOMOLOGY = "homology"
    RANDOM = "random"
    TREATMENT = "treatment"


class Layout(StrEnum):
    """How the response tables are laid out."""

    WIDE = "wide"
    LONG = "long"
    CONTRAST = "contrast"


class Standardize(StrEnum):
    """How targets are scaled."""

    NONE = "none"
    TREATMENT = "treatment"


@command(app, "dataset")
def dataset(
    reporter: Reporter,
    promoter_fasta: Annotated[
        Path, typer.Argument(metavar="PROMOTERS", help="Promoter FASTA; names are gene ids.")
    ],
    responses: Annotated[
        list[str],
        typer.Argument(
            metavar="RESPONSES",
            help="TSV/CSV, gzip too: wide (genes × treatments), long, or one DESeq2/edgeR/limma table per "
            "contrast, FILE or NAME=FILE.",
        ),
    ],
    output: OutputOption,
    treatment_table: Annotated[
        Path | None,
        typer.Option(help="TSV/CSV: first column treatment names, the others features."),
    ] = None,
    task: Annotated[Task, typer.Option(help="What a model is to predict.")] = Task.REGRESSION,
    threshold: Annotated[
        float | None, typer.Option(help="binary: smallest |response| that is 1 [default: 1].")
    ] = None,
    direction: Annotated[
        Direction | None, typer.Option(help="binary: which responses are 1 [default: both].")
    ] = None,
    max_padj: Annotated[
        float | None,
        typer.Option(help="Largest adjusted p; values above it: missing (regression) or 0 (binary)."),
    ] = None,
    split: Annotated[
        list[Split] | None,
        typer.Option(
            help="What is kept on one side; treatment may stand beside another "
            "[default: chromosome, with fewer than 5 of them homology]."
        ),
    ] = None,
    holdout: Annotated[
        list[str] | None,
        typer.Option(
            help="test=IV,XV (chromosomes), validation=0.1 (fraction), test=COLUMN:VALUE or "
            "test=treatment:NAME (treatments); can be repeated [default: a tenth each]."
        ),
    ] = None,
    layout: Annotated[Layout | None, typer.Option(help="Kind of table [default: found out].")] = None,
    gene_column: Annotated[str | None, typer.Option(help="Column of gene ids [default: the first].")] = None,
    treatment_column: Annotated[str | None, typer.Option(help="Column of treatments (long).")] = None,
    value_column: Annotated[
        list[str] | None,
        typer.Option(help="Column of responses; wide: names or patterns of those to use; can be repeated."),
    ] = None,
    replicate_column: Annotated[
        str | None,
        typer.Option(help="Column of the treatment table; samples that share its value are averaged."),
    ] = None,
    standardize: Annotated[
        Standardize, typer.Option(help="treatment: scale each to mean 0, sd 1 over training genes.")
    ] = Standardize.NONE,
    proteins: Annotated[
        Path | None,
        typer.Option(help="Protein FASTA (names = genes): keep and count paralogues, if windows are coding."),
    ] = None,
    seed: SeedOption = 0,
) -> None:
    """Join promoters, responses and treatments into a dataset to train on, parted without leakage.

    Writes X.dataset.h5 and X.dataset.audit.tsv, which says of every gene and treatment what became of it.
    """
    from bioattn.io.files import write_run_record
    from bioattn.promoters import dataset_settings, response_columns, splits
    from bioattn.promoters.assemble import DatasetInputs, prepare_dataset
    from bioattn.promoters.dataset_audit import audit_path
    from bioattn.promoters.responses import response_source

    begun = time.monotonic()
    # `--holdout test=IV validation=VII` leaves the second value among the files.
    loose = [
        text for text in responses if text.startswith(("test=", "validation=")) and not Path(text).exists()
    ]
    sources = [response_source(text) for text in responses if text not in loose]
    inputs = DatasetInputs(
        promoters=promoter_fasta, responses=sources, treatment_table=treatment_table, proteins=proteins
    )
    columns = response_columns.ResponseColumns(
        layout=None if layout is None else response_columns.Layout(layout),
        gene=gene_column,
        treatment=treatment_column,
        values=tuple(value_column or ()),
    )
    settings = dataset_settings.DatasetSettings(
        task=task.value,
        threshold=threshold,
        direction=None if direction is None else dataset_settings.Direction(direction),
        max_padj=max_padj,
        splits=tuple(splits.Split(part) for part in split or ()),
        holdouts=(*(holdout or ()), *loose),
        replicate_column=replicate_column,
        standardize=dataset_settings.Standardize(standardize),
        seed=seed,
    )
    made = prepare_dataset(inputs, columns, settings, output)
    files = {"promoters": promoter_fasta, "treatment_table": treatment_table, "proteins": proteins}
    write_run_record(
        output,
        reporter.command,
        {name: path for name, path in files.items() if path is not None}
        | {f"responses.{number}": source.path for number, source in enumerate(sources, start=1)},
        time.monotonic() - begun,
        genes=made.num_genes,
        treatments=made.num_treatments,
        leakage=made.metadata["leakage"],
    )
    reporter.say(f"wrote {output} and {audit_path(output)}")
