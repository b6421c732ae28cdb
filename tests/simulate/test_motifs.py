"""Backgrounds and motifs that are planted in them."""

from functools import cache
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bioattn.errors import SettingsError
from bioattn.formats.meme import Motif
from bioattn.formats.nucleotides import decode, encode, reverse_complement
from bioattn.simulate.motifs import (
    YEAST_UPSTREAM,
    consensus_matrix,
    edit_distance,
    profile_matrix,
    separated_consensuses,
)

DNA = st.text(alphabet="ACGT", max_size=9)


def slow_edit_distance(first, second):
    """The recursive definition."""

    @cache
    def distance(i, j):
        if i == 0 or j == 0:
            return i + j
        return min(
            distance(i - 1, j) + 1,
            distance(i, j - 1) + 1,
            distance(i - 1, j - 1) + (first[i - 1] != second[j - 1]),
        )

    return distance(len(first), len(second))


@given(DNA, DNA)
def test_edit_distance_equals_the_recursive_definition(first, second):
    assert edit_distance(encode(first), encode(second)) == slow_edit_distance(first, second)


@pytest.mark.parametrize("widths", [[8] * 8, [9, 10, 11, 12, 12, 9]])
def test_motifs_are_apart_on_both_strands(widths):
    chosen, distance = separated_consensuses(np.random.default_rng(1), widths)
    assert [codes.size for codes in chosen] == widths
    assert distance == min(widths) // 2
    for first, second in combinations(chosen, 2):
        assert slow_edit_distance(decode(first), decode(second)) >= distance
        assert slow_edit_distance(decode(first), decode(reverse_complement(second))) >= distance
    for codes in chosen:
        assert slow_edit_distance(decode(codes), decode(reverse_complement(codes))) >= distance


def test_many_short_motifs_come_with_a_smaller_distance_or_are_refused(monkeypatch):
    monkeypatch.setattr("bioattn.simulate.motifs.MAX_DRAWS", 200)
    chosen, distance = separated_consensuses(np.random.default_rng(1), [8] * 60)
    assert len(chosen) == 60
    assert 2 <= distance <= 3
    with pytest.raises(SettingsError, match="ask for fewer"):
        separated_consensuses(np.random.default_rng(1), [4] * 60)


def test_consensus_sites_are_substituted_at_the_rate():
    motif = Motif(name="m", probabilities=consensus_matrix(encode("ACGTACGT"), 0.05))
    assert motif.consensus == "ACGTACGT"
    sites = motif.sample(np.random.default_rng(0), 20_000)
    substituted = sites != encode("ACGTACGT")
    deviation = np.sqrt(0.05 * 0.95 / 20_000)
    assert np.all(np.abs(substituted.mean(axis=0) - 0.05) < 5 * deviation)
    # The three other bases share the substitutions.
    shares = np.bincount(sites[:, 0], minlength=4)[1:] / 20_000
    assert np.all(np.abs(shares - 0.05 / 3) < 5 * np.sqrt(0.0167 / 20_000))


def test_matrices_look_like_those_of_jaspar():
    """Information per position as in JASPAR's fungi and plants: half of the positions within 0.8-2 bits."""
    rng = np.random.default_rng(4)
    drawn = [(4 * rng.random(11)).astype(np.uint8) for _ in range(200)]
    made = [Motif(name="m", probabilities=profile_matrix(rng, codes)) for codes in drawn]
    assert [motif.consensus for motif in made] == [decode(codes) for codes in drawn]
    bits = np.array(
        [
            2 + np.where(m.probabilities > 0, m.probabilities * np.log2(m.probabilities), 0).sum(1)
            for m in made
        ]
    )
    assert 10 < np.median([m.information for m in made]) < 16
    assert np.allclose([m.information for m in made], bits.sum(axis=1))
    assert bits[:, 5].mean() > 1.5 > bits[:, 0].mean()  # a sharp core, vaguer ends
    assert np.quantile(bits, 0.1) < 0.9 < 1.6 < np.quantile(bits, 0.75) <= 2
    assert all(np.allclose(m.probabilities.sum(axis=1), 1) for m in made)


def test_order_2_transitions_are_those_of_the_table():
    codes = YEAST_UPSTREAM.sample(np.random.default_rng(0), 2_000, 500).astype(int)
    counts = np.zeros((16, 4))
    np.add.at(counts, (codes[:, :-2] * 4 + codes[:, 1:-1], codes[:, 2:]), 1)
    expected = np.array(YEAST_UPSTREAM.transitions)
    expected /= expected.sum(axis=1, keepdims=True)
    totals = counts.sum(axis=1, keepdims=True)
    assert totals.min() > 20_000
    deviations = np.sqrt(expected * (1 - expected) / totals)
    assert np.all(np.abs(counts / totals - expected) < 5 * deviations)


def test_order_2_begins_in_its_stationary_state():
    """The first bases have the composition of the rest: the run-in is long enough."""
    codes = YEAST_UPSTREAM.sample(np.random.default_rng(1), 40_000, 60)
    first = np.bincount(codes[:, 0], minlength=4) / 40_000
    later = np.bincount(codes[:, 40:].ravel(), minlength=4) / codes[:, 40:].size
    assert np.abs(first - later).max() < 5 * np.sqrt(0.25 / 40_000)
    assert later[[0, 3]].sum() > 0.6  # as AT-rich as yeast
