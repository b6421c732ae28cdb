"""Shards of a run over several alignments, merged, are the folders and the attention file of one process."""

import shutil

import numpy as np
import pytest

from bioattn.models.evoformer.config import InputSettings
from bioattn.store.inspection import inspect_file, validate_file
from bioattn_cli.main import main
from tests.inference.evoformer_runs import make_model
from tests.result_files import assert_same_content

LENGTHS = [9, 14, 11, 9, 12]
"""Columns of the alignments: sites have arrays of other shapes in each."""
ROW = ("--sites", "*.msa_row")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return make_model(
        tmp_path_factory.mktemp("models") / "model",
        InputSettings(max_msa_clusters=4, max_extra_msa=5, num_recycles=0),
        num_blocks=1,
        structure_module=None,
        recycling=False,
        experimentally_resolved_head=False,
    )


@pytest.fixture
def alignments(tmp_path):
    folder = tmp_path / "alignments"
    folder.mkdir()
    random = np.random.default_rng(0)
    letters = np.frombuffer(b"ACDEFGHIKLMNPQRSTVWY", np.uint8)
    for number, length in enumerate(LENGTHS):
        rows = letters[random.integers(20, size=(6 + number, length))]
        text = "".join(f">row{i}\n{row.tobytes().decode()}\n" for i, row in enumerate(rows))
        (folder / f"family{number}.a3m").write_text(text)
    return folder


def bioattn(*arguments):
    return main([*map(str, arguments), "-q"])


def run(source, model, output, *options):
    """With attention of one site, where no settings choose others."""
    words = ["run", "evoformer", source, "--model", model, "-o", output, *options]
    words += ["--attention", output.with_name(output.name + ".h5")]
    return bioattn(*words, *(() if "--config" in options else ROW))


def in_shards(source, model, folder, count, *options):
    folder.mkdir()
    parts = [folder / str(number) for number in range(1, count + 1)]
    for number, part in enumerate(parts, start=1):
        assert run(source, model, part, "--shard", f"{number}/{count}", *options) == 0
    return parts


def files_of(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def attention_of(parts):
    return (part.with_name(part.name + ".h5") for part in parts)


@pytest.mark.parametrize(
    ("count", "settings"),
    [
        (2, 'reduce = "mean-rows"'),
        (3, 'reduce = "top-k"\ntop_k = 3\ndtype = "float16"\nsites = ["extra_msa.*"]'),
        (8, 'reduce = "none"\nsites = ["evoformer.*.msa_row", "*.msa_column*"]\nheads = [1]'),
    ],
)
def test_folders_and_attention(model, alignments, tmp_path, count, settings):
    config = tmp_path / "run.toml"
    config.write_text(f"[attention]\n{settings}\n")
    assert run(alignments, model, tmp_path / "whole", "--config", config) == 0
    parts = in_shards(alignments, model, tmp_path / "parts", count, "--config", config)
    assert bioattn("merge", *parts[::-1], "-o", tmp_path / "merged") == 0
    assert files_of(tmp_path / "merged") == files_of(tmp_path / "whole")
    assert bioattn("merge", *reversed(list(attention_of(parts))), "-o", tmp_path / "merged.h5") == 0
    assert_same_content(tmp_path / "merged.h5", tmp_path / "whole.h5")
    for number, part in enumerate(parts, start=1):
        for each in (part, *attention_of([part])):
            assert validate_file(each) == []
            assert inspect_file(each).figures["shard"] == f"part {number} of {count}"


def test_what_failed_is_left_out_and_said(model, alignments, tmp_path, capsys):
    (alignments / "family1.a3m").write_text(">a\nMK\n>b\nMKV\n")
    (alignments / "family4.a3m").write_text(">a\nMK\n>b\nMKV\n")
    assert run(alignments, model, tmp_path / "whole") == 1
    folder = tmp_path / "parts"
    folder.mkdir()
    parts = [folder / str(number) for number in (1, 2, 3)]
    # Three shards of 2, 2 and 1 alignments: the last one is left with nothing.
    assert [run(alignments, model, part, "--shard", f"{part.name}/3") for part in parts] == [1, 0, 1]
    capsys.readouterr()
    assert bioattn("merge", *parts, "-o", tmp_path / "merged") == 0
    assert "2 alignments of 5 failed in their parts and are not in the whole" in capsys.readouterr().err
    assert files_of(tmp_path / "merged") == files_of(tmp_path / "whole")
    assert bioattn("merge", *attention_of(parts), "-o", tmp_path / "merged.h5") == 0
    assert "2 alignments of 5 failed" in capsys.readouterr().err
    assert_same_content(tmp_path / "merged.h5", tmp_path / "whole.h5")
    assert inspect_file(parts[2]).figures["failed"].keys() == {"family4"}


def test_refusals(model, alignments, tmp_path, capsys):
    one, two = in_shards(alignments, model, tmp_path / "parts", 2)

    def refused(*command, code=1):
        capsys.readouterr()
        assert bioattn(*command) == code
        return capsys.readouterr().err

    merge = ("merge", one, two, "-o", tmp_path / "merged")
    base = ("run", "evoformer", alignments, "--model", model)
    alone = ("run", "evoformer", alignments / "family0.a3m", "--model", model)
    assert "this is one alignment" in refused(*alone, "-o", tmp_path / "x", "--shard", "1/2")
    assert "holds part 1 of 2 of a sharded run" in refused(*base, "-o", one, "--shard", "2/2", "--resume")
    # An earlier part stays one when its command is given again without --resume, and with it.
    before = files_of(one)
    assert "exists already; keep it with --resume" in refused(*base, "-o", one, "--shard", "1/2")
    assert files_of(one) == before
    assert bioattn(*base, "-o", one, "--attention", f"{one}.h5", *ROW, "--shard", "1/2", "--resume") == 0
    assert files_of(one) == before
    assert "of these 2 is missing" in refused("merge", one, "-o", tmp_path / "merged")
    shutil.move(two / "family4", tmp_path / "family4")
    assert f"{two}: family4, which shard.json names, is missing" in refused(*merge)
    assert [finding.where for finding in validate_file(two)] == ["family4"]
    shutil.move(tmp_path / "family4", two / "family4")
    record = two / "shard.json"
    content = record.read_text()
    record.write_text(content.replace("family3", "../family3"))
    assert "is incomplete (results, failed)" in refused(*merge)
    record.unlink()
    assert "is no part of a sharded run" in refused(*merge)
    record.write_text(content)
    assert bioattn(*merge) == 0
    assert "exists already" in refused(*merge)
    assert bioattn(*merge, "--force") == 0
    (tmp_path / "merged" / "notes.txt").write_text("mine")
    assert "holds notes.txt, which bioattn did not write" in refused(*merge, "--force")
