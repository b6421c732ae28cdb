"""An attention file of random weights whose content is known to the tests."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from bioattn.choices import WeightType
from bioattn.store.schema import AttentionOptions, FileLayout, Samples
from bioattn.store.windows import promoter_samples
from tests.result_files import cross_site, dirichlet, promoter_layout, stage_site, write_promoters

TREATMENTS = ["heat 37 °C", "cold", "H2O2"]
SITES = [cross_site((0, 4, *range(12, 101, 8))), stage_site(range(0, 101, 10), null_key=True)]


def values(name, index, value):
    """Set values of a dataset."""

    def change(file):
        file[name][index] = value

    return change


def delete(name):
    return lambda file: file.__delitem__(name)


def attribute(holder, name, value):
    return lambda file: file[holder].attrs.__setitem__(name, value)


class Example(NamedTuple):
    """What was written."""

    path: Path
    samples: Samples
    layout: FileLayout
    arrays: dict[str, dict[str, np.ndarray]]
    predictions: np.ndarray


def make_samples(number):
    start = 1000 * np.arange(number, dtype=np.int64) - 40
    return promoter_samples(
        [f"géne/{i:04d}" for i in range(number)],
        ["chrI" if i % 2 else "chrII" for i in range(number)],
        start,
        start + 100 - np.arange(number) % 3,
        ["+-"[i % 2] for i in range(number)],
    )


def make_layout(options, **more):
    return promoter_layout(SITES, TREATMENTS, 100, options, **more)


def make_arrays(layout, number, seed=0):
    random = np.random.default_rng(seed)
    arrays: dict[str, dict[str, np.ndarray]] = {}
    for site in SITES:
        group = next(group for group in layout.groups if group.path == f"sites/{site.name}")
        weights = dirichlet(random, (number, *group.shape(group.arrays[0])))
        weights *= 0.8 if site.null_key else 1
        arrays[site.name] = {
            array.name: (weights if array.name == "weights" else 3 * weights).astype(array.dtype)
            for array in group.arrays
        }
    return arrays


@pytest.fixture
def write_example(tmp_path):
    def write(
        number=20,
        *,
        dtype=WeightType.FLOAT32,
        value_weighted=True,
        name="attention.h5",
        blocks=3,
        **writer_options,
    ):
        layout = make_layout(AttentionOptions(dtype=dtype, value_weighted=value_weighted))
        arrays = make_arrays(layout, number)
        samples = make_samples(number)
        predictions = np.random.default_rng(1).normal(size=(number, len(TREATMENTS))).astype(np.float32)
        path = tmp_path / name
        write_promoters(path, layout, samples, arrays, predictions, blocks=blocks, **writer_options)
        return Example(path, samples, layout, arrays, predictions)

    return write
