"""What one of our writers wrote, our readers give back: the pairs that have no page of tests of their own."""

import contextlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bioattn.errors import BioattnError
from bioattn.formats.structure_output import StructureResidue, write_mmcif, write_pdb
from bioattn.structures.chain import Chain, read_chain
from bioattn.structures.column_mapping import ColumnMapping, read_mapping, write_mapping

NAMES = ("ALA", "GLY", "MET", "TRP", "UNK")


COORDINATES = st.tuples(*[st.floats(-999, 9999).map(lambda value: round(value, 3))] * 3)


@st.composite
def structures(draw):
    numbers = draw(st.lists(st.integers(-999, 9999), min_size=1, max_size=6, unique=True))
    return [
        StructureResidue(
            name=(name := draw(st.sampled_from(NAMES))),
            number=number,
            atoms={"N": draw(COORDINATES), "CA": draw(COORDINATES), "C": draw(COORDINATES)}
            | ({} if name == "GLY" else {"CB": draw(COORDINATES)}),
            confidence=draw(st.floats(0, 100)),
        )
        for number in numbers
    ]


@given(structures(), st.booleans())
def test_structures(tmp_path, residues, mmcif):
    path = tmp_path / "x"
    if mmcif:
        write_mmcif(path, residues, name="x")
    else:
        write_pdb(path, residues)
    chain = read_chain(path)
    assert chain.name == "A"
    assert chain.numbers == [residue.number for residue in residues]
    assert chain.residue_names == [residue.name for residue in residues]
    atoms = [residue.atoms for residue in residues]
    np.testing.assert_allclose(chain.ca, [each["CA"] for each in atoms], atol=1e-3, rtol=1e-6)
    np.testing.assert_allclose(chain.cb, [each.get("CB", each["CA"]) for each in atoms], atol=1e-3, rtol=1e-6)


@given(structures(), st.data())
def test_mappings(tmp_path, residues, data):
    length = len(residues)
    chain = Chain(
        name="A",
        letters="X" * length,
        residue_names=[residue.name for residue in residues],
        numbers=[residue.number for residue in residues],
        insertion_codes=data.draw(
            st.lists(st.sampled_from(["", "A", "B"]), min_size=length, max_size=length)
        ),
        ca=np.zeros((length, 3), np.float32),
        cb=np.ones((length, 3), np.float32),
        bfactors=np.zeros(0, np.float32),
        atom37=np.full((length, 37, 3), np.nan, np.float32),
        num_missing_cb=0,
    )
    which = data.draw(st.lists(st.integers(0, length - 1), unique=True).map(sorted))
    columns = data.draw(
        st.lists(st.integers(0, 30), min_size=len(which), max_size=len(which), unique=True).map(sorted)
    )
    mapping = ColumnMapping(
        columns=np.array(columns, int), residues=np.array(which, int), row=0, identity=1.0
    )
    write_mapping(tmp_path / "x.tsv", mapping, chain)
    if not which:
        with contextlib.suppress(BioattnError):
            assert len(read_mapping(tmp_path / "x.tsv", chain, 31).columns) == 0
        return
    read = read_mapping(tmp_path / "x.tsv", chain, 31)
    assert (read.columns.tolist(), read.residues.tolist()) == (columns, which)
