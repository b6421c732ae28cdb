"""Every command of every page, as a reader types it in the folder where the README's examples were run.

A comment above a block says what is different about it: `<!-- test: shared -->` needs the shared data, and
`<!-- test: not run, WHY -->` is only looked at: it must parse, and its options must exist (test_pages.py).
The pages on Python and Snakemake have tests of their own; of the tutorials also what commands print is compared.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from bioattn.formats.meme import read_meme
from tests.conftest import made_once
from tests.docs.conftest import COMMON_STEPS, PAGES, ROOT, blocks, run_python, run_steps, steps

README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")
ELSEWHERE = {
    README,
    *(ROOT / "docs" / "tutorials").glob("*.md"),
    ROOT / "docs" / "python.md",
    ROOT / "docs" / "workflows" / "snakemake.md",
}
RUN = [page for page in PAGES if page not in ELSEWHERE and any(not block.mark for block in blocks(page))]


def readme_commands():
    """The commands of the README, which begin with those of the promoter tutorial."""
    code = "".join(block.code for block in blocks(README) if not block.mark).replace("\\\n", "")
    commands = re.split(r"^(?=bioattn )", code, flags=re.MULTILINE)[1:]
    same = [step.commands.replace("tutorial/", "").replace("\\\n", "") for step in steps("promoters.md")]
    assert list(map(shlex.split, same[1:COMMON_STEPS])) == list(
        map(shlex.split, commands[: COMMON_STEPS - 1])
    )
    return commands


@pytest.fixture(scope="session")
def readme(demo, tmp_path_factory, run_bash):
    """The folder in which the README's commands ran. Those of the tutorial are not run again."""

    def make(folder):
        shutil.copytree(demo / "tutorial", folder, dirs_exist_ok=True)
        run_bash("".join(readme_commands()[COMMON_STEPS - 1 :]), folder)

    return made_once(tmp_path_factory, "readme", make)


@pytest.fixture(scope="session")
def reader(readme, tmp_path_factory, run_bash):
    """The same with every 32nd promoter, as no other page has figures to compare. `demo-output` stands for
    what `make demo` makes of the same files and settings."""

    def make(folder):
        records = (readme / "promoters.fa").read_text().split(">")[1:]
        few = [record for record in records if int(record[1:5]) % 32 == 24]
        (folder / "promoters.fa").write_text("".join(f">{record}" for record in few))
        (folder / "model").symlink_to(readme / "model")
        run_bash(readme_commands()[COMMON_STEPS - 2], folder)
        made = folder / "demo-output"
        made.mkdir()
        for name in ("model", "attention.h5", "promoters.fa", "demo.dataset.h5"):
            (made / re.sub("(model|attention)", r"\1-0", name)).symlink_to(f"../{name}")
        for path in readme.iterdir():
            if not (folder / path.name).exists():
                (folder / path.name).symlink_to(path)

    return made_once(tmp_path_factory, "reader", make)


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_a_page(page, reader, tmp_path, run_bash):
    code = "".join(block.code for block in blocks(page) if not block.mark)
    if "molecule" in code:
        pytest.importorskip("rdkit", reason="no RDKit here (pip install rdkit)")
    for path in reader.iterdir():
        if not re.search(rf"-o {re.escape(path.name)}\s", code):
            (tmp_path / path.name).symlink_to(path)
    fewer = re.sub(r"--(epochs|steps) \d+", r"--\1 2", code)
    run_bash(fewer.replace("--pairs 2000", "--pairs 250"), tmp_path)


@pytest.mark.shared
def test_yeast(shared, tmp_path, run_bash):
    marked = [block for page in PAGES for block in blocks(page) if block.mark == "shared"]
    assert len(marked) == 1
    run_bash(marked[0].code, tmp_path, YEAST=str(shared / "data" / "yeast"))
    assert (tmp_path / "yeast.dataset.h5").stat().st_size > 1_000_000


def test_nothing_escapes():
    assert len(RUN) > 10
    for page in PAGES:
        for block in blocks(page):
            assert block.mark in ("", "shared") or block.mark.startswith("not run, "), page
        outside = page.read_text(encoding="utf-8")
        for block in blocks(page):
            outside = outside.replace(block.code, "")
        if "benchmarks" not in page.parts:
            assert not [line for line in outside.splitlines() if line.startswith("    bioattn ")], page


@pytest.mark.slow
def test_the_promoter_example_finds_the_motifs(readme, monkeypatch):
    """The picture says so: in treatment 1 the motif at -45..-37 is looked at most."""
    monkeypatch.chdir(readme)
    (code,) = [block.code for block in blocks(README, "python")]
    names = run_python(code)
    assert -45 <= float(names["highest"]) < -37
    assert names["responses"].shape == (4000, 4)
    assert (readme / "report.html").stat().st_size > 100_000


@pytest.mark.parametrize("target", ["demo", "test"])
def test_make_knows_what_the_readme_says(target, tmp_path):
    """An output folder without files: after `make demo` its steps would not be printed again."""
    assert f"\nmake {target} " in TEXT
    command = ["make", "-n", target, f"OUT={tmp_path / 'demo-output'}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    if target == "demo":
        # The README's example and the demo train the same model, so the figures of all pages agree.
        assert "--anchor cds --upstream 200 --downstream 0 --flank 20" in done.stdout
        assert "--epochs 10 --seed 0 --threads 1" in done.stdout


@pytest.mark.slow
def test_promoters(demo, tmp_path, run_bash):
    """The model finds the motifs that were planted, and the figures are there."""
    shutil.copytree(demo / "tutorial", tmp_path / "tutorial")
    run_steps(steps("promoters.md")[COMMON_STEPS:], tmp_path, run_bash)
    planted = {motif.name: motif for motif in read_meme(ROOT / "data" / "demo" / "motifs.meme").motifs}
    found = pd.read_csv(tmp_path / "tutorial" / "motifs" / "motifs.tsv", sep="\t")
    for treatment in range(1, 5):
        own = found[found["surest_treatment"] == f"treatment{treatment}"]
        assert f"motif{treatment}" in set(own["match"])
    assert len(planted) == 6
    assert (tmp_path / "tutorial" / "G3512.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "tutorial" / "report.html").stat().st_size > 100_000


@pytest.mark.slow
def test_language(tmp_path, run_bash, shared, monkeypatch):
    shutil.copy(shared / "data/ecoli/GCF_000005845.2_ASM584v2_genomic.fna.gz", tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")  # of faidx
    run_steps(steps("language.md"), tmp_path, run_bash)
    folder = tmp_path / "language-tutorial"
    assert (folder / "heads.png").read_bytes().startswith(b"\x89PNG")
    bits = pd.read_csv(folder / "scores.tsv", sep="\t")["bits_per_word"]
    assert len(bits) == 4
    assert bits.max() < 1.98


@pytest.mark.slow
def test_proteins(tmp_path, run_bash):
    run_steps(steps("proteins.md"), tmp_path, run_bash)
    folder = tmp_path / "protein-tutorial"
    for name in ("contacts.png", "attention-contacts.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    atoms = [line for line in (folder / "painted.pdb").read_text().splitlines() if line.startswith("ATOM")]
    painted = [float(line[60:66]) for line in atoms]
    assert (min(painted), max(painted)) == (0, 100)
    assert (folder / "family.html").stat().st_size > 50_000
