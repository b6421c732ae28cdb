"""Choosing genes and treatments by name along the axes of stored arrays."""

from collections.abc import Sequence
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bioattn.errors import BioattnError


def choice(
    wanted: str | Sequence[str] | slice | None, numbers: dict[str, int], what: str
) -> int | list[int] | slice:
    """The numbers of the names asked for: one number for one name, all for None, a slice as it is.

    what: the beginning of the sentence about a name that is not there. Raises: BioattnError.
    """
    if wanted is None:
        return slice(None)
    if isinstance(wanted, slice):
        return wanted
    for name in [wanted] if isinstance(wanted, str) else wanted:
        if name not in numbers:
            raise BioattnError(f"{what} {name!r} is not in the file")
    return numbers[wanted] if isinstance(wanted, str) else [numbers[name] for name in wanted]


def read_selection(dataset: h5py.Dataset, selection: list[Any]) -> NDArray[Any]:
    """Index with any number of lists, in any order; HDF5 takes one at a time, sorted."""
    lists = [axis for axis, choice in enumerate(selection) if isinstance(choice, list)]
    if not lists:
        return np.asarray(dataset[tuple(selection)])
    axis = lists[0]
    dropped = sum(1 for choice in selection[:axis] if isinstance(choice, int))
    pieces = [
        read_selection(dataset, [*selection[:axis], number, *selection[axis + 1 :]])
        for number in selection[axis]
    ]
    if pieces:
        return np.stack(pieces, axis=axis - dropped)
    return np.asarray(dataset[(*selection[:axis], slice(0, 0), *selection[axis + 1 :])])
