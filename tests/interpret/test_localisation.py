"""Attention against planted motifs: exact small answers, scikit-learn, the ceiling, files, the command."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from bioattn.attention.site import AttentionSite, Axis
from bioattn.choices import TEST, TRAIN
from bioattn.errors import BioattnError
from bioattn.interpret.choices import ScoreAttention
from bioattn.interpret.localisation import (
    ALL,
    rule_shares,
    score_attention_and_predictions,
    score_maps,
    score_predictions,
)
from bioattn.interpret.position_maps import upsample
from bioattn.interpret.promoter_maps import maps_in_memory
from bioattn.promoters.dataset import read_dataset, write_dataset
from bioattn.promoters.treatments import named_treatments
from bioattn.simulate.promoters import simulate_promoters, simulation_settings
from bioattn.simulate.truth import PlantedSite, write_truth
from bioattn.store.schema import AttentionOptions
from bioattn.store.windows import promoter_samples
from tests.making import bioattn, promoter_dataset
from tests.result_files import promoter_layout, write_promoters


def site(gene, start, end, treatment="t1", role="causal", motif="m"):
    return PlantedSite(gene, motif, treatment, role, start, end, "+")


def scores_of(truth, weights, gene_ids, treatments, edges, _length, **options):
    maps = maps_in_memory(np.asarray(weights, np.float32), treatments, np.asarray(edges), genes=gene_ids)
    return score_maps(maps, truth, **options)


def test_the_ceiling_of_an_8_bp_motif():
    """Every place of one 8-bp motif in 400 bp."""
    edges = np.arange(0, 401, 8)

    def ceiling(starts, method):
        truth = [site(f"g{start}", start, start + 8) for start in starts]
        uniform, genes = np.full((len(starts), 1, 50), 1 / 50), [f"g{start}" for start in starts]
        table = scores_of(truth, uniform, genes, ["t1"], edges, 400, upsampling=method).positives
        return table.loc[ALL, "ceiling_auprc"]

    for method, expected in (("gaussian", 0.978), ("nearest", 0.712)):
        assert ceiling(range(393), method) == pytest.approx(expected, abs=0.0006)
        # The same by scikit-learn, one sequence at a time.
        some, by_hand = range(0, 393, 7), []
        for start in some:
            labels = np.zeros(400)
            labels[start : start + 8] = 1
            perfect = [labels[a:b].sum() / 8 for a, b in itertools.pairwise(edges)]
            by_hand.append(
                average_precision_score(labels, np.round(upsample(perfect, edges, 400, method), 12))
            )
        assert np.mean(by_hand) == pytest.approx(ceiling(some, method), abs=1e-6)


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
    simulated = simulate_promoters(simulation_settings(difficulty, genes=13, treatments=3, seed=1))
    length = simulated.settings.length
    edges = np.arange(0, length + 1, 8)
    treatments = [rule.treatment for rule in simulated.rules]
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.full(len(edges) - 1, 0.2), size=(13, 3)).astype(np.float32)
    monkeypatch.setattr("bioattn.interpret.localisation.BLOCK_BYTES", 10 * weights[0].nbytes)
    report = scores_of(simulated.sites, weights, simulated.gene_ids, treatments, edges, length)
    assert report.genes == 13
    names = ("auroc", "auprc", "decoy_auroc", "planted_auroc", "wrong_auroc", "top_bin")
    expected = {name: [] for name in names}
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
            wrong = {0, 1, 2} - {number}
            others = [upsample(weights[gene, other], edges, length, "gaussian") for other in wrong]
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


GENES, TREATMENTS, HEADS, BINS = 40, 3, 2, 50
AXES = ("sample", "treatment", "head", "key")
EDGES = tuple(range(0, 401, 8))


@pytest.fixture(scope="module")
def simulated():
    return simulate_promoters(simulation_settings(genes=GENES, treatments=TREATMENTS, seed=2))


@pytest.fixture(scope="module")
def weights():
    """(genes, treatments, heads, bins): rows sum to 1."""
    rng = np.random.default_rng(0)
    return rng.dirichlet(np.full(BINS, 0.3), (GENES, TREATMENTS, HEADS)).astype(np.float32)


def treatment_names(simulated):
    return [rule.treatment for rule in simulated.rules]


def write_attention(path, simulated, arrays, predictions=None, axes=AXES, edges=EDGES, value_weighted=None):
    """An attention file with the sites of `arrays` (name → weights)."""
    content = {}
    for name, array in arrays.items():
        content[name] = {"weights": array}
        if value_weighted is not None:
            content[name]["value_weighted"] = value_weighted
    sites = [
        AttentionSite(
            name=name,
            axes=tuple(Axis(dim, edges=edges if dim == "key" else None) for dim in axes),
            heads=tuple(range(HEADS)),
        )
        for name in arrays
    ]
    options = AttentionOptions(value_weighted=value_weighted is not None)
    count = len(simulated.gene_ids)
    genes = simulated.genome.genes
    samples = promoter_samples(
        simulated.gene_ids,
        [gene.chrom for gene in genes],
        np.zeros(count, np.int64),
        np.full(count, 400, np.int64),
        [gene.strand for gene in genes],
    )
    layout = promoter_layout(sites, treatment_names(simulated), 400, options, tokens=BINS)
    write_promoters(path, layout, samples, content, predictions)
    return path


def scored_in_memory(simulated, maps, genes=None):
    keep = [genes is None or gene in genes for gene in simulated.gene_ids]
    genes = [gene for gene, kept in zip(simulated.gene_ids, keep, strict=True) if kept]
    in_memory = maps_in_memory(maps[keep], treatment_names(simulated), np.array(EDGES), genes=genes)
    return score_maps(in_memory, simulated.sites)


def scored(path, truth, **options):
    write_truth(path.with_suffix(".tsv"), truth)
    given = ScoreAttention(attention=path, truth=path.with_suffix(".tsv"), **options)
    return score_attention_and_predictions(given)[0]


def assert_same(report, expected):
    pd.testing.assert_frame_equal(report.positives, expected.positives, atol=1e-6)
    pd.testing.assert_frame_equal(report.negatives, expected.negatives, atol=1e-6)


def test_heads_and_hops_are_averaged(tmp_path, simulated, weights, monkeypatch):
    monkeypatch.setattr("bioattn.interpret.localisation.BLOCK_BYTES", 7 * TREATMENTS * HEADS * BINS * 4)
    other = weights[::-1].copy()
    path = write_attention(tmp_path / "a.h5", simulated, {"hop.0": weights, "hop.1": other})
    one = scored(path, simulated.sites, sites=("hop.0",))
    assert_same(one, scored_in_memory(simulated, weights.mean(axis=2)))
    both = scored(path, simulated.sites)
    assert_same(both, scored_in_memory(simulated, (weights.mean(axis=2) + other.mean(axis=2)) / 2))


def test_a_shared_query_counts_for_every_treatment(tmp_path, simulated, weights):
    shared = weights[:, 0]
    path = write_attention(tmp_path / "a.h5", simulated, {"s": shared}, axes=("sample", "head", "key"))
    report = scored(path, simulated.sites)
    repeated = np.repeat(shared.mean(axis=1)[:, None], TREATMENTS, axis=1)
    assert_same(report, scored_in_memory(simulated, repeated))
    assert report.positives.loc[ALL, "auroc"] == pytest.approx(report.positives.loc[ALL, "wrong_auroc"])


def test_value_weighted_rows_are_scaled(tmp_path, simulated, weights):
    heavy = weights[::-1] * 7
    path = write_attention(tmp_path / "a.h5", simulated, {"s": weights}, value_weighted=heavy)
    report = scored(path, simulated.sites, value_weighted=True)
    assert_same(report, scored_in_memory(simulated, weights[::-1].mean(axis=2)))


def test_predictions_against_responses():
    rng = np.random.default_rng(0)
    truth = pd.DataFrame(rng.normal(size=(30, 2)), index=[f"g{i}" for i in range(30)], columns=["a", "b"])
    truth.iloc[3, 0] = np.nan
    guess = (truth + rng.normal(size=(30, 2))).fillna(0.0).sample(frac=1, random_state=1)
    guess["not asked"] = 0.0
    scores = score_predictions(guess, truth)
    kept = truth["a"].notna()
    assert scores.loc["a", "pearson"] == pytest.approx(
        np.corrcoef(truth["a"][kept], guess["a"].reindex(truth.index)[kept])[0, 1]
    )
    assert list(scores.index) == ["a", "b", ALL]
    assert scores.loc[ALL, "pearson"] == pytest.approx(scores.loc[["a", "b"], "pearson"].mean())
    assert set(score_predictions(guess, (truth > 0) * 1.0).columns) == {"auroc", "auprc"}
    with pytest.raises(BioattnError, match="no gene in common"):
        score_predictions(guess, truth.rename(index=str.upper))
    with pytest.raises(BioattnError, match="no treatment in common"):
        score_predictions(guess, truth.rename(columns=str.upper))


def test_shares_of_rules_are_contrasts_of_group_means():
    """Near less far; both less either, plus neither; the slope where presence tells all."""
    settings = simulation_settings(genes=500, treatments=6, near=1, far=1, opposites=1, pairs=1, noise=0.0)
    simulated = simulate_promoters(settings)
    true = pd.DataFrame(simulated.responses, simulated.gene_ids, treatment_names(simulated))
    rng = np.random.default_rng(0)
    predicted = 3 + 0.4 * true + rng.normal(size=true.shape)
    predicted = predicted.sample(frac=1, random_state=1)  # order does not matter
    shares = rule_shares(simulated.sites, predicted)
    held = {}
    for site in simulated.sites:
        held.setdefault((site.gene_id, site.treatment), {})[site.motif] = site.role
    for treatment, sign in (("treatment2", 1), ("treatment3", -1)):
        roles = {gene: held.get((gene, treatment), {}).get("motif1") for gene in predicted.index}
        role = pd.Series(roles)
        near, far = ("causal", "out-of-range")[::sign], ("causal", "out-of-range")[::-sign]
        difference = [
            table.loc[role == near[0], treatment].mean() - table.loc[role == far[0], treatment].mean()
            for table in (predicted, true.loc[predicted.index])
        ]
        assert shares[treatment] == pytest.approx(difference[0] / difference[1])
    assert shares["treatment1"] == pytest.approx(
        np.polyfit(true.loc[predicted.index, "treatment1"], predicted["treatment1"], 1)[0]
    )
    additive = true.copy()
    both = true["treatment6"] != 0
    halves = pd.Series({gene: len(held.get((gene, "treatment6"), {})) for gene in true.index})
    additive["treatment6"] = halves  # a sum over motifs has nothing of the rule that needs both
    assert both.any()
    assert (halves == 1).any()
    assert rule_shares(simulated.sites, additive)["treatment6"] == pytest.approx(0, abs=1e-12)
    assert rule_shares(simulated.sites, true).tolist() == pytest.approx([1.0] * 7)
    without = [site._replace(effect=0.0) for site in simulated.sites]
    assert rule_shares(without, true).isna().all()


@pytest.fixture
def files(tmp_path, simulated, weights):
    """attention.h5, truth.tsv and a dataset whose last 15 genes are its test split."""
    treatments = named_treatments(treatment_names(simulated))
    split = np.where(np.arange(GENES) < 25, TRAIN, TEST)
    genes = {"gene_ids": simulated.gene_ids}
    dataset = promoter_dataset(simulated.codes, simulated.responses, treatments, split, **genes)
    write_dataset(tmp_path / "d.h5", dataset)
    write_truth(tmp_path / "truth.tsv", simulated.sites)
    predictions = simulated.responses.astype(np.float32)
    write_attention(tmp_path / "a.h5", simulated, {"s": weights}, predictions)
    return tmp_path


def test_the_command_prints_a_table_and_writes_json(files, simulated, weights, capsys):
    arguments = ["simulate", "score", files / "a.h5", files / "truth.tsv"]
    out = files / "scores.json"
    assert bioattn(*arguments, "--dataset", files / "d.h5", "-o", out, "-q") == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.startswith("15 promoters of 400 bases, attention in 50 bins\n\n")
    table = [line.split("\t") for line in captured.out.split("\n\n")[1].splitlines()]
    assert table[0] == ["", "treatment1", "treatment2", "treatment3", ALL]
    rows = {title: cells for title, *cells in table[1:]}
    assert rows["r of predicted with measured responses"] == ["1.000"] * 4
    assert all(
        float(share) == pytest.approx(1, abs=0.4) for share in rows["share of the planted rule predicted"]
    )
    scores = json.loads(out.read_text())
    expected = scored_in_memory(simulated, weights.mean(axis=2), set(simulated.gene_ids[25:]))
    assert scores["positives"][ALL]["auprc"] == pytest.approx(expected.positives.loc[ALL, "auprc"], abs=1e-5)
    overall = f"{expected.positives.loc[ALL, 'auroc']:.3f}"
    assert rows["AUROC of attention per base, motif against all others"][-1] == overall
    assert scores["predictions"]["treatment1"]["pearson"] == pytest.approx(1)
    assert set(json.loads((files / "bioattn-records/scores.json.json").read_text())["inputs"]) == {
        "attention",
        "truth",
        "dataset",
    }


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("truth.tsv truth.tsv", 1, "truth.tsv"),
        ("a.h5 truth.tsv --sites other.*", 1, "holds no such attention site; it holds"),
        ("a.h5 truth.tsv --value-weighted", 1, "no value-weighted attention"),
        ("a.h5 truth.tsv --dataset d.h5 --split validation", 1, "no gene is in the validation split"),
        ("a.h5 truth.tsv --split validation", 2, "give it with --dataset"),
    ],
)
def test_bad_input_is_one_sentence(files, capsys, arguments, code, message):
    words = [files / word if word.endswith((".h5", ".tsv")) else word for word in arguments.split()]
    assert bioattn("simulate", "score", *words, "-o", files / "out.json", "-q") == code
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert not (files / "out.json").exists()


def test_windows_other_than_the_simulated_ones_are_noticed(tmp_path, simulated, caplog):
    short = simulate_promoters(simulation_settings(genes=GENES, treatments=TREATMENTS, length=200, seed=2))
    flat = np.full((GENES, TREATMENTS, HEADS, BINS), 1 / BINS, np.float32)
    path = write_attention(tmp_path / "a.h5", simulated, {"s": flat})
    with caplog.at_level("WARNING", logger="bioattn"):
        scored(path, short.sites)
    assert "prepared with another --upstream" in caplog.text


def test_what_cannot_be_computed_is_null_in_json(files, simulated, capsys):
    """A treatment whose responses are all alike has no correlation."""
    dataset = read_dataset(files / "d.h5")
    targets = dataset.targets.copy()
    targets[:, 1] = 2.5
    write_dataset(files / "flat.h5", replace(dataset, targets=targets))
    arguments = [files / "a.h5", files / "truth.tsv", "--dataset", files / "flat.h5"]
    assert bioattn("simulate", "score", *arguments, "-o", files / "out.json", "-q") == 0
    scores = json.loads((files / "out.json").read_text())["predictions"]
    assert scores["treatment2"]["pearson"] is None
    assert scores["treatment1"]["pearson"] == pytest.approx(1)
