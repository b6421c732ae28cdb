"""Low-rank adapters of `peft` beside the weights of published models."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from bioattn.errors import BioattnError
from bioattn.models.language.folder import load_language_model
from tests.models.language.test_published_folders import CPU, MADE, Arrays, made, read_as

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


def test_adapters_alone_say_what_they_need(tmp_path: Path):
    (tmp_path / "adapter_config.json").write_text(
        json.dumps(LORA | {"base_model_name_or_path": "someone/esm2"})
    )
    save_file({"a.lora_A.weight": torch.zeros(2, 2)}, tmp_path / "adapter_model.safetensors")
    with pytest.raises(BioattnError, match="someone/esm2"):
        load_language_model(tmp_path, CPU)
