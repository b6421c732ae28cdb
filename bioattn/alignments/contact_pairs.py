"""The table of `bioattn prepare contacts`: which structure shows the contacts of which alignment."""

from dataclasses import dataclass
from pathlib import Path

from bioattn.alignments.contact_dataset import SPLIT_NAMES, TRAIN, split_groups
from bioattn.errors import FormatError
from bioattn.formats.tables import MISSING, open_table, refuse_duplicate_columns
from bioattn.text import quoted

REQUIRED = ("id", "msa", "structure")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContactPair:
    """One line of the table."""

    line: int
    """Of the file, from 1."""
    id: str
    msa: Path
    structure: Path
    chain: str | None
    """Author's chain id, `_` for the blank one; None = the only protein chain."""
    mapping: Path | None
    """Table of residues and match columns; None = found by alignment."""
    group: str | None
    """Family; None = the table has no such column."""
    split: int | None
    """TRAIN, VALIDATION or TEST; None = the table has no such column."""


def read_pairs(path: Path) -> list[ContactPair]:
    """Read the table; relative file names count from its folder, columns of other names are not looked at.

    Raises: FormatError naming the line of a missing column, an empty or repeated id, a file that is not there, an
    unknown split, or a group whose members stand on different sides of the split.
    """
    table = open_table(path)
    refuse_duplicate_columns(table)
    for name in REQUIRED:
        if name not in table.header:
            raise FormatError(
                f"{path}:{table.header_line}: the column {name!r} is missing; "
                f"{', '.join(REQUIRED)} are needed and it has {quoted(table.header, limit=10)}"
            )
    pairs: list[ContactPair] = []
    lines: dict[str, int] = {}
    for line, cells in table.rows():
        row = dict(zip(table.header, cells, strict=True))
        where = f"{path}:{line}"
        pair = _pair(row, where, path.parent, line)
        if pair.id in lines:
            raise FormatError(
                f"{where}: the id {pair.id!r} stands in line {lines[pair.id]} too; ids are unique"
            )
        lines[pair.id] = line
        pairs.append(pair)
    if not pairs:
        raise FormatError(f"{path}: has a header but no pairs")
    parted = split_groups([pair.group or pair.id for pair in pairs], [pair.split or 0 for pair in pairs])
    if parted:
        raise FormatError(
            f"{path}: the split parts the groups {quoted(parted)}; keep a family on one side of the split"
        )
    return pairs


def _pair(row: dict[str, str], where: str, folder: Path, line: int) -> ContactPair:
    for name in REQUIRED:
        if not row[name]:
            raise FormatError(f"{where}: {name} is empty")
    files = {
        name: folder / row[name]
        for name in ("msa", "structure", "mapping")
        if row.get(name, "").lower() not in (MISSING if name == "mapping" else ())
    }
    for name, file in files.items():
        if file.is_dir():
            raise FormatError(f"{where}: {name}: {file} is a folder, a file is needed")
        if not file.is_file():
            raise FormatError(
                f"{where}: {name}: no such file as {file}; file names count from the table's folder"
            )
    if "group" in row and not row["group"]:
        raise FormatError(f"{where}: group is empty; give every pair a group or leave the column out")
    return ContactPair(
        line=line,
        id=row["id"],
        msa=files["msa"],
        structure=files["structure"],
        chain=row.get("chain") or None,
        mapping=files.get("mapping"),
        group=row.get("group"),
        split=_split(row["split"], where) if "split" in row else None,
    )


def _split(text: str, where: str) -> int:
    if text in SPLIT_NAMES:
        return SPLIT_NAMES.index(text)
    if not text:
        return TRAIN
    raise FormatError(f"{where}: split {text!r} is none of {', '.join(SPLIT_NAMES)}")
