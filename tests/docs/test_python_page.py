"""The lines of docs/python.md in their order, and the notebooks."""

import gzip
import json
import os
import re
from pathlib import Path

import pandas as pd
import pytest

from bioattn.interpret.position_maps import upsample
from tests.docs.conftest import run_python

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "python.md").read_text(encoding="utf-8")


def test_the_page(tmp_path, monkeypatch, run_bash):
    monkeypatch.chdir(tmp_path)
    code = ""
    for language, lines in re.findall(r"```(bash|python)\n(.*?)```", PAGE, flags=re.DOTALL):
        if language == "bash":
            run_bash(lines, tmp_path)
        else:
            code += lines
    assert code.count("\n") > 20
    run_bash(
        "bioattn export attention model promoters.fa -o attention.h5\n"
        "bioattn explain attribution model promoters.fa -o attribution.h5 --genes G007",
        tmp_path,
    )
    names = run_python(code)
    assert names["table"].shape == (300, 3)
    assert names["change"].loc["mutant", "treatment2"] != 0
    profiles, attention = names["profiles"], names["attention"]
    sites = [name for name, site in attention.sites.items() if site.has_contributions]
    edges = attention.sites[sites[0]].key_edges
    chosen = {"gene": "G007", "treatment": "treatment1"}
    added = sum(attention.contributions(name, **chosen).sum(axis=0) for name in sites)
    profile = abs(upsample(added, edges, 200, "gaussian"))
    assert int(names["best"]) == profile.argmax() - 200
    assert profiles.shape == (300, 2, 200)
    assert names["series"].unstack("key").shape == (2, names["weights"].sizes["key"])
    pd.testing.assert_index_equal(names["contacts"].columns[:2], pd.Index(["column_i", "column_j"]))
    assert names["residues"].dims == ("query", "key")
    assert len(names["pairs"]) == 3


NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "docs" / "notebooks").glob("*.ipynb"))


def pictures(notebook):
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return sum("image/png" in output.get("data", {}) for output in outputs)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path, bioattn_folder, python, monkeypatch, request, tmp_path):
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    # A kernel that has imported everything; its figures are drawn inline as those of Jupyter.
    kernel = tmp_path / "kernels" / "python3" / "kernel.json"
    kernel.parent.mkdir(parents=True)
    words = ["-m", "ipykernel_launcher", "--matplotlib=inline", "-f", "{connection_file}"]
    kernel.write_text(json.dumps({"argv": [python, *words], "display_name": "python", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    if path.stem == "language":
        packed = request.getfixturevalue("shared") / "data/ecoli/GCF_000005845.2_ASM584v2_genomic.fna.gz"
        (tmp_path / "ecoli.fna").write_bytes(gzip.decompress(packed.read_bytes()))
        monkeypatch.setenv("ECOLI_GENOME", str(tmp_path / "ecoli.fna"))
    monkeypatch.setenv("PATH", f"{bioattn_folder}{os.pathsep}{os.environ['PATH']}")
    nbformat = pytest.importorskip("nbformat")
    stored = nbformat.read(path, as_version=4)
    run = nbformat.from_dict(stored)
    for cell in run.cells:
        cell.pop("outputs", None)
        if cell.cell_type == "code":
            cell.outputs = []
            cell.source = re.sub(r"epochs=\d+", "epochs=1", cell.source)
    resources = {"metadata": {"path": str(path.parent)}}
    nbclient.NotebookClient(
        run, timeout=600, startup_timeout=600, kernel_name="python3", resources=resources
    ).execute()
    assert pictures(run) == pictures(stored) == 2
    errors = [
        output.text
        for cell in run.cells
        for output in cell.get("outputs", [])
        if output.output_type == "stream" and "error:" in output.text
    ]
    assert errors == []
