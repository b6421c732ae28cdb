"""Files of attention and attribution: h5py, xarray and our reader give back what was written; damage is found."""

import json

import h5py
import numpy as np
import pytest
import xarray
from hypothesis import given
from hypothesis import strategies as st

from bioattn.choices import WeightType
from bioattn.errors import BioattnError, FormatError
from bioattn.store.attribution import open_attribution
from bioattn.store.file_kinds import validate_results
from bioattn.store.inspection import is_valid
from bioattn.store.reader import open_attention
from bioattn.store.windows import genomic_interval, promoter_samples
from tests.result_files import write_attribution
from tests.store.conftest import delete, values

SITE = "sites/promoter.cross.0"


def test_h5py_finds_the_promised_tree(write_example):
    example = write_example()
    with h5py.File(example.path) as file:
        assert file.attrs["format"] == b"bioattn-attention"
        assert file.attrs["format_version"] == b"2.0"
        assert file.attrs["inputs"] == b"promoters"
        assert file.attrs["model_sha256"] == b"ab" * 32
        assert list(file["samples/id"].asstr()) == example.samples.ids
        np.testing.assert_array_equal(file["samples/start"], example.samples.columns["start"])
        weights = file["sites/promoter.cross.0/weights"]
        assert [dim.label for dim in weights.dims] == ["sample", "treatment", "head", "key"]
        assert weights.dtype == np.float32
        assert weights.compression is None
        assert weights.fletcher32
        for dim in weights.dims:
            assert dim[0].parent == weights.parent
        assert list(weights.parent.attrs["axes"]) == [b"sample", b"treatment", b"head", b"key"]
        np.testing.assert_array_equal(weights[:], example.arrays["promoter.cross.0"]["weights"])


@pytest.mark.parametrize("site", ["promoter.cross.0", "promoter.stage.0"])
@pytest.mark.parametrize("dtype", list(WeightType))
def test_xarray_finds_coordinates(write_example, site, dtype):
    example = write_example(dtype=dtype)
    half = dtype is WeightType.FLOAT16  # which netCDF does not know, and whose other reader gives bytes
    engine, code = ("h5netcdf", "utf-8") if half else ("netcdf4", None)
    data = xarray.open_dataset(example.path, group=f"sites/{site}", engine=engine)
    named = [name if code is None else name.encode(code) for name in ("heat 37 °C", "cold", "H2O2")]
    assert list(data["treatment"].values) == named
    assert [
        name if code is None else name.decode(code) for name in data["sample"].values
    ] == example.samples.ids
    np.testing.assert_array_equal(data["head"], [0, 1])
    layout = next(group for group in example.layout.groups if group.path == f"sites/{site}")
    if layout.axis("key").edges is not None:
        np.testing.assert_array_equal(data["key"][:2], [2.0, 8.0])
        np.testing.assert_array_equal(data["key_edges"], layout.axis("key").edges)
    for quantity in ("weights", "value_weighted"):
        assert data[quantity].dims == ("sample", *layout.arrays[0].dims)
        gene = data[quantity].sel(sample=data["sample"][7], treatment=named[1]).values
        np.testing.assert_array_equal(gene, example.arrays[site][quantity][7, 1])


def test_xarray_reads_samples_and_predictions(write_example):
    example = write_example()
    samples = xarray.open_dataset(example.path, group="samples", engine="netcdf4")
    assert samples["chrom"].sel(id="géne/0001") == "chrI"
    predictions = xarray.open_dataset(example.path, group="predictions", engine="netcdf4")
    value = predictions["values"].sel(sample="géne/0003", treatment="cold")
    assert float(value) == example.predictions[3, 1]


def test_the_reader_gives_slices(write_example):
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
def test_the_reader_says_what_is_not_there(write_example, arguments, sentence):
    example = write_example(value_weighted=False)
    with open_attention(example.path) as attention, pytest.raises(BioattnError, match=sentence):
        attention.weights(**arguments)


@given(st.sampled_from("+-"), st.integers(-50, 10**9), st.integers(1, 60), st.integers(0, 40), st.data())
def test_genomic_interval_against_a_plain_list(strand, start, window, padding, data):
    length = window + padding
    first = data.draw(st.integers(0, length - 1))
    last = data.draw(st.integers(first + 1, length))
    places: list[int | None] = list(range(start, start + window))
    places = [None] * padding + (places if strand == "+" else places[::-1])
    low, high = genomic_interval(np.array([first]), np.array([last]), start, start + window, strand, length)
    assert sorted(p for p in places[first:last] if p is not None) == list(range(low[0], high[0]))


@pytest.mark.parametrize("options", [{}, {"dtype": WeightType.FLOAT16}])
def test_the_same_content_gives_the_same_bytes(write_example, options):
    """However it was cut into blocks."""
    first = write_example(name="a.h5", **options).path.read_bytes()
    second = write_example(name="b.h5", blocks=7, **options).path.read_bytes()
    assert first == second


@pytest.mark.parametrize(
    ("attribute", "value", "sentence"),
    [
        ("format", "cooler", "is no attention file \\(its format is 'cooler', 'bioattn-attention' is needed"),
        ("format_version", "3.0", "attention format 3.0 is not 2.0"),
        ("format_version", "one", "attention format one is not 2.0"),
    ],
)
def test_other_files_and_versions_are_refused(write_example, attribute, value, sentence):
    path = write_example().path
    with h5py.File(path, "a") as file:
        file.attrs[attribute] = value
    with pytest.raises(FormatError, match=sentence), open_attention(path):
        pass


def test_a_newer_minor_version_is_read(write_example):
    path = write_example().path
    with h5py.File(path, "a") as file:
        file.attrs["format_version"] = "2.7"
    with open_attention(path) as attention:
        assert attention.treatments


@pytest.mark.parametrize("dtype", list(WeightType))
def test_good_files_are_valid(write_example, dtype):
    assert validate_results(write_example(dtype=dtype).path) == []


def delete_attribute(holder, name):
    return lambda file: file[holder].attrs.__delitem__(name)


def in_layout(**changes):
    """Change the layout as JSON of every axis that has these names."""

    def change(file):
        layout = json.loads(file["layout"].asstr()[0])
        for group in layout["groups"]:
            for axis in group["axes"]:
                axis.update({name: value for name, value in changes.items() if axis[name] is not None})
        text = json.dumps(layout)
        del file["layout"]
        file.create_dataset("layout", data=[text], dtype=h5py.string_dtype())

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (values(f"{SITE}/weights", (4, 0, 0, 0), np.nan), "'géne/0004': holds NaN"),
        (values(f"{SITE}/weights", (4, 1, 0, 3), -0.1), "'géne/0004': holds negative values"),
        (values(f"{SITE}/weights", (5, 1, 0, 3), 0.9), "'géne/0005': a row of weights sums to"),
        (values("sites/promoter.stage.0/weights", (2, 0, 0, 0, 0), 1.5), "'géne/0002': a row of weights"),
        (values(f"{SITE}/value_weighted", (3, 0, 0, 0), np.inf), "'géne/0003': holds NaN or inf"),
        (values(f"{SITE}/sample", 0, "other"), "sample: differs from /samples/id"),
        (values("samples/id", 0, "géne/0001"), "'géne/0001' occurs more than once"),
        (values("predictions/values", (0, 0), np.nan), "holds NaN or infinities"),
        (delete("layout"), "object 'layout' doesn't exist"),
        (in_layout(size=None), "has no length"),
        (delete_attribute("/", "inputs"), "the attribute 'inputs' is missing"),
        (delete(f"{SITE}/weights"), f"/{SITE}/weights: the dataset is missing"),
    ],
)
def test_each_break_is_named(write_example, change, words):
    path = write_example().path
    with h5py.File(path, "a") as file:
        change(file)
    findings = validate_results(path)
    assert findings
    assert any(words in str(finding) for finding in findings), [str(finding) for finding in findings]
    assert not is_valid(findings)


@pytest.mark.parametrize("keep", [0, 3, 8, 100, 900, 0.2, 0.5, 0.9, 0.999])
def test_cut_files_are_refused_in_one_sentence(write_example, keep):
    path = write_example().path
    content = path.read_bytes()
    path.write_bytes(content[: int(keep if keep > 1 or keep == 0 else keep * len(content))])
    findings = validate_results(path)
    assert len(findings) == 1
    assert "\n" not in str(findings[0])
    assert "HDF5" in findings[0].message
    with pytest.raises(BioattnError), open_attention(path):
        pass


GENES, LENGTH = 6, 30
VALUE = "attribution/values"


def write(path):
    random = np.random.default_rng(0)
    codes = random.integers(0, 5, (GENES, LENGTH), dtype=np.uint8)
    values = random.normal(0, 1, (GENES, 2, LENGTH, 4)).astype(np.float32)
    values -= values.mean(-1, keepdims=True)
    values[np.broadcast_to((codes == 4)[:, None], values.shape[:3])] = 0
    gap = random.normal(0, 0.01, (GENES, 2)).astype(np.float32)
    start = np.arange(GENES) * 100
    samples = promoter_samples(
        [f"G{i}" for i in range(GENES)], ["chrI"] * GENES, start, start + LENGTH, ["+"] * GENES
    )
    write_attribution(path, samples, codes, values, gap, ["control", "heat"], gap=gap)


def set_code(file, code):
    known = np.argwhere(file["attribution/sequence"][:] < 4)[7]
    file["attribution/sequence"][tuple(known)] = code


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (values(VALUE, (2, 1, 5, 3), np.nan), "'G2': holds NaN"),
        (values(VALUE, (2, 1, 5, 3), 9), "'G2': values of a position do not sum to 0"),
        (lambda file: set_code(file, 7), "holds codes above 4"),
    ],
)
def test_what_breaks_the_contract_is_found(tmp_path, change, sentence):
    write(tmp_path / "x.h5")
    with h5py.File(tmp_path / "x.h5", "r+") as file:
        change(file)
    findings = [str(finding) for finding in validate_results(tmp_path / "x.h5")]
    assert any(sentence in finding for finding in findings), findings


def test_what_is_no_attribution_is_refused(tmp_path):
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file.attrs["format"] = "bioattn-attention"
    with pytest.raises(FormatError, match="is no attribution file"), open_attribution(tmp_path / "other.h5"):
        pass


def test_names_may_come_one_by_one(tmp_path):
    write(tmp_path / "x.h5")
    with open_attribution(tmp_path / "x.h5") as file:
        for read in (file.array, file.at_bases):
            found = read(samples=(name for name in ("G3", "G1")))
            assert list(found.coordinates["sample"]) == ["G3", "G1"]
            np.testing.assert_array_equal(found.values, read(samples=["G3", "G1"]).values)
