"""Predicted structures are read back by Biopython as they were written; what cannot be written is refused."""

import numpy as np
import pytest
from Bio.PDB.MMCIF2Dict import MMCIF2Dict
from Bio.PDB.MMCIFParser import MMCIFParser
from Bio.PDB.PDBParser import PDBParser
from Bio.SeqIO import parse

from bioattn.errors import BioattnError
from bioattn.formats.structure_output import StructureResidue, write_mmcif, write_pdb
from bioattn.structures.ideal_geometry import AMINO_ACIDS, UNKNOWN, predicted_residues

ATOMS = {
    "GLY": {"N", "CA", "C", "O"},
    "TRP": {"N", "CA", "C", "O", "CB", "CG", "CD1", "CD2", "NE1", "CE2", "CE3", "CZ2", "CZ3", "CH2"},
    "ILE": {"N", "CA", "C", "O", "CB", "CG1", "CG2", "CD1"},
}


def write(path, residues):
    if path.suffix == ".pdb":
        write_pdb(path, residues)
    else:
        write_mmcif(path, residues, name="my model/1")


def read(path):
    """Biopython's only chain, whichever the format; every warning is an error."""
    parser = PDBParser(PERMISSIVE=False) if path.suffix == ".pdb" else MMCIFParser()
    (model,) = parser.get_structure("x", str(path))
    (chain,) = model
    assert chain.id == "A"
    return chain


def sequence(path):
    """The whole chain's, as Biopython reads it from SEQRES or pdbx_poly_seq_scheme."""
    with path.open() as file:
        (record,) = parse(file, "pdb-seqres" if path.suffix == ".pdb" else "cif-seqres")
    return str(record.seq)


@pytest.fixture(params=["s.pdb", "s.cif"])
def path(request, tmp_path):
    return tmp_path / request.param


@pytest.fixture
def model():
    """All 20 amino acids, an unknown residue between them, any coordinates."""
    random = np.random.default_rng(0)
    aatype = np.array([*range(10), UNKNOWN, *range(10, 20)])
    return aatype, random.uniform(-500, 5000, (21, 37, 3)), random.uniform(0, 100, 21)


@pytest.mark.filterwarnings("error")
def test_read_back(path, model):
    aatype, atom37, plddt = model
    numbers = [*range(-5, 15), 9999]
    residues = predicted_residues(aatype, atom37, plddt, numbers)
    write(path, residues)
    found = list(read(path))
    known = [place for place, kind in enumerate(aatype) if kind != UNKNOWN]
    assert [residue.id for residue in found] == [(" ", numbers[place], " ") for place in known]
    assert [residue.get_resname() for residue in found] == list(AMINO_ACIDS)
    for place, residue in zip(known, found, strict=True):
        assert [atom.get_name() for atom in residue] == list(residues[place].atoms)
        assert ATOMS.get(residue.get_resname(), {a.id for a in residue}) == {a.id for a in residue}
        for atom in residue:
            np.testing.assert_allclose(atom.coord, residues[place].atoms[atom.id], atol=1e-3)
            assert atom.bfactor == pytest.approx(plddt[place], abs=5.1e-3)
            assert atom.occupancy == 1
            assert atom.element == atom.id[0]


@pytest.mark.filterwarnings("error")
def test_the_sequence_keeps_residues_without_atoms(path, model):
    write(path, predicted_residues(*model))
    assert sequence(path) == "ARNDCQEGHIXLKMFPSTWYV"


def test_mmcif_holds_plddt_for_viewers(tmp_path, model):
    path = tmp_path / "s.cif"
    write(path, predicted_residues(*model))
    tables = MMCIF2Dict(str(path))
    assert tables["data_"] == "my_model_1"
    local = [float(value) for value in tables["_ma_qa_metric_local.metric_value"]]
    np.testing.assert_allclose(local, model[2], atol=5.1e-3)
    assert float(tables["_ma_qa_metric_global.metric_value"][0]) == pytest.approx(model[2].mean(), abs=6e-3)


def test_the_same_residues_give_the_same_bytes(path, tmp_path, model):
    write(path, predicted_residues(*model))
    again = tmp_path / f"again{path.suffix}"
    write(again, predicted_residues(*model))
    assert again.read_bytes() == path.read_bytes()


def residue(number=1, x=0.0, confidence=50.0):
    return StructureResidue(name="GLY", number=number, atoms={"CA": (x, 0.0, 0.0)}, confidence=confidence)


@pytest.mark.parametrize(
    ("residues", "message"),
    [
        ([residue(x=float("nan"))], "GLY 1: .* is not a number"),
        ([residue(confidence=float("inf"))], "GLY 1: .* is not a number"),
    ],
)
def test_refused(path, residues, message):
    with pytest.raises(BioattnError, match=message):
        write(path, residues)
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("residues", "message"),
    [
        ([residue(10_000)], "no room for its number; write mmCIF"),
        ([residue(x=-1000.0)], "no room for its coordinates; write mmCIF"),
        ([residue(x=9999.9996)], "no room for its coordinates; write mmCIF"),
        ([residue(i) for i in range(10_000)], "more than the PDB format has room for; write mmCIF"),
    ],
)
def test_what_only_mmcif_has_room_for(tmp_path, residues, message):
    with pytest.raises(BioattnError, match=message):
        write(tmp_path / "s.pdb", residues)
    write(tmp_path / "s.cif", residues)
    assert [found.id[1] for found in read(tmp_path / "s.cif")] == [r.number for r in residues]
