"""The pages of models and of what a run writes: tables and settings are those of the code, their Python runs."""

import json
import re
import shutil

import h5py
import pytest
from Bio.PDB.MMCIFParser import MMCIFParser

from bioattn.io.config_file import build
from bioattn.models.evoformer.family import EvoformerTrainingSettings
from bioattn.models.evoformer.training.config import SMALL_MODEL, EvoformerTrainingConfig
from bioattn.models.evoformer.training.task import model_config
from bioattn.models.promoter.family import PromoterTrainingSettings
from bioattn.models.settings import with_config_file
from bioattn_cli.main import main
from tests.docs.conftest import ROOT, page_text, run_python, snippets

EVOFORMER = ROOT / "bioattn" / "models" / "evoformer"
REPRESENTATIONS = ("single", "pair", "msa", "msa_first_row", "structure")


@pytest.mark.parametrize(
    "page",
    [
        *("promoter", "evoformer-training", "evoformer", "language", "translation", "diffusion", "molecules"),
        *("memory", "phyloformer"),
    ],
)
def test_the_tables_are_those_of_the_code(settings_tables, page):
    text = page_text(f"models/{page}")
    assert text == settings_tables.with_tables(f"{page}.md", text), "run: python docs/settings_tables.py"
    if page == "evoformer-training":
        for name in [*EvoformerTrainingConfig.__dataclass_fields__, *SMALL_MODEL]:
            assert f"| `{name}` |" in text
        return
    for kind in settings_tables.TABLES[f"{page}.md"].values():
        assert set(settings_tables.field_texts(kind)) == set(kind.__dataclass_fields__)


@pytest.mark.parametrize("page", ["promoter", "evoformer-training"])
def test_the_toml_is_accepted(tmp_path, page):
    (toml,) = re.findall(r"```toml\n(.*?)```", page_text(f"models/{page}"), flags=re.DOTALL)
    (tmp_path / "settings.toml").write_text(toml)
    places = {"dataset": tmp_path / "x.h5", "output": tmp_path / "m", "config": tmp_path / "settings.toml"}
    if page == "promoter":
        promoter = with_config_file(PromoterTrainingSettings(**places, seed=3))
        assert promoter.merged("model") == {"hops": 2}
        assert promoter.merged("training") == {"epochs": 60, "seed": 3}
        assert promoter.reference == "control"
        return
    settings = with_config_file(EvoformerTrainingSettings(**places, seed=3))
    assert model_config(settings.merged("model")).num_blocks == 3
    training = build(EvoformerTrainingConfig, settings.merged("training"), settings.source("training"))
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


def first_cells(section):
    """Names in the first column of the section's tables."""
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])}


def output_section(title):
    return page_text("formats/evoformer-output").split(f"## {title}\n")[1].split("\n## ")[0]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A run that writes all there is."""
    from tests.inference.evoformer_runs import make_model, write_fasta

    folder = tmp_path_factory.mktemp("page")
    model = make_model(folder / "model", aligned_error_head=True)
    path = write_fasta(folder / "x.fasta")
    options = [part for name in REPRESENTATIONS for part in ("--representations", name)]
    command = ["run", "evoformer", str(path), "--model", str(model), "-o", str(folder / "out"), "-q"]
    assert main([*command, *options]) == 0
    return folder / "out"


def test_every_file_object_score_and_column_of_a_run_is_listed(results):
    listed = first_cells(page_text("formats/evoformer-output").split("## Rows")[0])
    assert {path.name for path in results.iterdir()} == listed
    with h5py.File(results / "distogram.h5") as file:
        text = output_section("distogram.h5")
        assert set(file) - {"bin"} == first_cells(text)
        attributes = next(line for line in text.splitlines() if "attributes" in line)
        assert set(file.attrs) == set(re.findall(r"`([^`]+)`", attributes)) - {"bioattn-distogram"}
    with h5py.File(results / "representations.h5") as file:
        assert {name for name in file if not name.startswith(("column", "residue"))} >= set(REPRESENTATIONS)
        for name in REPRESENTATIONS:
            assert f"`{name}`" in output_section("representations.h5")
    scores = json.loads((results / "scores.json").read_text())
    assert set(scores) == first_cells(output_section("scores.json"))
    header = (results / "contacts.tsv").read_text().splitlines()[0].split("\t")
    assert header == re.findall(r"`(\w+)`", output_section("contacts.tsv"))


def test_a_run_in_python(tmp_path, monkeypatch):
    from tests.inference.evoformer_runs import make_model, write_fasta

    make_model(tmp_path / "model")
    (tmp_path / "alignments").mkdir()
    write_fasta(tmp_path / "alignments" / "x.fasta")
    monkeypatch.chdir(tmp_path)
    (snippet,) = re.findall(r"```python\n(.*?)```", output_section("In Python"), flags=re.DOTALL)
    run_python(snippet)
    assert (tmp_path / "out" / "x" / "contacts.rr").is_file()
