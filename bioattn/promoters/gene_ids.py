"""Which genes ids mean: those of `--genes`, and those that have `.N` suffixes (versions, isoforms) on one side."""

import os
import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.choices import not_there
from bioattn.errors import BioattnError
from bioattn.io.files import read_lines


def choose_genes(values: Sequence[str], known: Collection[str], source: Path) -> list[str]:
    """List the ids that `values` name, each once, in the order given.

    values: ids, or names of text files with one id per line (the first column of a table; blank lines and lines
    starting with `#` are passed over). A value that is both is an id. known: the ids there are. source: the file
    that holds them, for messages.

    Raises: BioattnError for a value that is neither, with the nearest ids, and naming the line of an unknown id.
    """
    held = known if isinstance(known, set | frozenset | dict) else set(known)
    chosen: dict[str, None] = {}
    for value in values:
        if value in held or not _is_file(value):
            named = [("--genes", "gene, and no file has this name", value)]
        else:
            named = [(f"{value}:{number}: gene", "gene", name) for number, name in _ids_of(Path(value))]
        for option, what, name in named:
            if name not in held:
                raise not_there(option, name, source, what, known)
            chosen[name] = None
    return list(chosen)


def find_genes(values: Sequence[str], known: Collection[str]) -> tuple[list[str], list[str]]:
    """The ids that `values` name as in `choose_genes`, each once: those that are known, and the others."""
    named: dict[str, None] = {}
    for value in values:
        is_file = value not in known and _is_file(value)
        named |= dict.fromkeys([name for _, name in _ids_of(Path(value))] if is_file else [value])
    return [name for name in named if name in known], [name for name in named if name not in known]


def _is_file(value: str) -> bool:
    return os.path.isfile(value)  # noqa: PTH113 - a name that is longer than names can be is no file


def _ids_of(path: Path) -> list[tuple[int, str]]:
    """Line numbers and ids. Raises: BioattnError for a file without an id."""
    lines = [(number, line) for number, line in read_lines(path) if line.strip() and not line.startswith("#")]
    if not lines:
        raise BioattnError(f"{path}: holds no gene id")
    return [(number, line.split("\t")[0].strip()) for number, line in lines]


_SUFFIX = re.compile(r"\.\d+$")


class Matched(StrEnum):
    """How an id found its promoter, or why it did not."""

    EXACT = "exact"
    WITHOUT_SUFFIX = "without suffix"
    UNKNOWN = "unknown"
    AMBIGUOUS = "ambiguous"
    """Several promoters have this id but for their suffix."""
    SUPERSEDED = "superseded"
    """Its promoter is also named exactly, by another id, which goes first."""


class IdMatch(NamedTuple):
    """The promoter of each id."""

    promoter: NDArray[np.int64]
    """Index of the promoter; -1 where there is none."""
    how: list[Matched]


def without_suffix(name: str) -> str:
    """An id without its version or isoform number.

    >>> [without_suffix(name) for name in ("AT1G01010.1", "ENSG00000139618.19", "YAL001C")]
    ['AT1G01010', 'ENSG00000139618', 'YAL001C']
    """
    return _SUFFIX.sub("", name)


def match_ids(promoter_ids: Sequence[str], ids: Sequence[str]) -> IdMatch:
    """Find the promoter of each of `ids`, exactly or, only where that cannot be wrong, without `.N` suffixes.

    - An id that is a promoter's is that promoter's.
    - `G.1` finds the promoter `G`; so may `G.2`: isoforms of one gene.
    - `G` finds the promoter `G.1` when it is the only one of `G`.
    - `G.1` finds the promoter `G.2` (another release) only if suffixes are versions throughout: neither side has
      two ids that differ in the suffix alone. Names such as F54D5.1 and F54D5.2 are different genes.
    """
    exact = {name: index for index, name in enumerate(promoter_ids)}
    by_stem: dict[str, list[int]] = defaultdict(list)
    for index, name in enumerate(promoter_ids):
        by_stem[without_suffix(name)].append(index)
    stems = [without_suffix(name) for name in ids]
    versions = all(len(group) == 1 for group in by_stem.values()) and len(set(stems)) == len(set(ids))
    promoter = np.full(len(ids), -1, dtype=np.int64)
    how = [Matched.UNKNOWN] * len(ids)
    for index, (name, stem) in enumerate(zip(ids, stems, strict=True)):
        if name in exact:
            promoter[index], how[index] = exact[name], Matched.EXACT
        elif stem in exact:
            promoter[index], how[index] = exact[stem], Matched.WITHOUT_SUFFIX
        elif name == stem or versions:
            candidates = by_stem.get(stem, [])
            if len(candidates) == 1:
                promoter[index], how[index] = candidates[0], Matched.WITHOUT_SUFFIX
            elif candidates:
                how[index] = Matched.AMBIGUOUS
    named_exactly = {int(promoter[index]) for index, kind in enumerate(how) if kind is Matched.EXACT}
    for index, kind in enumerate(how):
        if kind is Matched.WITHOUT_SUFFIX and int(promoter[index]) in named_exactly:
            promoter[index], how[index] = -1, Matched.SUPERSEDED
    return IdMatch(promoter, how)
