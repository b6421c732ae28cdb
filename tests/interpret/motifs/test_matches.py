"""Matches to databases; what memelite computes is its own affair, that we hand it the right things is ours."""

import sys

import numpy as np
import pytest

from bioattn.errors import BioattnError
from bioattn.formats.meme import read_meme
from bioattn.formats.motif import Motif, MotifDatabase
from bioattn.interpret.false_discovery import benjamini_hochberg
from bioattn.interpret.motifs.matches import match_motifs, require_tomtom


def test_q_values_by_hand():
    q_values = benjamini_hochberg(np.array([0.01, np.nan, 0.04, 0.03]))
    np.testing.assert_allclose(q_values, [0.03, np.nan, 0.04, 0.04])
    assert np.isnan(benjamini_hochberg(np.array([np.nan]))).all()
    assert benjamini_hochberg(np.array([])).size == 0


def test_without_memelite_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "memelite", None)
    with pytest.raises(BioattnError, match=r"pip install 'bioattn\[motif\]'"):
        require_tomtom()


@pytest.mark.slow  # the first use of memelite compiles for a minute or two
def test_a_motif_finds_itself_blurred_and_turned_round(shared, caplog):
    database = read_meme(shared / "data/motifs/JASPAR2024_CORE_fungi.meme")
    rng = np.random.default_rng(0)
    names = ("GAL4", "RAP1", "REB1", "LEU3", "HSF1", "ABF1")
    some = [motif for motif in database.motifs if motif.alternative_name in names]
    blurred = [
        Motif(name=f"q{number}", probabilities=0.9 * motif.probabilities[::-1, ::-1] + 0.025)
        for number, motif in enumerate(some)
    ]
    random = [Motif(name=f"r{i}", probabilities=rng.dirichlet([0.3] * 4, size=8)) for i in range(20)]
    found = match_motifs([blurred, random], database)
    assert found["match"][:6].tolist() == [motif.name for motif in some]
    assert found["match_name"][:6].tolist() == [motif.alternative_name for motif in some]
    assert (found["q_value"][:6] < 1e-3).all()
    assert (found["q_value"][6:] < 0.05).sum() <= 2
    caplog.set_level("INFO", logger="bioattn")
    match_motifs([blurred[:1]], MotifDatabase(motifs=some))
    assert "rough below 50" in caplog.text
    assert "comparing 1 motif with 6 motifs of the database; the first time" in caplog.text
