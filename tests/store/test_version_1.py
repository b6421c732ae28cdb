"""Files that bioattn wrote before format 2.0: the reader gives what plain h5py reads
(`version_1_files/README.md`)."""

import gzip
from pathlib import Path

import h5py
import numpy as np
import pytest

from bioattn.store import open_attention, open_attribution
from bioattn.store.inspection import inspect_file, validate_file
from bioattn_cli.main import main

FILES = Path(__file__).parent / "version_1_files"
NAMES = sorted(path.name.removesuffix(".gz") for path in FILES.glob("*.gz"))
ATTRIBUTION = ["gradient-input.h5", "integrated-gradients.h5", "ism.h5"]
ALIGNMENTS = ["alignment-shard.h5", "mean-rows.h5", "none.h5", "top-k.h5"]
PROMOTERS = ["phases.h5", "shard.h5", "stages.h5"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("version_1")
    for name in NAMES:
        (folder / name).write_bytes(gzip.decompress((FILES / f"{name}.gz").read_bytes()))
    return folder


def test_there_is_a_file_of_each_kind():
    assert sorted([*ATTRIBUTION, *ALIGNMENTS, *PROMOTERS]) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_they_are_valid_and_described(folder, name):
    assert validate_file(folder / name) == []
    figures = inspect_file(folder / name).figures
    assert figures["format_version"] == ("1.1" if name in ALIGNMENTS else "1.0")
    assert ("shard" in figures) == ("shard" in name)


@pytest.mark.parametrize("name", PROMOTERS)
def test_attention_of_promoters(folder, name):
    with h5py.File(folder / name) as file, open_attention(folder / name) as attention:
        assert attention.inputs == "promoters"
        assert list(attention.samples.index) == list(file["samples/id"].asstr())
        for column in ("chrom", "start", "end", "strand"):
            stored = file[f"samples/{column}"]
            expected = stored.asstr()[:] if stored.dtype.kind == "O" else stored[:]
            np.testing.assert_array_equal(attention.samples[column], expected)
        np.testing.assert_array_equal(attention.predictions(), file["predictions/values"][:])
        assert list(attention.sites) == list(file["sites"])
        for site, info in attention.sites.items():
            group = file[f"sites/{site}"]
            stored = group["weights"]
            assert info.dims == tuple(dim.label for dim in stored.dims)
            assert (info.reduce, info.null_key) == (group.attrs["reduce"], bool(group.attrs["sink"]))
            assert info.phases == group.attrs.get("phases", 1)
            assert info.heads == tuple(group.attrs["heads"])
            np.testing.assert_array_equal(attention.weights(site), stored[:])
            gene = attention.samples.index[-1]
            np.testing.assert_array_equal(
                attention.weights(site, gene=gene, treatment=["treatment3", "treatment1"]), stored[-1][[2, 0]]
            )
            if info.has_value_weighted:
                weighted = attention.weights(site, value_weighted=True)
                np.testing.assert_array_equal(weighted, group["value_weighted"][:])
            if "key_edges" in group:
                assert info.kind("key") == "position"
                np.testing.assert_array_equal(info.key_edges, group["key_edges"][:])
                bins = attention.key_bins(site, gene)
                np.testing.assert_array_equal(bins["window_end"], group["key_edges"][1:])
            np.testing.assert_array_equal(attention.coordinates(site, "key"), group["key"][:])


@pytest.mark.parametrize("name", ALIGNMENTS)
def test_attention_of_alignments(folder, name):
    with h5py.File(folder / name) as file, open_attention(folder / name) as attention:
        assert attention.inputs == "alignments"
        ids = list(file["samples/id"].asstr())
        assert list(attention.samples.index) == ids
        np.testing.assert_array_equal(attention.samples["length"], file["samples/length"][:])
        np.testing.assert_array_equal(attention.samples["query"], file["samples/query"].asstr()[:])
        assert list(attention.sites) == ["evoformer.00.msa_column", "evoformer.00.msa_row"]
        kinds = [info.kind("key") for info in attention.sites.values()]
        assert kinds == ["msa_row", "residue"]
        for number, sample in enumerate(ids):
            place = f"s{number:07d}"
            np.testing.assert_array_equal(attention.columns(sample), file[f"samples/columns/{place}"][:])
            names = file[f"samples/row_names/{place}"].asstr()[:].tolist()
            assert attention.row_names(sample) == names
            for site, info in attention.sites.items():
                stored = file[f"sites/{site}/{place}/weights"]
                assert info.dims == tuple(dim.label for dim in stored.dims)
                np.testing.assert_array_equal(attention.weights(site, sample=sample), stored[()])
                head = np.moveaxis(stored[()], info.dims.index("head"), 0)[1]
                np.testing.assert_array_equal(attention.weights(site, sample=sample, head=0), head)
                if name == "top-k.h5":
                    index = file[f"sites/{site}/{place}/key_index"][()]
                    np.testing.assert_array_equal(attention.key_index(site, sample=sample), index)
                query = attention.coordinates(site, "query", sample)
                np.testing.assert_array_equal(query, file[f"sites/{site}/{place}/query"][:])


@pytest.mark.parametrize("name", ATTRIBUTION)
def test_attribution(folder, name):
    with h5py.File(folder / name) as file, open_attribution(folder / name) as attribution:
        assert attribution.method == name.removesuffix(".h5")
        assert attribution.treatments == list(file["attribution/treatment"].asstr())
        np.testing.assert_array_equal(attribution.values(), file["attribution/values"][:])
        np.testing.assert_array_equal(attribution.sequences(), file["attribution/sequence"][:])
        gap = attribution.completeness_gap()
        assert (gap is None) == (name != "integrated-gradients.h5")
        if gap is not None:
            np.testing.assert_array_equal(gap, file["attribution/completeness_gap"][:])


@pytest.mark.parametrize("name", ["shard.h5", "alignment-shard.h5"])
def test_parts_are_refused_by_name(folder, tmp_path, name, capsys):
    assert main(["merge", str(folder / name), "-o", str(tmp_path / "merged.h5")]) == 1
    assert f"{folder / name}: is of format 1." in capsys.readouterr().err


@pytest.mark.parametrize("name", ["phases.h5", "top-k.h5", "ism.h5"])
def test_flipped_bits_are_found_or_harmless(folder, tmp_path, name):
    content = (folder / name).read_bytes()
    random = np.random.default_rng(0)
    reported = 0
    for position in random.choice(len(content), size=25, replace=False):
        changed = bytearray(content)
        changed[position] ^= 1 << int(random.integers(8))
        (tmp_path / name).write_bytes(changed)
        reported += bool(validate_file(tmp_path / name))
    assert reported > 5
