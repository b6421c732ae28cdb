"""Every command and every line of Python in README.md, as a reader would type them.

A comment above a block says what is different about it: `<!-- test: shared -->` needs the shared data, and
`<!-- test: not run, … -->` is only looked at: its options must exist.
"""

import html
import json
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from tests.docs.conftest import ROOT, RunBash, run_python

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


class Block(NamedTuple):
    mark: str
    code: str


def blocks(language: str) -> list[Block]:
    found = re.findall(rf"(?:<!-- test: ([^>]*) -->\n)?```{language}\n(.*?)```", TEXT, flags=re.DOTALL)
    return [Block(*block) for block in found]


BASH = blocks("bash")
PYTHON = blocks("python")


@pytest.fixture(scope="module")
def worked_example(tmp_path_factory: pytest.TempPathFactory, run_bash: RunBash) -> Path:
    """The folder in which the unmarked bash blocks ran."""
    folder = tmp_path_factory.mktemp("readme")
    output = run_bash("".join(block.code for block in BASH if not block.mark), folder)
    assert "this model\ttest genes" in output
    assert "attention.h5: valid\n" in output
    return folder


def test_nothing_escapes_the_test() -> None:
    marks = [block.mark.split(",")[0] for block in BASH]
    assert marks == ["not run", "", "shared", "not run", "proteins", "not run", "proteins", ""]
    assert len(PYTHON) == 3
    assert len(re.findall(r"```\w", TEXT)) == len(BASH) + len(PYTHON) + len(blocks("r"))


@pytest.mark.slow
def test_the_worked_example_finds_the_motifs(worked_example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The picture says so: in treatment 1 the motif at -45..-37 is looked at most."""
    monkeypatch.chdir(worked_example)
    names = run_python(PYTHON[0].code)
    np.testing.assert_allclose(names["weights"].sum(-1), 1, rtol=1e-5)
    best = int(names["weights"].mean(0).argmax())
    assert names["edges"][best] - 200 < -37
    assert names["edges"][best + 1] - 200 > -45
    seen = run_python(PYTHON[1].code)
    assert float(seen["best"]) == (names["edges"][best] + names["edges"][best + 1]) / 2


@pytest.mark.slow
def test_what_reads_attention_writes_what_it_says(worked_example: Path) -> None:
    check = json.loads((worked_example / "check.json").read_text())
    assert check["verdict"]["code"] == "faithful-treatment-specific"
    assert {path.suffix for path in (worked_example / "tracks").iterdir()} >= {".bw", ".bedgraph", ".tsv"}
    assert (worked_example / "attention.png").read_bytes().startswith(b"\x89PNG")
    assert check["verdict"]["sentence"] in html.unescape((worked_example / "report.html").read_text())


@pytest.mark.slow
def test_the_protein_example_finds_contacts(
    tmp_path: Path, run_bash: RunBash, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The picture says so: most of the likeliest pairs are planted."""
    code = "".join(block.code for block in BASH if block.mark == "proteins")
    assert "family.attention.h5: valid\n" in run_bash(code, tmp_path)
    likeliest = pd.read_csv(tmp_path / "family" / "contacts.tsv", sep="\t").head(20)
    truth = pd.read_csv(ROOT / "data" / "families" / "contacts" / "simulated000000.tsv", sep="\t")
    planted = set(zip(truth["column_i"], truth["column_j"], strict=True))
    found = [pair in planted for pair in zip(likeliest["column_i"], likeliest["column_j"], strict=True)]
    assert np.mean(found) > 0.6
    monkeypatch.chdir(tmp_path)
    weights = run_python(PYTHON[2].code)["weights"]
    assert weights.shape == (4, 58, 58)
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-4)
    assert (tmp_path / "my-model" / "model.safetensors").is_file()


@pytest.mark.shared
def test_yeast(shared: Path, tmp_path: Path, run_bash: RunBash) -> None:
    (block,) = [block for block in BASH if block.mark == "shared"]
    run_bash(block.code, tmp_path, YEAST=str(shared / "data" / "yeast"))
    assert (tmp_path / "yeast.dataset.h5").stat().st_size > 1_000_000


@pytest.mark.parametrize("target", ["demo", "test"])
def test_make_knows_what_the_readme_says(target: str) -> None:
    assert f"make {target}\n" in TEXT.replace("            #", "\n")
    done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
