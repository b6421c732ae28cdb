"""docs/figures.md: its commands have the options they use, its pictures are there, its Python runs."""

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer

from bioattn.formats.rr import write_rr
from bioattn_cli.main import app, main

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "figures.md").read_text(encoding="utf-8")
COMMANDS = [
    shlex.split(line)[1:]
    for block in re.findall(r"```bash\n(.*?)```", TEXT, flags=re.DOTALL)
    for line in block.replace("\\\n", " ").splitlines()
    if line.startswith("bioattn ")
]
PICTURES = re.findall(r"!\[[^\]]+\]\((figures/[^)]+)\)", TEXT)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[:2]))
def test_every_option_exists(words) -> None:
    command = typer.main.get_command(app).commands[words[0]].commands[words[1]]
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    for word in words[2:]:
        if word.startswith("-"):
            assert word.partition("=")[0] in known, word
        elif word.startswith("data/"):
            assert (ROOT / word).exists()


def test_every_command_and_its_picture_is_there() -> None:
    plots = typer.main.get_command(app).commands["plot"].commands
    assert {words[1] for words in COMMANDS if words[0] == "plot"} == set(plots)
    drawn = {words[words.index("-o") + 1] for words in COMMANDS if words[0] == "plot"}
    assert {Path(picture).name for picture in PICTURES} == drawn
    sizes = [(ROOT / "docs" / picture).stat().st_size for picture in PICTURES]
    assert sum(sizes) < 1_500_000


def test_a_command_of_the_page(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").symlink_to(ROOT / "data")
    (words,) = [words for words in COMMANDS if words[:2] == ["plot", "logos"]]
    assert main(words) == 0
    assert (tmp_path / "logos.png").stat().st_size > 10_000


def test_the_python_lines(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").symlink_to(ROOT / "data")
    truth = pd.read_csv(ROOT / "data" / "families" / "contacts" / "simulated000000.tsv", sep="\t")
    scores = np.zeros((58, 58))
    scores[truth["column_i"] - 1, truth["column_j"] - 1] = 0.9
    (tmp_path / "family").mkdir()
    write_rr(tmp_path / "family" / "contacts.rr", "A" * 58, scores + scores.T, target="family", method=[])
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    exec(compile(code, "figures.md", "exec"), {})
    assert (tmp_path / "contacts.svg").read_text().startswith("<?xml")
