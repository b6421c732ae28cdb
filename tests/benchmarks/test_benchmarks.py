"""Parts of the benchmarks: their imports, intervals and numbers, and the scanner of motifs."""

import ast
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from benchmarks.common import mean_interval, table
from benchmarks.motif_scanner import scan_place, scanner_attention
from bioattn.formats.meme import Motif
from bioattn.formats.nucleotides import encode, reverse_complement
from bioattn.interpret.localisation import ALL, score_maps
from bioattn.interpret.promoter_maps import maps_in_memory
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
