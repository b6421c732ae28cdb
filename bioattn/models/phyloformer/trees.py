"""Trees as arrays, from distances (through scikit-bio), and from and to Newick."""

import re
from collections.abc import Callable, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from Bio.Phylo.NewickIO import NewickError, Parser
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from bioattn.errors import BioattnError, FormatError
from bioattn.io.files import read_lines

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
    from skbio.tree import nj

    return _by_scikit_bio(names, distances_NN, lambda matrix: nj(matrix, neg_as_zero=True))


def balanced_minimum_evolution(names: Sequence[str], distances_NN: NDArray[np.float64]) -> str:
    """A tree of least balanced length (Desper & Gascuel 2002) as Newick: sequences added one by one, then
    interchanges of nearest neighbours while they shorten it; negative branch lengths are 0."""
    from skbio.tree import bme, nni

    def build(matrix: Any) -> Any:
        tree = bme(matrix, neg_as_zero=True, parallel=False)
        return tree if len(names) == 3 else nni(tree, matrix, neg_as_zero=True)

    return _by_scikit_bio(names, distances_NN, build)


def _by_scikit_bio(
    names: Sequence[str], distances_NN: NDArray[np.float64], build: Callable[[Any], Any]
) -> str:
    from skbio import DistanceMatrix

    if len(names) == 2:
        half = distances_NN[0, 1] / 2
        return f"({','.join(f'{newick_label(name)}:{half:.7g}' for name in names)});\n"
    # Numbers, as names may be anything.
    return _newick(build(DistanceMatrix(distances_NN, [*map(str, range(len(names)))])), names) + ";\n"


def _newick(node: Any, names: Sequence[str]) -> str:
    """Of a node of scikit-bio, in the order of its children."""
    inner = ",".join(_newick(child, names) for child in node.children)
    text = f"({inner})" if node.children else newick_label(names[int(node.name)])
    return text if node.length is None else f"{text}:{max(0.0, node.length):.7g}"


def newick_label(name: str) -> str:
    """A name in Newick, between quotes where it needs them."""
    return "'" + name.replace("'", "''") + "'" if _QUOTED.search(name) else name


class Tree(NamedTuple):
    """A rooted tree; the leaves are the first nodes, and a child comes before its parent.

    names: of the leaves. parents: (nodes,), -1 of the root, which is last. lengths: (nodes,), of the branch above
    each; that of the root does not count.
    """

    names: Sequence[str]
    parents: NDArray[np.int64]
    lengths: NDArray[np.float64]

    def leaf_distances(self) -> NDArray[np.float64]:
        """(leaves, leaves) sums of branch lengths."""
        nodes, leaves = np.arange(len(self.parents)), np.arange(len(self.names))
        branches = csr_array(
            (self.lengths[:-1], (nodes[:-1], self.parents[:-1])), shape=(len(nodes), len(nodes))
        )
        distances: NDArray[np.float64] = dijkstra(branches, directed=False, indices=leaves)[:, leaves]
        return distances

    def newick(self) -> str:
        inner: list[list[str]] = [[] for _ in self.parents]
        labels = [newick_label(name) for name in self.names]
        for node, parent in enumerate(self.parents[:-1]):
            text = labels[node] if node < len(labels) else f"({','.join(inner[node])})"
            inner[parent].append(f"{text}:{self.lengths[node]:.7g}")
        return f"({','.join(inner[-1])});\n"


def read_newick(path: Path) -> Tree:
    """The first tree of a file, Newick or NEXUS.

    Raises: FormatError when there is none, or a branch has no length of 0 or more.
    """
    text = "\n".join(line for _, line in read_lines(path))
    statements = re.findall(r"(?:'[^']*'|[^;'])+", re.sub(r"('[^']*')|\[[^]]*\]", r"\1", text))  # no comments
    text, names = "".join(statements[:1]), {}
    if text.lstrip()[:6].upper() == "#NEXUS":
        # Biopython's reader of NEXUS takes a branch without a length for one of length 0.
        text = ""
        for statement in statements:
            word, rest = [*statement.split(maxsplit=1), "", ""][:2]
            if word.lower() == "translate":
                pairs = re.findall(r"([^\s,]+)\s+('(?:[^']|'')*'|[^\s,]+)", rest)
                names = {each: name.strip("'").replace("''", "'") for each, name in pairs}
            elif word.lower() in ("tree", "utree"):
                text = rest.partition("=")[2]
                break
    try:
        root = next(Parser(StringIO(text)).parse()).root
        leaves = root.get_terminals()
        clades = [*leaves, *root.get_nonterminals(order="postorder")]
    except (NewickError, ValueError, StopIteration, RecursionError) as error:
        reason = str(error) or "there is none"
        raise FormatError(f"{path}: no tree in Newick or NEXUS format ({reason})") from error
    number = {id(clade): place for place, clade in enumerate(clades)}
    parents = np.full(len(clades), -1)
    for clade in clades:
        parents[[number[id(child)] for child in clade.clades]] = number[id(clade)]
    lengths = np.array([-1.0 if clade.branch_length is None else clade.branch_length for clade in clades])
    if not (lengths[:-1] >= 0).all():
        raise FormatError(
            f"{path}: a branch has no length, or a negative one; give a tree with branch lengths"
        )
    return Tree([names.get(str(leaf.name), str(leaf.name)) for leaf in leaves], parents, lengths)
