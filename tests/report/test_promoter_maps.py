"""What all promoters say together, against plain loops; and which are shown when not all fit."""

from dataclasses import replace

import numpy as np
import pytest

from bioattn.choices import Reduction
from bioattn.report import promoter_maps
from bioattn.report.page import cluster_order
from bioattn.report.promoter_maps import (
    SiteSums,
    agreeing,
    blocks_of,
    ranked_genes,
    shown_maps,
    specific_part,
    treatments_of,
)
from bioattn.store.reader import open_attention
from bioattn.store.schema import AttentionOptions
from bioattn.store.windows import promoter_samples
from bioattn.system.progress import Progress
from tests.result_files import cross_site, promoter_layout, write_promoters

EDGES = tuple(range(0, 49, 8))
TREATMENTS = ["a", "b", "c", "d"]
NUM_GENES, NUM_HEADS, NUM_KEYS = 23, 2, len(EDGES) - 1


def write(path, weights, axes):
    site = cross_site(EDGES, NUM_HEADS, field=None)
    site = replace(site, axes=tuple(axis for axis in site.axes if axis.name in axes))
    options = AttentionOptions(reduce=Reduction.NONE if "head" in axes else Reduction.MEAN_HEADS)
    number = len(weights)
    places = np.arange(number) * 100
    samples = promoter_samples(
        [f"g{n}" for n in range(number)], ["c"] * number, places, places + EDGES[-1], ["+"] * number
    )
    layout = promoter_layout(
        [site], TREATMENTS, EDGES[-1], options, model_sha256="a" * 64, input_sha256="b" * 64
    )
    write_promoters(path, layout, samples, {site.name: weights})
    return path


@pytest.fixture
def weights():
    random = np.random.default_rng(3)
    logits = 2 * random.normal(size=(NUM_GENES, len(TREATMENTS), NUM_HEADS, NUM_KEYS))
    logits[:, 1] = logits[:, 0] + 0.3 * random.normal(size=logits[:, 0].shape)  # a and b are alike
    logits += np.linspace(0, 2, NUM_KEYS)  # all look at one end
    exponents = np.exp(logits)
    return (exponents / exponents.sum(-1, keepdims=True)).astype(np.float32)


def summary_of(path):
    """The summary of the only site, and its blocks."""
    sums, blocks = SiteSums(), []
    with open_attention(path) as attention:
        (maps,) = shown_maps(attention)
        for first, part in blocks_of(maps, treatments_of(maps, None), Progress()):
            sums.add(maps, part)
            blocks.append((first, part.copy()))
        return sums.summary(maps, None), blocks


@pytest.mark.parametrize("block_bytes", [1, 5_000, 48_000_000])
def test_summary_equals_loops_whatever_the_blocks(tmp_path, weights, monkeypatch, block_bytes):
    monkeypatch.setattr(promoter_maps, "BLOCK_BYTES", block_bytes)
    path = write(tmp_path / "attention.h5", weights, ("sample", "treatment", "head", "key"))
    summary, seen = summary_of(path)
    np.testing.assert_array_equal(np.concatenate([part for _, part in seen]), weights)
    assert [first for first, _ in seen] == np.cumsum([0, *(len(part) for _, part in seen[:-1])]).tolist()
    np.testing.assert_allclose(summary.profile_THK, weights.mean(axis=0), rtol=1e-5)
    spread = [
        [
            np.mean(
                [np.exp(-sum(w * np.log(w) for w in weights[g, t, h] if w > 0)) for g in range(NUM_GENES)]
            )
            for h in range(NUM_HEADS)
        ]
        for t in range(4)
    ]
    np.testing.assert_allclose(summary.effective_bins_TH, spread, rtol=1e-4)
    maps = weights.mean(axis=2, dtype=np.float64)
    flat = [maps[:, t].ravel() for t in range(4)]
    np.testing.assert_allclose(summary.similarity_TT, np.corrcoef(flat), atol=1e-5)
    own = [(maps[:, t] - maps[:, t].mean(axis=0)).ravel() for t in range(4)]
    np.testing.assert_allclose(summary.specific_similarity_TT, np.corrcoef(own), atol=1e-5)
    assert summary.specific_similarity_TT[0, 1] > 0.8 > abs(summary.specific_similarity_TT[0, 2])
    # The part of the variance that is between treatments: of what is left of each promoter and bin.
    left = np.array(own).reshape(4, NUM_GENES, NUM_KEYS)
    between = 1 - np.square(left.mean(axis=0)).sum() * 4 / np.square(left).sum()
    assert summary.between_share == pytest.approx(between, abs=1e-5)


def test_each_treatment_names_the_gene_that_is_its_own():
    random = np.random.default_rng(0)
    responses = random.normal(size=(40, 3))
    for treatment, gene in enumerate((7, 19, 31)):
        responses[gene] = 0
        responses[gene, treatment] = -9
    responses[5] = 9  # responds to everything, so to nothing in particular
    nobody = np.zeros(40, np.bool_)
    order = ranked_genes(agreeing(responses, None), nobody)
    assert sorted(order) == list(range(40))
    assert set(order[:3]) == {7, 19, 31}
    assert np.abs(specific_part(responses)[5]).max() < np.abs(specific_part(responses)[7]).max()
    # Genes that were not trained on come in every second turn, the first one included.
    held_out = np.zeros(40, np.bool_)
    held_out[[2, 3, 4, 6, 8, 9]] = True
    mixed = ranked_genes(agreeing(responses, None), held_out)
    assert held_out[mixed[:3]].all()
    assert set(mixed[3:6]) == {7, 19, 31}
    assert sorted(mixed) == list(range(40))


def test_the_first_gene_is_one_whose_measured_response_is_as_predicted():
    random = np.random.default_rng(0)
    predicted = 0.1 * random.normal(size=(40, 2))
    measured = 0.1 * random.normal(size=(40, 2))
    predicted[3], measured[3] = (9, 0), (-9, 0)  # predicted the wrong way
    predicted[8], measured[8] = (6, 0), (0, 6)  # and of the other treatment
    predicted[5], measured[5] = (4, 0), (4, 0)
    predicted[6], measured[6] = (8, 0), (np.nan, np.nan)
    predicted[7], measured[7] = (0.5, -1), (-0.5, -2)  # of the first alike only beside the other
    found = agreeing(predicted, measured)
    assert ranked_genes(found, np.zeros(40, np.bool_))[0] == 5
    assert found[5].argmax() == 0
    predicted[7] = 0
    alone = agreeing(predicted, None)
    assert ranked_genes(alone, np.zeros(40, np.bool_))[0] == 3


def test_alike_treatments_stand_together():
    random = np.random.default_rng(1)
    base = random.normal(size=(3, 200))
    groups = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2])
    values = base[groups] + 0.5 * random.normal(size=(9, 200))
    order = cluster_order(np.corrcoef(values))
    assert sorted(order) == list(range(9))
    along = groups[order]
    assert (np.diff(along) != 0).sum() == 2
