"""How alignments are presented to a model; part of its folder, because predictions depend on it."""

from dataclasses import dataclass

from bioattn.errors import SettingsError


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSettings:
    """Settings of the rows and columns drawn from an alignment; the defaults are AlphaFold 2's."""

    max_msa_clusters: int = 512
    """Rows of the clustered MSA at most."""
    max_extra_msa: int = 5120
    """Rows of the extra MSA at most."""
    min_extra_share: float = 0.0
    """Least fraction of the rows for the extra MSA, also where all rows would fit among the clusters."""
    masked_fraction: float = 0.15
    """Fraction of the clusters' cells that are masked."""
    weighted_rows: bool = False
    """Whether rows are drawn by their sequence weight (identity 0.8) and those drawn for neither MSA are left out;
    otherwise rows are alike, and all that are no cluster centre take part in the clusters."""
    max_gap_column: float = 1.0
    """Columns with a larger part of gaps are left out, unless the target has a residue there."""
    num_recycles: int = 3
    """Passes after the first."""
    num_samples: int = 1
    """Number of draws whose predicted distances are averaged."""

    def __post_init__(self) -> None:
        for name in ("max_msa_clusters", "max_extra_msa", "num_samples"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.num_recycles < 0:
            raise SettingsError(f"num_recycles is {self.num_recycles}; it cannot be negative")
        for name in ("min_extra_share", "masked_fraction", "max_gap_column"):
            if not 0 <= getattr(self, name) <= 1:
                raise SettingsError(f"{name} is {getattr(self, name)}; it must be between 0 and 1")
