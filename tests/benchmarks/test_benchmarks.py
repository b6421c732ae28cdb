"""Parts of the benchmarks: imports, intervals, numbers, the scanner of motifs, and the plain block."""

import ast
import dataclasses
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from benchmarks.common import mean_interval, table
from benchmarks.evoformer_block import block_flops, make_block, make_inputs
from benchmarks.evoformer_plain import PlainBlock
from benchmarks.motif_scanner import scan_place, scanner_attention
from bioattn.attention.capture import capture
from bioattn.formats.meme import Motif
from bioattn.formats.nucleotides import encode, reverse_complement
from bioattn.interpret.localisation import ALL, score_maps
from bioattn.interpret.promoter_maps import maps_in_memory
from bioattn.io.settings import build
from bioattn.models.evoformer import layers
from bioattn.models.promoter.config import PromoterModelConfig, TrainingConfig
from bioattn.simulate.motifs import consensus_matrix
from bioattn.simulate.promoters import simulate_promoters, simulation_settings

BENCHMARKS = sorted((Path(__file__).parents[2] / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_imported_names_exist(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "bioattn":
            module = import_module(node.module)
            for name in (alias.name for alias in node.names):
                assert hasattr(module, name), f"line {node.lineno}: {node.module} has no {name}"


def test_interval_is_that_of_the_mean():
    values = np.random.default_rng(2).normal(0.4, 0.1, 400)
    error = 1.96 * values.std() / 20
    assert mean_interval(values, 10_000) == pytest.approx(
        (values.mean() - error, values.mean() + error), abs=2e-3
    )
    assert mean_interval([0.3] * 5) == pytest.approx((0.3, 0.3))


def test_numbers_have_three_decimals():
    assert table(["a", "b"], [["x", 1 / 3], [2, ""]]) == "| a | b |\n| --- | --- |\n| x | 0.333 |\n| 2 |  |\n"


UNIFORM = np.full(4, 0.25)


@pytest.mark.parametrize("turned", [False, True])
def test_equals_bayes_by_hand(turned):
    """Likelihood of every start and strand, one at a time, normalised."""
    codes = encode("GGACGTTAGCTACG")
    codes = reverse_complement(codes) if turned else codes
    motif = Motif(name="m", probabilities=consensus_matrix(encode("ACGTTA"), 0.1))
    likelihood = {}
    for start in range(codes.size - 5):
        window = codes[start : start + 6]
        likelihood[start] = sum(
            np.prod([motif.probabilities[i, base] / 0.25 for i, base in enumerate(read)])
            for read in (window, reverse_complement(window))
        )
    expected = np.zeros(codes.size)
    for start, value in likelihood.items():
        expected[start : start + 6] += value / sum(likelihood.values()) / 6
    assert np.allclose(scan_place(codes[None], motif, UNIFORM)[0], expected, atol=1e-4)


def test_scans_of_simulations_lie_on_the_truth():
    simulated = simulate_promoters(simulation_settings(genes=150, seed=4))
    motifs = {motif.name: motif for motif in simulated.motifs}
    edges = list(range(0, 401, 8))
    weights = scanner_attention(
        simulated.codes, [[motifs[name] for name in rule.motifs] for rule in simulated.rules], edges
    )
    assert np.allclose(weights.sum(axis=-1), 1)
    treatments = [rule.treatment for rule in simulated.rules]
    maps = maps_in_memory(weights, treatments, np.array(edges), genes=simulated.gene_ids)
    scores = score_maps(maps, simulated.sites).positives.loc[ALL]
    assert scores["auroc"] > 0.98
    assert 0.85 < scores["auprc"] < scores["ceiling_auprc"]
    assert scores["top_bin"] > 0.88
    assert scores["wrong_auroc"] < 0.6


# So many residues that products, attention and tiles take the ways they take at full size.
SIZE = (12, 136)


@pytest.fixture(scope="module")
def plain():
    """The plain block's results and its inputs."""
    inputs = make_inputs(*SIZE)
    with torch.no_grad():
        return inputs, PlainBlock(make_block("float32"))(*inputs)


class Nobody:
    """A sink."""

    def receive(self, site, weights, value_weighted, tile=None):
        pass


@pytest.mark.parametrize("sites", [[], ["*"]], ids=["unheard", "captured"])
def test_float32(plain, sites):
    inputs, expected = plain
    with torch.no_grad(), capture(sites, Nobody()):
        states = make_block("float32")(*(t.clone() for t in inputs))
    for state, other in zip(states, expected, strict=True):
        # Pairs that no row covers hold bias / 1e-3 and set the scale of what is rounded.
        np.testing.assert_allclose(
            state.numpy(), other.numpy(), rtol=1e-4, atol=1e-5 * float(other.abs().max())
        )


def test_bfloat16_within_a_hundredth():
    """Of so many residues that it takes the ways of full size; its products are slow on a CPU without them."""
    inputs = make_inputs(12, 72)
    with torch.no_grad():
        expected = PlainBlock(make_block("float32"))(*inputs)
        states = make_block("bfloat16")(*(t.clone() for t in inputs))
    for state, other in zip(states, expected, strict=True):
        assert state.dtype == torch.float32
        assert 1e-5 < (state - other).norm() / other.norm() <= 1e-2


@pytest.mark.parametrize("recomputed", [False, True])
def test_gradients(recomputed, monkeypatch):
    monkeypatch.setattr(layers, "MIN_RECOMPUTED_ELEMENTS", 0 if recomputed else 1 << 40)
    msa, pair, *masks = make_inputs(8, 64)
    slopes = torch.randn(8, 64, 256), torch.randn(64, 64, 128)
    gradients = []
    block = make_block("float32")
    for model in (PlainBlock(block), block):
        leaves = msa.clone().requires_grad_(), pair.clone().requires_grad_()
        states = model(*leaves, *masks)
        sum((state * slope).sum() for state, slope in zip(states, slopes, strict=True)).backward()
        gradients.append([leaf.grad for leaf in leaves])
    for one, other in zip(*gradients, strict=True):
        # One hidden activation that rounding puts on the other side of 0 moves the whole by 1e-3.
        assert (one - other).norm() <= 5e-3 * one.norm()


def test_counted_flops():
    for size, gigaflop in {(128, 128): 71.5, (128, 256): 216.0, (512, 256): 593.0}.items():
        assert block_flops(*size) == pytest.approx(gigaflop * 1e9, rel=2e-3)


@pytest.fixture
def yeast(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "benchmarks"))
    import yeast

    return yeast


@pytest.fixture
def yeast_data(yeast):
    import yeast_data

    return yeast_data


@pytest.mark.shared
def test_controls_are_dropped_and_only_their_own_series_corrected(yeast_data, shared):
    yeast = shared / "data" / "yeast"
    raw = pd.read_csv(yeast / "gasch2000_log2ratio.tsv.gz", sep="\t", index_col=0)
    responses, features = yeast_data.gasch_responses(yeast), yeast_data.treatment_features()
    assert responses.shape == (6152, 168)
    assert list(responses) == list(features.index)
    conditions = pd.read_csv(yeast / "gasch2000_conditions.tsv", sep="\t", index_col=0).loc[features.index]
    assert features["group"].equals(conditions["group"])
    assert features["minutes"].equals(conditions["minutes"])
    assert features["group"].nunique() == 35
    gene = "YAL002W"
    zero = raw.loc[gene, [f"Heat.Shock.000.minutes{end}" for end in (".hs.2", "..hs.2", "..hs.2.1")]].mean()
    array = "Heat.Shock.015.minutes..hs.2"
    assert responses.loc[gene, array] == pytest.approx(raw.loc[gene, array] - zero)
    array = "dtt.060.min.dtt.2"
    assert responses.loc[gene, array] == pytest.approx(
        raw.loc[gene, array] - raw.loc[gene, "dtt.000.min..dtt.2"], nan_ok=True
    )
    changed = [name for name in responses if not responses[name].equals(raw[name])]
    assert len(changed) == 10
    assert all("hs.2" in name or "dtt.2" in name for name in changed)


@pytest.mark.parametrize(("kind", "number"), [("time", 27), ("group", 18)])
def test_held_out_treatments_can_be_described_by_what_is_trained_on(yeast_data, kind, number):
    features = yeast_data.treatment_features()
    held_out = features["held_out"] == kind
    assert held_out.sum() == number
    for column in ("agent", "strain", "osmotic", "carbon"):
        assert set(features.loc[held_out, column]) <= set(features.loc[~held_out, column])


def test_neural_rows_build_from_the_settings_files(yeast):
    rows = {name: row.tables() for name, row in yeast.NEURAL_ROWS.items()}
    shapes = {
        name: build(PromoterModelConfig, {**tables["model"], "length": 600}, name)
        for name, tables in rows.items()
    }
    training = {name: build(TrainingConfig, tables["training"], name) for name, tables in rows.items()}
    assert (shapes["cross"].stem, shapes["cross-kmer"].stem) == ("both", "kmer")
    assert training["cross"].warm_start
    for control in ("shared", "position", "uniform"):
        assert shapes[f"cross-{control}"] == dataclasses.replace(shapes["cross"], attention_query=control)
        assert training[f"cross-{control}"] == training["cross"]
    assert shapes["cross-conv"].stem == "conv"
    assert not training["concat"].warm_start
