"""Peaks, windows and their copies against plain loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bioattn.formats.nucleotides import encode
from bioattn.interpret.motifs.seqlets import (
    SMOOTHED_BASES,
    Places,
    best_places,
    control_places,
    cut_codes,
    cut_map,
    find_peaks,
    usual_map,
    without_copies,
)


def places(gene, centre, score=None) -> Places:
    return Places(
        gene=np.array(gene, dtype=np.int32),
        centre=np.array(centre, dtype=np.int32),
        score=np.array(score if score is not None else np.zeros(len(gene)), dtype=np.float32),
    )


@given(seed=st.integers(0, 1000), apart=st.integers(1, 15), per_promoter=st.integers(1, 4))
@settings(max_examples=25, deadline=None)
def test_peaks_equal_a_plain_loop(seed, apart, per_promoter):
    rng = np.random.default_rng(seed)
    values = rng.random((4, 40))
    usual = rng.random(40)
    expected = []
    for row, value in enumerate(values):
        risen = value - usual
        half = SMOOTHED_BASES // 2
        padded = np.concatenate([np.zeros(half), risen, np.zeros(half)])
        smoothed = [padded[base : base + SMOOTHED_BASES].mean() for base in range(40)]
        taken: list[int] = []
        for _ in range(per_promoter):
            free = [base for base in range(40) if all(abs(base - other) >= apart for other in taken)]
            best = max(free, key=lambda base: smoothed[base], default=None)
            if best is None or smoothed[best] <= 0:
                break
            taken.append(best)
            expected.append((row + 7, best, smoothed[best]))
    found = find_peaks(values, usual, apart=apart, per_promoter=per_promoter, first=7)
    assert list(zip(found.gene.tolist(), found.centre.tolist(), strict=True)) == [
        peak[:2] for peak in expected
    ]
    np.testing.assert_allclose(found.score, [peak[2] for peak in expected], rtol=1e-4, atol=1e-6)


def test_the_usual_map_is_the_mean_whatever_the_blocks():
    values = np.random.default_rng(0).random((10, 5))
    np.testing.assert_allclose(usual_map([values[:3], values[3:4], values[4:]], 5), values.mean(axis=0))


def test_best_places_are_the_highest_in_order():
    parts = [places([0, 1], [5, 5], [1, 3]), places([2, 2, 3], [9, 4, 1], [3, 3, 2])]
    best = best_places(parts, 4)
    assert list(zip(best.gene.tolist(), best.centre.tolist(), strict=True)) == [
        (1, 5),
        (2, 4),
        (2, 9),
        (3, 1),
    ]


def test_windows_beyond_a_promoter_are_n_and_zero():
    codes = np.stack([encode("ACGTA"), encode("CCCCC")])
    where = places([0, 1, 0], [2, 0, 4])
    assert cut_codes(codes, where, 5).tolist() == [[0, 1, 2, 3, 0], [4, 4, 1, 1, 1], [2, 3, 0, 4, 4]]
    values = np.arange(10.0).reshape(2, 5)
    assert cut_map(values, places([7, 8], [4, 2]), 3, first=7).tolist() == [[3, 4, 0], [6, 7, 8]]


def test_copies_are_dropped_and_repeats_are_not():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, size=(6, 40)).astype(np.uint8)
    codes[3, 5:25] = codes[0, 11:31]  # shares 20 bases with the first
    codes[4, 10:24] = (3 - codes[1, 3:17])[::-1]  # 14 of the second, on the other strand
    codes[5, :13] = codes[2, :13]  # 13 are too few
    poly = np.zeros((2, 40), dtype=np.uint8)
    assert without_copies(codes).tolist() == [True, True, True, False, False, True]
    assert without_copies(poly).tolist() == [True, True]
    assert without_copies(codes[:0]).tolist() == []


def test_controls_keep_their_place_and_leave_their_promoter():
    where = places(np.arange(50) % 20, np.arange(50))
    drawn = control_places(where, 20, 3, np.random.default_rng(0))
    assert drawn.centre.tolist() == list(range(50)) * 3
    assert not np.any(drawn.gene == np.tile(where.gene, 3))
    assert set(drawn.gene.tolist()) == set(range(20))
    assert drawn.gene.tolist() != control_places(where, 20, 3, np.random.default_rng(1)).gene.tolist()
    with pytest.raises(IndexError):
        cut_codes(np.zeros((5, 60), dtype=np.uint8), drawn, 9)
