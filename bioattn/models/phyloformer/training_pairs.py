"""Alignments with known trees, as a table names them, as what a model learns from."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import FormatError
from bioattn.formats.alignment_file import read_alignment
from bioattn.formats.tables import open_table
from bioattn.io.files import sha256_of
from bioattn.models.phyloformer.config import PhylogenyAlphabet
from bioattn.models.phyloformer.inference.runner import alignment_codes, require_alphabet
from bioattn.models.phyloformer.phylogenetic_tree import read_newick
from bioattn.promoters.dataset import SPLIT_NAMES
from bioattn.system.progress import Progress, watched


class TrainingPair(NamedTuple):
    """An alignment and the true distances of its pairs of sequences."""

    codes_NL: NDArray[np.uint8]
    distances_P: NDArray[np.float64]
    """In substitutions per site; above 0."""


def read_pair_table(path: Path) -> tuple[list[tuple[Path, Path, str]], str]:
    """Alignment, tree and side of the split (empty: no column says it) of each line, and a digest of all files.

    Raises: FormatError naming a missing column, the line of an unknown split; BioattnError for unreadable files.
    """
    table = open_table(path)
    places = [table.column(name, "a needed column") for name in ("alignment", "tree")]
    split = table.header.index("split") if "split" in table.header else None
    rows = []
    digest = hashlib.sha256(path.read_bytes())
    for line, cells in table.rows():
        side = "" if split is None else cells[split]
        if split is not None and side not in SPLIT_NAMES:
            raise FormatError(f"{path}:{line}: split is {side!r}; give one of {', '.join(SPLIT_NAMES)}")
        alignment, tree = (path.parent / cells[place] for place in places)
        for each in (alignment, tree):
            digest.update(sha256_of(each).encode())
        rows.append((alignment, tree, side))
    return rows, digest.hexdigest()


def read_pairs(
    rows: Sequence[tuple[Path, Path, str]], alphabet: PhylogenyAlphabet, progress: Progress
) -> list[TrainingPair]:
    """Read all alignments and trees. Distances of 0, which have no relative error, become 1e-6.

    Raises: FormatError naming a file of the other alphabet, or a tree whose leaves are not the alignment's rows.
    """
    pairs = []
    for path, newick, _ in watched(progress, "reading alignments", rows):
        alignment, tree = read_alignment(path), read_newick(newick)
        require_alphabet(alignment, alphabet, path)
        if sorted(alignment.names) != sorted(tree.names) or len({*tree.names}) < max(2, len(tree.names)):
            raise FormatError(
                f"{newick}: its {len(tree.names)} leaves are not the {alignment.num_rows} sequences of {path}, "
                "each once and at least two; give both the same names"
            )
        order = [tree.names.index(name) for name in alignment.names]
        distances_P = tree.leaf_distances()[np.ix_(order, order)][np.triu_indices(len(order), 1)]
        codes_NL = alignment_codes(alignment, alphabet).astype(np.uint8)
        pairs.append(TrainingPair(codes_NL, np.maximum(distances_P, 1e-6)))
    return pairs
