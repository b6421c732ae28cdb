"""Localisation scores: exact small answers, scikit-learn, the ceiling, controls, and the command."""

import itertools
import json

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from bioattn.errors import BioattnError
from bioattn.interpret.localisation import ALL, score_maps
from bioattn.interpret.position_maps import upsample
from bioattn.interpret.promoter_maps import maps_in_memory
from bioattn.simulate.promoters import simulate_promoters, simulation_settings
from bioattn.simulate.truth import PlantedSite


def site(gene, start, end, treatment="t1", role="causal", motif="m"):
    return PlantedSite(gene, motif, treatment, role, start, end, "+")


def scores_of(truth, weights, gene_ids, treatments, edges, _length, **options):
    maps = maps_in_memory(np.asarray(weights, np.float32), treatments, np.asarray(edges), genes=gene_ids)
    return score_maps(maps, truth, **options)


def test_the_ceiling_of_an_8_bp_motif():
    """Every place of one 8-bp motif in 400 bp."""
    starts = range(393)
    genes = [f"g{start}" for start in starts]
    truth = [site(gene, start, start + 8) for gene, start in zip(genes, starts, strict=True)]
    edges = np.arange(0, 401, 8)
    for method, expected in (("gaussian", 0.978), ("nearest", 0.712)):
        uniform = np.full((393, 1, len(edges) - 1), 1 / (len(edges) - 1))
        table = scores_of(truth, uniform, genes, ["t1"], edges, 400, upsampling=method).positives
        assert table.loc[ALL, "ceiling_auprc"] == pytest.approx(expected, abs=0.0006)
        # The same by scikit-learn, one sequence at a time.
        by_hand = []
        for start in starts:
            labels = np.zeros(400)
            labels[start : start + 8] = 1
            perfect = [labels[a:b].sum() / 8 for a, b in itertools.pairwise(edges)]
            by_hand.append(
                average_precision_score(labels, np.round(upsample(perfect, edges, 400, method), 12))
            )
        assert np.mean(by_hand) == pytest.approx(expected, abs=0.0006)


def test_by_eye():
    """Two promoters of 12 bp in bins of 3; g1 responds to t1 (bases 3-6), g2 holds a decoy alone."""
    truth = [site("g1", 3, 6), site("g1", 9, 12, "", "decoy", "d"), site("g2", 0, 3, "", "decoy", "d")]
    weights = [[[0.1, 0.6, 0.1, 0.1], [0.3, 0.1, 0.3, 0.3]], [[0.7, 0.1, 0.1, 0.1], [0.25, 0.25, 0.25, 0.25]]]
    report = scores_of(truth, weights, ["g1", "g2"], ["t1", "t2"], [0, 3, 6, 9, 12], 12, upsampling="nearest")
    row = report.positives.loc["t1"]
    assert row["pairs"] == 1
    assert row["auroc"] == row["auprc"] == row["ceiling_auprc"] == row["top_bin"] == row["top_5_bins"] == 1
    assert row["top_bin_chance"] == 0.25
    assert row["decoy_auroc"] == row["planted_auroc"] == 1
    assert row["wrong_auroc"] == 0
    assert row[["mass_causal", "mass_decoy", "mass_other"]].tolist() == pytest.approx([0.6, 0.1, 0.0])
    assert row[["mass_background", "mass_sink"]].tolist() == pytest.approx([0.2, 0.1])
    shares = np.array([1, 6, 1, 1]) / 9
    assert row["entropy"] == pytest.approx(-np.sum(shares * np.log(shares)) / np.log(4))
    assert report.positives.loc["t2", "pairs"] == 0
    assert report.positives.loc[ALL, "auroc"] == 1
    negative = report.negatives.loc["t1"]
    assert negative["pairs"] == 1
    assert negative[["mass_decoy", "mass_background", "mass_sink"]].tolist() == pytest.approx(
        [0.7, 0.3, 0], abs=1e-6
    )
    assert negative["top_weight"] == pytest.approx(0.7)
    assert report.negatives.loc["t2", "pairs"] == 2
    assert json.loads(json.dumps(report.to_json(), allow_nan=False))["positives"]["t2"]["auroc"] is None


def test_both_halves_of_a_pair_are_asked_for():
    truth = [
        site("g1", 0, 2, motif="a"),
        site("g1", 16, 18, motif="b"),
        site("g2", 0, 2, role="lone", motif="a"),
    ]
    weights = np.full((2, 1, 10), 0.01)
    weights[0, 0, :6] = [0.5, 0.1, 0.1, 0.1, 0.1, 0.05]  # the second half, bin 8, is not among the best five
    edges = np.arange(0, 21, 2)
    report = scores_of(truth, weights, ["g1", "g2"], ["t1"], edges, 20)
    assert report.positives.loc["t1", ["pairs", "top_bin", "top_5_bins"]].tolist() == [1, 1, 0]
    assert report.negatives.loc["t1", "pairs"] == 1  # half a pair is no positive
    assert report.negatives.loc["t1", "mass_other"] == pytest.approx(0.01)
    weights[0, 0, 8] = 0.4
    assert scores_of(truth, weights, ["g1", "g2"], ["t1"], edges, 20).positives.loc["t1", "top_5_bins"] == 1


@pytest.mark.parametrize("difficulty", ["standard", "hard"])
def test_means_equal_scikit_learn_on_a_simulation(difficulty, monkeypatch):
    simulated = simulate_promoters(simulation_settings(difficulty, genes=25, treatments=3, seed=1))
    length = simulated.settings.length
    edges = np.arange(0, length + 1, 8)
    treatments = [rule.treatment for rule in simulated.rules]
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.full(len(edges) - 1, 0.2), size=(25, 3)).astype(np.float32)
    monkeypatch.setattr("bioattn.interpret.localisation.BLOCK_BYTES", 10 * weights[0].nbytes)
    report = scores_of(simulated.sites, weights, simulated.gene_ids, treatments, edges, length)
    assert report.genes == 25
    expected = {
        name: [] for name in ("auroc", "auprc", "decoy_auroc", "planted_auroc", "wrong_auroc", "top_bin")
    }
    for gene, gene_id in enumerate(simulated.gene_ids):
        mine = [planted for planted in simulated.sites if planted.gene_id == gene_id]
        for number, treatment in enumerate(treatments):
            labels = np.zeros(length, dtype=int)  # 1 causal, 2 other planted, 3 decoy
            for planted in mine:
                kind = 1 if (planted.treatment, planted.role) == (treatment, "causal") else 2
                labels[planted.start : planted.end] = 3 if planted.role == "decoy" else kind
            if not (labels == 1).any():
                continue
            bases = upsample(weights[gene, number], edges, length, "gaussian")
            expected["auroc"].append(roc_auc_score(labels == 1, bases))
            expected["auprc"].append(average_precision_score(labels == 1, bases))
            for name, kept in (("decoy_auroc", [1, 3]), ("planted_auroc", [1, 2, 3])):
                used = np.isin(labels, kept)
                expected[name].append(roc_auc_score(labels[used] == 1, bases[used]))
            others = [
                upsample(weights[gene, other], edges, length, "gaussian")
                for other in range(3)
                if other != number
            ]
            expected["wrong_auroc"].append(np.mean([roc_auc_score(labels == 1, other) for other in others]))
            best = int(weights[gene, number].argmax())
            expected["top_bin"].append((labels[edges[best] : edges[best + 1]] == 1).any())
    for name, values in expected.items():
        assert report.positives.loc[ALL, name] == pytest.approx(np.mean(values), abs=1e-6), name
    assert report.positives.loc[ALL, "pairs"] == len(expected["auroc"])


def test_truth_and_maps_must_belong_together():
    edges = [0, 10, 20]
    weights = np.full((1, 1, 2), 0.5)
    cases = [
        ([site("x", 0, 8)], "none of the promoters (g1) is in the truth table (x)"),
        ([site("g1", 0, 8, "t9")], "none of the treatments (t1) is in the truth table (t9)"),
        ([site("g1", 15, 23)], "reaches beyond the window of 20 bases"),
    ]
    for truth, message in cases:
        with pytest.raises(BioattnError) as caught:
            scores_of(truth, weights, ["g1"], ["t1"], edges, 20)
        assert message in str(caught.value)
    with pytest.raises(BioattnError, match="not finite"):
        scores_of([site("g1", 0, 8)], weights * np.nan, ["g1"], ["t1"], edges, 20)
