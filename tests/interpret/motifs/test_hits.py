"""Motif hits against a plain loop over sites, p-values against all words there are."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bioattn.formats.meme import Motif, MotifDatabase, read_meme
from bioattn.formats.nucleotides import encode, reverse_complement
from bioattn.interpret.motifs.export import match_motifs
from bioattn.interpret.motifs.hits import SCORE_STEP, MotifScores, find_motif_hits
from bioattn.interpret.motifs.tomtom import tomtom
from bioattn.interpret.motifs.use import SHORT_HIT_P_VALUE, hits_of_motifs
from bioattn.simulate.motifs import consensus_matrix

BACKGROUND = (0.31, 0.19, 0.19, 0.31)


def random_motif(rng, width, name="m", sites=50):
    return Motif(name=name, probabilities=rng.dirichlet([0.3] * 4, size=width), sites=sites)


def slow_hits(codes, motifs, background, p_value):
    """Every place, both strands, one base at a time; the p-value from all words of the motif's width."""
    found = []
    for motif in motifs:
        matrix = MotifScores(motif, background).matrix
        words = np.array(list(itertools.product(range(4), repeat=motif.width)))
        word_scores = matrix[np.arange(motif.width), words].sum(axis=1)
        chances = np.asarray(background)[words].prod(axis=1)
        for row, sequence in enumerate(codes):
            for start in range(len(sequence) - motif.width + 1):
                site = sequence[start : start + motif.width]
                if (site > 3).any():
                    continue
                for strand, read in (("+", site), ("-", reverse_complement(site))):
                    score = sum(int(matrix[place, base]) for place, base in enumerate(read))
                    chance = chances[word_scores >= score].sum()
                    if chance <= p_value:
                        found.append(
                            (row, motif.name, start, start + motif.width, strand, score * SCORE_STEP, chance)
                        )
    names = [motif.name for motif in motifs]
    return sorted(found, key=lambda hit: (hit[0], hit[2], names.index(hit[1]), hit[4] == "-"))


@pytest.mark.parametrize(("p_value", "at_least"), [(0.01, 100), (0.002, 5)])
def test_hits_equal_a_plain_loop(p_value, at_least):
    rng = np.random.default_rng(5)
    motifs = [random_motif(rng, width, f"m{width}") for width in (7, 3, 1, 6, 5)]
    codes = rng.choice(5, p=[0.3, 0.19, 0.19, 0.3, 0.02], size=(40, 40)).astype(np.uint8)
    expected = slow_hits(codes, motifs, BACKGROUND, p_value)
    found = find_motif_hits(codes, motifs, background=BACKGROUND, p_value=p_value)
    assert len(found) == len(expected) > at_least
    for hit, other in zip(found.itertuples(index=False), expected, strict=True):
        assert tuple(hit[:5]) == other[:5]
        assert tuple(hit[5:7]) == pytest.approx(other[5:])


@given(seed=st.integers(0, 10_000), width=st.integers(1, 6))
def test_p_values_are_the_share_of_all_words(seed, width):
    rng = np.random.default_rng(seed)
    scores = MotifScores(random_motif(rng, width), BACKGROUND)
    words = np.array(list(itertools.product(range(4), repeat=width)))
    totals = scores.matrix[np.arange(width), words].sum(axis=1)
    chances = scores.background[words].prod(axis=1)
    by_hand = np.array([chances[totals >= total].sum() for total in totals])
    np.testing.assert_allclose(scores.p_values(totals), by_hand, rtol=1e-9)
    for limit in (0.5, 0.01, 1e-4, 1e-9):
        rare = totals[by_hand <= limit * (1 + 1e-12)]
        least = scores.threshold(limit)
        assert (least is None) == (rare.size == 0)
        if least is not None:
            assert np.array_equal(totals >= least, by_hand <= limit * (1 + 1e-12))


def test_matrices_are_log_odds_with_a_pseudo_site():
    motif = Motif(name="m", probabilities=np.array([[1.0, 0, 0, 0]]), sites=9)
    by_hand = np.log2(np.array([9 + 0.31, 0.19, 0.19, 0.31]) / 10 / np.array(BACKGROUND))
    np.testing.assert_allclose(
        MotifScores(motif, BACKGROUND).matrix[0] * SCORE_STEP, by_hand, atol=SCORE_STEP / 2
    )


def test_too_vague_motifs_and_short_sequences_have_no_hits(caplog):
    caplog.set_level("INFO", logger="bioattn")
    vague = Motif(name="vague", probabilities=np.full((8, 4), 0.25))
    codes = np.zeros((2, 5), dtype=np.uint8)
    found = find_motif_hits(
        codes, [vague, random_motif(np.random.default_rng(0), 9, "long")], background=[1, 1, 1, 1]
    )
    assert len(found) == 0
    assert "1 of 2 motifs are too short or vague" in caplog.text
    assert len(find_motif_hits(np.zeros((0, 5), dtype=np.uint8), [vague])) == 0


UNIFORM = np.full(4, 0.25)


GOLDEN = {
    "GAL4": [3.910e-35, 6.011e-02, 8.269e-01],
    "LEU3": [3.857e-01, 1.771e-01, 8.634e-01],
    "RAP1": [8.529e-01, 1.475e-01, 2.682e-01],
    "REB1": [7.979e-01, 7.656e-25, 4.607e-01],
    "HSF1": [3.674e-01, 3.981e-01, 7.104e-16],
    "ABF1": [2.034e-02, 3.652e-01, 6.534e-01],
}
"""P-values of memelite 0.5.0 for JASPAR's motifs with a cut GAL4, a turned REB1 and HSF1."""


def test_hits_come_in_order_each_place_once_and_short_motifs_at_what_they_can():
    codes = np.stack([encode("TTTTTGACGTCATTTTT"), encode("TTTACCTTTTTTTTTTT"), encode("CCCCCCCCCCCCCCCCC")])
    palindrome = Motif(name="palindrome", probabilities=consensus_matrix(encode("TGACGTCA"), 0.01), sites=500)
    short = Motif(name="short", probabilities=consensus_matrix(encode("ACGTA"), 0.01), sites=500)
    vague = Motif(name="vague", probabilities=consensus_matrix(encode("AC"), 0.01), sites=500)
    columns = ["row", "start", "end", "number", "strand"]
    # 4^-5 is above 1e-4, so the short one is sought at its best site's p-value; 4^-2 is too much.
    hits = hits_of_motifs(codes, [short, palindrome, vague], UNIFORM, 1e-4)
    assert hits[columns].to_numpy().tolist() == [[0, 4, 12, 1, "+"]]
    codes[1, 2:8] = encode("TACGTA")
    hits = hits_of_motifs(codes, [short, palindrome, vague], UNIFORM, 1e-4)
    assert hits[columns].to_numpy().tolist()[1:] == [[1, 2, 7, 0, "-"], [1, 3, 8, 0, "+"]]
    assert len(hits_of_motifs(codes, [], UNIFORM, 1e-4)) == 0
    # Among many A and T even the best sites of five bases are likelier than 1e-3: edges ask for these, too.
    assert not len(hits_of_motifs(codes, [short], [0.3, 0.2, 0.2, 0.3], 1e-3))
    edges = hits_of_motifs(codes, [short], [0.3, 0.2, 0.2, 0.3], 1e-3, SHORT_HIT_P_VALUE)
    assert edges[["row", "start", "strand"]].to_numpy().tolist() == [[1, 2, "-"], [1, 3, "+"]]


def test_a_motif_finds_itself_blurred_and_turned_round(shared, caplog):
    database = read_meme(shared / "data/motifs/JASPAR2024_CORE_fungi.meme")
    rng = np.random.default_rng(0)
    names = ("GAL4", "RAP1", "REB1", "LEU3", "HSF1", "ABF1")
    some = [motif for motif in database.motifs if motif.alternative_name in names]
    blurred = [
        Motif(name=f"q{number}", probabilities=0.9 * motif.probabilities[::-1, ::-1] + 0.025)
        for number, motif in enumerate(some)
    ]
    random = [Motif(name=f"r{i}", probabilities=rng.dirichlet([0.3] * 4, size=8)) for i in range(20)]
    found = match_motifs([blurred, random], database)
    assert found["match"][:6].tolist() == [motif.name for motif in some]
    assert found["match_name"][:6].tolist() == [motif.alternative_name for motif in some]
    assert (found["q_value"][:6] < 1e-3).all()
    assert (found["q_value"][6:] < 0.05).sum() <= 2
    match_motifs([blurred[:1]], MotifDatabase(motifs=some))
    assert "rough below 50" in caplog.text


def test_p_values_are_memelites_to_its_rounding(shared):
    database = read_meme(shared / "data/motifs/JASPAR2024_CORE_fungi.meme")
    by_name = {motif.alternative_name: motif.probabilities for motif in database.motifs}
    queries = [by_name["GAL4"][4:15], by_name["REB1"][::-1, ::-1], by_name["HSF1"]]
    columns = [[motif.alternative_name for motif in database.motifs].index(name) for name in GOLDEN]
    ours = tomtom(queries, [motif.probabilities for motif in database.motifs])[:, columns]
    golden = np.array(list(GOLDEN.values())).T
    np.testing.assert_allclose(ours[golden > 1e-3], golden[golden > 1e-3], rtol=0.15)
    np.testing.assert_allclose(np.log10(ours), np.log10(golden), atol=0.6)


def test_a_p_value_is_the_share_of_targets_that_align_as_well():
    rng = np.random.default_rng(1)
    query, *targets = (rng.dirichlet([0.5] * 4, size=2) for _ in range(5))
    columns = np.concatenate([*targets, *(target[::-1, ::-1] for target in targets)])
    distances = np.linalg.norm(query[:, None] - columns, axis=2)
    scores = np.median(distances, axis=1, keepdims=True) - distances

    def best(first, second):
        return np.maximum.reduce([scores[0, first] + scores[1, second], scores[0, second], scores[1, first]])

    # Three alignments of two columns with two, drawn apart from one another.
    whole = np.add.outer(scores[0], scores[1]).ravel()
    for number, p_value in enumerate(tomtom([query], targets)[0]):
        strands = []
        for first in (2 * number, 2 * (len(targets) + number)):
            total = best(first, first + 1) - 1e-9
            below = [(part < total).mean() for part in (whole, scores[0], scores[1])]
            strands.append(1 - np.prod(below))
        assert p_value == pytest.approx(1 - (1 - min(strands)) ** 2, rel=0.15)
