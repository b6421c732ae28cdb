"""The settings of a diffusion model and of its training; nothing here imports torch."""

from dataclasses import dataclass
from enum import StrEnum

from bioattn.choices import Noise
from bioattn.errors import SettingsError
from bioattn.io.settings import option, require
from bioattn.training.settings import UpdateConfig


class Condition(StrEnum):
    """How treatments reach the network."""

    ADAGN = "adagn"
    """They scale and shift normalised channels (adaptive group norm, Dhariwal & Nichol 2021)."""
    CROSS = "cross"
    """Positions attend to a token for each treatment and to a rest token (Rombach et al. 2022)."""
    BOTH = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffusionModelConfig:
    """Architecture of a diffusion model."""

    length: int
    """Bases of a promoter; the dataset decides it."""
    treatments: tuple[str, ...]
    """Names of the treatments; the dataset decides them."""
    noise: Noise = option("How bases are made unknown.", default=Noise.MASKED)
    condition: Condition = Condition.BOTH
    """adagn, cross or both: how treatments reach the network; time always comes by adaptive group norm."""
    frozen_channels: int = 0
    """Length of the vectors of treatments that --tokens-from takes over; 0: learned here."""
    levels: int = option(
        "Levels of a response: 2 is off and on; of more, equal shares of the training promoters, the "
        "lowest is off, the highest on.",
        default=2,
    )
    channels: int = option(
        "Channels at full resolution; each stage further down has half as many more.", default=64
    )
    stages: int = 3
    """Resolutions of the U-Net; each has half the positions of the one before."""
    blocks: int = 1
    """Residual blocks of a stage, on the way down and on the way up."""
    kernel: int = 5
    """Positions that a convolution covers."""
    num_heads: int = 2
    """Heads of the cross-attention."""
    head_channels: int = 16
    """Channels of a head."""
    dropout: float = 0.0
    """Dropout inside residual blocks."""

    def __post_init__(self) -> None:
        counts = ("length", "channels", "stages", "blocks", "kernel", "num_heads", "head_channels")
        require(self, counts, lambda value: value >= 1, "be at least 1")
        require(self, ("levels",), lambda value: value >= 2, "be at least 2")
        require(self, ("dropout",), lambda value: 0 <= value < 1, "lie in [0, 1)")
        if self.channels % 16:
            raise SettingsError(f"channels is {self.channels}; a multiple of 16 is needed")
        if not self.kernel % 2:
            raise SettingsError(f"kernel is {self.kernel}; an odd number is needed")
        if not self.treatments:
            raise SettingsError("there is no treatment")


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffusionTrainingConfig(UpdateConfig):
    """How a diffusion model is trained."""

    steps: int = option("Updates of the weights.", default=4000)
    batch_size: int = 64
    """Promoters of an update, over all processes."""
    learning_rate: float = 2e-3
    """Peak rate of AdamW."""
    weight_decay: float = 0.01
    """On matrices and filters, not on biases and norms."""
    average_decay: float = 0.998
    """How slowly the average of the weights, which is validated and kept, forgets; 0 for no average."""
    threshold: float = option(
        "With two levels, responses above it are on (not for a binary dataset).", default=0.0
    )
    drop_treatment: float = 0.1
    """Chance that a treatment is given as unknown."""
    drop_all: float = 0.1
    """Chance that all are, which is what guidance compares with."""
    validation_promoters: int = 256
    """Promoters of the validation side that every round predicts."""

    def __post_init__(self) -> None:
        UpdateConfig.__post_init__(self)
        require(self, ("validation_promoters",), lambda value: value >= 1, "be at least 1")
        require(self, ("drop_treatment", "drop_all"), lambda value: 0 <= value < 1, "lie in [0, 1)")
