"""docs/models/evoformer-training.md: its tables are those of the code, its TOML is accepted."""

import re
from pathlib import Path

from bioattn.io.config_file import build
from bioattn.models.evoformer.family import EvoformerTrainingSettings
from bioattn.models.evoformer.training.config import SMALL_MODEL, EvoformerTrainingConfig
from bioattn.models.evoformer.training.task import model_config
from bioattn.models.settings import with_config_file

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "models" / "evoformer-training.md"


def test_the_tables_are_those_of_the_code(settings_tables):
    text = PAGE.read_text(encoding="utf-8")
    assert text == settings_tables.with_tables(PAGE.name, text), "run: python docs/settings_tables.py"
    for name in [*EvoformerTrainingConfig.__dataclass_fields__, *SMALL_MODEL]:
        assert f"| `{name}` |" in text


def test_the_toml_is_accepted(tmp_path):
    (toml,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    (tmp_path / "settings.toml").write_text(toml)
    places = {"dataset": tmp_path / "x.h5", "output": tmp_path / "m", "config": tmp_path / "settings.toml"}
    settings = with_config_file(EvoformerTrainingSettings(**places, seed=3))
    assert model_config(settings.merged("model")).num_blocks == 3
    training = build(EvoformerTrainingConfig, settings.merged("training"), settings.source("training"))
    assert (training.steps, training.simulated_steps, training.seed) == (500, 1000, 3)
