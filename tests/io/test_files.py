"""Reading packed text and safetensors, refusing outputs before any work is done, and folders that appear whole."""

import bz2
import errno
import os
import zipfile
from pathlib import Path

import pytest

from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.io.checkpoint import open_safetensors
from bioattn.io.files import atomic_output, check_output, read_lines
from bioattn.io.folders import atomic_folder, replace_folder
from bioattn_cli.main import main


def test_other_compressions_are_named(tmp_path):
    (tmp_path / "a.bz2").write_bytes(bz2.compress(b">a\nACGT\n"))
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a", ">a\nACGT\n")
    (tmp_path / "a.zst").write_bytes(b"\x28\xb5\x2f\xfd\x04\x00")
    for name, packed in (("a.bz2", "bzip2"), ("a.zip", "zip archive"), ("a.zst", "zstd")):
        with pytest.raises(FormatError, match=rf"{name}: is .*{packed}.*gzip or xz"):
            list(read_lines(tmp_path / name))


def test_outputs_are_refused_early(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = tmp_path / "given.fa"
    given.write_text(">a\nACGT\n")
    (tmp_path / "link.fa").symlink_to("given.fa")
    os.mkfifo(tmp_path / "pipe")
    for output, kind, sentence in (
        ("-", SettingsError, "standard output"),
        (".", BioattnError, "is a folder"),
        ("none/x.fa", BioattnError, "folder none does not exist"),
        ("pipe", BioattnError, "device or pipe"),
        ("given.fa", SettingsError, "is an input"),
        ("link.fa", SettingsError, "is an input"),
    ):
        with pytest.raises(kind, match=sentence):
            check_output(Path(output), [given])
    check_output(Path("new.fa"), [given])


def test_a_full_disk_is_told_of_the_output_not_of_its_temporary_name(tmp_path):
    def write():
        with atomic_output(tmp_path / "out.tsv") as temporary, atomic_output(temporary):
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(BioattnError) as caught:
        write()
    assert str(caught.value).startswith(f"{tmp_path / 'out.tsv'}: no space left")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_folders_are_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(BioattnError, match="read-only"):
        check_output(tmp_path / "x")


def test_no_command_replaces_its_input(tmp_path, capsys):
    promoters, responses = tmp_path / "p.fa", tmp_path / "r.tsv"
    promoters.write_text(">a\nACGT\n")
    responses.write_text("gene\tx\na\t1\n")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for arguments in (
        ["prepare", "dataset", promoters, responses, "-o", promoters],
        ["prepare", "dataset", promoters, responses, "-o", responses],
        ["run", "promoter", tmp_path, promoters, "-o", promoters],
        ["export", "attention", tmp_path, promoters, "-o", promoters],
        ["simulate", "score", responses, promoters, "-o", promoters],
    ):
        assert main([str(argument) for argument in arguments]) == 2
        assert "which is an input" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("content", [b"", b"\0" * 20, b'\x10\0\0\0\0\0\0\0{"a": 1}        '])
def test_what_is_damaged_is_said_to_be(tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(FormatError, match=r"x: damaged or not a safetensors file"):
        open_safetensors(tmp_path / "x")


NAMES = {"a", "b", "c"}


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    target = tmp_path / "out"
    with atomic_folder(target, NAMES) as folder:
        (folder / "a").write_text("1")
        assert not target.exists()
    assert [path.name for path in target.iterdir()] == ["a"]
    with pytest.raises(ZeroDivisionError), atomic_folder(target, NAMES) as folder:
        (folder / "b").write_text(f"{1 // 0}")
    assert [path.name for path in target.iterdir()] == ["a"]
    (tmp_path / "out.partial").mkdir()  # as a killed run leaves it
    (tmp_path / "out.partial" / "b").write_text("x")
    (tmp_path / "out.partial" / ".tmp-4711-c").write_text("x")
    with atomic_folder(target, NAMES) as folder:
        assert not list(folder.iterdir())
        (folder / "c").write_text("3")
    assert [path.name for path in target.iterdir()] == ["c"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("place", ["out", "out.partial", ".tmp-old-out"])
@pytest.mark.parametrize("name", ["mine.txt", "deep/a", ".tmp-4711-mine.txt"])
def test_a_folder_with_a_file_that_is_not_ours_is_never_removed(tmp_path, place, name):
    mine = tmp_path / place / name
    mine.parent.mkdir(parents=True)
    mine.write_text("years")
    (tmp_path / place / "a").write_text("1")
    before = sorted(tmp_path.rglob("*"))
    with (
        pytest.raises(
            BioattnError, match=rf"{place}: holds {name.split('/')[0]}, which bioattn did not write"
        ),
        atomic_folder(tmp_path / "out", NAMES),
    ):
        pass
    assert sorted(tmp_path.rglob("*")) == before
    assert mine.read_text() == "years"


def test_a_folder_that_cannot_get_its_name_leaves_the_earlier_one_in_its_place(tmp_path):
    earlier = tmp_path / "out"
    earlier.mkdir()
    (earlier / "a").write_text("earlier")
    with pytest.raises(OSError, match="No such file"):
        replace_folder(tmp_path / "missing", earlier)
    assert (earlier / "a").read_text() == "earlier"
    assert list(tmp_path.iterdir()) == [earlier]


def test_what_stepped_aside_comes_back_when_the_run_was_killed_then(tmp_path):
    target, aside, partial = tmp_path / "out", tmp_path / ".tmp-old-out", tmp_path / "out.partial"
    for folder, content in ((aside, "earlier"), (partial, "new")):
        folder.mkdir()
        (folder / "a").write_text(content)
    with pytest.raises(ZeroDivisionError), atomic_folder(target, NAMES) as folder:
        (folder / "a").write_text(f"{1 // 0}")
    assert (target / "a").read_text() == "earlier"
    aside.mkdir()  # killed a moment later
    (aside / "a").write_text("older")
    with atomic_folder(target, NAMES) as folder:
        (folder / "b").write_text("newest")
    assert [path.name for path in target.iterdir()] == ["b"]
    assert list(tmp_path.iterdir()) == [target]
