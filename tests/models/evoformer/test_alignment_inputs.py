"""Which rows a pass draws: what is said of them against what the features hold."""

import numpy as np
import pytest

from bioattn.alignments.alphabet import RESIDUES
from bioattn.formats.alignment import Alignment
from bioattn.models.evoformer.config import EvoformerConfig, InputSettings
from bioattn.models.evoformer.inputs import prepare_inputs

ROWS, COLUMNS = 40, 12
CONFIG = EvoformerConfig(num_blocks=1, num_extra_msa_blocks=0, structure_module=None)


def alignment():
    """Random rows, every fifth a copy of the one before it."""
    letters = np.frombuffer((RESIDUES + "-").encode(), np.uint8)
    random = np.random.default_rng(0)
    residues = letters[random.integers(0, len(letters), (ROWS, COLUMNS))]
    residues[0] = letters[:COLUMNS]
    residues[5::5] = residues[4:-1:5]
    return Alignment(
        names=[f"row{number}" for number in range(ROWS)],
        descriptions=[""] * ROWS,
        residues=residues,
        insertions=[{} for _ in range(ROWS)],
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("number", [0, 3])
def test_rows_of_a_pass_are_those_of_its_features(weighted, number):
    whole = alignment()
    settings = InputSettings(
        max_msa_clusters=9, max_extra_msa=14, masked_fraction=0.0, weighted_rows=weighted
    )
    inputs = prepare_inputs(whole, CONFIG, settings, source="test")
    sample = inputs.sample(7, number)
    clusters, extra = inputs.rows_of(7, number)
    np.testing.assert_array_equal(sample.msa_feat[..., :23].argmax(-1), inputs.encoded.msa[clusters])
    np.testing.assert_array_equal(sample.extra_msa, inputs.encoded.msa[extra])
    assert clusters[0] == 0
    assert len(set(clusters) | set(extra)) == len(clusters) + len(extra) == 23
    # Copies are left out: a row counts under the name it had first.
    assert inputs.encoded.records is not None
    assert inputs.encoded.records.tolist() == [row for row in range(ROWS) if row == 0 or row % 5]
    other, _ = inputs.rows_of(7, number + 1)
    assert other.tolist() != clusters.tolist()
