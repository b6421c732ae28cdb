"""What can be chosen when inputs are simulated.

Nothing here imports NumPy.
"""

from dataclasses import dataclass
from enum import StrEnum

from bioattn.choices import Task
from bioattn.errors import SettingsError
from bioattn.io.settings import SEED, option

FAMILIES_FORMAT = "bioattn-simulated-families"
MOLECULES_FORMAT = "bioattn-simulated-molecules"
PAIRS_FORMAT = "bioattn-simulated-pairs"
PROMOTERS_FORMAT = "bioattn-simulated-promoters"
SEQUENCES_FORMAT = "bioattn-simulated-sequences"
TREES_FORMAT = "bioattn-simulated-trees"
INDEX = "simulation.json"


class Difficulty(StrEnum):
    """Which of the two published sets of promoters is made."""

    STANDARD = "standard"
    HARD = "hard"


class Rule(StrEnum):
    """When the motifs of a treatment make a promoter respond to it."""

    ANYWHERE = "anywhere"
    """One motif, wherever it stands."""
    NEAR = "near"
    """The motif of another treatment, near the gene only."""
    FAR = "far"
    """The motif of another treatment, far from the gene only."""
    OPPOSITE = "opposite"
    """Two motifs, one raises and one lowers; the other treatment of the couple answers the other way round."""
    PAIR = "pair"
    """Two motifs that are both needed."""


CONSENSUS_LENGTH = 8
MATRIX_LENGTHS = (9, 10, 11, 12)
"""Bases of motifs that are sampled from matrices."""
MIN_GAP = 1
"""Bases between neighbouring sites, so that a chance copy across two sites can be broken without touching them."""
LONE_SHARE = 0.8
"""Of the promoters without the whole pair, the share that holds one half of it."""
MAX_OCCUPANCY = 0.5
"""Largest share of a promoter that sites may cover on average."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromoterSimulation:
    """Settings of a simulation of promoters; the defaults are those of difficulty `standard`."""

    genes: int = option("Promoters.", default=3000, min=1)
    treatments: int = option(
        "Treatments; each has a motif of its own unless the options below say otherwise.", default=6, min=1
    )
    length: int = option("Bases of a promoter [default: 400, hard 1000].", default=400, min=1)
    """All upstream of the gene."""
    task: Task = option(
        "Responses as log2 fold changes (0 or ±2, plus noise) or as 0 and 1.", default=Task.REGRESSION
    )
    matrix_motifs: bool = False
    """False: 8-bp consensus motifs with substitutions; True: 9-12 bp sampled from matrices."""
    substitution_rate: float = 0.05
    """Chance that a base of a consensus motif's site is replaced."""
    presence: float = 0.5
    """Chance that a promoter responds to a treatment, drawn for each pair alone."""
    decoys: int = option("Motifs without effect, in every promoter.", default=2, min=0)
    near: int = option(
        "Treatments that answer to another treatment's motif within simulation.reach bases of the gene only.",
        default=0,
        min=0,
    )
    far: int = option(
        "Treatments that answer to another treatment's motif beyond simulation.reach bases only.",
        default=0,
        min=0,
    )
    reach: int = 150
    """Largest distance of a site's middle from the window's right end that counts as near, in bases."""
    opposites: int = option(
        "Couples of treatments that share two motifs: what raises one lowers the other.", default=0, min=0
    )
    pairs: int = option(
        "Treatments (the last ones) that need two motifs [default: 0, hard half of them].", default=0, min=0
    )
    """One motif alone has no effect."""
    noise: float = option(
        "Standard deviation added to responses [default: 0.5, hard 1], or share of labels flipped "
        "[default: 0.02, hard 0.05].",
        default=0.5,
        min=0,
    )
    background: str = "uniform"
    """Name of the DNA around the sites, of `simulate.motifs`."""
    chromosomes: int = 8
    """Chromosomes the genes are spread over."""
    seed: int = SEED

    def __post_init__(self) -> None:
        """Check the settings. Raises: SettingsError naming the option."""
        for name, low, high in (
            ("genes", 1, 1_000_000),
            ("treatments", 1, 10_000),
            ("decoys", 0, 100),
            ("near", 0, self.treatments),
            ("far", 0, self.treatments),
            ("reach", 1, self.length if self.near or self.far else self.reach),
            ("opposites", 0, self.treatments),
            ("pairs", 0, self.treatments),
            ("chromosomes", 1, self.genes),
            ("seed", 0, 2**63),
            ("presence", 0, 1),
            ("substitution_rate", 0, 0.75),
        ):
            value, flag = getattr(self, name), name.replace("_", "-")
            if not low <= value <= high:
                raise SettingsError(f"--{flag} is {value} but must be between {low} and {high:,}")
        largest = 0.5 if self.task == "binary" else 1000.0
        if not 0 <= self.noise <= largest:
            raise SettingsError(
                f"--noise is {self.noise} but must be between 0 and {largest:g} with {self.task}"
            )
        if self.plain < max(self.near, self.far):
            raise SettingsError(
                f"--near {self.near}, --far {self.far}, --opposites {self.opposites} and --pairs {self.pairs} "
                f"leave {max(self.plain, 0)} of {self.treatments} treatments whose motif acts anywhere; "
                f"{max(self.near, self.far)} are needed, as near and far use their motifs"
            )
        if self.opposites and self.task == "binary":
            raise SettingsError("--opposites: responses of 0 and 1 have no sign; use --task regression")
        width = max(MATRIX_LENGTHS) if self.matrix_motifs else CONSENSUS_LENGTH
        per_pair = 2 * self.presence + (1 - self.presence) * LONE_SHARE
        single = self.plain + 2 * self.opposites
        sites = self.decoys + single * self.presence + self.pairs * per_pair
        at_most = self.decoys + single + 2 * self.pairs
        if sites * width > MAX_OCCUPANCY * self.length or at_most * (width + MIN_GAP) > self.length:
            raise SettingsError(
                f"--length {self.length} is too short for about {sites:.0f} and up to {at_most} sites of "
                f"{width} bp in a promoter; ask for longer promoters or fewer treatments, pairs or decoys"
            )

    @property
    def plain(self) -> int:
        """Treatments (the first ones) with one motif that acts anywhere."""
        return self.treatments - self.near - self.far - 2 * self.opposites - self.pairs
