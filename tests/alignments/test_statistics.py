"""Sequence weights and statistics of alignments, against plain loops."""

import itertools

import numpy as np
import pytest

from bioattn.alignments import weights
from bioattn.alignments.alphabet import msa_codes
from bioattn.alignments.rows import alignment_statistics
from bioattn.alignments.weights import (
    TileCounter,
    pack_codes,
    pack_mask,
    sequence_weights,
)
from tests.alignments.conftest import random_family


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


def test_many_tiles_and_threads_change_nothing(monkeypatch):
    residues = random_family(150, 100, seed=5)
    expected = [1 / number for number in neighbours_by_loops(residues, 0.8)]
    assert min(expected) < 1 / 10
    monkeypatch.setattr(weights, "TILE_OTHERS", 7)
    monkeypatch.setattr(weights, "_BLOCK", 16)
    assert sequence_weights(msa_codes(residues), 0.8, threads=1).tolist() == expected
    assert sequence_weights(msa_codes(residues), 0.8, threads=3).tolist() == expected


def test_weights_by_eye():
    rows = [b"ACDEFGHIKL", b"ACDEFGHI--", b"ACDEFGH---", b"WWWWWWWWWW", b"WWWWWWWWXX"]
    residues = np.array([list(row) for row in rows], np.uint8)
    # Row 1 shares 8 of 10 columns with row 0 and 9 with row 2 (two gaps among them); rows 0 and 2 share 7.
    assert sequence_weights(msa_codes(residues)).tolist() == [1 / 2, 1 / 3, 1 / 2, 1 / 2, 1 / 2]


def test_differences_where_both_have_a_residue():
    random = np.random.default_rng(3)
    codes, mask = random.integers(0, 32, (12, 130), np.uint8), random.random((12, 130)) < 0.6
    packed, bits = pack_codes(codes), pack_mask(mask)
    different, shared = TileCounter().differences_where_both(
        packed[..., :5], packed[..., 5:], bits[:, :5], bits[:, 5:]
    )
    both = mask[:5, None] & mask[None, 5:]
    assert shared.tolist() == both.sum(2).tolist()
    assert different.tolist() == ((codes[:5, None] != codes[None, 5:]) & both).sum(2).tolist()


RESIDUES = set("ACDEFGHIKLMNPQRSTVWY")


def describe(residues, **changes):
    codes = msa_codes(residues)
    return alignment_statistics(codes, sequence_weights(codes), 0.8, **changes)


def test_by_eye():
    rows = ["ACDEF", "ACDE-", "ACDE-", "WCW--"]
    found = describe(np.array([list(row.encode()) for row in rows], np.uint8), inserted_letters=3)
    assert (found.depth, found.columns, found.inserted_letters) == (4, 5, 3)
    # Rows 0, 1 and 2 share four of five columns or more; row 3 is alone.
    assert found.neff == pytest.approx(2)
    assert found.neff_per_root_column == pytest.approx(2 / 5**0.5)
    assert found.coverage.tolist() == [1, 1, 1, 0.75, 0.25]
    assert found.effective_depth == pytest.approx([2, 2, 2, 1, 1 / 3])
    assert found.gaps == pytest.approx(4 / 20)
    assert found.row_gaps == pytest.approx([0, 0.15, 0.2, 0.25, 0.4])
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


def test_blocks_of_rows_change_nothing(monkeypatch):
    residues = random_family(40, 30, seed=6)
    expected = describe(residues).as_json()
    monkeypatch.setattr("bioattn.alignments.rows._ROWS_AT_ONCE", 7)
    assert describe(residues).as_json() == expected


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


def test_rows_that_never_overlap():
    rows = np.array([list(b"ACDE----"), list(b"----FGHI")], np.uint8)
    assert describe(rows).pair_identity is None
