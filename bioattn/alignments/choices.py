"""What can be chosen when alignments, contacts and templates are prepared, and the settings of these commands;
nothing here imports NumPy."""

from dataclasses import dataclass
from pathlib import Path

from bioattn.errors import SettingsError
from bioattn.io.settings import SEED, THREADS, Settings, Writes, argument, option, options_of, output_option

WEIGHT_IDENTITY = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class ContactSettings:
    """How pairs become a dataset."""

    max_depth: int | None = option(
        "Keep at most N rows of an alignment: the first and a random choice of others."
    )
    seed: int = SEED
    """Each alignment has its own random numbers, whatever else is in the table."""

    def __post_init__(self) -> None:
        if self.max_depth is not None and self.max_depth < 1:
            raise SettingsError(f"--max-depth must be at least 1, not {self.max_depth}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparationSettings:
    """Choices made when an alignment is prepared; all parts are fractions from 0 to 1."""

    query: str | None = option(
        "Centre on this row: it comes first, its residues are the columns [default: row 1].", metavar="ID"
    )
    """None: no column is given up for row 1."""
    max_gap_column: float | None = option(
        "Columns with a larger fraction of gaps become insertions.", metavar="F"
    )
    max_gap_row: float | None = option("Drop rows with a larger fraction of gaps.", metavar="F")
    min_query_identity: float | None = option(
        "Drop rows whose identity to the query is not larger (hhfilter -qid).", metavar="F"
    )
    max_identity: float | None = option(
        "Keep one of rows with a larger identity to each other (hhfilter -id).", metavar="F"
    )
    max_depth: int | None = option("Keep the query and a random choice of N − 1 other rows.", metavar="N")
    seed: int = SEED
    weight_identity: float = WEIGHT_IDENTITY
    """Rows with at least this identity share their weight in Neff."""

    def __post_init__(self) -> None:
        for name in ("max_gap_column", "max_gap_row", "min_query_identity", "max_identity"):
            value = getattr(self, name)
            flag = "--" + name.replace("_", "-")
            if value is not None and not 0 <= value <= 1:
                hint = f"; for {value:g} % write {value / 100:g}" if 1 < value <= 100 else ""
                raise SettingsError(f"{flag} is a fraction from 0 to 1, not {value:g}{hint}")
        if self.max_identity == 0:
            raise SettingsError("--max-identity 0 would leave hardly more than the query; take about 0.9")
        if self.max_depth is not None and self.max_depth < 1:
            raise SettingsError(f"--max-depth must be at least 1, not {self.max_depth}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """How a database is searched."""

    iterations: int = option("--search: at most N iterations.", default=1, metavar="N")
    """The search ends before when it finds nothing new."""
    max_evalue: float = option("--search: largest E-value of a hit.", default=1e-3, metavar="E")
    """Of a sequence, and of each of its domains, that enters the alignment."""

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise SettingsError(f"--iterations must be at least 1, not {self.iterations}")
        if not self.max_evalue > 0:
            raise SettingsError(f"--max-evalue must be above 0, not {self.max_evalue:g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareContacts(Settings):
    """Join alignments and structures into a dataset of contacts for training.

    Writes X.dataset.h5 and X.dataset.audit.tsv, an audit: every pair kept or refused, and why. File names in PAIRS
    are relative to its folder; chain is the author's (`_` = blank). Alignments: every format that `prepare msa`
    reads; structures: PDB and mmCIF; all plain, gzip or xz.

    A chain is aligned to the first row or, if that is another protein, to the closest one. A pair that cannot be
    used is left out with a warning. Without a group column, chains related by sequence form groups.
    """

    pairs: Path = argument(
        "PAIRS", "TSV/CSV with the columns id, msa, structure, and optionally chain, mapping, group, split."
    )
    output: Path = output_option("Result to write.")
    settings: ContactSettings = options_of(ContactSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareTemplates(Settings):
    """Lay known structures on a query, as templates for run evoformer --templates.

    Of each structure the chain with the most residues equal to the query's is taken (local alignment, BLOSUM62).
    AlphaFold's models take 4 templates: of more structures those with the most equal residues stay. A structure
    no chain of which is like the query (E-value above 0.01) is left out with a warning. Says coverage and identity
    of each template.
    """

    query: Path = argument("QUERY", "Protein FASTA or alignment of any format, whose row 1 is the query.")
    structures: tuple[Path, ...] = argument(
        "STRUCTURE", "PDB or mmCIF files of any name, gzip and xz too.", recorded="structure.{}"
    )
    output: Path = output_option("Result to write.")
    row: str | None = option("The query is this row, not row 1.", "--query", metavar="ID")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareMsa(Settings):
    """Filter an alignment, or build one by searching a database, and write it as A3M with its statistics.

    Steps, in this order and only if their option is given: centre on --query, --max-gap-column, --max-gap-row,
    --min-query-identity, --max-identity, --max-depth. Duplicate rows and rows without a residue are always
    removed; the query (row 1, or --query) is always kept. Removed columns become insertions, in lower case, so
    every row keeps its whole sequence. Fractions are from 0 to 1.

    Warns of alignments whose rows agree no more than by chance, or with few effective sequences (Neff).
    """

    alignment: Path = argument(
        "IN",
        "Alignment: A3M, A2M, aligned FASTA, Stockholm, Clustal, PSICOV .aln, PHYLIP, NEXUS, MSF, PIR; gzip and "
        "xz too; - for standard input. With --search: FASTA with the query.",
        recorded="",
    )
    output: Path = output_option("Result to write.")
    preparation: PreparationSettings = options_of(PreparationSettings)
    stats: Path | None = option("Write the statistics to this file.", metavar="X.json", writes=Writes.OTHER)
    databases: tuple[Path, ...] = option(
        "Build the alignment by searching this protein FASTA (jackhmmer); can be repeated.",
        "--search",
        default=(),
        metavar="DB.fasta",
        recorded="database {}",
    )
    search: SearchSettings = options_of(SearchSettings)
    threads: int | None = THREADS
