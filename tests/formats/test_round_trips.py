"""What one of our writers wrote, our readers give back: the pairs that have no page of tests of their own."""

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bioattn.errors import BioattnError
from bioattn.formats.rr import read_rr, write_rr
from bioattn.formats.structure_output import StructureResidue, write_mmcif, write_pdb
from bioattn.interpret.contacts.contact_regression import ContactRegression, read_regression, write_regression
from bioattn.io.dataset_file import DatasetKind, put_metadata
from bioattn.io.files import parse_json, read_json, write_json
from bioattn.io.hdf5_output import hdf5_file, put_array, put_text
from bioattn.structures.chain import Chain, read_chain
from bioattn.structures.column_mapping import ColumnMapping, read_mapping, write_mapping

FINITE = st.floats(allow_nan=False, allow_infinity=False)
NAMES = ("ALA", "GLY", "MET", "TRP", "UNK")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | FINITE | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    ),
    st.sampled_from(["x.json", "x.json.gz"]),
)
def test_json(tmp_path, content, name):
    write_json(tmp_path / name, content)
    assert read_json(tmp_path / name) == content


@given(st.text() | st.binary())
def test_what_is_no_json_is_refused(text):
    with contextlib.suppress(BioattnError):
        parse_json(text, "x")


@given(st.integers(2, 40), st.randoms(use_true_random=False))
def test_casp_contacts(tmp_path, length, random):
    rng = np.random.default_rng(random.randrange(1 << 32))
    half = np.triu(rng.random((length, length)), 1)
    sequence = "".join(rng.choice(list("ACDEFGHIKLMNPQRSTVWYX"), length))
    path = tmp_path / "x.rr"
    number = write_rr(path, sequence, half + half.T, target="T1 x", method=["m"])
    found = read_rr(path)
    assert (found.target, found.sequence, len(found.pairs)) == ("T1 x", sequence, number)
    for i, j, least, most, probability in found.pairs:
        assert (least, most) == (0, 8)
        assert probability == pytest.approx(half[i - 1, j - 1], abs=5.1e-6)
    expected = [(i, j) for i in range(length) for j in range(i + 1, length) if j - i >= 6]
    assert {(pair.i - 1, pair.j - 1) for pair in found.pairs} == {p for p in expected if half[p] >= 5e-6}
    values = [pair.probability for pair in found.pairs]
    assert values == sorted(values, reverse=True)


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


@given(
    st.dictionaries(st.text(min_size=1), st.lists(FINITE, min_size=1, max_size=4), min_size=1, max_size=3),
    FINITE,
    st.lists(st.text(), max_size=3),
)
def test_contact_regressions(tmp_path, weights, intercept, proteins):
    written = ContactRegression(
        model_sha256="a" * 64,
        weights=weights,
        intercept=intercept,
        proteins=proteins,
        inverse_strength=0.15,
    )
    write_regression(tmp_path / "x.json", written)
    assert read_regression(tmp_path / "x.json") == written


ARRAYS = hnp.arrays(
    st.sampled_from(["<f4", "<f8", "u1", "<i4", "<i8"]), hnp.array_shapes(min_dims=1, max_dims=3, max_side=4)
)


@given(
    ARRAYS,
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), min_size=1, max_size=4),
    st.text(),
)
def test_arrays_of_datasets(tmp_path, array, texts, note):
    kind = DatasetKind(name="test", format="test", version=1, command="test")
    with hdf5_file(tmp_path / "x.h5") as file:
        put_array(file, "group/numbers", array)
        put_text(file, "texts", texts)
        put_metadata(file, {"note": note})
        kind.write_attributes(file)
    with kind.open(tmp_path / "x.h5") as arrays:
        read = arrays.get("group/numbers", array.dtype.str[1:])
        assert (read.dtype, read.shape, read.tobytes()) == (array.dtype, array.shape, array.tobytes())
        assert arrays.text("texts") == texts
        assert arrays.metadata() == {"note": note}
