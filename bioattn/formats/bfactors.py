"""Writing other B-factors into a PDB or mmCIF file, every other byte of it kept.

PDB: columns 61-66 of ATOM and HETATM records. mmCIF: the column `B_iso_or_equiv` of the `_atom_site` loop. Atoms
are found by the author's chain, residue number and insertion code.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.io.files import atomic_output, decompression_errors, open_bytes

PDB_SUFFIXES = (".pdb", ".ent")
MMCIF_SUFFIXES = (".cif", ".mmcif")
WITHOUT_VALUE = -1.0
"""B-factor of the atoms of residues that have none; what is painted is 0 or more."""
_TOKEN = re.compile(rb"'(?:[^'\n]|'(?=\S))*'(?=\s)|\"(?:[^\"\n]|\"(?=\S))*\"(?=\s)|[^\s]+")
_LARGEST = 999.99


class ResidueKey(NamedTuple):
    """A residue as the authors name it."""

    chain: str
    """`_` for the blank chain."""
    number: int
    insertion_code: str
    """ "" where there is none."""


def write_bfactors(source: Path, output: Path, values: Mapping[ResidueKey, float]) -> int:
    """Copy the structure `source` to `output` with these B-factors; returns how many atoms got one of them.

    values: -99 to 999 by residue; atoms of other residues get `WITHOUT_VALUE`. All models are painted alike. A
    packed source (gzip, xz) is written plain.

    Raises: BioattnError when the output's name says another format than the source has; FormatError when the
    source is neither PDB nor mmCIF, or its mmCIF has no column of B-factors.
    """
    if any(not -99 < value <= _LARGEST for value in values.values()):
        raise ValueError("B-factors must lie between -99 and 999.99")
    with open_bytes(source) as raw, decompression_errors(source):
        content = raw.read()
    is_mmcif = re.search(rb"^data_", content, re.MULTILINE) is not None or b"\n_atom_site." in content
    require_structure_name(output, is_mmcif=is_mmcif)
    painted = 0

    def value_of(key: ResidueKey) -> float:
        nonlocal painted
        if key in values:
            painted += 1
            return values[key]
        return WITHOUT_VALUE

    pieces = _mmcif(source, content, value_of) if is_mmcif else _pdb(source, content, value_of)
    with atomic_output(output) as temporary, temporary.open("wb") as file:
        file.writelines(pieces)
    return painted


def require_structure_name(output: Path, *, is_mmcif: bool | None = None) -> None:
    """Check the name of a structure file.

    Raises: SettingsError when it ends in neither .pdb nor .cif; BioattnError when the source has the other format.
    """
    suffix = output.suffix.lower()
    if suffix not in (*PDB_SUFFIXES, *MMCIF_SUFFIXES):
        raise SettingsError(f"--output {output}: end its name in .pdb or .cif, as that of the structure")
    if is_mmcif is not None and (suffix in MMCIF_SUFFIXES) != is_mmcif:
        has = "mmCIF; end the name in .cif" if is_mmcif else "PDB; end the name in .pdb"
        raise BioattnError(f"--output {output}: the structure is {has}, formats are not converted")


def _pdb(source: Path, content: bytes, value_of: Callable[[ResidueKey], float]) -> Iterator[bytes]:
    for number, line in enumerate(content.splitlines(keepends=True), start=1):
        if not line.startswith((b"ATOM  ", b"HETATM")):
            yield line
            continue
        text = line.rstrip(b"\r\n")
        try:
            key = ResidueKey(
                text[21:22].decode("ascii").strip() or "_",
                int(text[22:26]),
                text[26:27].decode("ascii").strip(),
            )
        except ValueError:
            raise FormatError(
                f"{source}:{number}: the residue number {text[22:26].decode('ascii', 'replace')!r} is not a number"
            ) from None
        yield text[:60].ljust(60) + b"%6.2f" % value_of(key) + text[66:] + line[len(text) :]


def _mmcif(source: Path, content: bytes, value_of: Callable[[ResidueKey], float]) -> Iterator[bytes]:
    names = re.search(rb"^loop_[ \t]*\r?\n((?:_atom_site\.\S+[ \t]*\r?\n)+)", content, re.MULTILINE)
    if names is None:
        raise FormatError(f"{source}: has no loop of atoms (_atom_site); a PDB or mmCIF file is needed")
    columns = [name.decode("ascii", "replace").removeprefix("_atom_site.") for name in names[1].split()]
    if "B_iso_or_equiv" not in columns:
        raise FormatError(f"{source}: its atoms have no B-factors (_atom_site.B_iso_or_equiv) to write over")
    target = columns.index("B_iso_or_equiv")
    chain = _first_of(source, columns, "auth_asym_id", "label_asym_id")
    number = _first_of(source, columns, "auth_seq_id", "label_seq_id")
    code = columns.index("pdbx_PDB_ins_code") if "pdbx_PDB_ins_code" in columns else None
    written = 0
    row: list[re.Match[bytes]] = []
    for token in _TOKEN.finditer(content, names.end()):
        if not row and (token[0].startswith((b"#", b"_", b"data_")) or token[0] == b"loop_"):
            break
        if token[0].startswith(b";") and content[token.start() - 1 : token.start()] == b"\n":
            raise FormatError(f"{source}: an atom has text over several lines, which is not read")
        row.append(token)
        if len(row) < len(columns):
            continue
        insertion = "" if code is None else _text(row[code]).strip("?.")
        try:
            key = ResidueKey(_text(row[chain]) or "_", int(row[number][0]), insertion)
            value = value_of(key)
        except ValueError:
            # Waters may have no number.
            value = WITHOUT_VALUE
        found = row[target]
        yield content[written : found.start()]
        yield (b"%.2f" % value).ljust(found.end() - found.start())
        written = found.end()
        row = []
    if row:
        raise FormatError(
            f"{source}: the last atom has {len(row)} of {len(columns)} values; the file is cut off"
        )
    yield content[written:]


def _first_of(source: Path, columns: list[str], *names: str) -> int:
    for name in names:
        if name in columns:
            return columns.index(name)
    raise FormatError(f"{source}: its atoms lack {names[0]}")


def _text(token: re.Match[bytes]) -> str:
    text = token[0].decode("utf-8", "replace")
    return text[1:-1] if text[:1] in "'\"" and text[:1] == text[-1:] and len(text) > 1 else text
