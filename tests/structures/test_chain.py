"""Chains of PDB and mmCIF files, and which of them are related."""

import numpy as np
import pytest
from Bio.PDB.MMCIF2Dict import MMCIF2Dict

from bioattn.alignments.contact_preparation import families, related_pairs
from bioattn.errors import BioattnError
from bioattn.structures.chain import read_chain, read_chains

NAMES = "ALA ARG ASN ASP CYS GLN GLU GLY HIS ILE LEU LYS MET PHE PRO SER THR TRP TYR VAL"
LETTERS = dict(zip(NAMES.split(" "), "ARNDCQEGHILKMFPSTWYV", strict=True))


def atom(
    number,
    residue,
    x,
    name="CA",
    *,
    record="ATOM",
    altloc=" ",
    chain="A",
    code=" ",
    occupancy=1.0,
    element="C",
):
    return (
        f"{record:6}{1:5} {name:^4}{altloc}{residue:>3} {chain}{number:4}{code}   "
        f"{x:8.3f}{0.0:8.3f}{0.0:8.3f}{occupancy:6.2f}{0.0:6.2f}          {element:>2}"
    )


def pdb(path, *lines):
    path.write_text("\n".join([*lines, "END", ""]))
    return path


def test_corner_cases_of_a_pdb_file(tmp_path):
    file = pdb(
        tmp_path / "x.pdb",
        "MODEL        1",
        atom(-1, "ALA", 0, "CA"),
        atom(-1, "ALA", 1, "CB"),
        atom(5, "GLY", 2, "CA"),
        atom(5, "SER", 3, "CA", code="A"),
        atom(5, "SER", 4, "CB", code="A", altloc="A", occupancy=0.3),
        atom(5, "SER", 5, "CB", code="A", altloc="B", occupancy=0.7),
        atom(7, "MSE", 6, "CA", record="HETATM", element="CA"),
        atom(7, "MSE", 7, "CB", record="HETATM"),
        atom(8, "TRP", 7, "N", element="N"),
        atom(9, "ASN", 8, "CA", altloc="A", occupancy=0.6),
        atom(9, "ASP", 9, "CA", altloc="B", occupancy=0.4),
        atom(10, "UNK", 10, "CA"),
        atom(14, "SEC", 14, "CA", record="HETATM"),
        atom(11, "HOH", 11, "O", record="HETATM", element="O"),
        atom(12, "CA", 12, "CA", record="HETATM", element="CA"),
        atom(13, "GLU", 13, "CA", record="HETATM"),
        atom("A000", "HOH", 13, "O", record="HETATM", element="O"),
        atom("270F", "HOH", 13, "O", record="HETATM", element="O"),
        atom("A001", "Leu", 15, "CA"),
        atom(15, "NMA", 16, "CA") + "\n" + atom(15, "NMA", 16, "N", element="N"),
        "MODEL        2",
        atom(-1, "TRP", 99, "CA"),
        "ENDMDL",
    )
    chain = read_chain(file)
    assert chain.letters == "AGSMNXUL"
    assert chain.residue_names == ["ALA", "GLY", "SER", "MSE", "ASN", "UNK", "SEC", "LEU"]
    assert chain.numbers == [-1, 5, 5, 7, 9, 10, 14, 10_001]
    assert chain.insertion_codes == ["", "", "A", "", "", "", "", ""]
    assert chain.ca[:, 0].tolist() == [0, 2, 3, 6, 8, 10, 14, 15]
    assert chain.cb[:, 0].tolist() == [1, 2, 5, 7, 8, 10, 14, 15]
    assert chain.num_missing_cb == 4


def test_hetatm_residues_are_those_with_a_peptide_bond(tmp_path):
    """D amino acids, unknown ones and standard ones; free ones are ligands, S-adenosylhomocysteine among them."""
    bonded, free = ["DAL", "SER", "ZZ9", "MSE"], ["SAH", "GLU"]
    file = pdb(
        tmp_path / "x.pdb",
        *(
            atom(number, name, x * number + away, part, record="HETATM", element=part[0])
            for x, names in ((3.8, bonded), (20, free))
            for number, name in enumerate(names, start=1 if names is bonded else 7)
            for part, away in (("N", 0), ("CA", 1.3), ("C", 2.5))
        ),
    )
    (chain,) = read_chains(file)
    assert (chain.letters, chain.numbers) == ("ASXM", [1, 2, 3, 4])


@pytest.mark.parametrize(
    ("file", "chain"), [("PF00254_2PPN_A.pdb", "A"), ("sca_S1A_3TGI.pdb", "E"), ("psicov_16pkA.pdb", "_")]
)
def test_pdb_chains_equal_their_columns(shared, file, chain):
    """The ATOM records cut by columns, the alternative location with most occupancy kept."""
    path = shared / "data" / "msa_structure" / "structure" / file
    best: dict[tuple[str, str], dict[str, tuple[float, str, list[float]]]] = {}
    for line in path.read_text().splitlines():
        if line.startswith("ATOM") and line[21] == chain.replace("_", " "):
            atoms = best.setdefault((line[22:26].strip(), line[26].strip()), {})
            name, occupancy = line[12:16].strip(), float(line[54:60])
            if name not in atoms or occupancy > atoms[name][0]:
                place = [float(line[start : start + 8]) for start in (30, 38, 46)]
                atoms[name] = (occupancy, line[17:20], place)
    wanted = {key: atoms for key, atoms in best.items() if "CA" in atoms}
    found = read_chain(path, chain)
    keys = list(zip(map(str, found.numbers), found.insertion_codes, strict=True))
    assert keys == list(wanted)
    assert found.letters == "".join(LETTERS[atoms["CA"][1]] for atoms in wanted.values())
    np.testing.assert_allclose(found.ca, [atoms["CA"][2] for atoms in wanted.values()], atol=1e-4)
    cb = [atoms.get("CB", atoms["CA"])[2] for atoms in wanted.values()]
    np.testing.assert_allclose(found.cb, cb, atol=1e-4)


def test_mmcif_chains_equal_their_loop(shared):
    """Residues numbered by the authors, not by the sequence; a CB missing from the file."""
    path = shared / "data" / "msa_structure" / "structure" / "protenix_1k1a.cif"
    table = MMCIF2Dict(str(path))
    names = ("group_PDB", "auth_asym_id", "auth_seq_id", "label_atom_id", "label_comp_id", "Cartn_x")
    atoms = zip(*(table[f"_atom_site.{name}"] for name in names), strict=True)
    wanted = [
        (int(number), residue, float(x))
        for group, chain, number, name, residue, x in atoms
        if (group, chain, name) == ("ATOM", "A", "CA")
    ]
    found = read_chain(path, "A")
    assert found.numbers == [number for number, _, _ in wanted]
    assert found.letters == "".join(LETTERS[residue] for _, residue, _ in wanted)
    np.testing.assert_allclose(found.ca[:, 0], [x for _, _, x in wanted], atol=1e-4)


def test_ca_stands_for_a_missing_cb(shared):
    chain = read_chain(shared / "data" / "msa_structure" / "structure" / "af3pt_721p.cif", "A")
    missing = chain.numbers.index(122)
    assert (chain.num_missing_cb, chain.letters[missing]) == (1, "A")
    np.testing.assert_array_equal(chain.cb[missing], chain.ca[missing])


def test_chains_that_are_not_there(tmp_path):
    file = pdb(
        tmp_path / "x.pdb",
        atom(1, "ALA", 0),
        atom(1, "ALA", 0, chain="B"),
        atom(1, "DA", 0, "P", chain="C", element="P"),
    )
    with pytest.raises(BioattnError, match=r"2 protein chains \('A', 'B'\); name the one .*, with --chain"):
        read_chain(file)
    with pytest.raises(BioattnError, match="holds no protein chain with CA atoms"):
        read_chain(pdb(tmp_path / "dna.pdb", atom(1, "DA", 0, "P", element="P")))
    with pytest.raises(BioattnError, match=r"no chain 'Z'; protein chains: 'A', 'B'"):
        read_chain(file, "Z")
    with pytest.raises(BioattnError, match="chain 'C' has no amino acids"):
        read_chain(file, "C")


def copy(x, numbers, chain="A", shift=0, segment=""):
    residues = [NAMES.split(" ")[(number - shift) % 20] for number in numbers]
    lines = [atom(number, name, x, chain=chain) for number, name in zip(numbers, residues, strict=True)]
    return [f"{line[:66]}      {segment:4}{line[76:]}" for line in lines]


COPIES = {
    "numbers that start again, below those of the first": copy(0, range(5, 20)) + copy(60, range(1, 25)),
    "TER": [*copy(0, range(5, 20), " "), "TER", *copy(60, range(5, 25), " ")],
    "TER, and numbers that go on": [*copy(0, range(5, 20)), "TER", *copy(60, range(20, 35), shift=15)],
    "segments": copy(0, range(5, 20), " ", 0, "PROA") + copy(60, range(20, 35), " ", 15, "PROB"),
}


@pytest.mark.parametrize("told_apart_by", COPIES)
def test_copies_without_letters_of_their_own_are_not_joined(tmp_path, caplog, told_apart_by):
    file = pdb(tmp_path / "x.pdb", *COPIES[told_apart_by])
    chain = read_chain(file)
    assert chain.numbers == list(range(5, 20))
    assert set(chain.ca[:, 0]) == {0.0}
    assert "the first is taken" in caplog.text
    first, second = read_chains(file)
    assert second.name == f"{first.name}2"
    assert set(second.ca[:, 0]) == {60.0}
    assert read_chain(file, second.name).numbers == second.numbers


def test_a_chain_goes_on_behind_a_gap(tmp_path, caplog):
    """TER at a gap, other locations behind all first ones, waters that are numbered from 1."""
    lines = [
        *copy(0, range(1, 12)),
        "TER",
        *copy(0, range(15, 20)),
        *(each[:16] + "B" + each[17:] for each in copy(9, range(15, 20))),
        *(atom(number, "HOH", 5, "O", record="HETATM", element="O") for number in range(1, 9)),
        "END",
        *copy(99, range(1, 12)),  # the next frame
    ]
    (chain,) = read_chains(pdb(tmp_path / "x.pdb", *lines))
    assert chain.numbers == [*range(1, 12), *range(15, 20)]
    assert set(chain.ca[:, 0]) == {0.0}
    assert not caplog.text


def test_two_kinds_of_amino_acid_leave_the_likelier(tmp_path):
    """Without letters of alternative locations, and where one kind is a modified residue."""
    file = pdb(
        tmp_path / "x.pdb",
        atom(1, "ALA", 0),
        atom(2, "SER", 1, occupancy=0.3),
        atom(2, "SER", 2, "CB", occupancy=0.3),
        atom(2, "THR", 3, occupancy=0.7),
        atom(3, "MET", 4, altloc="A", occupancy=0.4),
        atom(3, "MSE", 5, altloc="B", occupancy=0.6, record="HETATM"),
        atom(4, "HSD", 6),
        atom(5, "SER", 7),  # a backbone that both share
        atom(5, "SER", 8, "CB", altloc="A", occupancy=0.2),
        atom(5, "THR", 9, "CB", altloc="B", occupancy=0.8),
    )
    chain = read_chain(file)
    assert chain.residue_names == ["ALA", "THR", "MSE", "HSD", "THR"]
    assert chain.letters == "ATMHT"
    assert chain.ca[:, 0].tolist() == [0, 3, 5, 6, 7]
    assert chain.cb[:, 0].tolist() == [0, 3, 5, 6, 9]


def test_mmcif_without_optional_columns_or_with_other_blocks(tmp_path):
    names = [
        *(f"label_{name}_id" for name in ("atom", "comp", "asym", "seq")),
        "Cartn_x",
        "Cartn_y",
        "Cartn_z",
    ]
    rows = ["CA MET A 1 1 0 0 ? ?", "CB MET A 1 2 0 0 . ?", "CA GLY A 2 3 0 0 1 ?", "O HOH B . 9 0 0 1 ?"]
    file = tmp_path / "x.cif"
    header = "".join(f"_atom_site.{name}\n" for name in [*names, "occupancy", "auth_seq_id"])
    text = f"data_x\nloop_\n{header}" + "\n".join(rows) + "\n"
    blocks = f"\ufeffDATA_info\n_entry.id x\n{text}{text.replace('GLY', 'ALA')}_exptl.method NMR\n"
    for content in (text, blocks):
        file.write_text(content)
        chain = read_chain(file)
        assert (chain.name, chain.letters, chain.numbers) == ("A", "MG", [1, 2])
        assert chain.cb[:, 0].tolist() == [2, 3]
    file.write_text(text.replace("label_seq_id", "other").replace("auth_seq_id", "another"))
    with pytest.raises(BioattnError, match=r"it has no _atom_site.auth_seq_id"):
        read_chain(file)


AMINO_ACIDS = np.array(list("ACDEFGHIKLMNPQRSTVWY"))


def test_planted_relatives_are_found_and_nothing_else():
    random = np.random.default_rng(4)
    sequences = ["".join(random.choice(AMINO_ACIDS, 120)) for _ in range(12)]
    copy = np.array(list(sequences[3]))
    changed = random.permutation(120)[:60]
    copy[changed] = random.choice(AMINO_ACIDS, 60)
    sequences += ["GG" + "".join(copy)[20:], ""]
    found = related_pairs(sequences)
    assert [(pair.first, pair.second) for pair in found] == [(3, 12)]
    assert 0.45 < found[0].identity < 0.65
    assert families(14, found) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 3, 13]


def test_families_join_through_others():
    sequences = ["MKTAYIAKQRQISFVKSHFSRQ", "MKTAYIAKQRQISFVKSHFSRQLEERLGLIEVQAPILSRVG", "LEERLGLIEVQAPILSRVG"]
    found = related_pairs(sequences)
    assert [(pair.first, pair.second) for pair in found] == [(0, 1), (1, 2)]
    assert families(3, found) == [0, 0, 0]
