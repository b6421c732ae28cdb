"""The gene split of a dataset: which one is made, what it keeps together, and what is said of it."""

import numpy as np
import pytest

from bioattn.promoters.choices import Split
from bioattn.promoters.dataset import SPLIT_NAMES, TRAIN
from bioattn.promoters.gene_split import split_genes
from bioattn.promoters.promoter_fasta import Promoter
from bioattn.promoters.splits import DatasetSettings

GENES = 120


def promoters(chromosomes=6, genes=GENES):
    """Unrelated promoters, far from each other; no chromosome names for 0 of them."""
    generator = np.random.default_rng(0)
    return [
        Promoter(
            f"g{number}",
            f"chr{number % chromosomes}" if chromosomes else "",
            number * 1000,
            number * 1000 + 60,
            "+",
            0,
            generator.integers(0, 4, 60).astype(np.uint8),
        )
        for number in range(genes)
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


def test_one_promoter_without_a_place_is_enough_for_homology():
    made = promoters(6)
    made[7] = made[7]._replace(chrom="", start=-1, end=-1, strand=".")
    assert split(made).description["genes"] == "homology"


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
    assert together.description["proteins"] is True
    assert together.description["groups"] == GENES // 2
    assert (together.sides[::2] == together.sides[1::2]).all()
    assert [figure.paralogues for figure in together.leakage] == [0, 0, 0]
    apart = split(made, proteins, splits=(Split.RANDOM,))
    partner = apart.sides.reshape(-1, 2)[:, ::-1].ravel()
    for figure in apart.leakage:
        here = apart.sides == SPLIT_NAMES.index(figure.side)
        assert figure.paralogues == pytest.approx((partner[here] == SPLIT_NAMES.index(figure.against)).mean())
