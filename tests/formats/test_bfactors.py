"""B-factors written over: Biopython reads them back, and nothing else has changed."""

import gzip
import re

import pytest
from Bio.PDB.MMCIF2Dict import MMCIF2Dict
from Bio.PDB.MMCIFParser import MMCIFParser
from Bio.PDB.PDBParser import PDBParser

from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.formats.bfactors import ResidueKey, write_bfactors

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


def test_numbers_of_atoms_and_packed_files(tmp_path):
    source = tmp_path / "x.pdb.gz"
    source.write_bytes(gzip.compress(PDB.encode()))
    assert write_bfactors(source, tmp_path / "out.pdb", VALUES) == 5
    assert (tmp_path / "out.pdb").read_text() == written(tmp_path, PDB, ".pdb").read_text()


@pytest.mark.parametrize(
    ("text", "output", "error", "sentence"),
    [
        (PDB, "x.cif", BioattnError, "the structure is PDB; end the name in .pdb"),
        (CIF, "x.pdb", BioattnError, "the structure is mmCIF; end the name in .cif"),
        (PDB, "x.txt", SettingsError, "end its name in .pdb or .cif"),
        (CIF.replace("B_iso", "C_iso"), "x.cif", FormatError, "has no atoms with B-factors"),
        ("data_x\n_a.b 1\n", "x.cif", FormatError, "has no atoms with B-factors"),
        (CIF.partition(" 14.00")[0], "x.cif", FormatError, "the file is cut off"),
    ],
)
def test_bad_input_is_one_sentence_and_no_file(tmp_path, text, output, error, sentence):
    source = tmp_path / "source"
    source.write_text(text)
    with pytest.raises(error, match=re.escape(sentence)):
        write_bfactors(source, tmp_path / output, VALUES)
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(BioattnError, match="no such file"):
        write_bfactors(tmp_path / "x.pdb", tmp_path / "y.pdb", {})
