"""docs/models/promoter.md: its tables are those of the code, its TOML is accepted."""

import importlib.util
import re
from pathlib import Path

from bioattn.models.promoter.family import PromoterTraining
from bioattn.models.settings import with_config_file

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "models" / "promoter.md"


def settings_tables():
    spec = importlib.util.spec_from_file_location("settings_tables", ROOT / "docs" / "settings_tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_are_those_of_the_code():
    text = PAGE.read_text(encoding="utf-8")
    assert text == settings_tables().with_tables(PAGE.name, text), "run: python docs/settings_tables.py"


def test_every_setting_is_explained():
    tables = settings_tables()
    for kind in tables.TABLES[PAGE.name].values():
        assert set(tables.field_texts(kind)) == set(kind.__dataclass_fields__)


def test_the_toml_is_accepted(tmp_path):
    (toml,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    (tmp_path / "settings.toml").write_text(toml)
    places = {"dataset": tmp_path / "x.h5", "output": tmp_path / "m", "config": tmp_path / "settings.toml"}
    settings = with_config_file(PromoterTraining(**places, seed=3))
    assert settings.merged("model") == {"hops": 2}
    assert settings.merged("training") == {"epochs": 60, "seed": 3}
    assert settings.reference == "control"
