"""A family in a folder of its own goes through the whole program: nothing else of bioattn knows of it.

The family is `tests/models/toy`: sequences of ragged lengths, one attention layer, its own result file. The
commands are run as a user runs them.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from bioattn.errors import BioattnError, FormatError
from bioattn.models import family as family_module
from bioattn.models.family import ability, families, family, family_of
from bioattn.models.model_folder import model_files
from bioattn.store.reader import open_attention
from bioattn_cli.main import main
from tests.result_files import assert_same_content

TOY = Path(__file__).parent / "toy"
SEQUENCES = {
    "a": "ACGTAC",
    "b": "TT",
    "c": "GATTACAGATTACA",
    "d": "C",
    "e": "ACGT",
    "f": "GGGCCC",
    "g": "TATA",
}
Run = Callable[..., str]


@pytest.fixture(scope="module")
def environment(bioattn_folder, tmp_path_factory):
    """The family in a temporary folder that BIOATTN_FAMILIES names."""
    families = tmp_path_factory.mktemp("families")
    shutil.copytree(TOY, families / "toy", ignore=shutil.ignore_patterns("__pycache__"))
    path = f"{bioattn_folder}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "BIOATTN_FAMILIES": str(families), "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the commands run; it holds `sequences.fa`."""
    folder = tmp_path_factory.mktemp("toy")
    text = "".join(f">{name}\n{sequence}\n" for name, sequence in SEQUENCES.items())
    (folder / "sequences.fa").write_text(text)
    return folder


@pytest.fixture(scope="module")
def run(environment, folder):
    """Run `bioattn` with some words, which must end well; what it printed."""

    def call(*words):
        command = ["bioattn", *map(str, words)]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return call


@pytest.fixture(scope="module")
def model(folder, run):
    """A model trained in one go, and what was run with it: `calls.txt`, `attention.h5`."""
    assert "accuracy" in run("train", "toy", "sequences.fa", "-o", "model", "--steps", "60")
    run("run", "toy", "model", "sequences.fa", "-o", "calls.txt")
    run("export", "attention", "model", "sequences.fa", "--batch-size", "3", "-o", "attention.h5")
    return folder / "model"


def test_in_python(model, folder, environment, python):
    code = (
        "import bioattn; model = bioattn.load_model('model'); print(model.predict('sequences.fa').calls['e']);"
        f"maps = model.attention({SEQUENCES}); print(maps.to_xarray(samples='c').shape)"
    )
    done = subprocess.run([python, "-c", code], cwd=folder, env=environment, capture_output=True, text=True)
    calls = dict(line.split("\t") for line in (folder / "calls.txt").read_text().splitlines()[1:])
    assert done.stdout.split("\n")[:2] == [calls["e"], "(2, 14, 14)"], done.stderr


def test_attention_of_ragged_sequences(model, folder):
    with open_attention(folder / "attention.h5") as attention:
        weights = attention.weights("toy.bases.0")
    assert weights.shape == (7, 2, 14, 14)
    with h5py.File(folder / "attention.h5") as file:
        assert file.attrs["format_version"] == b"2.0"
        lengths = file["samples/length"][:]
        np.testing.assert_array_equal(file["sites/toy.bases.0/weights"][:], weights)
    np.testing.assert_array_equal(lengths, [len(each) for each in SEQUENCES.values()])
    inside = np.arange(14) < lengths[:, None]
    # Rows of bases sum to one; behind the end of a sequence there is nothing.
    np.testing.assert_allclose(weights.sum(-1), np.broadcast_to(inside[:, None], (7, 2, 14)), atol=1e-6)
    assert not weights[~(inside[:, None, :, None] & inside[:, None, None, :]).repeat(2, 1)].any()


def test_calls_are_those_of_the_layers_by_hand(model, folder, environment):
    code = (
        "from bioattn.models.family import load_runner; import torch; from pathlib import Path\n"
        "runner = load_runner(Path('model'), torch.device('cpu')); m = runner.model\n"
        "codes = torch.tensor([['ACGT'.index(base) for base in 'GATTACAGATTACA']])\n"
        "x = m.embed(codes)[0]; a = m.attention\n"
        "q, k, v = (p(x).reshape(14, 2, 4) for p in (a.project_query, a.project_key, a.project_value))\n"
        "w = (torch.einsum('qhd,khd->hqk', q, k) / 2).softmax(-1)\n"
        "mixed = a.project_output(torch.einsum('hqk,khd->qhd', w, v).reshape(14, 8))\n"
        "print(''.join(str(int(one > 0)) for one in m.readout(torch.tanh(x + mixed))))\n"
    )
    done = subprocess.run(
        ["python", "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    calls = dict(line.split("\t") for line in (folder / "calls.txt").read_text().splitlines()[1:])
    assert calls["c"] == done.stdout.strip()
    assert {name: len(called) for name, called in calls.items()} == {
        name: len(sequence) for name, sequence in SEQUENCES.items()
    }


def test_shards_make_the_whole(model, folder, run):
    for shard in "123":
        words = ("export", "attention", "model", "sequences.fa", "--batch-size", "3", "-o")
        run(*words, f"attention{shard}.h5", "--shard", f"{shard}/3")
    run("merge", *(f"attention{shard}.h5" for shard in "312"), "-o", "merged.h5")
    assert_same_content(folder / "merged.h5", folder / "attention.h5")


def test_its_files_are_inspected_validated_and_reported(model, folder, run):
    assert "toy model folder" in run("inspect", "model")
    assert "sequences: 7" in run("inspect", "calls.txt")
    assert "length: 1 to 14" in run("inspect", "attention.h5")
    for name in ("model", "calls.txt", "attention.h5"):
        assert run("validate", name) == f"{name}: valid\n"
    (folder / "spoiled.txt").write_text((folder / "calls.txt").read_text().replace("\t", "\tx", 1))
    with pytest.raises(AssertionError):
        run("validate", "spoiled.txt")
    run("report", "model", "attention.h5", "-o", "report.html")
    assert "toy.bases" in (folder / "report.html").read_text()


def test_help_shows_it_and_is_free_of_torch(run, environment):
    assert "Train a toy model" in run("train", "--help")
    code = (
        "import sys; from bioattn_cli.main import main; main(['train', 'toy', '--help']); "
        "sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, stdout=subprocess.DEVNULL)


@pytest.fixture
def added(monkeypatch, tmp_path):
    """The family in this process, without a trace left behind: its own folder is named."""
    path = list(family_module.models.__path__)
    shutil.copytree(TOY, tmp_path / "toy", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setenv("BIOATTN_FAMILIES", str(tmp_path / "toy"))
    yield
    family_module.models.__path__[:] = path
    for name in [name for name in sys.modules if name.startswith("bioattn.models.toy")]:
        del sys.modules[name]


OWN = ", ".join(sorted(each.parent.name for each in Path(family_module.__file__).parent.glob("*/family.py")))
"""The families of bioattn, as messages list them."""


def test_a_model_folder_names_its_family(tmp_path, added):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "toy"}))
    assert family_of(tmp_path) is family("toy") is families()["toy"]
    assert {"model.safetensors", "treatments.json"} <= model_files()
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "toy_gone"}))
    with pytest.raises(FormatError, match=rf"type 'toy_gone'; known are {OWN}, toy \("):
        family_of(tmp_path)
    with pytest.raises(BioattnError, match="promoter models cannot fly; models that can: none"):
        ability(family("promoter"), "fly")
    (tmp_path / "config.json").unlink()
    with pytest.raises(FormatError, match=r"config\.json is missing"):
        family_of(tmp_path)


def test_a_model_folder_is_no_family(tmp_path, capsys):
    """The family.py in it would say so."""
    (tmp_path / "family.py").write_text("print('this ran')")
    (tmp_path / "config.json").write_text(json.dumps({"format": "bioattn-model", "model_type": "toy_mine"}))
    with pytest.raises(FormatError, match=f"type 'toy_mine'; known are {OWN}"):
        family_of(tmp_path)
    assert main(["inspect", str(tmp_path)]) == 1
    assert "this ran" not in capsys.readouterr().out
