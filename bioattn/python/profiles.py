"""Attention of promoters base by base, for `bioattn.store.reader.Attention.at_bases`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bioattn.interpret.choices import Upsampling
from bioattn.interpret.position_maps import position_maps, upsample
from bioattn.store.contents import LabelledArray
from bioattn.store.reader import Attention
from bioattn.store.schema import SAMPLE

Numbers = int | list[int] | slice
"""One number, whose axis is dropped; several; or all."""


def attention_at_bases(
    attention: Attention,
    samples: Numbers,
    treatments: Numbers,
    sites: Sequence[str] | None,
    heads: Sequence[int] | None,
    *,
    value_weighted: bool,
    contributions: bool,
) -> LabelledArray:
    """As `Attention.at_bases`, of samples and treatments by number."""
    over_bins = position_maps(
        attention, sites, heads, value_weighted=value_weighted, contributions=contributions
    )
    rows = np.arange(len(attention.samples))[samples]
    columns = np.arange(len(attention.treatments))[treatments]
    names = np.array(attention.treatments, dtype=object)
    ascending, back = np.unique(np.atleast_1d(rows), return_inverse=True)
    maps = [over_bins.read(ascending, name)[back] for name in np.atleast_1d(names[columns])]
    profiles = upsample(
        np.stack(maps, axis=-2), over_bins.key_edges, attention.window_length, Upsampling.GAUSSIAN
    )
    coordinates: dict[str, Sequence[Any] | NDArray[Any]] = {
        SAMPLE: attention.samples.index[np.atleast_1d(rows)].tolist(),
        "treatment": np.atleast_1d(names[columns]).tolist(),
        "position": attention.positions,
    }
    single = {SAMPLE: rows.ndim == 0, "treatment": columns.ndim == 0}
    return LabelledArray(
        name="attention",
        values=profiles.squeeze(tuple(axis for axis, dim in enumerate(coordinates) if single.get(dim))),
        coordinates={dim: places for dim, places in coordinates.items() if not single.get(dim)},
        long_name="contribution of each base" if contributions else "attention weight of each base",
    )
