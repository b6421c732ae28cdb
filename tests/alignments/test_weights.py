"""Sequence weights against plain loops, and against the Neff that comes with the real alignments."""

import numpy as np
import pytest

from bioattn.alignments import weights
from bioattn.alignments.filtering import rows_within_gaps
from bioattn.alignments.packed_rows import TileCounter, count_bits_by_table, pack_codes, pack_mask
from bioattn.alignments.weights import count_neighbours, sequence_weights
from tests.alignments.conftest import random_family


def as_state(letter: int) -> str:
    return {"B": "D", "Z": "E", "U": "C", "X": "-", "J": "-", "O": "-"}.get(chr(letter), chr(letter))


def neighbours_by_loops(residues: np.ndarray, min_identity: float) -> list[int]:
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
def test_neighbours_as_counted_by_loops(rows: int, columns: int, min_identity: float) -> None:
    residues = random_family(rows, columns, seed=rows)
    assert count_neighbours(residues, min_identity).tolist() == neighbours_by_loops(residues, min_identity)


def test_many_tiles_and_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    residues = random_family(150, 100, seed=5)
    expected = neighbours_by_loops(residues, 0.8)
    assert max(expected) > 10
    monkeypatch.setattr(weights, "TILE_OTHERS", 7)
    monkeypatch.setattr(weights, "_BLOCK", 16)
    assert count_neighbours(residues, 0.8, threads=1).tolist() == expected
    assert count_neighbours(residues, 0.8, threads=3).tolist() == expected


def test_weights_by_eye() -> None:
    rows = [b"ACDEFGHIKL", b"ACDEFGHI--", b"ACDEFGH---", b"WWWWWWWWWW", b"WWWWWWWWXX"]
    residues = np.array([list(row) for row in rows], np.uint8)
    # Row 1 shares 8 of 10 columns with row 0 and 9 with row 2 (two gaps among them); rows 0 and 2 share 7.
    assert sequence_weights(residues).tolist() == [1 / 2, 1 / 3, 1 / 2, 1 / 2, 1 / 2]


def test_bits_are_counted_alike_without_numpy_2() -> None:
    words = np.random.default_rng(0).integers(0, 1 << 63, (5, 9), np.uint64) * np.uint64(2)
    expected = [[bin(int(word)).count("1") for word in row] for row in words]
    assert count_bits_by_table(words, np.empty(words.shape, np.uint8)).tolist() == expected


def test_differences_where_both_have_a_residue() -> None:
    random = np.random.default_rng(3)
    codes, mask = random.integers(0, 32, (12, 130), np.uint8), random.random((12, 130)) < 0.6
    packed, bits = pack_codes(codes), pack_mask(mask)
    different, shared = TileCounter().differences_where_both(
        packed[..., :5], packed[..., 5:], bits[:, :5], bits[:, 5:]
    )
    both = mask[:5, None] & mask[None, 5:]
    assert shared.tolist() == both.sum(2).tolist()
    assert different.tolist() == ((codes[:5, None] != codes[None, 5:]) & both).sum(2).tolist()


def test_codes_of_more_than_five_bits_are_refused() -> None:
    with pytest.raises(ValueError, match="codes must be below 32, not 40"):
        pack_codes(np.full((1, 1), 40, np.uint8))


@pytest.mark.shared
def test_neff_of_the_real_alignments(families) -> None:
    """The index gives Neff over the columns seen in the structure, without rows of more than half gaps."""
    checked = 0
    for family in families.values():
        if int(family.row["n_seqs"]) > 3000:  # those were thinned before
            continue
        residues = family.alignment.residues[:, family.mapped_columns]
        residues = residues[rows_within_gaps(residues, 0.5)]
        assert sequence_weights(residues).sum() == pytest.approx(float(family.row["neff80"]), abs=0.051)
        checked += 1
    assert checked == 29
