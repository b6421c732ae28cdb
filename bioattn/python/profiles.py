"""Promoter maps base by base, for `bioattn.store.reader.Attention.at_bases`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bioattn.interpret.promoter_maps import attention_maps, chosen_quantity
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
    weights: bool,
) -> LabelledArray:
    """As `Attention.at_bases`, of samples and treatments by number."""
    quantity = chosen_quantity(weights=weights, value_weighted=value_weighted)
    over_bins = attention_maps(attention, sites, heads, quantity)
    rows = np.arange(len(attention.samples))[samples]
    columns = np.arange(len(attention.treatments))[treatments]
    names = np.array(attention.treatments, dtype=object)
    ascending, back = np.unique(np.atleast_1d(rows), return_inverse=True)
    maps = [over_bins.read(ascending, name)[back] for name in np.atleast_1d(names[columns])]
    profiles = over_bins.bases(np.stack(maps, axis=-2))
    coordinates: dict[str, Sequence[Any] | NDArray[Any]] = {
        SAMPLE: attention.samples.index[np.atleast_1d(rows)].tolist(),
        "treatment": np.atleast_1d(names[columns]).tolist(),
        "position": attention.positions,
    }
    single = {SAMPLE: rows.ndim == 0, "treatment": columns.ndim == 0}
    return LabelledArray(
        name=str(over_bins.quantity),
        values=profiles.squeeze(tuple(axis for axis, dim in enumerate(coordinates) if single.get(dim))),
        coordinates={dim: places for dim, places in coordinates.items() if not single.get(dim)},
        long_name="contribution of each base" if over_bins.signed else "attention weight of each base",
    )
