"""`bioattn prepare templates`: real structures on real queries, compared with Biopython's reading of them."""

import gzip
import json

import numpy as np
import pytest
from Bio.PDB import PDBParser, PPBuilder
from Bio.PDB.MMCIFParser import MMCIFParser
from Bio.PDB.vectors import calc_dihedral

from bioattn.alignments.templates import NOT_ALIGNED, read_templates
from bioattn.store.inspection import inspect_file, validate_file
from bioattn.structures.ideal_geometry import ATOM37, CHI_CHAINS, torsion_features
from tests.conftest import REPOSITORY
from tests.making import bioattn

DATA = REPOSITORY / "data"


@pytest.fixture
def folder(shared):
    return shared / "data/msa_structure"


def prepare(*words):
    return bioattn("prepare", "templates", *words, "-q")


@pytest.mark.shared
def test_the_query_itself_gets_all_atoms_and_the_angles_of_its_structure(folder, tmp_path):
    """Myoglobin from mmCIF; the angles against Biopython's."""
    source = folder / "structure/protenix_102m.cif"
    query = (folder / "msa/protenix_102m.a3m").read_text().split("\n")[1]
    packed = tmp_path / "no special name.cif.gz"
    packed.write_bytes(gzip.compress(source.read_bytes()))
    (tmp_path / "q.fasta").write_text(f">myoglobin\n{query}\n")
    assert prepare(tmp_path / "q.fasta", packed, "-o", tmp_path / "t.h5") == 0
    templates = read_templates(tmp_path / "t.h5")
    assert (templates.query, templates.letters) == ("myoglobin", query)
    assert templates.names == ["no special name_A"]
    assert templates.coverage[0] == templates.identity[0] == 1
    chain = MMCIFParser(QUIET=True).get_structure("x", source)[0]["A"]
    residues = [residue for residue in chain if residue.id[0] == " "]
    assert templates.residue_numbers[0] == [str(residue.id[1]) for residue in residues]
    angles = torsion_features(templates.aatype, templates.atom37, templates.atom37_mask.astype(np.float32))[0]
    sine, cosine, known = angles[:, 22:36:2], angles[:, 23:36:2], angles[:, 50:]
    found = np.arctan2(sine, cosine)
    compared = 0
    for place, residue in enumerate(residues):
        for atom in residue:
            if atom.name in ATOM37:
                np.testing.assert_array_equal(templates.atom37[0, place, ATOM37.index(atom.name)], atom.coord)
        wanted = {}
        if place:
            before = residues[place - 1]
            wanted[0] = [before["CA"], before["C"], residue["N"], residue["CA"]]
            wanted[1] = [before["C"], residue["N"], residue["CA"], residue["C"]]
        if place + 1 < len(residues):
            wanted[2] = [residue["N"], residue["CA"], residue["C"], residues[place + 1]["N"]]
        names = CHI_CHAINS[residue.get_resname()]
        for chi in range(len(names) - 3):
            wanted[3 + chi] = [residue[name] for name in names[chi : chi + 4]]
        assert known[place].tolist() == [float(kind in wanted or (kind == 2)) for kind in range(7)], (
            residue.get_resname()
        )
        for kind, atoms in wanted.items():
            difference = found[place, kind] - calc_dihedral(*(atom.get_vector() for atom in atoms))
            # psi is told by the oxygen, which is nearly in the plane of the next nitrogen.
            limit = 0.3 if kind == 2 else 2e-3
            assert abs((difference + np.pi) % (2 * np.pi) - np.pi) < limit
            compared += 1
    assert compared > 700
    assert validate_file(tmp_path / "t.h5") == []
    figures = inspect_file(tmp_path / "t.h5").figures
    assert (figures["templates"], figures["coverage"]) == (["no special name_A"], [1])


@pytest.mark.shared
def test_relatives_are_found_among_strangers(folder, tmp_path, capfd):
    """Pfam's FKBP family: row 1 is a bacterial relative of the one FKBP among 26 structures of other families."""
    structures = sorted((folder / "structure").glob("PF0025*.pdb")) + sorted(
        (folder / "structure").glob("PF00[01]*.pdb")
    )
    source = folder / "msa/PF00254_2PPN_A.fasta"
    assert bioattn("prepare", "templates", source, *structures, "-o", tmp_path / "t.h5") == 0
    said = capfd.readouterr().err
    assert said.count("no chain aligns to the query") == len(structures) - 1
    assert "PF00254_2PPN_A_A: 87 of 92 residues aligned (coverage 95 %), identity 49 %" in said
    record = json.loads((tmp_path / "bioattn-records/t.h5.json").read_text())
    figures = [record[name] for name in ("templates", "coverage", "identity")]
    assert figures == [["PF00254_2PPN_A_A"], [0.9457], [0.4943]]
    templates = read_templates(tmp_path / "t.h5")
    (chain,) = PDBParser(QUIET=True).get_structure("x", structures[0])[0]
    (letters,) = [str(peptide.get_sequence()) for peptide in PPBuilder().build_peptides(chain)]
    aligned = [number for number in templates.residue_numbers[0] if number]
    numbers = [str(residue.id[1]) for residue in chain if residue.id[0] == " "]
    assert [n for n in numbers if n in aligned] == aligned  # in order, none twice
    equal = sum(
        letters[numbers.index(number)] == letter
        for number, letter in zip(templates.residue_numbers[0], templates.letters, strict=True)
        if number
    )
    assert equal / len(aligned) == pytest.approx(templates.identity[0])
    assert ((templates.aatype == NOT_ALIGNED) == (np.array(templates.residue_numbers) == "")).all()
    name = source.read_text().split(">")[5].split()[0]
    assert prepare(source, structures[0], "--query", name, "-o", tmp_path / "other.h5") == 0
    assert read_templates(tmp_path / "other.h5").query == name
