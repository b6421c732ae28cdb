"""`bioattn prepare dataset`: promoters, responses and treatments, as a dataset to train on."""

from pathlib import Path
from typing import Annotated

import typer

from bioattn.choices import Task
from bioattn.promoters.choices import Direction, Layout, Split, Standardize
from bioattn_cli.command import Record, command
from bioattn_cli.options import ResultOption, SeedOption
from bioattn_cli.reporting import Reporter


@command("prepare dataset")
def dataset(
    reporter: Reporter,
    promoters: Annotated[
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
    output: ResultOption,
    treatment_table: Annotated[
        Path | None,
        typer.Option(help="TSV/CSV: first column treatment names, the others features."),
    ] = None,
    task: Annotated[Task, typer.Option(help="Kind of prediction.")] = Task.REGRESSION,
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
            help="Units of the split; treatment may be given besides another one "
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
    layout: Annotated[Layout | None, typer.Option(help="Layout of the tables [default: recognised].")] = None,
    gene_column: Annotated[str | None, typer.Option(help="Column of gene ids [default: the first].")] = None,
    treatment_column: Annotated[str | None, typer.Option(help="Column of treatments (long).")] = None,
    value_column: Annotated[
        list[str] | None,
        typer.Option(
            help="Column of responses; wide: names or patterns of the columns to use; can be repeated."
        ),
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
        typer.Option(
            help="Protein FASTA (names = genes): keep paralogues on one side and count them, for coding windows."
        ),
    ] = None,
    seed: SeedOption = 0,
) -> Record:
    """Join promoters, responses and treatments into a dataset for training, split without leakage.

    Writes X.dataset.h5 and X.dataset.audit.tsv, an audit: every gene and treatment kept or dropped, and why.
    """
    from bioattn.io.audit import audit_path
    from bioattn.promoters.assemble import DatasetInputs, prepare_dataset
    from bioattn.promoters.dataset_settings import DatasetSettings
    from bioattn.promoters.response_columns import ResponseColumns
    from bioattn.promoters.responses import response_source

    # `--holdout test=IV validation=VII` leaves the second value among the files.
    loose = [
        text for text in responses if text.startswith(("test=", "validation=")) and not Path(text).exists()
    ]
    sources = [response_source(text) for text in responses if text not in loose]
    inputs = DatasetInputs(
        promoters=promoters, responses=sources, treatment_table=treatment_table, proteins=proteins
    )
    columns = ResponseColumns(
        layout=layout,
        gene=gene_column,
        treatment=treatment_column,
        values=tuple(value_column or ()),
    )
    settings = DatasetSettings(
        task=task,
        threshold=threshold,
        direction=direction,
        max_padj=max_padj,
        splits=tuple(split or ()),
        holdouts=(*(holdout or ()), *loose),
        replicate_column=replicate_column,
        standardize=standardize,
        seed=seed,
    )
    made = prepare_dataset(inputs, columns, settings, output)
    return Record(
        f"wrote {output} and {audit_path(output)}",
        inputs={f"responses.{number}": source.path for number, source in enumerate(sources, start=1)},
        genes=made.num_genes,
        treatments=made.num_treatments,
        leakage=made.metadata["leakage"],
    )
