"""Merging files over promoters cut anywhere: the bytes are those of the whole, whatever the parts and blocks."""

import functools
import itertools
import tempfile
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bioattn import __version__
from bioattn.errors import FormatError
from bioattn.store.merging import merge_parts
from bioattn.store.parts import PartFile, write_whole
from bioattn.store.prediction_table import PartSeal, open_part, part_line
from bioattn.store.schema import AttentionOptions, Block
from bioattn.store.shard_record import ShardRecord, parse_record
from bioattn.store.writer import result_writer
from bioattn.system.shard import Shard
from tests.store.conftest import TREATMENTS, make_arrays, make_layout, make_samples

LAYOUT = make_layout(AttentionOptions(value_weighted=True))


@functools.cache
def all_rows(number):
    """The samples of a file whose content follows from their number."""
    arrays = {f"sites/{name}": found for name, found in make_arrays(LAYOUT, number).items()}
    values = np.random.default_rng(1).normal(size=(number, len(TREATMENTS))).astype(np.float32)
    return Block(make_samples(number), {**arrays, "predictions": {"values": values}})


@settings(max_examples=25)  # each writes a dozen files
@given(
    number=st.integers(1, 40),
    part_samples=st.integers(1, 45),
    cuts=st.lists(st.integers(0, 40), max_size=5),
    slab=st.integers(1, 9),
)
def test_cuts_anywhere(number, part_samples, cuts, slab):
    """Parts of any sizes, empty ones too, over blocks of any sizes."""
    bounds = [0, *sorted(min(cut, number) for cut in cuts), number]
    job = {"generated_by": f"bioattn {__version__}", "part_samples": part_samples}
    widest = max(group.bytes_of_sample() for group in LAYOUT.groups)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("bioattn.store.writer.STEP_BYTES", slab * widest)
        patch.setattr("bioattn.store.parts.READ_BYTES", slab * widest // 2)
        patch.setattr("bioattn.store.schema.BAND_BYTES", slab * widest // 2)

        def write(name, first, stop, record):
            path = Path(folder) / name
            with result_writer(
                path, replace(LAYOUT, shard=record), stop - first, chunked=record is not None
            ) as writer:
                if stop > first:
                    writer.append(all_rows(number).part(slice(first, stop)))
            return path

        starts = range(0, number, part_samples)
        pieces = [write(f"part{s}", s, min(s + part_samples, number), None) for s in starts]
        sizes = [min(part_samples, number - s) for s in starts]
        whole = Path(folder) / "whole.h5"
        write_whole(whole, LAYOUT, list(map(PartFile, pieces, sizes)), lambda _: nullcontext())
        parts = [
            write(
                f"{place}.h5",
                first,
                stop,
                ShardRecord(
                    shard=Shard(place, len(bounds) - 1), first=first, stop=stop, total=number, job=job
                ),
            )
            for place, (first, stop) in enumerate(itertools.pairwise(bounds), start=1)
        ]
        merge_parts(parts[::-1], Path(folder) / "merged.h5")
        assert (Path(folder) / "merged.h5").read_bytes() == whole.read_bytes()


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\t\x00"), min_size=1).filter(
    lambda text: text.splitlines() == [text]
)


@given(header=TEXT, rows=st.lists(TEXT, max_size=5), value=TEXT)
def test_a_part_of_a_table_is_read_as_it_was_written(header, rows, value):
    record = ShardRecord(shard=Shard(2, 3), first=4, stop=4 + len(rows), total=99, job={"model": value})
    seal = PartSeal()
    text = "".join([part_line(record), *(line + "\n" for line in [header, *rows])])
    seal.add(text)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "part.tsv"
        path.write_text(text + seal.line(), encoding="utf-8", newline="")
        with open_part(path) as part:
            assert (part.record, part.header, list(part.rows())) == (record, header, rows)
        path.write_text(text, encoding="utf-8", newline="")
        with pytest.raises(FormatError, match=r"cut short"), open_part(path) as part:
            list(part.rows())


@given(
    content=st.fixed_dictionaries(
        {},
        optional={
            "shard": st.one_of(st.text(st.characters(exclude_characters="/"), max_size=6), st.none()),
            "shard_inputs": st.one_of(st.from_regex(r"\A-?[0-9]{1,3}-[0-9]{1,3}/[0-9]{1,3}\Z"), st.none()),
            "shard_job": st.one_of(st.dictionaries(st.text(max_size=3), st.integers()), st.lists(st.none())),
        },
    )
)
def test_what_is_no_record_is_one_sentence(content):
    with pytest.raises(FormatError, match=r"^part\.h5: says that it is a part of a sharded run"):
        parse_record(content, "part.h5")
