"""Writing other B-factors into a PDB or mmCIF file; all else it says is kept.

PDB: columns 61-66 of ATOM and HETATM records. mmCIF: the column `B_iso_or_equiv` of `_atom_site`; categories are
written anew by Biopython, without comments. Atoms go by the author's chain, residue number and insertion code.
"""

import io
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.io.files import atomic_output, decompression_errors, open_bytes

PDB_SUFFIXES = (".pdb", ".ent")
MMCIF_SUFFIXES = (".cif", ".mmcif")
WITHOUT_VALUE = -1.0
"""B-factor of the atoms of residues that have none; what is painted is 0 or more."""


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
    with open_bytes(source) as raw, decompression_errors(source):
        content = raw.read()
    is_mmcif = content.startswith(b"data_") or b"\ndata_" in content or b"\n_atom_site." in content
    require_structure_name(output, is_mmcif=is_mmcif)
    painted = 0

    def value_of(chain: str, number: str, code: str) -> float:
        nonlocal painted
        try:
            value = values.get(ResidueKey(chain.strip() or "_", int(number), code.strip(" ?.")))
        except ValueError:  # waters may have no number
            value = None
        painted += value is not None
        return WITHOUT_VALUE if value is None else value

    text = _mmcif(source, content, value_of) if is_mmcif else b"".join(_pdb(content, value_of))
    with atomic_output(output) as temporary:
        temporary.write_bytes(text)
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


def _pdb(content: bytes, value_of: Callable[[str, str, str], float]) -> Iterator[bytes]:
    for line in content.splitlines(keepends=True):
        if line.startswith((b"ATOM  ", b"HETATM")):
            text = line.rstrip(b"\r\n")
            residue = text[21:27].decode("ascii", "replace")
            value = b"%6.2f" % value_of(residue[:1], residue[1:5], residue[5:])
            line = text[:60].ljust(60) + value + text[66:] + line[len(text) :]
        yield line


def _mmcif(source: Path, content: bytes, value_of: Callable[[str, str, str], float]) -> bytes:
    from Bio.PDB.MMCIF2Dict import MMCIF2Dict
    from Bio.PDB.mmcifio import MMCIFIO

    try:
        tables: dict[str, Any] = MMCIF2Dict(io.StringIO(content.decode("utf-8", "replace")))
    except (ValueError, KeyError, IndexError) as error:
        raise FormatError(f"{source}: cannot be read as mmCIF ({error}); fetch the file again") from error
    atoms = {name.removeprefix("_atom_site."): cells for name, cells in tables.items()}
    if "B_iso_or_equiv" not in atoms:
        raise FormatError(f"{source}: has no atoms with B-factors (_atom_site.B_iso_or_equiv) to write over")
    rows = len(atoms["B_iso_or_equiv"])
    keys = [
        next((atoms[name] for name in names if name in atoms), ["?"] * rows)
        for names in (
            ("auth_asym_id", "label_asym_id"),
            ("auth_seq_id", "label_seq_id"),
            ("pdbx_PDB_ins_code",),
        )
    ]
    if {len(cells) for cells in keys} != {rows}:
        raise FormatError(f"{source}: an atom has fewer values than columns; the file is cut off")
    tables["_atom_site.B_iso_or_equiv"] = [f"{value_of(*key):.2f}" for key in zip(*keys, strict=True)]
    writer, text = MMCIFIO(), io.StringIO()
    writer.set_dict(tables)
    writer.save(text)
    return text.getvalue().encode()
