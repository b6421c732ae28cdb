"""Settings of `run evoformer`: which it refuses, what memory and precision do."""

import json
import re

import numpy as np
import pytest

from bioattn.alignments import couplings
from bioattn.models.evoformer import memory as evoformer_memory
from bioattn.models.evoformer.run import load_evoformer_model
from bioattn.models.evoformer.sites import AlignmentSizes
from bioattn_cli.main import main
from tests.inference.evoformer_runs import CPU, arrays, make_model, run, write_config, write_fasta


def test_what_memory_cannot_hold_is_refused_with_an_estimate(trunk, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(evoformer_memory, "free_memory", lambda: 1_000_000_000)
    path = tmp_path / "wide.aln"
    path.write_text("ACDEFGHIKL" * 500 + "\n" + "ACDEFGHIKV" * 500 + "\n")
    assert run(path, "--model", trunk, "-o", tmp_path / "out") == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert "5,000 columns" in error
    assert re.search(r"need about \d\S* GB of memory .*, 1 GB are free", error)
    assert not (tmp_path / "out").exists()


def test_covariances_that_memory_cannot_hold_are_refused(tmp_path, capsys, monkeypatch):
    """The estimate counts them, and the sentence names the model that needs none."""
    covariances = make_model(tmp_path / "model", structure_module=None, pair_features=3)
    config = load_evoformer_model(covariances, CPU).config
    assert evoformer_memory.estimate_memory(config, AlignmentSizes(2, 1, 1000)) > couplings.coupling_bytes(
        1000
    )
    monkeypatch.setattr(couplings, "free_memory", lambda: 1_000_000_000)
    path = tmp_path / "wide.aln"
    path.write_text("ACDEFGHIKL" * 100 + "\n" + "ACDEFGHIKV" * 100 + "\n")
    assert run(path, "--model", covariances, "-o", tmp_path / "out") == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert re.search(
        r"wide.aln: .*1,000 columns need about 2\S* GB .*; data/models/evoformer-contacts", error
    )


def test_tiles_get_smaller_where_memory_is_short(model, tmp_path, capsys, monkeypatch):
    letters = np.frombuffer(b"ACDEFGHIKLMNPQRSTVWY", np.uint8)
    many = letters[np.random.default_rng(0).integers(20, size=(605, 12))]
    path = write_fasta(tmp_path / "x.fasta", [row.tobytes().decode() for row in many])
    config = load_evoformer_model(model, CPU).config
    sizes = AlignmentSizes(5, 600, 12)
    whole, small = (evoformer_memory.estimate_memory(config, sizes, chunk=chunk) for chunk in (None, 1))
    assert small < whole
    inputs = write_config(tmp_path, "[inputs]\nmax_extra_msa = 600\n")
    command = ["run", "evoformer", str(path), "--model", str(model), "--config", str(inputs), "-o"]
    assert main([*command, str(tmp_path / "whole")]) == 0
    assert "of memory beside the model" in capsys.readouterr().err
    monkeypatch.setattr(evoformer_memory, "free_memory", lambda: small)
    assert main([*command, str(tmp_path / "small")]) == 0
    assert re.search(r"layers take [14] rows? at a time", capsys.readouterr().err)
    monkeypatch.setattr(evoformer_memory, "free_memory", lambda: small - 1)
    assert main([*command, str(tmp_path / "none")]) == 1
    results = [arrays(tmp_path / name / "distogram.h5")["probability"] for name in ("whole", "small")]
    np.testing.assert_allclose(*results, atol=1e-5)


def test_bf16_is_near_fp32_and_not_the_same(model, tmp_path):
    path = write_fasta(tmp_path / "x.fasta")
    results = []
    for precision in ("fp32", "bf16"):
        out = tmp_path / precision
        assert run(path, "--model", model, "-o", out, "--precision", precision) == 0
        results.append(arrays(out / "distogram.h5")["expected_distance"])
    difference = np.abs(results[0] - results[1])
    assert 0 < difference.mean() < 1
    assert json.loads((tmp_path / "bf16/scores.json").read_text())["settings"]["precision"] == "bf16"


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ((), 2, "--parameters FILE"),
        (("--model", "M", "--parameters", "M"), 2, "two models are called alike (trunk, trunk)"),
        (("--model", "M", "--recycles", 2), 1, "no recycling"),
        (("--model", "M", "--sites", "*"), 2, "--attention FILE"),
        (
            ("--model", "M", "--attention", "A", "--sites", "evoformer.*.surprise"),
            1,
            "no such attention site",
        ),
    ],
)
def test_options_that_cannot_be_met(options, code, said, trunk, tmp_path, capsys):
    path = write_fasta(tmp_path / "x.fasta")
    names = {"M": trunk, "A": tmp_path / "att.h5"}
    arguments = [names.get(str(option), option) for option in options]
    assert run(path, *arguments, "-o", tmp_path / "out") == code
    assert said in capsys.readouterr().err
    assert sorted(file.name for file in tmp_path.iterdir()) == ["x.fasta"]


@pytest.mark.parametrize(
    ("text", "attention", "said"),
    [
        ('[attention]\ndtype = "float16"\n', False, "--attention FILE"),
        ("[attention]\nheads = []\n", True, "run.toml [attention]: heads []: give at least one head"),
        ('[attention]\nreduce = "some"\n', True, "choose from none, mean-heads"),
        ("[attention]\ntop_k = 3\n", True, 'top_k is for reduce = "top-k"'),
        ("recycles = 3\n", False, "known are [inputs], [attention]"),
    ],
)
def test_settings_that_cannot_be_met(text, attention, said, trunk, tmp_path, capsys):
    path, config = write_fasta(tmp_path / "x.fasta"), write_config(tmp_path, text)
    options = ("--attention", tmp_path / "att.h5") if attention else ()
    assert run(path, "--model", trunk, "--config", config, *options, "-o", tmp_path / "out") == 1
    assert said in capsys.readouterr().err
    assert sorted(file.name for file in tmp_path.iterdir()) == ["run.toml", "x.fasta"]
