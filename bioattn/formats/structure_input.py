"""What those that read PDB and mmCIF files and those that paint them have to see alike."""

import io
import re
from collections.abc import Sequence
from typing import Any

from Bio.PDB.MMCIF2Dict import MMCIF2Dict

_BLOCK = re.compile(r"^[ \t\ufeff]*(data_)", re.MULTILINE | re.IGNORECASE)
AUTHOR_KEY = (("auth_asym_id", "label_asym_id"), ("auth_seq_id", "label_seq_id"), ("pdbx_PDB_ins_code",))
"""Chain, number and insertion code of the authors, or what stands for them."""


def residue_number(text: str) -> int:
    """A residue's number; numbers of four characters from 10,000 are hybrid-36 (cci.lbl.gov/hybrid_36).

    >>> [residue_number(text) for text in ("-5", "A000", "a000")]
    [-5, 10000, 1223056]

    Raises: ValueError for what is neither.
    """
    if len(text) == 4 and text[0].isalpha() and text.isalnum() and (text.isupper() or text.islower()):
        return int(text, 36) + 10**4 + (-10 if text.isupper() else 16) * 36**3
    return int(text)


def is_mmcif(text: str) -> bool:
    """Whether text is mmCIF rather than PDB."""
    return "\n_atom_site." in text or _BLOCK.match(text.lstrip("\ufeff \t\r\n#")) is not None


def read_block(text: str) -> tuple[dict[str, Any], int, int]:
    """The items of the first data block with atoms, and where in the text it begins and ends.

    Biopython's reader takes later blocks for more of the first. Raises: ValueError and others, as
    it does, for what is damaged.
    """
    starts = [match.start(1) for match in _BLOCK.finditer(text)] or [0]
    blocks = list(zip(starts, [*starts[1:], len(text)], strict=True))
    begin, end = next((block for block in blocks if "_atom_site." in text[slice(*block)]), blocks[0])
    return MMCIF2Dict(io.StringIO("data_" + text[begin + len("data_") : end])), begin, end


def atom_column(block: dict[str, Any], names: Sequence[str], *, needed: bool = False) -> list[str]:
    """An item of every atom, that of the first name that has a value; "" where none has.

    Raises: KeyError where it is `needed` and the block has none of the names; IndexError where a row ends early.
    """
    columns = [block[f"_atom_site.{name}"] for name in names if f"_atom_site.{name}" in block]
    if needed and not columns:
        raise KeyError(f"_atom_site.{names[0]}")
    cells = [""] * len(block["_atom_site.Cartn_x"])
    for column in columns:
        if len(column) != len(cells):
            raise IndexError("an atom has fewer values than columns")
        cells = [a or ("" if b in (".", "?") else b) for a, b in zip(cells, column, strict=True)]
    return cells
