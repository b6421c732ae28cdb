"""A small dataset with a signal: one motif per treatment raises the response to that treatment."""

import numpy as np
import pandas as pd
import pytest

from bioattn.formats.nucleotides import encode
from bioattn.promoters.dataset import PromoterDataset, write_dataset
from bioattn.promoters.treatments import TreatmentTable

MOTIFS = ("TGACTCA", "CCCCTTA", "GATAAGG")
FLANK = 4
LENGTH = 64


def make_dataset(task="regression", genes=400, seed=0):
    random = np.random.default_rng(seed)
    codes = random.integers(0, 4, size=(genes, LENGTH + 2 * FLANK)).astype(np.uint8)
    holds = random.random((genes, len(MOTIFS))) < 0.4
    for gene in range(genes):
        for t, motif in enumerate(MOTIFS):
            if holds[gene, t]:
                start = FLANK + int(random.integers(t * 20, t * 20 + 12))
                codes[gene, start : start + len(motif)] = encode(motif)
    if task == "regression":
        targets = (2.0 * holds + random.normal(0, 0.2, holds.shape) + 5).astype(np.float32)
    else:
        targets = holds.astype(np.float32)
    targets[random.random(holds.shape) < 0.05] = np.nan
    frame = pd.DataFrame(
        {"agent": ["salt", "heat", "salt"], "minutes": [10.0, 20.0, 40.0]}, index=pd.Index(["a", "b", "c"])
    )
    return PromoterDataset(
        gene_ids=[f"g{i}" for i in range(genes)],
        chrom=["chr1"] * genes,
        start=np.arange(genes, dtype=np.int64) * 100,
        end=np.arange(genes, dtype=np.int64) * 100 + LENGTH,
        strand=["+"] * genes,
        codes=codes,
        flank=FLANK,
        targets=targets,
        treatments=TreatmentTable(frame=frame.astype({"agent": object})),
        gene_split=np.repeat(np.array([0, 1, 2], np.uint8), [genes - 100, 50, 50]),
        treatment_split=np.zeros(len(MOTIFS), np.uint8),
        task=task,
        metadata={},
    )


@pytest.fixture
def motifs():
    """The motif of each treatment."""
    return MOTIFS


@pytest.fixture(scope="session")
def dataset_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "small.dataset.h5"
    write_dataset(path, make_dataset())
    return path


@pytest.fixture(scope="session")
def tiny_path(tmp_path_factory):
    """Of 20 training genes."""
    path = tmp_path_factory.mktemp("data") / "tiny.dataset.h5"
    write_dataset(path, make_dataset(genes=120))
    return path


@pytest.fixture(scope="session")
def binary_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "binary.dataset.h5"
    write_dataset(path, make_dataset("binary"))
    return path
