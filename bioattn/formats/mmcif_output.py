"""Write a predicted chain as an mmCIF file (PDBx/mmCIF and ModelCIF dictionaries), pLDDT as B-factor.

A residue without atoms, `UNK`, stands in the sequence only.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from bioattn.formats.structure_residues import CHAIN, StructureResidue, check_residues
from bioattn.io.files import text_output

Value = str | int


def write_mmcif(path: Path, residues: Sequence[StructureResidue], *, name: str) -> None:
    """Write one chain, `A`, atomically; name: of the data block (characters that may not stand there become `_`).

    Raises: BioattnError when a value is no number or the file cannot be written.
    """
    check_residues(path, residues)
    block = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in name) or "model"
    with text_output(path) as file:
        file.writelines(line + "\n" for line in _lines(block, residues))


def _lines(block: str, residues: Sequence[StructureResidue]) -> Iterator[str]:
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
        ((1, place, residue.name, "n") for place, residue in enumerate(residues, start=1)),
    )
    yield from _loop("struct_asym", "id entity_id", [(CHAIN, 1)])
    yield from _loop(
        "pdbx_poly_seq_scheme",
        "asym_id entity_id seq_id mon_id pdb_seq_num pdb_strand_id pdb_ins_code hetero",
        (
            (CHAIN, 1, place, residue.name, residue.number, CHAIN, ".", "n")
            for place, residue in enumerate(residues, start=1)
        ),
    )
    yield from _loop(
        "ma_qa_metric",
        "id name type mode",
        [(1, "pLDDT", "pLDDT", "global"), (2, "pLDDT", "pLDDT", "local")],
    )
    if residues:
        mean = sum(residue.confidence for residue in residues) / len(residues)
        yield from _loop(
            "ma_qa_metric_global",
            "ordinal_id model_id metric_id metric_value",
            [(1, 1, 1, f"{mean:.2f}")],
        )
    yield from _loop(
        "ma_qa_metric_local",
        "ordinal_id model_id label_asym_id label_seq_id label_comp_id metric_id metric_value",
        (
            (place, 1, CHAIN, place, residue.name, 2, f"{residue.confidence:.2f}")
            for place, residue in enumerate(residues, start=1)
        ),
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
