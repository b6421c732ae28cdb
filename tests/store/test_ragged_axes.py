"""Axes whose length differs by sample: padded or apart, read, checked and merged alike."""

import itertools
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
import xarray

from bioattn.attention.site import AttentionSite, Axis
from bioattn.choices import Reduction
from bioattn.store.inspection import inspect_file, validate_file
from bioattn.store.merging import merge_shards
from bioattn.store.reader import open_attention
from bioattn.store.schema import (
    TEXT,
    AttentionOptions,
    Block,
    Column,
    FileLayout,
    ListColumn,
    Samples,
    site_layout,
)
from bioattn.store.shards import ShardRecord
from bioattn.store.writer import result_file
from bioattn.system.shard import Shard
from tests.result_files import assert_same_content, part_of

LENGTHS = [7, 12, 3, 12, 9]
HEADS = 2
SITE = AttentionSite(
    name="sequence.layers",
    axes=(
        Axis("sample"),
        Axis("layer", size=3),
        Axis("head"),
        Axis("query", "token", lengths="length"),
        Axis("key", "token", lengths="length"),
    ),
    heads=tuple(range(HEADS)),
)
COLUMNS = (Column("length", "int32", "letters"), Column("sequence", TEXT))
ALL = AttentionOptions()
TOP_K = AttentionOptions(reduce=Reduction.TOP_K, top_k=4)


def layout_of(options, lengths, per_sample=None):
    known = [{"length": length} for length in lengths]
    group = site_layout(SITE, options, lengths=known, per_sample=per_sample)
    return FileLayout(inputs="sequences", model_sha256="a" * 64, columns=COLUMNS, groups=(group,))


def block_of(options, lengths, first=0):
    """Samples whose weights follow from their number; NaN behind their ends, as nobody reads that."""
    longest = max(lengths)
    whole: dict[str, list[np.ndarray]] = {"weights": [], "key_index": []}
    own = []
    for number, length in enumerate(lengths, start=first):
        random = np.random.default_rng(number)
        weights = random.dirichlet(np.ones(length), size=(3, HEADS, length)).astype(np.float32)
        if options.reduce is Reduction.TOP_K:
            order = np.argsort(-weights, axis=-1, kind="stable")[..., : options.top_k].astype(np.int32)
            arrays = {"weights": np.take_along_axis(weights, order, -1), "key_index": order}
        else:
            arrays = {"weights": weights}
        own.append(arrays)
        for name, values in arrays.items():
            last = min(options.top_k, longest) if options.reduce is Reduction.TOP_K else longest
            fill = np.nan if values.dtype.kind == "f" else -1
            padded = np.full((3, HEADS, longest, last), fill, values.dtype)
            padded[:, :, : values.shape[2], : values.shape[3]] = values
            whole[name].append(padded)
    samples = Samples(
        {
            "id": [f"s{number}" for number in range(first, first + len(lengths))],
            "length": np.array(lengths, dtype=np.int32),
            "sequence": ["M" * length for length in lengths],
        }
    )
    arrays = {name: np.stack(values) for name, values in whole.items() if values}
    return Block(samples, {"sites/sequence.layers": arrays}), own


def write(path, layout, options, cuts=()):
    block, own = block_of(options, LENGTHS)
    with result_file(path, layout, len(LENGTHS)) as writer:
        for first, stop in itertools.pairwise((0, *cuts, len(LENGTHS))):
            writer.append(part_of(block, slice(first, stop)))
    return own


@pytest.mark.parametrize("per_sample", [True, False])
@pytest.mark.parametrize("options", [ALL, TOP_K], ids=["all", "top-k"])
def test_both_ways_are_valid_and_read_alike(tmp_path, options, per_sample):
    path = tmp_path / "a.h5"
    own = write(path, layout_of(options, LENGTHS, per_sample), options)
    assert validate_file(path) == []
    assert inspect_file(path).figures["length"] == "3 to 12"
    with open_attention(path) as attention:
        info = attention.sites["sequence.layers"]
        assert info.kind("key") == "token"
        assert info.layout.per_sample is per_sample
        for number, arrays in enumerate(own):
            sample = f"s{number}"
            found = attention.weights("sequence.layers", sample=sample)
            np.testing.assert_array_equal(found, arrays["weights"])
            one = attention.weights("sequence.layers", sample=sample, head=1)
            np.testing.assert_array_equal(one, arrays["weights"][:, 1])
            if options is TOP_K:
                index = attention.key_index("sequence.layers", sample=sample)
                np.testing.assert_array_equal(index, arrays["key_index"])
        if not per_sample:
            padded = attention.weights("sequence.layers", gene="s2")
            assert padded.shape == (3, HEADS, 12, 4 if options is TOP_K else 12)
            assert not padded[..., 3:, :].any()
            assert not padded[..., 3:].any()


def test_xarray_reads_padded_axes_and_the_column_of_their_lengths(tmp_path):
    path = tmp_path / "a.h5"
    own = write(path, layout_of(ALL, LENGTHS, per_sample=False), ALL)
    site = xarray.open_dataset(path, group="sites/sequence.layers", engine="netcdf4")
    assert site["weights"].dims == ("sample", "layer", "head", "query", "key")
    samples = xarray.open_dataset(path, group="samples", engine="netcdf4")
    length = int(samples[site["key"].attrs["lengths"]].sel(id="s4"))
    maps = site["weights"].sel(sample="s4", head=1)[:, :length, :length]
    np.testing.assert_array_equal(maps, own[4]["weights"][:, 1])


@pytest.mark.parametrize("per_sample", [True, False])
def test_shards_make_the_whole(tmp_path, per_sample):
    layout = layout_of(TOP_K, LENGTHS, per_sample)
    write(tmp_path / "whole.h5", layout, TOP_K)
    parts = []
    for place, (first, stop) in enumerate(((0, 2), (2, 2), (2, 5)), start=1):
        record = ShardRecord(shard=Shard(place, 3), first=first, stop=stop, total=5, settings={})
        parts.append(tmp_path / f"{place}.h5")
        with result_file(parts[-1], replace(layout, shard=record), stop - first) as writer:
            if stop > first:
                writer.append(block_of(TOP_K, LENGTHS[first:stop], first)[0])
        assert validate_file(parts[-1]) == []
    merge_shards(parts[::-1], tmp_path / "merged.h5")
    assert_same_content(tmp_path / "merged.h5", tmp_path / "whole.h5")


@pytest.mark.parametrize(
    ("lengths", "per_sample"),
    [
        ([100] * 5, False),
        ([90, 100, 95], False),
        ([400, 100, 100, 100], True),
        ([20, 3, 3, 3], False),  # a group of its own would take more than the padding
        ([100], True),  # its axes bear its names
    ],
)
def test_what_would_waste_more_than_half_is_stored_apart(lengths, per_sample):
    (group,) = layout_of(ALL, lengths).groups
    assert group.per_sample is per_sample


@pytest.mark.parametrize("per_sample", [True, False])
@pytest.mark.parametrize("options", [ALL, TOP_K], ids=["all", "top-k"])
def test_places_have_the_names_of_their_sample(tmp_path, options, per_sample):
    """Whether samples share arrays or not, in xarray and in tables; after an interruption, too."""
    layout = replace(
        layout_of(options, LENGTHS, per_sample), lists=(ListColumn("n", TEXT, "token", "length"),)
    )
    block, own = block_of(options, LENGTHS)
    names = [[f"{number}å{place}" for place in range(length)] for number, length in enumerate(LENGTHS)]
    block = Block(replace(block.samples, lists={"n": names}), block.arrays)
    path = tmp_path / "a.h5"
    with suppress(KeyboardInterrupt), result_file(path, layout, len(LENGTHS)) as writer:
        writer.append(part_of(block, slice(2)))
        raise KeyboardInterrupt
    with result_file(path, layout, len(LENGTHS), resume=True) as writer:
        writer.append(part_of(block, slice(2, None)))
    assert validate_file(path) == []
    group = "sites/sequence.layers"
    with open_attention(path) as attention:
        for number, called in enumerate(names):
            found = attention.to_xarray("sequence.layers", samples=f"s{number}", head=1)
            assert found["query"].values.tolist() == called
            if options is TOP_K:
                index = own[number]["key_index"][:, 1]
                assert found["key"].values.tolist() == np.array(called)[index].tolist()
                series = attention.to_pandas("sequence.layers", samples=f"s{number}", head=1)
                assert (
                    series.index.get_level_values("key").tolist() == np.array(called)[index].ravel().tolist()
                )
            else:
                assert found["key"].values.tolist() == called
        if not per_sample:
            several = attention.to_xarray("sequence.layers", samples=["s2", "s0"])
            assert several["query_name"].values.tolist() == [names[2] + 9 * [""], names[0] + 5 * [""]]
    if per_sample:
        last = xarray.open_dataset(path, group=f"{group}/s0000004", engine="netcdf4")
        assert last["key"].values.tolist() == names[4]
        return
    with xarray.open_dataset(path, group=group, engine="netcdf4") as site:
        found = site.coords["query_name"].load()
    assert found.sel(sample="s4").values.tolist() == names[4] + 3 * [""]


def test_many_short_sequences_do_not_pay_for_groups(tmp_path):
    random = np.random.default_rng(0)
    lengths = random.integers(4, 9, 2000).tolist()
    layout = layout_of(ALL, lengths)
    block, _ = block_of(ALL, lengths)
    with result_file(tmp_path / "a.h5", layout, len(lengths)) as writer:
        writer.append(block)
    size = (tmp_path / "a.h5").stat().st_size
    assert size < 2000 * 3000
    assert size == pytest.approx(layout.stored_bytes(2000), rel=0.15)
