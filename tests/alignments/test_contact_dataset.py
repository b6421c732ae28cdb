"""The contact dataset as a file: what comes back, what repeats, what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from bioattn.alignments.contact_dataset import (
    ContactProtein,
    open_contact_dataset,
    split_groups,
    validate_contact_dataset,
    write_contact_dataset,
)
from bioattn.choices import TEST, TRAIN, VALIDATION
from bioattn.errors import BioattnError, FormatError


def protein(name, rows, columns, *, group="", split=TRAIN):
    random = np.random.default_rng(rows * 1000 + columns)
    deletions = random.integers(0, 40, (rows, columns)) * (random.random((rows, columns)) < 0.05)
    cb = random.normal(0, 20, (columns, 3)).astype(np.float32)
    cb[::7] = np.nan
    numbers = ["" if np.isnan(place[0]) else f"{index}A" for index, place in enumerate(cb)]
    return ContactProtein(
        id=name,
        group=group or name,
        split=split,
        chain="_",
        msa=random.integers(0, 22, (rows, columns)).astype(np.uint8),
        deletions=csr_array(deletions.astype(np.int32)),
        aatype=random.integers(0, 21, columns).astype(np.int32),
        cb=cb,
        residue_numbers=numbers,
    )


PROTEINS = [
    protein("first", 40, 30, group="a", split=VALIDATION),
    protein("wide", 3, 900, group="b", split=TEST),
    protein("deep", 5000, 20, group="c"),
    protein("one row", 1, 8, group="c"),
]


@pytest.fixture
def dataset_file(tmp_path):
    path = tmp_path / "x.dataset.h5"
    write_contact_dataset(path, iter(PROTEINS), {"max_depth": 12})
    return path


def test_what_was_written_is_read(dataset_file):
    dataset = open_contact_dataset(dataset_file)
    assert dataset.ids == ["first", "wide", "deep", "one row"]
    assert dataset.groups == ["a", "b", "c", "c"]
    assert dataset.splits.tolist() == [VALIDATION, TEST, TRAIN, TRAIN]
    assert dataset.num_rows.tolist() == [40, 3, 5000, 1]
    assert dataset.num_columns.tolist() == [30, 900, 20, 8]
    assert dataset.metadata == {"max_depth": 12}
    assert dataset.proteins_in(TRAIN).tolist() == [2, 3]
    for index, written in enumerate(PROTEINS):
        read = dataset.protein(index)
        for name in ("id", "group", "split", "chain", "residue_numbers"):
            assert getattr(read, name) == getattr(written, name)
        for name in ("msa", "aatype", "cb"):
            np.testing.assert_array_equal(getattr(read, name), getattr(written, name))
        np.testing.assert_array_equal(read.deletions.toarray(), written.deletions.toarray())
        assert dataset.num_mapped[index] == read.mapped.sum() == len([n for n in read.residue_numbers if n])
    assert validate_contact_dataset(dataset_file) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"id": "deep"}, "comes twice"),
        ({"cb": np.full((30, 3), np.nan, np.float32)}, "no column has a residue"),
        ({"msa": np.full((40, 30), 22, np.uint8)}, "codes reach 22"),
        ({"residue_numbers": []}, "30 columns"),
    ],
)
def test_impossible_proteins_leave_no_file(tmp_path, change, words):
    path = tmp_path / "x.h5"
    with pytest.raises(BioattnError, match=words):
        write_contact_dataset(path, [PROTEINS[2], replace(PROTEINS[0], **change)], {})
    assert list(tmp_path.iterdir()) == []


def test_a_group_on_two_sides_is_refused(tmp_path):
    path = tmp_path / "x.h5"
    write_contact_dataset(path, [PROTEINS[2], replace(PROTEINS[3], split=TEST)], {})
    with pytest.raises(FormatError, match="parts groups: 'c'"):
        open_contact_dataset(path)
    assert split_groups(["a", "b", "a"], [0, 1, 0]) == []
