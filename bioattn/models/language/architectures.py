"""What published architectures are in the terms of this family: their settings, and which array is which.

Read are the encoders ESM-2 (Lin et al. 2023), ESM C, Nucleotide Transformer v2 (Dalla-Torre et al. 2024), BERT
(Devlin et al. 2019; DNABERT) and DNABERT-2 (Zhou et al. 2024), the decoder GPT-2 (Radford et al. 2019) and the
encoder-decoder T5 or its encoder alone (Raffel et al. 2020; ProtT5), by the names that `transformers`, or the code
in their repositories, gives their arrays, without the prefix of the base model.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from bioattn.choices import PositionEncoding
from bioattn.errors import FormatError
from bioattn.models.language.config import (
    Activation,
    Form,
    LanguageModelConfig,
    Norm,
    Output,
    Shape,
    classes_in,
)
from bioattn.sequences.choices import Alphabet
from bioattn.sequences.vocabulary import Vocabulary

ENDLESS_CONTEXT = 1 << 14
"""Most tokens read at once by rotation or biases of distances, which have no last position."""
SLOPING_CONTEXT = 1 << 11
"""The same with biases that grow with distance: words of the longest sequences that DNABERT-2 was tried on."""
LAYERS = ("encoder.layer.", "layers.", "h.", "encoder.block.", "decoder.block.")
"""What names of arrays of layers begin with."""
_WITH_OUTPUT = ("ForMaskedLM", "ForPreTraining", "LMHeadModel", "ForConditionalGeneration")
"""What classes with an output layer are called."""


class Turn(NamedTuple):
    """How a published array becomes one of ours, and back."""

    read: Callable[[Tensor], Tensor]
    write: Callable[[Tensor], Tensor]


def _transposed(array: Tensor) -> Tensor:
    return array.mT if array.dim() == 2 else array


AS_IT_IS = Turn(lambda array: array, lambda array: array)
TRANSPOSED = Turn(_transposed, _transposed)


class Row(NamedTuple):
    ours: str
    theirs: Sequence[str] = ()
    """Names it may have, of which the first is written; none: zeros, for which they have no place."""
    turn: Turn = AS_IT_IS
    part: tuple[int, int] | None = None
    """Which of how many equal parts of their array it is, along the first axis as we have it."""
    by_token: bool = False
    """Whether its first axis are tokens."""
    plus: str = ""
    """Name of an array whose first row is added to all rows, and which is written as zeros."""

    def read(self, array: Tensor) -> Tensor:
        """Ours of theirs."""
        array = self.turn.read(array)
        return array if self.part is None else array.chunk(self.part[1])[self.part[0]]


@dataclass(frozen=True, slots=True)
class Settings:
    path: Path
    content: Mapping[str, Any]
    """Of `config.json`."""
    largest: int
    """No size of an architecture exceeds the number of values in the weights."""

    def number(self, name: str, default: int | None = None) -> int:
        """A whole number from 1 to `largest`. Raises: FormatError."""
        value = self.content.get(name)
        value = default if value is None else value
        if not isinstance(value, int) or not 1 <= value <= self.largest:
            raise FormatError(
                f"{self.path}: {name} is {value!r}; a whole number is needed, which fits the weights"
            )
        return value

    def fraction(self, name: str, default: float) -> float:
        """A number between 0 and 1. Raises: FormatError."""
        value = self.content.get(name)
        value = default if value is None else value
        if not isinstance(value, float | int) or not 0 <= value < 1:
            raise FormatError(f"{self.path}: {name} is {value!r}; a number between 0 and 1 is needed")
        return float(value)

    def chosen(self, name: str, default: str, choices: Mapping[str, Any]) -> Any:
        """What `choices` has for a text. Raises: FormatError naming what can be read."""
        value = self.content.get(name) or default
        if value not in choices:
            raise FormatError(f"{self.path}: {name} is {value!r}; read are {', '.join(choices)}")
        return choices[value]

    def has_output(self, arrays: Iterable[str], prefix: str) -> bool:
        """Whether there is an output layer: some of its arrays, or the class of a model that has one."""
        named = any(name.endswith(_WITH_OUTPUT) for name in classes_in(self.content))
        return named or any(name.startswith(prefix) for name in arrays)

    def sizes(self) -> dict[str, Any]:
        """Those of BERT and ESM: an encoder, or the same layers as a decoder."""
        return {
            "shape": Shape.DECODER if self.content.get("is_decoder") else Shape.ENCODER,
            "layers": self.number("num_hidden_layers"),
            "channels": self.number("hidden_size"),
            "num_heads": self.number("num_attention_heads"),
            "hidden_channels": self.number("intermediate_size"),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    prefix: str
    """What names of arrays have before them in models with an output layer."""
    starts: str = "cls_token"
    """Which token stands for `<cls>` (`read_published_vocabulary`)."""
    embedding: Sequence[str]
    """Names that the embeddings of tokens may have."""
    output: str
    """Name of the matrix of the output layer, where it is not that of the embeddings."""
    tied: bool = True
    """Whether the two are one where the settings do not say so."""
    settings: Callable[[Settings, Alphabet, Collection[str]], LanguageModelConfig]
    """Our settings, without frequencies and `tied`; given their settings and the names of all arrays."""
    rows: Callable[[LanguageModelConfig, Mapping[str, Any]], Iterator[Row]]
    """All arrays but those of tokens. The mapping is their config.json."""


TYPES = "embeddings.token_type_embeddings.weight"
"""Of BERT's kinds of tokens; every sequence is the first of a pair."""
FUSED = "encoder.layer.0.attention.self.Wqkv.weight"
"""What DNABERT-2 has and BERT has not."""
PROJECTIONS = {
    "relu": (False, Activation.RELU),
    "gelu": (False, Activation.GELU),
    "gated-gelu": (True, Activation.GELU_TANH),
    "gated-relu": (True, Activation.RELU),
    "gated-silu": (True, Activation.SILU),
}
"""Of feed-forward networks of T5: whether they are gated, and their activation."""
_ACTIVATIONS = {
    "gelu": Activation.GELU,
    "gelu_python": Activation.GELU,
    "gelu_new": Activation.GELU_TANH,
    "gelu_pytorch_tanh": Activation.GELU_TANH,
    "gelu_fast": Activation.GELU_TANH,
    "relu": Activation.RELU,
}


def _esm(settings: Settings, alphabet: Alphabet, arrays: Collection[str]) -> LanguageModelConfig:
    rotary = settings.chosen("position_embedding_type", "absolute", {"rotary": True, "absolute": False})
    longest = settings.number("max_position_embeddings", 1026)
    return LanguageModelConfig(
        **settings.sizes(),
        alphabet=alphabet,
        positions=PositionEncoding.ROTARY if rotary else PositionEncoding.LEARNED,
        context=max(longest, ENDLESS_CONTEXT) if rotary else longest - first_position(settings.content),
        form=Form(
            epsilon=settings.fraction("layer_norm_eps", 1e-12),
            embedding_norm=bool(settings.content.get("emb_layer_norm_before")),
            key_bias=True,
            # Only the code of Nucleotide Transformer v2 has this setting; its layers are gated.
            gated="add_bias_fnn" in settings.content,
            activation=Activation.SILU if "add_bias_fnn" in settings.content else Activation.GELU,
            token_dropout=bool(settings.content.get("token_dropout")),
            output=Output.DENSE if settings.has_output(arrays, "lm_head.") else Output.NONE,
            contacts="contact_head.regression.weight" in arrays and alphabet is Alphabet.PROTEIN,
        ),
    )


def first_position(content: Mapping[str, Any]) -> int:
    """Row of ESM's first learned position: the one behind that of padding."""
    pad = content.get("pad_token_id")
    return int(1 if pad is None else pad) + 1


def _esm_rows(config: LanguageModelConfig, content: Mapping[str, Any]) -> Iterator[Row]:
    if config.positions is PositionEncoding.LEARNED:
        first = first_position(content)
        turn = Turn(lambda table: table[first:], lambda table: F.pad(table, (0, 0, first, 0)))
        yield Row("add_positions.table_LC", ["embeddings.position_embeddings.weight"], turn)
    if config.form.embedding_norm:
        yield from _pair("normalise_embedded", "embeddings.layer_norm")
    biased = bool(content.get("add_bias_fnn", True))
    yield from _bert_layers(config, "attention.LayerNorm", "LayerNorm", biased=biased)
    yield from _pair("normalise", "encoder.emb_layer_norm_after")
    if config.form.contacts:
        by_layer = Turn(lambda row: row.view(config.layers, -1), lambda table: table.reshape(1, -1))
        yield Row("contact_weight_SH", ["contact_head.regression.weight"], by_layer)
        yield Row("contact_bias_1", ["contact_head.regression.bias"])
    if config.form.output is Output.DENSE:
        yield from _pair("output_dense", "lm_head.dense")
        yield from _pair("normalise_output", "lm_head.layer_norm")
        yield Row("bias_V", ["lm_head.bias"], by_token=True)


def _bert(settings: Settings, alphabet: Alphabet, arrays: Collection[str]) -> LanguageModelConfig:
    settings.chosen("position_embedding_type", "absolute", {"absolute": True})
    sloping = FUSED in arrays
    return LanguageModelConfig(
        **settings.sizes(),
        alphabet=alphabet,
        positions=PositionEncoding.NONE if sloping else PositionEncoding.LEARNED,
        context=SLOPING_CONTEXT if sloping else settings.number("max_position_embeddings"),
        form=Form(
            epsilon=settings.fraction("layer_norm_eps", 1e-12),
            post_norm=True,
            embedding_norm=True,
            activation=settings.chosen("hidden_act", "gelu", _ACTIVATIONS),
            gated=sloping,
            key_bias=True,
            slopes=sloping,
            output=Output.DENSE if settings.has_output(arrays, "cls.predictions.") else Output.NONE,
        ),
    )


def _bert_rows(config: LanguageModelConfig, _: Mapping[str, Any]) -> Iterator[Row]:
    yield from _pair("normalise_embedded", "embeddings.LayerNorm")
    if config.form.slopes:
        yield from _dnabert2_layers(config)
    else:
        yield Row("add_positions.table_LC", ["embeddings.position_embeddings.weight"], plus=TYPES)
        yield from _bert_layers(config, "attention.output.LayerNorm", "output.LayerNorm")
    if config.form.output is Output.DENSE:
        yield from _pair("output_dense", "cls.predictions.transform.dense")
        yield from _pair("normalise_output", "cls.predictions.transform.LayerNorm")
        yield Row("bias_V", ["cls.predictions.decoder.bias", "cls.predictions.bias"], by_token=True)


def _bert_layers(
    config: LanguageModelConfig, first_norm: str, second_norm: str, *, biased: bool = True
) -> Iterator[Row]:
    """The layers of BERT, which ESM has too, but for their norms. biased: whether feed-forward networks have
    biases."""
    pair = partial(_pair, biased=biased)
    stack = "decoder" if config.shape is Shape.DECODER else "encoder"
    turned = _half_rotation(config.num_heads) if config.positions is PositionEncoding.ROTARY else AS_IT_IS
    for number in range(config.layers):
        ours, theirs = f"{stack}.{number}", f"encoder.layer.{number}"
        yield from _pair(f"{ours}.normalise_self", f"{theirs}.{first_norm}")
        yield from _pair(f"{ours}.self_attention.project_query", f"{theirs}.attention.self.query", turned)
        yield from _pair(f"{ours}.self_attention.project_key", f"{theirs}.attention.self.key", turned)
        yield from _pair(f"{ours}.self_attention.project_value", f"{theirs}.attention.self.value")
        yield from _pair(f"{ours}.self_attention.project_output", f"{theirs}.attention.output.dense")
        yield from _pair(f"{ours}.normalise_hidden", f"{theirs}.{second_norm}")
        for number_of_part, part in enumerate(("gate", "widen") if config.form.gated else ("widen",)):
            parts = (number_of_part, 2) if config.form.gated else None
            yield from pair(f"{ours}.{part}", f"{theirs}.intermediate.dense", part=parts)
        yield from pair(f"{ours}.narrow", f"{theirs}.output.dense")


def _dnabert2_layers(config: LanguageModelConfig) -> Iterator[Row]:
    for number in range(config.layers):
        ours, theirs = f"encoder.{number}", f"encoder.layer.{number}"
        for part, name in enumerate(("query", "key", "value")):
            fused = f"{theirs}.attention.self.Wqkv"
            yield from _pair(f"{ours}.self_attention.project_{name}", fused, part=(part, 3))
        yield from _pair(f"{ours}.self_attention.project_output", f"{theirs}.attention.output.dense")
        yield from _pair(f"{ours}.normalise_self", f"{theirs}.attention.output.LayerNorm")
        for part, name in enumerate(("gate", "widen")):
            yield from _without_bias(f"{ours}.{name}", f"{theirs}.mlp.gated_layers", part=(part, 2))
        yield from _pair(f"{ours}.narrow", f"{theirs}.mlp.wo")
        yield from _pair(f"{ours}.normalise_hidden", f"{theirs}.mlp.layernorm")


def _esmc(settings: Settings, alphabet: Alphabet, arrays: Collection[str]) -> LanguageModelConfig:
    return LanguageModelConfig(
        **settings.sizes() | {"shape": Shape.ENCODER},
        alphabet=alphabet,
        positions=PositionEncoding.ROTARY,
        context=ENDLESS_CONTEXT,
        form=Form(
            activation=settings.chosen("hidden_act", "silu", {"silu": Activation.SILU}),
            gated=True,
            query_norm=True,
            output=Output.DENSE if settings.has_output(arrays, "lm_head.") else Output.NONE,
        ),
    )


def _esmc_rows(config: LanguageModelConfig, _: Mapping[str, Any]) -> Iterator[Row]:
    turned = _half_rotation(config.num_heads)
    # What a layer adds is divided by the root of so many layers.
    smaller = _scaled(math.sqrt(36 / config.layers))
    for number in range(config.layers):
        ours, theirs = f"encoder.{number}", f"layers.{number}"
        yield from _pair(f"{ours}.normalise_self", f"{theirs}.input_layernorm")
        attention = f"{ours}.self_attention"
        yield from _without_bias(f"{attention}.project_query", f"{theirs}.self_attn.q_proj", turned)
        yield Row(f"{attention}.project_key.weight", [f"{theirs}.self_attn.k_proj.weight"], turned)
        yield from _without_bias(f"{attention}.project_value", f"{theirs}.self_attn.v_proj")
        yield from _without_bias(f"{attention}.project_output", f"{theirs}.self_attn.o_proj", smaller)
        for name in ("query", "key"):
            norm = f"{theirs}.self_attn.{name[0]}_norm"
            yield from _without_bias(f"{attention}.normalise_{name}", norm, turned)
        yield from _pair(f"{ours}.normalise_hidden", f"{theirs}.post_attention_layernorm")
        yield from _without_bias(f"{ours}.gate", f"{theirs}.mlp.gate_proj")
        yield from _without_bias(f"{ours}.widen", f"{theirs}.mlp.up_proj")
        yield from _without_bias(f"{ours}.narrow", f"{theirs}.mlp.down_proj", smaller)
    yield from _without_bias("normalise", "norm")
    if config.form.output is Output.DENSE:
        yield from _pair("output_dense", "lm_head.dense")
        yield from _pair("normalise_output", "lm_head.layer_norm")
        yield Row("bias_V", ["lm_head.decoder.bias"], by_token=True)


def _gpt2(settings: Settings, alphabet: Alphabet, arrays: Collection[str]) -> LanguageModelConfig:
    channels = settings.number("n_embd", 768)
    tied = settings.content.get("tie_word_embeddings", True)
    return LanguageModelConfig(
        alphabet=alphabet,
        shape=Shape.DECODER,
        positions=PositionEncoding.LEARNED,
        layers=settings.number("n_layer", 12),
        channels=channels,
        num_heads=settings.number("n_head", 12),
        hidden_channels=settings.number("n_inner", 4 * channels),
        context=settings.number("n_positions", 1024),
        form=Form(
            epsilon=settings.fraction("layer_norm_epsilon", 1e-5),
            activation=settings.chosen("activation_function", "gelu_new", _ACTIVATIONS),
            key_bias=True,
            output=Output.PLAIN if tied or settings.has_output(arrays, "lm_head.") else Output.NONE,
        ),
    )


def _gpt2_rows(config: LanguageModelConfig, content: Mapping[str, Any]) -> Iterator[Row]:
    yield Row("add_positions.table_LC", ["wpe.weight"])
    for number in range(config.layers):
        ours, theirs = f"decoder.{number}", f"h.{number}"
        scale = 1.0 if content.get("scale_attn_weights", True) else math.sqrt(config.head_channels)
        if content.get("scale_attn_by_inverse_layer_idx"):
            scale /= number + 1
        yield from _pair(f"{ours}.normalise_self", f"{theirs}.ln_1")
        for part, name in enumerate(("query", "key", "value")):
            turn = _scaled(scale, TRANSPOSED) if name == "query" else TRANSPOSED
            fused = f"{theirs}.attn.c_attn"
            yield from _pair(f"{ours}.self_attention.project_{name}", fused, turn, (part, 3))
        yield from _pair(f"{ours}.self_attention.project_output", f"{theirs}.attn.c_proj", TRANSPOSED)
        yield from _pair(f"{ours}.normalise_hidden", f"{theirs}.ln_2")
        yield from _pair(f"{ours}.widen", f"{theirs}.mlp.c_fc", TRANSPOSED)
        yield from _pair(f"{ours}.narrow", f"{theirs}.mlp.c_proj", TRANSPOSED)
    yield from _pair("normalise", "ln_f")


def _t5(settings: Settings, alphabet: Alphabet, arrays: Collection[str]) -> LanguageModelConfig:
    both = has_decoder(settings.content, arrays)
    layers = settings.number("num_layers")
    tied = settings.content.get("tie_word_embeddings", True)
    output = both and (tied or settings.has_output(arrays, "lm_head."))
    gated, activation = settings.chosen("feed_forward_proj", "relu", PROJECTIONS)
    return LanguageModelConfig(
        alphabet=alphabet,
        shape=Shape.ENCODER_DECODER if both else Shape.ENCODER,
        positions=PositionEncoding.NONE,
        layers=layers,
        channels=settings.number("d_model"),
        num_heads=settings.number("num_heads"),
        hidden_channels=settings.number("d_ff"),
        context=ENDLESS_CONTEXT,
        form=Form(
            norm=Norm.RMS,
            epsilon=settings.fraction("layer_norm_epsilon", 1e-6),
            activation=activation,
            gated=gated,
            head_channels=settings.number("d_kv"),
            decoder_layers=settings.number("num_decoder_layers", layers) if both else None,
            buckets=settings.number("relative_attention_num_buckets", 32),
            farthest=settings.number("relative_attention_max_distance", 128),
            output=Output.PLAIN if output else Output.NONE,
        ),
    )


def has_decoder(content: Mapping[str, Any], arrays: Iterable[str]) -> bool:
    """Whether a T5 has its decoder, by its arrays or its class."""
    classes = {"T5Model", "T5WithLMHeadModel", "T5ForConditionalGeneration"}
    named = not classes.isdisjoint(classes_in(content))
    return named or any(name.startswith("decoder.block.") for name in arrays)


def _t5_rows(config: LanguageModelConfig, content: Mapping[str, Any]) -> Iterator[Row]:
    both = config.shape is Shape.ENCODER_DECODER
    for stack in ("encoder", "decoder")[: 1 + both]:
        table = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        yield Row(f"relative.{stack}.bias_NH", [table])
        layers = config.form.decoder_layers if stack == "decoder" else None
        for number in range(layers or config.layers):
            ours, theirs = f"{stack}.{number}", f"{stack}.block.{number}.layer"
            yield from _t5_attention(config, f"{ours}.self_attention", f"{theirs}.0.SelfAttention")
            yield Row(f"{ours}.normalise_self.weight", [f"{theirs}.0.layer_norm.weight"])
            last = 1
            if stack == "decoder":
                yield from _t5_attention(config, f"{ours}.source_attention", f"{theirs}.1.EncDecAttention")
                yield Row(f"{ours}.normalise_source.weight", [f"{theirs}.1.layer_norm.weight"])
                last = 2
            yield Row(f"{ours}.normalise_hidden.weight", [f"{theirs}.{last}.layer_norm.weight"])
            parts = {"widen": "wi_1", "gate": "wi_0"} if config.form.gated else {"widen": "wi"}
            for part, name in (parts | {"narrow": "wo"}).items():
                yield from _without_bias(f"{ours}.{part}", f"{theirs}.{last}.DenseReluDense.{name}")
    if both:
        # With a shared matrix the channels are scaled before they meet it.
        scaled = content.get("scale_decoder_outputs", content.get("tie_word_embeddings") is not False)
        scale = config.channels**-0.5 if scaled else 1.0
        yield Row("normalise_encoded.weight", ["encoder.final_layer_norm.weight"])
        yield Row("normalise.weight", ["decoder.final_layer_norm.weight"], _scaled(scale))
    else:
        yield Row("normalise.weight", ["encoder.final_layer_norm.weight"])


def _t5_attention(config: LanguageModelConfig, ours: str, theirs: str) -> Iterator[Row]:
    """T5 does not divide logits by the root of the channels."""
    for name in ("query", "key", "value", "output"):
        turn = _scaled(math.sqrt(config.head_channels)) if name == "query" else AS_IT_IS
        rows = _without_bias(f"{ours}.project_{name}", f"{theirs}.{name[0]}", turn)
        yield from (row for row in rows if row.ours != f"{ours}.project_key.bias")


def _scaled(factor: float, turn: Turn = AS_IT_IS) -> Turn:
    if factor == 1:
        return turn
    return Turn(lambda array: turn.read(array) * factor, lambda array: turn.write(array / factor))


def _pair(
    ours: str, theirs: str, turn: Turn = AS_IT_IS, part: tuple[int, int] | None = None, *, biased: bool = True
) -> Iterator[Row]:
    yield Row(f"{ours}.weight", [f"{theirs}.weight"], turn, part)
    yield Row(f"{ours}.bias", [f"{theirs}.bias"], turn, part) if biased else Row(f"{ours}.bias")


_without_bias = partial(_pair, biased=False)


def _half_rotation(heads: int) -> Turn:
    """ESM rotates channel i with channel i + half of a head, bioattn each even channel with the next one."""

    def turned(array: Tensor, pairs: int, places: int) -> Tensor:
        rows: Tensor = array.unflatten(0, (heads, pairs, places)).transpose(1, 2).flatten(0, 2)
        return rows

    return Turn(lambda array: turned(array, 2, -1), lambda array: turned(array, -1, 2))


ARCHITECTURES: Mapping[str, Architecture] = {
    "esm": Architecture(
        prefix="esm.",
        embedding=["embeddings.word_embeddings.weight"],
        output="lm_head.decoder.weight",
        settings=_esm,
        rows=_esm_rows,
    ),
    "esmc": Architecture(
        prefix="esmc.",
        embedding=["embed_tokens.weight"],
        output="lm_head.decoder.weight",
        tied=False,
        settings=_esmc,
        rows=_esmc_rows,
    ),
    "bert": Architecture(
        prefix="bert.",
        embedding=["embeddings.word_embeddings.weight"],
        output="cls.predictions.decoder.weight",
        settings=_bert,
        rows=_bert_rows,
    ),
    "gpt2": Architecture(
        prefix="transformer.",
        starts="bos_token",
        embedding=["wte.weight"],
        output="lm_head.weight",
        settings=_gpt2,
        rows=_gpt2_rows,
    ),
    "t5": Architecture(
        prefix="transformer.",
        starts="decoder_start_token_id",
        embedding=["shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"],
        output="lm_head.weight",
        settings=_t5,
        rows=_t5_rows,
    ),
}
"""By the `model_type` of their config.json."""


def published_numbers(vocabulary: Vocabulary, num_tokens: int) -> tuple[Tensor, Tensor]:
    """The published numbers of a model's tokens, -1 for one that the published vocabulary lacks, and which of them
    are ever predicted: of two that are the same published one, one only."""
    order = torch.from_numpy(vocabulary.order)
    # A vocabulary without sentinels leaves the one that the model has at least.
    order = torch.cat([order, order.new_full((num_tokens - len(order),), -1)])
    ours = torch.from_numpy(vocabulary.of_published)[order]
    return order, (order >= 0) & (ours == torch.arange(len(order)))


def all_rows(
    architecture: Architecture, config: LanguageModelConfig, content: Mapping[str, Any], *, output: bool
) -> list[Row]:
    """All arrays. content: of `config.json`; output: whether the output layer has a matrix of its own."""
    embedding, matrix = architecture.embedding, architecture.output
    types = TYPES if config.form.slopes else ""
    rows = [Row("embed.weight", [*embedding, matrix], by_token=True, plus=types)]
    rows += architecture.rows(config, content)
    if output:
        rows.append(Row("output_VC", [matrix, *embedding], by_token=True))
    if not any(row.ours == "bias_V" for row in rows):
        rows.append(Row("bias_V", by_token=True))
    return rows
