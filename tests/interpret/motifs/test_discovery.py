"""Motifs found in windows they were planted in, and none where there are none."""

import itertools

import numpy as np
import pytest
from scipy.stats import hypergeom

from bioattn.formats.motif import Motif
from bioattn.formats.nucleotides import decode, encode, reverse_complement
from bioattn.interpret.motifs.discovery import LEVEL, PAD, discover_motifs, trim_vague_ends
from bioattn.interpret.motifs.seeds import enriched_words, log_surplus
from bioattn.interpret.motifs.seqlets import Seqlets
from bioattn.simulate.motifs import consensus_matrix

UNIFORM = np.full(4, 0.25)
WIDTH = 22 + 2 * PAD


def random_windows(rng, number) -> np.ndarray:
    return rng.integers(0, 4, size=(number, WIDTH)).astype(np.uint8)


def plant(rng, windows: np.ndarray, consensus: str, share: float, rate: float = 0.05) -> np.ndarray:
    """Sites on either strand within the inner bases of a share of the windows; returns where, -1 = none."""
    motif = Motif(name="m", probabilities=consensus_matrix(encode(consensus), rate))
    starts = np.full(len(windows), -1)
    for row, site in enumerate(motif.sample(rng, len(windows))):
        if rng.random() < share:
            starts[row] = rng.integers(PAD, WIDTH - PAD - len(consensus) + 1)
            turned = reverse_complement(site) if rng.random() < 0.5 else site
            windows[row, starts[row] : starts[row] + len(consensus)] = turned
    return starts


def either_strand(text: str) -> set[str]:
    return {text, decode(reverse_complement(encode(text)))}


@pytest.mark.parametrize("consensus", ["TGACTCAT", "GGTGGCAAATC"])
def test_a_planted_motif_is_found_as_it_was_planted(consensus):
    rng = np.random.default_rng(1)
    windows = random_windows(rng, 400)
    starts = plant(rng, windows, consensus, 0.5)
    seqlets = Seqlets(codes=windows, prior=np.ones(windows.shape, dtype=np.float32))
    (found,) = discover_motifs(seqlets, random_windows(rng, 1200), UNIFORM, max_motifs=5)
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
    seqlets = Seqlets(codes=windows, prior=np.ones(windows.shape, dtype=np.float32))
    found = discover_motifs(seqlets, random_windows(rng, 1800), UNIFORM, max_motifs=5)
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
    found = discover_motifs(Seqlets(codes=windows, prior=prior), controls, UNIFORM, max_motifs=1)
    assert either_strand("TTGACCAA") & {Motif(name="m", probabilities=found[0].probabilities).consensus}


def test_random_windows_hold_no_motif():
    for seed in range(8):
        rng = np.random.default_rng(seed)
        windows = random_windows(rng, 300)
        seqlets = Seqlets(codes=windows, prior=np.ones(windows.shape, dtype=np.float32))
        assert discover_motifs(seqlets, random_windows(rng, 900), UNIFORM, max_motifs=5) == []


def test_what_controls_hold_too_is_no_motif():
    rng = np.random.default_rng(4)
    windows, controls = random_windows(rng, 300), random_windows(rng, 900)
    for some in (windows, controls):
        plant(rng, some, "TATATAAA", 0.8)
    seqlets = Seqlets(codes=windows, prior=np.ones(windows.shape, dtype=np.float32))
    assert discover_motifs(seqlets, controls, UNIFORM, max_motifs=5) == []


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
