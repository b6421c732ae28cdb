"""docs/formats/evoformer-output.md and docs/models/parameters.md: what they list is what there is."""

import json
import re
from dataclasses import fields
from pathlib import Path

import h5py
import pytest

from bioattn.models.evoformer.input_settings import InputSettings
from bioattn.models.evoformer.parameters.table import parameter_table
from bioattn_cli.main import main

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "formats" / "evoformer-output.md").read_text(encoding="utf-8")
MODEL_PAGE = (DOCS / "formats" / "model.md").read_text(encoding="utf-8")
REPRESENTATIONS = ("single", "pair", "msa", "msa_first_row", "structure")


def first_cells(section: str) -> set[str]:
    """Names in the first column of the section's tables."""
    names: set[str] = set()
    for line in section.splitlines():
        if line.startswith("| `"):
            names |= set(re.findall(r"`([^`]+)`", line.split("|")[1]))
    return names


def section(title: str) -> str:
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that writes all there is."""
    from tests.inference.evoformer_runs import make_model, write_fasta

    folder = tmp_path_factory.mktemp("page")
    model = make_model(folder / "model", aligned_error_head=True)
    path = write_fasta(folder / "x.fasta")
    options = [part for name in REPRESENTATIONS for part in ("--representations", name)]
    command = ["run", "evoformer", str(path), "--model", str(model), "-o", str(folder / "out"), "-q"]
    assert main([*command, *options]) == 0
    return folder / "out"


def test_every_file_is_listed(results: Path) -> None:
    listed = first_cells(PAGE.split("## Rows")[0])
    assert {path.name for path in results.iterdir()} == listed


def test_every_object_of_the_distogram_is_listed(results: Path) -> None:
    with h5py.File(results / "distogram.h5") as file:
        assert set(file) - {"bin"} == first_cells(section("distogram.h5"))
        attributes = next(line for line in section("distogram.h5").splitlines() if "attributes" in line)
        assert set(file.attrs) == set(re.findall(r"`([^`]+)`", attributes)) - {"bioattn-distogram"}
    with h5py.File(results / "representations.h5") as file:
        assert {name for name in file if not name.startswith(("column", "residue"))} >= set(REPRESENTATIONS)
        for name in REPRESENTATIONS:
            assert f"`{name}`" in section("representations.h5")


def test_every_score_and_column_is_listed(results: Path) -> None:
    scores = json.loads((results / "scores.json").read_text())
    assert set(scores) == first_cells(section("scores.json"))
    header = (results / "contacts.tsv").read_text().splitlines()[0].split("\t")
    assert header == re.findall(r"`(\w+)`", section("contacts.tsv"))


def test_input_settings_are_explained_with_alphafolds_values() -> None:
    table = MODEL_PAGE.split("| `inputs` | AlphaFold's")[1].split("\n\n")[0]
    rows = dict(re.findall(r"\| `(\w+)` \| (\S+) \|", table))
    usual = InputSettings()
    assert rows == {
        field.name: re.sub(r"\.0$", "", str(getattr(usual, field.name)).lower()) for field in fields(usual)
    }


def test_layouts_of_the_parameters_page_are_all_there_are() -> None:
    text = (DOCS / "models" / "parameters.md").read_text(encoding="utf-8")
    leaves = {row.alphafold.split("//")[1] for row in parameter_table()}
    named = set(re.findall(r"`(\w+)`", text))
    assert leaves - named <= {"bias", "output_b", "feat_2d_weights", "trainable_point_weights"}


def test_the_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.inference.evoformer_runs import make_model, write_fasta

    make_model(tmp_path / "model")
    (tmp_path / "alignments").mkdir()
    write_fasta(tmp_path / "alignments" / "x.fasta")
    monkeypatch.chdir(tmp_path)
    run_snippet = re.findall(r"```python\n(.*?)```", section("In Python"), flags=re.DOTALL)
    assert len(run_snippet) == 1
    exec(run_snippet[0], {})
    assert (tmp_path / "out" / "x" / "contacts.rr").is_file()
