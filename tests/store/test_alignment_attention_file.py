"""Attention files over alignments: read as written, every break named, damage found."""

import h5py
import numpy as np
import pytest

from bioattn.choices import Reduction
from bioattn.errors import BioattnError
from bioattn.models.evoformer.sites import alignment_site
from bioattn.store.file_kinds import validate_results
from bioattn.store.inspection import validate_file
from bioattn.store.reader import open_attention
from bioattn.store.schema import SLAB_BYTES, AttentionOptions, slabs
from tests.result_files import aligned, write_alignments
from tests.store.conftest import attribute, delete, values

COLUMNS = (0, 2, 3, 4, 5, 6, 7, 9)
NAMED = {"row_names": ("target", "größer"), "extra_row_names": ("",)}
SAMPLES = [
    aligned("1ubq", "MQIFVK", 5, extra_rows=3),
    aligned("später", "ACDEFGHI", 2, COLUMNS, 11, extra_rows=1, input_sha256="cd" * 32, **NAMED),
]
ROW, COLUMN = "evoformer.00.msa_row", "extra_msa.01.msa_column_global"
SITES = [alignment_site("evoformer", 0, "msa_row", 2), alignment_site("extra_msa", 1, "msa_column_global", 3)]
MAP = f"sites/{ROW}/s0000000/weights"
INDEX = f"sites/{ROW}/s0000000/key_index"
TOP_K, MEAN, MAX, NONE = (Reduction.TOP_K, Reduction.MEAN_ROWS, Reduction.MAX_ROWS, Reduction.NONE)


def write(path, reduce=NONE, samples=SAMPLES):
    """A file of random weights; returns its arrays by path."""
    random = np.random.default_rng(0)
    arrays = {}

    def make(site, shape, number):
        weights = random.random(shape) + 0.1
        weights = -np.sort(-weights, axis=-1) if reduce is TOP_K else weights
        weights = (weights / weights.sum(-1, keepdims=True)).astype(np.float32)
        written: dict[str, np.ndarray] = {"weights": weights}
        if reduce is TOP_K:
            written["key_index"] = np.argsort(random.random(shape), axis=-1).astype(np.int32)
        for quantity, stored in written.items():
            arrays[f"sites/{site.name}/s{number:07d}/{quantity}"] = stored
        return written

    write_alignments(path, SITES, samples, make, AttentionOptions(reduce=reduce, top_k=3))
    return arrays


@pytest.fixture
def path(tmp_path):
    return tmp_path / "attention.h5"


@pytest.mark.parametrize("reduce", list(Reduction))
def test_files_are_valid_and_read_as_written(path, reduce):
    arrays = write(path, reduce)
    assert validate_file(path) == []
    with open_attention(path) as attention:
        assert attention.inputs == "alignments"
        assert attention.treatments == []
        assert attention.samples.loc["später"].to_dict() == {
            "length": 8,
            "alignment_columns": 11,
            "rows": 2,
            "extra_rows": 1,
            "query": "ACDEFGHI",
            "input_sha256": "cd" * 32,
        }
        assert attention.columns("1ubq").tolist() == list(range(6))
        assert attention.columns("später").tolist() == [0, 2, 3, 4, 5, 6, 7, 9]
        assert attention.row_names("später") == ["target", "größer"]
        assert attention.row_names("später", extra=True) == [""]
        assert attention.row_names("1ubq") is None
        assert {name: info.kind("key") for name, info in attention.sites.items()} == {
            ROW: "residue",
            COLUMN: "extra_msa_row",
        }
        for name, dims in ((ROW, attention.sites[ROW].dims), (COLUMN, attention.sites[COLUMN].dims)):
            for number, sample in enumerate(SAMPLES):
                expected = arrays[f"sites/{name}/s{number:07d}/weights"]
                np.testing.assert_array_equal(attention.weights(name, sample=sample.ids[0]), expected)
                if "head" in dims:
                    np.testing.assert_array_equal(
                        attention.weights(name, sample=sample.ids[0], head=1),
                        expected.take(1, dims.index("head")),
                    )
                if reduce is TOP_K:
                    np.testing.assert_array_equal(
                        attention.key_index(name, sample=sample.ids[0], head=1),
                        arrays[f"sites/{name}/s{number:07d}/key_index"].take(1, dims.index("head")),
                    )


def test_questions_that_the_file_cannot_answer(path):
    write(path)
    with open_attention(path) as attention:
        for question, words in (
            (lambda: attention.weights(ROW), "say which sample is wanted"),
            (lambda: attention.weights(ROW, gene=["1ubq"]), "holds alignments"),
            (lambda: attention.to_pandas(ROW, samples=["1ubq", "1ubq"]), "name one: samples='NAME'"),
            (lambda: attention.weights(ROW, sample="1ubq", treatment="x"), "does not tell treatments apart"),
            (lambda: attention.key_index(ROW, sample="1ubq"), "not reduced with top-k"),
            (lambda: attention.predictions(), "holds no predictions"),
            (lambda: attention.columns("2abc"), "sample '2abc' is not in the file"),
        ):
            with pytest.raises(BioattnError, match=words):
                question()
        assert attention.to_pandas(ROW, samples=["1ubq"]).equals(attention.to_pandas(ROW, samples="1ubq"))


def test_slabs_cover_every_value_once_in_order():
    for shape in ((3, 4), (7, 2, 3000, 2000), (2, 1, 5), (1, 5000, 3000)):
        covered = np.zeros(shape[:-1], dtype=np.int64)
        last = -1
        for index in slabs(shape, 4):
            part = covered[index]
            covered[index] += 1
            assert part.size * shape[-1] * 4 <= max(SLAB_BYTES, shape[-1] * 4)
            first = int(
                np.ravel_multi_index(
                    [i if isinstance(i, int) else i.start for i in index], shape[: len(index)]
                )
            )
            first *= int(np.prod(shape[len(index) :]))
            assert first > last
            last = first
        assert (covered == 1).all()


def foreign_sample(file):
    file.create_group(f"sites/{ROW}/s0000002")


@pytest.mark.parametrize(
    ("reduce", "change", "words"),
    [
        (NONE, values(MAP, (4, 0, 0, 0), np.nan), "'1ubq': holds NaN"),
        (NONE, values(MAP, (4, 1, 0, 3), -0.1), "'1ubq': holds negative values"),
        (NONE, values(MAP, (2, 1, 0, 3), 0.9), "'1ubq': a row of weights sums to"),
        (MEAN, values(MAP, (1, 0, 3), 0.0), "'1ubq': a row of weights sums to"),
        (MAX, values(MAP, (1, 0), 0.0), "'1ubq': a row of weights sums to 0"),
        (TOP_K, values(MAP, (2, 1, 0), [0.6, 0.5, 0.4]), "a row of weights sums to 1.5"),
        (TOP_K, delete(INDEX), "key_index: the dataset is missing"),
        (NONE, delete(MAP), "weights: the dataset is missing"),
        (NONE, delete(f"sites/{ROW}/s0000001"), f"/sites/{ROW}/s0000001: is missing"),
        (NONE, foreign_sample, f"/sites/{ROW}/s0000002: belongs to no sample"),
        (NONE, attribute(f"sites/{ROW}/s0000000", "sample", "x"), "says that it is of 'x'"),
        (NONE, values("samples/rows", 0, 4), "has shape (5, 2, 6, 6), (4, 2, 6, 6) is needed"),
        (NONE, values("samples/rows", 1, 3), "row_names/s0000001: has 2 entries for 3 rows"),
        (NONE, delete("samples/columns/s0000000"), "columns/s0000000: has 0 entries for 6 length"),
        (NONE, values("samples/id", 1, "1ubq"), "'1ubq' occurs more than once"),
    ],
)
def test_each_break_is_named(path, reduce, change, words):
    write(path, reduce)
    with h5py.File(path, "a") as file:
        change(file)
    findings = validate_results(path)
    assert any(words in str(finding) for finding in findings), [str(finding) for finding in findings]
