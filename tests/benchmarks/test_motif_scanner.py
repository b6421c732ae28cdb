"""The scanner that knows the motifs: exact on a small case, better than chance by far on simulations."""

import numpy as np
import pytest

from benchmarks.motif_scanner import scan_place, scanner_attention
from bioattn.formats.meme import Motif
from bioattn.formats.nucleotides import encode, reverse_complement
from bioattn.interpret.localisation import ALL, LocalisationScorer
from bioattn.simulate.motifs import consensus_matrix
from bioattn.simulate.promoters import simulate_promoters, simulation_settings

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
    scorer = LocalisationScorer(
        simulated.sites,
        gene_ids=simulated.gene_ids,
        treatments=[rule.treatment for rule in simulated.rules],
        key_edges=edges,
        window_length=400,
    )
    scorer.add(weights)
    scores = scorer.report().positives.loc[ALL]
    assert scores["auroc"] > 0.98
    assert 0.85 < scores["auprc"] < scores["ceiling_auprc"]
    assert scores["top_bin"] > 0.88
    assert scores["wrong_auroc"] < 0.6
