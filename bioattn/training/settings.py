"""The settings that all trainings share: options of the command, and how weights are updated. No torch here."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from bioattn.io.settings import (
    CONFIG,
    FORCE,
    RESUME,
    SEED,
    THREADS,
    Settings,
    Writes,
    option,
    output_option,
    require,
    table,
)
from bioattn.system.device import DEVICE, Device, Precision


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCommand(Settings):
    """The options of every `train` command; a family adds its own."""

    more_help: ClassVar[str] = (
        "Settings come from the defaults, then --config, then the options here. Ctrl-C or SIGTERM finishes the "
        "step and saves; --resume continues, to the same weights as an uninterrupted run."
    )
    output: Path = output_option("Model folder to write.", Writes.FOLDER)
    config: tuple[Path, ...] = CONFIG
    device: Device = DEVICE
    threads: int | None = THREADS
    log_dir: str | None = option("", wanted="a folder for TensorBoard events (pip install tensorboard)")
    resume: bool = RESUME
    force: bool = FORCE
    model: Mapping[str, Any] = table()
    training: Mapping[str, Any] = table()


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimiserConfig:
    """How weights are updated; a family adds its own settings and has other defaults."""

    seed: int = SEED
    learning_rate: float = 1e-3
    """Peak rate of AdamW."""
    weight_decay: float = 0.1
    """On matrices and filters, not on biases, norms and embeddings."""
    warmup_fraction: float = 0.05
    """Share of all steps (of a stage) in which the rate rises from zero; then it falls along a cosine."""
    average_decay: float = 0.99
    """How slowly the average of the weights, which is validated and kept, forgets; 0 for no average."""
    gradient_clip: float = 1.0
    """Largest norm of the gradient."""
    patience: int = 10
    """Rounds (or epochs) without improvement on validation data before training stops."""
    precision: Precision = Precision.FP32
    """fp32 or bf16 (autocast)."""

    def __post_init__(self) -> None:
        require(self, ("patience",), lambda value: value >= 1, "be at least 1")
        require(self, ("learning_rate", "gradient_clip"), lambda value: value > 0, "be above 0")
        require(self, ("warmup_fraction",), lambda value: 0 <= value <= 1, "lie between 0 and 1")
        # An average that forgets nothing would stay at the first weights.
        require(self, ("average_decay",), lambda value: 0 <= value < 1, "lie in [0, 1)")
        require(self, ("weight_decay",), lambda value: value >= 0, "not be negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateConfig(OptimiserConfig):
    """Updates in rounds of equal steps."""

    steps: int = option("Updates of the weights.", default=2000, min=1)
    steps_per_round: int = 200
    """Updates after which the model is validated and saved."""
    batch_size: int = 16
    """Samples of an update, over all processes."""

    def __post_init__(self) -> None:
        OptimiserConfig.__post_init__(self)
        counts = ("steps", "steps_per_round", "batch_size")
        require(self, counts, lambda value: value >= 1, "be at least 1")
