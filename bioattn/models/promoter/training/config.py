"""The settings of a training run: everything that decides its weights, nothing of the model's shape."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from bioattn.choices import Noise
from bioattn.io.config_file import require
from bioattn.system.device import Precision


class Loss(StrEnum):
    """What training minimises over the measured cells."""

    MSE = "mse"
    HUBER = "huber"
    BINARY = "binary"


class Metric(StrEnum):
    """What early stopping watches on the validation cells; the best epoch's weights are kept."""

    LOSS = "loss"
    PEARSON = "pearson"
    SPECIFIC_PEARSON = "specific-pearson"
    AUROC = "auroc"
    AVERAGE_PRECISION = "average-precision"


class FirstFilters(StrEnum):
    """What the first layer's filters are before training."""

    KMERS = "kmers"
    """Half of them k-mers that the responses of the training genes follow, if there are any; the rest random."""
    RANDOM = "random"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingConfig:
    """How a promoter model is trained."""

    seed: int = 0
    """Decides first weights, order, shifts, sampled treatments and dropout."""
    epochs: int = 40
    """Passes over the training genes at most."""
    batch_size: int = 64
    """Promoters per step, over all processes."""
    micro_batch_size: int | None = None
    """Promoters of one forward and backward pass in a process (gradient accumulation); default its whole share of
    the batch."""
    learning_rate: float = 2e-3
    """Peak rate of AdamW."""
    weight_decay: float = 0.1
    """On matrices and filters, not on biases and norms."""
    warmup_fraction: float = 0.1
    """Share of all steps in which the rate rises from zero; then it falls along a cosine."""
    average_decay: float = 0.99
    """How slowly the average of the weights, which is validated and kept, forgets; 0 for no average."""
    gradient_clip: float = 1.0
    """Largest norm of the gradient."""
    loss: Loss | None = None
    """mse (default for regression), huber or binary (default for binary)."""
    huber_delta: float = 1.0
    """Where huber turns linear, in standard deviations of the targets."""
    metric: Metric | None = None
    """What early stopping watches; pearson by default, auroc for binary."""
    patience: int = 10
    """Epochs without improvement before training stops."""
    unconditional_probability: float = 0.1
    """Share of the treatments dropped in training (classifier-free); 0 for a model without that token."""
    treatments_per_step: int | None = None
    """Treatments sampled per step; default all for cross and concat, 8 for film and cross-all."""
    max_shift: int | None = None
    """Largest random shift of the window in bases; default the flank of the dataset."""
    reverse_complement: bool = False
    """Whether half of the training windows are reverse complements."""
    noise: Noise | None = None
    """masked or gaussian: promoters have the noise of diffusion models (for `generate promoters --classifier`)."""
    attention_entropy: float = 0.0
    """Price of the mean entropy of the attention weights (1 = uniform) at the end of training, in units of the
    loss."""
    first_filters: FirstFilters = FirstFilters.KMERS
    """kmers (half of them start from k-mers that the responses follow; conv stem) or random."""
    warm_start: bool = False
    """Start the kmer stem and the linear readout from a ridge by component (`cross`, regression)."""
    precision: Precision = Precision.FP32
    """fp32 or bf16 (autocast)."""

    def __post_init__(self) -> None:
        counts = ("epochs", "batch_size", "patience", "micro_batch_size", "treatments_per_step")
        require(self, counts, lambda value: value >= 1, "be at least 1")
        require(
            self, ("learning_rate", "gradient_clip", "huber_delta"), lambda value: value > 0, "be above 0"
        )
        shares = ("warmup_fraction", "unconditional_probability", "average_decay")
        require(self, shares, lambda value: 0 <= value < 1, "lie in [0, 1)")
        at_least_0 = ("weight_decay", "attention_entropy", "max_shift")
        require(self, at_least_0, lambda value: value >= 0, "not be negative")

    def decisive(self) -> dict[str, Any]:
        """The settings that weights follow from, as records have them; a run may go on with the others changed."""
        return {name: value for name, value in asdict(self).items() if name != "micro_batch_size"}
