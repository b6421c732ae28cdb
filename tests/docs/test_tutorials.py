"""The tutorials: every command as a reader types it, and what stands under it is what it prints."""

import os
import shutil
import sys
from pathlib import Path

import pandas as pd
import pytest

from bioattn.formats.meme import read_meme
from tests.docs.conftest import COMMON_STEPS, ROOT, run_steps, steps


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
