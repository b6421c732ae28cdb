"""Conversion between AlphaFold's array layouts and the canonical layout, PyTorch's (weights as [out, in]).

AlphaFold (Haiku) stores weights input first, the heads of an attention layer on an axis of their own, and the
blocks of a stack on axis 0 of one array. OpenFold's layout is the canonical one.
"""

import math
from enum import Enum, auto
from typing import Any

from numpy.typing import NDArray

from bioattn.errors import FormatError

Shape = tuple[int, ...]


class Layout(Enum):
    """Shape of an array as AlphaFold publishes it, without its block axis → canonical shape."""

    AS_IS = auto()
    """(N) → (N): biases, layer norms."""
    LINEAR = auto()
    """(in, out) → (out, in)."""
    HEADS = auto()
    """(in, H, c) → (H·c, in): queries, keys, values and gates."""
    HEAD_BIAS = auto()
    """(H, c) → (H·c)."""
    OUTPUT = auto()
    """(H, c, out) → (out, H·c): the way out of the heads."""
    OUTER = auto()
    """(c, c, out) → (out, c·c): the outer product; the first c is the left one."""


_DIMENSIONS = {
    Layout.LINEAR: 2,
    Layout.HEADS: 3,
    Layout.HEAD_BIAS: 2,
    Layout.OUTPUT: 3,
    Layout.OUTER: 3,
}


def canonical_shape(shape: Shape, layout: Layout) -> Shape:
    """The canonical shape of an array of AlphaFold's. Raises: FormatError when it has too many or too few axes."""
    if layout in _DIMENSIONS and len(shape) != _DIMENSIONS[layout]:
        raise FormatError(f"has shape {shape}, {_DIMENSIONS[layout]} axes are needed")
    match layout:
        case Layout.AS_IS:
            return shape
        case Layout.LINEAR | Layout.HEADS:
            return (math.prod(shape[1:]), shape[0])
        case Layout.HEAD_BIAS:
            return (math.prod(shape),)
        case Layout.OUTPUT | Layout.OUTER:
            return (shape[-1], math.prod(shape[:-1]))


def alphafold_shape(shape: Shape, layout: Layout, num_heads: int) -> Shape:
    """The inverse of `canonical_shape`; `num_heads` counts where the layout has heads."""
    match layout:
        case Layout.AS_IS:
            return shape
        case Layout.LINEAR:
            return (shape[1], shape[0])
        case Layout.HEADS:
            return (shape[1], num_heads, shape[0] // num_heads)
        case Layout.HEAD_BIAS:
            return (num_heads, shape[0] // num_heads)
        case Layout.OUTPUT:
            return (num_heads, shape[1] // num_heads, shape[0])
        case Layout.OUTER:
            side = math.isqrt(shape[1])
            return (side, side, shape[0])


def to_canonical(array: NDArray[Any], layout: Layout, *, stacked: bool) -> NDArray[Any]:
    """A view of AlphaFold's array in canonical layout; `stacked` keeps axis 0, the blocks."""
    blocks = array.shape[:1] if stacked else ()
    shape = array.shape[1:] if stacked else array.shape
    match layout:
        case Layout.AS_IS:
            return array
        case Layout.HEAD_BIAS:
            return array.reshape(*blocks, -1)
        case Layout.LINEAR | Layout.HEADS:
            return array.reshape(*blocks, shape[0], -1).swapaxes(-1, -2)
        case Layout.OUTPUT | Layout.OUTER:
            return array.reshape(*blocks, -1, shape[-1]).swapaxes(-1, -2)


def from_canonical(array: NDArray[Any], layout: Layout, num_heads: int, *, stacked: bool) -> NDArray[Any]:
    """The inverse of `to_canonical`."""
    blocks = array.shape[:1] if stacked else ()
    shape = array.shape[1:] if stacked else array.shape
    if layout not in (Layout.AS_IS, Layout.HEAD_BIAS):
        array = array.swapaxes(-1, -2)
    return array.reshape(*blocks, *alphafold_shape(shape, layout, num_heads))
