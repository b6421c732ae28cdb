"""The sink between the attention operator and the store: canonical axes, chosen heads, reduced, as NumPy."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.attention.site import AXES, AttentionSite, Tile
from bioattn.choices import matching_sites
from bioattn.errors import SettingsError
from bioattn.store.choices import Reduction, WeightType
from bioattn.store.schema import VALUE_WEIGHTED, WEIGHTS, AttentionOptions, SiteLayout, site_layout

TORCH_TYPES = {WeightType.FLOAT32: torch.float32, WeightType.FLOAT16: torch.float16}


class AttentionCollector:
    """An `AttentionSink` that holds what `options` ask for of one batch, until `take`."""

    def __init__(self, options: AttentionOptions) -> None:
        self._options = options
        self._arrays: dict[str, dict[str, NDArray[np.floating]]] = {}
        self.layouts: dict[str, SiteLayout] = {}
        """Every site that was heard, as it is stored."""

    def receive(
        self, site: AttentionSite, weights: Tensor, value_weighted: Tensor | None, tile: Tile | None = None
    ) -> None:
        """Keep the weights of one site. Raises: SettingsError when the site lacks a head that is asked for."""
        if tile is not None:
            raise RuntimeError(f"site {site.name} comes in tiles, which belong to alignments")
        layout = self.layouts.get(site.name)
        if layout is None:
            layout = self.layouts[site.name] = site_layout(site, weights.shape, self._options)
        if site.name in self._arrays:
            raise RuntimeError(f"site {site.name} was heard twice in one batch")
        self._arrays[site.name] = {WEIGHTS: self._arranged(site, layout, weights)}
        if value_weighted is not None:
            self._arrays[site.name][VALUE_WEIGHTED] = self._arranged(site, layout, value_weighted)

    def take(self) -> dict[str, dict[str, NDArray[np.floating]]]:
        """Site → quantity → array of the batch, and forget them."""
        arrays, self._arrays = self._arrays, {}
        return arrays

    def _arranged(self, site: AttentionSite, layout: SiteLayout, weights: Tensor) -> NDArray[np.floating]:
        axes = list(site.axes)
        if "head" in axes:
            head = axes.index("head")
            if layout.heads != site.head_numbers:
                places = [site.head_numbers.index(number) for number in layout.heads]
                weights = weights.index_select(head, torch.tensor(places, device=weights.device))
            if layout.reduce is Reduction.MEAN_HEADS:
                weights = weights.mean(head)
            elif layout.reduce is Reduction.MAX_HEADS:
                weights = weights.amax(head)
            if layout.reduce is not Reduction.NONE:
                axes.remove("head")
        weights = weights.permute([axes.index(axis) for axis in AXES if axis in axes])
        if tuple(weights.shape[1:]) != layout.sizes:
            raise RuntimeError(
                f"site {site.name} changed its shape from {layout.sizes} to {weights.shape[1:]}"
            )
        array: NDArray[np.floating] = weights.to(TORCH_TYPES[layout.dtype]).contiguous().cpu().numpy()
        return array


def choose_sites(sites: Mapping[str, AttentionSite], patterns: Sequence[str]) -> list[str]:
    """Names of the sites that match any of the shell patterns, in the model's order.

    Raises: SettingsError when the model has no sites; BioattnError for a pattern that matches none.
    """
    if not sites:
        raise SettingsError("the model has no attention sites (--conditioning concat and film have none)")
    return matching_sites(patterns, sites, "the model")
