"""The lines that docs/formats/dataset.md tells people to type, and the tree it describes."""

import re
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest

from bioattn.promoters.dataset import PromoterDataset, write_dataset
from bioattn.promoters.treatments import TreatmentTable
from tests.docs.conftest import run_python

PAGE = Path(__file__).resolve().parents[2] / "docs" / "formats" / "dataset.md"
TEXT = PAGE.read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)


@pytest.fixture
def dataset(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    index = pd.Index(["control", "TREATMENT"], dtype=object, name="treatment")
    dataset = PromoterDataset(
        gene_ids=["other", "GENE", "third"],
        chrom=["I"] * 3,
        start=np.array([0, 100, 200]),
        end=np.array([50, 150, 250]),
        strand=["+", "-", "+"],
        codes=np.random.default_rng(0).integers(0, 5, (3, 50)).astype(np.uint8),
        flank=0,
        targets=np.arange(6, dtype=np.float32).reshape(3, 2),
        treatments=TreatmentTable(pd.DataFrame({"dose": [0.0, 1.0]}, index=index)),
        gene_split=np.array([0, 1, 2], np.uint8),
        treatment_split=np.zeros(2, np.uint8),
        task="regression",
        metadata={"leakage": []},
        standard_error=np.ones((3, 2), np.float32),
        target_mean=np.zeros(2),
        target_sd=np.ones(2),
    )
    write_dataset(tmp_path / "x.dataset.h5", dataset)
    return dataset


def test_h5py(dataset):
    names = run_python(SNIPPETS[0])
    assert names["response"] == dataset.targets[1, 1]
    np.testing.assert_array_equal(names["codes"], dataset.codes[1])
    assert names["test"].tolist() == [False, False, True]


def test_bioattn(dataset):
    names = run_python(SNIPPETS[1])
    np.testing.assert_array_equal(names["test_targets"], dataset.targets[2:])
    assert list(names["features"]["dose"]) == [0, 1]
    assert names["leakage"] == []


def test_the_tree_is_that_of_the_file(dataset):
    table = TEXT.split("## Tree")[1].split("\n## ")[0]
    first_cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `/")]
    attributes = {
        name for cell in first_cells if "attribute" in cell for name in re.findall(r"`(\w+)`", cell)
    }
    arrays = {
        name for cell in first_cells if "attribute" not in cell for name in re.findall(r"`(/[\w/]+)`", cell)
    }
    with h5py.File("x.dataset.h5") as file:
        assert set(file.attrs) == attributes
        found = set()
        file.visititems(lambda name, node: found.add("/" + name) if isinstance(node, h5py.Dataset) else None)
    assert found == arrays
