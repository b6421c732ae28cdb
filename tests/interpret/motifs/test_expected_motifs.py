"""Tables of expected pairs, and consensus patterns."""

import re

import numpy as np
import pytest

from bioattn.errors import FormatError
from bioattn.formats.meme import Motif
from bioattn.formats.nucleotides import decode, encode
from bioattn.interpret.motifs.expected_motifs import (
    Coverage,
    SiteSet,
    consensus_motif,
    find_sites,
    parse_consensus,
    read_expected,
    shuffled_columns,
    telling_positions,
    union,
)
from bioattn.interpret.motifs.hits import base_composition, find_motif_hits

HEADER = "factor\tjaspar_id\tconsensus\tcondition_group\tdirection\tn_with"


def table(tmp_path, *rows, header=HEADER):
    path = tmp_path / "expected.tsv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def test_rows_are_read_as_they_are_meant(tmp_path):
    path = table(
        tmp_path,
        "MSN2/MSN4 (STRE, >=2 sites)\tMA0341.1; MA0342.1\tAGGGG\theat\tup (weaker than wild type)\t458",
        "(negative control)\t\tACCGTA\theat\tnone\t1",
    )
    stre, control = read_expected(path)
    assert (stre.matrices, stre.least_sites, stre.line) == (("MA0341.1", "MA0342.1"), 2, 2)
    assert (stre.direction, stre.remark) == ("up", "weaker than wild type")
    assert (control.matrices, control.least_sites, control.direction) == ((), 1, "none")
    assert (control.consensus, control.condition) == ("ACCGTA", "heat")


def test_the_real_table(shared):
    pairs = read_expected(shared / "data" / "yeast" / "expected_motif_condition.tsv")
    assert len(pairs) == 25
    assert sum(pair.direction == "none" for pair in pairs) == 4
    assert {pair.least_sites for pair in pairs if "STRE" in pair.factor} == {2}
    unreadable = {pair.factor for pair in pairs if parse_consensus(pair.consensus) is None}
    assert unreadable == {"STB3 (RRPE)"}


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (["a\t\tACGT\theat\tupwards\t1"], ":2: the direction 'upwards' begins with none of 'up', 'down'"),
        (["a\t\t\theat\tup\t1"], ":2: neither jaspar_id nor consensus says what 'a' binds"),
        (["a\t\tACGT\t\tup\t1"], ":2: the condition_group is empty"),
        ([], "holds no expected pairs"),
    ],
)
def test_rows_that_say_nothing_are_named(tmp_path, rows, sentence):
    with pytest.raises(FormatError, match=re.escape(sentence)):
        read_expected(table(tmp_path, *rows))


@pytest.mark.parametrize("text", ["CGG(n11)CCG", "CGGn11CCG", "nnCGGNNNNNNNNNNNCCGn"])
def test_spacers_and_ends(text):
    (pattern,) = parse_consensus(text) or []
    assert pattern.shape == (17, 4)
    assert pattern[:3].sum() == pattern[14:].sum() == 3
    assert pattern[3:14].all()


def test_alternatives_of_one_motif_count_once():
    patterns = parse_consensus("GAAnnTTCnnGAA|TTCnnGAAnnTTC") or []
    assert len(patterns) == 1  # one is the other's reverse complement
    np.testing.assert_array_equal(patterns[0][0], [False, False, True, False])


@pytest.mark.parametrize("text", ["TGAAAAATTT-like", "", "nnn", "ACX"])
def test_what_is_no_pattern(text):
    assert parse_consensus(text) is None


RNG = np.random.default_rng(0)
CODES = RNG.choice(4, p=[0.32, 0.18, 0.18, 0.32], size=(60, 200)).astype(np.uint8)
CODES[RNG.random(CODES.shape) < 0.002] = 4
BACKGROUND = base_composition(CODES)


def places(sites):
    return set(zip(sites.rows.tolist(), sites.starts.tolist(), sites.widths.tolist(), strict=True))


def complement(text):
    return text[::-1].translate(str.maketrans("ACGT[]", "TGCA]["))


def matched(pattern):
    """(row, start) of a pattern of letters, dots and [..] classes on either strand."""
    found = set()
    for row, codes in enumerate(CODES):
        text = decode(codes)
        for expression in (pattern, complement(pattern)):
            found |= {
                (row, hit.start()) for hit in re.finditer(f"(?={expression.replace('.', '[ACGT]')})", text)
            }
    return found


@pytest.mark.parametrize(
    ("consensus", "expression"),
    [
        ("AGGGG", "AGGGG"),
        ("TGASTCA", "TGA[CG]TCA"),
        ("GAAnnTTC", "GAA..TTC"),
        ("CGG(n3)CCG", "CGG...CCG"),
        ("RTCANY", "[AG]TCA.[CT]"),
    ],
)
def test_a_consensus_matches_as_a_regular_expression(consensus, expression):
    patterns = parse_consensus(consensus) or []
    motifs = [consensus_motif(pattern, BACKGROUND, "x") for pattern in patterns]
    (sites,) = find_sites(CODES, motifs, BACKGROUND, 0.0)
    assert {(row, start) for row, start, _ in places(sites)} == matched(expression)
    assert len(sites.rows) == len(places(sites))
    assert np.all(np.diff(sites.rows) >= 0)


def test_matrices_match_at_the_p_value_or_at_their_best():
    probabilities = np.full((7, 4), 0.05)
    probabilities[np.arange(7), encode("TGACTCA")] = 0.85
    long = Motif(name="long", probabilities=probabilities)
    short = Motif(name="short", probabilities=np.eye(4)[encode("AGGGG")], sites=10**6)
    found_long, found_short = find_sites(CODES, [long, short], BACKGROUND, 1e-3)
    hits = find_motif_hits(CODES, [long], background=BACKGROUND, p_value=1e-3)
    assert {(row, start) for row, start, _ in places(found_long)} == set(
        zip(hits["row"], hits["start"], strict=True)
    )
    # P(AGGGG) is 3e-4 here; at 1e-4 no site is rare enough, and the best ones count.
    (rare,) = find_sites(CODES, [short], BACKGROUND, 1e-4)
    assert places(rare) == places(found_short)
    assert {(row, start) for row, start, _ in places(rare)} == matched("AGGGG")


def test_sites_are_joined_chosen_and_kept_apart():
    def sites(*triples):
        rows, starts, widths = np.array(triples, dtype=np.int64).reshape(-1, 3).T
        return SiteSet(rows=rows, starts=starts, widths=widths)

    first, second = sites((0, 3, 5), (2, 9, 5)), sites((0, 3, 5), (0, 3, 7), (0, 8, 5))
    both = union([second, first])
    assert places(both) == {(0, 3, 5), (0, 3, 7), (0, 8, 5), (2, 9, 5)}
    assert both.promoters == 2
    assert places(both.at_least(2)) == {(0, 3, 5), (0, 3, 7), (0, 8, 5)}
    covered = Coverage(sites((0, 3, 5), (1, 16, 4)), 2, 20)
    others = sites((0, 0, 3), (0, 0, 4), (0, 7, 2), (0, 8, 5), (1, 3, 5), (1, 15, 2), (1, 19, 1))
    bases = {0: set(range(3, 8)), 1: set(range(16, 20))}
    assert places(covered.outside(others)) == {
        (row, start, width)
        for row, start, width in places(others)
        if not bases[row] & set(range(start, start + width))
    }


def test_shuffled_motifs_keep_information_composition_and_scores():
    probabilities = np.random.default_rng(1).dirichlet([0.3] * 4, size=9)
    probabilities[4] = BACKGROUND
    telling = telling_positions(probabilities, BACKGROUND)
    assert telling.tolist() == [True] * 4 + [False] + [True] * 4
    versions = shuffled_columns([probabilities], [telling], 120, np.random.default_rng(2))
    assert len(versions) == 120
    strong = [1, 2]
    for (version,) in versions:
        np.testing.assert_array_equal(version[4], BACKGROUND)
        np.testing.assert_allclose(
            np.sort(np.sort(version, axis=1), axis=0), np.sort(np.sort(probabilities, axis=1), axis=0)
        )
        np.testing.assert_allclose(
            np.sort(version[:, strong].sum(axis=1)), np.sort(probabilities[:, strong].sum(axis=1))
        )
    read = {min(v.tobytes(), v[::-1, ::-1].copy().tobytes()) for v in (np.round(v, 2) for (v,) in versions)}
    assert len(read) == 120


def test_short_motifs_have_a_hundred_relatives_too():
    (pattern,) = parse_consensus("AGGGG") or []
    versions = shuffled_columns([pattern], [np.ones(5, bool)], 100, np.random.default_rng(0))
    words = {decode(version.argmax(axis=1).astype(np.uint8)) for (version,) in versions}
    assert len(versions) == len(words) == 100
    assert not words & {"AGGGG", "CCCCT"}
    assert all(version.sum() == 5 for (version,) in versions)
    # The 79 others with one A or T and four G or C, strands not told apart, come first.
    assert sum(word.count("A") + word.count("T") == 1 for word in words) == 79
