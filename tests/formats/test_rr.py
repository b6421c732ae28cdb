"""RR files against a reader written here, and against ranking by eye."""

import numpy as np
import pytest

from bioattn.errors import FormatError
from bioattn.formats.rr import ranked_pairs, write_rr
from bioattn.formats.rr import read_rr as read_contacts


def read_rr(path):
    """Sequence and contact lines."""
    lines = path.read_text().splitlines()
    assert lines[0] == "PFRMAT RR"
    assert lines[-1] == "END"
    body = lines[lines.index("MODEL 1") + 1 : -1]
    sequence = "".join(line for line in body if " " not in line)
    contacts = [tuple(map(float, line.split())) for line in body if " " in line]
    return sequence, [(int(i), int(j), low, high, p) for i, j, low, high, p in contacts]


def test_what_is_written_is_what_ranks(tmp_path):
    probabilities = np.zeros((120, 120), np.float32)
    for i, j, value in (
        (0, 9, 0.5),
        (3, 50, 0.9),
        (2, 7, 0.99),
        (2, 8, 0.5),
        (5, 80, 4e-6),
        (118, 100, 0.25),
    ):
        probabilities[i, j] = probabilities[j, i] = value
    sequence = "ACDEFGHIKLMN" * 10
    count = write_rr(tmp_path / "x.rr", sequence, probabilities, target="t", method=["one", "two"])
    written, contacts = read_rr(tmp_path / "x.rr")
    assert written == sequence
    # 2-7 is closer than 6, 5-80 prints as 0; of the equal ones the smaller i comes first
    assert contacts == [(4, 51, 0, 8, 0.9), (1, 10, 0, 8, 0.5), (3, 9, 0, 8, 0.5), (101, 119, 0, 8, 0.25)]
    assert count == 4
    head = (tmp_path / "x.rr").read_text().splitlines()
    assert head[1:5] == ["TARGET t", "METHOD one", "METHOD two", "MODEL 1"]
    assert max(map(len, head)) <= 80


def test_columns_are_those_of_the_sequence(tmp_path):
    columns = np.array([1, 4, 8, 19])
    probabilities = np.full((4, 4), 0.5) + np.arange(4) * 0.1 + np.arange(4)[:, None] * 0.1
    write_rr(tmp_path / "x.rr", "A" * 20, probabilities, target="t", method=[], columns=columns)
    assert [line[:2] for line in read_rr(tmp_path / "x.rr")[1]] == [(9, 20), (5, 20), (2, 20), (2, 9)]


@pytest.mark.parametrize("size", [0, 1, 5, 6])
def test_short_targets_have_no_pairs(size, tmp_path):
    assert write_rr(tmp_path / "x.rr", "A" * size, np.ones((size, size)), target="t", method=[]) == 0
    assert read_rr(tmp_path / "x.rr") == ("A" * size, [])


def test_ranking_equals_a_plain_sort():
    random = np.random.default_rng(0)
    values = random.integers(0, 5, (40, 40)) / 7
    values = (values + values.T) / 2
    columns = np.sort(random.choice(80, 40, replace=False))
    expected = sorted(
        (-values[i, j], i, j)
        for i in range(40)
        for j in range(i + 1, 40)
        if columns[j] - columns[i] >= 6 and values[i, j] > 0
    )
    first, second = ranked_pairs(values, columns)
    assert list(zip(first, second, strict=True)) == [(i, j) for _, i, j in expected]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("1 9 0 8", ":4: is '1 9 0 8'; two positions"),
        ("1 x 0 8 0.5", ":4: is"),
        ("1 10 0 8 0.5", ":4: 1 and 10 are no pair of the 9 positions"),
        ("0 8 0 8 0.5", ":4: 0 and 8 are no pair"),
        ("8 2 0 8 0.5", ":4: 8 and 2 are no pair"),
        ("1 8 0 8 1.5", "1.5 is no probability"),
        ("1 8 0 8 nan", "nan is no probability"),
        ("END\n1 8 0 8 0.5", ":5: stands after END"),
    ],
)
def test_lines_that_are_no_contacts_are_named(tmp_path, line, sentence):
    path = tmp_path / "x.rr"
    path.write_text(f"PFRMAT RR\nMODEL 1\nMKVLEACDE\n{line}\nEND\n")
    with pytest.raises(FormatError) as refusal:
        read_contacts(path)
    assert sentence in str(refusal.value)


def test_a_file_that_is_cut_off_is_refused(tmp_path):
    path = tmp_path / "x.rr"
    write_rr(path, "ACDEFGHIKL", np.full((10, 10), 0.5), target="t", method=[])
    path.write_text(path.read_text().removesuffix("END\n"))
    with pytest.raises(FormatError, match="ends without END"):
        read_contacts(path)
