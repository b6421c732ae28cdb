"""The settings of a translation model and of its training; nothing here imports torch."""

from dataclasses import dataclass
from enum import StrEnum

from bioattn.attention.choices import AttentionScore
from bioattn.errors import SettingsError
from bioattn.io.settings import option, require
from bioattn.sequences.choices import PairAlphabet
from bioattn.training.settings import UpdateConfig


class Architecture(StrEnum):
    """What reads the source and writes the target."""

    RECURRENT = "recurrent"
    """A decoder that knows the source by one vector of fixed size (Sutskever et al. 2014, Cho et al. 2014)."""
    RECURRENT_ATTENTION = "recurrent-attention"
    """A recurrent decoder that attends to the source at every step (Bahdanau et al. 2014)."""
    TRANSFORMER = "transformer"
    """Self-attention in encoder and decoder (Vaswani et al. 2017)."""
    TURING_MACHINE = "turing-machine"
    """A controller with a memory that it reads and writes by moving heads (Graves et al. 2014)."""


class Cell(StrEnum):
    """Recurrent cells."""

    GRU = "gru"
    LSTM = "lstm"


class Encoder(StrEnum):
    """What reads the source for a recurrent decoder."""

    BIDIRECTIONAL = "bidirectional"
    """The cell, in both directions."""
    CONV = "conv"
    """Convolutions, over whose map the decoder looks (Show, Attend and Tell, Xu et al. 2015)."""


UNUSED = {
    Architecture.RECURRENT: {"score", "input_feeding"},
    Architecture.RECURRENT_ATTENTION: set[str](),
    Architecture.TRANSFORMER: {"cell", "encoder", "score", "input_feeding", "aligned", "kernel"},
    Architecture.TURING_MACHINE: {
        "encoder",
        "score",
        "input_feeding",
        "aligned",
        "kernel",
        "layers",
        "reach",
    },
}
"""Settings that an architecture has no use for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslationModelConfig:
    """Architecture of a translation model."""

    source_alphabet: PairAlphabet
    """What sources are made of; the dataset decides it."""
    target_alphabet: PairAlphabet
    """What targets are made of; the dataset decides it."""
    source_characters: str = ""
    """Characters of the sources (alphabet characters); the dataset decides it."""
    target_characters: str = ""
    """Characters of the targets (alphabet characters); the dataset decides it."""
    longest_source: int = 0
    """Tokens of the longest source that was trained on; the dataset and `longest` decide it."""
    architecture: Architecture = option("What the model is.", default=Architecture.RECURRENT_ATTENTION)
    cell: Cell | None = None
    """gru or lstm; default gru for recurrent models, none for a Turing machine's controller."""
    encoder: Encoder = Encoder.BIDIRECTIONAL
    """bidirectional or conv (recurrent)."""
    score: AttentionScore = AttentionScore.ADDITIVE
    """additive, dot or gaussian: how recurrent decoders score source tokens; a transformer takes dot."""
    input_feeding: bool = False
    """Whether a recurrent decoder reads what it attended to in the step before (Luong et al. 2015); slower."""
    aligned: bool = False
    """Whether a recurrent decoder also reads the source at the position of the token that it writes."""
    layers: int = option("Layers of the encoder, and of the decoder.", default=2)
    channels: int = option("Channels of a token.", default=128)
    num_heads: int = 4
    """Attention heads; each has channels / num_heads channels. A Turing machine has so many read heads and one
    write head."""
    slots: int = 64
    """Slots of a Turing machine's memory; two for each source token where that is more."""
    slot_channels: int = 20
    """Numbers in a slot."""
    kernel: int = 5
    """Tokens that a convolution of the encoder covers."""
    reach: int = 8
    """Distance between step and source token up to which attention logits have a learned bias, from the source's
    start and end; 0: no bias."""
    dropout: float = 0.0
    """Dropout of embeddings and between layers."""

    def __post_init__(self) -> None:
        counts = ("layers", "num_heads", "kernel", "slots", "slot_channels")
        require(self, counts, lambda value: value >= 1, "be at least 1")
        require(self, ("channels",), lambda value: value >= 2, "be at least 2")
        require(self, ("longest_source", "reach"), lambda value: value >= 0, "not be negative")
        require(self, ("dropout",), lambda value: 0 <= value < 1, "lie in [0, 1)")
        if self.channels % (2 * self.num_heads):
            raise SettingsError(
                f"channels is {self.channels}; 2 × num_heads = {2 * self.num_heads} must divide it"
            )
        if not self.kernel % 2:
            raise SettingsError(f"kernel is {self.kernel}; an odd number is needed")


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslationTrainingConfig(UpdateConfig):
    """How a translation model is trained, with the true prefix given at every step (teacher forcing).

    A batch holds pairs of like length.
    """

    learning_rate: float = 2e-3
    """Peak rate of AdamW."""
    weight_decay: float = 0.01
    """On matrices, not on biases and norms."""
    longest: int = 1000
    """Pairs with more tokens on either side are not trained on."""
    grow_every: int = 0
    """Updates after which sources may be one token longer, from one token on; 0: all at once."""
    validation_pairs: int = 128
    """Pairs of the validation side that every round predicts, spread evenly."""

    def __post_init__(self) -> None:
        UpdateConfig.__post_init__(self)
        require(self, ("longest", "validation_pairs"), lambda value: value >= 1, "be at least 1")
        require(self, ("grow_every",), lambda value: value >= 0, "not be negative")
