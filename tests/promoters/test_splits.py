"""Sides of genes and treatments, and the leakage between them."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bioattn.choices import SPLIT_NAMES, TEST, TRAIN, VALIDATION
from bioattn.errors import BioattnError
from bioattn.promoters.choices import DatasetSettings, Split
from bioattn.promoters.promoter_fasta import Promoter
from bioattn.promoters.splits import (
    block_groups,
    parse_holdouts,
    split_by_chromosome,
    split_by_group,
    split_genes,
    split_treatments,
)
from bioattn.promoters.treatments import TreatmentTable

CHROM = ["I"] * 40 + ["II"] * 30 + ["III"] * 10 + ["IV"] * 9 + ["V"] * 11


def table():
    frame = pd.DataFrame(
        {
            "group": pd.Series(["heat", "heat", "cold", "cold", "salt"], dtype=object),
            "minutes": [5.0, 10.0, 5.0, 10.0, np.nan],
        }
    )
    frame.index = pd.Index(["h5", "h10", "c5", "c10", "1,10-phenanthroline"], dtype=object)
    return TreatmentTable(frame)


def sides_of(holdouts, with_treatments=False):
    return parse_holdouts(holdouts, with_treatments)


def test_named_chromosomes():
    sides = split_by_chromosome(CHROM, sides_of(["test=II,III validation=V"]), 0)
    expected = {"II": TEST, "III": TEST, "V": VALIDATION}
    assert sides.tolist() == [expected.get(name, TRAIN) for name in CHROM]


@given(
    st.lists(st.tuples(st.sampled_from(["U", "P"]), st.integers(-50, 5000), st.integers(1, 60)), min_size=30)
)
def test_no_two_windows_in_two_blocks_overlap(windows):
    chrom = [name for name, _, _ in windows]
    start = np.array([first for _, first, _ in windows])
    end = np.array([first + length for _, first, length in windows])
    blocks = block_groups(chrom, start, end, 500)
    for i, j in itertools.combinations(range(len(windows)), 2):
        if chrom[i] != chrom[j]:
            assert blocks[i] != blocks[j]
        elif start[i] < end[j] and start[j] < end[i]:
            assert blocks[i] == blocks[j]
    apart = [
        i
        for i in range(len(windows))
        if not any(
            i != j and chrom[i] == chrom[j] and start[i] < end[j] and start[j] < end[i]
            for j in range(len(windows))
        )
    ]
    for i, j in itertools.combinations(apart, 2):
        same = chrom[i] == chrom[j] and max(start[i], 0) // 500 == max(start[j], 0) // 500
        assert (blocks[i] == blocks[j]) == same


@pytest.mark.parametrize("seed", range(6))
def test_chromosomes_are_added_that_bring_the_count_nearest(seed):
    """Ten chromosomes of 4 genes and ten of 6: whichever is drawn, one of the other size makes a tenth of 100."""
    chrom = [f"chr{i}" for i in range(20) for _ in range(4 + 2 * (i % 2))]
    assert np.bincount(split_by_chromosome(chrom, [], seed)).tolist() == [80, 10, 10]


@given(st.lists(st.integers(0, 30), min_size=60, max_size=200), st.integers(0, 9))
def test_groups_stay_whole(groups, seed):
    numbered = np.unique(groups, return_inverse=True)[1]
    try:
        sides = split_by_group(numbered, [], seed, "homology")
    except BioattnError as error:
        assert "no group of related promoters fits" in str(error)  # noqa: PT017
        return
    for group in set(numbered.tolist()):
        assert len(set(sides[numbered == group].tolist())) == 1
    assert set(sides) == {TRAIN, VALIDATION, TEST}


@pytest.mark.parametrize(
    ("texts", "test", "validation"),
    [
        (["test=group:heat"], ["h5", "h10"], []),
        (["test=treatment:h5,c5", "validation=treatment:h10"], ["h5", "c5"], ["h10"]),
        (["test=minutes:10"], ["h10", "c10"], []),
        (["test=treatment:1,10-phenanthroline"], ["1,10-phenanthroline"], []),
        (["test=group:heat validation=group:salt"], ["h5", "h10"], ["1,10-phenanthroline"]),
    ],
)
def test_treatments_by_name_and_column(texts, test, validation):
    sides = split_treatments(table(), sides_of(texts, True), 0)
    names = np.array(table().names)
    assert names[sides == TEST].tolist() == test
    assert names[sides == VALIDATION].tolist() == validation


def test_treatments_at_random_are_warned_about(caplog):
    with caplog.at_level("WARNING", "bioattn"):
        sides = split_treatments(table(), [], 0)
    assert np.bincount(sides).tolist() == [3, 1, 1]
    assert "hold out whole groups with --holdout test=COLUMN:VALUE" in caplog.text


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: sides_of(["IV"]), "--holdout 'IV': write test=NAMES or validation=NAMES"),
        (
            lambda: split_by_chromosome(CHROM, sides_of(["test=VI"]), 0),
            "no promoter lies on 'VI'; the chromosomes are 'I', 'II', 'III', 'IV', 'V'",
        ),
        (
            lambda: split_by_group(np.zeros(50, np.int64), [], 0, "homology"),
            "no group of related promoters fits",
        ),
        (
            lambda: split_treatments(table(), sides_of(["test=group:fire"], True), 0),
            "no value of the column 'group' is 'fire'; there are 'heat', 'cold', 'salt'",
        ),
    ],
)
def test_mistakes_are_named(call, sentence):
    with pytest.raises(BioattnError) as caught:
        call()
    assert sentence in str(caught.value)


GENES = 120


def promoters(chromosomes=6):
    """Unrelated promoters, far from each other; no chromosome names for 0 of them."""
    codes = np.random.default_rng(0).integers(0, 4, (GENES, 60)).astype(np.uint8)
    names = [f"chr{number % chromosomes}" if chromosomes else "" for number in range(GENES)]
    return [
        Promoter(f"g{number}", name, number * 1000, number * 1000 + 60, "+", 0, codes[number])
        for number, name in enumerate(names)
    ]


def split(made, proteins=None, **settings):
    codes = np.stack([promoter.codes for promoter in made])
    return split_genes(made, codes, DatasetSettings(**settings), proteins)


@pytest.mark.parametrize(
    ("chromosomes", "settings", "kind"),
    [
        (6, {}, "chromosome"),
        (5, {}, "chromosome"),
        (4, {}, "homology"),
        (0, {}, "homology"),
        (6, {"holdouts": ("test=0.2",)}, "homology"),
        (6, {"holdouts": ("test=chr1", "validation=0.2")}, None),
        (3, {"holdouts": ("test=chr1", "validation=chr2")}, "chromosome"),
        (6, {"holdouts": ("test=",)}, "chromosome"),
        (6, {"splits": (Split.RANDOM,)}, "random"),
        (6, {"splits": (Split.BLOCK,), "block_size": 10_000}, "block"),
        (6, {"splits": (Split.BLOCK, Split.TREATMENT), "block_size": 10_000}, "block"),
    ],
)
def test_the_split_that_is_made(chromosomes, settings, kind):
    if kind is None:  # a name among the holdouts means chromosomes, and 0.2 is none
        with pytest.raises(Exception, match=r"no promoter lies on '0\.2'"):
            split(promoters(chromosomes), **settings)
        return
    found = split(promoters(chromosomes), **settings)
    assert found.description["genes"] == kind
    sides = {SPLIT_NAMES[side] for side in found.sides}
    assert sides == ({"train", "validation"} if settings.get("holdouts") == ("test=",) else set(SPLIT_NAMES))
    for figure in found.leakage:
        here = found.sides == SPLIT_NAMES.index(figure.side)
        assert figure.promoters == here.sum()
        assert (figure.overlapping is None) == (chromosomes == 0)
        assert figure.paralogues is None


@pytest.mark.parametrize("chromosomes", [0, 6])
def test_who_holds_out_treatments_is_told_of_their_split(chromosomes):
    with pytest.raises(
        BioattnError, match=r"hold out treatments, --split treatment|treatments are held out with --split"
    ):
        split(promoters(chromosomes), holdouts=("test=treatment:t1",))


def test_treatments_alone_leave_all_genes_in_training(caplog):
    with caplog.at_level("INFO", "bioattn"):
        found = split(promoters(), splits=(Split.TREATMENT,), holdouts=("test=treatment:t1",))
    assert (found.sides == TRAIN).all()
    assert found.description == {"genes": None, "k": 14, "min_share": 0.1}
    assert found.leakage == []
    assert "all genes are in training" in caplog.text


def family_proteins(pairs):
    """A protein for each of the first 2 · pairs genes; those of a pair are alike but for a tenth."""
    generator = np.random.default_rng(1)
    letters = np.array(list("ACDEFGHIKLMNPQRSTVWY"))
    proteins = {}
    for pair in range(pairs):
        first = generator.choice(letters, 200)
        second = np.where(generator.random(200) < 0.1, generator.choice(letters, 200), first)
        proteins |= {f"g{2 * pair}": "".join(first), f"g{2 * pair + 1}": "".join(second)}
    return proteins


def test_paralogues_stay_together_and_are_counted(caplog):
    made, proteins = promoters(3), family_proteins(GENES // 2)
    with caplog.at_level("INFO", "bioattn"):
        together = split(made, proteins, splits=(Split.HOMOLOGY,))
        assert "no protein" not in caplog.text
        apart = split(made, proteins, splits=(Split.RANDOM,))
    assert "--split random does not keep test promoters apart from their relatives" in caplog.text
    assert together.description["proteins"] is True
    assert together.description["groups"] == GENES // 2
    assert (together.sides[::2] == together.sides[1::2]).all()
    assert [figure.paralogues for figure in together.leakage] == [0, 0, 0]
    partner = apart.sides.reshape(-1, 2)[:, ::-1].ravel()
    for figure in apart.leakage:
        here = apart.sides == SPLIT_NAMES.index(figure.side)
        assert figure.paralogues == pytest.approx((partner[here] == SPLIT_NAMES.index(figure.against)).mean())
