"""The registry of kinds of files: what registers, and what asking it costs."""

import json
import subprocess
import sys

import pytest

from bioattn.errors import BioattnError
from bioattn.store.inspection import inspect_file, validate_file
from bioattn_cli.main import main


def test_the_registry_does_not_import_torch(tmp_path):
    table = tmp_path / "x.tsv"
    table.write_text("a\tb\n1\t2\n")
    code = (
        "import sys; from pathlib import Path; from bioattn.store.inspection import inspect_file; "
        f"assert inspect_file(Path({str(table)!r})).kind == 'table'; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        (
            {"config.json": '{"format": "bioattn-model", "format_version": 1}', "model.safetensors": ""},
            "type None",
        ),
        ({"simulation.json": '{"format": "x"}'}, "not the settings of a simulation"),
        ({"contacts.rr": ""}, r"without its scores\.json"),
        (
            {"motifs.json": '{"format": "bioattn-motifs", "format_version": "1.0", "files": []}'},
            "is incomplete",
        ),
    ],
)
def test_folders_that_lack_something_are_refused_in_a_sentence(tmp_path, files, sentence):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(BioattnError, match=sentence):
        inspect_file(tmp_path)
    (finding,) = validate_file(tmp_path)
    assert sentence.replace("\\", "") in str(finding)


FAMILY = '''
"""A family without layers: its models are folders, its results JSON files of counts."""

from bioattn.io.files import read_json, write_json
from bioattn.models.family import CONFIG


class CountingFamily:
    name = "counting"
    title = "counts"
    settings = {}
    nouns = {}
    files = ()

    def load(self, folder, device):
        raise NotImplementedError

    def file_kinds(self):
        from bioattn.models.model_kind import model_kind
        from bioattn.store.kinds import Problem
        from bioattn.store.kinds import FileKind, ReportInput, ResultTable, Sample, json_object

        def report(path):
            counts = read_json(path)["counts"]
            table = ResultTable(
                title="Counts", sentences=["Something was counted."], columns=["letter", "count"],
                rows=counts.items(),
            )
            return ReportInput("results", {}, table)

        counts = FileKind(
            name="counts",
            title="counts of letters",
            matches=json_object("counting"),
            describe=lambda path: {"letters": len(read_json(path)["counts"])},
            validate=lambda path, _: [
                Problem(letter, "is negative") for letter, n in read_json(path)["counts"].items() if n < 0
            ],
            report=report,
            multiqc=lambda path: Sample("x", {"general": {"promoters": len(read_json(path)["counts"])}}),
        )
        return [model_kind(self, lambda folder: {"weights": read_json(folder / CONFIG)["weights"]}), counts]


FAMILY = CountingFamily()
'''


def test_a_family_elsewhere_brings_its_kinds(tmp_path, monkeypatch, capsys):
    """Its model and its result are inspected, validated, reported and shown to MultiQC by name alone."""
    family = tmp_path / "families" / "counting"
    family.mkdir(parents=True)
    (family / "family.py").write_text(FAMILY)
    monkeypatch.setenv("BIOATTN_FAMILIES", str(family))
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text('{"model_type": "counting", "weights": 3}')
    (model / "model.safetensors").write_text("")
    assert main(["inspect", str(model), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"kind": "counting-model", "weights": 3}
    whole = tmp_path / "whole.json"
    whole.write_text(json.dumps({"format": "counting", "counts": {"A": 1, "<b>": 2}}))
    assert main(["validate", str(whole)]) == 0
    assert main(["report", str(whole), "-o", str(tmp_path / "x.html"), "-q"]) == 0
    page = (tmp_path / "x.html").read_text()
    assert "Something was counted." in page
    assert "<tr><td>&lt;b&gt;</td><td>2</td></tr>" in page
    assert main(["report", str(whole), "-o", str(tmp_path / "mqc"), "-q"]) == 0
    whole.write_text(whole.read_text().replace("2", "-2"))
    assert main(["validate", str(whole)]) == 1
    assert "error: <b>: is negative" in capsys.readouterr().out
