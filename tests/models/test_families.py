"""Discovery of families in folders that BIOATTN_FAMILIES names, and commands made from settings."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bioattn.errors import BioattnError, FormatError
from bioattn.models import family as families_module
from bioattn.models.family import ability, families, family, family_of
from bioattn.models.model_folder import model_files
from bioattn_cli.main import main

OWN = ", ".join(
    sorted(path.parent.name for path in Path(families_module.__file__).parent.glob("*/family.py"))
)
"""The families of bioattn, as messages list them."""
TOY = '''
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bioattn.models.running import RunReport
from bioattn.io.settings import (
    Settings, Writes, argument, CONFIG, option, output_option, SHARD, table
)
from bioattn.models.NAME.widths import WIDTH


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    width: int = option("Width.", default=WIDTH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Train(Settings):
    """Train a NAME."""

    dataset: Path = argument("DATASET", "Any file.")
    output: Path = output_option("Model folder to write.")
    config: tuple[Path, ...] = CONFIG
    model: Mapping[str, Any] = table(Model)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(Settings):
    """Run a NAME."""

    text: Path = argument("TEXT", "Any file.", recorded="words")
    output: Path = output_option("Its letters.", Writes.STREAM)
    times: int = option("How often.", default=1, min=1)
    shard: str | None = SHARD


class Toy:
    name = "NAME"
    title, settings, nouns = "toys", {"train": Train, "run": Run}, {}
    files = ["toy.json"]

    def run(self, settings, running):
        letters = settings.text.read_text() * settings.times
        if str(settings.output) == "-":
            running.stdout.write(letters)
            return RunReport(outputs=[])
        settings.output.write_text(letters)
        running.warn("toys are odd")
        return RunReport(
            "wrote letters",
            outputs=[settings.output],
            letters=len(letters),
            failure="one toy broke" if settings.times > 2 else None,
        )


FAMILY = Toy()
'''


def write_family(folder, name):
    folder.mkdir(parents=True)
    (folder / "family.py").write_text(TOY.replace("NAME", name))
    (folder / "widths.py").write_text("WIDTH = 8\n")
    return folder


@pytest.fixture
def added(monkeypatch):
    """Have folders named by BIOATTN_FAMILIES in this process, without a trace left behind."""
    path = list(families_module.models.__path__)
    yield lambda *folders: monkeypatch.setenv("BIOATTN_FAMILIES", os.pathsep.join(map(str, folders)))
    families_module.models.__path__[:] = path
    for name in [name for name in sys.modules if name.startswith("bioattn.models.toy")]:
        del sys.modules[name]


def test_families_of_other_folders_have_commands(tmp_path):
    """A family folder and a folder of families; nothing else is changed, and nobody needs torch for --help."""
    folders = [write_family(tmp_path / "a" / "toy_one", "toy_one")]
    folders.append(write_family(tmp_path / "b" / "toy_two", "toy_two").parent)
    program = (
        "import sys; from bioattn_cli.main import main; code = main(sys.argv[1:]);"
        "assert not {'torch', 'numpy', 'pandas'} & set(sys.modules); sys.exit(code)"
    )
    environment = os.environ | {"BIOATTN_FAMILIES": os.pathsep.join(map(str, folders))}
    for words, shown in (
        (["train", "--help"], ("evoformer", "promoter", "toy_one", "toy_two", "Train a toy_two.")),
        (["train", "toy_one", "--help"], ("DATASET", "--width", "Width [default: 8].", "--config")),
    ):
        run = subprocess.run(
            [sys.executable, "-c", program, *words], env=environment, capture_output=True, text=True
        )
        assert run.returncode == 0, run.stderr
        assert all(word in run.stdout for word in shown)


def test_a_family_runs(tmp_path):
    """By its settings and its report alone: results, the run record, sentences, a failure."""
    environment = os.environ | {"BIOATTN_FAMILIES": str(write_family(tmp_path / "toy_runs", "toy_runs"))}
    (tmp_path / "words.txt").write_text("ab")

    def run(*words):
        program = [sys.executable, "-m", "bioattn_cli", "run", "toy_runs", "words.txt", *words]
        return subprocess.run(program, cwd=tmp_path, env=environment, capture_output=True, text=True)

    assert run("-o", "-").stdout == "ab"
    done = run("-o", "out.txt", "--times", "2", "--shard", "1/2")
    assert (done.returncode, (tmp_path / "out.txt").read_text()) == (0, "abab")
    assert "toys are odd" in done.stderr
    assert "wrote letters" in done.stderr
    record = json.loads((tmp_path / "bioattn-records/out.txt.json").read_text())
    assert (record["letters"], record["shard"]) == (4, "1/2")
    assert list(record["inputs"]) == ["words"]
    broken = run("-o", "out.txt", "--times", "3")
    assert broken.returncode == 1
    assert "one toy broke" in broken.stderr
    assert run("-o", "words.txt").returncode != 0  # the input
    assert (tmp_path / "words.txt").read_text() == "ab"


def test_a_model_folder_names_its_family(tmp_path, added):
    added(write_family(tmp_path / "toy_here", "toy_here"))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "toy_here"}))
    assert family_of(tmp_path) is family("toy_here") is families()["toy_here"]
    assert {"model.safetensors", "treatments.json", "toy.json"} <= model_files()
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "toy_gone"}))
    with pytest.raises(
        FormatError,
        match=rf"type 'toy_gone'; known are {OWN}, toy_here \(",
    ):
        family_of(tmp_path)
    with pytest.raises(BioattnError, match=f"known are {OWN}, toy_here"):
        family("toy_gone")
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
