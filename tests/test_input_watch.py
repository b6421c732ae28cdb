"""Inputs that change under a command: the run record says so, and so does a warning."""

import json
import shutil
from pathlib import Path

import pytest

from bioattn.formats import alignment_file
from bioattn.input_watch import has_changed, watched_inputs
from bioattn_cli.main import main

FAMILIES = Path(__file__).resolve().parents[1] / "data" / "families" / "msa"


@pytest.mark.parametrize("change", ["append", "replace", "delete", "nothing"])
def test_a_change_is_seen(change: str, tmp_path: Path) -> None:
    path, other = tmp_path / "in.fa", tmp_path / "other"
    path.write_text(">a\nACGT\n")
    shutil.copy2(path, other)
    with watched_inputs([path, tmp_path, tmp_path / "absent"]):
        if change == "append":
            path.write_text(path.read_text() + ">b\nA\n")
        elif change == "replace":
            other.replace(path)
        elif change == "delete":
            path.unlink()
        else:
            assert path.read_text()
        (tmp_path / "absent").write_text("an output")
        assert has_changed(path) is (change != "nothing")
        assert not has_changed(tmp_path)
        assert not has_changed(tmp_path / "absent")
    assert not has_changed(path)


def test_the_record_marks_an_input_that_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, output = tmp_path / "in.a3m", tmp_path / "out.a3m"
    words = ["prepare", "msa", str(source), "-o", str(output), "--threads", "1"]
    shutil.copy(FAMILIES / "simulated000000.a3m", source)
    assert main(words) == 0
    assert "changed_while_read" not in (tmp_path / "out.a3m.run.json").read_text()
    assert "changed while" not in capsys.readouterr().err

    read = alignment_file.open_bytes

    def read_and_change(path: Path) -> object:
        opened = read(path)
        with path.open("a") as file:
            file.write("\n")
        return opened

    monkeypatch.setattr(alignment_file, "open_bytes", read_and_change)
    assert main(words) == 0
    record = json.loads((tmp_path / "out.a3m.run.json").read_text())
    assert [entry.get("changed_while_read") for entry in record["inputs"].values()] == [True]
    assert f"{source}: changed while it was read; make {output} again" in capsys.readouterr().err
