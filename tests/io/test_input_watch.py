"""Inputs that change under a command: nothing is made of half of one and half of the other."""

import json
import shutil
from pathlib import Path

import pytest

from bioattn.errors import BioattnError
from bioattn.formats import alignment_file
from bioattn.io.files import text_output
from bioattn.io.folders import atomic_folder
from bioattn.io.input_watch import has_changed, inputs_were_read, unchanged, watched_inputs
from bioattn.io.run_record import write_run_record
from bioattn.training.output_folder import publish
from bioattn_cli.main import main

FAMILIES = Path(__file__).resolve().parents[2] / "data" / "families" / "msa"


@pytest.mark.parametrize("change", ["append", "replace", "delete", "nothing"])
def test_a_change_is_seen(change, tmp_path):
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


def test_an_output_is_not_made_of_an_input_that_changed(tmp_path, capsys, monkeypatch):
    source, output = tmp_path / "in.a3m", tmp_path / "out.a3m"
    words = ["prepare", "msa", str(source), "-o", str(output), "--threads", "1"]
    shutil.copy(FAMILIES / "simulated000000.a3m", source)
    assert main(words) == 0
    earlier = {path: path.read_bytes() for path in tmp_path.iterdir()}

    read = alignment_file.open_bytes

    def read_and_change(path):
        opened = read(path)
        with path.open("a") as file:
            file.write("\n")
        return opened

    monkeypatch.setattr(alignment_file, "open_bytes", read_and_change)
    assert main(words) == 1
    assert (
        f"bioattn: error: {source}: changed while it was read; run the command again"
        in capsys.readouterr().err
    )
    source.write_bytes(earlier[source])
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == earlier


def test_outputs_are_no_inputs_and_what_was_read_may_change(tmp_path):
    """A command watches all paths that it is given; earlier results among them are replaced one by one."""
    source, first, second = (tmp_path / name for name in ("in", "first", "second"))
    for path in (source, first, second):
        path.write_text("earlier")
    with watched_inputs([source, first, second]):
        for path in (first, second):
            with text_output(path) as file:
                file.write("new")
        source.write_text("changed")
        with pytest.raises(BioattnError, match="in: changed while it was read"), text_output(first) as file:
            file.write("never")
        write_run_record([first], [], {"input": source}, 0.0)
        record = json.loads((tmp_path / "first.run.json").read_text())
        assert record["inputs"]["input"]["changed_after_reading"] is True
    with watched_inputs([source]):
        inputs_were_read()
        source.write_text("changed again")
        with text_output(second) as file:
            file.write("newer")
        write_run_record([second], [], {"input": source}, 0.0)
        record = json.loads((tmp_path / "second.run.json").read_text())
        assert record["inputs"]["input"]["changed_after_reading"] is True
    with (
        watched_inputs([source]),
        pytest.raises(BioattnError, match="in: changed while it was read"),
        text_output(second) as file,
    ):
        source.write_text("changed once more")
    assert (first.read_text(), second.read_text()) == ("new", "newer")


def test_files_of_models_are_inputs_unless_they_are_replaced(tmp_path):
    model, output = tmp_path / "model", tmp_path / "output"
    for folder in (model, output):
        folder.mkdir()
        for name in ("config.json", "history.csv"):
            (folder / name).write_text("earlier")
    published = tmp_path / "published"
    shutil.copytree(output, published)
    with watched_inputs([model, output, published]):
        with atomic_folder(output, {"config.json", "history.csv"}) as folder:
            (folder / "history.csv").write_text("new")
        shutil.copytree(model, tmp_path / "published.partial")
        publish(tmp_path / "published.partial", published)
        with text_output(tmp_path / "beside") as file:
            file.write("new")
        (model / "history.csv").write_text("changed")
        with (
            pytest.raises(BioattnError, match=r"model/history.csv: changed"),
            text_output(tmp_path / "x") as file,
        ):
            file.write("never")
        with pytest.raises(BioattnError, match=r"model/history.csv: changed"):
            publish(output, published)
    assert (output / "history.csv").read_text() == "new"


def test_files_that_are_opened_twice(tmp_path):
    path = tmp_path / "x"
    path.write_text("one")
    with unchanged(path):
        assert path.read_text() == "one"
    with pytest.raises(BioattnError, match="x: changed while it was read"), unchanged(path):
        path.write_text("another")
    path.unlink()
    with pytest.raises(FileNotFoundError), unchanged(path):  # what the body raises comes first
        path.write_text(path.read_text())
