"""What takes captured weights on their way to the store: chosen heads, reduced, in stored order, as NumPy.

Weights may come whole or in tiles of any axis. `BatchReceiver` keeps those of a batch until they are asked for.
`SampleReceiver` writes those of one sample as they come: of a site it keeps one tile and, with a reduction over
rows, one map, so that no (S, H, R, R) tensor is ever whole in memory.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.attention.site import AttentionSite, Tile
from bioattn.choices import Reduction, matching_sites
from bioattn.errors import BioattnError
from bioattn.inference.passes import require_finite
from bioattn.store import schema
from bioattn.store.contents import SampleArrays

Arrays = dict[str, NDArray[Any]]
"""By name: `weights`, `value_weighted`, `contributions`, `key_index`."""
Masks = Mapping[str, NDArray[np.bool_]]
"""Kind of an axis → True where it is more than padding; what is absent is all True."""
_TORCH_TYPES = {"float32": torch.float32, "float16": torch.float16, "int32": torch.int32}


class BatchReceiver:
    """An `AttentionReceiver` that holds what `options` ask for of one batch, until `take`."""

    def __init__(
        self, options: schema.AttentionOptions, coordinates: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        """coordinates: as `site_layout` takes them."""
        self._options = options
        self._coordinates = coordinates
        self._open: dict[str, _SiteState] = {}
        self._arrays: dict[str, Arrays] = {}
        self.layouts: dict[str, schema.GroupLayout] = {}
        """Every site that was heard, as it is stored."""

    def receive(
        self, site: AttentionSite, weights: Tensor, value_weighted: Tensor | None, tile: Tile | None = None
    ) -> None:
        """Keep the weights of one site. Raises: BioattnError when the site lacks a head that is asked for."""
        if site.name in self._arrays:
            raise RuntimeError(f"site {site.name} was heard twice in one batch")
        if site.name not in self._open:
            if site.name not in self.layouts:
                sizes = dict(zip(site.dims, weights.shape, strict=True)) | (
                    {tile.axis: tile.total} if tile else {}
                )
                layout = schema.site_layout(site, self._options, sizes=sizes, coordinates=self._coordinates)
                self.layouts[site.name] = layout
            self._open[site.name] = _SiteState(site, self.layouts[site.name], None, whole=True)
        state = self._open[site.name]
        for arrays in state.take(weights, value_weighted, tile):
            self._arrays[site.name] = arrays
        if state.complete:
            del self._open[site.name]

    def take(self) -> dict[str, Arrays]:
        """Path of a site in the file → arrays of the batch, and forget them."""
        arrays, self._arrays = self._arrays, {}
        return {self.layouts[name].path: of_site for name, of_site in arrays.items()}


class SampleReceiver:
    """An `AttentionReceiver` that writes the weights of one sample.

    Tiles of one head's queries come in an order in which they can be written: as `MapTiles` of the heads that are
    wanted, with the queries first where heads are reduced over.
    """

    def __init__(
        self,
        arrays: Mapping[str, SampleArrays],
        sites: Sequence[AttentionSite],
        layouts: Sequence[schema.GroupLayout],
        masks: Masks | None = None,
    ) -> None:
        """arrays: of the sample, by path of the group. layouts: of the sites. masks: reductions over rows leave
        out what is padding."""
        masks = masks or {}
        self._open = {}
        for site, layout in zip(sites, layouts, strict=True):
            row = _row_axis(site)
            mask = None if row is None else masks.get(site.axes[row].kind)
            state = _SiteState(site, layout, mask if mask is not None and mask.any() else None, whole=False)
            self._open[site.name] = state, arrays[layout.path]

    def receive(
        self, site: AttentionSite, weights: Tensor, value_weighted: Tensor | None, tile: Tile | None = None
    ) -> None:
        """Write one tile, or note it where rows are reduced over.

        Raises: OSError when the disk is full; NotFiniteError for weights that are NaN or infinite.
        """
        if site.name not in self._open:
            raise RuntimeError(f"site {site.name} was heard twice")
        state, stream = self._open[site.name]
        for arrays in state.take(weights, value_weighted, tile):
            stream.write(arrays)
        if state.complete:
            if not stream.complete:
                raise RuntimeError(f"site {site.name} ended early: other lengths were expected")
            del self._open[site.name]

    def over_rows(self, site: AttentionSite) -> str:
        """As `bioattn.attention.capture.ReducingReceiver` has it."""
        return self._open[site.name][0].over_rows if site.name in self._open else ""

    def receive_reduced(self, site: AttentionSite, weights: Tensor, tile: Tile | None, number: int) -> None:
        """Note the sum or maximum over `number` rows, and write it when it was the last. Raises: as `receive`."""
        state, stream = self._open[site.name]
        for arrays in state.take_reduced(weights, tile, number):
            stream.write(arrays)
            del self._open[site.name]

    def require_complete(self) -> None:
        """Raises: RuntimeError when a site was not heard to its end."""
        if self._open:
            raise RuntimeError(f"the model's sites {', '.join(self._open)} were not heard to their end")


class _SiteState:
    def __init__(
        self, site: AttentionSite, layout: schema.GroupLayout, mask: NDArray[np.bool_] | None, *, whole: bool
    ) -> None:
        """mask: along the whole outer axis, True where it is more than padding; whole: nothing is given on before
        all tiles were heard."""
        self._site = site
        self._layout = layout
        self._mask = mask
        self._whole = whole
        self._reduce = Reduction(str(layout.attributes["reduce"]))
        heads = layout.attributes["heads"]
        assert isinstance(heads, tuple)
        self._places = None if heads == site.heads else [site.heads.index(head) for head in heads]
        self._row = _row_axis(site)
        self._next = 0
        self._tiles: list[dict[str, Tensor]] = []
        self._totals: dict[str, Tensor] = {}
        self._summed = 0
        self.complete = False

    @property
    def over_rows(self) -> str:
        """`sum` or `max`, where no more than that of all slices of the outer axis, the first, is wanted."""
        if self._mask is not None or self._row != 0:
            return ""
        return {Reduction.MEAN_ROWS: "sum", Reduction.MAX_ROWS: "max"}.get(self._reduce, "")

    def take_reduced(self, weights: Tensor, tile: Tile | None, number: int) -> Iterator[Arrays]:
        """Note the sum or maximum of the next `number` rows, axes without theirs; yields what can be written."""
        self._advance(tile or Tile(self._site.dims[0], 0, number), number)
        self._add({schema.WEIGHTS: self._chosen_heads(weights.unsqueeze(0))[0]}, number)
        if self.complete:
            yield self._arranged(self._reduced(), list(self._site.dims[1:]))

    def _advance(self, tile: Tile, number: int) -> None:
        stop = tile.start + number
        if tile.start != self._next or stop > tile.total:
            raise RuntimeError(f"site {self._site.name}: {tile} follows {self._next}, of {number} slices")
        self._next, self.complete = stop, stop == tile.total

    def take(self, weights: Tensor, value_weighted: Tensor | None, tile: Tile | None) -> Iterator[Arrays]:
        dims = self._site.dims
        if tile is not None and tile.head is not None:
            yield from self._take_queries(weights, value_weighted, tile)
            return
        tile = tile or Tile(dims[0], 0, len(weights))
        axis = dims.index(tile.axis)
        self._advance(tile, weights.shape[axis])
        tensors = {schema.WEIGHTS: weights}
        if value_weighted is not None:
            tensors[schema.CONTRIBUTIONS if self._site.contributes else schema.VALUE_WEIGHTED] = (
                value_weighted
            )
        whole = tile.start == 0 and self.complete
        rows_alone = self._reduce.over_rows and axis == self._row and not self._site.axis(schema.SAMPLE)
        if not whole and not rows_alone and (self._whole or axis > 0 or self._reduce.over_rows):
            # Kept until all is there: the memory may be used again for the next tile.
            self._tiles.append({name: tensor.clone() for name, tensor in tensors.items()})
            if not self.complete:
                return
            tensors = {name: torch.cat([each[name] for each in self._tiles], axis) for name in tensors}
            tile, self._tiles = Tile(tile.axis, 0, tile.total), []
        tensors = {name: self._chosen_heads(tensor) for name, tensor in tensors.items()}
        if self._reduce.over_rows:
            assert self._row is not None
            start, number = tile.start if rows_alone else 0, tensors[schema.WEIGHTS].shape[self._row]
            kept = range(number) if self._mask is None else np.flatnonzero(self._mask[start : start + number])
            for place in kept:  # one by one, so that the sum does not depend on the size of tiles
                self._add({name: tensor.select(self._row, int(place)) for name, tensor in tensors.items()})
            if self.complete:
                yield self._arranged(self._reduced(), [dim for dim in dims if dim != dims[self._row or 0]])
        else:
            yield self._arranged(tensors, list(dims))

    def _take_queries(self, weights: Tensor, value_weighted: Tensor | None, tile: Tile) -> Iterator[Arrays]:
        """Some queries of one head (1, 1, R, K), in stored order; of a reduction over heads all heads in turn."""
        tensors = {schema.WEIGHTS: weights[0, 0]}
        if value_weighted is not None:
            tensors[schema.VALUE_WEIGHTED] = value_weighted[0, 0]
        heads = self._layout.attributes["heads"]
        assert isinstance(heads, tuple)
        self._next += len(tensors[schema.WEIGHTS])
        self.complete = self._next == len(heads) * tile.total
        if self._reduce.over_heads:
            self._add(tensors)
            if tile.head != heads[-1]:
                return
            tensors = self._reduced()
        # A tile is written before the operator uses its memory again, for the next but one.
        yield self._arranged(tensors, [schema.QUERY, schema.KEY], lasting=True)

    def _chosen_heads(self, weights: Tensor) -> Tensor:
        if self._places is None:
            return weights
        index = torch.tensor(self._places, device=weights.device)
        return weights.index_select(self._site.dims.index(schema.HEAD), index)

    def _add(self, tensors: Mapping[str, Tensor], number: int = 1) -> None:
        """Add `number` more rows or heads to those that are reduced over."""
        self._summed += number
        for name, tensor in tensors.items():
            if name not in self._totals:
                self._totals[name] = tensor.clone()
            elif self._reduce in (Reduction.MEAN_ROWS, Reduction.MEAN_HEADS):
                self._totals[name] += tensor
            else:
                torch.maximum(self._totals[name], tensor, out=self._totals[name])

    def _reduced(self) -> dict[str, Tensor]:
        totals, self._totals = self._totals, {}
        number, self._summed = self._summed, 0
        if self._reduce in (Reduction.MAX_ROWS, Reduction.MAX_HEADS):
            return totals
        return {name: total.div_(number) for name, total in totals.items()}

    def _arranged(self, tensors: dict[str, Tensor], dims: list[str], *, lasting: bool = False) -> Arrays:
        """Heads reduced over, the largest chosen, axes in stored order. lasting: the memory of `tensors` stays as
        it is until the next ones are written."""
        if self._reduce.over_heads and schema.HEAD in dims:
            head = dims.index(schema.HEAD)
            mean = self._reduce is Reduction.MEAN_HEADS
            tensors = {name: x.mean(head) if mean else x.amax(head) for name, x in tensors.items()}
            dims.remove(schema.HEAD)
        if self._reduce is Reduction.TOP_K:
            limit = self._layout.attributes["top_k"]
            assert isinstance(limit, int)
            # Stable: of keys with the weight 0 those behind the end of a shorter sample come last.
            ordered, places = tensors[schema.WEIGHTS].sort(dim=-1, descending=True, stable=True)
            largest, index = ordered[..., :limit], places[..., :limit]
            tensors = {name: x.gather(-1, index) for name, x in tensors.items()}
            tensors |= {schema.WEIGHTS: largest, schema.KEY_INDEX: index}
            dims[-1] = schema.RANK
        arrays = {}
        given = {x.untyped_storage().data_ptr() for x in tensors.values()}
        for array in self._layout.arrays:
            order = [dim for dim in (schema.SAMPLE, *array.dims) if dim in dims]
            tensor = tensors[array.name].permute([dims.index(dim) for dim in order])
            tensor = tensor.to(_TORCH_TYPES[array.dtype]).contiguous().cpu()
            if not (self._whole or lasting) and tensor.untyped_storage().data_ptr() in given:
                tensor = tensor.clone()  # it is still being written when the operator uses its memory again
            # A sum is quicker than a look at each value; that of large finite ones can overflow, too.
            if not self._whole and not tensor.sum().isfinite():
                require_finite(tensor, f"{array.name} of {self._site.name}")
            arrays[array.name] = tensor.numpy()
        return arrays


def choose_sites(
    sites: Mapping[str, AttentionSite], patterns: Sequence[str], *, without: str = ""
) -> list[str]:
    """Names of the sites that match any of the shell patterns, in the model's order.

    without: which models of the family have no sites, as a clause.

    Raises: BioattnError when the model has no sites, or for a pattern that matches none.
    """
    if not sites:
        raise BioattnError(f"the model has no attention sites{f' ({without})' if without else ''}")
    return matching_sites(patterns, sites, "the model")


def _row_axis(site: AttentionSite) -> int | None:
    outer = (
        place
        for place, dim in enumerate(site.dims)
        if dim not in (schema.SAMPLE, schema.HEAD, *schema.MAP_AXES)
    )
    return next(outer, None)
