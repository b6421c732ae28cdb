"""What can be chosen of promoter windows and of datasets made of them, and the settings of the commands that make
both; nothing here imports NumPy."""

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bioattn.choices import Task
from bioattn.errors import SettingsError
from bioattn.io.settings import SEED, Settings, argument, option, options_of, output_option

if TYPE_CHECKING:
    from bioattn.promoters.splits import Holdout


class Anchor(StrEnum):
    """What position 0 of a window is: the transcription start, or the first base of the coding sequence."""

    TSS = "tss"
    CDS = "cds"


class Feature(StrEnum):
    """Which row of the annotation gives the transcription start."""

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


class Direction(StrEnum):
    """Which responses count as 1 in the binary task: up is value >= threshold, down value <= -threshold."""

    BOTH = "both"
    UP = "up"
    DOWN = "down"


class Standardize(StrEnum):
    """How targets are scaled."""

    NONE = "none"
    TREATMENT = "treatment"


class Layout(StrEnum):
    """How a response table is laid out."""

    WIDE = "wide"
    """One row per gene, one column per treatment."""
    LONG = "long"
    """One row per gene and treatment, with a column that names the treatment."""
    CONTRAST = "contrast"
    """One row per gene of a single treatment: effect, standard error, adjusted p."""


class Split(StrEnum):
    """How sides are made; `treatment` can stand beside one of the others, which part the genes."""

    CHROMOSOME = "chromosome"
    BLOCK = "block"
    HOMOLOGY = "homology"
    RANDOM = "random"
    TREATMENT = "treatment"


DEFAULT_THRESHOLD = 1.0
LONGEST = 10_000_000
"""Bases on one side of position 0; more is a slip of the finger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSettings:
    """How promoter windows are cut."""

    upstream: int = option("Bases before position 0.", default=800)
    downstream: int = option("Bases from position 0 on.", default=200)
    anchor: Anchor = option("Position 0: transcription start or start codon.", default=Anchor.TSS)
    feature: Feature = option(
        "TSS of the gene (its 5' end) or of its mRNA with the longest CDS.", default=Feature.GENE
    )
    overlap: Overlap = option(
        "Bases in other genes: keep, mask with N, trim the upstream side, drop the gene.",
        default=Overlap.KEEP,
    )
    boundary: Boundary = option(
        "Beyond the chromosome: pad with N, trim the upstream side, drop the gene.", default=Boundary.PAD
    )
    circular: tuple[str, ...] = option(
        "Circular chromosome, around whose origin windows go; can be repeated [default: those that annotation or "
        "FASTA (topology=circular) call circular].",
        default=(),
        metavar="NAME",
    )
    max_n: float = option("Drop windows with a larger fraction of N.", default=1.0)
    biotypes: tuple[str, ...] = option(
        "Keep genes of this biotype only; can be repeated.", "--biotype", default=()
    )
    flank: int = option("Extra bases on both sides, for shifts in training.", default=0)

    def __post_init__(self) -> None:
        for name in ("upstream", "downstream", "flank"):
            value = getattr(self, name)
            if value < 0:
                raise SettingsError(f"--{name} is {value} but must be 0 or more")
            if value > LONGEST:
                raise SettingsError(f"--{name} is {value:,} bases; no more than {LONGEST:,} are cut")
        if self.upstream + self.downstream == 0:
            raise SettingsError("--upstream and --downstream are both 0; a window needs at least one base")
        if not 0 <= self.max_n <= 1:
            raise SettingsError(f"--max-n is {self.max_n:g} but is a fraction, from 0 to 1")

    @property
    def length(self) -> int:
        """Bases of an untrimmed window."""
        return self.upstream + self.downstream


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseColumns:
    """Columns as the user names them; None or empty = to be detected."""

    layout: Layout | None = option("Layout of the tables [default: recognised].")
    gene: str | None = option("Column of gene ids [default: the first].", "--gene-column")
    treatment: tuple[str, ...] = option(
        "Column of treatments: of a long table, or of obs (.h5ad), whose rows are averaged; can be repeated.",
        "--treatment-column",
        "--obs-column",
        default=(),
    )
    values: tuple[str, ...] = option(
        "Column of responses; wide: names or patterns (`hs_*`) of the columns to use; can be repeated.",
        "--value-column",
        default=(),
    )
    sheet: str | None = option(
        "Sheet of a workbook [default: the first] or layer of an .h5ad file [default: X].",
        "--sheet",
        "--layer",
    )


def parse_bases(text: str, option: str) -> int:
    """A number of bases, such as `200000`, `200kb` or `1.5 Mb`.

    >>> parse_bases("200kb", "--block-size"), parse_bases("1.5Mb", "--block-size")
    (200000, 1500000)
    """
    match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)\s*(|bp|kb|mb)", text.strip().lower())
    bases = 0 if match is None else round(float(match[1]) * {"kb": 1e3, "mb": 1e6}.get(match[2], 1))
    if bases < 1:
        raise SettingsError(f"{option} {text!r}: write a number of bases, such as 200000, 200kb or 1Mb")
    return bases


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetSettings:
    """Choices made when a dataset is built."""

    task: Task = option("Kind of prediction.", default=Task.REGRESSION)
    threshold: float | None = option("binary: smallest |response| that is 1 [default: 1].")
    direction: Direction | None = option("binary: which responses are 1 [default: both].")
    max_padj: float | None = option(
        "Largest adjusted p; values above it: missing (regression) or 0 (binary)."
    )
    """Values without an adjusted p become missing in both (they were not tested)."""
    splits: tuple[Split, ...] = option(
        "Units of the split; treatment may be given besides another one "
        "[default: chromosome, with fewer than 5 of them homology].",
        "--split",
        default=(),
    )
    """Empty: what the holdouts speak of."""
    holdouts: tuple[str, ...] = option(
        "test=IV,XV (chromosomes), validation=0.1 (fraction), test=COLUMN:VALUE or "
        "test=treatment:NAME (treatments); can be repeated [default: a tenth each].",
        "--holdout",
        default=(),
    )
    """See `splits.parse_holdouts`."""
    block_size: int | None = option(
        "Bases of a block (--split block), such as 500kb [default: 200kb].",
        parse=partial(parse_bases, option="--block-size"),
        metavar="<str>",
    )
    replicate_column: str | None = option(
        "Column of the treatment table; samples that share its value are averaged."
    )
    control: str | None = option(
        "For raw counts: log2 ratios to this group of samples, which --replicate-column or names such as NAME_1 "
        "and NAME_2 make."
    )
    standardize: Standardize = option(
        "treatment: scale each to mean 0, sd 1 over training genes.", default=Standardize.NONE
    )
    seed: int = SEED

    def __post_init__(self) -> None:
        for name in ("threshold", "direction") if self.task == "regression" else ():
            if getattr(self, name) is not None:
                raise SettingsError(f"--{name} belongs to the binary task; add --task binary or leave it out")
        if self.threshold is not None and not 0 <= self.threshold < float("inf"):
            raise SettingsError(f"--threshold must be 0 or more, not {self.threshold:g}")
        if self.max_padj is not None and not 0 < self.max_padj <= 1:
            raise SettingsError(f"--max-padj must be above 0 and at most 1, not {self.max_padj:g}")
        if self.max_padj is not None and self.replicate_column is not None:
            raise SettingsError(
                "--max-padj and --replicate-column: adjusted p values of replicates cannot be averaged"
            )
        if self.task == "binary" and self.standardize is not Standardize.NONE:
            raise SettingsError("--standardize belongs to the regression task; labels 0 and 1 are not scaled")
        gene_splits = [split for split in self.splits if split is not Split.TREATMENT]
        if len(gene_splits) > 1 or len(set(self.splits)) < len(self.splits):
            raise SettingsError(
                f"--split {' --split '.join(self.splits)}: give one of chromosome, block, homology and random, "
                "and treatment beside it if treatments are held out too"
            )
        if self.block_size is not None and Split.BLOCK not in self.splits:
            raise SettingsError(
                "--block-size belongs to the split by blocks; add --split block or leave it out"
            )
        if self.splits == (Split.TREATMENT,) and any(holdout.key is None for holdout in self.parsed_holdouts):
            raise SettingsError(
                "--split treatment: hold out treatments as test=treatment:NAME or test=COLUMN:VALUE; to hold out "
                "genes as well add --split chromosome, block, homology or random"
            )

        # What was left open and has a default under these choices.
        if self.task == "binary":
            object.__setattr__(
                self, "threshold", DEFAULT_THRESHOLD if self.threshold is None else self.threshold
            )
            object.__setattr__(self, "direction", self.direction or Direction.BOTH)

    @property
    def parsed_holdouts(self) -> "list[Holdout]":
        from bioattn.promoters.splits import parse_holdouts

        return parse_holdouts(self.holdouts, Split.TREATMENT in self.splits)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparePromoters(Settings):
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

    genome: Path = argument("GENOME", "Genome FASTA: plain, gzip or bgzip.")
    annotation: Path = argument("ANNOTATION", "Genes: GFF3, GTF, BED6 or BED12, gzip too.")
    output: Path = output_option("Result to write.")
    windows: WindowSettings = options_of(WindowSettings)
    chromosome_aliases: str | None = option(
        "Table of two columns, names of the same chromosome; or auto: found by length, name and sequence, and "
        "written as X.aliases.tsv.",
        metavar="FILE|auto",
        group="Inputs",
    )
    id_attribute: str | None = option(
        "Attribute that holds the gene id [default: GFF3 locus_tag, else gene_id, else ID without gene-; "
        "GTF gene_id; BED column 4]."
    )
    operons: str | None = option(
        "Transcription units, which prepare dataset keeps on one side of the split: the most bases between "
        "genes of one strand that share one (such as 100), or a table with the columns gene and unit."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareDataset(Settings):
    """Join promoters, responses and treatments into a dataset for training, split without leakage.

    Writes X.dataset.h5 and X.dataset.audit.tsv, an audit: every gene and treatment kept or dropped, and why.

    Genes of one transcription unit (prepare promoters --operons) stay on one side of every split.
    """

    promoters: Path = argument("PROMOTERS", "Promoter FASTA; names are gene ids.")
    responses: tuple[str, ...] = argument(
        "RESPONSES",
        "TSV/CSV, gzip too: wide (genes × treatments), long, or one DESeq2/edgeR/limma table per "
        "contrast, FILE or NAME=FILE.",
    )
    output: Path = output_option("Result to write.")
    treatment_table: Path | None = option("TSV/CSV: first column treatment names, the others features.")
    settings: DatasetSettings = options_of(DatasetSettings)
    columns: ResponseColumns = options_of(ResponseColumns)
    split_table: Path | None = option(
        "TSV/CSV with the columns gene and split (train, validation, test), or the audit of another dataset, "
        "instead of --split."
    )
    proteins: Path | None = option(
        "Protein FASTA (names = genes): keep paralogues on one side and count them, for coding windows."
    )
