"""The files in data/ are what the commands in data/README.md make."""

import gzip
import re
import shlex
from pathlib import Path

import pytest

from bioattn_cli.main import main

DATA = Path(__file__).resolve().parent.parent.parent / "data"
COMMANDS = re.findall(
    r"`bioattn (simulate \w+ -o data/.*?)`", (DATA / "README.md").read_text(encoding="utf-8")
)


def files_in(folder):
    """What the files of a folder hold by name; the larger ones are kept compressed."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file() and path.parent.name != "bioattn-records":
            held = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            found[str(path.relative_to(folder)).removesuffix(".gz")] = held
    return found


def test_every_folder_has_its_command():
    folders = sorted(path.name for path in DATA.iterdir() if (path / "simulation.json").is_file())
    assert folders == sorted(re.search(r"-o data/(\S+)", command)[1] for command in COMMANDS)
    assert len(folders) >= 3


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_makes_the_same_files(tmp_path, monkeypatch, command):
    if "molecules" in command:
        pytest.importorskip("rdkit", reason="no RDKit here (pip install rdkit)")
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    assert main([*shlex.split(command), "--quiet"]) == 0
    made = Path(shlex.split(command)[shlex.split(command).index("-o") + 1])
    found, kept = files_in(made), files_in(DATA.parent / made)
    assert found.keys() == kept.keys()
    for name, held in found.items():
        assert held == kept[name], name


def test_the_data_stay_small():
    sizes = {path: path.stat().st_size for path in DATA.rglob("*") if path.is_file()}
    models = sum(size for path, size in sizes.items() if path.is_relative_to(DATA / "models"))
    assert models < 10_000_000
    assert sum(sizes.values()) - models < 1_500_000
