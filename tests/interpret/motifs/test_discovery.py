"""Motifs found in windows they were planted in, and none where there are none."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hypergeom

from bioattn.formats.meme import Motif
from bioattn.formats.nucleotides import decode, encode, reverse_complement
from bioattn.interpret.motifs.discovery import (
    LEVEL,
    PAD,
    best_alignment,
    discover_motifs,
    enriched_words,
    information_weighted,
    log_surplus,
    merge_motifs,
    similarities,
    trim_vague_ends,
)
from bioattn.interpret.motifs.search import (
    SMOOTHED_BASES,
    best_seqlets,
    control_windows,
    cut_codes,
    cut_map,
    find_peaks,
    without_copies,
)
from bioattn.simulate.motifs import consensus_matrix

UNIFORM = np.full(4, 0.25)
WIDTH = 22 + 2 * PAD


def random_windows(rng, number):
    return rng.integers(0, 4, size=(number, WIDTH)).astype(np.uint8)


def plant(rng, windows, consensus, share, rate=0.05):
    """Sites on either strand within the inner bases of a share of the windows; returns where, -1 = none."""
    motif = Motif(name="m", probabilities=consensus_matrix(encode(consensus), rate))
    starts = np.full(len(windows), -1)
    for row, site in enumerate(motif.sample(rng, len(windows))):
        if rng.random() < share:
            starts[row] = rng.integers(PAD, WIDTH - PAD - len(consensus) + 1)
            turned = reverse_complement(site) if rng.random() < 0.5 else site
            windows[row, starts[row] : starts[row] + len(consensus)] = turned
    return starts


def either_strand(text):
    return {text, decode(reverse_complement(encode(text)))}


@pytest.mark.parametrize("consensus", ["TGACTCAT", "GGTGGCAAATC"])
def test_a_planted_motif_is_found_as_it_was_planted(consensus):
    rng = np.random.default_rng(1)
    windows = random_windows(rng, 400)
    starts = plant(rng, windows, consensus, 0.5)
    prior = np.ones(windows.shape, dtype=np.float32)
    (found,) = discover_motifs(windows, prior, random_windows(rng, 1200), UNIFORM, max_motifs=5)
    motif = Motif(name="m", probabilities=found.probabilities)
    assert motif.consensus in either_strand(consensus)
    assert np.abs(found.probabilities.max(axis=1) - 0.95).max() < 0.06
    assert found.seqlets == pytest.approx((starts >= 0).sum(), rel=0.15)
    assert found.control_share < 0.1
    assert found.log_p < -100


def test_two_motifs_and_a_gapped_one_come_out_one_after_the_other():
    rng = np.random.default_rng(2)
    windows = random_windows(rng, 600)
    plant(rng, windows[:300], "ACCGTCAT", 1.0)
    gapped = plant(rng, windows[300:], "CGGAAAAAAAAAAACCG", 1.0, rate=0.0)
    for row, start in enumerate(gapped, start=300):
        windows[row, start + 3 : start + 14] = rng.integers(0, 4, size=11)
    prior = np.ones(windows.shape, dtype=np.float32)
    found = discover_motifs(windows, prior, random_windows(rng, 1800), UNIFORM, max_motifs=5)
    shown = [Motif(name="m", probabilities=motif.probabilities).iupac_consensus for motif in found[:2]]
    assert {"CGGNNNNNNNNNNNCCG"} & set(shown)
    assert either_strand("ACCGTCAT") & set(shown)


def test_the_map_tells_which_of_two_sites_is_meant():
    """Two words stand in all seqlets; only one of them where the map is high."""
    rng = np.random.default_rng(3)
    windows, prior = random_windows(rng, 300), np.full((300, WIDTH), 0.01, dtype=np.float32)
    for row in range(300):
        windows[row, PAD : PAD + 8] = encode("TTGACCAA" if row % 2 else "TTGACGTA")
        windows[row, PAD + 12 : PAD + 20] = encode("TTGACGTA" if row % 2 else "TTGACCAA")
        # The map is high on TTGACCAA, wherever it is.
        prior[row, PAD + (0 if row % 2 else 12) :][:8] = 1.0
    controls = random_windows(rng, 900)
    found = discover_motifs(windows, prior, controls, UNIFORM, max_motifs=1)
    assert either_strand("TTGACCAA") & {Motif(name="m", probabilities=found[0].probabilities).consensus}


def test_random_windows_hold_no_motif():
    for seed in range(8):
        rng = np.random.default_rng(seed)
        windows = random_windows(rng, 300)
        prior = np.ones(windows.shape, dtype=np.float32)
        assert discover_motifs(windows, prior, random_windows(rng, 900), UNIFORM, max_motifs=5) == []


def test_what_controls_hold_too_is_no_motif():
    rng = np.random.default_rng(4)
    windows, controls = random_windows(rng, 300), random_windows(rng, 900)
    for some in (windows, controls):
        plant(rng, some, "TATATAAA", 0.8)
    prior = np.ones(windows.shape, dtype=np.float32)
    assert discover_motifs(windows, prior, controls, UNIFORM, max_motifs=5) == []


def test_words_are_counted_as_a_plain_loop_counts_them():
    rng = np.random.default_rng(5)
    windows, controls = (
        rng.choice(5, p=[0.35, 0.2, 0.2, 0.22, 0.03], size=(number, 14)) for number in (60, 90)
    )
    windows[:30, 2:10] = encode("GATNAACA")[None, :]
    windows[:30, 5] = rng.integers(0, 4, size=30)

    def holds(window, word, gap):
        for start in range(14 - 6 - gap + 1):
            read = [*window[start : start + 3], *window[start + 3 + gap : start + 6 + gap]]
            if max(read) < 4 and (tuple(read) == word or tuple(3 - base for base in read[::-1]) == word):
                return True
        return False

    seed = enriched_words(windows.astype(np.uint8), controls.astype(np.uint8), 1)[0]
    assert (seed.gap, decode(np.array(seed.bases, dtype=np.uint8))) in {(1, "GATAAC"), (1, "GTTATC")} | {
        (0, word) for word in ("AACA", "TGTT")
    }
    here = sum(holds(window.tolist(), seed.bases, seed.gap) for window in windows)
    there = sum(holds(window.tolist(), seed.bases, seed.gap) for window in controls)
    words = 0
    for gap in range(9):
        seen = set()
        for window in [*windows.tolist(), *controls.tolist()]:
            for start in range(14 - 6 - gap + 1):
                read = (*window[start : start + 3], *window[start + 3 + gap : start + 6 + gap])
                if max(read) < 4:
                    seen.add(min(read, tuple(3 - base for base in read[::-1])))
        words += len(seen)
    by_hand = np.log(hypergeom.sf(here - 1, 150, here + there, 60)) + np.log(words)
    assert seed.log_p == pytest.approx(by_hand)
    assert seed.log_p < np.log(LEVEL)


def test_the_surplus_is_the_chance_counted_out():
    """Of all ways to deal 3 marked of 7 windows, those with at least so many among the first 4."""
    deals = list(itertools.combinations(range(7), 3))
    for here in range(4):
        by_hand = np.mean([sum(place < 4 for place in deal) >= here for deal in deals])
        assert log_surplus(np.array([here]), np.array([3 - here]), 4, 3)[0] == pytest.approx(np.log(by_hand))
    beyond = log_surplus(np.array([2000, 3000]), np.array([0, 0]), 4000, 12000)
    assert np.isfinite(beyond).all()
    assert beyond[1] < beyond[0] < -690


def test_vague_ends_are_cut_off():
    core = [[0.9, 0.1, 0, 0], UNIFORM, [1, 0, 0, 0], [0, 1, 0, 0], [0.97, 0.03, 0, 0]]
    matrix = np.array([UNIFORM, *core, UNIFORM])
    kept = trim_vague_ends(matrix)
    assert kept.tolist() == matrix[1:6].tolist()
    assert trim_vague_ends(matrix, 12.0) is None
    assert trim_vague_ends(np.tile(UNIFORM, (5, 1))) is None


def seqlets(gene, centre, score=0.0):
    return pd.DataFrame({"gene": gene, "centre": centre, "score": score})


@given(seed=st.integers(0, 1000), apart=st.integers(1, 15), per_promoter=st.integers(1, 4))
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
    assert list(zip(found["gene"], found["centre"], strict=True)) == [peak[:2] for peak in expected]
    np.testing.assert_allclose(found["score"], [peak[2] for peak in expected], rtol=1e-4, atol=1e-6)


def test_best_seqlets_are_the_highest_in_order():
    best = best_seqlets(seqlets([0, 1, 2, 2, 3], [5, 5, 9, 4, 1], [1, 3, 3, 3, 2]), 4)
    assert best[["gene", "centre"]].to_numpy().tolist() == [[1, 5], [2, 4], [2, 9], [3, 1]]


def test_windows_beyond_a_promoter_are_n_and_zero():
    codes = np.stack([encode("ACGTA"), encode("CCCCC")])
    where = seqlets([0, 1, 0], [2, 0, 4])
    assert cut_codes(codes, where, 5).tolist() == [[0, 1, 2, 3, 0], [4, 4, 1, 1, 1], [2, 3, 0, 4, 4]]
    values = np.arange(10.0).reshape(2, 5)
    assert cut_map(values, seqlets([7, 8], [4, 2]), 3, first=7).tolist() == [[3, 4, 0], [6, 7, 8]]


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


def test_controls_keep_their_position_and_leave_their_promoter():
    where = seqlets(np.arange(50) % 20, np.arange(50))
    drawn, again, other = (control_windows(where, 20, 3, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert drawn["centre"].tolist() == list(range(50)) * 3
    assert not np.any(drawn["gene"] == np.tile(where["gene"], 3))
    assert set(drawn["gene"]) == set(range(20))
    assert drawn.equals(again)
    assert not drawn.equals(other)


def random_matrix(rng, width):
    return rng.dirichlet([0.4] * 4, size=width)


@given(seed=st.integers(0, 500))
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
