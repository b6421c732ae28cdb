"""The lines that docs/formats/alignments.md tells people to type, and the formats its table names."""

import re
from pathlib import Path

import numpy as np
import pytest

from bioattn.formats.a3m import ANNOTATION_RECORDS
from bioattn.formats.alignment_file import AlignmentFormat

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "formats" / "alignments.md").read_text(
    encoding="utf-8"
)


def test_every_format_has_its_line() -> None:
    lines = re.findall(r"^\| .*? \| `(\w+)` \|", TEXT, flags=re.MULTILINE)
    assert sorted(lines) == sorted(AlignmentFormat)


def test_structure_records_are_named() -> None:
    assert all(f"`{name}`" in TEXT for name in ANNOTATION_RECORDS)


def test_the_snippet_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("family.sto").write_text("# STOCKHOLM 1.0\nq M-K.V\nb MAKlV\n//\n")
    names: dict[str, object] = {}
    for snippet in re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL):
        exec(snippet, names)
    same, centred = names["same"], names["centred"]
    assert [same.row(0), same.row(1)] == ["M-KV", "MAKV"]
    assert same.insertions == [{}, {3: "l"}]
    assert [centred.row_with_insertions(0), centred.row_with_insertions(1)] == ["MKV", "MaKlV"]
    assert np.array_equal(centred.deletions(), [[0, 0, 0], [0, 1, 1]])
