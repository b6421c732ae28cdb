"""Trees from distances, through scikit-bio, and their Newick text."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import BioattnError

_QUOTED = re.compile(r"[\s()\[\]{},:;'\"]")
"""Letters that a name in Newick has only between quotes."""


def require_scikit_bio() -> None:
    """Raises: BioattnError when scikit-bio is not installed."""
    try:
        import skbio  # noqa: F401
    except ImportError as error:
        raise BioattnError("trees need scikit-bio, which is not installed: pip install scikit-bio") from error


def neighbour_joining(names: Sequence[str], distances_NN: NDArray[np.float64]) -> str:
    """The tree of Saitou & Nei (1987) as Newick; negative branch lengths are 0."""
    from skbio import DistanceMatrix
    from skbio.tree import nj

    if len(names) == 2:
        return _of_two(names, distances_NN)
    return _newick(nj(DistanceMatrix(distances_NN, _ids(names)), neg_as_zero=True), names) + ";\n"


def balanced_minimum_evolution(names: Sequence[str], distances_NN: NDArray[np.float64]) -> str:
    """A tree of least balanced length (Desper & Gascuel 2002) as Newick: sequences added one by one, then
    interchanges of nearest neighbours while they shorten it; negative branch lengths are 0."""
    from skbio import DistanceMatrix
    from skbio.tree import bme, nni

    if len(names) == 2:
        return _of_two(names, distances_NN)
    matrix = DistanceMatrix(distances_NN, _ids(names))
    tree = bme(matrix, neg_as_zero=True, parallel=False)
    return _newick(tree if len(names) == 3 else nni(tree, matrix, neg_as_zero=True), names) + ";\n"


def _ids(names: Sequence[str]) -> list[str]:
    """Numbers: names may be anything."""
    return [str(number) for number in range(len(names))]


def _of_two(names: Sequence[str], distances_NN: NDArray[np.float64]) -> str:
    half = distances_NN[0, 1] / 2
    return f"({','.join(f'{newick_label(name)}:{half:.7g}' for name in names)});\n"


def _newick(node: Any, names: Sequence[str]) -> str:
    """Of a node of scikit-bio, in the order of its children."""
    inner = ",".join(_newick(child, names) for child in node.children)
    text = f"({inner})" if node.children else newick_label(names[int(node.name)])
    return text if node.length is None else f"{text}:{max(0.0, node.length):.7g}"


def newick_label(name: str) -> str:
    """A name in Newick, between quotes where it needs them."""
    return "'" + name.replace("'", "''") + "'" if _QUOTED.search(name) else name
