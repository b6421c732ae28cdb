"""The Snakemake workflow from alignments to contacts and reports, run on `data/families` by the real Snakemake."""

import json
import os
import shutil

import pandas as pd
import pytest

from bioattn_cli.main import main
from tests.workflows.conftest import ROOT, finished

RULES = ("alignment", "evoformer", "contacts", "plot_contacts", "plot_heads", "report", "multiqc")
FAMILIES = ROOT / "data" / "families"
NAMES = ("simulated000000", "simulated000001")


def prepare(folder, snakemake):
    """A folder with one alignment and its structure in a table, and a second alignment."""
    (folder / "data").mkdir()
    for name in NAMES:
        shutil.copy(FAMILIES / "msa" / f"{name}.a3m", folder / "data")
    shutil.copy(FAMILIES / "structure" / f"{NAMES[0]}.pdb", folder / "data")
    shutil.copytree(ROOT / "data" / "models" / "evoformer-contacts", folder / "data" / "model")
    (folder / "data" / "alignments.tsv").write_text(
        f"protein\talignment\tstructure\nfirst\tdata/{NAMES[0]}.a3m\tdata/{NAMES[0]}.pdb\n"
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
def done(tmp_path_factory, snakemake):
    """The workflow after its first run."""
    workflow = prepare(tmp_path_factory.mktemp("alignments"), snakemake)
    assert finished(workflow.run()) == dict.fromkeys(RULES, 1)
    return workflow


@pytest.mark.slow
def test_a_protein_has_its_results(done):
    results = done.folder / "results"
    for result in ("alignments/first.a3m", "predictions/first", "attention/first.h5"):
        assert main(["validate", str(results / result)]) == 0, result
    assert set(pd.read_csv(results / "contacts" / "first.tsv", sep="\t")["sample"]) == {"first"}
    assert json.loads((results / "alignments" / "first.json").read_text())["depth"] == 60
    assert "<svg" in (results / "figures" / "first.heads.svg").read_text()
    assert (results / "reports" / "first.html").stat().st_size > 50_000
    assert (results / "multiqc" / "first" / "bioattn_predictions_mqc.json").is_file()
    figure = json.loads((results / "figures/bioattn-records/first.contacts.svg.json").read_text())
    assert [entry["file"] for entry in figure["inputs"].values()] == ["first", f"{NAMES[0]}.pdb"]


@pytest.mark.slow
def test_a_changed_input_starts_what_follows(done):
    path = done.folder / "data" / f"{NAMES[0]}.a3m"
    before, status = path.read_bytes(), path.stat()
    path.write_bytes(before + b">more\n" + b"A" * len(before.splitlines()[1]) + b"\n")
    assert done.planned("results/reports/first.html") == {"alignment": 1, "evoformer": 1, "report": 1}
    path.write_bytes(before)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    path = done.folder / "data" / f"{NAMES[0]}.pdb"
    path.write_text("REMARK more\n" + path.read_text())
    assert done.planned("results/reports/first.html", "results/figures/first.contacts.svg") == {
        "plot_contacts": 1,
        "report": 1,
    }


def test_a_folder_stands_for_its_alignments(tmp_path, snakemake):
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
def test_a_mistake_in_the_settings_is_one_sentence(tmp_path, snakemake, setting, sentence):
    said = prepare(tmp_path, snakemake).run("--dry-run", "--config", setting, fails=True)
    assert sentence in said
    assert "Traceback" not in said
