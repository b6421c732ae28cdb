"""The signed-rank test against SciPy's, and the choice of hits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import wilcoxon

from bioattn.formats.motif import Motif
from bioattn.formats.nucleotides import encode
from bioattn.interpret.motifs.use import hits_of_motifs, signed_rank_p_value
from bioattn.simulate.motifs import consensus_matrix

UNIFORM = np.full(4, 0.25)


@given(st.lists(st.integers(-6, 6), min_size=8, max_size=60))
def test_p_values_with_ties_and_zeros_are_those_of_scipy(values):
    differences = np.array(values, dtype=np.float64) / 4
    if not differences.any():
        assert signed_rank_p_value(differences) == 1.0
    else:
        expected = wilcoxon(differences, method="approx").pvalue
        assert signed_rank_p_value(differences) == pytest.approx(expected, rel=1e-9)


def test_hits_come_in_order_each_place_once_and_short_motifs_at_what_they_can():
    codes = np.stack([encode("TTTTTGACGTCATTTTT"), encode("TTTACCTTTTTTTTTTT"), encode("CCCCCCCCCCCCCCCCC")])
    palindrome = Motif(name="palindrome", probabilities=consensus_matrix(encode("TGACGTCA"), 0.01), sites=500)
    short = Motif(name="short", probabilities=consensus_matrix(encode("ACGTA"), 0.01), sites=500)
    vague = Motif(name="vague", probabilities=consensus_matrix(encode("AC"), 0.01), sites=500)
    hits = hits_of_motifs(codes, [short, palindrome, vague], UNIFORM, 1e-4)
    found = list(zip(hits.gene, hits.start, hits.end, hits.motif, hits.turned, strict=True))
    # 4^-5 is above 1e-4, so the short one is sought at its best site's p-value; 4^-2 is too much.
    assert found == [(0, 4, 12, 1, False)]
    codes[1, 2:8] = encode("TACGTA")
    hits = hits_of_motifs(codes, [short, palindrome, vague], UNIFORM, 1e-4)
    assert list(zip(hits.gene, hits.start, hits.motif, hits.turned, strict=True))[1:] == [
        (1, 2, 0, True),
        (1, 3, 0, False),
    ]
    assert len(hits_of_motifs(codes, [], UNIFORM, 1e-4).gene) == 0
