"""What can be chosen when alignments and contacts are prepared; nothing here imports NumPy."""

from dataclasses import dataclass

from bioattn.errors import SettingsError
from bioattn.io.settings import SEED, option

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
