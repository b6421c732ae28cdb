"""Scoring attention files: averaging over heads and hops, splits, predictions, refusals, the command."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

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
from bioattn.interpret.promoter_maps import maps_in_memory
from bioattn.promoters.dataset import read_dataset, write_dataset
from bioattn.promoters.treatments import named_treatments
from bioattn.simulate.promoters import simulate_promoters, simulation_settings
from bioattn.simulate.truth import write_truth
from bioattn.store.schema import AttentionOptions
from bioattn.store.windows import promoter_samples
from tests.making import bioattn, promoter_dataset
from tests.result_files import promoter_layout, write_promoters

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
