"""Shards of a run over several alignments make the folders of one process and, merged, its attention file."""

import json

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


def run(source, model, output, attention, *options):
    """With attention of one site, where no settings choose others."""
    words = ["run", "evoformer", source, "--model", model, "-o", output, "--attention", attention, *options]
    return bioattn(*words, *(() if "--config" in options else ROW))


def files_of(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize(
    ("count", "settings"),
    [
        (3, 'reduce = "top-k"\ntop_k = 3\ndtype = "float16"\nsites = ["extra_msa.*"]'),
        (6, 'reduce = "none"\nsites = ["evoformer.*.msa_row", "*.msa_column*"]\nheads = [1]'),
    ],
)
def test_folders_and_attention(model, alignments, tmp_path, count, settings):
    """`reduce = "mean-rows"`, the default: the next test."""
    config = tmp_path / "run.toml"
    config.write_text(f"[attention]\n{settings}\n")
    assert run(alignments, model, tmp_path / "whole", tmp_path / "whole.h5", "--config", config) == 0
    parts = [tmp_path / f"{number}.h5" for number in range(1, count + 1)]
    for number, part in enumerate(parts, start=1):
        options = ("--config", config, "--shard", f"{number}/{count}")
        assert run(alignments, model, tmp_path / "folds", part, *options) == 0
    assert files_of(tmp_path / "folds") == files_of(tmp_path / "whole")
    assert validate_file(tmp_path / "folds") == []
    assert bioattn("merge", *parts[::-1], "-o", tmp_path / "merged.h5") == 0
    assert_same_content(tmp_path / "merged.h5", tmp_path / "whole.h5")
    for number, part in enumerate(parts, start=1):
        assert validate_file(part) == []
        assert inspect_file(part).figures["shard"] == f"part {number} of {count}"


def test_what_failed_is_left_out_and_said(model, alignments, tmp_path, capsys):
    (alignments / "family1.a3m").write_text(">a\nMK\n>b\nMKV\n")
    (alignments / "family4.a3m").write_text(">a\nMK\n>b\nMKV\n")
    assert run(alignments, model, tmp_path / "whole", tmp_path / "whole.h5") == 1
    parts = [tmp_path / f"{number}.h5" for number in (1, 2, 3)]
    # Three shards of 2, 2 and 1 alignments: the last one, which begins, is left with nothing.
    codes = [
        run(alignments, model, tmp_path / "folds", part, "--shard", f"{part.stem}/3") for part in parts[::-1]
    ]
    assert codes == [1, 0, 1]
    assert files_of(tmp_path / "folds") == files_of(tmp_path / "whole")
    for number, failed in ((1, ["family1"]), (2, []), (3, ["family4"])):
        record = json.loads((tmp_path / f"bioattn-records/folds.{number}-of-3.json").read_text())
        assert list(record["failed"]) == failed
    capsys.readouterr()
    assert bioattn("merge", *parts, "-o", tmp_path / "merged.h5") == 0
    assert "2 alignments of 5 failed" in capsys.readouterr().err
    assert_same_content(tmp_path / "merged.h5", tmp_path / "whole.h5")


def test_refusals(model, alignments, tmp_path, capsys):
    def refused(*command, code=1):
        capsys.readouterr()
        assert bioattn(*command) == code
        return capsys.readouterr().err

    folds = tmp_path / "folds"
    base = ("run", "evoformer", alignments, "--model", model, "-o", folds)
    alone = ("run", "evoformer", alignments / "family0.a3m", "--model", model)
    assert "this is one alignment" in refused(*alone, "-o", tmp_path / "x", "--shard", "1/2")
    assert bioattn(*base, "--shard", "1/2") == 0
    before = files_of(folds)
    assert "exists already; keep it with --resume" in refused(*base, "--shard", "1/2")
    assert bioattn(*base, "--shard", "1/2", "--resume") == 0
    assert files_of(folds) == before
    assert "shards that write folders share one --output" in refused(
        "merge", folds, "-o", tmp_path / "merged"
    )
