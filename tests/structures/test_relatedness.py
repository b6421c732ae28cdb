"""Related chains: planted ones among random ones, and those known among the shared structures."""

import csv
from pathlib import Path

import numpy as np

from bioattn.structures.chain import read_chain
from bioattn.structures.relatedness import families, related_pairs

AMINO_ACIDS = np.array(list("ACDEFGHIKLMNPQRSTVWY"))


def test_planted_relatives_are_found_and_nothing_else() -> None:
    random = np.random.default_rng(4)
    sequences = ["".join(random.choice(AMINO_ACIDS, 120)) for _ in range(12)]
    copy = np.array(list(sequences[3]))
    changed = random.permutation(120)[:60]
    copy[changed] = random.choice(AMINO_ACIDS, 60)
    sequences += ["GG" + "".join(copy)[20:], ""]
    found = related_pairs(sequences)
    assert [(pair.first, pair.second) for pair in found] == [(3, 12)]
    assert 0.45 < found[0].identity < 0.65
    assert families(14, found) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 3, 13]


def test_families_join_through_others() -> None:
    sequences = ["MKTAYIAKQRQISFVKSHFSRQ", "MKTAYIAKQRQISFVKSHFSRQLEERLGLIEVQAPILSRVG", "LEERLGLIEVQAPILSRVG"]
    found = related_pairs(sequences)
    assert [(pair.first, pair.second) for pair in found] == [(0, 1), (1, 2)]
    assert families(3, found) == [0, 0, 0]


def test_the_known_relatives_among_the_shared_structures(shared: Path) -> None:
    """The two homologous pairs that the data's README names, and no others."""
    folder = shared / "data" / "msa_structure"
    with (folder / "INDEX.tsv").open() as index:
        pairs = list(csv.DictReader(index, delimiter="\t"))
    names = [pair["id"] for pair in pairs]
    found = related_pairs([read_chain(folder / pair["structure"], pair["chain"]).letters for pair in pairs])
    assert {frozenset((names[pair.first], names[pair.second])) for pair in found} == {
        frozenset(("PF00240_2BWF_A", "of_1UBQ")),
        frozenset(("PF00249_1GUU_A", "psicov_1guuA")),
    }
