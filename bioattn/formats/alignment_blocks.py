"""Joining rows that Stockholm and Clustal files break into blocks, by name and position."""

from typing import NamedTuple

from bioattn.errors import FormatError
from bioattn.formats.alignment_rows import RawRows, empty_rows
from bioattn.text import counted


class BlockLine(NamedTuple):
    """One line of a block: a row or a piece of one."""

    line: int
    """1-based."""
    name: str
    text: bytes


def join_blocks(source: str, blocks: list[list[BlockLine]]) -> tuple[RawRows, list[list[int]]]:
    """Join the blocks to rows; return the rows, and for each line of each block the number of its row.

    Blocks that repeat the same names in the same order are pieces of the same rows, by position, so a name may
    stand for several rows. Blocks without a common name are groups of different rows. Blocks that repeat the same
    names in another order are joined by name.

    Raises: FormatError naming the line when blocks have some names in common but not all.
    """
    raw = empty_rows(source)
    first, *others = blocks or [[]]
    names = [line.name for line in first]
    if all([line.name for line in block] == names for block in others):
        for number, line in enumerate(first):
            raw.add(line.line, line.name, b"".join(block[number].text for block in blocks))
        return raw, [list(range(len(names)))] * len(blocks)
    all_names = [name for block in blocks for name in {line.name for line in block}]
    if len(set(all_names)) == len(all_names):
        rows = []
        for block in blocks:
            rows.append(list(range(len(raw.names), len(raw.names) + len(block))))
            for line in block:
                raw.add(line.line, line.name, line.text)
        return raw, rows
    place = {name: index for index, name in enumerate(names)}
    for block in others:
        if len(place) != len(names) or sorted(line.name for line in block) != sorted(names):
            raise FormatError(
                f"{source}:{block[0].line}: the block starting here has {counted(len(block), 'row')}, the first "
                f"block {len(names):,}, and not all have the same names; each block needs a piece of each row"
            )
    pieces: list[list[bytes]] = [[] for _ in names]
    for block in blocks:
        for line in block:
            pieces[place[line.name]].append(line.text)
    for line, parts in zip(first, pieces, strict=True):
        raw.add(line.line, line.name, b"".join(parts))
    return raw, [[place[line.name] for line in block] for block in blocks]
