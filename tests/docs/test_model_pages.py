"""The pages of models and of what a run writes: tables and settings are those of the code, their Python runs."""

import re
import shutil

import pytest
from Bio.PDB.MMCIFParser import MMCIFParser

from bioattn.io.settings import build, with_config_file
from bioattn.models.evoformer.config import EvoformerTrainingConfig
from bioattn.models.evoformer.family import EvoformerTrainingSettings
from bioattn.models.evoformer.training_task import model_config
from bioattn.models.promoter.family import PromoterTrainingSettings
from tests.docs.conftest import page_text, run_python, snippets


def test_the_tables_are_those_of_the_code(settings_tables):
    for page in ["training", *(f"models/{name.removesuffix('.md')}" for name in settings_tables.TABLES)]:
        text = page_text(page)
        again = settings_tables.with_tables(f"{page.rpartition('/')[2]}.md", text)
        assert text == again, f"{page}: run python docs/settings_tables.py"


@pytest.mark.parametrize("page", ["promoter", "evoformer-training"])
def test_the_toml_is_accepted(tmp_path, page):
    (toml,) = re.findall(r"```toml\n(.*?)```", page_text(f"models/{page}"), flags=re.DOTALL)
    (tmp_path / "settings.toml").write_text(toml)
    places = {"dataset": tmp_path / "x.h5", "output": tmp_path / "m", "config": (tmp_path / "settings.toml",)}
    if page == "promoter":
        promoter = with_config_file(PromoterTrainingSettings(**places, training={"seed": 3}))
        assert promoter.model == {"hops": 2}
        assert promoter.training == {"epochs": 60, "seed": 3}
        assert promoter.reference == "control"
        return
    settings = with_config_file(EvoformerTrainingSettings(**places, training={"seed": 3}))
    assert model_config(settings.model).num_blocks == 3
    training = build(EvoformerTrainingConfig, settings.training, settings.source("training"))
    assert (training.steps, training.simulated_steps, training.seed) == (500, 1000, 3)


@pytest.mark.shared
def test_the_model_in_python(shared, tmp_path, monkeypatch):
    (snippet,) = snippets("models/evoformer")
    monkeypatch.chdir(tmp_path)
    shutil.copy(shared / "golden" / "tiny_params_af2.npz", "params_model_3_ptm.npz")
    shutil.copy(shared / "golden" / "features_small.a3m", "family.a3m")
    names = run_python(snippet)
    residues = list(MMCIFParser(QUIET=True).get_structure("family", "family.cif").get_residues())
    assert len(residues) == (names["encoded"].aatype < 20).sum()
    assert {len(tiles) for site, tiles in names["maps"].tiles.items() if site.startswith("structure")} == {4}
    assert set(names["maps"].tiles) == {
        *(f"evoformer.{block:02d}.msa_row" for block in range(2)),
        *(f"structure.invariant_point.{layer}" for layer in range(8)),
    }
