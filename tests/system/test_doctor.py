"""`bioattn doctor` tells versions, device, threads and memory, and what is broken."""

import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata

import pytest
import torch

from bioattn.system import doctor
from bioattn_cli.main import main
from tests.conftest import REPOSITORY


def diagnosed(name):
    (found,) = [diagnosis for diagnosis in doctor.examine() if diagnosis.name == name]
    return found


def test_text_and_json_say_the_same(capsys):
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert main(["doctor", "--json"]) == 0
    diagnoses = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in diagnoses] == re.findall(r"^[ !X] (\S+(?: \S+)*)  ", text, re.MULTILINE)
    assert not any(one["broken"] for one in diagnoses)
    versions = {one["name"]: one["text"] for one in diagnoses if one["topic"] == "versions"}
    declared = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    for requirement in declared["dependencies"]:
        package = re.split("[>=]", requirement)[0]
        assert versions[package] == metadata.version(package)


@pytest.mark.parametrize(
    ("error", "text"),
    [(ImportError("libx.so is absent\nat …"), r"\(libx.so is absent\)"), (ModuleNotFoundError(), "^not")],
)
def test_a_needed_package_that_fails_is_broken(monkeypatch, capsys, error, text):
    def import_module(name):
        if name in ("h5py", "matplotlib"):
            raise error

    monkeypatch.setattr(doctor, "import_module", import_module)
    assert re.search(text, diagnosed("h5py").text)
    assert diagnosed("h5py").broken
    assert not diagnosed("matplotlib").broken
    assert main(["doctor"]) == 1
    assert re.search(r"^X h5py ", capsys.readouterr().out, re.MULTILINE)


def test_a_python_without_torch_is_told_from_a_crash(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')\n")
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from bioattn_cli.main import main; sys.exit(main(['doctor']))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    assert "no torch here" in done.stdout
    assert not done.stderr


@pytest.mark.parametrize(("difference", "broken"), [(1e-7, False), (3.0, True), (float("nan"), True)])
def test_a_device_that_computes_wrongly_is_broken(monkeypatch, difference, broken):
    monkeypatch.setattr(doctor, "_forward", lambda device: difference)
    assert diagnosed("forward pass").broken is broken


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_is_named_and_tried():
    assert diagnosed("auto").text.startswith("takes cuda (")
    assert not diagnosed("forward pass").broken
