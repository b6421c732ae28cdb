"""An attention file of random weights whose content is known to the tests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from bioattn.attention.site import AttentionSite
from bioattn.store.attention_writer import AttentionHeader, attention_writer
from bioattn.store.choices import WeightType
from bioattn.store.schema import AttentionOptions, Samples, SiteLayout, site_layout

TREATMENTS = ["heat 37 °C", "cold", "H2O2"]
HEADER = AttentionHeader(model_sha256="ab" * 32, input_sha256="cd" * 32, window_length=100, task="regression")


class Example(NamedTuple):
    """What was written."""

    path: Path
    samples: Samples
    layouts: list[SiteLayout]
    arrays: dict[str, dict[str, np.ndarray]]
    predictions: np.ndarray


def softmax(logits: np.ndarray) -> np.ndarray:
    exponents = np.exp(logits - logits.max(-1, keepdims=True))
    return exponents / exponents.sum(-1, keepdims=True)


def make_samples(number: int) -> Samples:
    start = 1000 * np.arange(number, dtype=np.int64) - 40
    return Samples(
        [f"géne/{i:04d}" for i in range(number)],
        ["chrI" if i % 2 else "chrII" for i in range(number)],
        start,
        start + 100 - np.arange(number) % 3,
        ["+-"[i % 2] for i in range(number)],
    )


def make_layouts(options: AttentionOptions) -> list[SiteLayout]:
    cross = AttentionSite(
        name="promoter.cross.0",
        axes=("sample", "head", "treatment", "key"),
        num_heads=2,
        key_edges=(0, 4, *range(12, 101, 8)),
        receptive_field=22,
    )
    stage = AttentionSite(
        name="promoter.stage.0",
        axes=("sample", "treatment", "head", "query", "key"),
        num_heads=2,
        query_edges=tuple(range(0, 101, 10)),
        sink=True,
    )
    return [
        site_layout(cross, (1, 2, 3, 13), options),
        site_layout(stage, (1, 3, 2, 10, 4), options),
    ]


def make_arrays(layouts: list[SiteLayout], number: int, seed: int) -> dict[str, dict[str, np.ndarray]]:
    random = np.random.default_rng(seed)
    arrays: dict[str, dict[str, np.ndarray]] = {}
    for layout in layouts:
        weights = softmax(random.normal(size=(number, *layout.sizes))) * (0.8 if layout.sink else 1)
        arrays[layout.name] = {"weights": weights.astype(str(layout.dtype))}
        if layout.value_weighted:
            arrays[layout.name]["value_weighted"] = (3 * weights).astype(str(layout.dtype))
    return arrays


@pytest.fixture
def write_example(tmp_path: Path) -> Callable[..., Example]:
    def write(
        number: int = 20,
        *,
        dtype: WeightType = WeightType.FLOAT32,
        value_weighted: bool = True,
        name: str = "attention.h5",
        blocks: int = 3,
        **writer_options: Any,
    ) -> Example:
        layouts = make_layouts(AttentionOptions(dtype=dtype, value_weighted=value_weighted))
        arrays = make_arrays(layouts, number, seed=0)
        samples = make_samples(number)
        predictions = np.random.default_rng(1).normal(size=(number, len(TREATMENTS))).astype(np.float32)
        path = tmp_path / name
        with attention_writer(path, HEADER, layouts, TREATMENTS, number, **writer_options) as writer:
            for rows in np.array_split(np.arange(number), blocks):
                part = slice(int(rows[0]), int(rows[-1]) + 1)
                writer.append(
                    Samples(*(field[part] for field in samples)),
                    {
                        site: {quantity: values[part] for quantity, values in quantities.items()}
                        for site, quantities in arrays.items()
                    },
                    predictions[part],
                )
        return Example(path, samples, layouts, arrays, predictions)

    return write
