"""The settings of a molecule model and of its training; nothing here imports torch."""

from dataclasses import dataclass

from bioattn.choices import Task
from bioattn.errors import SettingsError
from bioattn.io.settings import option, require
from bioattn.models.molecule_settings import MoleculeEncoderConfig, MoleculeEncoding
from bioattn.training.settings import UpdateConfig

DATASET_GIVES = ("task", "tasks", "mean", "spread", "scale", "measured")
"""Fields of `MoleculeModelConfig` that the dataset decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoleculeModelConfig(MoleculeEncoderConfig):
    """Architecture of a molecule model."""

    encoder: MoleculeEncoding = option("What reads a molecule.", default=MoleculeEncoding.ATTENTION)
    task: Task = Task.REGRESSION
    """regression or binary; the dataset decides it."""
    tasks: tuple[str, ...] = ()
    """What is predicted; the dataset decides it."""
    mean: tuple[float, ...] = ()
    """Of each task's training values (regression); the dataset decides it."""
    spread: tuple[float, ...] = ()
    """Standard deviation of each task's training values (regression); the dataset decides it."""
    scale: float = 1.0
    """What atoms write together is multiplied by it; the dataset decides it."""
    gaussian_process: bool = True
    """Whether answers begin with a Gaussian process on shared substructures, to which the network adds."""
    measured: int = 0
    """Molecules that the Gaussian process compares with; the dataset decides it."""
    hidden: int = 128
    """Units of the hidden layer beside the linear one; 0: none, so that what atoms contribute adds up."""

    def __post_init__(self) -> None:
        MoleculeEncoderConfig.__post_init__(self)
        require(self, ("hidden", "measured"), lambda value: value >= 0, "not be negative")
        if self.gaussian_process and not self.radius:
            raise SettingsError(
                "radius is 0 with gaussian_process, whose substructures reach one bond; give 1 or more"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class MoleculeTrainingConfig(UpdateConfig):
    """How a molecule model is trained. A batch holds molecules of like size."""

    steps: int = option("Updates of the weights.", default=800)
    steps_per_round: int = 100
    """Updates after which the model is validated and saved."""
    batch_size: int = 32
    """Molecules of an update, over all processes."""
    learning_rate: float = 1e-3
    """Peak rate of AdamW."""
    weight_decay: float = 0.01
    """On matrices, not on biases and norms."""
