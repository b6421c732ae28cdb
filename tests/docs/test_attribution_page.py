"""The lines that docs/formats/attribution.md tells people to type."""

import re
from pathlib import Path

import numpy as np
import pytest

from bioattn.store.attribution_schema import AttributionLayout
from bioattn.store.attribution_writer import AttributionBlock, attribution_writer
from bioattn.store.choices import Method
from bioattn.store.sample_writer import ResultHeader
from bioattn.store.schema import Samples
from tests.docs.conftest import run_python

PAGE = Path(__file__).resolve().parents[2] / "docs" / "formats" / "attribution.md"
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
NAMES = ["other", "GENE", "third"]


@pytest.fixture
def block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AttributionBlock:
    """What an explain.h5 in the current folder holds."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    values = random.random((3, 2, 20, 4)).astype(np.float32)
    values -= values.mean(-1, keepdims=True)
    places = np.array([0, 1000, 2000])
    block = AttributionBlock(
        Samples(NAMES, ["chrI"] * 3, places, places + 20, ["-"] * 3),
        random.integers(0, 4, (3, 20), dtype=np.uint8),
        values,
        None,
        random.random((3, 2)).astype(np.float32),
    )
    header = ResultHeader(model_sha256="0", input_sha256="0", window_length=20, task="regression")
    layout = AttributionLayout(method=Method.ISM, settings="", num_treatments=2, window_length=20)
    with attribution_writer(Path("explain.h5"), header, layout, ["control", "TREATMENT"], 3) as writer:
        writer.append(block)
    return block


def test_there_are_the_promised_snippets() -> None:
    assert len(SNIPPETS) == 3


def test_h5py(block: AttributionBlock) -> None:
    names = run_python(SNIPPETS[0])
    np.testing.assert_array_equal(names["values"], block.values[1, 1])
    np.testing.assert_array_equal(names["codes"], block.sequence[1])


def test_xarray(block: AttributionBlock) -> None:
    names = run_python(SNIPPETS[1])
    assert int(names["strongest"]) == np.abs(block.values[1, 1]).max(-1).argmax()
    np.testing.assert_array_equal(names["gene"]["sequence"], block.sequence[1])
    names["attribution"].close()


def test_bioattn(block: AttributionBlock) -> None:
    names = run_python(SNIPPETS[2])
    np.testing.assert_array_equal(names["values"], block.values[[1, 0], 1])
    wanted = np.take_along_axis(block.values[1], block.sequence[1][None, :, None].repeat(2, 0), axis=-1)
    np.testing.assert_array_equal(names["contributions"], wanted[..., 0])
    assert names["predictions"].loc["GENE", "control"] == block.predictions[1, 0]
