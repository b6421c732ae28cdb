"""Folders appear whole or not at all, and take nothing of other people's with them."""

import pytest

from bioattn.errors import BioattnError
from bioattn.io.folders import atomic_folder, replace_folder

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


def test_a_file_where_the_folder_is_to_be_made_stays(tmp_path):
    (tmp_path / "out.partial").write_text("mine")
    with (
        pytest.raises(BioattnError, match=r"out\.partial: is a file"),
        atomic_folder(tmp_path / "out", NAMES),
    ):
        pass
    assert (tmp_path / "out.partial").read_text() == "mine"


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
