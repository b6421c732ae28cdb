"""Write a predicted chain as PDB (wwPDB format 3.3) or mmCIF (PDBx/mmCIF and ModelCIF), pLDDT as B-factor.

A residue without atoms, `UNK`, stands in the sequence (SEQRES) only. Fields of a PDB file are fixed-width: what
does not fit is refused.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bioattn.errors import BioattnError
from bioattn.io.files import text_output

CHAIN = "A"
"""The chain that writers name their one chain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StructureResidue:
    """One residue of a predicted chain."""

    name: str
    """Three-letter name, `UNK` for an unknown residue."""
    number: int
    """Residue number, as in `auth_seq_id`; unique in its chain."""
    atoms: Mapping[str, tuple[float, float, float]]
    """Å by PDB atom name, in the order they are written; the name begins with the element's one letter."""
    confidence: float
    """pLDDT, 0..100; written as B-factor."""


def check_residues(path: Path, residues: Sequence[StructureResidue]) -> None:
    """Raises: BioattnError when a coordinate or confidence is no number."""
    for residue in residues:
        numbers = [residue.confidence, *(value for position in residue.atoms.values() for value in position)]
        if not all(map(math.isfinite, numbers)):
            raise BioattnError(
                f"{path}: residue {residue.name} {residue.number}: its pLDDT or an atom's position is not a "
                "number; check the parameters of the model"
            )


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
        file.writelines(f"{line:<80}\n" for line in _pdb_lines(residues, title))


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


def _pdb_lines(residues: Sequence[StructureResidue], title: str) -> Iterator[str]:
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


Value = str | int


def write_mmcif(path: Path, residues: Sequence[StructureResidue], *, name: str) -> None:
    """Write one chain, `A`, atomically; name: of the data block (characters that may not stand there become `_`).

    Raises: BioattnError when a value is no number or the file cannot be written.
    """
    check_residues(path, residues)
    block = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in name) or "model"
    with text_output(path) as file:
        file.writelines(line + "\n" for line in _mmcif_lines(block, residues))


def _mmcif_lines(block: str, residues: Sequence[StructureResidue]) -> Iterator[str]:
    numbered = list(enumerate(residues, start=1))
    yield f"data_{block}"
    yield f"_entry.id {block}"
    yield from _loop("entity", "id type src_method", [(1, "polymer", "man")])
    yield from _loop(
        "entity_poly",
        "entity_id type nstd_linkage nstd_monomer pdbx_strand_id",
        [(1, "'polypeptide(L)'", "no", "no", CHAIN)],
    )
    yield from _loop(
        "entity_poly_seq",
        "entity_id num mon_id hetero",
        ((1, place, residue.name, "n") for place, residue in numbered),
    )
    yield from _loop("struct_asym", "id entity_id", [(CHAIN, 1)])
    yield from _loop(
        "pdbx_poly_seq_scheme",
        "asym_id entity_id seq_id mon_id pdb_seq_num pdb_strand_id pdb_ins_code hetero",
        ((CHAIN, 1, place, each.name, each.number, CHAIN, ".", "n") for place, each in numbered),
    )
    yield from _loop(
        "ma_qa_metric", "id name type mode", [(1, "pLDDT", "pLDDT", "global"), (2, "pLDDT", "pLDDT", "local")]
    )
    if residues:
        mean = sum(residue.confidence for residue in residues) / len(residues)
        yield from _loop(
            "ma_qa_metric_global", "ordinal_id model_id metric_id metric_value", [(1, 1, 1, f"{mean:.2f}")]
        )
    yield from _loop(
        "ma_qa_metric_local",
        "ordinal_id model_id label_asym_id label_seq_id label_comp_id metric_id metric_value",
        ((place, 1, CHAIN, place, each.name, 2, f"{each.confidence:.2f}") for place, each in numbered),
    )
    yield from _loop(
        "atom_site",
        "group_PDB id type_symbol label_atom_id label_alt_id label_comp_id label_asym_id label_entity_id "
        "label_seq_id pdbx_PDB_ins_code Cartn_x Cartn_y Cartn_z occupancy B_iso_or_equiv "
        "auth_seq_id auth_comp_id auth_asym_id auth_atom_id pdbx_PDB_model_num",
        _atoms(residues),
    )


def _atoms(residues: Sequence[StructureResidue]) -> Iterator[tuple[Value, ...]]:
    serial = 0
    for place, residue in enumerate(residues, start=1):
        for atom, (x, y, z) in residue.atoms.items():
            serial += 1
            yield (
                *("ATOM", serial, atom[0], atom, ".", residue.name, CHAIN, 1, place, "?"),
                *(f"{x:.3f}", f"{y:.3f}", f"{z:.3f}", "1.00", f"{residue.confidence:.2f}"),
                *(residue.number, residue.name, CHAIN, atom, 1),
            )


def _loop(category: str, items: str, rows: Iterable[Sequence[Value]]) -> Iterator[str]:
    """A table with the columns `items`, apart by blanks; nothing where it has no rows, which mmCIF forbids."""
    for number, row in enumerate(rows):
        if number == 0:
            yield "#"
            yield "loop_"
            yield from (f"_{category}.{item}" for item in items.split())
        yield " ".join(map(str, row))
