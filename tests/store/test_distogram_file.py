"""What `inspect` and `validate` say of a prediction's files, whole and damaged."""

import shutil

import h5py
import numpy as np
import pytest

from bioattn.errors import FormatError
from bioattn.models.evoformer.config import Representation
from bioattn.store.inspection import inspect_file, validate_file
from tests.making import write_small_prediction

SIZE = 9


@pytest.fixture
def folder(tmp_path):
    random = np.random.default_rng(1)
    (tmp_path / "out").mkdir()
    write_small_prediction(
        tmp_path / "out",
        "ACDEFG-HIKL",
        [0, 1, 2, 3, 5, 6, 7, 9, 10],
        aligned_error=random.random((SIZE, SIZE), dtype=np.float32),
        ptm=0.5,
        representations={Representation.MSA: random.random((3, SIZE, 5), dtype=np.float32)},
    )
    return tmp_path / "out"


def test_whole_files_are_described_and_valid(folder):
    described = inspect_file(folder / "distogram.h5")
    assert described.kind == "distogram"
    assert described.figures["arrays"]["probability"] == "9 × 9 × 4"
    assert described.figures["columns"] == 9
    assert inspect_file(folder / "representations.h5").figures["arrays"] == {"msa": "3 × 9 × 5"}
    assert inspect_file(folder).kind == "prediction"
    assert inspect_file(folder.parent).figures == {"predictions": 1, "alignments": ["out"]}
    for path in (folder, folder.parent, folder / "distogram.h5", folder / "representations.h5"):
        assert validate_file(path) == []
    with h5py.File(folder / "distogram.h5") as file:
        np.testing.assert_array_equal(file["residue_number"], [1, 2, 3, 4, 6, -1, 7, 9, 10])
        np.testing.assert_array_equal(file["column_j"], [1, 2, 3, 4, 6, 7, 8, 10, 11])
        assert file["probability"].dims[1][0] == file["column_j"]


def test_a_flipped_bit_is_found(folder):
    path = folder / "distogram.h5"
    with h5py.File(path) as file:
        place = file["contact_probability"].id.get_chunk_info(0).byte_offset
    content = bytearray(path.read_bytes())
    content[place + 5] ^= 1
    path.write_bytes(content)
    (finding,) = validate_file(path)
    assert "checksum does not match" in str(finding)
    (finding,) = validate_file(folder)
    assert finding.where == "distogram.h5"
    (finding,) = validate_file(folder.parent)
    assert finding.where == "out/distogram.h5"


def test_every_file_of_a_prediction_is_looked_at(folder):
    whole = (folder / "contacts.rr").read_text()
    (folder / "contacts.rr").write_text(whole.replace(" 0 8 ", " 0 8 8 ", 1))
    (finding,) = validate_file(folder)
    assert finding.where == "contacts.rr line 7"
    (folder / "contacts.rr").write_text(whole)
    (folder / "contacts.tsv").write_text("")
    (finding,) = validate_file(folder)
    assert str(finding) == "error: contacts.tsv: is empty"
    (folder / "contacts.tsv").unlink()
    (finding,) = validate_file(folder)
    assert "contacts.tsv of the prediction is missing" in str(finding)


def test_the_files_of_a_prediction_must_say_the_same(folder):
    """Columns 7 and 12 of the alignment were left out; the pairs are those at least 6 apart."""
    table, listed, scores = (folder / name for name in ("contacts.tsv", "contacts.rr", "scores.json"))
    lines = table.read_text().splitlines(keepends=True)
    cells = lines[2].split("\t")
    with h5py.File(folder / "distogram.h5") as file:
        columns = file["column_i"][:].tolist()
        places = [columns.index(int(cell)) for cell in cells[:2]]
        assert abs(file["contact_probability"][tuple(places)] - float(cells[6])) < 1e-5
    edits = [
        *(
            (table, lines[2], "\t".join([*cells[:place], other, *cells[place + 1 :]]), "line 3: is not")
            for place, other in ((0, "x"), (4, "W"), (6, "0.0"), (6, "nan"), (7, "99\n"))
        ),
        (table, lines[2], "", "line 3: is not"),
        (table, lines[-1], "", f"line {len(lines)}: is not"),
        (table, lines[-1], lines[-1] * 2, f"line {len(lines) + 1}: is not what distogram.h5 gives: no line"),
        (table, "probability", "chance", "line 1: is not"),
        (listed, f" {cells[6]}\n", " 0.00001\n", "contacts.rr: lists other pairs"),
        (listed, f"{cells[0]} {cells[1]} 0 8 {cells[6]}\n", "", "contacts.rr: lists other pairs"),
        (listed, "ACDEFG-HIKL", "ACDEFGWHIKL", "contacts.rr: lists other pairs"),
        (listed, "END\n", "END\njunk\n", "stands after END"),
        (scores, '"contact_pairs": ', '"contact_pairs": 1', "scores.json contact_pairs: is 1"),
    ]
    for path, old, new, said in edits:
        whole = path.read_text()
        assert whole.count(old) == 1
        path.write_text(whole.replace(old, new))
        (finding,) = validate_file(folder)
        assert said in str(finding)
        assert path.name in finding.where
        path.write_text(whole)
    assert validate_file(folder) == []


def test_a_prediction_without_scores_is_called_so(folder):
    shutil.copytree(folder, folder.parent / "other")
    (folder / "scores.json").unlink()
    with pytest.raises(FormatError, match=r"out: a prediction without its scores\.json"):
        inspect_file(folder)
    (finding,) = validate_file(folder.parent)
    assert str(finding).startswith("error: out: a prediction without its scores.json")


def nan(file):
    file["aligned_error"][3, 4] = np.nan


def unequal(file):
    file["probability"][2, 2] *= 2


def lopsided(file):
    file["contact_probability"][1, 5] = 0.999


def missing(file):
    del file["bin_edge"]


def disordered(file):
    file["column_i"][3] = 1


def newer(file):
    file.attrs["format_version"] = 2


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (nan, "aligned_error: holds NaN"),
        (unequal, "probability: does not sum to 1"),
        (lopsided, "contact_probability: is not symmetric"),
        (missing, "bin_edge: is missing"),
        (disordered, "column_i: columns must ascend"),
        (newer, "has format version 2"),
    ],
)
def test_edited_files_are_checked_by_content(edit, said, folder):
    with h5py.File(folder / "distogram.h5") as old, h5py.File(folder / "edited.h5", "w") as new:
        for name in old:
            old.copy(name, new)
        new.attrs.update(old.attrs)
        edit(new)
    assert said in str(validate_file(folder / "edited.h5")[0])


def test_a_folder_with_other_scores_is_no_prediction(folder):
    (folder / "scores.json").write_text("[1]")
    (finding,) = validate_file(folder)
    assert "not the scores of a prediction" in str(finding)
    shutil.rmtree(folder)
