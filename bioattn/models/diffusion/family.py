"""The family of diffusion models: its architecture, its training, and the settings of its commands."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from bioattn.choices import Noise
from bioattn.errors import SettingsError
from bioattn.io.settings import RUNNING, Settings, Writes, argument, option, output_option, require, table
from bioattn.models.family import Family, imported
from bioattn.models.running import ResumableCommand
from bioattn.training.settings import TrainingCommand, UpdateConfig


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
    noise: Noise = Noise.MASKED
    """How bases are made unknown: masked or gaussian."""
    condition: Condition = Condition.BOTH
    """adagn, cross or both: how treatments reach the network; time always comes by adaptive group norm."""
    frozen_channels: int = 0
    """Length of the vectors of treatments that --tokens-from takes over; 0: learned here."""
    levels: int = 2
    """Levels of a response: 2 is off and on; of more, equal shares of the training promoters, the lowest is off,
    the highest on."""
    channels: int = 64
    """Channels at full resolution; each stage further down has half as many more."""
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

    steps: int = option("Updates of the weights.", default=4000, min=1)
    batch_size: int = 64
    learning_rate: float = 2e-3
    weight_decay: float = 0.01
    average_decay: float = 0.998
    threshold: float = 0.0
    """With two levels, responses above it are on (not for a binary dataset)."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PromoterGeneration(ResumableCommand):
    """Write new promoters for chosen treatments.

    Treatments that neither --treatment nor --not names are left open. The description of each design says what was
    asked for, the seed and the model. The same seed writes the same designs; an interrupted run goes on with
    --resume, and the FASTA files of shards are joined with `cat`. Designs are sequences like those of the training
    that a model expects to respond; whether they do, only an experiment tells (SECURITY.md).
    """

    model: Path = argument("MODEL", "Folder of a trained diffusion model.", recorded_file="model.safetensors")
    output: Path = output_option("FASTA to write.", Writes.FILE)
    treatments: tuple[str, ...] = option(
        "A treatment that designs are to respond to; can be repeated.",
        "--treatment",
        default=(),
        metavar="NAME",
    )
    without: tuple[str, ...] = option(
        "A treatment that they are not to respond to; can be repeated.", "--not", default=(), metavar="NAME"
    )
    number: int = option("Designs.", "--number", "-n", default=100, min=1)
    guidance: float = option(
        "How much further than the model expects designs go towards the treatments; 0: no guidance.",
        default=2.0,
        min=0,
    )
    classifier: Path | None = option(
        "A promoter model trained with noise as MODEL has it, which --guidance follows instead of MODEL itself.",
        metavar="FOLDER",
        recorded_file="model.safetensors",
    )
    steps: int = option("Steps from noise to promoter.", default=64, min=1)
    length: int | None = option("Bases of a design [default: as in training].", min=8)
    keep: Path | None = option("FASTA of one promoter, parts of which stay.", metavar="FASTA")
    parts: Path | None = option("With --keep: the parts that stay.", metavar="BED")
    attention: Path | None = option(
        "Also write the attention of every step here as HDF5.", writes=Writes.FILE
    )
    trajectory: Path | None = option(
        "Also write the designs after every step here: FASTA, N where a base is hidden.", writes=Writes.FILE
    )
    seed: int = option("Seed of the draws.", default=0, min=0)
    force: bool = option("Drop the parts of an interrupted run.", default=False, group=RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffusionTraining(TrainingCommand):
    """Train a model that writes promoters for chosen treatments.

    The model learns to restore noised promoters, given the treatments that they respond to.
    docs/models/diffusion.md explains the tables [model] and [training] of --config. Prints bits per base on
    held-out promoters.
    """

    dataset: Path = argument("DATASET", "Dataset of `bioattn prepare dataset`.")
    tokens_from: Path | None = option(
        "Folder of a model that knows the treatments, such as `train promoter` makes, and gives their vectors, "
        "which stay as they are [default: learned].",
        metavar="FOLDER",
        recorded_file="model.safetensors",
    )
    model: Mapping[str, Any] = table(DiffusionModelConfig)
    training: Mapping[str, Any] = table(DiffusionTrainingConfig)


class DiffusionFamily(Family):
    name = "diffusion"
    title = "promoters written for chosen treatments, with where each treatment wrote"
    settings: Mapping[str, type[Settings]] = {"train": DiffusionTraining, "generate": PromoterGeneration}
    nouns: Mapping[str, str] = {"generate": "promoters"}

    load = imported("diffusion.run", "load_denoiser")
    task = imported("diffusion.task", "DiffusionTask")
    generate = imported("diffusion.run", "generate")
    export_attention = imported("diffusion.maps", "export_attention")


FAMILY = DiffusionFamily()
