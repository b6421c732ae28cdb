"""Filters of rows and columns: by eye, and against hhfilter."""

import numpy as np
import pytest

from bioattn.alignments import filtering
from tests.alignments.conftest import random_family

SMALL = np.array(
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


def test_counts_by_eye() -> None:
    assert filtering.count_residues(SMALL).tolist() == [9, 10, 4, 2, 4, 0, 10]
    assert filtering.count_identities(SMALL).tolist() == [9, 9, 4, 2, 4, 0, 0]
    # A residue against a gap of the query counts as different; X does not count.
    assert filtering.identity_to_query(SMALL).tolist() == [1, 0.9, 1, 1, 1, 0, 0]


def test_letters_that_stand_for_others() -> None:
    residues = np.array([list(b"DEC-"), list(b"BZUX"), list(b"NQSO")], np.uint8)
    assert filtering.count_identities(residues).tolist() == [3, 3, 0]
    assert filtering.count_residues(residues).tolist() == [3, 3, 3]


def test_rows_and_columns_by_eye() -> None:
    assert filtering.rows_with_residues(SMALL).tolist() == [0, 1, 2, 3, 4, 6]
    assert filtering.rows_within_gaps(SMALL, 0.6).tolist() == [0, 1, 2, 4, 6]
    assert filtering.rows_within_gaps(SMALL, 0.0).tolist() == [0, 1, 6]  # the query stays whatever it has
    assert filtering.rows_near_query(SMALL, 0.89).tolist() == [0, 1, 2, 3, 4]
    assert filtering.rows_near_query(SMALL, 0.9).tolist() == [0, 2, 3, 4]  # 90 % is not more than 90 %
    assert filtering.rows_near_query(SMALL, 0).tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert filtering.first_of_each(SMALL).tolist() == [0, 1, 2, 3, 5, 6]
    # Gaps: 1 in columns 0 and 1, 2 in 2 and 3, 5 in 4, then 4 in each; of 7 rows.
    assert filtering.columns_within_gaps(SMALL, 2 / 7).tolist() == [0, 1, 2, 3]
    assert filtering.columns_within_gaps(SMALL, 0.6).tolist() == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert filtering.columns_within_gaps(SMALL, 0).tolist() == []


def test_a_decimal_fraction_is_what_it_says() -> None:
    """0.7 × 10 is 7.000000000000001 and 0.29 × 100 less than 29 in binary."""
    residues = np.full((2, 10), ord("A"), np.uint8)
    residues[1, :7] = ord("-")
    assert filtering.rows_within_gaps(residues, 0.7).tolist() == [0, 1]
    assert filtering.columns_within_gaps(np.tile(residues[1], (100, 1)).T.copy(), 0.7).size == 100
    wide = np.full((2, 100), ord("A"), np.uint8)
    wide[1, :29] = ord("-")
    assert filtering.rows_within_gaps(wide, 0.29).tolist() == [0, 1]
    assert filtering.rows_within_gaps(wide, 0.28).tolist() == [0]


def test_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    residues = random_family(50, 40, seed=2)

    def everything() -> list[list[float]]:
        return [
            filtering.count_residues(residues).tolist(),
            filtering.identity_to_query(residues).tolist(),
            filtering.columns_within_gaps(residues, 0.3).tolist(),
        ]

    expected = everything()
    monkeypatch.setattr(filtering, "_ROWS_AT_ONCE", 7)
    assert everything() == expected


def test_random_rows_keep_the_query_and_every_other_row_is_as_likely() -> None:
    drawn = [filtering.random_rows(10, 4, np.random.default_rng(seed)) for seed in range(2000)]
    assert all(rows[0] == 0 and len(rows) == 4 and np.all(np.diff(rows) > 0) for rows in drawn)
    times = np.bincount(np.concatenate(drawn), minlength=10)[1:]
    # 2000 draws of 3 in 9: 667 ± 21 times each.
    assert np.all(np.abs(times - 2000 / 3) < 5 * 21)
    assert filtering.random_rows(4, 10, np.random.default_rng(0)).tolist() == [0, 1, 2, 3]
    assert filtering.random_rows(4, 1, np.random.default_rng(0)).tolist() == [0]


@pytest.mark.shared
@pytest.mark.parametrize(("option", "percent"), [("-cov", 50), ("-cov", 75), ("-qid", 20), ("-qid", 29)])
def test_real_families_as_hhfilter(hhfilter, families, option: str, percent: int) -> None:
    for name in ("of_1UBQ", "protenix_102m", "sca_S1A_3TGI", "PF00041_1TEN_A", "psicov_16pkA", "dncon_3e7u"):
        residues = families[name].alignment.residues
        if option == "-cov":
            kept = filtering.rows_within_gaps(residues, 1 - percent / 100)
        else:
            kept = filtering.rows_near_query(residues, percent / 100)
        has_residue = filtering.count_residues(residues) > 0
        assert [row for row in kept if has_residue[row]] == hhfilter(
            residues, "-id", "100", option, str(percent)
        )
