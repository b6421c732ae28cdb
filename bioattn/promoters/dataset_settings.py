"""Everything that can be chosen when a dataset is made, and what cannot go together."""

from dataclasses import dataclass

from bioattn.choices import Task
from bioattn.errors import SettingsError
from bioattn.promoters.choices import Direction, Split, Standardize
from bioattn.promoters.splits import Holdout, parse_holdouts

DEFAULT_THRESHOLD = 1.0
DEFAULT_BLOCK = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetSettings:
    """Choices made when a dataset is built."""

    task: Task = Task.REGRESSION
    """`regression`, or `binary`: 1 where a response passes the threshold."""
    threshold: float | None = None
    """Binary: smallest |response| that counts; None = 1 (a twofold change in log2)."""
    direction: Direction | None = None
    """Binary: which way; None = both."""
    max_padj: float | None = None
    """Largest adjusted p. Regression: other values become missing. Binary: other values count as 0. Values without
    an adjusted p become missing in both (they were not tested)."""
    splits: tuple[Split, ...] = ()
    """At most one of chromosome, block, homology and random, and treatment; empty = what the holdouts speak of,
    without any chromosome where there are enough of them, else homology."""
    holdouts: tuple[str, ...] = ()
    """`test=IV,XV`, `validation=0.1`, `test=group:heat_shock`; see `splits.parse_holdouts`."""
    block_size: int | None = None
    """Bases of a block of the block split; None = `DEFAULT_BLOCK`."""
    replicate_column: str | None = None
    """Column of the treatment table; samples that share its value are averaged into one treatment of that name."""
    standardize: Standardize = Standardize.NONE
    seed: int = 0

    def __post_init__(self) -> None:
        if self.task not in ("regression", "binary"):
            raise SettingsError(f"--task must be regression or binary, not {self.task!r}")
        if self.task == "regression" and (self.threshold is not None or self.direction is not None):
            option = "--threshold" if self.threshold is not None else "--direction"
            raise SettingsError(f"{option} belongs to the binary task; add --task binary or leave it out")
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

    @property
    def effective_threshold(self) -> float | None:
        """The threshold in force; None for regression."""
        default = DEFAULT_THRESHOLD if self.task == "binary" else None
        return default if self.threshold is None else self.threshold

    @property
    def effective_direction(self) -> Direction | None:
        """The direction in force; None for regression."""
        return self.direction or (Direction.BOTH if self.task == "binary" else None)

    @property
    def effective_block_size(self) -> int:
        """Bases of a block of the block split."""
        return self.block_size or DEFAULT_BLOCK

    @property
    def parsed_holdouts(self) -> list[Holdout]:
        return parse_holdouts(self.holdouts, Split.TREATMENT in self.splits)

    @property
    def gene_holdouts(self) -> list[Holdout]:
        return [holdout for holdout in self.parsed_holdouts if holdout.key is None]

    @property
    def treatment_holdouts(self) -> list[Holdout]:
        return [holdout for holdout in self.parsed_holdouts if holdout.key is not None]
