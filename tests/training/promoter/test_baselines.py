"""Baselines against scikit-learn and on planted motifs; k-mer and codon counts against string counting."""

import dataclasses
import hashlib
import re
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls
from sklearn.linear_model import Ridge

from bioattn.choices import TEST, TRAIN, VALIDATION
from bioattn.models.promoter.config import Strand
from bioattn.models.promoter.training import baselines
from bioattn.models.promoter.training.data import split_certificate
from bioattn.models.promoter.training.evaluation import feature_distances, nearest_treatments
from bioattn.models.promoter.training.ridge import Kmers, RidgePath, Standardised, features
from bioattn.promoters.dataset import PromoterDataset
from bioattn.promoters.response_metrics import pearson
from bioattn.promoters.treatments import TreatmentTable


def kmer_ridge(data, ks=baselines.KMERS, windows=baselines.WINDOWS):
    return data.fitted("k-mer ridge", baselines.kmer_windows(data, ks, windows), baselines.by_penalty)


MOTIFS = ([0, 1, 2, 3, 2, 1], [3, 3, 1, 0, 0, 2])  # ACGTGC, TTCAAG
TREATMENTS = 6


def planted_dataset(num_genes=1500, length=120, downstream=0, task="regression", seed=0):
    """Motif 0 drives all treatments, motif 1 treatments 3 to 5; a tenth of the targets is missing.

    With `downstream` an ATG stands that far from the right end, and leucine codons drive the responses too.
    """
    generator = np.random.default_rng(seed)
    codes = generator.integers(0, 4, size=(num_genes, length)).astype(np.uint8)
    present = generator.random((num_genes, 2)) < 0.4
    for gene in range(num_genes):
        for motif, letters in enumerate(MOTIFS):
            if present[gene, motif]:
                start = length - downstream - 20 - 40 * motif
                codes[gene, start : start + 6] = letters
    effects = np.zeros((2, TREATMENTS))
    effects[0] = [1, 0.8, 1.2, 1, 1, -0.5]
    effects[1, 3:] = 1.5
    responses = present @ effects
    if downstream:
        codes[:, length - downstream : length - downstream + 3] = [0, 3, 2]
        codons = Kmers(3, -downstream, canonical=False, step=3)
        responses += codons.count(codes)[:, 62:63]  # TTG
    targets = responses + 0.3 * generator.normal(size=responses.shape) + np.arange(TREATMENTS)
    if task == "binary":
        targets = (targets > np.median(targets, axis=0)).astype(float)
    targets[generator.random(targets.shape) < 0.1] = np.nan
    frame = pd.DataFrame(
        {
            "agent": pd.Series(["heat"] * 3 + ["salt"] * 3, dtype=object),
            "minutes": [5.0, 10.0, 60.0, 5.0, 10.0, np.nan],
        }
    )
    frame.index = pd.Index([f"t{index}" for index in range(TREATMENTS)], dtype=object)
    return PromoterDataset(
        gene_ids=[f"g{index}" for index in range(num_genes)],
        chrom=[""] * num_genes,
        start=np.full(num_genes, -1),
        end=np.full(num_genes, -1),
        strand=["."] * num_genes,
        codes=codes,
        flank=0,
        targets=targets.astype(np.float32),
        treatments=TreatmentTable(frame),
        gene_split=np.repeat([TRAIN, VALIDATION, TEST], [num_genes - 400, 200, 200]).astype(np.uint8),
        treatment_split=np.zeros(TREATMENTS, np.uint8),
        task=task,
        metadata={},
    )


@pytest.fixture(scope="module")
def dataset():
    return planted_dataset()


@pytest.fixture(scope="module")
def rows(dataset):
    return {row.name: row for row in baselines.default_baselines(dataset)}


@pytest.mark.parametrize("k", [2, 6], ids=["more genes than features", "more features than genes"])
def test_the_ridge_path_equals_sklearn_at_every_penalty(dataset, k):
    data = baselines.BaselineData(dataset)
    blocks = [Standardised.fit(Kmers(k, -60), 1.0, data.codes[data.train])]
    path = RidgePath(blocks, data.codes[data.train], data.deviations)
    features_GF = features(blocks, data.codes)
    for penalty in (1.0, 30.0):
        oracle = Ridge(alpha=penalty, fit_intercept=False, solver="cholesky")
        oracle.fit(features_GF[data.train].astype(float), data.deviations.astype(float))
        weights = path.weights(penalty)
        expected = oracle.predict(features_GF) + data.mean
        rotated = path.rotate(data.codes) @ weights + data.mean
        for predicted in (rotated, path.model(weights, data.mean).predict(data.codes)):
            np.testing.assert_allclose(predicted, expected, rtol=0, atol=1e-3)


def test_planted_motifs_are_found_and_the_rows_keep_their_order(rows):
    assert rows["training mean"].test["pearson"] == 0
    assert rows["k-mer ridge"].test["pearson"] > 0.5
    assert rows["component ridge"].test["pearson"] > 0.5
    assert rows["rank-1 ridge"].test["pearson"] > 0.3
    assert rows["rank-1 ridge"].test["specific_pearson"] == pytest.approx(0, abs=1e-3)
    assert rows["component ridge"].test["specific_pearson"] > 0.4
    assert "region + codon ridge" not in rows


def test_k_is_chosen_on_validation_genes(dataset):
    """Six-base motifs in 1,000 promoters: 4-mers see less of them."""
    data = baselines.BaselineData(dataset)
    chosen = kmer_ridge(data)
    scores = {k: kmer_ridge(data, [k]).validation["pearson"] for k in baselines.KMERS}
    assert chosen.validation["pearson"] == max(scores.values()) > scores[4] + 0.05
    assert chosen.choice.startswith(f"{max(scores, key=scores.__getitem__)}-mers ")


def test_test_genes_are_not_looked_at():
    dataset = planted_dataset(num_genes=700)
    targets = dataset.targets.copy()
    targets[dataset.genes_in(TEST)] = np.nan
    blind = dataclasses.replace(dataset, targets=targets)
    for row, other in zip(*map(baselines.default_baselines, (dataset, blind)), strict=True):
        assert row.choice == other.choice
        assert (row.predictions == other.predictions).all()


def test_where_the_window_is_coding_codons_are_used():
    dataset = planted_dataset(num_genes=900, length=200, downstream=80)
    found = {row.name: row for row in baselines.default_baselines(dataset)}
    assert "−120..0 weighted around −150±150 + codons 0..+80" in found["region + codon ridge"].choice
    assert re.match("[456]-mers −120..0, ", found["k-mer ridge"].choice)
    assert (
        found["region + codon ridge"].test["pearson"] > found["positional k-mer ridge"].test["pearson"] + 0.1
    )
    assert found["region + codon component ridge"].test["pearson"] > 0.5


def test_positions_are_named_from_the_anchor_that_the_dataset_knows(dataset):
    """With a TSS anchor the window goes on behind it: no start codon says where it is."""
    known = dataclasses.replace(dataset, metadata={"downstream": 40})
    data = baselines.BaselineData(known)
    assert re.match("[456]-mers −80..[+]40, ", kmer_ridge(data, windows=()).choice)
    assert re.match("[456]-mers −[28]0..[+]40, ", kmer_ridge(data, windows=(60,)).choice)
    assert re.match(
        "[456]-mers −80..[+]40 weighted around −(110±150|260±300)",
        data.fitted("", baselines.kmer_bumps(data, baselines.KMERS), baselines.by_penalty).choice,
    )


@pytest.fixture(scope="module")
def split(dataset):
    """The dataset with one treatment of each agent held out."""
    return dataclasses.replace(dataset, treatment_split=np.array([0, 2, 0, 0, 2, 0], np.uint8))


@pytest.fixture(scope="module")
def base(split):
    return kmer_ridge(baselines.BaselineData(split))


class TestNearestTreatment:
    def test_features_lead_to_the_same_agent_and_the_nearest_time(self, split, base):
        nearest, predictions = nearest_treatments(split, base, feature_distances(split.treatments))
        assert nearest == ["t0", "t3"]
        train, test = split.genes_in(TRAIN), split.genes_in(TEST)
        measured = ~np.isnan(split.targets[train, 0])
        assert (predictions[train, 0][measured] == split.targets[train, 0][measured]).all()
        assert np.isfinite(predictions).all()
        assert (predictions[test] == base.predictions[np.ix_(test, [0, 2])]).all()
        seen, unseen = (
            np.median(pearson(split.targets[np.ix_(genes, [1, 4])], predictions[genes]))
            for genes in (train, test)
        )
        assert seen > unseen > 0.3

    def test_distances_of_responses_lead_to_the_best_correlated(self, split, base):
        table = pd.DataFrame(split.targets[split.genes_in(TRAIN)])
        nearest, _ = nearest_treatments(split, base, 1 - table.corr().to_numpy())
        candidates = [0, 2, 3, 5]
        expected = [f"t{candidates[table[candidates].corrwith(table[column]).argmax()]}" for column in (1, 4)]
        assert nearest == expected


COMPLEMENT = str.maketrans("ACGT", "TGCA")


def encoded(*sequences):
    return np.array([["ACGTN".index(letter) for letter in sequence] for sequence in sequences], np.uint8)


def count(codes, k, canonical=False, step=1, start=-1000, stop=0):
    return Kmers(k, start, stop, canonical, step).count(codes)


def counted(sequence, k, canonical, step=1):
    """Counter of k-mers by slicing the string."""
    kmers = (sequence[start : start + k] for start in range(0, len(sequence) - k + 1, step))
    kmers = [kmer for kmer in kmers if "N" not in kmer]
    return Counter(min(kmer, kmer[::-1].translate(COMPLEMENT)) if canonical else kmer for kmer in kmers)


def all_kmers(k, canonical):
    """K-mers in the order of the feature columns."""
    kmers = [""]
    for _ in range(k):
        kmers = [kmer + letter for kmer in kmers for letter in "ACGT"]
    return [kmer for kmer in kmers if not canonical or kmer <= kmer[::-1].translate(COMPLEMENT)]


@given(st.text("ACGTN", min_size=0, max_size=40), st.integers(1, 4), st.booleans(), st.sampled_from([1, 3]))
def test_counts_equal_string_counting(sequence, k, canonical, step):
    codes = encoded(sequence).reshape(1, len(sequence))
    expected = counted(sequence, k, canonical, step)
    found = count(codes, k, canonical, step)[0]
    assert found.tolist() == [expected[kmer] for kmer in all_kmers(k, canonical)]


def test_regions_count_from_the_right_end():
    codes = encoded("AACCGGTT")
    assert count(codes, 1, start=-2).tolist() == [[0, 0, 0, 2]]
    assert count(codes, 1, start=-100, stop=-6).tolist() == [[2, 0, 0, 0]]
    assert count(codes, 1, start=-100, stop=-50).sum() == 0
    assert count(codes, 2, start=-4, stop=-2).sum() == 1
    assert count(codes, 3, start=-2).sum() == 0


def test_standardised_blocks_have_the_weights_asked_for():
    codes = np.random.default_rng(2).integers(0, 4, size=(300, 80)).astype(np.uint8)
    codes[:, :20] = 0
    blocks = (Kmers(3, -80), Kmers(1, -80, -60), Kmers(3, -30, canonical=False, step=3))
    shares = (0.6, 0.3, 0.1)
    fitted = [Standardised.fit(block, share, codes) for block, share in zip(blocks, shares, strict=True)]
    features_GF = features(fitted, codes)
    assert np.isfinite(features_GF).all()
    assert features_GF.mean(axis=0) == pytest.approx(0, abs=1e-5)
    squared = np.square(features_GF).mean(axis=0)
    assert squared[:32].sum() == pytest.approx(0.6, rel=1e-4)
    assert squared[32:34].sum() == 0  # always 20 × A: constant in training
    assert squared[34:].sum() == pytest.approx(0.1, rel=1e-4)


def windowed_features(codes, k, window, canonical):
    """log(1 + count) by slicing strings, windows from the right end."""
    table = []
    for row in codes:
        letters = "".join("ACGTN"[code] for code in row)
        windows = [Counter() for _ in range(-(-(len(letters) - k + 1) // window))]
        for start in range(len(letters) - k + 1):
            windows[(len(letters) - k - start) // window].update(
                counted(letters[start : start + k], k, canonical)
            )
        table.append([np.log1p(one[kmer]) for one in windows for kmer in all_kmers(k, canonical)])
    return np.array(table)


@pytest.mark.parametrize("canonical", [True, False])
@pytest.mark.parametrize("genes", [40, 150], ids=["fewer genes than features", "more"])
def test_a_ridge_in_windows_equals_sklearn_on_counts_of_strings(canonical, genes):
    data = baselines.BaselineData(planted_dataset(num_genes=genes + 400, length=43))
    data.codes[::7, :5] = 4
    expected = windowed_features(data.codes, 2, 10, canonical)
    block = Kmers(2, -43, canonical=canonical, window=10, log=True)
    np.testing.assert_allclose(block.count(data.codes), expected, atol=1e-6)
    train = expected[data.train]
    scaled = (expected - train.mean(0)) / np.sqrt(np.square(train - train.mean(0)).sum(1).mean())
    oracle = Ridge(alpha=3.0, fit_intercept=False).fit(scaled[data.train], data.deviations)
    model = data.path(((block, 1.0),))
    predicted = model.model(model.weights(3.0), data.mean).predict(data.codes)
    np.testing.assert_allclose(predicted, oracle.predict(scaled) + data.mean, rtol=0, atol=2e-3)


@pytest.fixture(scope="module")
def one_strand():
    """Motifs that act on the gene's strand alone, and lie on the other one as often."""
    dataset = planted_dataset(seed=4)
    codes = dataset.codes.copy()
    turned = np.random.default_rng(5).random(len(codes)) < 0.5
    codes[turned] = (3 - codes[turned])[:, ::-1]
    targets = dataset.targets.copy()
    targets[turned] = np.random.default_rng(6).permutation(targets[turned]) * 0.1
    return dataclasses.replace(dataset, codes=codes, targets=targets)


def test_the_strand_is_chosen_on_validation_genes(one_strand):
    row, _ = baselines.windowed_ridges(baselines.BaselineData(one_strand), Strand.AUTO, [])
    both, _ = baselines.windowed_ridges(baselines.BaselineData(one_strand), Strand.BOTH, [])
    assert row.choice.startswith("stranded")
    assert row.test["pearson"] > both.test["pearson"]
    assert not both.choice.startswith("stranded")


def test_the_sum_is_the_nonnegative_least_squares_of_its_parts(dataset):
    data = baselines.BaselineData(dataset)
    random = np.random.default_rng(3)
    wanted = data.targets[data.validation] - data.mean
    known = np.isfinite(wanted)
    parts = [random.normal(size=wanted.shape) for _ in range(3)]
    parts += [parts[0] + np.where(known, wanted, 0)]
    columns = np.stack([part[known] for part in parts], 1)
    assert baselines.stacked(wanted, parts) == pytest.approx(nnls(columns, wanted[known])[0], abs=1e-4)
    # A guess is as further cells in which each part alone is told.
    guess = np.array([0.1, 0.2, 0.3, 0.4])
    pull = np.sqrt(baselines.PULL * np.square(columns).sum() / 4)
    more, told = np.vstack([columns, pull * np.eye(4)]), np.append(wanted[known], pull * guess)
    assert baselines.stacked(wanted, parts, guess) == pytest.approx(nnls(more, told)[0], abs=1e-4)


def test_composition_and_position_predict_what_depends_on_them(dataset):
    gc = ((dataset.codes == 1) | (dataset.codes == 2)).mean(1)
    start = np.random.default_rng(0).permutation(dataset.num_genes)
    targets = (gc / gc.std() + start / dataset.num_genes * 3)[:, None] * np.ones(TREATMENTS, np.float32)
    moved = dataclasses.replace(
        dataset,
        start=start,
        end=start + 120,
        chrom=["c"] * dataset.num_genes,
        targets=targets.astype(np.float32),
    )
    data = baselines.BaselineData(moved)
    row = baselines.covariates(data, moved)
    assert row.test["pearson"] > 0.99
    assert baselines.best_simple([row], "regression") is None


def test_the_certificate_of_a_split_can_be_recomputed(dataset):
    certificate = split_certificate(dataset)
    letters = ["".join("ACGT"[code] for code in row) for row in dataset.codes]
    train, test = (
        set().union(*(counted(letters[gene], 14, True) for gene in dataset.genes_in(side)))
        for side in (TRAIN, TEST)
    )
    side = certificate["sides"]["test"]
    assert (side["genes"], side["kmers"], side["kmers_in_train"]) == (200, len(test), len(test & train))
    ids = "\n".join(sorted(f"g{number}" for number in range(1300, 1500)))
    assert side["ids_sha256"] == hashlib.sha256(ids.encode()).hexdigest()
