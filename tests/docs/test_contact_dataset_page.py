"""The lines that docs/formats/contact-dataset.md tells people to type, and the tree and audit it describes."""

import re
from pathlib import Path

import h5py
import numpy as np
import pytest
from scipy.sparse import csr_array

from bioattn.alignments.contact_audit import ContactAuditRow
from bioattn.alignments.contact_dataset import ContactProtein, write_contact_dataset
from bioattn.alignments.contact_preparation import ContactSettings
from tests.docs.conftest import run_python

PAGE = Path(__file__).resolve().parents[2] / "docs" / "formats" / "contact-dataset.md"
TEXT = PAGE.read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)


@pytest.fixture
def protein(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ContactProtein:
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    columns = 20
    cb = random.normal(0, 5, (columns, 3)).astype(np.float32)
    cb[2] = np.nan
    protein = ContactProtein(
        id="ID",
        group="family",
        split=0,
        chain="A",
        msa=random.integers(0, 22, (6, columns)).astype(np.uint8),
        deletions=csr_array(np.eye(6, columns, dtype=np.int32)),
        aatype=np.zeros(columns, np.int32),
        cb=cb,
        residue_numbers=["" if index == 2 else str(index) for index in range(columns)],
    )
    settings = ContactSettings()
    metadata = {name: getattr(settings, name) for name in settings.__slots__} | {"grouping": "given"}
    write_contact_dataset(tmp_path / "x.dataset.h5", [protein], metadata)
    return protein


def test_h5py(protein: ContactProtein) -> None:
    names = run_python(SNIPPETS[0])
    np.testing.assert_array_equal(names["rows"], protein.msa)
    apart = np.linalg.norm(protein.cb[4] - protein.cb[9])
    np.testing.assert_allclose(np.asarray(names["distance"])[4, 9], apart, rtol=1e-6)
    assert np.isnan(np.asarray(names["distance"])[2]).all()


def test_bioattn(protein: ContactProtein) -> None:
    names = run_python(SNIPPETS[1])
    assert (names["depth"], names["families"]) == (6, {"family"})
    touching = np.asarray(names["touching"])
    for i in range(20):
        for j in range(20):
            near = np.linalg.norm(protein.cb[i] - protein.cb[j]) < 8
            assert touching[i, j] == (near and abs(i - j) >= 6)


def test_the_tree_is_complete(protein: ContactProtein) -> None:
    """Every object of a file is in the table of the page, and the other way round."""
    with h5py.File("x.dataset.h5") as file:
        found = {f"attribute {name}" for name in file.attrs}
        file.visititems(lambda name, node: found.add("/" + name) if isinstance(node, h5py.Dataset) else None)
    tree = TEXT.split("## Tree")[1].split("## What goes in")[0]
    described = set()
    for line in tree.splitlines():
        if line.startswith("| `/` attribute"):
            described.add("attribute " + re.findall(r"`(\w+)`", line)[0])
        elif line.startswith("| `/"):
            names = re.findall(r"`([\w/]+)`", line.split("|")[1])
            folder = names[0].rsplit("/", 1)[0]
            described |= {name if name.startswith("/") else f"{folder}/{name}" for name in names}
    assert {name.replace("000000", "NNNNNN") for name in found} == described


def test_settings_and_audit_are_described() -> None:
    metadata = next(line for line in TEXT.splitlines() if line.startswith("| `/metadata`"))
    for name in ContactSettings.__slots__:
        assert f"`{name}`" in metadata
    audit = TEXT.split("### Audit")[1]
    for name in ContactAuditRow._fields:
        assert f"`{name}`" in audit
