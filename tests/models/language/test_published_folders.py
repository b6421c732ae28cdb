"""Folders of published models as people have them: what config.json, index and weights say of each other.

They are compared with what `transformers` makes of the same folder.
"""

import json
import math
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from bioattn import load_model
from bioattn.errors import BioattnError
from bioattn.models.language.config import Output
from bioattn.models.language.folder import LoadedLanguageModel, load_language_model
from tests.making import bioattn
from tests.models.language.test_published import (
    BERT_TOKENS,
    ESM_TOKENS,
    GPT2_TOKENS,
    PROTEINS,
    SMALL,
    T5_TOKENS,
    edit_arrays,
    edit_config,
    make_bert,
    make_esm,
    make_gpt2,
    make_t5,
    published,
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
    published(folder, build(theirs.config) if build else theirs, tokens)
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
FREQUENCIES = "esm.encoder.layer.*.attention.self.rotary_embeddings.inv_freq"
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
    "t5: the output's name alone": ("t5", renamed(SHARED, HEAD), {}),
    "t5: another output": ("t5", renamed(SHARED, SHARED, HEAD, value=OTHER), {}),
    "t5: decoder's name, untied": ("t5", renamed(SHARED, DECODED, HEAD, value=OTHER), OLD_T5),
    "t5: fewer decoder layers": ("t5", None, {}),
    "t5-encoder: copy": ("t5-encoder", renamed(SHARED, SHARED, ENCODED), {}),
    "gpt2: copy": ("gpt2", renamed("transformer.wte.weight", "transformer.wte.weight", HEAD), {}),
    "gpt2: the output's name alone": ("gpt2", renamed("transformer.wte.weight", HEAD), {}),
    "esm: copy": ("esm", renamed(WORDS, WORDS, ESM_HEAD), {}),
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


def in_parts(folder: Path, both: str = "", listed: str = "") -> None:
    """Two files of weights and their index; both: name of an array that lies in each; listed: of one in none."""
    path = folder / "model.safetensors"
    arrays = load_file(path)
    path.unlink()
    names = list(arrays)
    places = {}
    for number in range(2):
        part = {name: arrays[name] for name in [*names[number::2], *([both] if both else [])]}
        save_file(part, folder / f"part-{number}.safetensors", metadata={"format": "pt"})
        places |= dict.fromkeys([*part, *([listed] if listed else [])], f"part-{number}.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))


def both_ways(folder: Path) -> None:
    shutil.copy(folder / "model.safetensors", folder / "whole")
    in_parts(folder)
    (folder / "whole").rename(folder / "model.safetensors")


def without_part(folder: Path) -> None:
    in_parts(folder)
    (folder / "part-1.safetensors").unlink()


def without_index(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "model-1-of-2.safetensors")


REFUSED: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "two matrices of embeddings": (
        "t5",
        lambda f: edit_arrays(f, renamed(SHARED, SHARED, ENCODED, value=OTHER)),
        r"array shared\.weight and encoder\.embed_tokens\.weight differ",
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
    "kinds of tokens": (
        "bert",
        lambda f: edit_config(f, type_vocab_size=4),
        r"token_type_emb\S+ has shape \(2, 32\)",
    ),
    "frequencies": (
        "esm",
        lambda f: edit_arrays(f, lambda a: a.update({FREQUENCIES: torch.ones(9)})),
        r"inv_freq has shape \(9,\)",
    ),
    "stretched positions": (
        "esmc",
        lambda f: edit_config(f, rope_parameters=None, rope_scaling={"type": "linear", "factor": 2.0}),
        "positions of the kind 'linear' are not read",
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
    "no index": ("esm", without_index, r"holds model-1-of-2\.safetensors without its index"),
    "in the index alone": (
        "t5",
        lambda f: in_parts(f, listed=HEAD),
        r"part-1\S+ for the array lm_head\.weight",
    ),
    "a pointer": (
        "esm",
        lambda f: (f / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\n"),
        r"model\.safetensors: is a pointer of Git LFS",
    ),
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


@pytest.mark.parametrize("name", REFUSED)
def test_what_contradicts_itself_is_named(name: str, tmp_path: Path):
    kind, spoil, said = REFUSED[name]
    folder = made(tmp_path / "model", kind)
    spoil(folder)
    with pytest.raises(BioattnError, match=said):
        load_language_model(folder, CPU)
    assert bioattn("validate", folder) == 1


NEW_ROWS = torch.randn(40, 32, generator=torch.Generator().manual_seed(2))
BROKEN_PARTS: dict[str, tuple[str, Callable[[Arrays], object], str]] = {
    "old bias": ("esm", lambda a: a.update({WORDS: NEW_ROWS}), r"lm_head\.bias has shape \(33,\)"),
    "no bias": ("esm", lambda a: a.pop("lm_head.bias"), r"lm_head\.bias is missing"),
    "no number": ("bert", lambda a: a[BERT_BIAS].fill_(math.nan), r"predictions\.bias holds NaN"),
    "old output": ("gpt2", lambda a: a.update({HEAD: OTHER[:8]}), r"lm_head\.weight has shape \(8, 32\)"),
    "contacts": (
        "esm",
        lambda a: a.update({"esm.contact_head.regression.weight": torch.ones(1, 7)}),
        r"regression\.weight has shape \(1, 7\)",
    ),
}


@pytest.mark.parametrize("name", BROKEN_PARTS)
def test_a_broken_part_ends_every_command_with_its_name(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    kind, spoil, said = BROKEN_PARTS[name]
    folder = made(tmp_path / "model", kind)
    edit_arrays(folder, spoil)
    if name == "old bias":
        edit_config(folder, vocab_size=len(NEW_ROWS))
    (tmp_path / "s.fa").write_text(f">a\n{PROTEINS[1]}\n")
    words = (folder, tmp_path / "s.fa")
    for command in (
        ("run", "language", *words, "--embeddings", tmp_path / "e.h5"),
        ("run", "language", *words, "-o", tmp_path / "t.tsv"),
        ("export", "attention", *words, "-o", tmp_path / "a.h5"),
        ("export", "parameters", folder, "-o", tmp_path / "ours"),
        ("validate", folder),
    ):
        assert bioattn(*command) == 1
        assert re.search(said, "".join(capsys.readouterr()))


def test_esm_c_of_its_makers_names_the_folder_to_take(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    weights = tmp_path / "esmc" / "data" / "weights" / "esmc_300m_2024_12_v0.pth"
    weights.parent.mkdir(parents=True)
    torch.save({"embed.weight": torch.zeros(64, 8)}, weights)
    (tmp_path / "s.fa").write_text(">a\nMK\n")
    for model in (weights, tmp_path / "esmc"):
        assert bioattn("run", "language", model, tmp_path / "s.fa", "--embeddings", tmp_path / "e.h5") == 1
        assert "give the folder of transformers, such as biohub/ESMC-300M" in capsys.readouterr().err


def test_rows_without_a_token_are_never_read(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """Those of tokens that were added for training, whose tokenizer was not saved."""

    def resized(config: Any) -> nn.Module:
        model = transformers.BertForMaskedLM(config)
        model.resize_token_embeddings(27)
        return model

    folder = made(tmp_path / "model", "bert", resized)
    read_as(folder, transformers.BertForMaskedLM.from_pretrained(folder, attn_implementation="eager"))
    assert "has 25 tokens, the embeddings of the weights 27: the last 2 are never read" in caplog.text


# --- low-rank adapters of peft beside the weights ---

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
    "stranger": ({}, lambda a: a.update({"base_model.model.esm.x": torch.zeros(2)}), "no counterpart"),
    "shape": ({}, lambda a: a.update({n: torch.zeros(2, 5) for n in a if "lora_A" in n}), "do not fit"),
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


@pytest.mark.parametrize("config", [False, True])
def test_adapters_alone_say_what_they_need(config: bool, tmp_path: Path):
    (tmp_path / "adapter_config.json").write_text(
        json.dumps(LORA | {"base_model_name_or_path": "someone/esm2"})
    )
    save_file({"a.lora_A.weight": torch.zeros(2, 2)}, tmp_path / "adapter_model.safetensors")
    if config:
        make_esm().config.save_pretrained(tmp_path)
    with pytest.raises(BioattnError, match="someone/esm2"):
        load_model(tmp_path)


def test_models_of_other_kinds_are_refused_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder, fasta = tmp_path / "model", tmp_path / "s.fa"
    transformers.AlbertModel(transformers.AlbertConfig(**SMALL, embedding_size=8)).save_pretrained(folder)
    fasta.write_text(">a\nMK\n")
    words = (folder, fasta, "-o", tmp_path / "o.h5")
    for command in (("run", "language", *words), ("export", "attention", *words), ("validate", folder)):
        assert bioattn(*command) == 1
        assert re.search(
            r"model of type 'albert'; .* transformers .*esm, esmc, bert, gpt2, t5",
            "".join(capsys.readouterr()),
        )


def test_no_token_stands_for_one_that_the_vocabulary_lacks(tmp_path: Path):
    """Neither the mask nor an unknown letter is read as a row of zeros."""
    folder = made(tmp_path / "model", "bert")
    text = (folder / "vocab.txt").read_text()
    (folder / "vocab.txt").write_text(text.replace("[MASK]", "[A]").replace("[UNK]", "[B]"))
    loaded = load_language_model(folder, CPU)
    (tmp_path / "v.tsv").write_text("sequence\tmutant\nsequence_1\tM1K\n")
    for scored in (loaded.predict, lambda inputs: loaded.score_variants(inputs, tmp_path / "v.tsv")):
        with pytest.raises(BioattnError, match="no token for masked words"):
            scored("MKV")
    assert loaded.predict("MKV", score="one-pass").log_likelihood.iloc[0] < 0
    with pytest.raises(BioattnError, match=r"no tokens of the model \(X\)"):
        loaded.embed("MKX")
    # A tokenizer that merges leaves such letters out.
    merged = {"type": "BPE", "vocab": {"A": 0, "C": 1, "G": 2, "T": 3, "AC": 4}, "merges": [["A", "C"]]}
    made(tmp_path / "merged", "gpt2", vocab_size=5, bos_token_id=None, eos_token_id=None)
    (tmp_path / "merged/tokenizer.json").write_text(
        json.dumps({"version": "1.0", "added_tokens": [], "model": merged})
    )
    with pytest.raises(BioattnError, match=r"no tokens of the model \(N\)"):
        load_language_model(tmp_path / "merged", CPU).embed("ACGNT")


@pytest.mark.parametrize("words", ["A C G U T", "##A ##C ##G ##T A C G T"])
def test_of_like_tokens_the_plain_one_is_read(words: str, tmp_path: Path):
    tokens = f"[PAD] [UNK] [CLS] [SEP] [MASK] {words}"
    published(tmp_path, make_bert(vocab_size=len(tokens.split())), tokens)
    vocabulary = load_language_model(tmp_path, CPU).vocabulary
    assert [vocabulary.tokens[each] for each in vocabulary.words("TACG", "s")] == list("TACG")


def test_a_model_without_an_output_is_fine_tuned_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = made(tmp_path / "model", "esm", HEADLESS["EsmModel"][1])
    (tmp_path / "s.fa").write_text("".join(f">{n}\n{PROTEINS[0]}{'A' * n}\n" for n in range(20)))
    dataset, words = tmp_path / "d.h5", ("--alphabet", "protein", "--split", "record")
    assert bioattn("prepare", "language", tmp_path / "s.fa", *words, "-o", dataset) == 0
    assert bioattn("train", "language", dataset, "--from", folder, "-o", tmp_path / "more", "--steps", 1) == 1
    assert "without an output layer, so that it predicts no tokens" in capsys.readouterr().err
