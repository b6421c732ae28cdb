"""docs/models/evoformer.md: its tables are those of the code, its files exist, its Python runs."""

import re
import shutil
from pathlib import Path

import pytest
from Bio.PDB.MMCIFParser import MMCIFParser

from tests.docs.conftest import run_python

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "models" / "evoformer.md"
TEXT = PAGE.read_text(encoding="utf-8")
PACKAGE = ROOT / "bioattn" / "models" / "evoformer"


def test_the_tables_are_those_of_the_code(settings_tables):
    assert settings_tables.with_tables(PAGE.name, TEXT) == TEXT, "run: python docs/settings_tables.py"
    for kind in settings_tables.TABLES[PAGE.name].values():
        assert set(settings_tables.field_texts(kind)) == set(kind.__dataclass_fields__)


def test_every_layer_is_in_the_table_of_files():
    """Whatever names an algorithm in its first line."""
    (table,) = re.findall(r"\| algorithm \| file.*?\n\n", TEXT, flags=re.DOTALL)
    listed = {PACKAGE / name for name in re.findall(r"`([\w/]+\.py)`", table)}
    listed |= {PACKAGE / "structure_module" / path.name for path in listed if not path.exists()}
    for path in sorted(PACKAGE.rglob("*.py")):
        if "Algorithm" in path.read_text(encoding="utf-8").split("\n", 1)[0]:
            assert path in listed, path
    assert sum(path.exists() for path in listed) == len(set(re.findall(r"`([\w/]+\.py)`", table)))


@pytest.mark.shared
def test_the_python_runs(shared, tmp_path, monkeypatch):
    (snippet,) = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    shutil.copy(shared / "golden" / "tiny_params_af2.npz", "params_model_3_ptm.npz")
    shutil.copy(shared / "golden" / "features_small.a3m", "family.a3m")
    names = run_python(snippet)
    residues = list(MMCIFParser(QUIET=True).get_structure("family", "family.cif").get_residues())
    aatype = names["encoded"].aatype
    assert len(residues) == (aatype < 20).sum()
    assert {len(tiles) for site, tiles in names["maps"].tiles.items() if site.startswith("structure")} == {4}
    assert set(names["maps"].tiles) == {
        *(f"evoformer.{block:02d}.msa_row" for block in range(2)),
        *(f"structure.invariant_point.{layer}" for layer in range(8)),
    }
