"""Which files make a whole, and what becomes of them: tables made by hand, folders of two files."""

import io
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from bioattn import __version__
from bioattn.errors import BioattnError, FormatError
from bioattn.store import merging, recorded_folder
from bioattn.store.merging import complete_set, merge_parts
from bioattn.store.prediction_table import PREDICTIONS_JOB, PartSeal, part_line
from bioattn.store.shard_record import ShardRecord
from bioattn.system.progress import NoProgress
from bioattn.system.shard import Shard

JOB = {"format": PREDICTIONS_JOB, "generated_by": f"bioattn {__version__}", "model": "m"}
HEADER = "gene_id\theat"


def row(number):
    return f"G{number}\t{number / 4}"


def table(path, record, *, header=HEADER, rows=None):
    """A part as a command with --shard writes it; `rows` instead of those of its inputs."""
    lines = [row(number) for number in range(record.first, record.stop)] if rows is None else rows
    seal = PartSeal()
    text = "".join([part_line(record), *(line + "\n" for line in [header, *lines])])
    seal.add(text)
    path.write_text(text + seal.line(), encoding="utf-8", newline="")
    return path


def records(*bounds):
    return [
        ShardRecord(shard=Shard(number, len(bounds) - 1), first=first, stop=stop, total=bounds[-1], job=JOB)
        for number, (first, stop) in enumerate(pairwise(bounds), start=1)
    ]


def tables(folder, *bounds):
    return [table(folder / f"{each.shard.number}.tsv", each) for each in records(*bounds)]


class Counted(NoProgress):
    """Counts what was said to be done."""

    def __init__(self):
        self.begun: list[tuple[str, int]] = []
        self.ended = self.done = 0

    def begin(self, stage, total, *_more, **_other):
        self.begun.append((stage, total))

    def advance(self, steps=1, **_figures):
        self.done += steps

    def end(self):
        self.ended += 1


@pytest.mark.parametrize("bounds", [(0, 5), (0, 2, 5, 5, 9), (0, 0, 700)])
def test_tables_in_any_order_make_the_whole(tmp_path, bounds):
    parts = tables(tmp_path, *bounds)
    whole = "".join(line + "\n" for line in [HEADER, *map(row, range(bounds[-1]))])
    progress = Counted()
    summary = merge_parts(parts[::-1], tmp_path / "whole.tsv", progress=progress)
    assert (tmp_path / "whole.tsv").read_text() == whole
    assert (summary.title, summary.parts, summary.num_inputs) == ("predictions", parts, bounds[-1])
    assert (summary.num_missing, summary.failed) == (0, {})
    assert progress.begun == [("merging", bounds[-1])]
    assert (progress.done, progress.ended) == (bounds[-1], 1)
    printed, progress = io.StringIO(), Counted()
    merge_parts(parts, printed, progress=progress)
    assert printed.getvalue() == whole
    assert progress.begun == [("checking", bounds[-1]), ("merging", bounds[-1])]
    assert (progress.done, progress.ended) == (2 * bounds[-1], 2)


def test_the_user_is_asked_now_and_then_whether_to_stop(tmp_path, monkeypatch):
    """Before rows 0, 256 and 512 of each part."""
    parts = complete_set(tables(tmp_path, 0, 600, 857, 858))
    asked = []
    task = merging.MergeTask(
        parts=parts, output=tmp_path / "whole.tsv", progress=NoProgress(), check=lambda: asked.append(1)
    )
    assert merging.merge_tables(task).inputs == 858
    assert len(asked) == 3 + 2 + 1


def test_a_part_with_other_columns_is_refused_before_anything_is_printed(tmp_path):
    one, two, three = records(0, 2, 4, 6)
    paths = [
        table(tmp_path / "1", one),
        table(tmp_path / "2", two),
        table(tmp_path / "3", three, header="gene_id\tx"),
    ]
    printed = io.StringIO()
    for output in (printed, tmp_path / "whole.tsv"):
        with pytest.raises(FormatError, match=r"/3: has other columns than .*/1; make it again"):
            merge_parts(paths, output)
    assert printed.getvalue() == ""
    assert not (tmp_path / "whole.tsv").exists()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ([1], r"1\.tsv is part 1 of 5, but parts 2, 3, 4, 5 are missing; give all parts"),
        ([5, 3, 2, 1], r"5\.tsv is part 5 of 5, but part 4 is missing; give all parts"),
        ([4, 3, 2, 1], r"but part 5 is missing"),
        ([2, 3, 4, 5], r"but part 1 is missing"),
        ([1, 2, 3, 4, 5, 1], r"1\.tsv: is given twice"),
    ],
)
def test_every_part_has_to_be_there_once(tmp_path, given, sentence):
    paths = tables(tmp_path, 0, 2, 4, 6, 8, 10)
    assert [part.record.shard.number for part in complete_set(paths[::-1])] == [1, 2, 3, 4, 5]
    with pytest.raises(BioattnError, match=sentence):
        complete_set([Path(str(paths[number - 1])) for number in given])


def test_two_files_of_one_part_and_a_link_to_one(tmp_path):
    one, two = tables(tmp_path, 0, 2, 4)
    copy = tmp_path / "copy.tsv"
    copy.write_bytes(two.read_bytes())
    with pytest.raises(BioattnError, match=r"copy\.tsv: is part 2 of 2, and so is .*2\.tsv"):
        complete_set([one, two, copy])
    (tmp_path / "link.tsv").symlink_to(two)
    with pytest.raises(BioattnError, match=r"link\.tsv: is given twice"):
        complete_set([one, two, tmp_path / "link.tsv"])


@pytest.mark.parametrize("place", [1, 2])
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"job": {**JOB, "model": "n"}}, r"is a part of another run than .*1\.tsv \(different: model\)"),
        ({"job": {**JOB, "seed": 1, "model": "n"}}, r"\(different: model, seed\)"),
        ({"total": 7}, r"is part \d of 3, but .*1\.tsv is part 1 of 3"),
        ({"shard": Shard(2, 4)}, r"is part 2 of 4, but .*1\.tsv is part 1 of 3"),
    ],
)
def test_every_other_part_is_compared_with_the_first(tmp_path, place, changes, sentence):
    paths = tables(tmp_path, 0, 2, 4, 6)
    other = replace(records(0, 2, 4, 6)[place], **changes)
    table(paths[place], other)
    with pytest.raises(BioattnError, match=rf"{place + 1}\.tsv: .*{sentence}"):
        complete_set(paths)


def test_parts_of_another_version_are_left_to_it(tmp_path):
    job = {**JOB, "generated_by": "bioattn 0.0.1"}
    paths = [table(tmp_path / str(each.first), replace(each, job=job)) for each in records(0, 2, 4)]
    with pytest.raises(BioattnError, match=r"was made by bioattn 0\.0\.1, and this is"):
        complete_set(paths)


@pytest.mark.parametrize(
    ("bounds", "sentence"),
    [
        (
            ((0, 2), (3, 4), (4, 6)),
            r"1\.tsv has inputs 1 to 2 of 6 and .*2\.tsv, the next part, 4 of 6, so one",
        ),
        (((0, 2), (1, 4), (4, 6)), r"1\.tsv has inputs 1 to 2 of 6 and .*2\.tsv, the next part, 2 to 4 of 6"),
        (((0, 2), (2, 4), (5, 6)), r"2\.tsv has inputs 3 to 4 of 6 and .*3\.tsv, the next part, 6 of 6"),
        (((1, 2), (2, 4), (4, 6)), r"1\.tsv to .*3\.tsv: are not all of 6 inputs, so one of them is damaged"),
        (((0, 2), (2, 4), (4, 5)), r"1\.tsv to .*3\.tsv: are not all of 6 inputs"),
    ],
)
def test_inputs_have_to_follow_each_other_from_the_first_to_the_last(tmp_path, bounds, sentence):
    paths = []
    for each, (first, stop) in zip(records(0, 2, 4, 6), bounds, strict=True):
        paths.append(table(tmp_path / f"{each.shard.number}.tsv", replace(each, first=first, stop=stop)))
    with pytest.raises(FormatError, match=sentence):
        complete_set(paths)


FOLDER_JOB = {"format": recorded_folder.FOLDER_JOB, "generated_by": f"bioattn {__version__}", "alignments": 5}


def folders(tmp_path, *given):
    """Parts as `run evoformer --shard` leaves them: for each, names of results (of two files) and of failures."""
    total, done, parts = sum(len(names) + len(failed) for names, failed in given), 0, []
    for number, (names, failed) in enumerate(given, start=1):
        part, first, done = tmp_path / f"part{number}", done, done + len(names) + len(failed)
        part.mkdir()
        for name in names:
            (part / name).mkdir()
            for file in ("contacts.tsv", "scores.json"):
                (part / name / file).write_text(f"{name} {file}\n" * 100_000)
        record = ShardRecord(
            shard=Shard(number, len(given)), first=first, stop=done, total=total, job=FOLDER_JOB
        )
        reasons = {name: f"{name} is bad" for name in failed}
        recorded_folder.write_shard_file(part, record, {name: part / name for name in names}, reasons)
        parts.append(part)
    return parts


def test_folders_are_copied_into_one_and_failures_are_told(tmp_path):
    parts = folders(tmp_path, (["a", "b"], ["bad"]), ([], ["worse"]), (["c"], []))
    progress = Counted()
    summary = merge_parts(parts[::-1], tmp_path / "whole", progress=progress)
    assert sorted(path.name for path in (tmp_path / "whole").iterdir()) == ["a", "b", "c"]
    for name, part in (("a", parts[0]), ("b", parts[0]), ("c", parts[2])):
        for file in ("contacts.tsv", "scores.json"):
            assert (tmp_path / "whole" / name / file).read_bytes() == (part / name / file).read_bytes()
    assert (summary.num_inputs, summary.num_missing) == (5, 2)
    assert summary.failed == {"bad": "bad is bad", "worse": "worse is bad"}
    assert progress.begun == [("copying", 3)]
    assert (progress.done, progress.ended) == (3, 1)


def test_a_single_part_is_a_whole(tmp_path):
    summary = merge_parts(folders(tmp_path, (["a"], ["bad"])), tmp_path / "whole")
    assert (summary.num_inputs, summary.num_missing) == (2, 1)
    assert sorted(path.name for path in (tmp_path / "whole").iterdir()) == ["a"]


def test_room_is_asked_for_the_files_of_all_parts(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(merging, "require_free_space", lambda _output, size, *_: asked.append(size))
    merge_parts(folders(tmp_path, (["a"], []), (["b", "long name"], [])), tmp_path / "whole")
    files = [path for path in (tmp_path / "whole").rglob("*") if path.is_file()]
    assert asked == [sum(path.stat().st_size for path in files)]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ([(["a"], []), (["b", "a"], [])], r"part2: holds 'a', and so does .*part1; make both again"),
        ([(["a"], ["x"]), (["b"], ["x"])], r"part2: holds 'x', and so does .*part1; make both again"),
    ],
)
def test_results_of_one_name_are_refused(tmp_path, given, sentence):
    with pytest.raises(FormatError, match=sentence):
        merge_parts(folders(tmp_path, *given), tmp_path / "whole")
    assert not (tmp_path / "whole").exists()


@pytest.mark.parametrize("number", [1, 3])
def test_as_many_results_as_inputs_are_wanted(tmp_path, number):
    """The last of two parts has the inputs 2 and 3 of 3."""
    _, part = parts = folders(tmp_path, (["z"], []), (["a", "b"], []))
    record = json.loads((part / "shard.json").read_text())
    files = dict.fromkeys("abc"[:number], record["files"]["a"])
    (part / "shard.json").write_text(json.dumps(record | {"files": files}))
    with pytest.raises(
        FormatError, match=rf"part2: shard\.json names {number} results for 2 inputs; make it"
    ):
        merge_parts(parts, tmp_path / "whole")


def test_a_changed_or_missing_file_is_named(tmp_path):
    parts = folders(tmp_path, (["a"], []), (["b"], []))
    path = parts[1] / "b" / "scores.json"
    content = path.read_text()
    path.write_text(content[:-2] + "!\n")
    with pytest.raises(FormatError, match=r"b/scores\.json: is not the file that shard\.json speaks of"):
        merge_parts(parts, tmp_path / "whole")
    path.unlink()
    with pytest.raises(BioattnError, match=r"b/scores\.json: no such file"):
        merge_parts(parts, tmp_path / "whole")
    assert not (tmp_path / "whole").exists()


def test_force_replaces_a_whole_of_other_inputs_and_nothing_else(tmp_path):
    parts = folders(tmp_path, (["a"], []), (["b"], []))
    old = tmp_path / "whole" / "old"
    old.mkdir(parents=True)
    (old / "scores.json").write_text("{}")
    with pytest.raises(BioattnError, match="exists already"):
        merge_parts(parts, tmp_path / "whole")
    (old / "notes.txt").write_text("mine")
    with pytest.raises(BioattnError, match=r"holds old/notes\.txt, which bioattn did not write|holds old"):
        merge_parts(parts, tmp_path / "whole", force=True)
    assert (old / "notes.txt").read_text() == "mine"
    (old / "notes.txt").unlink()
    merge_parts(parts, tmp_path / "whole", force=True)
    assert sorted(path.name for path in (tmp_path / "whole").iterdir()) == ["a", "b"]


def test_only_tables_go_to_standard_output(tmp_path):
    with pytest.raises(BioattnError, match="cannot go to standard output; give --output a name"):
        merge_parts(folders(tmp_path, (["a"], []), (["b"], [])), io.StringIO())
