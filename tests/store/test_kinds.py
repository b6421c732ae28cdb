"""The registry of kinds of files: what registers, and what asking it costs."""

import subprocess
import sys

import pytest

from bioattn.errors import BioattnError
from bioattn.store.inspection import inspect_file, validate_file


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
