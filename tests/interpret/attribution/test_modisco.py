"""TF-MoDISco-lite reads what `export attribution` writes, in an environment of its own."""

import os
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest

from benchmarks.peers import borrowing_environment
from bioattn.store.windows import promoter_samples
from bioattn_cli.main import main
from tests.result_files import write_attribution

GENES, LENGTH = 120, 120
MOTIF = "TGACTCATTG"


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """An attribution file with a motif in each promoter whose bases have all the contributions but noise."""
    random = np.random.default_rng(0)
    codes = random.integers(0, 4, (GENES, LENGTH), dtype=np.uint8)
    values = random.normal(0, 0.02, (GENES, 2, LENGTH, 4)).astype(np.float32)
    motif = ["ACGT".index(base) for base in MOTIF]
    for gene in range(GENES):
        start = int(random.integers(25, LENGTH - 35))
        codes[gene, start : start + len(motif)] = motif
        for offset, base in enumerate(motif):
            values[gene, 1, start + offset] -= 0.3
            values[gene, 1, start + offset, base] += 1.2
    values -= values.mean(-1, keepdims=True)
    unknown = np.full(GENES, -1)
    names = [f"G{gene}" for gene in range(GENES)]
    places = promoter_samples(names, [""] * GENES, unknown, unknown, ["."] * GENES)
    nothing = np.zeros((GENES, 2), np.float32)
    write_attribution(tmp_path / "x.h5", places, codes, values, nothing, ["control", "heat"])
    return tmp_path / "x.h5"


def test_modisco_finds_the_planted_motif(planted: Path, tmp_path: Path) -> None:
    python, missing = borrowing_environment(tmp_path / "peers", {"modiscolite": "modisco-lite>=2.2"})
    if missing:
        pytest.skip(f"TF-MoDISco-lite is {missing['modiscolite']}")
    arrays = tmp_path / "arrays"
    assert main(["export", "attribution", str(planted), "-o", str(arrays), "--treatment", "heat"]) == 0

    found = subprocess.run(
        [
            python.with_name("modisco"),
            *("motifs", "-s", arrays / "sequences.npz", "-a", arrays / "heat.npz"),
            *("-n", "300", "-w", str(LENGTH), "-o", tmp_path / "modisco.h5"),
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "NUMBA_NUM_THREADS": "1"},
    )

    assert found.returncode == 0, found.stderr
    with h5py.File(tmp_path / "modisco.h5") as file:
        patterns = [
            "".join("ACGT"[base] for base in pattern["sequence"][:].argmax(1))
            for pattern in file["pos_patterns"].values()
        ]
    assert len(patterns) == 1
    assert MOTIF in patterns[0]
