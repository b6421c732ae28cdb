"""The notebooks run from their first cell to their last, and are stored with their pictures."""

import gzip
import json
import os
from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
import nbformat  # noqa: E402

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "docs" / "notebooks").glob("*.ipynb"))


def pictures(notebook):
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return sum("image/png" in output.get("data", {}) for output in outputs)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path, bioattn_folder, python, monkeypatch, request, tmp_path):
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
    stored = nbformat.read(path, as_version=4)
    run = nbformat.from_dict(stored)
    for cell in run.cells:
        cell.pop("outputs", None)
        if cell.cell_type == "code":
            cell.outputs = []
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
