"""What receives captured weights: tiles of any axis and every reduction, against NumPy on the whole."""

import numpy as np
import pytest
import torch

from bioattn.attention.site import AttentionSite, Axis, Tile
from bioattn.choices import Reduction
from bioattn.inference.attention_receiver import BatchReceiver
from bioattn.store.schema import AttentionOptions

SIZES = {"sample": 2, "head": 3, "layer": 4, "query": 5, "key": 6}
SITE = AttentionSite(name="s", axes=tuple(Axis(dim) for dim in SIZES), heads=(0, 2, 5))
WHOLE = torch.rand(*SIZES.values(), generator=torch.Generator().manual_seed(0))
NORMS = torch.rand(*SIZES.values(), generator=torch.Generator().manual_seed(1))


def heard(options, tiled, step=2):
    """What a receiver makes of the weights, whole or in tiles of an axis that stand in memory used again."""
    receiver = BatchReceiver(options)
    axis = SITE.dims.index(tiled or "sample")
    total = WHOLE.shape[axis]
    for start in range(0, total, step if tiled else total):
        place = (slice(None),) * axis + (slice(start, start + step if tiled else None),)
        tiles = [WHOLE[place].clone(), NORMS[place].clone()]
        tile = Tile(tiled, start, total) if tiled else None
        receiver.receive(SITE, tiles[0], tiles[1] if options.value_weighted else None, tile)
        for memory in tiles:
            memory.fill_(float("nan"))
    return receiver.take()["sites/s"]


@pytest.mark.parametrize("tiled", [None, *SIZES])
@pytest.mark.parametrize("reduce", list(Reduction))
def test_tiles_of_any_axis_are_the_whole(reduce, tiled):
    found = heard(AttentionOptions(heads=(5, 0), reduce=reduce, top_k=4, value_weighted=True), tiled)
    arrays = {"weights": WHOLE.numpy(), "value_weighted": NORMS.numpy()}
    # Stored order: sample, layer, head, query, key; heads 5 and 0 stand third and first.
    arrays = {name: values.transpose(0, 2, 1, 3, 4)[:, :, [2, 0]] for name, values in arrays.items()}
    order = np.argsort(-arrays["weights"], axis=-1)[..., :4]
    for name, values in arrays.items():
        match reduce:
            case Reduction.NONE:
                expected = values
            case Reduction.TOP_K:
                expected = np.take_along_axis(values, order, -1)
            case Reduction.MEAN_HEADS | Reduction.MEAN_ROWS:
                expected = values.mean(2 if reduce.over_heads else 1)
            case _:
                expected = values.max(2 if reduce.over_heads else 1)
        np.testing.assert_allclose(found[name], expected, rtol=1e-6)
    if reduce is Reduction.TOP_K:
        np.testing.assert_array_equal(found["key_index"], order)
