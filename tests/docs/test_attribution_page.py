"""The lines that docs/formats/attribution.md tells people to type."""

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from bioattn.store.windows import promoter_samples
from tests.docs.conftest import run_python
from tests.result_files import write_attribution

PAGE = Path(__file__).resolve().parents[2] / "docs" / "formats" / "attribution.md"
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
NAMES = ["other", "GENE", "third"]


class Written(NamedTuple):
    """What an explain.h5 in the current folder holds."""

    values: np.ndarray
    sequence: np.ndarray
    predictions: np.ndarray


@pytest.fixture
def block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Written:
    """What an explain.h5 in the current folder holds."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    values = random.random((3, 2, 20, 4)).astype(np.float32)
    values -= values.mean(-1, keepdims=True)
    places = np.array([0, 1000, 2000])
    block = Written(
        values, random.integers(0, 4, (3, 20), dtype=np.uint8), random.random((3, 2)).astype(np.float32)
    )
    samples = promoter_samples(NAMES, ["chrI"] * 3, places, places + 20, ["-"] * 3)
    treatments = ["control", "TREATMENT"]
    write_attribution(Path("explain.h5"), samples, block.sequence, values, block.predictions, treatments)
    return block


def test_there_are_the_promised_snippets() -> None:
    assert len(SNIPPETS) == 3


def test_h5py(block: Written) -> None:
    names = run_python(SNIPPETS[0])
    np.testing.assert_array_equal(names["values"], block.values[1, 1])
    np.testing.assert_array_equal(names["codes"], block.sequence[1])


def test_xarray(block: Written) -> None:
    names = run_python(SNIPPETS[1])
    assert int(names["strongest"]) == np.abs(block.values[1, 1]).max(-1).argmax()
    np.testing.assert_array_equal(names["gene"]["sequence"], block.sequence[1])
    names["attribution"].close()


def test_bioattn(block: Written) -> None:
    names = run_python(SNIPPETS[2])
    np.testing.assert_array_equal(names["values"], block.values[[1, 0], 1])
    wanted = np.take_along_axis(block.values[1], block.sequence[1][None, :, None].repeat(2, 0), axis=-1)
    np.testing.assert_array_equal(names["contributions"], wanted[..., 0])
    assert names["predictions"].loc["GENE", "control"] == block.predictions[1, 0]
