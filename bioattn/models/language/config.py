"""The settings of a language model and of its training; nothing here imports torch."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from bioattn.choices import PositionEncoding
from bioattn.errors import SettingsError
from bioattn.io.settings import option, require
from bioattn.sequences.choices import Alphabet
from bioattn.training.settings import UpdateConfig

PUBLISHED = ("esm", "esmc", "bert", "gpt2", "t5")
"""The `model_type` of published models that are read."""


def published_type(content: Mapping[str, Any]) -> str | None:
    """The architecture that a `config.json` names, if it is one that is read here."""
    name = content.get("model_type")
    if name is None:  # of some models whose code lies in their repository the class alone is named
        classes = " ".join(classes_in(content)).lower()
        name = next((kind for kind in PUBLISHED if re.search(rf"\b{kind}(for|model)", classes)), None)
    return name if name in PUBLISHED and "format" not in content else None


def classes_in(content: Mapping[str, Any]) -> list[str]:
    """The classes of models that a `config.json` names."""
    classes = content.get("architectures")
    return list(map(str, classes)) if isinstance(classes, list) else []


class Shape(StrEnum):
    """Which parts of a transformer a model has, and so what it is trained to do."""

    ENCODER = "encoder"
    """Every token sees all others; masked tokens are restored (BERT)."""
    DECODER = "decoder"
    """Every token sees those before it; the next token is predicted (GPT)."""
    ENCODER_DECODER = "encoder-decoder"
    """A decoder that also sees all of an encoder; masked spans are restored (T5)."""


class Pool(StrEnum):
    """What of a sequence's tokens stands for the sequence."""

    MEAN = "mean"
    """The mean over all words."""
    CLS = "cls"
    """The token before the first word; in a decoder, where it sees nothing, the last one."""


class Score(StrEnum):
    """How an encoder is asked how likely a sequence is; a decoder always gives each word that of those before."""

    NONE = "none"
    ONE_PASS = "one-pass"
    """The probabilities of the words that it reads, unmasked."""
    MASKED = "masked"
    """Each word is masked in turn (pseudo-likelihood, Salazar et al. 2020)."""


class PredictedFrom(StrEnum):
    """What a fine-tuned model predicts a whole sequence's targets from."""

    MEAN = "mean"
    """The mean over all words."""
    CLS = "cls"
    """The token before the first word; in a decoder `<eos>`."""
    VARYING = "varying"
    """The words at all positions at which training sequences differ, side by side (sequences of one length)."""


class Activation(StrEnum):
    """What the hidden channels of a feed-forward network go through."""

    GELU = "gelu"
    GELU_TANH = "gelu_tanh"
    """Its approximation by a hyperbolic tangent (GPT-2)."""
    RELU = "relu"
    SILU = "silu"


class Norm(StrEnum):
    """How channels are normalised."""

    LAYER = "layer"
    """Minus their mean, over their standard deviation (Ba et al. 2016)."""
    RMS = "rms"
    """Over their root mean square (Zhang and Sennrich 2019)."""


class Output(StrEnum):
    """What makes logits of the channels behind the last layer."""

    PLAIN = "plain"
    """A matrix and a bias."""
    DENSE = "dense"
    """A linear layer, the activation and a norm come before it (BERT)."""
    NONE = "none"
    """Nothing: the model gives embeddings and attention, and no probabilities."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How a published architecture differs from what is trained here, which the defaults are."""

    norm: Norm = Norm.LAYER
    epsilon: float = 1e-5
    """Added to the variance in norms."""
    post_norm: bool = False
    """Sums are normalised (BERT), and not what goes into attention and feed-forward networks."""
    embedding_norm: bool = False
    """Embeddings are normalised."""
    activation: Activation = Activation.GELU
    gated: bool = False
    """The activated channels are multiplied with further ones (Shazeer 2020); the activation of a dense output
    layer is then gelu."""
    head_channels: int | None = None
    """Channels of a head; left out: channels / num_heads."""
    key_bias: bool = False
    """Keys have a bias."""
    frequencies: tuple[float, ...] = ()
    """Radians per position of each pair of rotated channels; none: the usual ones."""
    buckets: int = 0
    """Buckets of distances with a bias of their own (`RelativePositions`); 0 for no such biases."""
    farthest: int = 128
    """Distance from which on all share the last bucket."""
    decoder_layers: int | None = None
    """Of an encoder-decoder's decoder; left out: as many as of its encoder."""
    slopes: bool = False
    """Logits fall in proportion to the distance, in a half of the heads steeply (`sloping_bias`)."""
    query_norm: bool = False
    """Queries and keys are normalised, the channels of all heads together, before they are rotated."""
    token_dropout: bool = False
    """Embeddings of `<mask>` are 0, and the others scaled as if 12 % were (ESM)."""
    output: Output = Output.PLAIN
    tied: bool = True
    """The matrix of the output is that of the embeddings."""
    contacts: bool = False
    """A regression from the heads' maps to contacts comes along (ESM-2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModelConfig:
    """Architecture of a language model."""

    alphabet: Alphabet
    """What sequences are made of; the dataset decides it."""
    kmer: int = 1
    """Bases of a token of DNA; the dataset decides it."""
    shape: Shape = option("What the model is.", default=Shape.ENCODER)
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
    ngram: int = 1
    """Tokens of the n-grams that are embedded beside each token (decoder); 1 for none."""
    period: int = 0
    """Positions of one phase share a learned vector: 3 for reading frames; 0 for none."""
    form: Form = field(default_factory=Form)
    """What published models have differently; models trained here do without."""

    def __post_init__(self) -> None:
        sizes = ("kmer", "layers", "channels", "num_heads", "hidden_channels", "sentinels", "ngram")
        require(self, sizes, lambda value: value >= 1, "be at least 1")
        require(
            self, ("context",), lambda value: 8 <= value <= 1_000_000, "be at least 8, and at most 1,000,000"
        )
        require(self, ("dropout",), lambda value: 0 <= value < 1, "lie in [0, 1)")
        require(self, ("period",), lambda value: value >= 0, "not be negative")
        if self.ngram > 1 and self.shape is not Shape.DECODER:
            raise SettingsError(f"ngram is {self.ngram}: only a decoder reads tokens as n-grams")
        if self.alphabet is Alphabet.ALIGNMENT and self.shape is Shape.ENCODER_DECODER:
            raise SettingsError("shape = encoder-decoder: rows of an alignment need an encoder or a decoder")
        if self.channels % self.num_heads and self.form.head_channels is None:
            raise SettingsError(f"channels is {self.channels}; num_heads = {self.num_heads} must divide it")
        if self.positions is PositionEncoding.ROTARY and self.head_channels % 2:
            raise SettingsError(
                f"positions = rotary needs heads of an even number of channels, not {self.head_channels}"
            )
        if self.form.frequencies and len(self.form.frequencies) != self.head_channels // 2:
            raise SettingsError(
                f"frequencies has {len(self.form.frequencies)} values; a head has {self.head_channels // 2} pairs"
            )
        if self.positions is PositionEncoding.SINUSOIDAL and self.channels % 2:
            raise SettingsError(
                f"positions = sinusoidal needs an even number of channels, not {self.channels}"
            )

    @property
    def head_channels(self) -> int:
        return self.form.head_channels or self.channels // self.num_heads

    def to_json(self) -> dict[str, Any]:
        """JSON values, `form` only where it is not the usual one."""
        fields = asdict(self)
        if self.form == Form():
            del fields["form"]
        return fields


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageTrainingConfig(UpdateConfig):
    """How a language model is trained."""

    masked: float = 0.15
    """Share of the tokens that are to be restored (encoder, encoder-decoder)."""
    span: float = 3.0
    """Mean tokens of a masked span (encoder-decoder)."""
    reverse_complement: bool = True
    """Whether half of the windows are read from the other strand (DNA)."""
    validation_windows: int = 128
    """Windows of the validation side that every round predicts, spread evenly."""

    def __post_init__(self) -> None:
        UpdateConfig.__post_init__(self)
        require(self, ("validation_windows",), lambda value: value >= 1, "be at least 1")
        require(self, ("masked",), lambda value: 0 < value < 1, "lie between 0 and 1")
        require(self, ("span",), lambda value: value >= 1, "be at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class FineTuningConfig(UpdateConfig):
    """How a language model learns the columns of a table (`--targets`)."""

    steps: int = 600
    steps_per_round: int = 50
    batch_size: int = 32
    learning_rate: float = 3e-4
    pool: PredictedFrom = PredictedFrom.CLS
    """Channels from which whole sequences are predicted: cls (in a decoder `<eos>`), mean (over the words) or
    varying (all positions at which training sequences differ)."""
    readout_channels: int = 0
    """Width of a hidden layer before the outputs; 0 for none."""
    lora: int = option(
        "Rank of low-rank adapters that are trained instead of all weights [default: none].", default=0, min=1
    )
    alpha: float = 16.0
    """Adapters are multiplied by alpha / lora."""
    replaced: float = 0.0
    """Share of the words of training sequences that are shown as random ones."""

    def __post_init__(self) -> None:
        UpdateConfig.__post_init__(self)
        require(self, ("lora", "readout_channels"), lambda value: value >= 0, "not be negative")
        require(self, ("alpha",), lambda value: value > 0, "be above 0")
        require(self, ("replaced",), lambda value: 0 <= value < 1, "lie in [0, 1)")


class TargetKind(StrEnum):
    """What a column of targets holds."""

    NUMBER = "number"
    """A number of each sequence."""
    CLASS = "class"
    """A class of each sequence."""
    TAGS = "tags"
    """A letter of each token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A column that a model was fine-tuned on."""

    name: str
    kind: TargetKind
    mean: float = 0.0
    """Of the training sequences; the model predicts numbers less it, in units of `sd`."""
    sd: float = 1.0
    classes: tuple[str, ...] = ()
    """In the order of the model's outputs; empty for numbers."""

    @property
    def width(self) -> int:
        return max(1, len(self.classes))


@dataclass(frozen=True, slots=True, kw_only=True)
class FineTuned:
    """What fine-tuning adds to a language model."""

    targets: tuple[Target, ...]
    pool: PredictedFrom
    lora: int
    alpha: float
    readout_channels: int = 0
    num_tokens: int = 0
    """Of every sequence, special tokens counted, where positions are told apart; else 0."""
    varying: tuple[int, ...] = ()
    """Tokens that differ between training sequences; 0 is `<cls>`."""
