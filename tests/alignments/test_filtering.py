"""Filters of rows and columns, and thinning by identity, against plain loops and hhfilter."""

import numpy as np
import pytest

from bioattn.alignments import weights
from bioattn.alignments.alphabet import GAP, msa_codes
from bioattn.alignments.rows import (
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
from bioattn.alignments.weights import filter_order, non_redundant
from tests.alignments.conftest import random_family

SMALL = msa_codes(
    np.array(
        [
            list(row)
            for row in (
                b"ACDE-GHIKL",
                b"ACDEFGHIKL",
                b"ACDE------",
                b"ACXXX-----",
                b"ACDE------",
                b"----------",
                b"WWWWWWWWWW",
            )
        ],
        np.uint8,
    )
)


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


@pytest.mark.shared
@pytest.mark.parametrize(("option", "percent"), [("-cov", 50), ("-cov", 75), ("-qid", 20), ("-qid", 29)])
def test_real_families_as_hhfilter(hhfilter, families, option, percent):
    for name in ("of_1UBQ", "protenix_102m", "sca_S1A_3TGI", "PF00041_1TEN_A", "psicov_16pkA", "dncon_3e7u"):
        residues = families[name].alignment.residues
        if option == "-cov":
            kept = rows_within_gaps(msa_codes(residues), 1 - percent / 100)
        else:
            kept = rows_near_query(msa_codes(residues), percent / 100)
        has_residue = count_residues(msa_codes(residues)) > 0
        assert [row for row in kept if has_residue[row]] == hhfilter(
            residues, "-id", "100", option, str(percent)
        )


RESIDUES = set(b"ACDEFGHIKLMNPQRSTVWYBZU")
SAME = {ord("B"): ord("D"), ord("Z"): ord("E"), ord("U"): ord("C")}


def kept_by_loops(residues, max_identity):
    """Greedy in the order of `filter_order`; identity over the columns in which both rows have a residue."""
    kept: list[int] = []
    for row in filter_order(count_residues(msa_codes(residues))):
        for other in kept:
            pairs = [
                (SAME.get(a, a), SAME.get(b, b))
                for a, b in zip(residues[row], residues[other], strict=True)
                if a in RESIDUES and b in RESIDUES
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


def test_by_eye():
    rows = [
        b"ACDEFGHIKL",
        b"ACDEFGHIKL",  # as the query: out
        b"ACDEFGHI--",  # the same where both have a residue: out
        b"ACDEFGHIWW",  # two of ten differ: stays at 90 %, out at 70 %
        b"WW------WW",  # four residues, two of them as in the row above, none as in the query
    ]
    residues = np.array([list(row) for row in rows], np.uint8)
    order = filter_order(count_residues(msa_codes(residues)))
    assert non_redundant(msa_codes(residues), 0.9, order).tolist() == [0, 3, 4]
    assert non_redundant(msa_codes(residues), 0.7, order).tolist() == [0, 4]
    assert non_redundant(msa_codes(residues), 0.4, order[order != 3]).tolist() == [0, 4]
    assert non_redundant(msa_codes(residues), 1.0, order).tolist() == [0, 1, 2, 3, 4]


def test_rows_without_a_common_column_stay_as_in_hhfilter(hhfilter):
    rows = "ACDEFGHIKLMN---- ------------PQRS --WY--------CCCC ACDE------------ --------GGGG----"
    residues = np.array([list(row.encode()) for row in rows.split()], np.uint8)
    kept = non_redundant(msa_codes(residues), 0.9, filter_order(count_residues(msa_codes(residues)))).tolist()
    assert kept == [0, 1, 2, 4] == hhfilter(residues, "-id", "90")


@pytest.mark.parametrize("percent", [90, 70, 35])
def test_random_families_as_hhfilter(hhfilter, percent):
    for seed in range(5):
        residues = random_family(300, 20 + 31 * seed, seed)
        residues = residues[rows_with_residues(msa_codes(residues))]
        kept = non_redundant(
            msa_codes(residues), percent / 100, filter_order(count_residues(msa_codes(residues)))
        )
        assert kept.tolist() == hhfilter(residues, "-id", str(percent))


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
