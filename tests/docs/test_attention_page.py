"""The lines that docs/formats/attention.md tells people to type."""

import re
from pathlib import Path

import numpy as np
import pytest

from bioattn.attention.site import AttentionSite, alignment_site
from bioattn.store.alignment_attention_writer import alignment_attention_file
from bioattn.store.alignment_schema import AlignmentAttentionOptions, AlignmentSample, alignment_layout
from bioattn.store.attention_writer import AttentionHeader, attention_writer
from bioattn.store.schema import AttentionOptions, Samples, site_layout
from tests.docs.conftest import run_python

PAGE = Path(__file__).resolve().parents[2] / "docs" / "formats" / "attention.md"
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
NAMES = ["other", "GENE", "third"]


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """An attention.h5 in the current folder; returns its weights."""
    monkeypatch.chdir(tmp_path)
    site = AttentionSite(
        name="promoter.cross.0",
        axes=("sample", "head", "treatment", "key"),
        num_heads=2,
        key_edges=tuple(range(0, 101, 10)),
        receptive_field=24,
    )
    layout = site_layout(site, (3, 2, 2, 10), AttentionOptions())
    weights = np.random.default_rng(0).random((3, 2, 2, 10)).astype(np.float32)
    weights /= weights.sum(-1, keepdims=True)
    header = AttentionHeader(
        model_sha256="0" * 64, input_sha256="0" * 64, window_length=100, task="regression"
    )
    places = np.array([0, 1000, 2000])
    with attention_writer(Path("attention.h5"), header, [layout], ["control", "TREATMENT"], 3) as writer:
        writer.append(
            Samples(NAMES, ["chrI"] * 3, places, places + 100, ["-"] * 3),
            {site.name: {"weights": weights}},
            np.zeros((3, 2), dtype=np.float32),
        )
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
def maps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
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
    maps = []
    with alignment_attention_file(Path("attention.h5"), "0" * 64, samples) as file:
        for number, sample in enumerate(samples):
            for site in sites:
                layout = alignment_layout(site, sample.sizes, AlignmentAttentionOptions())
                weights = random.random(layout.sizes).astype(np.float32)
                weights /= weights.sum(-1, keepdims=True)
                file.site(layout, number).write({"weights": weights})
                if site.keys == "residue":
                    maps.append(weights)
    return maps


def test_h5py_over_alignments(maps: list[np.ndarray]) -> None:
    names = run_python(SNIPPETS[3])
    np.testing.assert_array_equal(names["weights"], maps[0][2])
    assert names["query"] == "MQIFVK"


def test_xarray_over_alignments(maps: list[np.ndarray]) -> None:
    names = run_python(SNIPPETS[4])
    np.testing.assert_array_equal(names["head"], maps[0][2])
    np.testing.assert_array_equal(names["best"], maps[0][2].argmax(-1))


def test_bioattn_over_alignments(maps: list[np.ndarray]) -> None:
    names = run_python(SNIPPETS[5])
    assert (names["name"], names["head"]) == ("evoformer.00.triangle_starting", 1)
    np.testing.assert_array_equal(names["weights"], maps[1][1])
    assert list(names["samples"]["query"]) == ["MQIFVK", "ACDEFGHI"]
