"""Write a chain as a PDB file (wwPDB format 3.3), a confidence for each residue as B-factor.

A residue without atoms, `UNK`, stands in SEQRES only. Fields are fixed-width: what does not fit is refused.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from bioattn.errors import BioattnError
from bioattn.formats.structure_residues import CHAIN, StructureResidue, check_residues
from bioattn.io.files import text_output

_SEQRES_RESIDUES = 13
_LARGEST_SERIAL = 99_999
_LARGEST_SEQRES = 9_999
_NUMBERS = range(-999, 10_000)
_COORDINATES = (-999.9995, 9999.9995)
PREDICTED = "PREDICTED BY BIOATTN; THE B-FACTOR IS THE PLDDT, 0 TO 100"


class PdbRoomError(BioattnError):
    """The PDB format has no room for a chain; mmCIF has."""


def write_pdb(path: Path, residues: Sequence[StructureResidue], title: str = PREDICTED) -> None:
    """Write one chain, `A`, atomically. title: at most 70 characters that say what this is.

    Raises: PdbRoomError when residues or atoms are more, or numbers or coordinates larger, than the format has
    room for; BioattnError when a value is no number, or when the file cannot be written.
    """
    check_residues(path, residues)
    _check_room(path, residues)
    with text_output(path) as file:
        file.writelines(f"{line:<80}\n" for line in _lines(residues, title))


def _check_room(path: Path, residues: Sequence[StructureResidue]) -> None:
    num_atoms = sum(len(residue.atoms) for residue in residues)
    # TER takes a serial number too.
    if num_atoms + 1 > _LARGEST_SERIAL or len(residues) > _LARGEST_SEQRES:
        raise PdbRoomError(
            f"{path}: {len(residues):,} residues with {num_atoms:,} atoms are more than the PDB format has room "
            "for; write mmCIF"
        )
    for residue in residues:
        where = f"{path}: residue {residue.name} {residue.number}"
        if residue.number not in _NUMBERS:
            raise PdbRoomError(f"{where}: the PDB format has no room for its number; write mmCIF")
        least, most = _COORDINATES
        if any(not least < value < most for position in residue.atoms.values() for value in position):
            raise PdbRoomError(f"{where}: the PDB format has no room for its coordinates; write mmCIF")


def _lines(residues: Sequence[StructureResidue], title: str) -> Iterator[str]:
    yield f"TITLE     {title}"
    for start in range(0, len(residues), _SEQRES_RESIDUES):
        names = " ".join(residue.name for residue in residues[start : start + _SEQRES_RESIDUES])
        yield f"SEQRES{start // _SEQRES_RESIDUES + 1:>4} {CHAIN}{len(residues):>5}  {names}"
    serial = 0
    last = None
    for residue in residues:
        for atom, (x, y, z) in residue.atoms.items():
            serial += 1
            last = residue
            # A one-letter element stands in column 14, so a name of up to three letters begins there.
            yield (
                f"ATOM  {serial:>5} {f' {atom}':<4} {residue.name:>3} {CHAIN}{residue.number:>4}    "
                f"{x:8.3f}{y:8.3f}{z:8.3f}{1:6.2f}{residue.confidence:6.2f}          {atom[0]:>2}"
            )
    if last is not None:
        yield f"TER   {serial + 1:>5}      {last.name:>3} {CHAIN}{last.number:>4}"
    yield "END"
