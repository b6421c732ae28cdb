"""Structures and column mappings that were written are read back, by Biopython and by us."""

import gzip
import re

import numpy as np
import pytest
from Bio.PDB.MMCIF2Dict import MMCIF2Dict
from Bio.PDB.MMCIFParser import MMCIFParser
from Bio.PDB.PDBParser import PDBParser

from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.formats.structure_file import (
    ResidueKey,
    StructureResidue,
    write_bfactors,
    write_mmcif,
    write_pdb,
)
from bioattn.structures.chain import read_chain, read_chains
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


def test_mmcif_holds_plddt_for_viewers(tmp_path, model):
    path = tmp_path / "s.cif"
    write(path, predicted_residues(*model))
    tables = MMCIF2Dict(str(path))
    assert tables["data_"] == "my_model_1"
    local = [float(value) for value in tables["_ma_qa_metric_local.metric_value"]]
    np.testing.assert_allclose(local, model[2], atol=5.1e-3)
    assert float(tables["_ma_qa_metric_global.metric_value"][0]) == pytest.approx(model[2].mean(), abs=6e-3)


def residue(number=1, x=0.0, confidence=50.0):
    return StructureResidue(name="GLY", number=number, atoms={"CA": (x, 0.0, 0.0)}, confidence=confidence)


@pytest.mark.parametrize(
    ("residues", "message"),
    [
        ([residue(10_000)], "no room for its number; write mmCIF"),
        ([residue(x=-1000.0)], "no room for its coordinates; write mmCIF"),
        ([residue(i) for i in range(10_000)], "more than the PDB format has room for; write mmCIF"),
    ],
)
def test_what_only_mmcif_has_room_for(tmp_path, residues, message):
    with pytest.raises(BioattnError, match=message):
        write(tmp_path / "s.pdb", residues)
    write(tmp_path / "s.cif", residues)
    assert [found.id[1] for found in read(tmp_path / "s.cif")] == [r.number for r in residues]


# Two chains, an insertion code, a water, an alternative location, ANISOU; two models.
PDB = """\
HEADER    TEST
MODEL        1
ATOM      1  N   ALA A  10       1.000   2.000   3.000  1.00 10.00           N
ATOM      2  CA  ALA A  10       1.000   2.000   4.000  1.00 11.00           C
ANISOU    2  CA  ALA A  10     1000   1000   1000      0      0      0       C
ATOM      3  CA AGLY A  10A      1.000   2.000   5.000  0.50 12.00           C
ATOM      4  CA BGLY A  10A      1.500   2.000   5.000  0.50 12.50           C
TER
ATOM      5  CA  SER B  -3       1.000   2.000   6.000  1.00 13.00           C
HETATM    6  O   HOH A 200       1.000   2.000   7.000  1.00 14.00           O
ENDMDL
MODEL        2
ATOM      1  CA  ALA A  10       1.000   2.000   4.000  1.00 21.00           C
ENDMDL
END
"""
CIF = """\
data_X
#
_entry.id 'an entry'
#
loop_
_atom_site.group_PDB
_atom_site.id
_atom_site.type_symbol
_atom_site.label_atom_id
_atom_site.label_alt_id
_atom_site.label_comp_id
_atom_site.label_asym_id
_atom_site.label_entity_id
_atom_site.label_seq_id
_atom_site.pdbx_PDB_ins_code
_atom_site.Cartn_x
_atom_site.Cartn_y
_atom_site.Cartn_z
_atom_site.occupancy
_atom_site.B_iso_or_equiv
_atom_site.auth_seq_id
_atom_site.auth_asym_id
_atom_site.pdbx_PDB_model_num
ATOM   1 N N     . ALA A 1 1 ? 1.0 2.0 3.0 1.00 10.00 10  A 1
ATOM   2 C CA    . ALA A 1 1 ? 1.0 2.0 4.0 1.00 11.00 10  A 1
ATOM   3 C CA    . GLY A 1 2 A 1.0 2.0 5.0 1.00 9.5   10  A 1
ATOM   4 C CA    . SER B 1 1 ? 1.0 2.0 6.0 1.00 13.00 -3  B 1
HETATM 5 O "O5'" . HOH C 2 . ? 1.0 2.0 7.0 1.00 14.00 200 A 1
#
loop_
_other.a
_other.b
1 'not # an atom'
#
"""
VALUES = {ResidueKey("A", 10, ""): 12.345, ResidueKey("A", 10, "A"): 100.0}


def written(tmp_path, text, suffix):
    source = tmp_path / f"source{suffix}"
    source.write_bytes(text.encode())
    write_bfactors(source, tmp_path / f"out{suffix}", VALUES)
    return tmp_path / f"out{suffix}"


@pytest.mark.parametrize(
    ("text", "suffix"), [(PDB, ".pdb"), (CIF, ".cif"), (PDB.replace("\n", "\r\n"), ".ent")]
)
def test_biopython_reads_what_was_painted(tmp_path, text, suffix):
    path = written(tmp_path, text, suffix)
    parser = MMCIFParser(QUIET=True) if suffix == ".cif" else PDBParser(QUIET=True)
    for model in parser.get_structure("x", str(path)):
        for chain in model:
            for residue in chain:
                _, number, code = residue.id
                key = ResidueKey(chain.id, number, code.strip())
                for atom in residue.get_unpacked_list():
                    assert atom.bfactor == pytest.approx(VALUES.get(key, -1.0), abs=0.006)


def test_every_other_byte_of_a_pdb_file_is_kept(tmp_path):
    out = written(tmp_path, PDB, ".pdb").read_text().splitlines(keepends=True)
    for before, after in zip(PDB.splitlines(keepends=True), out, strict=True):
        if before.startswith(("ATOM", "HETATM")):
            assert (before[:60], before[66:]) == (after[:60], after[66:])
            assert after[60:66] != before[60:66]
        else:
            assert before == after


def test_everything_else_of_an_mmcif_file_is_kept(tmp_path):
    (tmp_path / "source.cif").write_text(CIF)
    before, after = (
        MMCIF2Dict(str(path)) for path in (tmp_path / "source.cif", written(tmp_path, CIF, ".cif"))
    )
    assert before.pop("_atom_site.B_iso_or_equiv") != after.pop("_atom_site.B_iso_or_equiv")
    assert before == after
    alone, other = (tmp_path / "out.cif").read_text(), CIF.replace("data_X", "data_Y")
    assert written(tmp_path, f"data_W\n_a.b c\n{CIF}{other}", ".cif").read_text() == (
        f"data_W\n_a.b c\n{alone}{other}"
    )
    assert "_entry.id   ?\n" in written(tmp_path, CIF.replace("'an entry'", "''"), ".cif").read_text()


def test_an_absent_column_of_b_factors_is_added(tmp_path):
    without = CIF.replace("_atom_site.B_iso_or_equiv\n", "")
    for value in ("10.00", "11.00", "9.5  ", "13.00", "14.00"):
        without = without.replace(f" 1.00 {value}", " 1.00")
    with_column = MMCIF2Dict(str(written(tmp_path, CIF, ".cif")))
    assert MMCIF2Dict(str(written(tmp_path, without, ".cif"))) == with_column


def test_numbers_of_atoms_and_packed_files(tmp_path):
    source = tmp_path / "x.pdb.gz"
    source.write_bytes(gzip.compress(PDB.encode()))
    assert write_bfactors(source, tmp_path / "out.pdb", VALUES) == 5
    assert (tmp_path / "out.pdb").read_text() == written(tmp_path, PDB, ".pdb").read_text()


def test_models_with_other_atoms_are_painted_alike(tmp_path):
    source = tmp_path / "x.pdb"
    source.write_text(
        PDB.replace("CA  ALA A  10       1.000   2.000   4.000  1.00 21", "CA  SER B  -3      1  2 3 1")
    )
    assert (
        write_bfactors(
            source, tmp_path / "o.pdb", {ResidueKey("B", -3, ""): 5}, read_chain(source, "B").atoms
        )
        == 2
    )


@pytest.mark.parametrize("suffix", [".pdb", ".cif"])
def test_of_copies_under_one_name_one_is_painted(tmp_path, suffix):
    pdb, source = "", tmp_path / f"x{suffix}"
    for model in (1, 2):
        pdb += f"MODEL {model:8}\n"
        for copy, residues in enumerate((["MET", "ALA"], ["SER", "ALA", "LEU"])):
            for number, name in enumerate(residues, start=1):
                place = f"{number:8.3f}{60.0 * copy:8.3f}{0:8.3f}"
                pdb += f"ATOM      1  CA  {name}  {number:4}    {place}  1.00  5.00           C\n"
            pdb += "TER\n"
        pdb += "ENDMDL\n"
    items = (
        "model_num",
        "label_atom_id",
        "label_comp_id",
        "auth_asym_id",
        "auth_seq_id",
        "Cartn_x",
        "Cartn_y",
    )
    header = "".join(f"_atom_site.{item.replace('model', 'pdbx_PDB_model')}\n" for item in items)
    cif, model, copy = f"data_x\nloop_\n{header}_atom_site.Cartn_z\n_atom_site.B_iso_or_equiv\n", 0, 0
    for line in pdb.splitlines():
        model += line.startswith("MODEL")
        if line.startswith("ATOM"):
            cif += f"{model} CA {line[17:20]} A {int(line[22:26])} {line[30:54]} 5.0\n"
    source.write_text(pdb if suffix == ".pdb" else cif)
    assert [chain.letters for chain in read_chains(source)] == ["MA", "SAL"]
    name = "_2" if suffix == ".pdb" else "A2"
    chain = read_chain(source, name)
    values = {ResidueKey(chain.label, number, ""): 10.0 * number for number in chain.numbers}
    assert write_bfactors(source, tmp_path / f"out{suffix}", values, chain.atoms) == 6
    out = tmp_path / f"out{suffix}"
    numbers = [line[60:66] for line in out.read_text().splitlines() if line.startswith("ATOM")]
    if suffix == ".cif":
        numbers = MMCIF2Dict(str(out))["_atom_site.B_iso_or_equiv"]
    assert list(map(float, numbers)) == [-1, -1, 10, 20, 30] * 2


@pytest.mark.parametrize(
    ("text", "output", "error", "sentence"),
    [
        (PDB, "x.cif", BioattnError, "the structure is PDB; end the name in .pdb"),
        (PDB, "x.txt", SettingsError, "end its name in .pdb or .cif"),
        (CIF.replace("Cartn_x", "Cartn_w"), "x.cif", FormatError, "mmCIF ('_atom_site.Cartn_x')"),
        (CIF.partition(" 14.00")[0], "x.cif", FormatError, "an atom has fewer values than columns"),
        (
            CIF.replace("1 'not", "'not"),
            "x.cif",
            FormatError,
            "cannot be read as mmCIF (Inconsistent list sizes",
        ),
    ],
)
def test_bad_input_is_one_sentence_and_no_file(tmp_path, text, output, error, sentence):
    source = tmp_path / "source"
    source.write_text(text)
    with pytest.raises(error, match=re.escape(sentence)):
        write_bfactors(source, tmp_path / output, VALUES)
    assert [path.name for path in tmp_path.iterdir()] == ["source"]
