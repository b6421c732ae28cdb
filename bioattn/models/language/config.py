"""The settings of a language model and of its training; nothing here imports torch."""

from dataclasses import dataclass
from enum import StrEnum

from bioattn.attention.choices import PositionEncoding
from bioattn.errors import SettingsError
from bioattn.io.config_file import require
from bioattn.sequences.choices import Alphabet
from bioattn.system.precision import Precision


class Shape(StrEnum):
    """Which parts of a transformer a model has, and so what it is trained to do."""

    ENCODER = "encoder"
    """Every token sees all others; masked tokens are restored (BERT)."""
    DECODER = "decoder"
    """Every token sees those before it; the next token is predicted (GPT)."""
    ENCODER_DECODER = "encoder-decoder"
    """A decoder that also sees all of an encoder; masked spans are restored (T5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModelConfig:
    """Architecture of a language model."""

    alphabet: Alphabet
    """What sequences are made of; the dataset decides it."""
    kmer: int = 1
    """Bases of a token of DNA; the dataset decides it."""
    shape: Shape = Shape.ENCODER
    """encoder, decoder or encoder-decoder."""
    positions: PositionEncoding = PositionEncoding.ROTARY
    """none, sinusoidal, learned or rotary."""
    layers: int = 6
    """Layers of the encoder, and of the decoder."""
    channels: int = 192
    """Channels of a token."""
    num_heads: int = 6
    """Attention heads; each has channels / num_heads channels."""
    hidden_channels: int = 768
    """Width of the feed-forward networks."""
    context: int = 256
    """Most tokens read at once, special ones counted."""
    dropout: float = 0.0
    """Dropout of what each attention and feed-forward network adds."""
    sentinels: int = 32
    """Tokens that stand for masked spans (encoder-decoder)."""

    def __post_init__(self) -> None:
        sizes = ("kmer", "layers", "channels", "num_heads", "hidden_channels", "sentinels")
        require(self, sizes, lambda value: value >= 1, "be at least 1")
        require(self, ("context",), lambda value: value >= 8, "be at least 8")
        require(self, ("dropout",), lambda value: 0 <= value < 1, "lie in [0, 1)")
        if self.channels % self.num_heads:
            raise SettingsError(f"channels is {self.channels}; num_heads = {self.num_heads} must divide it")
        if self.positions is PositionEncoding.ROTARY and self.channels // self.num_heads % 2:
            raise SettingsError(
                f"positions = rotary needs heads of an even number of channels, not {self.head_channels}"
            )
        if self.positions is PositionEncoding.SINUSOIDAL and self.channels % 2:
            raise SettingsError(
                f"positions = sinusoidal needs an even number of channels, not {self.channels}"
            )

    @property
    def head_channels(self) -> int:
        """Channels of a head."""
        return self.channels // self.num_heads


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageTrainingConfig:
    """How a language model is trained."""

    seed: int = 0
    """Decides first weights, windows, strands, masks and dropout."""
    steps: int = 2000
    """Updates of the weights."""
    steps_per_round: int = 200
    """Updates after which the model is validated and saved."""
    batch_size: int = 16
    """Windows of an update, over all processes."""
    learning_rate: float = 1e-3
    """Peak rate of AdamW."""
    weight_decay: float = 0.1
    """On matrices, not on biases, norms and embeddings."""
    warmup_fraction: float = 0.05
    """Share of all steps in which the rate rises from zero; then it falls along a cosine."""
    average_decay: float = 0.99
    """How slowly the average of the weights, which is validated and kept, forgets; 0 for no average."""
    gradient_clip: float = 1.0
    """Largest norm of the gradient."""
    patience: int = 10
    """Rounds without improvement before training stops."""
    masked: float = 0.15
    """Share of the tokens that are to be restored (encoder, encoder-decoder)."""
    span: float = 3.0
    """Mean tokens of a masked span (encoder-decoder)."""
    reverse_complement: bool = True
    """Whether half of the windows are read from the other strand (DNA)."""
    validation_windows: int = 128
    """Windows of the validation side that every round predicts, spread evenly."""
    precision: Precision = Precision.FP32
    """fp32 or bf16 (autocast)."""

    def __post_init__(self) -> None:
        counts = ("steps", "steps_per_round", "batch_size", "patience", "validation_windows")
        require(self, counts, lambda value: value >= 1, "be at least 1")
        require(self, ("learning_rate", "gradient_clip"), lambda value: value > 0, "be above 0")
        require(self, ("warmup_fraction", "average_decay"), lambda value: 0 <= value < 1, "lie in [0, 1)")
        require(self, ("weight_decay",), lambda value: value >= 0, "not be negative")
        require(self, ("masked",), lambda value: 0 < value < 1, "lie between 0 and 1")
        require(self, ("span",), lambda value: value >= 1, "be at least 1")
