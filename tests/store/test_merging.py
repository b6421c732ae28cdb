"""Merging parts cut anywhere, and going on with an interrupted file, give the content of the whole."""

import functools
import io
import itertools
import json
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bioattn.errors import BioattnError, FormatError, Interrupted
from bioattn.io.files import partial_path
from bioattn.store.inspection import inspect_file, validate_file
from bioattn.store.merging import merge_shards
from bioattn.store.schema import AttentionOptions, Block
from bioattn.store.shards import ShardRecord, parse_record, table_line
from bioattn.store.writer import result_file
from bioattn.system.shard import Shard
from tests.result_files import assert_same_content, part_of
from tests.store.conftest import TREATMENTS, make_arrays, make_layout, make_samples

LAYOUT = make_layout(AttentionOptions(value_weighted=True))
SETTINGS = {"model": "ab", "treatments": ["heat", "cold"]}


@functools.cache
def all_rows(number):
    """The samples of a file whose content follows from their number."""
    arrays = {f"sites/{name}": found for name, found in make_arrays(LAYOUT, number).items()}
    values = np.random.default_rng(1).normal(size=(number, len(TREATMENTS))).astype(np.float32)
    return Block(make_samples(number), {**arrays, "predictions": {"values": values}})


def write(path, number, rows, *, shard=None, size=7, stop_at=None, resume=False, **more):
    """Write some rows, in blocks of `size`; stop_at: press Ctrl-C before this row."""
    layout = LAYOUT if shard is None else replace(LAYOUT, shard=shard)
    known = {"settings": SETTINGS, "resume": resume} | more
    with result_file(path, layout, rows.stop - rows.start, **known) as writer:
        for first in range(rows.start + len(writer.ids), rows.stop, size):
            if stop_at is not None and first >= stop_at:
                raise Interrupted("stopped", 130)
            writer.append(part_of(all_rows(number), slice(first, min(first + size, rows.stop))))
    return path


def record(number, count, first, stop, total, given=SETTINGS):
    return ShardRecord(shard=Shard(number, count), first=first, stop=stop, total=total, settings=given)


@settings(max_examples=8)  # each writes a dozen files
@given(
    number=st.integers(1, 40),
    cuts=st.lists(st.integers(0, 40), max_size=5),
    size=st.integers(1, 45),
    slab=st.integers(1, 9),
)
def test_cuts_anywhere(number, cuts, size, slab):
    """Parts of any sizes, empty ones too, over blocks and chunks of any sizes."""
    bounds = [0, *sorted(min(cut, number) for cut in cuts), number]
    widest = max(group.bytes_of_sample() for group in LAYOUT.groups)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("bioattn.io.hdf5._CHUNK_CACHE_BYTES", slab * widest)
        patch.setattr("bioattn.store.schema.BAND_BYTES", slab * widest // 2)
        whole = write(Path(folder) / "whole.h5", number, slice(0, number), size=size)
        parts = [
            write(
                Path(folder) / f"{place}.h5",
                number,
                slice(first, stop),
                shard=record(place, len(bounds) - 1, first, stop, number),
                size=size,
            )
            for place, (first, stop) in enumerate(itertools.pairwise(bounds), start=1)
        ]
        for part in parts:
            assert validate_file(part) == []
        merge_shards(parts[::-1], Path(folder) / "merged.h5")
        assert_same_content(Path(folder) / "merged.h5", whole)


@pytest.mark.parametrize("stop_at", [1, 7, 20])
@pytest.mark.parametrize("size", [1, 7])
def test_interrupted_and_gone_on_with(tmp_path, stop_at, size):
    whole = write(tmp_path / "whole.h5", 23, slice(0, 23))
    path = tmp_path / "stopped.h5"
    with pytest.raises(Interrupted):
        write(path, 23, slice(0, 23), size=size, stop_at=stop_at)
    partial = partial_path(path)
    assert [each.name for each in tmp_path.iterdir() if each != whole] == [partial.name]
    done = -(-stop_at // size) * size
    assert inspect_file(partial).figures["genes"] == done
    assert "is unfinished: repeat the command" in str(validate_file(partial)[-1])
    with pytest.raises(BioattnError, match=r"of an interrupted run; give --resume .* or --force"):
        write(path, 23, slice(0, 23))
    with pytest.raises(BioattnError, match=r"another run \(different: model\)"):
        write(path, 23, slice(0, 23), settings=SETTINGS | {"model": "cd"}, resume=True)
    write(path, 23, slice(0, 23), size=4, resume=True)
    assert validate_file(path) == []
    assert not partial.exists()
    assert_same_content(path, whole)


def test_an_error_in_a_run_that_went_on_keeps_what_was_done(tmp_path):
    path = tmp_path / "a.h5"
    with pytest.raises(Interrupted):
        write(path, 23, slice(0, 23), stop_at=7)
    with (  # noqa: PT012
        pytest.raises(ZeroDivisionError),
        result_file(path, LAYOUT, 23, settings=SETTINGS, resume=True) as writer,
    ):
        writer.append(part_of(all_rows(23), slice(7, 9)))
        raise ZeroDivisionError
    assert inspect_file(partial_path(path)).figures["genes"] == 9
    write(path, 23, slice(0, 23), resume=True)
    assert_same_content(path, write(tmp_path / "whole.h5", 23, slice(0, 23)))


def test_what_is_cut_short_is_not_merged(tmp_path):
    shards = [record(1, 2, 0, 2, 5), record(2, 2, 2, 5, 5)]
    tables = [tmp_path / "1.tsv", tmp_path / "2.tsv"]
    for table, shard in zip(tables, shards, strict=True):
        rows = "".join(f"g{number}\t1\n" for number in range(shard.first, shard.stop))
        table.write_text(f"{table_line(shard)}gene_id\theat\n{rows}")
    merge_shards(tables, tmp_path / "whole.tsv")
    assert (tmp_path / "whole.tsv").read_text().splitlines() == [
        "gene_id\theat",
        *(f"g{i}\t1" for i in range(5)),
    ]
    tables[1].write_text(tables[1].read_text().rpartition("g4")[0])
    printed = io.StringIO()
    for output in (tmp_path / "cut.tsv", printed):
        with pytest.raises(FormatError, match=r"2\.tsv: has 2 rows for 3 inputs"):
            merge_shards(tables, output)
    assert printed.getvalue() == ""
    assert not (tmp_path / "cut.tsv").exists()
    with pytest.raises(Interrupted):
        write(tmp_path / "2.h5", 5, slice(2, 5), shard=shards[1], size=1, stop_at=4)
    parts = [write(tmp_path / "1.h5", 5, slice(0, 2), shard=shards[0]), partial_path(tmp_path / "2.h5")]
    with pytest.raises(BioattnError, match="is unfinished: repeat the command"):
        merge_shards(parts, tmp_path / "whole.h5")


def test_refusals(tmp_path):
    def part(name, number, count, first, stop, total=20, given=SETTINGS):
        shard = record(number, count, first, stop, total, given)
        return write(tmp_path / name, 20, slice(first, stop), shard=shard)

    one, two = part("1.h5", 1, 2, 0, 9), part("2.h5", 2, 2, 9, 20)
    other = part("other.h5", 2, 2, 9, 20, given=SETTINGS | {"model": "cd"})
    gap = part("gap.h5", 2, 2, 10, 20)
    third = part("third.h5", 3, 3, 9, 20)
    whole = write(tmp_path / "whole.h5", 20, slice(0, 20))
    for parts, words in (
        ([one], r"part 1 of 2, but of these 2 is missing"),
        ([one, two, two], r"is given twice"),
        ([one, other], r"another run .*\(different: model\)"),
        ([one, third], r"another run .*\(different: shards\)"),
        ([one, gap], r"overlap or leave gaps"),
        ([one, whole], r"no part of a sharded run"),
    ):
        with pytest.raises(BioattnError, match=words):
            merge_shards(parts, tmp_path / "merged.h5")
    assert not (tmp_path / "merged.h5").exists()


@pytest.mark.parametrize("name", ["shard", "shard_inputs", "settings"])
@pytest.mark.parametrize("value", [None, "9/3", "", [1]])
def test_what_is_no_record_is_one_sentence(name, value):
    content = json.loads(json.dumps(record(2, 3, 4, 9, 99).as_json()))
    with pytest.raises(FormatError, match=r"^part\.h5: does not say readably which shard it is"):
        parse_record(content | {name: value}, "part.h5")
