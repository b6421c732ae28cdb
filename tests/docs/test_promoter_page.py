"""docs/models/promoter.md: its tables are those of the code, its TOML is accepted."""

import re
from pathlib import Path

from bioattn.models.promoter.family import PromoterTrainingSettings
from bioattn.models.settings import with_config_file

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "models" / "promoter.md"


def test_the_tables_are_those_of_the_code(settings_tables):
    text = PAGE.read_text(encoding="utf-8")
    assert text == settings_tables.with_tables(PAGE.name, text), "run: python docs/settings_tables.py"


def test_every_setting_is_explained(settings_tables):
    for kind in settings_tables.TABLES[PAGE.name].values():
        assert set(settings_tables.field_texts(kind)) == set(kind.__dataclass_fields__)


def test_the_toml_is_accepted(tmp_path):
    (toml,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    (tmp_path / "settings.toml").write_text(toml)
    places = {"dataset": tmp_path / "x.h5", "output": tmp_path / "m", "config": tmp_path / "settings.toml"}
    settings = with_config_file(PromoterTrainingSettings(**places, seed=3))
    assert settings.merged("model") == {"hops": 2}
    assert settings.merged("training") == {"epochs": 60, "seed": 3}
    assert settings.reference == "control"
