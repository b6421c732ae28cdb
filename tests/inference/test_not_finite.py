"""Weights that are finite and give NaN or infinities: refused where results are made, and by `validate`."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from bioattn.attention.site import Axis
from bioattn.errors import BioattnError
from bioattn.inference.run import Work
from bioattn.io.files import sha256_of
from bioattn.store.schema import Array, Block, FileLayout, GroupLayout, Samples
from tests.inference.evoformer_runs import make_model, write_fasta
from tests.making import bioattn


def set_weights(folder, ending, value):
    """Set all values of one array of a model folder."""
    path, config = folder / "model.safetensors", folder / "config.json"
    arrays = load_file(path)
    next(array for name, array in arrays.items() if name.endswith(ending)).fill_(value)
    save_file(arrays, path, metadata={"format": "bioattn-model 1"})
    content = json.loads(config.read_text())
    if "sha256" in content:
        config.write_text(json.dumps({**content, "sha256": {path.name: sha256_of(path)}}))
    return folder


@pytest.mark.parametrize(
    "words",
    [
        "run promoter MODEL PROMOTERS -o x.tsv",
        "run promoter MODEL PROMOTERS -o x.tsv --attention x.h5",
        "export attention MODEL PROMOTERS -o x.h5",
        "explain attribution MODEL PROMOTERS -o x.h5",
    ],
)
def test_promoters(words, make_model, make_promoters, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    model = set_weights(make_model(), "hops.0.project_key.weight", 1e38)
    paths = {"MODEL": model, "PROMOTERS": make_promoters(5)}
    before = sorted(tmp_path.iterdir())
    assert bioattn(*(paths.get(word, word) for word in words.split())) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith(
        f"bioattn: error: promoter 'G000': the model {model} gives NaN or infinite predict"
    )
    assert sorted(tmp_path.iterdir()) == before
    assert bioattn("validate", model) == 1
    assert "gives NaN or infinite predictions for a random input" in capsys.readouterr().out


def test_checks_and_heads(tmp_path, make_model, make_promoters, capsys):
    """`explain check` on NaN, `explain heads` on a loss beyond float32."""
    model = set_weights(make_model(), "hops.0.project_key.weight", 1e38)
    check = ("explain", "check", model, make_promoters(30), "--samples", 20, "-o", tmp_path / "x.json")
    assert bioattn(*check) == 1
    assert f"the model {model} gives NaN or infinite predictions" in capsys.readouterr().err
    promoters, responses = tmp_path / "plain.fa", tmp_path / "responses.tsv"
    letters = np.random.default_rng(0).choice(list("ACGT"), (30, 120))
    promoters.write_text("".join(f">G{number:03d}\n{''.join(row)}\n" for number, row in enumerate(letters)))
    rows = "".join(f"G{number:03d}\t{number}\t{-number}\t1\t{number % 3}\n" for number in range(30))
    responses.write_text("gene\theat-5\th2o2-20\theat-40\tdtt-10\n" + rows)
    dataset = tmp_path / "x.dataset.h5"
    assert bioattn("prepare", "dataset", promoters, responses, "-o", dataset, "--split", "random") == 0
    set_weights(model, "hops.0.project_key.weight", 0)
    set_weights(model, "readout.from_context.bias", 1e30)
    assert bioattn("explain", "heads", model, dataset, "-o", tmp_path / "heads") == 1
    assert f"validation data: the model {model} gives NaN or infinite " in capsys.readouterr().err
    assert not (tmp_path / "heads").exists()


def test_half_precision_that_cannot_hold_what_is_weighted(make_model, make_promoters, tmp_path, capsys):
    model = set_weights(make_model(), "hops.0.project_value.weight", 1e6)
    command = ("export", "attention", model, make_promoters(5), "-o", tmp_path / "x.h5", "--value-weighted")
    assert bioattn(*command, "--dtype", "float16") == 1
    assert "infinite value_weighted of promoter.cross.0; use another model or input, or --dtype float32" in (
        capsys.readouterr().err
    )
    assert not list(tmp_path.glob("x.h5*"))
    assert bioattn(*command) == 0
    assert bioattn("validate", tmp_path / "x.h5") == 0


@pytest.mark.parametrize(
    ("ending", "what", "weights"),
    [
        ("distogram_head.project_pair.weight", "distances", "distances"),
        ("blocks.1.msa_transition.expand.weight", "distances", "weights of "),
    ],
)
def test_alignments(ending, what, weights, tmp_path, capsys):
    model = set_weights(make_model(tmp_path / "m"), ending, 1e38)
    command = (
        "run",
        "evoformer",
        write_fasta(tmp_path / "x.fasta"),
        "--model",
        model,
        "-o",
        tmp_path / "out",
    )
    for options, said in (((), what), (("--attention", tmp_path / "x.h5"), weights)):
        assert bioattn(*command, *options) == 1
        sentence = capsys.readouterr().err.splitlines()[-1]
        assert f"x.fasta: the model {model}/model.safetensors gives NaN or infinite {said}" in sentence
        assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "x.fasta"]
    assert bioattn("validate", model) == 1
    assert f"gives NaN or infinite {what} for a random input" in capsys.readouterr().out


def test_behind_the_end_of_a_sample_stands_anything():
    axis = Axis("position", size=3, lengths="length")
    layout = GroupLayout(path="x", axes=(axis,), arrays=(Array("values", "float32", ("position",)),))
    values = torch.tensor([[1.0, 2.0, torch.nan], [1.0, torch.nan, 3.0]]).numpy()
    lengths = torch.tensor([2, 3], dtype=torch.int32).numpy()
    block = Block(Samples({"id": ["a", "b"], "length": lengths}), {"x": {"values": values}})
    work = Work(source=None, noun="sample", batch_size=2, compute=lambda _: block)  # type: ignore[arg-type]
    with pytest.raises(BioattnError, match=r"^sample 'b': the model gives NaN or infinite values of x; use"):
        work.block(None, FileLayout(inputs="samples", model_sha256="", groups=(layout,)))  # type: ignore[arg-type]
