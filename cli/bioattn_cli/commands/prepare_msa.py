"""`bioattn prepare msa`: from an alignment, or a query and a database, to the A3M a model is given."""

from pathlib import Path
from typing import Annotated

import typer

from bioattn_cli.command import Input, Output, Record, command
from bioattn_cli.options import ResultOption, SeedOption, ThreadsOption
from bioattn_cli.reporting import Reporter


@command("prepare msa")
def msa(
    reporter: Reporter,
    source: Annotated[
        Path,
        typer.Argument(
            metavar="IN",
            help="Alignment: A3M, A2M, aligned FASTA, Stockholm, Clustal, PSICOV .aln, PHYLIP; gzip and xz too; - "
            "for standard input. With --search: FASTA with the query.",
        ),
        Input(name=""),
    ],
    output: ResultOption,
    query: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Centre on this row: it comes first, its residues are the columns [default: row 1].",
        ),
    ] = None,
    max_gap_column: Annotated[
        float | None,
        typer.Option(metavar="F", help="Columns with a larger fraction of gaps become insertions."),
    ] = None,
    max_gap_row: Annotated[
        float | None, typer.Option(metavar="F", help="Drop rows with a larger fraction of gaps.")
    ] = None,
    min_query_identity: Annotated[
        float | None,
        typer.Option(
            metavar="F", help="Drop rows whose identity to the query is not larger (hhfilter -qid)."
        ),
    ] = None,
    max_identity: Annotated[
        float | None,
        typer.Option(
            metavar="F", help="Keep one of rows with a larger identity to each other (hhfilter -id)."
        ),
    ] = None,
    max_depth: Annotated[
        int | None, typer.Option(metavar="N", help="Keep the query and a random choice of N − 1 other rows.")
    ] = None,
    seed: SeedOption = 0,
    weight_identity: Annotated[
        float, typer.Option(metavar="F", help="Rows with at least this identity share their weight in Neff.")
    ] = 0.8,
    stats: Annotated[
        Path | None,
        typer.Option(metavar="X.json", help="Write the statistics to this file."),
        Output.OTHER,
    ] = None,
    search: Annotated[
        Path | None,
        typer.Option(
            metavar="DB.fasta", help="Build the alignment by searching this protein FASTA (jackhmmer)."
        ),
        Input(name="database"),
    ] = None,
    iterations: Annotated[
        int | None, typer.Option(metavar="N", help="--search: at most N iterations [default: 1].")
    ] = None,
    max_evalue: Annotated[
        float | None, typer.Option(metavar="E", help="--search: largest E-value of a hit [default: 0.001].")
    ] = None,
    threads: ThreadsOption = None,
) -> Record:
    """Filter an alignment, or build one by searching a database, and write it as A3M with its statistics.

    Steps, in this order and only if their option is given: centre on --query, --max-gap-column, --max-gap-row,
    --min-query-identity, --max-identity, --max-depth. Duplicate rows and rows without a residue are always
    removed; the query (row 1, or --query) is always kept. Removed columns become insertions, in lower case, so
    every row keeps its whole sequence. Fractions are from 0 to 1.

    Warns of alignments whose rows agree no more than by chance, or with few effective sequences (Neff).
    """
    from bioattn.alignments.preparation import PreparationSettings, prepare_msa, steps_json
    from bioattn.alignments.search import MAX_EVALUE, SearchSettings
    from bioattn.errors import SettingsError

    if search is None and (iterations is not None or max_evalue is not None):
        option = "--iterations" if iterations is not None else "--max-evalue"
        raise SettingsError(f"{option} is for --search, which names the database; give that too")
    preparation, statistics = prepare_msa(
        source,
        output,
        PreparationSettings(
            query=query,
            max_gap_column=max_gap_column,
            max_gap_row=max_gap_row,
            min_query_identity=min_query_identity,
            max_identity=max_identity,
            weight_identity=weight_identity,
            max_depth=max_depth,
            seed=seed,
        ),
        database=search,
        search=SearchSettings(
            iterations=1 if iterations is None else iterations,
            max_evalue=MAX_EVALUE if max_evalue is None else max_evalue,
        ),
        statistics_file=stats,
        threads=threads,
        progress=reporter.progress(),
    )
    return Record(
        f"wrote {output}" + (f" and {stats}" if stats is not None else ""),
        inputs={"alignment" if search is None else "query": source},
        rows=statistics.depth,
        columns=statistics.columns,
        neff=round(statistics.neff, 3),
        steps=steps_json(preparation),
        warnings=statistics.warnings(),
    )
