"""The lines that docs/formats/attention.md tells people to type."""

import re
from pathlib import Path

import numpy as np
import pytest

from bioattn.attention.site import AttentionSite
from bioattn.models.evoformer.inference.samples import AlignmentSample
from bioattn.models.evoformer.sites import alignment_site
from bioattn.store.windows import promoter_samples
from tests.docs.conftest import run_python
from tests.result_files import cross_site, promoter_layout, write_alignments, write_promoters

PAGE = Path(__file__).resolve().parents[2] / "docs" / "formats" / "attention.md"
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
NAMES = ["other", "GENE", "third"]
ROW, TRIANGLE = "evoformer.00.msa_row", "evoformer.00.triangle_starting"
Maps = dict[tuple[str, int], np.ndarray]
"""By site and number of the alignment."""


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """An attention.h5 in the current folder; returns its weights."""
    monkeypatch.chdir(tmp_path)
    site = cross_site(range(0, 101, 10), field=24)
    weights = np.random.default_rng(0).random((3, 2, 2, 10)).astype(np.float32)
    weights /= weights.sum(-1, keepdims=True)
    places = np.array([0, 1000, 2000])
    samples = promoter_samples(NAMES, ["chrI"] * 3, places, places + 100, ["-"] * 3)
    layout = promoter_layout([site], ["control", "TREATMENT"], 100)
    write_promoters(Path("attention.h5"), layout, samples, {site.name: weights})
    return weights


def test_there_are_the_promised_snippets_for_both_kinds_of_file() -> None:
    assert len(SNIPPETS) == 6
    for number, words in enumerate(["import h5py", "import xarray", "open_attention"]):
        assert words in SNIPPETS[number]
        assert words in SNIPPETS[number + 3]


def test_h5py(weights: np.ndarray) -> None:
    names = run_python(SNIPPETS[0])
    np.testing.assert_array_equal(names["weights"], weights[1, 1])
    np.testing.assert_array_equal(names["edges"], range(0, 101, 10))


def test_xarray(weights: np.ndarray) -> None:
    names = run_python(SNIPPETS[1])
    np.testing.assert_allclose(names["profile"], weights[1, 1].mean(0), rtol=1e-6)
    assert float(names["best"]) == 10 * weights[1, 1].mean(0).argmax() + 5


def test_bioattn(weights: np.ndarray) -> None:
    names = run_python(SNIPPETS[2])
    np.testing.assert_allclose(names["bins"]["weight"], weights[1, 1].mean(0), rtol=1e-6)
    assert list(names["bins"].iloc[0][["chrom", "start", "end", "strand"]]) == ["chrI", 1090, 1100, "-"]
    assert list(names["samples"].index) == NAMES
    assert names["predictions"].shape == (3, 2)


@pytest.fixture
def maps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Maps:
    """An attention.h5 over alignments in the current folder; returns the row maps of each."""
    monkeypatch.chdir(tmp_path)
    sites = [
        alignment_site("evoformer", 0, "msa_row", 4),
        alignment_site("evoformer", 0, "msa_column", 4),
        alignment_site("evoformer", 0, "triangle_starting", 2),
    ]
    samples = [
        AlignmentSample(id="1UBQ", query="MQIFVK", rows=3, extra_rows=1, input_sha256="0" * 64),
        AlignmentSample(id="other", query="ACDEFGHI", rows=2, extra_rows=1, input_sha256="1" * 64),
    ]
    random = np.random.default_rng(0)
    maps: Maps = {}

    def make(site: AttentionSite, shape: tuple[int, ...], number: int) -> dict[str, np.ndarray]:
        weights = random.random(shape).astype(np.float32)
        weights /= weights.sum(-1, keepdims=True)
        maps[site.name, number] = weights
        return {"weights": weights}

    write_alignments(Path("attention.h5"), sites, samples, make)
    return maps


def test_h5py_over_alignments(maps: Maps) -> None:
    names = run_python(SNIPPETS[3])
    np.testing.assert_array_equal(names["weights"], maps[ROW, 0][2])
    assert names["query"] == "MQIFVK"


def test_xarray_over_alignments(maps: Maps) -> None:
    names = run_python(SNIPPETS[4])
    np.testing.assert_array_equal(names["head"], maps[ROW, 0][2])
    np.testing.assert_array_equal(names["best"], maps[ROW, 0][2].argmax(-1))


def test_bioattn_over_alignments(maps: Maps) -> None:
    names = run_python(SNIPPETS[5])
    assert (names["name"], names["head"]) == ("evoformer.00.triangle_starting", 1)
    np.testing.assert_array_equal(names["weights"], maps[TRIANGLE, 0][1])
    assert list(names["samples"]["query"]) == ["MQIFVK", "ACDEFGHI"]
