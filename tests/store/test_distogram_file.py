"""What `inspect` and `validate` say of a prediction's files, whole and damaged."""

import shutil

import h5py
import numpy as np
import pytest

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


def test_files_of_later_versions_are_refused(folder):
    with h5py.File(folder / "distogram.h5", "r+") as file:
        file.attrs["format_version"] = 2
    assert "has format version 2" in str(validate_file(folder / "distogram.h5")[0])


def test_a_folder_with_other_scores_is_no_prediction(folder):
    (folder / "scores.json").write_text("[1]")
    (finding,) = validate_file(folder)
    assert "not the scores of a prediction" in str(finding)
    shutil.rmtree(folder)
