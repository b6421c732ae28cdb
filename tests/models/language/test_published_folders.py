"""Folders of published models as people have them: what config.json, index and weights say of each other.

They are compared with what `transformers` makes of the same folder, and models whose code lies in their
repositories with plain code of their descriptions.
"""

import json
import math
import os
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from bioattn.attention.capture import capture
from bioattn.errors import BioattnError
from bioattn.models.language.config import Output
from bioattn.models.language.folder import LoadedLanguageModel, load_language_model
from bioattn.sequences.vocabulary import PAD
from tests.making import bioattn
from tests.models.language.test_published import (
    BERT_TOKENS,
    ESM_TOKENS,
    GPT2_TOKENS,
    PROTEINS,
    SMALL,
    T5_TOKENS,
    Received,
    edit_arrays,
    edit_config,
    ids_of,
    make_bert,
    make_esm,
    make_gpt2,
    make_t5,
    require_same,
)

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
transformers = pytest.importorskip("transformers")

CPU = torch.device("cpu")
Arrays = dict[str, Tensor]


def make_esmc(**other: Any) -> nn.Module:
    config = transformers.EsmcConfig(**{**SMALL, "num_hidden_layers": 3, **other})
    return transformers.EsmcForMaskedLM(config)


MADE = {
    "esm": (make_esm, ESM_TOKENS),
    "esmc": (make_esmc, ESM_TOKENS),
    "bert": (make_bert, BERT_TOKENS),
    "gpt2": (make_gpt2, GPT2_TOKENS),
    "t5": (make_t5, T5_TOKENS),
    "t5-encoder": (lambda **other: make_t5("T5EncoderModel", **other), T5_TOKENS),
}


def made(folder: Path, kind: str, build: Callable[..., nn.Module] | None = None, **other: Any) -> Path:
    """The folder of a random model; build: makes another class of its configuration."""
    make, tokens = MADE[kind]
    torch.manual_seed(0)
    theirs = make(**other)
    theirs = build(theirs.config) if build else theirs
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    theirs.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(tokens.split()))
    return folder


def read_as(folder: Path, theirs: nn.Module) -> LoadedLanguageModel:
    loaded = load_language_model(folder, CPU)
    require_same(loaded, theirs, PROTEINS)
    return loaded


SHARED, ENCODED, DECODED, HEAD = (
    "shared.weight",
    "encoder.embed_tokens.weight",
    "decoder.embed_tokens.weight",
    "lm_head.weight",
)
WORDS, ESM_HEAD = "esm.embeddings.word_embeddings.weight", "lm_head.decoder.weight"
BERT_BIAS, NEW_BERT_BIAS = "cls.predictions.bias", "cls.predictions.decoder.bias"


def renamed(old: str, *new: str, value: Tensor | None = None) -> Callable[[Arrays], object]:
    """Put an array, or another one, under new names."""

    def edit(arrays: Arrays) -> None:
        array = arrays.pop(old)
        arrays.update({name: (array if value is None or name == old else value).clone() for name in new})

    return edit


OTHER = torch.randn(32, 32, generator=torch.Generator().manual_seed(1))
OLD_T5 = {"scale_decoder_outputs": None, "tie_word_embeddings": False}
"""What transformers 4 wrote of a T5 with an output layer of its own; None: not there."""
READ: dict[str, tuple[str, Callable[[Arrays], object] | None, dict[str, object]]] = {
    "t5: copies": ("t5", renamed(SHARED, SHARED, ENCODED, DECODED, HEAD), {}),
    "t5: the decoder's name alone": ("t5", renamed(SHARED, DECODED), {}),
    "t5: the encoder's name alone": ("t5", renamed(SHARED, ENCODED), {}),
    "t5: the output's name alone": ("t5", renamed(SHARED, HEAD), {}),
    "t5: another output": ("t5", renamed(SHARED, SHARED, HEAD, value=OTHER), {}),
    "t5: decoder's name, untied": ("t5", renamed(SHARED, DECODED, HEAD, value=OTHER), OLD_T5),
    "t5: fewer decoder layers": ("t5", None, {}),
    "t5-encoder: copy": ("t5-encoder", renamed(SHARED, SHARED, ENCODED), {}),
    "gpt2: copy": ("gpt2", renamed("transformer.wte.weight", "transformer.wte.weight", HEAD), {}),
    "gpt2: the output's name alone": ("gpt2", renamed("transformer.wte.weight", HEAD), {}),
    "esm: copy": ("esm", renamed(WORDS, WORDS, ESM_HEAD), {}),
    "esm: the output's name alone": ("esm", renamed(WORDS, ESM_HEAD), {}),
    "esm: another output": ("esm", renamed(WORDS, WORDS, ESM_HEAD, value=torch.cat([OTHER, OTHER[:1]])), {}),
    "esm: buffers": ("esm", lambda a: a.update({"esm.embeddings.position_ids": torch.arange(40)[None]}), {}),
    "bert: new name of the bias": ("bert", renamed(BERT_BIAS, NEW_BERT_BIAS), {}),
    "bert: two biases": ("bert", renamed(BERT_BIAS, BERT_BIAS, NEW_BERT_BIAS, value=OTHER[0, :25]), {}),
    "esmc": ("esmc", None, {}),
}
SIZES = {"t5: fewer decoder layers": {"num_decoder_layers": 1}}


@pytest.mark.parametrize("name", READ)
def test_a_folder_is_read_as_transformers_reads_it(name: str, tmp_path: Path):
    kind, edit, changes = READ[name]
    folder = made(tmp_path / "model", kind, **SIZES.get(name, {}))
    if edit:
        edit_arrays(folder, edit)
    content = json.loads((folder / "config.json").read_text()) | changes
    content = {key: value for key, value in content.items() if key not in changes or value is not None}
    (folder / "config.json").write_text(json.dumps(content))
    classes = getattr(transformers, content["architectures"][0])
    read_as(folder, classes.from_pretrained(folder, attn_implementation="eager"))


@pytest.mark.parametrize("kind", ["bert", "esm", "gpt2"])
def test_an_untied_output_has_its_matrix_and_bias(kind: str, tmp_path: Path):
    folder = made(tmp_path / "model", kind, tie_word_embeddings=False)
    loaded = read_as(folder, type(MADE[kind][0]()).from_pretrained(folder, attn_implementation="eager"))
    assert not loaded.config.form.tied
    edit_arrays(folder, lambda arrays: [arrays.pop(each, None) for each in (HEAD, ESM_HEAD)])
    edit_arrays(folder, lambda arrays: arrays.pop("cls.predictions.decoder.weight", None))
    with pytest.raises(BioattnError, match=r"array (lm_head|cls\.predictions).*weight is missing"):
        load_language_model(folder, CPU)


HEADLESS = {
    "EsmModel": ("esm", lambda config: transformers.EsmModel(config)),
    "EsmForSequenceClassification": ("esm", lambda c: transformers.EsmForSequenceClassification(c)),
    "EsmcModel": ("esmc", lambda config: transformers.EsmcModel(config)),
    "BertModel": ("bert", lambda config: transformers.BertModel(config)),
}


@pytest.mark.parametrize("name", HEADLESS)
def test_models_without_an_output_give_embeddings(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    kind, build = HEADLESS[name]
    folder = made(tmp_path / "model", kind, build)
    base = {"esm": "EsmModel", "esmc": "EsmcModel", "bert": "BertModel"}[kind]
    base_class = getattr(transformers, base)
    loaded = read_as(folder, base_class.from_pretrained(folder, attn_implementation="eager"))
    assert loaded.config.form.output is Output.NONE
    assert ("classifier.dense.bias" in caplog.text) == name.endswith("Classification")


def test_prefixes_of_wrappers_are_no_part_of_a_name(tmp_path: Path):
    folder = made(tmp_path / "plain", "esm")
    expected = load_language_model(folder, CPU).model.state_dict()
    for prefix in ("_orig_mod.", "module.", "_orig_mod.module.", "model.", "base_model.model."):
        other = tmp_path / prefix
        shutil.copytree(folder, other)
        edit_arrays(other, lambda arrays, prefix=prefix: put_before(arrays, prefix))
        found = load_language_model(other, CPU).model.state_dict()
        assert all(torch.equal(found[name], array) for name, array in expected.items())


def put_before(arrays: Arrays, prefix: str) -> None:
    for name in list(arrays):
        # Layers that were compiled one by one have the prefix within their names.
        array, name = arrays.pop(name), name.replace("layer.1.", "layer.1._orig_mod.")
        arrays[prefix + name] = array


def in_parts(folder: Path, both: str = "") -> None:
    """Two files of weights and their index; both: name of an array that lies in each."""
    path = folder / "model.safetensors"
    arrays = load_file(path)
    path.unlink()
    names = list(arrays)
    places = {}
    for number in range(2):
        part = {name: arrays[name] for name in [*names[number::2], *([both] if both else [])]}
        save_file(part, folder / f"part-{number}.safetensors", metadata={"format": "pt"})
        places |= dict.fromkeys(part, f"part-{number}.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))


def both_ways(folder: Path) -> None:
    shutil.copy(folder / "model.safetensors", folder / "whole")
    in_parts(folder)
    (folder / "whole").rename(folder / "model.safetensors")


def without_part(folder: Path) -> None:
    in_parts(folder)
    (folder / "part-1.safetensors").unlink()


REFUSED: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "two matrices of embeddings": (
        "t5",
        lambda f: edit_arrays(f, renamed(SHARED, SHARED, ENCODED, value=OTHER)),
        r"array shared\.weight and encoder\.embed_tokens\.weight differ",
    ),
    "no output of its own": (
        "t5",
        lambda f: (
            edit_config(f, scale_decoder_outputs=True, tie_word_embeddings=False)
            or edit_text(f, '"scale_decoder_outputs": true', '"x": 0')
        ),
        r"array lm_head\.weight is missing",
    ),
    "no decoder": (
        "t5",
        lambda f: edit_arrays(f, lambda a: [a.pop(n) for n in list(a) if n.startswith("decoder.")]),
        r"array decoder\.block\.0\.\S+ is missing",
    ),
    "no output layer": (
        "esm",
        lambda f: edit_arrays(f, lambda a: [a.pop(n) for n in list(a) if n.startswith("lm_head.")]),
        r"array lm_head\.dense\.weight is missing",
    ),
    "bias of fewer tokens": (
        "bert",
        lambda f: edit_arrays(f, lambda a: a.update({BERT_BIAS: torch.zeros(24)})),
        r"array cls\.predictions\.bias has shape \(24,\).*\(25 values are needed\)",
    ),
    "types of another width": (
        "bert",
        lambda f: edit_arrays(
            f, lambda a: a.update({"bert.embeddings.token_type_embeddings.weight": torch.zeros(2, 1)})
        ),
        r"array bert\.embeddings\.token_type_embeddings\.weight has shape \(2, 1\)",
    ),
    "vocab_size": ("esm", lambda f: edit_config(f, vocab_size=64), r"\(33, 32\).* vocab_size of 64"),
    "old and new name": (
        "bert",
        lambda f: edit_arrays(f, lambda a: a.update({"bert.embeddings.LayerNorm.gamma": torch.ones(32)})),
        r"array bert\.embeddings\.LayerNorm\.\w+ is also in",
    ),
    "in two files": (
        "esm",
        lambda f: in_parts(f, both=WORDS),
        r"part-0\.safetensors: the array esm\.embeddings\.word_embeddings\.weight is also in .*part-1",
    ),
    "whole and in parts": (
        "esm",
        both_ways,
        r"model\.safetensors: lies beside model\.safetensors\.index\.json",
    ),
    "a part is missing": ("esm", without_part, r"names part-1\.safetensors, which is missing"),
    "whole numbers": (
        "esm",
        lambda f: edit_arrays(f, lambda a: a.update({WORDS: torch.zeros(33, 32, dtype=torch.int8)})),
        r"word_embeddings\.weight is int8; .* quantised",
    ),
    "quantised": ("esm", lambda f: edit_config(f, quantization_config={"bits": 4}), "quantization_config"),
    "biases of ESM C": (
        "esmc",
        lambda f: edit_arrays(f, lambda a: a.update({"esmc.layers.0.mlp.up_proj.bias": torch.zeros(48)})),
        r"array esmc\.layers\.0\.mlp\.up_proj\.bias has no place",
    ),
}


def edit_text(folder: Path, old: str, new: str) -> None:
    path = folder / "config.json"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


@pytest.mark.parametrize("name", REFUSED)
def test_what_contradicts_itself_is_named(name: str, tmp_path: Path):
    kind, spoil, said = REFUSED[name]
    folder = made(tmp_path / "model", kind)
    spoil(folder)
    with pytest.raises(BioattnError, match=said):
        load_language_model(folder, CPU)
    assert bioattn("validate", folder) == 1


NT2 = {
    "model_type": "esm",
    "architectures": ["EsmForMaskedLM"],
    "auto_map": {"AutoModelForMaskedLM": "modeling_esm.EsmForMaskedLM"},
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 64,
    "position_embedding_type": "rotary",
    "layer_norm_eps": 1e-12,
    "pad_token_id": 1,
    "mask_token_id": 2,
    "add_bias_fnn": False,
    "tie_word_embeddings": False,
}
NT2_TOKENS = ["<unk>", "<pad>", "<mask>", "<cls>", "<eos>", "<bos>"]
NT2_TOKENS += [*map("".join, product("ATCG", repeat=2)), *"ATCGN"]


def random_arrays(shapes: dict[str, tuple[int, ...]], seed: int) -> Arrays:
    made = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=made) / math.sqrt(shape[-1]) for name, shape in shapes.items()}


def linear_shapes(name: str, rows: int, columns: int, *, bias: bool = True) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (rows, columns)} | ({f"{name}.bias": (rows,)} if bias else {})


def norm_shapes(name: str, size: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (size,), f"{name}.bias": (size,)}


def linear(arrays: Arrays, name: str, inputs: Tensor) -> Tensor:
    outputs = inputs @ arrays[f"{name}.weight"].T
    return outputs + arrays[f"{name}.bias"] if f"{name}.bias" in arrays else outputs


def norm(arrays: Arrays, name: str, inputs: Tensor) -> Tensor:
    spread = inputs.var(-1, keepdim=True, correction=0) + 1e-12
    return (inputs - inputs.mean(-1, keepdim=True)) / spread.sqrt() * arrays[f"{name}.weight"] + arrays[
        f"{name}.bias"
    ]


def gelu(inputs: Tensor) -> Tensor:
    return inputs * (1 + torch.erf(inputs / math.sqrt(2))) / 2


def turned(vectors_LD: Tensor) -> Tensor:
    """Channel i of a head is rotated with channel i + half, by position · 10000^(-2i / channels)."""
    half = vectors_LD.shape[-1] // 2
    first, second = vectors_LD[:, :half], vectors_LD[:, half:]
    places = torch.arange(len(vectors_LD))[:, None]
    angle = places * 10_000 ** (-torch.arange(half) / half)
    return torch.cat(
        [first * angle.cos() - second * angle.sin(), first * angle.sin() + second * angle.cos()], dim=-1
    )


def attended(
    query: Tensor, key: Tensor, value: Tensor, heads: int, *, rotated: bool, slopes: list[float]
) -> tuple[Tensor, Tensor]:
    """Head by head: what is attended to, (L, C), and the maps (H, L, L)."""
    maps, found = [], []
    distance = (torch.arange(len(query))[:, None] - torch.arange(len(query))).abs()
    for q, k, v, slope in zip(
        *(each.chunk(heads, dim=-1) for each in (query, key, value)), slopes, strict=True
    ):
        q, k = (turned(q), turned(k)) if rotated else (q, k)
        maps.append((q @ k.T / math.sqrt(q.shape[-1]) - slope * distance).softmax(-1))
        found.append(maps[-1] @ v)
    return torch.cat(found, dim=-1), torch.stack(maps)


def nt2_shapes(*, bias: bool) -> dict[str, tuple[int, ...]]:
    size, inner, tokens = NT2["hidden_size"], NT2["intermediate_size"], len(NT2_TOKENS)
    shapes = {"esm.embeddings.word_embeddings.weight": (tokens, size)}
    for number in range(NT2["num_hidden_layers"]):
        layer = f"esm.encoder.layer.{number}"
        for name in ("self.query", "self.key", "self.value", "output.dense"):
            shapes |= linear_shapes(f"{layer}.attention.{name}", size, size)
        shapes |= linear_shapes(f"{layer}.intermediate.dense", 2 * inner, size, bias=bias)
        shapes |= linear_shapes(f"{layer}.output.dense", size, inner, bias=bias)
        shapes |= norm_shapes(f"{layer}.attention.LayerNorm", size) | norm_shapes(f"{layer}.LayerNorm", size)
    shapes |= norm_shapes("esm.encoder.emb_layer_norm_after", size)
    shapes |= linear_shapes("lm_head.dense", size, size) | norm_shapes("lm_head.layer_norm", size)
    return shapes | {"lm_head.decoder.weight": (tokens, size), "lm_head.bias": (tokens,)}


def nt2(arrays: Arrays, ids_L: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Logits and maps of Nucleotide Transformer v2: ESM-2 without token dropout, whose feed-forward networks are
    gated by a swish of their first half."""
    hidden = arrays["esm.embeddings.word_embeddings.weight"][ids_L]
    maps = []
    for number in range(NT2["num_hidden_layers"]):
        layer = f"esm.encoder.layer.{number}"
        given = norm(arrays, f"{layer}.attention.LayerNorm", hidden)
        projected = [
            linear(arrays, f"{layer}.attention.self.{name}", given) for name in ("query", "key", "value")
        ]
        heads = NT2["num_attention_heads"]
        added, weights = attended(*projected, heads, rotated=True, slopes=[0.0] * heads)
        maps.append(weights)
        hidden = hidden + linear(arrays, f"{layer}.attention.output.dense", added)
        given = linear(arrays, f"{layer}.intermediate.dense", norm(arrays, f"{layer}.LayerNorm", hidden))
        gate, wide = given.chunk(2, dim=-1)
        hidden = hidden + linear(arrays, f"{layer}.output.dense", gate * torch.sigmoid(gate) * wide)
    hidden = norm(arrays, "esm.encoder.emb_layer_norm_after", hidden)
    hidden = norm(arrays, "lm_head.layer_norm", gelu(linear(arrays, "lm_head.dense", hidden)))
    return hidden @ arrays["lm_head.decoder.weight"].T + arrays["lm_head.bias"], maps


DNABERT2 = {
    "architectures": ["BertForMaskedLM"],
    "auto_map": {"AutoModelForMaskedLM": "bert_layers.BertForMaskedLM"},
    "alibi_starting_size": 16,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "intermediate_size": 20,
    "max_position_embeddings": 16,
    "layer_norm_eps": 1e-12,
}
DNABERT2_TOKENS = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]", *"ACGT", "GA", "TA", "TTA"]


def dnabert2_shapes() -> dict[str, tuple[int, ...]]:
    size, inner, tokens = DNABERT2["hidden_size"], DNABERT2["intermediate_size"], len(DNABERT2_TOKENS)
    shapes = {
        "bert.embeddings.word_embeddings.weight": (tokens, size),
        "bert.embeddings.token_type_embeddings.weight": (2, size),
        "bert.pooler.dense.weight": (size, size),
        "cls.predictions.bias": (tokens,),
    }
    shapes |= norm_shapes("bert.embeddings.LayerNorm", size)
    for number in range(DNABERT2["num_hidden_layers"]):
        layer = f"bert.encoder.layer.{number}"
        shapes |= linear_shapes(f"{layer}.attention.self.Wqkv", 3 * size, size)
        shapes |= linear_shapes(f"{layer}.attention.output.dense", size, size)
        shapes |= linear_shapes(f"{layer}.mlp.gated_layers", 2 * inner, size, bias=False)
        shapes |= linear_shapes(f"{layer}.mlp.wo", size, inner)
        shapes |= norm_shapes(f"{layer}.attention.output.LayerNorm", size)
        shapes |= norm_shapes(f"{layer}.mlp.layernorm", size)
    shapes |= linear_shapes("cls.predictions.transform.dense", size, size)
    return shapes | norm_shapes("cls.predictions.transform.LayerNorm", size)


def dnabert2(arrays: Arrays, ids_L: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Logits and maps of DNABERT-2: BERT without positions, whose logits of attention fall with distance (ALiBi),
    and whose feed-forward networks are gated by a GELU of their first half; norms follow sums."""
    words = arrays["bert.embeddings.word_embeddings.weight"]
    hidden = words[ids_L] + arrays["bert.embeddings.token_type_embeddings.weight"][0]
    hidden = norm(arrays, "bert.embeddings.LayerNorm", hidden)
    # Of 4 heads 2^-2, 2^-4, 2^-6, 2^-8; two more have the first and the third of 8.
    slopes = [1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 8]
    maps = []
    for number in range(DNABERT2["num_hidden_layers"]):
        layer = f"bert.encoder.layer.{number}"
        projected = linear(arrays, f"{layer}.attention.self.Wqkv", hidden).chunk(3, dim=-1)
        added, weights = attended(*projected, DNABERT2["num_attention_heads"], rotated=False, slopes=slopes)
        maps.append(weights)
        hidden = hidden + linear(arrays, f"{layer}.attention.output.dense", added)
        hidden = norm(arrays, f"{layer}.attention.output.LayerNorm", hidden)
        gate, wide = linear(arrays, f"{layer}.mlp.gated_layers", hidden).chunk(2, dim=-1)
        hidden = hidden + linear(arrays, f"{layer}.mlp.wo", gelu(gate) * wide)
        hidden = norm(arrays, f"{layer}.mlp.layernorm", hidden)
    hidden = gelu(linear(arrays, "cls.predictions.transform.dense", hidden))
    hidden = norm(arrays, "cls.predictions.transform.LayerNorm", hidden)
    return hidden @ words.T + arrays["cls.predictions.bias"], maps


def write_repository(folder: Path, content: dict[str, Any], arrays: Arrays) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(content))
    torch.save(arrays, folder / "pytorch_model.bin")
    return folder


@pytest.mark.parametrize("name", ["nt2", "nt2 with biases", "dnabert2"])
def test_models_with_code_of_their_own_are_read_by_their_weights(name: str, tmp_path: Path):
    if name == "dnabert2":
        arrays = random_arrays(dnabert2_shapes(), 3)
        folder = write_repository(tmp_path / "model", DNABERT2, arrays)
        merges = [["G", "A"], ["T", "A"], ["T", "TA"]]
        numbers = {token: number for number, token in enumerate(DNABERT2_TOKENS)}
        model = {"type": "BPE", "unk_token": "[UNK]", "vocab": numbers, "merges": merges}
        tokenizer = {
            "version": "1.0",
            "added_tokens": [],
            "pre_tokenizer": {"type": "Whitespace"},
            "model": model,
        }
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
        reference, sequences = dnabert2, ("GATTACAGATTACA", "TTAC", "ACGTGA" * 4)
    else:
        bias = name != "nt2"
        arrays = random_arrays(nt2_shapes(bias=bias), 2)
        folder = write_repository(tmp_path / "model", NT2 | {"add_bias_fnn": bias}, arrays)
        if bias:  # as some of them have it
            edit_text(folder, '"model_type": "esm", ', "")
        (folder / "vocab.txt").write_text("\n".join(NT2_TOKENS))
        tokenizer = {"cls_token": "<cls>", "eos_token": None, "pad_token": "<pad>", "mask_token": "<mask>"}
        (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
        reference, sequences = nt2, ("GATTACA", "ACGT", "TTTTGGGGNCAC")
    loaded = load_language_model(folder, CPU)
    tokens_BL, ids_BL = ids_of(loaded, sequences)
    received = Received()
    with torch.no_grad(), capture(["*"], received):
        logits_BLV = loaded.model(tokens_BL)
    order = torch.from_numpy(loaded.vocabulary.order)
    known = order >= 0
    for row, tokens_L in enumerate(tokens_BL):
        length = int((tokens_L != PAD).sum())
        expected_LV, maps = reference(arrays, ids_BL[row, :length])
        assert (logits_BLV[row, :length, known] - expected_LV[:, order[known]]).abs().max() < 1e-5
        for number, weights in enumerate(maps):
            found = received.maps[f"language.encoder.{number}"][row, :, :length, :length]
            assert (found - weights).abs().max() < 1e-5
    if name != "dnabert2":  # six letters are three words of two, N stands alone; no token ends a sequence
        assert [loaded.vocabulary.published.tokens[each] for each in ids_BL[1, :3]] == ["<cls>", "AC", "GT"]
    (tmp_path / "x.fa").write_text(">a\nGATTACAGATTACA\n")
    assert bioattn("run", "language", folder, tmp_path / "x.fa", "-o", tmp_path / "t.tsv") == 0
    assert bioattn("validate", folder) == 0
    ours = tmp_path / "ours"
    assert bioattn("export", "parameters", folder, "-o", ours) == 0
    with torch.no_grad():
        again_BLV = load_language_model(ours, CPU).model(tokens_BL)
    assert (again_BLV - logits_BLV).abs().max() < 1e-5
    assert bioattn("export", "parameters", ours, "-o", tmp_path / "back") == 1


LORA = {"peft_type": "LORA", "r": 2, "lora_alpha": 6, "target_modules": ["query", "value"], "bias": "none"}


def low_rank(
    arrays: Arrays, names: list[str], rank: int = 2
) -> tuple[Arrays, dict[str, tuple[Tensor, Tensor]]]:
    """Adapters as peft stores them, and the two matrices of each."""
    made = torch.Generator().manual_seed(5)
    stored, pairs = {}, {}
    for name in names:
        rows, columns = arrays[f"{name}.weight"].shape
        if "h.0.attn" in name:  # stored transposed
            rows, columns = columns, rows
        down, up = (torch.randn(each, generator=made) / 10 for each in ((rank, columns), (rows, rank)))
        pairs[name] = down, up
        stored[f"base_model.model.{name}.lora_A.weight"] = down
        stored[f"base_model.model.{name}.lora_B.weight"] = up
    return stored, pairs


@pytest.mark.parametrize("name", ["esm", "rslora", "gpt2", "saved modules"])
def test_adapters_are_added_to_the_weights_beside_them(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    kind = "gpt2" if name == "gpt2" else "esm"
    folder = made(tmp_path / "model", kind)
    base = made(tmp_path / "merged", kind)
    arrays = load_file(folder / "model.safetensors")
    layers = ["transformer.h.0.attn.c_attn"]
    if kind == "esm":
        layers = [
            f"esm.encoder.layer.{n}.attention.self.{part}" for n in (0, 1) for part in ("query", "value")
        ]
    stored, pairs = low_rank(arrays, layers)
    scale = 6 / math.sqrt(2) if name == "rslora" else 3.0
    for layer, (down, up) in pairs.items():
        added = scale * up @ down
        arrays[f"{layer}.weight"] += added.T if kind == "gpt2" else added
    if name == "saved modules":
        arrays["lm_head.bias"] = stored["base_model.model.lm_head.bias"] = torch.randn(33)
    save_file(arrays, base / "model.safetensors", metadata={"format": "pt"})
    save_file(stored, folder / "adapter_model.safetensors")
    settings = LORA | {"use_rslora": name == "rslora", "fan_in_fan_out": kind == "gpt2"}
    before = load_language_model(folder, CPU)
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    theirs = type(MADE[kind][0]()).from_pretrained(base, attn_implementation="eager")
    loaded = read_as(folder, theirs)
    assert loaded.sha256 != before.sha256
    assert "adapters of" in caplog.text


BROKEN_ADAPTERS: dict[str, tuple[dict[str, object], Callable[[Arrays], object], str]] = {
    "kind": ({"peft_type": "IA3"}, lambda a: None, "peft_type is 'IA3'"),
    "dora": ({"use_dora": True}, lambda a: None, "use_dora is True"),
    "first values": ({"init_lora_weights": "pissa"}, lambda a: None, "init_lora_weights is 'pissa'"),
    "half": ({}, lambda a: a.popitem(), "lacks its other half"),
    "no matrix": ({}, lambda a: a.update({"x.lora_A.weight": a[next(iter(a))]}), "lacks its other half"),
    "stranger": ({}, lambda a: a.update({"base_model.model.esm.x": torch.zeros(2)}), "no counterpart"),
    "shape": ({}, lambda a: a.update({n: torch.zeros(2, 5) for n in a if "lora_A" in n}), "do not fit"),
    "one row": ({}, lambda a: a.update({n: torch.zeros(1, 2) for n in a if "lora_B" in n}), "do not fit"),
}


@pytest.mark.parametrize("name", BROKEN_ADAPTERS)
def test_other_adapters_are_named(name: str, tmp_path: Path):
    changes, spoil, said = BROKEN_ADAPTERS[name]
    folder = made(tmp_path / "model", "esm")
    arrays = load_file(folder / "model.safetensors")
    stored, _ = low_rank(arrays, ["esm.encoder.layer.0.attention.self.query"])
    spoil(stored)
    save_file({key: value.clone() for key, value in stored.items()}, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps(LORA | changes))
    with pytest.raises(BioattnError, match=said):
        load_language_model(folder, CPU)
    if name == "kind":
        (folder / "adapter_model.safetensors").unlink()
        (folder / "adapter_config.json").write_text(json.dumps(LORA))
        with pytest.raises(BioattnError, match=r"adapter_model\.safetensors beside it"):
            load_language_model(folder, CPU)


def test_adapters_alone_say_what_they_need(tmp_path: Path):
    (tmp_path / "adapter_config.json").write_text(
        json.dumps(LORA | {"base_model_name_or_path": "someone/esm2"})
    )
    save_file({"a.lora_A.weight": torch.zeros(2, 2)}, tmp_path / "adapter_model.safetensors")
    with pytest.raises(BioattnError, match="someone/esm2"):
        load_language_model(tmp_path, CPU)
