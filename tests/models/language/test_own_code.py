"""Models whose code lies in their repositories, read by their weights, against plain code of what they are."""

import json
import math
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from bioattn.attention.capture import capture
from bioattn.models.language.folder import load_language_model
from bioattn.sequences.vocabulary import PAD
from tests.making import bioattn
from tests.models.language.test_published import ids_of
from tests.models.language.test_published_folders import CPU, Arrays
from tests.result_files import Heard

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
        tokenizer = {"added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}, "model": model}
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer | {"version": "1.0"}))
        reference, sequences = dnabert2, ("GATTACAGATTACA", "TTAC", "ACGTGA" * 4)
    else:
        bias = name != "nt2"
        arrays = random_arrays(nt2_shapes(bias=bias), 2)
        content = NT2 | {"add_bias_fnn": bias}
        if bias:  # as some of them have it
            del content["model_type"]
        folder = write_repository(tmp_path / "model", content, arrays)
        (folder / "vocab.txt").write_text("\n".join(NT2_TOKENS))
        tokenizer = {"cls_token": "<cls>", "eos_token": None, "pad_token": "<pad>", "mask_token": "<mask>"}
        (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
        reference, sequences = nt2, ("GATTACA", "ACGT", "TTTTGGGGNCAC")
    loaded = load_language_model(folder, CPU)
    tokens_BL, ids_BL = ids_of(loaded, sequences)
    received = Heard()
    with torch.no_grad(), capture(["*"], received):
        logits_BLV = loaded.model(tokens_BL)
    order = torch.from_numpy(loaded.vocabulary.order)
    known = order >= 0
    for row, tokens_L in enumerate(tokens_BL):
        length = int((tokens_L != PAD).sum())
        expected_LV, maps = reference(arrays, ids_BL[row, :length])
        assert (logits_BLV[row, :length, known] - expected_LV[:, order[known]]).abs().max() < 1e-5
        for number, weights in enumerate(maps):
            found = received.by_site[f"language.encoder.{number}"][0][row, :, :length, :length]
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
