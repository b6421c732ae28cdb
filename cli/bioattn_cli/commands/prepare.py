"""`bioattn prepare …`: promoters, alignments, and datasets to train on."""

from pathlib import Path

from bioattn.choices import MissingCb, Task
from bioattn.io.settings import Writes, argument, option
from bioattn.promoters.choices import (
    Anchor,
    Boundary,
    Direction,
    Feature,
    Layout,
    Overlap,
    Split,
    Standardize,
)
from bioattn_cli import options
from bioattn_cli.command import Record, command
from bioattn_cli.reporting import Reporter


@command("prepare promoters")
def promoters(
    reporter: Reporter,
    genome: Path = argument("GENOME", "Genome FASTA: plain, gzip or bgzip."),
    annotation: Path = argument("ANNOTATION", "Genes: GFF3, GTF or BED6, gzip too."),
    output: Path = options.RESULT,
    upstream: int = option("Bases before position 0.", default=800),
    downstream: int = option("Bases from position 0 on.", default=200),
    anchor: Anchor = option("Position 0: transcription start or start codon.", default=Anchor.TSS),
    feature: Feature = option(
        "TSS of the gene (its 5' end) or of its mRNA with the longest CDS.", default=Feature.GENE
    ),
    overlap: Overlap = option(
        "Bases in other genes: keep, mask with N, trim the upstream side, drop the gene.",
        default=Overlap.KEEP,
    ),
    boundary: Boundary = option(
        "Beyond the chromosome: pad with N, trim the upstream side, drop the gene.", default=Boundary.PAD
    ),
    max_n: float = option("Drop windows with a larger fraction of N.", default=1.0),
    biotype: tuple[str, ...] = option("Keep genes of this biotype only; can be repeated.", default=()),
    chromosome_aliases: Path | None = option("Table of two columns: names of the same chromosome."),
    id_attribute: str | None = option(
        "Attribute that holds the gene id [default: GFF3 locus_tag, else gene_id, else ID without gene-; "
        "GTF gene_id; BED column 4]."
    ),
    operons: str | None = option(
        "Transcription units, which prepare dataset keeps on one side of the split: the most bases between "
        "genes of one strand that share one (such as 100), or a table with the columns gene and unit."
    ),
    flank: int = option("Extra bases on both sides, for shifts in training.", default=0),
    index: Path | None = option(
        "Genome index file [default: in the cache folder, see above].", writes=Writes.OTHER
    ),
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
        biotypes=biotype,
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
        operons=operons,
        progress=reporter.progress(),
    )
    files = PromoterFiles.beside(output)
    return Record(
        f"wrote {files.fasta}, {files.bed} and {files.audit}",
        outputs=[files.fasta, files.bed, files.audit],
        inputs={} if operons is None or operons.isdecimal() else {"operons": Path(operons)},
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
    output: Path = options.RESULT,
    treatment_table: Path | None = option("TSV/CSV: first column treatment names, the others features."),
    task: Task = option("Kind of prediction.", default=Task.REGRESSION),
    threshold: float | None = option("binary: smallest |response| that is 1 [default: 1]."),
    direction: Direction | None = option("binary: which responses are 1 [default: both]."),
    max_padj: float | None = option(
        "Largest adjusted p; values above it: missing (regression) or 0 (binary)."
    ),
    split: tuple[Split, ...] = option(
        "Units of the split; treatment may be given besides another one "
        "[default: chromosome, with fewer than 5 of them homology].",
        default=(),
    ),
    holdout: tuple[str, ...] = option(
        "test=IV,XV (chromosomes), validation=0.1 (fraction), test=COLUMN:VALUE or "
        "test=treatment:NAME (treatments); can be repeated [default: a tenth each].",
        default=(),
    ),
    split_table: Path | None = option(
        "TSV/CSV with the columns gene and split (train, validation, test), instead of --split."
    ),
    block_size: str | None = option("Bases of a block (--split block), such as 500kb [default: 200kb]."),
    layout: Layout | None = option("Layout of the tables [default: recognised]."),
    gene_column: str | None = option("Column of gene ids [default: the first]."),
    treatment_column: str | None = option("Column of treatments (long)."),
    value_column: tuple[str, ...] = option(
        "Column of responses; wide: names or patterns of the columns to use; can be repeated.", default=()
    ),
    replicate_column: str | None = option(
        "Column of the treatment table; samples that share its value are averaged."
    ),
    standardize: Standardize = option(
        "treatment: scale each to mean 0, sd 1 over training genes.", default=Standardize.NONE
    ),
    proteins: Path | None = option(
        "Protein FASTA (names = genes): keep paralogues on one side and count them, for coding windows."
    ),
    seed: int = options.SEED,
) -> Record:
    """Join promoters, responses and treatments into a dataset for training, split without leakage.

    Writes X.dataset.h5 and X.dataset.audit.tsv, an audit: every gene and treatment kept or dropped, and why.

    Genes of one transcription unit (prepare promoters --operons) stay on one side of every split.
    """
    from bioattn.io.records import audit_path
    from bioattn.promoters.assemble import DatasetInputs, prepare_dataset
    from bioattn.promoters.responses import ResponseColumns, response_source
    from bioattn.promoters.splits import DatasetSettings, parse_bases

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
    columns = ResponseColumns(
        layout=layout, gene=gene_column, treatment=treatment_column, values=value_column
    )
    settings = DatasetSettings(
        task=task,
        threshold=threshold,
        direction=direction,
        max_padj=max_padj,
        splits=split,
        holdouts=(*holdout, *loose),
        block_size=None if block_size is None else parse_bases(block_size, "--block-size"),
        replicate_column=replicate_column,
        standardize=standardize,
        seed=seed,
    )
    made = prepare_dataset(inputs, columns, settings, output)
    return Record(
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
    output: Path = options.RESULT,
    max_depth: int | None = option(
        "Keep at most N rows of an alignment: the first and a random choice of others."
    ),
    min_structure_identity: float = option(
        "Least fraction of a chain's residues that equal those of its closest row.", default=0.7
    ),
    missing_cb: MissingCb = option(
        "Substitute for a missing CB: CA, or its ideal position from N, CA and C (virtual).",
        default=MissingCb.CA,
    ),
    mappings: Path | None = option(
        "Also write DIR/ID.tsv: the residue of each column.", metavar="DIR", writes=Writes.OTHER
    ),
    seed: int = options.SEED,
) -> Record:
    """Join alignments and structures into a dataset of contacts for training.

    Writes X.dataset.h5 and X.dataset.audit.tsv, an audit: every pair kept or refused, and why. File names in PAIRS
    are relative to its folder; chain is the author's (`_` = blank). Alignments: every format that `prepare msa`
    reads; structures: PDB and mmCIF; all plain, gzip or xz.

    A chain is aligned to the first row or, if that is another protein, to the closest one. A pair that cannot be
    used is left out with a warning. Without a group column, chains related by sequence form groups.
    """
    from bioattn.alignments.contact_dataset import SPLIT_NAMES
    from bioattn.alignments.contact_preparation import ContactSettings, prepare_contacts
    from bioattn.io.records import audit_path

    settings = ContactSettings(
        max_depth=max_depth, min_identity=min_structure_identity, missing_cb=missing_cb, seed=seed
    )
    rows = prepare_contacts(pairs, output, settings, mappings=mappings, progress=reporter.progress())
    return Record(
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
    output: Path = options.RESULT,
    row: str | None = option("The query is this row, not row 1.", "--query", metavar="ID"),
) -> Record:
    """Lay known structures on a query, as templates for run evoformer --templates.

    Of each structure the chain with the most residues equal to the query's is taken (local alignment, BLOSUM62).
    AlphaFold's models take 4 templates: of more structures those with the most equal residues stay. A structure
    no chain of which is like the query (E-value above 0.01) is left out with a warning. Says coverage and identity
    of each template.
    """
    from bioattn.alignments.templates import prepare_templates

    made = prepare_templates(query, structures, output, row=row)
    return Record(
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
        "Alignment: A3M, A2M, aligned FASTA, Stockholm, Clustal, PSICOV .aln, PHYLIP; gzip and xz too; - "
        "for standard input. With --search: FASTA with the query.",
        recorded="",
    ),
    output: Path = options.RESULT,
    query: str | None = option(
        "Centre on this row: it comes first, its residues are the columns [default: row 1].", metavar="ID"
    ),
    max_gap_column: float | None = option(
        "Columns with a larger fraction of gaps become insertions.", metavar="F"
    ),
    max_gap_row: float | None = option("Drop rows with a larger fraction of gaps.", metavar="F"),
    min_query_identity: float | None = option(
        "Drop rows whose identity to the query is not larger (hhfilter -qid).", metavar="F"
    ),
    max_identity: float | None = option(
        "Keep one of rows with a larger identity to each other (hhfilter -id).", metavar="F"
    ),
    max_depth: int | None = option("Keep the query and a random choice of N − 1 other rows.", metavar="N"),
    seed: int = options.SEED,
    weight_identity: float = option(
        "Rows with at least this identity share their weight in Neff.", default=0.8, metavar="F"
    ),
    stats: Path | None = option("Write the statistics to this file.", metavar="X.json", writes=Writes.OTHER),
    search: tuple[Path, ...] = option(
        "Build the alignment by searching this protein FASTA (jackhmmer); can be repeated.",
        default=(),
        metavar="DB.fasta",
        recorded="database {}",
    ),
    iterations: int | None = option("--search: at most N iterations [default: 1].", metavar="N"),
    max_evalue: float | None = option("--search: largest E-value of a hit [default: 0.001].", metavar="E"),
    threads: int | None = options.THREADS,
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

    if not search and (iterations is not None or max_evalue is not None):
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
        databases=search,
        search=SearchSettings(
            iterations=1 if iterations is None else iterations,
            max_evalue=MAX_EVALUE if max_evalue is None else max_evalue,
        ),
        statistics_file=stats,
        threads=threads,
        progress=reporter.progress(),
    )
    written = [output] if stats is None else [output, stats]
    return Record(
        f"wrote {' and '.join(map(str, written))}",
        outputs=written,
        inputs={"query" if search else "alignment": source},
        rows=statistics.depth,
        columns=statistics.columns,
        neff=round(statistics.neff, 3),
        steps=steps_json(preparation),
        warnings=statistics.warnings(),
    )
