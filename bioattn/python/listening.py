"""`bioattn.capture`: attention of any forward pass, in memory."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from bioattn.attention.capture import capture as listen
from bioattn.attention.capture import sites_of
from bioattn.attention.site import AttentionSite
from bioattn.choices import matching_sites
from bioattn.errors import BioattnError
from bioattn.inference.attention_receiver import BatchReceiver
from bioattn.models.attention_settings import attention_options
from bioattn.store.contents import Held
from bioattn.store.reader import Attention
from bioattn.store.schema import SAMPLE, SITES, Block, FileLayout, GroupLayout, Samples

CALLS = "samples"


@contextmanager
def capture(
    model: Any,
    sites: str | Sequence[str] = "*",
    *,
    heads: int | Sequence[int] | None = None,
    dtype: str = "float32",
    reduce: str = "none",
    top_k: int | None = None,
    value_weighted: bool = False,
) -> Iterator[Attention]:
    """Keep the attention of the forward passes in the body: `with bioattn.capture(model, "*.cross.*") as maps:`.

    model: one of `load_model`, or any `torch.nn.Module` built on `bioattn.attention`. sites: shell patterns of the
    names of its sites. heads, dtype, reduce, top_k, value_weighted: as the method `attention` of models has them.
    When the body ends, `maps` holds the weights of every site that was heard, with a sample for each row of each
    forward pass (for each pass where the site has no axis `sample`), called `1`, `2`, …

    Raises: BioattnError when no site of the model has such a name, or one lacks a head; at the end of the body for
    passes that cannot be joined, as they differ in sites or in the lengths of axes.
    """
    options = attention_options(
        sites=sites, heads=heads, dtype=dtype, reduce=reduce, top_k=top_k, value_weighted=value_weighted
    )
    known = sites_of(getattr(model, "model", model))
    names = matching_sites(options.sites, known, "the model")
    receiver = _Receiver(BatchReceiver(options))
    maps = Attention(Held(FileLayout(inputs=CALLS, model_sha256="")))  # filled when the body ends
    with listen(names, receiver, value_weighted=value_weighted):
        yield maps
    layouts, block = receiver.results()
    layout = FileLayout(inputs=CALLS, model_sha256=getattr(model, "sha256", ""), groups=layouts)
    held = Held(layout)
    held.append(block)
    maps.__init__(held)  # type: ignore[misc]


class _Receiver:
    def __init__(self, receiver: BatchReceiver) -> None:
        self._receiver = receiver
        self._heard: dict[str, AttentionSite] = {}
        self._passes: list[dict[str, dict[str, Any]]] = []

    def receive(self, site: AttentionSite, weights: Any, value_weighted: Any, tile: Any = None) -> None:
        begins = tile is None or (tile.start == 0 and tile.head in (None, *site.heads[:1]))
        if begins and site.name in self._heard:
            self._end_pass()
        if begins:
            self._heard[site.name] = site
        self._receiver.receive(site, weights, value_weighted, tile)

    def results(self) -> tuple[tuple[GroupLayout, ...], Block]:
        self._end_pass()
        if not self._passes:
            return (), Block(Samples({"id": []}), {})
        shapes = [
            {
                (path, name): array.shape[1:]
                for path, of_site in each.items()
                for name, array in of_site.items()
            }
            for each in self._passes
        ]
        if any(each != shapes[0] for each in shapes):
            raise BioattnError(
                "the forward passes differ in sites or in the lengths of axes, so that their attention cannot be "
                "joined; capture them one by one, or fewer sites"
            )
        arrays = {
            path: {name: np.concatenate([each[path][name] for each in self._passes]) for name in of_site}
            for path, of_site in self._passes[0].items()
        }
        number = max(len(array) for of_site in arrays.values() for array in of_site.values())
        ids = [str(place) for place in range(1, number + 1)]
        # All samples are alike, and a sample table with lengths there is none.
        layouts = tuple(
            replace(layout, axes=tuple(replace(axis, lengths=None) for axis in layout.axes))
            for layout in self._receiver.layouts.values()
        )
        return layouts, Block(Samples({"id": ids}), arrays)

    def _end_pass(self) -> None:
        arrays = self._receiver.take()
        for path, of_site in arrays.items():
            if SAMPLE not in self._heard[path.removeprefix(f"{SITES}/")].dims:
                arrays[path] = {name: array[None] for name, array in of_site.items()}
        if arrays:
            self._passes.append(arrays)
        self._heard.clear()
