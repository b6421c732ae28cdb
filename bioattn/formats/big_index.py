"""The two indexes of bigWig files: chromosomes by name (a B+ tree) and sections by place (an R tree).

Both are written level by level, the root first; every node but the last of its level is full (Kent et al. 2010,
doi:10.1093/bioinformatics/btq351, supplement).
"""

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

BLOCK_SIZE = 256
"""Children of a node at most."""
_CHROMOSOME_MAGIC = 0x78CA8C91
_SECTION_MAGIC = 0x2468ACE0
_CHROMOSOME_HEADER = struct.Struct("<IIIIQQ")
_SECTION_HEADER = struct.Struct("<IIQIIIIQII")
_NODE = struct.Struct("<BBH")
_CORNERS = ("start_chrom", "start", "end_chrom", "end")
_PLACE = [*((name, "<u4") for name in _CORNERS), ("offset", "<u8")]
_LEAF = np.dtype([*_PLACE, ("size", "<u8")])
_INNER = np.dtype(_PLACE)


class SectionPlaces:
    """Where sections lie, on chromosomes and in the file; in ascending order and apart."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, int, int, int]] = []

    def add(self, chrom: int, start: int, end: int, offset: int, size: int) -> None:
        """One more section, behind all others: on chromosome number `chrom`, `size` bytes at `offset`."""
        self._rows.append((chrom, start, end, offset, size))

    def __len__(self) -> int:
        return len(self._rows)

    def moved(self, offset: int) -> "SectionPlaces":
        """The same sections `offset` bytes further back in a file."""
        places = SectionPlaces()
        places._rows = [(chrom, start, end, at + offset, size) for chrom, start, end, at, size in self._rows]
        return places

    def table(self) -> NDArray[np.void]:
        """One row per section."""
        return np.array(
            [(chrom, start, chrom, end, at, size) for chrom, start, end, at, size in self._rows], dtype=_LEAF
        )


def section_index(places: SectionPlaces, offset: int, items_per_section: int) -> bytes:
    """The R tree over at least one section, to be written at `offset`, where the sections end."""
    levels = [places.table()]
    block = _block_size(len(places))
    while len(levels[0]) > block:
        children = levels[0]
        firsts, lasts = _groups(len(children), block)
        parents = np.zeros(len(firsts), dtype=_INNER)
        for name in _CORNERS:
            # In ascending order and apart: the first one starts first, the last one reaches furthest.
            parents[name] = children[name][firsts if name.startswith("start") else lasts]
        levels.insert(0, parents)
    corners = [int(levels[0][name][0 if name.startswith("start") else -1]) for name in _CORNERS]
    header = _SECTION_HEADER.pack(_SECTION_MAGIC, block, len(places), *corners, offset, items_per_section, 0)
    return header + _nodes(levels, offset + len(header), block)


def chromosome_tree(chromosomes: Sequence[tuple[str, int]], offset: int) -> bytes:
    """The B+ tree of (name, length), in the order of the names' bytes and numbered so, to be written at `offset`.

    Raises: ValueError for chromosomes in another order.
    """
    keys = [name.encode() for name, _ in chromosomes]
    if keys != sorted(set(keys)):
        raise ValueError("chromosomes are not in the order of their names, each once")
    key_size = max(map(len, keys))
    block = _block_size(len(keys))
    leaves = np.zeros(len(keys), dtype=[("key", f"S{key_size}"), ("number", "<u4"), ("length", "<u4")])
    leaves["key"], leaves["number"] = keys, np.arange(len(keys))
    leaves["length"] = [length for _, length in chromosomes]
    levels = [leaves]
    while len(levels[0]) > block:
        firsts, _ = _groups(len(levels[0]), block)
        parents = np.zeros(len(firsts), dtype=[("key", f"S{key_size}"), ("offset", "<u8")])
        parents["key"] = levels[0]["key"][firsts]
        levels.insert(0, parents)
    header = _CHROMOSOME_HEADER.pack(_CHROMOSOME_MAGIC, block, key_size, 8, len(keys), 0)
    return header + _nodes(levels, offset + len(header), block)


def _block_size(items: int) -> int:
    return min(BLOCK_SIZE, max(2, items))


def _groups(number: int, block: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and last of every `block` of `number` items."""
    firsts = np.arange(0, number, block)
    return firsts, np.minimum(firsts + block, number) - 1


def _nodes(levels: Sequence[NDArray[np.void]], offset: int, block: int) -> bytes:
    """All nodes from the root down, the first at `offset`; nodes are filled up with zeros to one size a level."""
    sizes = [_NODE.size + block * level.dtype.itemsize for level in levels]
    counts = [len(_groups(len(level), block)[0]) for level in levels]
    parts = []
    begin = offset
    for depth, level in enumerate(levels):
        is_leaf = depth == len(levels) - 1
        begin += counts[depth] * sizes[depth]
        if not is_leaf:
            level["offset"] = begin + sizes[depth + 1] * np.arange(len(level), dtype=np.uint64)
        for first in range(0, len(level), block):
            items = level[first : first + block]
            parts.append((_NODE.pack(is_leaf, 0, len(items)) + items.tobytes()).ljust(sizes[depth], b"\0"))
    return b"".join(parts)
