"""Language models as Hugging Face folders, which `transformers` loads, and published ones as ours."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bioattn.attention.position import AddedPositions, angles
from bioattn.choices import PositionEncoding
from bioattn.errors import BioattnError, SettingsError
from bioattn.io.files import check_apart, check_parent, read_json, write_json
from bioattn.io.folders import atomic_folder
from bioattn.models.family import CONFIG, WEIGHTS
from bioattn.models.language.architectures import (
    ARCHITECTURES,
    PROJECTIONS,
    all_rows,
    first_position,
    published_numbers,
)
from bioattn.models.language.config import (
    Activation,
    LanguageModelConfig,
    Norm,
    Output,
    Shape,
    published_type,
)
from bioattn.models.language.folder import load_language_model, write_language_model
from bioattn.models.language.model import LanguageModel
from bioattn.models.model_folder import model_files, save_arrays
from bioattn.models.running import RunReport
from bioattn.sequences.choices import Alphabet
from bioattn.sequences.vocabulary import CLS, EOS, SPECIAL, PublishedTokens

VOCABULARIES = ("vocab.txt", "vocab.json", "tokenizer.json", "tokenizer_config.json")
_ROLES = ("pad_token", "cls_token", "eos_token", "mask_token", "unk_token")
_PROJECTIONS = {parts: name for name, parts in PROJECTIONS.items()}
_ACTIVATIONS = {Activation.GELU: "gelu", Activation.GELU_TANH: "gelu_new", Activation.RELU: "relu"}


def export_parameters(source: Path, output: Path, *, force: bool) -> RunReport:
    """Write a published model as a folder of bioattn, or one of bioattn as a Hugging Face folder.

    Raises: as `load_language_model`; BioattnError when the model was fine-tuned, no published architecture can
    hold it, or the output exists and `force` is not given, or holds other files.
    """
    if output.suffix:
        raise SettingsError(
            f"--output {output}: a language model is written as a folder; give a name without suffix"
        )
    check_parent(output)
    check_apart(output, [source])
    model = load_language_model(source, torch.device("cpu")).model
    if output.exists() and not (force and (output / WEIGHTS).is_file()):
        raise BioattnError(
            f"{output}: exists already; choose another --output, or --force to replace a model"
        )
    # Before the folder is made, so that a model that cannot be written leaves nothing.
    parts = None if published_type(read_json(source / CONFIG)) else _published(model, source)
    with atomic_folder(output, model_files() | set(VOCABULARIES)) as folder:
        if parts is None:
            form, number = "model folder", sum(each.numel() for each in model.parameters())
            write_language_model(folder, model)
        else:
            content, arrays, tokens = parts
            form, number = "Hugging Face folder", sum(each.numel() for each in arrays.values())
            save_arrays(folder, arrays, "pt")
            write_json(folder / CONFIG, content)
            _write_vocabulary(folder, tokens, content["model_type"], model.config.context)
    return RunReport(
        f"wrote {output}: a {form} of {number:,} parameters",
        inputs={"model": source / CONFIG},
        outputs=[output],
        parameters=number,
    )


def _published(
    model: LanguageModel, source: Path
) -> tuple[dict[str, Any], dict[str, Tensor], PublishedTokens]:
    """`config.json`, arrays and vocabulary of a model in the closest published architecture."""
    if model.readout is not None:
        raise BioattnError(
            f"{source}: was fine-tuned; no architecture that is written here (esm, bert, gpt2, t5) has its "
            "adapters and output layers: write the model that it was trained from"
        )
    vocabulary = model.vocabulary
    tokens = vocabulary.published
    if tokens is None:
        names = vocabulary.tokens
        if vocabulary.alphabet is Alphabet.CODON:  # in the letters of RNA, as is usual
            names = tuple(each if each in SPECIAL else each.replace("T", "U") for each in names)
        tokens = PublishedTokens(tokens=names, special=tuple(range(len(SPECIAL))), begins=True, ends=True)
        vocabulary = replace(vocabulary, published=tokens)
    order, kept = published_numbers(vocabulary, model.num_tokens)
    arrays = dict(model.state_dict())
    name, why = _closest(model.config, bias=bool(arrays["bias_V"][kept].any()))
    if not name:
        raise BioattnError(
            f"{source}: {why}; no architecture that is written here has that (esm, bert, gpt2, t5)"
        )
    if order[CLS] == order[EOS] >= 0 and not torch.equal(
        arrays["embed.weight"][CLS], arrays["embed.weight"][EOS]
    ):
        raise BioattnError(f"{source}: <cls> and <eos>, one token when it was published, have come to differ")
    config = _as_published(name, model.config, arrays)
    content = _content(name, config, tokens)
    architecture = ARCHITECTURES[name]
    copied = config.form.tied and name in ("bert", "esm") and config.form.output is Output.DENSE
    if copied:
        arrays["output_VC"] = arrays["embed.weight"]
    rows = all_rows(architecture, config, content, output=copied or not config.form.tied)
    found: dict[str, list[Tensor]] = {}
    for row in rows:
        array = arrays.pop(row.ours)
        if row.by_token:
            array = array.new_zeros(len(tokens.tokens), *array.shape[1:]).index_copy(
                0, order[kept], array[kept]
            )
        if not row.theirs:
            if array.any():
                raise BioattnError(f"{source}: {row.ours} is not zero, and {name} has no such bias")
            continue
        theirs = row.theirs[0]
        if not theirs.startswith(("cls.", "lm_head.")):
            theirs = architecture.prefix * (name != "t5") + theirs
        found.setdefault(theirs, []).append(row.turn.write(array))
        if row.plus:
            found[f"{architecture.prefix}{row.plus}"] = [array.new_zeros(2, array.shape[-1])]
    if name == "bert" and config.form.output is Output.DENSE:
        # Where transformers before version 5 has it.
        found["cls.predictions.bias"] = found["cls.predictions.decoder.bias"]
    if name == "esm" and config.positions is PositionEncoding.ROTARY:
        usual = angles(1, 1, config.head_channels, torch.device("cpu"))[0]
        frequencies = torch.tensor(config.form.frequencies) if config.form.frequencies else usual
        found["esm.rotary_embeddings.inv_freq"] = [frequencies]
    assert not set(arrays) - {"bias_V"} or config.form.output is Output.NONE, sorted(arrays)
    return content, {name: torch.cat(thirds, dim=-1) for name, thirds in found.items()}, tokens


def _closest(config: LanguageModelConfig, *, bias: bool) -> tuple[str, str]:
    """The architecture that can hold a model, or why none can. bias: whether the output layer has one."""
    form, decoder = config.form, config.shape is Shape.DECODER
    learned = config.positions is PositionEncoding.LEARNED
    if config.ngram > 1 or config.period:
        return "", "embeds n-grams or phases beside tokens"
    if config.alphabet is Alphabet.ALIGNMENT:
        return "", "has logits for each column of its alignment"
    if form.buckets:
        other = decoder or form.post_norm or form.embedding_norm or form.key_bias
        known = form.norm is Norm.RMS and (form.gated, form.activation) in _PROJECTIONS
        fits = known and config.positions is PositionEncoding.NONE and form.output is not Output.DENSE
        return ("t5", "") if fits and not other else ("", "has biases of distances and other parts than T5")
    if config.shape is Shape.ENCODER_DECODER:
        return "", "is an encoder-decoder with layer norms, biases and without biases of distances"
    if form.norm is not Norm.LAYER or form.gated or form.head_channels is not None:
        return "", "has RMS norms, gates or heads of another width without biases of distances"
    if form.post_norm:
        fits = form.embedding_norm and learned and form.output is not Output.PLAIN
        return ("bert", "") if fits else ("", "normalises sums and has other parts than BERT")
    plain = form.output is Output.PLAIN and not (bias or form.embedding_norm or form.token_dropout)
    if decoder and plain and config.positions is not PositionEncoding.ROTARY:
        return "gpt2", ""
    if form.activation is Activation.GELU and (form.tied or form.output is not Output.NONE):
        return "esm", ""
    return "", f"normalises before layers and is activated by {form.activation}"


def _as_published(name: str, config: LanguageModelConfig, arrays: dict[str, Tensor]) -> LanguageModelConfig:
    """Add to `arrays` what an architecture always has, so that outputs stay the same; the settings with that."""
    form = config.form
    if name != "t5" and not form.key_bias:
        for query in [each for each in arrays if each.endswith("project_query.bias")]:
            arrays[query.replace("query", "key")] = torch.zeros_like(arrays[query])
        form = replace(form, key_bias=True)
    if name == "esm" and form.output is Output.PLAIN:
        # A linear layer of ones, shifted so far that the activation changes nothing, and the last norm behind it.
        size = config.channels
        arrays["output_dense.weight"] = torch.eye(size)
        arrays["output_dense.bias"] = torch.full((size,), math.sqrt(size) + 8.0)
        for part, value in (("weight", torch.ones(size)), ("bias", torch.zeros(size))):
            arrays[f"normalise_output.{part}"] = arrays[f"normalise.{part}"]
            arrays[f"normalise.{part}"] = value
        form = replace(form, output=Output.DENSE)
    positions = config.positions
    if name in ("esm", "gpt2") and positions in (PositionEncoding.NONE, PositionEncoding.SINUSOIDAL):
        added = AddedPositions(positions, config.channels, config.context)
        arrays["add_positions.table_LC"] = added(torch.zeros(config.context, config.channels))
        positions = PositionEncoding.LEARNED
    return replace(config, form=form, positions=positions)


def _content(name: str, config: LanguageModelConfig, tokens: PublishedTokens) -> dict[str, Any]:
    form = config.form
    pad, cls, eos, mask, _ = tokens.special
    ids: dict[str, Any] = {
        "vocab_size": len(tokens.tokens),
        "pad_token_id": pad,
        "tie_word_embeddings": form.tied,
    }
    sizes = {
        "hidden_size": config.channels,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.num_heads,
        "intermediate_size": config.hidden_channels,
        "layer_norm_eps": form.epsilon,
        "is_decoder": config.shape is Shape.DECODER,
    }
    headless = form.output is Output.NONE
    if name == "esm":
        rotary = config.positions is PositionEncoding.ROTARY
        more = {
            "max_position_embeddings": config.context + (0 if rotary else first_position(ids)),
            "position_embedding_type": "rotary" if rotary else "absolute",
            "emb_layer_norm_before": form.embedding_norm,
            "token_dropout": form.token_dropout,
            "mask_token_id": mask,
            **sizes,
        }
        classes = "EsmModel" if headless else "EsmForMaskedLM"
    elif name == "bert":
        more = {
            "max_position_embeddings": config.context,
            "type_vocab_size": 2,
            "hidden_act": _ACTIVATIONS[form.activation],
            **sizes,
        }
        decoder = config.shape is Shape.DECODER
        classes = "BertModel" if headless else "BertLMHeadModel" if decoder else "BertForMaskedLM"
    elif name == "gpt2":
        more = {
            "n_positions": config.context,
            "n_embd": config.channels,
            "n_layer": config.layers,
            "n_head": config.num_heads,
            "n_inner": config.hidden_channels,
            "activation_function": _ACTIVATIONS[form.activation],
            "layer_norm_epsilon": form.epsilon,
            "bos_token_id": cls,
            "eos_token_id": eos,
        }
        classes = "GPT2LMHeadModel"
    else:
        both = config.shape is Shape.ENCODER_DECODER
        more = {
            "d_model": config.channels,
            "d_kv": config.head_channels,
            "d_ff": config.hidden_channels,
            "num_layers": config.layers,
            "num_decoder_layers": form.decoder_layers or config.layers,
            "num_heads": config.num_heads,
            "relative_attention_num_buckets": form.buckets,
            "relative_attention_max_distance": form.farthest,
            "feed_forward_proj": _PROJECTIONS[form.gated, form.activation],
            "layer_norm_epsilon": form.epsilon,
            "decoder_start_token_id": cls,
            "eos_token_id": eos,
            "is_encoder_decoder": both,
        }
        classes = "T5ForConditionalGeneration" if both else "T5EncoderModel"
    return {"architectures": [classes], "model_type": name, "dtype": "float32", **ids, **more}


def _write_vocabulary(folder: Path, tokens: PublishedTokens, name: str, context: int) -> None:
    """The tokenizer's files: what the model was published with, as far as it is known."""
    named = [None if number is None else tokens.tokens[number] for number in tokens.special]
    settings: dict[str, Any] = dict(zip(_ROLES, named, strict=True)) | {"model_max_length": context}
    settings["bos_token" if name == "gpt2" else "sep_token"] = named[CLS if name == "gpt2" else EOS]
    classes = {"esm": "EsmTokenizer", "bert": "BertTokenizer"}
    if name in classes:
        settings |= {"tokenizer_class": classes[name], "do_lower_case": False}
    write_json(folder / "tokenizer_config.json", settings)
    if tokens.tokenizer:
        (folder / "tokenizer.json").write_text(tokens.tokenizer, encoding="utf-8")
    elif name in classes:
        (folder / "vocab.txt").write_text("\n".join(tokens.tokens) + "\n", encoding="utf-8")
    else:
        write_json(folder / "vocab.json", {token: number for number, token in enumerate(tokens.tokens)})
