"""Filters, thinning, weights and statistics of rows against plain loops and hhfilter."""

import itertools

import numpy as np
import pytest

from bioattn.alignments import weights
from bioattn.alignments.alphabet import GAP, msa_codes
from bioattn.alignments.rows import (
    alignment_statistics,
    columns_within_gaps,
    count_identities,
    count_residues,
    first_of_each,
    identity_to_query,
    random_rows,
    rows_near_query,
    rows_with_residues,
    rows_within_gaps,
)
from bioattn.alignments.weights import filter_order, non_redundant, sequence_weights
from tests.alignments.conftest import random_family

ROWS = b"ACDE-GHIKL ACDEFGHIKL ACDE------ ACXXX----- ACDE------ ---------- WWWWWWWWWW".split()
SMALL = msa_codes(np.array([list(row) for row in ROWS], np.uint8))


def test_counts_by_eye():
    assert count_residues(SMALL).tolist() == [9, 10, 4, 2, 4, 0, 10]
    assert count_identities(SMALL).tolist() == [9, 9, 4, 2, 4, 0, 0]
    # A residue against a gap of the query counts as different; X does not count.
    assert identity_to_query(SMALL).tolist() == [1, 0.9, 1, 1, 1, 0, 0]


def test_letters_that_stand_for_others():
    residues = msa_codes(np.array([list(b"DEC-"), list(b"BZUX"), list(b"NQSO")], np.uint8))
    assert count_identities(residues).tolist() == [3, 3, 0]
    assert count_residues(residues).tolist() == [3, 3, 3]


def test_rows_and_columns_by_eye():
    assert rows_with_residues(SMALL).tolist() == [0, 1, 2, 3, 4, 6]
    assert rows_within_gaps(SMALL, 0.6).tolist() == [0, 1, 2, 4, 6]
    assert rows_within_gaps(SMALL, 0.0).tolist() == [0, 1, 6]  # the query stays whatever it has
    assert rows_near_query(SMALL, 0.89).tolist() == [0, 1, 2, 3, 4]
    assert rows_near_query(SMALL, 0.9).tolist() == [0, 2, 3, 4]  # 90 % is not more than 90 %
    assert rows_near_query(SMALL, 0).tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert first_of_each(SMALL).tolist() == [0, 1, 2, 3, 5, 6]
    # Gaps: 1 in columns 0 and 1, 2 in 2 and 3, 5 in 4, then 4 in each; of 7 rows.
    assert columns_within_gaps(SMALL, 2 / 7).tolist() == [0, 1, 2, 3]
    assert columns_within_gaps(SMALL, 0.6).tolist() == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert columns_within_gaps(SMALL, 0).tolist() == []


def test_a_decimal_fraction_is_what_it_says():
    """0.7 × 10 is 7.000000000000001 and 0.29 × 100 less than 29 in binary."""
    residues = np.zeros((2, 10), np.uint8)
    residues[1, :7] = GAP
    assert rows_within_gaps(residues, 0.7).tolist() == [0, 1]
    assert columns_within_gaps(np.tile(residues[1], (100, 1)).T.copy(), 0.7).size == 100
    wide = np.zeros((2, 100), np.uint8)
    wide[1, :29] = GAP
    assert rows_within_gaps(wide, 0.29).tolist() == [0, 1]
    assert rows_within_gaps(wide, 0.28).tolist() == [0]


def test_random_rows_keep_the_query_and_every_other_row_is_as_likely():
    drawn = [random_rows(10, 4, np.random.default_rng(seed)) for seed in range(2000)]
    assert all(rows[0] == 0 and len(rows) == 4 and np.all(np.diff(rows) > 0) for rows in drawn)
    times = np.bincount(np.concatenate(drawn), minlength=10)[1:]
    # 2000 draws of 3 in 9: 667 ± 21 times each.
    assert np.all(np.abs(times - 2000 / 3) < 5 * 21)
    assert random_rows(4, 10, np.random.default_rng(0)).tolist() == [0, 1, 2, 3]
    assert random_rows(4, 1, np.random.default_rng(0)).tolist() == [0]


LETTERS = set(b"ACDEFGHIKLMNPQRSTVWYBZU")
SAME = {ord("B"): ord("D"), ord("Z"): ord("E"), ord("U"): ord("C")}


def kept_by_loops(residues, max_identity):
    """Greedy in the order of `filter_order`; identity over the columns in which both rows have a residue."""
    kept: list[int] = []
    for row in filter_order(count_residues(msa_codes(residues))):
        for other in kept:
            pairs = [
                (SAME.get(a, a), SAME.get(b, b))
                for a, b in zip(residues[row], residues[other], strict=True)
                if a in LETTERS and b in LETTERS
            ]
            different = sum(a != b for a, b in pairs)
            if different < (0.9999 - max_identity) * len(pairs):
                break
        else:
            kept.append(int(row))
    return sorted(kept)


def quicksort(values, left, right, order):
    """The recursive textbook version, descending, one comparison after the other."""
    if left >= right:
        return

    def swap(a, b):
        order[a], order[b] = order[b], order[a]

    swap(left, (left + right) // 2)
    last = left
    for place in range(left + 1, right + 1):
        if values[order[place]] > values[order[left]]:
            last += 1
            swap(last, place)
    swap(left, last)
    quicksort(values, left, last - 1, order)
    quicksort(values, last + 1, right, order)


@pytest.mark.parametrize("largest", [1, 2, 5, 1000])
@pytest.mark.parametrize("rows", [1, 2, 3, 10, 57, 200])
def test_order_of_the_textbook_quicksort(rows, largest):
    values = np.random.default_rng(rows + largest).integers(0, largest, rows).tolist()
    expected = list(range(rows))
    quicksort(values, 1, rows - 1, expected)
    assert filter_order(np.array(values)).tolist() == expected


@pytest.mark.parametrize("max_identity", [0.9, 0.62, 0.3])
@pytest.mark.parametrize(("rows", "columns"), [(70, 50), (40, 130), (1, 5)])
def test_rows_kept_as_by_loops(rows, columns, max_identity):
    residues = random_family(rows, columns, seed=columns)
    residues = residues[rows_with_residues(msa_codes(residues))]
    kept = non_redundant(msa_codes(residues), max_identity, filter_order(count_residues(msa_codes(residues))))
    assert kept.tolist() == kept_by_loops(residues, max_identity)


def test_many_tiles_change_nothing(monkeypatch):
    residues = random_family(90, 80, seed=8)
    order = filter_order(count_residues(msa_codes(residues)))
    expected = non_redundant(msa_codes(residues), 0.7, order).tolist()
    assert 20 < len(expected) < 80
    monkeypatch.setattr(weights, "TILE_OTHERS", 5)
    monkeypatch.setattr(weights, "TILE_ROWS", 3)
    assert non_redundant(msa_codes(residues), 0.7, order).tolist() == expected


def test_rows_without_a_common_column_stay_as_in_hhfilter(hhfilter):
    rows = "ACDEFGHIKLMN---- ------------PQRS --WY--------CCCC ACDE------------ --------GGGG----"
    residues = np.array([list(row.encode()) for row in rows.split()], np.uint8)
    kept = non_redundant(msa_codes(residues), 0.9, filter_order(count_residues(msa_codes(residues)))).tolist()
    assert kept == [0, 1, 2, 4] == hhfilter(residues, "-id", "90")


@pytest.mark.shared
def test_real_families_are_thinned_as_hhfilter_does(hhfilter, families):
    """The same rows, one by one; docs/formats/msa.md has the agreement on all files and at more thresholds."""
    checked = 0
    for number, family in enumerate(families.values()):
        if int(family.row["n_seqs"]) > 4000:
            continue
        residues = family.alignment.residues
        residues = residues[first_of_each(residues)]
        order = filter_order(count_residues(msa_codes(residues)))
        percent = (90, 70, 50, 35)[number % 4]
        kept = non_redundant(msa_codes(residues), percent / 100, order)
        assert kept.tolist() == hhfilter(residues, "-id", str(percent)), family.row["id"]
        checked += 1
    assert checked == 32


def as_state(letter):
    return {"B": "D", "Z": "E", "U": "C", "X": "-", "J": "-", "O": "-"}.get(chr(letter), chr(letter))


def neighbours_by_loops(residues, min_identity):
    rows = [[as_state(letter) for letter in row] for row in residues]
    return [
        sum(sum(a == b for a, b in zip(one, other, strict=True)) >= min_identity * len(one) for other in rows)
        for one in rows
    ]


# Widths on both sides of a word of 64 columns; 0.6 × 35 and 0.7 × 70 are no whole numbers in binary.
@pytest.mark.parametrize(
    ("rows", "columns"), [(1, 1), (2, 63), (40, 64), (33, 65), (60, 200), (25, 35), (30, 70)]
)
@pytest.mark.parametrize("min_identity", [0.8, 0.6, 0.7, 1.0, 0.01])
def test_neighbours_as_counted_by_loops(rows, columns, min_identity):
    residues = random_family(rows, columns, seed=rows)
    expected = [1 / number for number in neighbours_by_loops(residues, min_identity)]
    assert sequence_weights(msa_codes(residues), min_identity).tolist() == expected


def test_many_tiles_and_threads_change_no_weight(monkeypatch):
    residues = random_family(150, 100, seed=5)
    expected = [1 / number for number in neighbours_by_loops(residues, 0.8)]
    assert min(expected) < 1 / 10
    monkeypatch.setattr(weights, "TILE_OTHERS", 7)
    monkeypatch.setattr(weights, "_BLOCK", 16)
    assert sequence_weights(msa_codes(residues), 0.8, threads=1).tolist() == expected
    assert sequence_weights(msa_codes(residues), 0.8, threads=3).tolist() == expected


RESIDUES = set("ACDEFGHIKLMNPQRSTVWY")


def describe(residues):
    codes = msa_codes(residues)
    return alignment_statistics(codes, sequence_weights(codes), 0.8)


def test_statistics_by_eye():
    rows = ["ACDEF", "ACDE-", "ACDE-", "WCW--"]
    found = describe(np.array([list(row.encode()) for row in rows], np.uint8))
    assert (found.depth, found.columns) == (4, 5)
    # Rows 0, 1 and 2 share four of five columns or more; row 3 is alone.
    assert found.neff == pytest.approx(2)
    assert found.coverage.tolist() == [1, 1, 1, 0.75, 0.25]
    assert found.as_json()["gaps"] == pytest.approx(4 / 20)
    assert found.query_identity == pytest.approx([1, 1, 1 / 3])
    json = found.as_json()
    assert json["median_query_identity"] == 1
    assert len(json["query_identity_histogram"]["edges"]) == 21
    assert json["query_identity_histogram"]["rows"] == [0] * 6 + [1] + [0] * 12 + [2]


def test_pair_and_chance_identity_by_loops():
    residues = random_family(25, 30, seed=4)
    residues[np.isin(residues, np.frombuffer(b"BZU", np.uint8))] = ord("X")
    weights = sequence_weights(msa_codes(residues))
    equal = total = 0.0
    for one, other in itertools.permutations(range(len(residues)), 2):
        for a, b in zip(residues[one].tobytes().decode(), residues[other].tobytes().decode(), strict=True):
            if a in RESIDUES and b in RESIDUES:
                total += weights[one] * weights[other]
                equal += weights[one] * weights[other] * (a == b)
    composition = dict.fromkeys(RESIDUES, 0.0)
    for row, weight in zip(residues, weights, strict=True):
        for letter in row.tobytes().decode():
            if letter in RESIDUES:
                composition[letter] += weight
    found = describe(residues)
    assert found.pair_identity == pytest.approx(equal / total)
    whole = sum(composition.values())
    assert found.chance_identity == pytest.approx(sum((part / whole) ** 2 for part in composition.values()))


def test_rows_of_chance_and_rows_of_a_family():
    random = np.random.default_rng(0)
    letters = np.frombuffer(b"ACDEFGHIKLMNPQRSTVWY", np.uint8)
    chance = random.choice(letters, (200, 60))
    assert len(describe(chance).warnings()) == 1
    assert "carry no common signal" in describe(chance).warnings()[0]
    family = np.where(random.random((200, 60)) < 0.5, chance[0], chance)
    assert describe(family).warnings() == []
    # Copies of a few unrelated rows agree with their copies, but weigh no more than one row each.
    assert "carry no common signal" in describe(np.repeat(chance[:40], 5, axis=0)).warnings()[0]
