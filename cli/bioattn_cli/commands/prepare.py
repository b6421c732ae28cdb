"""`bioattn prepare …`: promoters, alignments, and datasets to train on."""

from dataclasses import replace
from pathlib import Path

from bioattn.alignments.choices import ContactSettings, PreparationSettings, SearchSettings
from bioattn.errors import SettingsError
from bioattn.interpret.choices import RESULT
from bioattn.io.records import audit_path
from bioattn.io.settings import THREADS, Writes, argument, option, table
from bioattn.models.running import RunReport
from bioattn.promoters.choices import DatasetSettings, ResponseColumns, WindowSettings
from bioattn_cli.command import command
from bioattn_cli.reporting import Reporter


@command("prepare promoters")
def promoters(
    reporter: Reporter,
    genome: Path = argument("GENOME", "Genome FASTA: plain, gzip or bgzip."),
    annotation: Path = argument("ANNOTATION", "Genes: GFF3, GTF, BED6, BED12 or GenBank, gzip too."),
    output: Path = RESULT,
    windows: WindowSettings = table(WindowSettings),
    chromosome_aliases: str | None = option(
        "Table of two columns, names of the same chromosome; or auto: found by length, name and sequence, and "
        "written as X.aliases.tsv.",
        metavar="FILE|auto",
        group="Inputs",
    ),
    id_attribute: str | None = option(
        "Attribute that holds the gene id [default: GFF3 locus_tag, else gene_id, else ID without gene-; "
        "GTF gene_id; BED column 4]."
    ),
    operons: str | None = option(
        "Transcription units, which prepare dataset keeps on one side of the split: the most bases between "
        "genes of one strand that share one (such as 100), or a table with the columns gene and unit."
    ),
) -> RunReport:
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

    from bioattn.promoters.chromosomes import AUTO
    from bioattn.promoters.preparation import PromoterFiles, prepare_promoters

    rows = prepare_promoters(
        genome,
        annotation,
        output,
        windows,
        id_attribute=id_attribute,
        aliases=chromosome_aliases,
        operons=operons,
        progress=reporter.progress,
    )
    files = PromoterFiles.beside(output)
    found = [files.aliases] if chromosome_aliases == AUTO else []
    inputs = {"operons": operons, "chromosome_aliases": chromosome_aliases}
    return RunReport(
        f"wrote {', '.join(map(str, (files.fasta, files.bed, *found)))} and {files.audit}",
        outputs=[files.fasta, files.bed, files.audit, *found],
        inputs={name: Path(text) for name, text in inputs.items() if text and Path(text).is_file()},
        genes=dict(Counter(row.status for row in rows)),
    )


@command("prepare dataset")
def dataset(
    reporter: Reporter,
    promoters: Path = argument("PROMOTERS", "Promoter FASTA; names are gene ids."),
    responses: tuple[str, ...] = argument(
        "RESPONSES",
        "TSV/CSV, gzip too: wide (genes × treatments), long, or one DESeq2/edgeR/limma table per "
        "contrast, FILE or NAME=FILE.",
    ),
    output: Path = RESULT,
    treatment_table: Path | None = option("TSV/CSV: first column treatment names, the others features."),
    settings: DatasetSettings = table(DatasetSettings),
    columns: ResponseColumns = table(ResponseColumns),
    split_table: Path | None = option(
        "TSV/CSV with the columns gene and split (train, validation, test), instead of --split."
    ),
    proteins: Path | None = option(
        "Protein FASTA (names = genes): keep paralogues on one side and count them, for coding windows."
    ),
) -> RunReport:
    """Join promoters, responses and treatments into a dataset for training, split without leakage.

    Writes X.dataset.h5 and X.dataset.audit.tsv, an audit: every gene and treatment kept or dropped, and why.

    Genes of one transcription unit (prepare promoters --operons) stay on one side of every split.
    """
    from bioattn.promoters.assemble import DatasetInputs, prepare_dataset
    from bioattn.promoters.responses import response_source

    # `--holdout test=IV validation=VII` leaves the second value among the files.
    loose = [
        text for text in responses if text.startswith(("test=", "validation=")) and not Path(text).exists()
    ]
    sources = [response_source(text) for text in responses if text not in loose]
    inputs = DatasetInputs(
        promoters=promoters,
        responses=sources,
        treatment_table=treatment_table,
        proteins=proteins,
        split_table=split_table,
    )
    if loose:
        settings = replace(settings, holdouts=(*settings.holdouts, *loose))
    made = prepare_dataset(inputs, columns, settings, output)
    return RunReport(
        f"wrote {output} and {audit_path(output)}",
        outputs=[output, audit_path(output)],
        inputs={f"responses.{number}": source.path for number, source in enumerate(sources, start=1)},
        genes=made.num_genes,
        treatments=made.num_treatments,
        leakage=made.metadata["leakage"],
    )


@command("prepare contacts")
def contacts(
    reporter: Reporter,
    pairs: Path = argument(
        "PAIRS", "TSV/CSV with the columns id, msa, structure, and optionally chain, mapping, group, split."
    ),
    output: Path = RESULT,
    settings: ContactSettings = table(ContactSettings),
    mappings: Path | None = option(
        "Also write DIR/ID.tsv: the residue of each column.", metavar="DIR", writes=Writes.OTHER
    ),
) -> RunReport:
    """Join alignments and structures into a dataset of contacts for training.

    Writes X.dataset.h5 and X.dataset.audit.tsv, an audit: every pair kept or refused, and why. File names in PAIRS
    are relative to its folder; chain is the author's (`_` = blank). Alignments: every format that `prepare msa`
    reads; structures: PDB and mmCIF; all plain, gzip or xz.

    A chain is aligned to the first row or, if that is another protein, to the closest one. A pair that cannot be
    used is left out with a warning. Without a group column, chains related by sequence form groups.
    """
    from bioattn.alignments.contact_dataset import SPLIT_NAMES
    from bioattn.alignments.contact_preparation import prepare_contacts

    rows = prepare_contacts(pairs, output, settings, mappings=mappings, progress=reporter.progress)
    return RunReport(
        f"wrote {output} and {audit_path(output)}",
        outputs=[output, audit_path(output), *([] if mappings is None else [mappings])],
        kept=sum(row.status == "kept" for row in rows),
        refused=sum(row.status == "refused" for row in rows),
        splits={
            name: sum(row.status == "kept" and row.split == name for row in rows) for name in SPLIT_NAMES
        },
    )


@command("prepare templates")
def templates(
    reporter: Reporter,
    query: Path = argument("QUERY", "Protein FASTA or alignment of any format, whose row 1 is the query."),
    structures: tuple[Path, ...] = argument(
        "STRUCTURE", "PDB or mmCIF files of any name, gzip and xz too.", recorded="structure.{}"
    ),
    output: Path = RESULT,
    row: str | None = option("The query is this row, not row 1.", "--query", metavar="ID"),
) -> RunReport:
    """Lay known structures on a query, as templates for run evoformer --templates.

    Of each structure the chain with the most residues equal to the query's is taken (local alignment, BLOSUM62).
    AlphaFold's models take 4 templates: of more structures those with the most equal residues stay. A structure
    no chain of which is like the query (E-value above 0.01) is left out with a warning. Says coverage and identity
    of each template.
    """
    from bioattn.alignments.templates import prepare_templates

    made = prepare_templates(query, structures, output, row=row)
    return RunReport(
        f"wrote {output}",
        templates=made.names,
        coverage=made.coverage.round(4).tolist(),
        identity=made.identity.round(4).tolist(),
    )


@command("prepare msa")
def msa(
    reporter: Reporter,
    source: Path = argument(
        "IN",
        "Alignment: A3M, A2M, aligned FASTA, Stockholm, Clustal, PSICOV .aln, PHYLIP, NEXUS, MSF, PIR; gzip and "
        "xz too; - for standard input. With --search: FASTA with the query.",
        recorded="",
    ),
    output: Path = RESULT,
    preparation: PreparationSettings = table(PreparationSettings),
    stats: Path | None = option("Write the statistics to this file.", metavar="X.json", writes=Writes.OTHER),
    databases: tuple[Path, ...] = option(
        "Build the alignment by searching this protein FASTA (jackhmmer); can be repeated.",
        "--search",
        default=(),
        metavar="DB.fasta",
        recorded="database {}",
    ),
    search: SearchSettings = table(SearchSettings),
    threads: int | None = THREADS,
) -> RunReport:
    """Filter an alignment, or build one by searching a database, and write it as A3M with its statistics.

    Steps, in this order and only if their option is given: centre on --query, --max-gap-column, --max-gap-row,
    --min-query-identity, --max-identity, --max-depth. Duplicate rows and rows without a residue are always
    removed; the query (row 1, or --query) is always kept. Removed columns become insertions, in lower case, so
    every row keeps its whole sequence. Fractions are from 0 to 1.

    Warns of alignments whose rows agree no more than by chance, or with few effective sequences (Neff).
    """
    from bioattn.alignments.preparation import prepare_msa

    if not databases and search != SearchSettings():
        flag = "--iterations" if search.iterations != 1 else "--max-evalue"
        raise SettingsError(f"{flag} is for --search, which names the database; give that too")
    prepared, statistics = prepare_msa(
        source,
        output,
        preparation,
        databases=databases,
        search=search,
        statistics_file=stats,
        threads=threads,
        progress=reporter.progress,
    )
    written = [output] if stats is None else [output, stats]
    return RunReport(
        f"wrote {' and '.join(map(str, written))}",
        outputs=written,
        inputs={"query" if databases else "alignment": source},
        rows=statistics.depth,
        columns=statistics.columns,
        neff=round(statistics.neff, 3),
        steps=[step._asdict() for step in prepared.steps],
        warnings=statistics.warnings(),
    )
