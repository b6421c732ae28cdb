"""docs/models/evoformer-training.md: its tables are those of the code, its TOML is accepted."""

import importlib.util
import re
from pathlib import Path

from bioattn.models.evoformer.training.config import SMALL_MODEL, EvoformerTrainingConfig
from bioattn.models.evoformer.training.train import model_config
from bioattn_cli.train_evoformer import _job

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "models" / "evoformer-training.md"


def settings_tables():
    spec = importlib.util.spec_from_file_location("settings_tables", ROOT / "docs" / "settings_tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_are_those_of_the_code():
    text = PAGE.read_text(encoding="utf-8")
    assert text == settings_tables().with_tables(PAGE.name, text), "run: python docs/settings_tables.py"
    for name in [*EvoformerTrainingConfig.__dataclass_fields__, *SMALL_MODEL]:
        assert f"| `{name}` |" in text


def test_the_toml_is_accepted(tmp_path):
    (toml,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    (tmp_path / "settings.toml").write_text(toml)
    job = _job(
        tmp_path / "x.h5",
        tmp_path / "m",
        tmp_path / "settings.toml",
        None,
        (),
        model={"uniform_msa_attention": None, "pair_features": True},
        training={"seed": 3, "steps": None},
    )
    assert model_config(job.model).num_blocks == 3
    assert model_config(job.model).pair_features == 3
    assert (job.training.steps, job.training.simulated_steps, job.training.seed) == (500, 1000, 3)
