"""Groups of related promoters, and leakage between the sides of a split."""

import itertools

import numpy as np
import pytest
from Bio.Seq import Seq
from hypothesis import given
from hypothesis import strategies as st

from bioattn.choices import TEST, TRAIN, VALIDATION
from bioattn.formats.nucleotides import encode
from bioattn.promoters.homology import (
    Links,
    group_labels,
    measure_leakage,
    overlap_links,
    overlaps_any,
    promoter_links,
    protein_links,
)
from bioattn.promoters.kmers import distinct_kmers, is_low_complexity


def canonical(sequence, k):
    """Canonical k-mers by string operations."""
    found = set()
    for i in range(len(sequence) - k + 1):
        kmer = sequence[i : i + k]
        if "N" not in kmer:
            found.add(min(kmer, str(Seq(kmer).reverse_complement())))
    return found


def low_complexity(kmer):
    return len({kmer[i : i + 3] for i in range(len(kmer) - 2)}) < 6


def pack(kmer):
    return int("".join(str("ACGT".index(letter)) for letter in kmer), 4)


@given(st.lists(st.text("ACGTN", min_size=20, max_size=20), min_size=1, max_size=5), st.integers(1, 15))
def test_distinct_kmers(sequences, k):
    kmers, offsets = distinct_kmers(np.stack([encode(s) for s in sequences]), k)
    for row, sequence in enumerate(sequences):
        expected = sorted(pack(kmer) for kmer in canonical(sequence, k))
        assert kmers[offsets[row] : offsets[row + 1]].tolist() == expected


@given(st.lists(st.text("ACGT", min_size=14, max_size=14), min_size=1))
def test_low_complexity(kmers):
    packed = np.array([pack(kmer) for kmer in kmers], dtype=np.int32)
    assert is_low_complexity(packed, 14).tolist() == [low_complexity(kmer) for kmer in kmers]


def related_sequences(seed, count=40):
    """Random promoters; some hold pieces of others, in either direction, some a poly-A run."""
    generator = np.random.default_rng(seed)
    sequences = ["".join(generator.choice(list("ACGT"), 120)) for _ in range(count)]
    for _ in range(count // 2):
        source, target = generator.choice(count, 2, replace=False)
        size = int(generator.integers(14, 60))
        piece = sequences[source][10 : 10 + size]
        if generator.random() < 0.5:
            piece = str(Seq(piece).reverse_complement())
        sequences[target] = sequences[target][: 120 - size] + piece
    for target in generator.choice(count, 8, replace=False):
        sequences[target] = "A" * 40 + sequences[target][40:]
    return sequences


@pytest.mark.parametrize("seed", range(3))
def test_promoter_links_against_all_pairs(seed):
    sequences = related_sequences(seed)
    links = promoter_links(np.stack([encode(s) for s in sequences]))
    found = {(int(a), int(b)): float(s) for a, b, s in zip(*links, strict=True)}
    expected = {}
    sets = [canonical(sequence, 14) for sequence in sequences]
    for a, b in itertools.permutations(range(len(sequences)), 2):
        common = sum(not low_complexity(kmer) for kmer in sets[a] & sets[b])
        if common and common / len(sets[a]) >= 0.1:
            expected[a, b] = common / len(sets[a])
    assert expected
    assert found.keys() == expected.keys()
    for pair, share in expected.items():
        assert found[pair] == pytest.approx(share, rel=1e-6)


def test_a_repeat_in_very_many_promoters_links_nothing():
    generator = np.random.default_rng(2)
    codes = generator.integers(0, 4, (300, 100)).astype(np.uint8)
    codes[:250, :40] = codes[0, :40]
    assert promoter_links(codes).first.size == 0
    few = promoter_links(np.concatenate([codes[:150], codes[250:]]))
    assert len(set(few.first.tolist())) == 150


def test_very_many_variants_of_one_promoter_are_one_group():
    generator = np.random.default_rng(3)
    codes = generator.integers(0, 4, (1000, 100)).astype(np.uint8)
    codes[:700] = codes[0]
    for row in range(1, 700):
        codes[row, row % 100] = (codes[row, row % 100] + row // 100 % 3 + 1) % 4
    links = promoter_links(codes)
    groups = group_labels(len(codes), [(links.first, links.second)])
    assert len(np.unique(groups[:700])) == 1
    assert len(np.unique(groups)) == 301
    sides = np.where(np.arange(1000) % 50 == 1, TEST, TRAIN).astype(np.uint8)
    (leakage,) = measure_leakage(sides, links, [""] * 1000, np.zeros(1000, int), np.zeros(1000, int))
    assert leakage.shared_kmers == pytest.approx(0.7)


@given(
    st.lists(st.tuples(st.sampled_from(["I", "II", ""]), st.integers(0, 60), st.integers(1, 20)), max_size=25)
)
def test_overlap_groups_against_a_plain_loop(intervals):
    chrom = [interval[0] for interval in intervals]
    start = np.array([interval[1] for interval in intervals], dtype=np.int64)
    end = start + np.array([interval[2] for interval in intervals], dtype=np.int64)
    labels = group_labels(len(intervals), [overlap_links(chrom, start, end)])
    parent = list(range(len(intervals)))
    changed = True
    while changed:  # the smallest index spreads until nothing changes
        changed = False
        for a, b in itertools.combinations(range(len(intervals)), 2):
            touching = chrom[a] and chrom[a] == chrom[b] and start[a] < end[b] and start[b] < end[a]
            if touching and parent[a] != parent[b]:
                parent[a] = parent[b] = min(parent[a], parent[b])
                changed = True
    for a, b in itertools.combinations(range(len(intervals)), 2):
        assert (labels[a] == labels[b]) == (parent[a] == parent[b])


def mutated(protein, identity, generator):
    letters = np.array(list(protein))
    change = generator.random(len(letters)) > identity
    letters[change] = generator.choice(list("ACDEFGHIKLMNPQRSTVWY"), int(change.sum()))
    return "".join(letters)


def test_paralogues_are_linked_and_strangers_are_not():
    generator = np.random.default_rng(0)
    families = ["".join(generator.choice(list("ACDEFGHIKLMNPQRSTVWY"), 400)) for _ in range(30)]
    proteins = [mutated(family, 0.8, generator) for family in families for _ in range(2)]
    links = protein_links(proteins)
    pairs = set(zip(links.first.tolist(), links.second.tolist(), strict=True))
    assert pairs == {(i, i ^ 1) for i in range(60)}


INTERVAL = st.tuples(
    st.sampled_from(["I", "II", ""]), st.integers(-5, 50), st.integers(1, 20), st.sampled_from([0, 1, 2])
)


@given(st.lists(INTERVAL, min_size=1, max_size=30))
def test_overlaps_against_a_plain_loop(intervals):
    chrom = [interval[0] for interval in intervals]
    start = np.array([interval[1] for interval in intervals])
    end = start + np.array([interval[2] for interval in intervals])
    side = np.array([interval[3] for interval in intervals])
    found = overlaps_any(chrom, start, end, side == TEST, side == TRAIN)
    for i in range(len(intervals)):
        expected = side[i] == TEST and any(
            side[j] == TRAIN and chrom[i] and chrom[i] == chrom[j] and start[i] < end[j] and start[j] < end[i]
            for j in range(len(intervals))
        )
        assert found[i] == expected


def test_figures_count_each_promoter_once():
    side = np.array([TRAIN, TRAIN, TEST, TEST, VALIDATION, TEST], dtype=np.uint8)
    first, second = np.array([2, 2, 3, 3, 4]), np.array([0, 1, 0, 4, 2])
    links = Links(first, second, np.array([0.5, 0.2, 0.05, 0.3, 0.9], dtype=np.float32))
    place = np.arange(6) * 100
    figures = {
        (f.side, f.against): f
        for f in measure_leakage(side, links, ["I"] * 6, place, place + 101, paralogues=links)
    }
    test = figures["test", "train"]
    assert test.promoters == 3
    assert test.shared_kmers == pytest.approx(1 / 3)  # 2 does, twice; 3 shares too little
    assert test.overlapping == pytest.approx(1 / 3)  # 2 touches 1
    assert test.paralogues == pytest.approx(2 / 3)
    assert figures["test", "validation"].shared_kmers == pytest.approx(1 / 3)
    assert figures["validation", "train"].shared_kmers == 0
    assert "33.3 % share at least 10 % of their 14-mers with one, 33.3 % overlap one" in test.sentence()
