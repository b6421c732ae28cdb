"""Simulated trees and models trained on them: beside matrix exponentials, plain loops and formulas."""

import json
from io import StringIO
from itertools import combinations
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
import torch
from Bio import Phylo
from scipy import integrate, linalg, optimize, stats

from bioattn.errors import FormatError
from bioattn.models.phyloformer import simulation
from bioattn.models.phyloformer.family import PhyloformerConfig, PhylogenyAlphabet
from bioattn.models.phyloformer.model import Phyloformer
from bioattn.models.phyloformer.simulation import evolve, random_tree
from bioattn.models.phyloformer.substitution import (
    SubstitutionModel,
    fixed_model,
    pair_counts,
    simple_distances,
)
from bioattn.models.phyloformer.task import read_pairs
from bioattn.models.phyloformer.trees import Tree, read_newick
from bioattn.system.progress import SILENT
from tests.making import bioattn

DATA = Path(__file__).parents[3] / "data"
TINY = DATA / "settings" / "phyloformer-tiny.toml"
PARAMETERS, ALIGNMENT = (DATA / "phyloformer" / name for name in ("parameters.ckpt", "alignment.fa"))


def test_transitions_are_exponentials_of_rates():
    random = np.random.default_rng(0)
    exchangeabilities, frequencies = random.uniform(0.1, 3, (4, 4)), np.array([0.1, 0.2, 0.3, 0.4])
    exchangeabilities += exchangeabilities.T
    rates = np.zeros((4, 4))
    for i in range(4):
        for j in range(4):
            if i != j:
                rates[i, j] = exchangeabilities[i, j] * frequencies[j]
                rates[i, i] -= rates[i, j]
    rates /= -sum(frequencies[i] * rates[i, i] for i in range(4))
    model = SubstitutionModel(exchangeabilities, frequencies)
    np.testing.assert_allclose(model.transitions(np.array([0.7]))[0], linalg.expm(0.7 * rates), rtol=1e-9)
    over_rates, _ = integrate.quad_vec(
        lambda rate: linalg.expm(0.7 * rate * rates) * stats.gamma.pdf(rate, 2.0, scale=0.5), 0, 30
    )
    np.testing.assert_allclose(model.transitions(np.array([0.7]), 2.0)[0], over_rates, rtol=1e-5)


def test_le_gascuel_is_that_of_the_paper():
    model = fixed_model(PhylogenyAlphabet.PROTEIN)
    chances = model.transitions(np.array([0.01]))[0]
    np.testing.assert_allclose(model.frequencies_K @ chances, model.frequencies_K)  # stationary
    assert 1 - (model.frequencies_K * chances.diagonal()).sum() == pytest.approx(0.01, rel=0.02)
    # The largest exchangeability of the paper is that of I and V, 10.649, the smallest that of C and E, 0.003499.
    per_frequency = chances / model.frequencies_K
    i, v, c, e = ("ARNDCQEGHILKMFPSTWYV".index(letter) for letter in "IVCE")
    assert (i, v) in {tuple(each) for each in np.argwhere(per_frequency == np.triu(per_frequency, 1).max())}
    assert per_frequency[i, v] / per_frequency[c, e] == pytest.approx(10.649107 / 0.003499, rel=0.5)


def a_tree():
    """((a:0.1,b:0.2):0.05,'c d':0.3);"""
    return Tree(["a", "b", "c d"], np.array([3, 3, 4, 4, -1]), np.array([0.1, 0.2, 0.3, 0.05, 0.0]))


def test_trees_are_written_and_read(tmp_path):
    tree = a_tree()
    assert tree.newick() == "('c d':0.3,(a:0.1,b:0.2):0.05);\n"
    tree = random_tree(np.random.default_rng(3), 9, 2.0)
    distances = tree.leaf_distances()
    assert distances.max() == pytest.approx(2.0)
    other = Phylo.read(StringIO(tree.newick()), "newick")
    for i, j in combinations(range(9), 2):
        assert distances[i, j] == pytest.approx(other.distance(tree.names[i], tree.names[j]), rel=1e-4)
    (tmp_path / "x.nwk").write_text(tree.newick())
    again = read_newick(tmp_path / "x.nwk")
    order = [again.names.index(name) for name in tree.names]
    np.testing.assert_allclose(again.leaf_distances()[np.ix_(order, order)], distances, rtol=1e-4)


@pytest.mark.parametrize(
    "text",
    [
        "[by; (x)]((a:0.1,\nb:0.2)95:0.05[100],'c d':0.3)root:1;(a:1,b:2);",
        "#NEXUS\nbegin taxa;\nend;\nBegin trees;\n\tTranslate\n1 a,\n2 b,\n3 'c d'\n;\ntree x [&lnP=-1;2] = [&R] "
        "((1:[&rate=2]0.1,2:0.2):5E-2,3:0.3);\ntree y = (1:1,2:2);\nend;\n",
    ],
)
def test_trees_as_programs_write_them(tmp_path, text):
    (tmp_path / "x").write_text(text)
    tree = read_newick(tmp_path / "x")
    assert tree.names == ["a", "b", "c d"]
    np.testing.assert_allclose(tree.leaf_distances(), a_tree().leaf_distances())
    (tmp_path / "x").write_text("#NEXUS\nbegin data;\nend;\n")
    with pytest.raises(FormatError, match=r"no tree in Newick or NEXUS format \(there is none\)"):
        read_newick(tmp_path / "x")


def test_random_trees_are_those_of_a_birth_death_process(monkeypatch):
    """Without drift all leaves are as far from the root; of two leaves the age is that of a plain simulation."""
    monkeypatch.setattr(simulation, "DRIFT", 0.0)
    random = np.random.default_rng(0)
    tree = random_tree(random, 12, 1.0)
    depths = Phylo.read(StringIO(tree.newick()), "newick").depths()
    leaves = [depth for clade, depth in depths.items() if clade.is_terminal()]
    np.testing.assert_allclose(leaves, 0.5, atol=simulation.SHORTEST)
    # Of three leaves, the age of the younger split in units of the older one's.
    own = [random_tree(random, 3, 2.0).lengths[:3].min() for _ in range(1000)]
    plain: list[float] = []
    while len(plain) < 200:  # forward in time up to a random age, kept where three survive
        end, now = random.uniform(0, 10), 0.0
        splits: list[list[float]] = [[]]  # of each lineage, the times at which it split off or was split
        while (
            splits and len(splits) < 60 and (now := now + random.exponential(1 / (1.5 * len(splits)))) < end
        ):
            lineage = splits.pop(random.integers(len(splits)))
            if random.random() < 1 / 1.5:
                splits += [[*lineage, now], [*lineage, now]]
        if len(splits) == 3 and now >= end:
            meets = [max({*one} & {*other}) for one, other in combinations(splits, 2)]
            plain.append((end - max(meets)) / (end - min(meets)))
    assert stats.ks_2samp(own, plain).pvalue > 1e-3


def test_sequences_evolve_as_the_model_says():
    random = np.random.default_rng(1)
    jukes = SubstitutionModel(np.ones((4, 4)), np.ones(4))
    codes = evolve(random, a_tree(), jukes, 60_000, shape=1e6)
    found = simple_distances(codes, PhylogenyAlphabet.DNA)
    np.testing.assert_allclose(found["JC"], [0.3, 0.45, 0.55], rtol=0.04)
    np.testing.assert_allclose(found["K80"], [0.3, 0.45, 0.55], rtol=0.04)
    model = fixed_model(PhylogenyAlphabet.PROTEIN)
    codes = evolve(random, a_tree(), model, 60_000, shape=1.0, deletions=0.1)
    seen = np.bincount(codes[2][codes[2] < 20], minlength=20)
    np.testing.assert_allclose(seen / seen.sum(), model.frequencies_K, atol=0.006)
    assert 0.05 < (codes[2] == 21).mean() < 0.13  # 0.1 deletions × 0.3 substitutions × 3 sites, some overlap
    found = simple_distances(codes, PhylogenyAlphabet.PROTEIN)
    np.testing.assert_allclose(found["LG+Γ, largest likelihood"], [0.3, 0.45, 0.55], rtol=0.04)


def test_the_likeliest_distance_is_that_of_an_optimiser():
    random = np.random.default_rng(2)
    model = fixed_model(PhylogenyAlphabet.PROTEIN)
    codes = evolve(random, a_tree(), model, 150, shape=0.8)
    counts = pair_counts(codes, 20)
    for number, (i, j) in enumerate(combinations(range(3), 2)):
        for a, b in ((0, 1), (9, 19)):
            assert counts[number, a, b] == sum((codes[i] == a) & (codes[j] == b))
        for shape in (None, 1.0):
            best = optimize.minimize_scalar(
                lambda time, number=number, shape=shape: (
                    -(counts[number] * np.log(model.transitions(np.array([time]), shape)[0])).sum()
                ),
                bounds=(1e-3, 5),
                method="bounded",
                options={"xatol": 1e-7},
            ).x
            assert model.likeliest_distances(counts, shape)[number] == pytest.approx(best, rel=2e-3)
    assert model.likeliest_distances(pair_counts(codes[[0, 0]], 20)) == [0.0]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Simulated alignments of both alphabets, and models of them."""
    folder = tmp_path_factory.mktemp("trees")
    for alphabet in ("protein", "dna"):
        words = ("--count", 30, "--sequences", "4-6", "--sites", 40, "--alphabet", alphabet)
        assert bioattn("simulate", "trees", "-o", folder / alphabet, *words) == 0
        pairs = folder / alphabet / "PAIRS.tsv"
        trained = ("train", "phyloformer", pairs, "-c", TINY, "--alphabet", alphabet)
        assert bioattn(*trained, "-o", folder / f"{alphabet}.model") == 0
    return folder


def test_simulations_repeat_and_grow(made, tmp_path):
    words = ("--sequences", "4-6", "--sites", "40-40", "--alphabet", "dna")
    assert bioattn("simulate", "trees", "-o", tmp_path / "o", "--count", 3, *words) == 0
    for path in sorted((tmp_path / "o" / "alignments").iterdir()) + sorted(
        (tmp_path / "o" / "trees").iterdir()
    ):
        assert path.read_bytes() == (made / "dna" / path.relative_to(tmp_path / "o")).read_bytes()
    table = pd.read_csv(made / "dna" / "PAIRS.tsv", sep="\t")
    assert list(table.columns) == ["id", "alignment", "tree", "sequences", "sites", "shape"]
    assert bioattn("simulate", "trees", "-o", tmp_path / "o", "--count", 2, *words, "--force") == 0
    assert len(list((tmp_path / "o" / "trees").iterdir())) == 2
    assert bioattn("inspect", tmp_path / "o") == 0


@pytest.mark.parametrize("alphabet", ["protein", "dna"])
def test_a_model_is_trained_beside_simple_methods_and_run(alphabet, made, tmp_path, capsys):
    folder = made / f"{alphabet}.model"
    card = (folder / "README.md").read_text()
    for name in {"protein": ("Kimura 1983", "LG,", "LG+Γ,"), "dna": ("JC", "K80", "K80+Γ,")}[alphabet]:
        assert f"| {name}" in card
    record = json.loads((folder / "training.json").read_text())
    history = pd.read_csv(folder / "history.csv")
    ours = next(row for row in record["evaluation"] if row["side"] == "validation")
    assert ours["relative"] == pytest.approx(history["validation_relative"].min(), rel=1e-3)
    alignment = made / alphabet / "alignments" / "simulated000000.fa"
    output, attention = tmp_path / "o", tmp_path / "a.h5"
    run = ("run", "phyloformer", alignment, "--model", folder, "-o", output, "--attention", attention)
    assert bioattn(*run) == 0
    assert bioattn("export", "attention", folder, alignment, "-o", tmp_path / "b.h5") == 0
    assert bioattn("validate", folder, output, attention, tmp_path / "b.h5") == 0
    with h5py.File(attention) as one, h5py.File(tmp_path / "b.h5") as other:
        for site in ("over_sites", "over_pairs"):
            name = f"sites/phyloformer.00.{site}/s0000000/weights"
            np.testing.assert_array_equal(one[name], other[name])
            np.testing.assert_allclose(one[name][:].sum(-1), 1, rtol=1e-5)
    assert bioattn("run", "phyloformer", ALIGNMENT, "--model", folder, "-o", tmp_path / "p") == (
        alphabet == "dna"
    )
    if alphabet == "dna":
        assert "the model reads DNA" in capsys.readouterr().err


def test_training_resumes_to_the_same_weights(made, tmp_path):
    words = ("train", "phyloformer", made / "protein" / "PAIRS.tsv", "-c", TINY, "-o", tmp_path / "m")
    assert bioattn(*words) == 0
    assert bioattn(*words, "--resume") == 0  # nothing is left to do
    same = [each / "model.safetensors" for each in (tmp_path / "m", made / "protein.model")]
    assert same[0].read_bytes() == same[1].read_bytes()


def test_attention_of_published_parameters_and_chosen_heads(tmp_path):
    words = ("export", "attention", PARAMETERS, ALIGNMENT, "-o", tmp_path / "x.h5")
    assert bioattn(*words, "--heads", 1, "--sites", "*.over_pairs", "--dtype", "float16") == 0
    with h5py.File(tmp_path / "x.h5") as file:
        assert sorted(file["sites"]) == ["phyloformer.00.over_pairs", "phyloformer.01.over_pairs"]
        weights = file["sites/phyloformer.01.over_pairs/s0000000/weights"]
        assert weights.shape[1:] == (1, 28)
        assert weights.dtype == np.float16


def test_sequences_alike_do_not_decide_the_relative_error(tmp_path):
    """Programs of trees write 0 or 1e-6 there, and every estimate were thousands of times too long."""
    random = np.random.default_rng(0)
    rows = ["".join(random.choice([*"ACDEFGHIKLMNPQRSTVWY"], 60)) for _ in range(3)]
    (tmp_path / "a.fa").write_text("".join(f">s{n}\n{row}\n" for n, row in enumerate([rows[0], *rows])))
    (tmp_path / "a.nwk").write_text("((s0:0,s1:1e-6):1,s2:1,s3:1);")
    table = [(tmp_path / "a.fa", tmp_path / "a.nwk", "")]
    (pair,) = read_pairs(table, PhylogenyAlphabet.PROTEIN, SILENT)
    with torch.no_grad():
        estimated_P = Phyloformer(PhyloformerConfig())(torch.from_numpy(pair.codes_NL.astype(np.int64)))
    assert float(estimated_P[0]) / pair.distances_P[0] == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(pair.distances_P[1:], 2, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda folder: (folder / "trees/simulated000003.nwk").write_text("(a:1,b:1);"),
            "/simulated000003.fa: 'a', 'b', ",
        ),
        (
            lambda folder: (folder / "trees/simulated000003.nwk").write_text("((a,b);"),
            "no tree in Newick or NEXUS format",
        ),
        (
            lambda folder: (folder / "trees/simulated000003.nwk").write_text("(a,b:1);"),
            "a branch has no length",
        ),
        (lambda folder: (folder / "trees/simulated000003.nwk").unlink(), "simulated000003.nwk"),
    ],
)
def test_wrong_pairs_are_named(change, sentence, tmp_path, capsys):
    words = ("--count", 5, "--sequences", 4, "--sites", 40)
    assert bioattn("simulate", "trees", "-o", tmp_path / "o", *words) == 0
    change(tmp_path / "o")
    assert (
        bioattn("train", "phyloformer", tmp_path / "o" / "PAIRS.tsv", "-o", tmp_path / "m", "-c", TINY) == 1
    )
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("words", [("--sequences", "2"), ("--sites", "9-3"), ("--sites", "x")])
def test_wrong_ranges_are_named(words, tmp_path, capsys):
    assert bioattn("simulate", "trees", "-o", tmp_path / "o", "--count", 2, *words) == 2
    assert f"{words[0]} {words[1]}: a number from" in capsys.readouterr().err
    assert not (tmp_path / "o").exists()
