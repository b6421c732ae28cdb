"""The Snakemake workflow from alignments to contacts and reports, run on `data/families` by the real Snakemake."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from bioattn_cli.main import main
from tests.workflows.conftest import ROOT, WORKFLOWS, Snakemake, finished

Maker = Callable[[str, Path], Snakemake]

RULES = ("alignment", "evoformer", "contacts", "plot_contacts", "plot_heads", "report", "multiqc")
FAMILIES = ROOT / "data" / "families"
NAMES = ("simulated000000", "simulated000001")


def prepare(folder: Path, snakemake: Maker) -> Snakemake:
    """A folder with two alignments in a table, one with a structure."""
    (folder / "data").mkdir()
    shutil.copy(FAMILIES / "msa" / f"{NAMES[0]}.a3m", folder / "data")
    shutil.copy(FAMILIES / "msa" / f"{NAMES[1]}.a3m", folder / "data")
    shutil.copy(FAMILIES / "structure" / f"{NAMES[0]}.pdb", folder / "data")
    shutil.copytree(ROOT / "data" / "models" / "evoformer-contacts", folder / "data" / "model")
    (folder / "data" / "alignments.tsv").write_text(
        "protein\talignment\tstructure\n"
        f"first\tdata/{NAMES[0]}.a3m\tdata/{NAMES[0]}.pdb\n"
        f"second\tdata/{NAMES[1]}.a3m\t\n"
    )
    settings = {
        "alignments": "data/alignments.tsv",
        "model": "data/model",
        "prepare": {"options": "--max-identity 0.9 --max-depth 60"},
    }
    (folder / "config").mkdir()
    (folder / "config" / "config.yaml").write_text(json.dumps(settings))
    return snakemake("alignments", folder)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, snakemake: Maker) -> Snakemake:
    """The workflow after its first run."""
    workflow = prepare(tmp_path_factory.mktemp("alignments"), snakemake)
    assert finished(workflow.run()) == dict.fromkeys(RULES, 2)
    return workflow


@pytest.mark.slow
def test_every_protein_has_its_results(done: Snakemake) -> None:
    results = done.folder / "results"
    for name in ("first", "second"):
        for result in (f"alignments/{name}.a3m", f"predictions/{name}", f"attention/{name}.h5"):
            assert main(["validate", str(results / result)]) == 0, result
        contacts = pd.read_csv(results / "contacts" / f"{name}.tsv", sep="\t")
        assert set(contacts["sample"]) == {name}
        assert json.loads((results / "alignments" / f"{name}.json").read_text())["depth"] == 60
        assert (results / "figures" / f"{name}.heads.svg").read_text().startswith("<?xml")
        assert (results / "reports" / f"{name}.html").stat().st_size > 50_000
        assert (results / "multiqc" / name / "bioattn_predictions_mqc.json").is_file()
    # The structure that the table names is drawn and reported, and of the other protein there is none.
    records = {
        name: json.loads((results / "figures" / f"{name}.contacts.svg.run.json").read_text())["inputs"]
        for name in ("first", "second")
    }
    assert {name: "truth" in inputs for name, inputs in records.items()} == {"first": True, "second": False}


@pytest.mark.slow
def test_a_second_run_does_nothing(done: Snakemake) -> None:
    assert "Nothing to be done" in done.run()


@pytest.mark.slow
def test_a_changed_alignment_starts_its_own_jobs(done: Snakemake) -> None:
    path = done.folder / "data" / f"{NAMES[1]}.a3m"
    before = path.read_text()
    path.write_text(before + ">more\n" + "A" * len(before.splitlines()[1]) + "\n")
    assert done.planned() == dict.fromkeys(RULES, 1)
    said = done.run("--dry-run")
    assert "Filtering the alignment of second\n" in said
    assert "Filtering the alignment of first\n" not in said


@pytest.mark.slow
def test_a_changed_structure_starts_what_shows_it(done: Snakemake) -> None:
    path = done.folder / "data" / f"{NAMES[0]}.pdb"
    path.write_text("REMARK more\n" + path.read_text())
    assert done.planned("results/reports/first.html", "results/figures/first.contacts.svg") == {
        "plot_contacts": 1,
        "report": 1,
    }


def test_a_folder_stands_for_its_alignments(tmp_path: Path, snakemake: Maker) -> None:
    """Packed or not; other files are left alone, and a name that could not name files is refused."""
    workflow = prepare(tmp_path, snakemake)
    folder = tmp_path / "msa"
    folder.mkdir()
    for name in ("a.a3m", "b.sto.gz", "c-1.FASTA.xz", "notes.txt", ".hidden.a3m"):
        (folder / name).touch()
    said = workflow.run("--dry-run", "--config", "alignments=msa")
    for name in ("a", "b", "c-1"):
        assert f"Filtering the alignment of {name}\n" in said
    assert workflow.planned("--config", "alignments=msa") == dict.fromkeys(RULES, 3)
    (folder / "a.sto").touch()
    assert "msa: protein 'a' stands there twice" in workflow.run(
        "--dry-run", "--config", "alignments=msa", fails=True
    )
    (folder / "a.sto").rename(folder / "$(touch x).sto")
    assert 'protein is "$(touch x)"; wanted: a name of letters, digits and _ . + -' in workflow.run(
        "--dry-run", "--config", "alignments=msa", fails=True
    )


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("model=", "config: model is missing; wanted: a model folder, AlphaFold's params_model_*.npz or an "),
        ("evoformer={site: x}", "config: unknown setting evoformer.site; did you mean sites?"),
    ],
)
def test_a_mistake_in_the_settings_is_one_sentence(
    tmp_path: Path, snakemake: Maker, setting: str, sentence: str
) -> None:
    said = prepare(tmp_path, snakemake).run("--dry-run", "--config", setting, fails=True)
    assert sentence in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "path", ["workflow/rules/settings.smk", "workflow/envs/bioattn.yaml", "profiles/local/config.yaml"]
)
def test_what_both_workflows_hold_is_the_same(path: str) -> None:
    """Each folder stands alone, so what they share is there twice."""
    assert (WORKFLOWS / "alignments" / path).read_text() == (WORKFLOWS / "promoters" / path).read_text()
