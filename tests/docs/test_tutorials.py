"""The tutorials: every command as a reader types it, and what stands under it is what it prints.

A block of ```sh is run, in the order of the page, in one folder beside `data`; the block of ```text behind it must
be found in what it printed: line by line in this order, numbers within a quarter of each other (or 0.1), and `…`
standing for anything. A comment `<!-- test: not run, … -->` above a block of commands says why it is not run.
"""

import re
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pytest

from bioattn.formats.meme import read_meme
from tests.docs.conftest import ROOT, RunBash

PAGES = ROOT / "docs" / "tutorials"
NUMBER = re.compile(r"(?<![\w.])[-−+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")


class Step(NamedTuple):
    mark: str
    commands: str
    printed: str


def steps(page: str) -> list[Step]:
    text = (PAGES / page).read_text(encoding="utf-8")
    found = re.findall(
        r"(?:<!-- test: ([^>]*) -->\n)?```sh\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", text, flags=re.DOTALL
    )
    assert len(found) == len(re.findall(r"^```sh$", text, flags=re.MULTILINE))
    assert sum(bool(step[2]) for step in found) == len(re.findall(r"^```text$", text, flags=re.MULTILINE))
    return [Step(*step) for step in found]


def run_page(page: str, folder: Path, run_bash: RunBash) -> None:
    """Run all steps of a page; what each printed is compared with what the page says."""
    for step in steps(page):
        if step.mark.startswith("not run"):
            continue
        printed = run_bash(step.commands, folder, everything=True)
        missing = not_printed(step.printed, printed)
        assert missing is None, f"{page} says {missing!r}, but this was printed:\n{printed}"


def not_printed(expected: str, printed: str) -> str | None:
    """The first line of `expected` that `printed` lacks behind those before it."""
    lines = iter(printed.splitlines())
    for wanted in expected.splitlines():
        if wanted.strip() and wanted.strip() != "…" and not any(says(line, wanted) for line in lines):
            return wanted
    return None


def says(line: str, wanted: str) -> bool:
    """Whether a line is the one wanted, but for white space and small changes of its numbers."""
    plain, pattern = " ".join(line.split()), " ".join(wanted.split())
    parts = NUMBER.split(pattern)
    expression = r"([-−+]?\d[\d,.]*(?:e[-+]?\d+)?)".join(re.escape(part).replace("…", ".*") for part in parts)
    match = re.fullmatch(expression, plain)
    return match is not None and all(
        close(number(ours), number(theirs))
        for ours, theirs in zip(match.groups(), NUMBER.findall(pattern), strict=True)
    )


def number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", "").rstrip("."))


def close(one: float, other: float) -> bool:
    return abs(one - other) <= max(0.1, 0.25 * abs(other))


def test_lines_are_compared() -> None:
    printed = "wrote a\ntest genes\t0.824\t1,234\nskill −0.5 of G12\n"
    assert not_printed("test genes 0.85 1,200\n…\nskill −0.45 of G12", printed) is None
    assert not_printed("test … 1,234", printed) is None
    assert not_printed("test genes 0.5 1,234", printed) == "test genes 0.5 1,234"
    assert not_printed("skill −0.45 of G13", printed) == "skill −0.45 of G13"
    assert not_printed("skill −0.45 of G12\nwrote a", printed) == "wrote a"


@pytest.mark.slow
def test_promoters(tmp_path: Path, run_bash: RunBash) -> None:
    """The model finds the motifs that were planted, and the figures are there."""
    run_page("promoters.md", tmp_path, run_bash)
    planted = {motif.name: motif for motif in read_meme(ROOT / "data" / "demo" / "motifs.meme").motifs}
    found = pd.read_csv(tmp_path / "tutorial" / "motifs" / "motifs.tsv", sep="\t")
    for treatment in range(1, 5):
        own = found[found["surest_treatment"] == f"treatment{treatment}"]
        assert f"motif{treatment}" in set(own["match"])
    assert len(planted) == 6
    assert (tmp_path / "tutorial" / "G3512.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "tutorial" / "report.html").stat().st_size > 100_000


@pytest.mark.slow
def test_proteins(tmp_path: Path, run_bash: RunBash) -> None:
    run_page("proteins.md", tmp_path, run_bash)
    folder = tmp_path / "protein-tutorial"
    for name in ("contacts.png", "attention-contacts.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    atoms = [line for line in (folder / "painted.pdb").read_text().splitlines() if line.startswith("ATOM")]
    painted = [float(line[60:66]) for line in atoms]
    assert (min(painted), max(painted)) == (0, 100)
    assert (folder / "family.html").stat().st_size > 50_000
