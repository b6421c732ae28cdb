"""Merging matrices: alignments against a plain loop, means by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bioattn.formats.nucleotides import encode
from bioattn.interpret.motifs.clusters import (
    best_alignment,
    information_weighted,
    merge_motifs,
    similarities,
)
from bioattn.simulate.motifs import consensus_matrix


def random_matrix(rng, width) -> np.ndarray:
    return rng.dirichlet([0.4] * 4, size=width)


@given(seed=st.integers(0, 500))
@settings(max_examples=20, deadline=None)
def test_similarity_is_that_of_the_best_alignment_of_a_plain_loop(seed):
    rng = np.random.default_rng(seed)
    weighted = [information_weighted(random_matrix(rng, int(rng.integers(2, 9)))) for _ in range(5)]
    found = similarities(weighted)
    for i, first in enumerate(weighted):
        for j, second in enumerate(weighted):
            best = -1.0
            for other in (second, second[::-1, ::-1]):
                for offset in range(-len(other) + 1, len(first)):
                    value = sum(
                        float(first[place] @ other[place - offset])
                        for place in range(len(first))
                        if 0 <= place - offset < len(other)
                    )
                    best = max(best, value)
            assert found[i, j] == pytest.approx(max(best, 0.0), abs=1e-9)
            assert best_alignment(first, second)[0] == pytest.approx(best, abs=1e-9)


def test_a_matrix_lies_on_itself_turned_round_and_shifted():
    matrix = random_matrix(np.random.default_rng(0), 8)
    whole, part = information_weighted(matrix), information_weighted(matrix[2:7][::-1, ::-1])
    assert best_alignment(whole, whole) == (pytest.approx(1), 0, False)
    _, offset, turned = best_alignment(whole, part)
    assert (offset, turned) == (2, True)


def test_what_is_alike_becomes_one_motif_and_the_rest_stays_apart():
    rng = np.random.default_rng(1)
    first, second = (consensus_matrix(encode(word), 0.1) for word in ("TGACTCATTG", "CCGGTAACGA"))
    made = [
        first,
        second,
        first[::-1, ::-1],
        second[1:],
        first[:9],
        0.8 * first + 0.2 * random_matrix(rng, 10),
    ]
    sites = [100, 60, 50, 20, 10, 300]
    merged = merge_motifs(made, sites)
    assert [motif.members for motif in merged] == [(5, 0, 2, 4), (1, 3)]
    assert [motif.sites for motif in merged] == [460, 80]
    by_hand = (300 * made[5] + 150 * first) / 460
    by_hand[:9] += 10 * first[:9] / 460
    by_hand[9] += 10 * np.full(4, 0.25) / 460
    np.testing.assert_allclose(merged[0].probabilities, by_hand)
    np.testing.assert_allclose(merged[1].probabilities[1:], second[1:])


def test_few_or_no_matrices():
    assert merge_motifs([], []) == []
    matrix = consensus_matrix(encode("ACGTT"), 0.0)
    (alone,) = merge_motifs([matrix], [7])
    assert (alone.sites, alone.members) == (7, (0,))
    np.testing.assert_allclose(alone.probabilities, matrix)
