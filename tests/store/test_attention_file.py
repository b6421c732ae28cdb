"""Attention files: what is written is what h5py, xarray and our reader give back, byte for byte the same again."""

import math
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np
import pytest
import xarray
from hypothesis import given
from hypothesis import strategies as st

from bioattn.attention.site import AttentionSite
from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.store.attention_reader import open_attention
from bioattn.store.choices import Reduction, WeightType
from bioattn.store.schema import BAND_BYTES, CHUNK_BYTES, AttentionOptions, site_layout
from bioattn.store.window_coordinates import genomic_interval

Writer = Callable[..., Any]


def test_h5py_finds_the_promised_tree(write_example: Writer) -> None:
    example = write_example()
    with h5py.File(example.path) as file:
        assert file.attrs["format"] == "bioattn-attention"
        assert file.attrs["format_version"] == "1.0"
        assert file.attrs["model_sha256"] == "ab" * 32
        assert list(file["samples/id"].asstr()) == example.samples.ids
        np.testing.assert_array_equal(file["samples/start"], example.samples.start)
        weights = file["sites/promoter.cross.0/weights"]
        assert [dim.label for dim in weights.dims] == ["sample", "treatment", "head", "key"]
        assert weights.dtype == np.float32
        assert weights.compression is None
        assert weights.fletcher32
        for dim in weights.dims:
            assert dim[0].parent == weights.parent
        np.testing.assert_array_equal(weights[:], example.arrays["promoter.cross.0"]["weights"])


@pytest.mark.parametrize("site", ["promoter.cross.0", "promoter.stage.0"])
@pytest.mark.parametrize("dtype", list(WeightType))
def test_xarray_finds_coordinates(write_example: Writer, site: str, dtype: WeightType) -> None:
    example = write_example(dtype=dtype)
    data = xarray.open_dataset(example.path, group=f"sites/{site}", engine="h5netcdf")
    assert list(data["sample"].values) == example.samples.ids
    assert list(data["treatment"].values) == ["heat 37 °C", "cold", "H2O2"]
    np.testing.assert_array_equal(data["head"], [0, 1])
    layout = next(layout for layout in example.layouts if layout.name == site)
    if layout.key_edges is not None:
        np.testing.assert_array_equal(data["key"][:2], [2.0, 8.0])
        np.testing.assert_array_equal(data["key_edges"], layout.key_edges)
    for quantity in ("weights", "value_weighted"):
        assert data[quantity].dims == layout.dims
        gene = data[quantity].sel(sample="géne/0007", treatment="cold").values
        np.testing.assert_array_equal(gene, example.arrays[site][quantity][7, 1])


def test_xarray_reads_samples_and_predictions(write_example: Writer) -> None:
    example = write_example()
    samples = xarray.open_dataset(example.path, group="samples", engine="h5netcdf")
    assert samples["chrom"].sel(id="géne/0001") == "chrI"
    predictions = xarray.open_dataset(example.path, group="predictions", engine="h5netcdf")
    value = predictions["values"].sel(sample="géne/0003", treatment="cold")
    assert float(value) == example.predictions[3, 1]


def test_the_reader_gives_slices(write_example: Writer) -> None:
    example = write_example()
    stored = example.arrays["promoter.cross.0"]["weights"]
    with open_attention(example.path) as attention:
        assert list(attention.sites) == ["promoter.cross.0", "promoter.stage.0"]
        assert attention.treatments == ["heat 37 °C", "cold", "H2O2"]
        assert attention.samples.loc["géne/0002", "end"] == 2000 - 40 + 100 - 2
        site = "promoter.cross.0"
        np.testing.assert_array_equal(attention.weights(site), stored)
        np.testing.assert_array_equal(attention.weights(site, gene="géne/0005"), stored[5])
        np.testing.assert_array_equal(attention.weights(site, gene=slice(3, 9)), stored[3:9])
        np.testing.assert_array_equal(
            attention.weights(site, gene=["géne/0009", "géne/0002"], treatment=["H2O2", "cold"], head=1),
            stored[[9, 2]][:, [2, 1]][:, :, 1],
        )
        np.testing.assert_array_equal(
            attention.weights(site, gene="géne/0009", treatment=["H2O2", "cold"]), stored[9, [2, 1]]
        )
        assert attention.weights(site, gene=[]).shape == (0, 3, 2, 13)
        np.testing.assert_array_equal(
            attention.weights("promoter.stage.0", treatment="cold", value_weighted=True),
            example.arrays["promoter.stage.0"]["value_weighted"][:, 1],
        )
        assert attention.predictions().loc["géne/0004", "H2O2"] == example.predictions[4, 2]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"site": "promoter.cross.9"}, "no site 'promoter.cross.9'; it holds promoter.cross.0"),
        ({"site": "promoter.cross.0", "gene": "YAL001C"}, "gene 'YAL001C' is not in the file"),
        ({"site": "promoter.cross.0", "treatment": ["salt"]}, "treatment 'salt' is not in the file"),
        ({"site": "promoter.cross.0", "head": 7}, "holds no head 7"),
        ({"site": "promoter.cross.0", "value_weighted": True}, "export with --value-weighted"),
    ],
)
def test_the_reader_says_what_is_not_there(
    write_example: Writer, arguments: dict[str, Any], sentence: str
) -> None:
    example = write_example(value_weighted=False)
    with open_attention(example.path) as attention, pytest.raises(BioattnError, match=sentence):
        attention.weights(**arguments)


def test_key_bins_are_where_the_bases_are(write_example: Writer) -> None:
    """A base painted on the chromosome is found in the bin that says it covers it, on both strands."""
    example = write_example()
    with open_attention(str(example.path)) as attention:
        for number in range(6):
            gene = example.samples.ids[number]
            start, end = int(example.samples.start[number]), int(example.samples.end[number])
            # The window as a plain list of chromosome positions, 5'→3', None where it is padding.
            places: list[int | None] = list(range(start, end))
            if example.samples.strand[number] == "-":
                places = places[::-1]
            places = [None] * (100 - len(places)) + places
            bins = attention.key_bins("promoter.cross.0", gene)
            for _, row in bins.iterrows():
                covered = [p for p in places[row["window_start"] : row["window_end"]] if p is not None]
                assert sorted(covered) == list(range(row["start"], row["end"]))


@given(
    st.sampled_from("+-"),
    st.integers(-50, 10**9),
    st.integers(1, 60),
    st.integers(0, 40),
    st.data(),
)
def test_genomic_interval_against_a_plain_list(
    strand: str, start: int, window: int, padding: int, data: st.DataObject
) -> None:
    length = window + padding
    first = data.draw(st.integers(0, length - 1))
    last = data.draw(st.integers(first + 1, length))
    places: list[int | None] = list(range(start, start + window))
    places = [None] * padding + (places if strand == "+" else places[::-1])
    low, high = genomic_interval(np.array([first]), np.array([last]), start, start + window, strand, length)
    assert sorted(p for p in places[first:last] if p is not None) == list(range(low[0], high[0]))


@pytest.mark.parametrize("options", [{}, {"dtype": WeightType.FLOAT16}, {"chunked": False}])
def test_the_same_content_gives_the_same_bytes(write_example: Writer, options: dict[str, Any]) -> None:
    first = write_example(name="a.h5", **options).path.read_bytes()
    second = write_example(name="b.h5", **options).path.read_bytes()
    assert first == second


@given(
    st.integers(1, 50_000),
    st.integers(1, 400),
    st.integers(1, 64),
    st.integers(1, 2000),
    st.integers(1, 5000),
    st.sampled_from(list(WeightType)),
)
def test_chunks_are_neither_huge_nor_cut_rows(
    samples: int, treatments: int, heads: int, queries: int, keys: int, dtype: WeightType
) -> None:
    site = AttentionSite(
        name="s", axes=("sample", "treatment", "head", "query", "key"), num_heads=heads, receptive_field=None
    )
    layout = site_layout(site, (1, treatments, heads, queries, keys), AttentionOptions(dtype=dtype))
    chunk = layout.chunk(samples)
    full = (samples, treatments, heads, queries, keys)
    assert all(1 <= size <= whole for size, whole in zip(chunk, full, strict=True))
    assert chunk[-1] == keys
    assert chunk[1] == 1
    row = keys * np.dtype(str(dtype)).itemsize
    assert math.prod(chunk) * np.dtype(str(dtype)).itemsize <= max(CHUNK_BYTES, row)
    assert chunk[0] * layout.bytes_per_sample <= max(BAND_BYTES, layout.bytes_per_sample)


def test_layouts_of_heads_and_reductions() -> None:
    site = AttentionSite(name="s", axes=("sample", "head", "treatment", "key"), num_heads=4)
    layout = site_layout(site, (9, 4, 3, 7), AttentionOptions(heads=(2, 0)))
    assert (layout.dims, layout.sizes, layout.heads) == (
        ("sample", "treatment", "head", "key"),
        (3, 2, 7),
        (2, 0),
    )
    layout = site_layout(site, (9, 4, 3, 7), AttentionOptions(reduce=Reduction.MEAN_HEADS))
    assert (layout.dims, layout.sizes) == (("sample", "treatment", "key"), (3, 7))
    with pytest.raises(BioattnError, match="has heads 0 to 3, but 4 was asked for"):
        site_layout(site, (9, 4, 3, 7), AttentionOptions(heads=(4,)))
    with pytest.raises(SettingsError, match="each once"):
        AttentionOptions(heads=(1, 1))


@pytest.mark.parametrize(
    ("attribute", "value", "sentence"),
    [
        ("format", "cooler", "is no attention file \\(its format is 'cooler', 'bioattn-attention' is needed"),
        ("format_version", "2.0", "attention format 2.0 is newer than 1.1"),
        ("format_version", "one", "format_version 'one' is not of the form"),
        ("model_sha256", "0" * 64, "content_sha256 differs"),
    ],
)
def test_other_files_and_versions_are_refused(
    write_example: Writer, attribute: str, value: str, sentence: str
) -> None:
    path = write_example().path
    with h5py.File(path, "a") as file:
        file.attrs[attribute] = value
    with pytest.raises(FormatError, match=sentence), open_attention(path):
        pass


def test_a_newer_minor_version_is_read(write_example: Writer) -> None:
    from bioattn.store.content_digest import content_digest

    path = write_example().path
    with h5py.File(path, "a") as file:
        file.attrs["format_version"] = "1.7"
        file.attrs["content_sha256"] = content_digest(file)
    with open_attention(path) as attention:
        assert attention.treatments


def test_nothing_outside_the_file_is_opened(write_example: Writer, tmp_path: Any) -> None:
    secret = tmp_path / "secret.h5"
    with h5py.File(secret, "w") as file:
        file["x"] = np.arange(4)
    for number, plant in enumerate(
        (
            lambda file: file.__setitem__("sites/more", h5py.ExternalLink(str(secret), "/x")),
            lambda file: file.__setitem__("sites/more", h5py.SoftLink("/samples")),
            lambda file: file.create_virtual_dataset("more", _virtual(secret)),
            lambda file: file.create_dataset(
                "more", shape=(4,), dtype="i8", external=[(str(secret), 0, h5py.h5f.UNLIMITED)]
            ),
        )
    ):
        path = write_example(name=f"planted{number}.h5").path
        with h5py.File(path, "a") as file:
            plant(file)
        with pytest.raises(FormatError, match="only data in the file itself is read"), open_attention(path):
            pass


def _virtual(source: Any) -> h5py.VirtualLayout:
    layout = h5py.VirtualLayout(shape=(4,), dtype="i8")
    layout[:] = h5py.VirtualSource(str(source), "x", shape=(4,))
    return layout
