"""Alignments for the tests: small random families, and the real ones with known structure."""

import csv
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from bioattn.formats.alignment_file import read_alignment

LETTERS = np.frombuffer(b"ACDEFGHIKLMNPQRSTVWY", np.uint8)
RARE = np.frombuffer(b"BZUXJO", np.uint8)


class Family(NamedTuple):
    """One row of the index of real alignments with known structure."""

    row: dict[str, str]
    folder: Path

    @property
    def alignment(self):
        return read_alignment(self.folder / self.row["msa"])


@pytest.fixture(scope="session")
def families(shared):
    folder = shared / "data" / "msa_structure"
    with (folder / "INDEX.tsv").open() as file:
        return {row["id"]: Family(row, folder) for row in csv.DictReader(file, delimiter="\t")}


def random_family(rows, columns, seed):
    """Rows at all distances from each other, with gaps inside and at the ends, rare letters and repeats."""
    random = np.random.default_rng(seed)
    ancestors = random.choice(LETTERS, (4, columns))
    residues = ancestors[random.integers(0, 4, rows)]
    changed = random.random((rows, columns)) < random.choice([0, 0.05, 0.2, 0.5], (rows, 1))
    residues = np.where(changed, random.choice(LETTERS, (rows, columns)), residues)
    residues[random.random((rows, columns)) < 0.02] = random.choice(RARE)
    residues[random.random((rows, columns)) < random.choice([0, 0.3], (rows, 1))] = ord("-")
    starts, ends = np.sort(random.integers(0, columns + 1, (2, rows)), axis=0)
    outside = (np.arange(columns) < starts[:, None]) | (np.arange(columns) >= ends[:, None])
    residues[outside & (random.random((rows, 1)) < 0.3)] = ord("-")
    residues[0] = ancestors[0]
    return residues


@pytest.fixture
def hhfilter(tmp_path):
    """A function that runs hhfilter on rows and says which it keeps."""
    program = shutil.which("hhfilter")
    if program is None:
        pytest.skip("hhfilter is not installed (Debian: hhsuite)")

    def run(residues, *options):
        source, result = tmp_path / "in.a3m", tmp_path / "out.a3m"
        source.write_bytes(b"".join(b">%d\n%s\n" % (i, row.tobytes()) for i, row in enumerate(residues)))
        command = [program, "-i", source, "-o", result, "-v", "0", "-maxseq", "100000", *options]
        subprocess.run(command, check=True, capture_output=True)
        return [int(line[1:].split()[0]) for line in result.read_text().splitlines() if line[0] == ">"]

    return run
