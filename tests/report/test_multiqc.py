"""MultiQC sections: figures are those of the files, markup is inert, samples are kept apart."""

import json
import math
import shutil
from pathlib import Path

import pytest

from bioattn.report.multiqc import FILES, SECTIONS, section_file
from tests.making import bioattn

ROOT = Path(__file__).resolve().parents[2]
FAMILIES = ROOT / "data" / "families"
EVOFORMER = ROOT / "data" / "models" / "evoformer-contacts"


def export(output, *words):
    """Run the command; the sections of its folder by name."""
    assert bioattn("report", *words, "-o", output, "-q") == 0
    names = {path.name for path in output.iterdir()}
    assert names <= FILES
    return {
        section: json.loads((output / section_file(section)).read_text())
        for section in SECTIONS
        if section_file(section) in names
    }


@pytest.fixture
def check(run, tmp_path):
    """A copy of the check of the report's tests."""
    return Path(shutil.copy(run.check, tmp_path))


def test_a_promoter_model_and_its_check(run, check, tmp_path):
    found = export(tmp_path / "out", run.model, run.dataset, run.promoters, check, "--title", "one")
    assert set(found) >= {"general", "datasets", "accuracy", "checks", "loss_epoch"}
    record = json.loads((run.model / "training.json").read_text())["evaluation"]["rows"]
    on_test = {row["name"]: row["pearson"] for row in record if row["cells"] == "test genes"}
    shown = found["accuracy"]["data"]["one"]
    assert shown["model"] == on_test["this model"]
    # Chosen on validation genes, as training does; the luckiest of several on test genes is a worse reference.
    assert shown["baseline"] == on_test["6-mer ridge"] < max(on_test.values())
    assert found["datasets"]["data"]["one"] == {
        "genes": 14, "treatments": 3, "measured": 1.0, "train": 9, "validation": 2, "test": 3,
    }  # fmt: skip
    content = json.loads(check.read_text())
    passed = [measure["passed"] for measure in content["measures"]]
    assert found["checks"]["data"]["one"]["passed"] == sum(value is True for value in passed)
    assert found["checks"]["data"]["one"]["failed"] == sum(value is False for value in passed)
    assert found["general"]["data"]["one"]["promoters"] == 14
    assert found["general"]["data"]["one"]["verdict"] == content["verdict"]["code"]


def test_markup_of_names_and_sentences_is_inert(run, check, tmp_path):
    content = json.loads(check.read_text())
    content["verdict"]["sentence"] = "<script>window.harmed=1</script>"
    check.write_text(json.dumps(content))
    found = export(tmp_path / "out", check, run.dataset, "--title", "<img src=x onerror=alert(1)>/a|b")
    assert list(found["checks"]["data"]) == ["img src=x onerror=alert(1) a b"]
    shown = found["checks"]["data"]["img src=x onerror=alert(1) a b"]["sentence"]
    assert shown == "&lt;script&gt;window.harmed=1&lt;/script&gt;"
    for path in (tmp_path / "out").iterdir():
        assert not any(harm in path.read_text() for harm in ("<script", "<img"))


def test_alignments_and_predictions(tmp_path):
    family, statistics = tmp_path / "family.a3m", tmp_path / "family.json"
    source = FAMILIES / "msa" / "simulated000000.a3m"
    assert bioattn("prepare", "msa", source, "-o", family, "--stats", statistics, "-q") == 0
    assert bioattn("run", "evoformer", family, "--model", EVOFORMER, "-o", tmp_path / "family", "-q") == 0
    found = export(tmp_path / "out", statistics, tmp_path / "family", EVOFORMER)
    assert set(found) == {"general", "alignments", "predictions", "loss_step"}
    (row,) = found["alignments"]["data"].values()
    assert (row["depth"], row["columns"]) == (421, 58)
    pairs = (tmp_path / "family" / "contacts.rr").read_text().splitlines()
    likeliest = sorted((float(line.split()[4]) for line in pairs if len(line.split()) == 5), reverse=True)[
        :58
    ]
    assert math.isclose(
        found["predictions"]["data"]["family"]["contact_probability"], sum(likeliest) / 58, abs_tol=1e-6
    )
    history = (EVOFORMER / "history.csv").read_text().splitlines()
    line = found["loss_step"]["data"]["evoformer-contacts training"]
    assert len(line) == len(history) - 1
    assert line["100"] == float(history[1].split(",")[2])


def test_what_became_of_genes_adds_up(tmp_path):
    tiny = ROOT / "data" / "tiny"
    # A window longer than chromosome ends and gaps between genes allow.
    words = ("prepare", "promoters", tiny / "genome.fa", tiny / "annotation.gff3", "-q")
    window = ("--upstream", 300, "--downstream", 0, "--overlap", "drop")
    assert bioattn(*words, *window, "-o", tmp_path / "promoters.fa") == 0
    rows = [line.split("\t") for line in (tmp_path / "promoters.audit.tsv").read_text().splitlines()[1:]]
    by_fasta = export(tmp_path / "a", tmp_path / "promoters.fa")
    by_audit = export(tmp_path / "b", tmp_path / "promoters.audit.tsv")
    assert by_fasta["promoters"] == by_audit["promoters"]
    counts = by_fasta["promoters"]["data"]["promoters"]
    assert sum(counts.values()) == len(rows) == 60
    dropped = sum(number for name, number in counts.items() if name.startswith("dropped: "))
    assert dropped == sum(row[7] == "dropped" for row in rows) > 0
    assert by_fasta["general"]["data"]["promoters"]["promoters"] == 60 - dropped


def test_a_genome_is_no_result(tmp_path, capsys):
    """Any FASTA reads as promoters; only those of `prepare promoters` say where they lie."""
    words = ["report", ROOT / "data" / "tiny" / "genome.fa", "-o", tmp_path / "out", "-q"]
    assert bioattn(*words) == 1
    assert (
        "no record says where its promoter lies, and there is no genome.audit.tsv" in capsys.readouterr().err
    )
    assert not (tmp_path / "out").exists()


def test_two_of_a_kind_need_two_names(check, tmp_path, capsys):
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / "check.json"
    other.write_text(check.read_text())
    found = export(tmp_path / "same", check, other)  # the same twice says nothing new
    assert list(found["checks"]["data"]) == ["check"]
    content = json.loads(check.read_text())
    content["verdict"]["code"] = "undecided"
    other.write_text(json.dumps(content))
    words = ["report", check, other, "-o", tmp_path / "out", "-q"]
    assert bioattn(*words) == 1
    assert "name samples apart with --title" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
