"""Maps that figures show against plain loops over genes, heads and bins."""

import numpy as np
import pytest

from bioattn.attention.site import AttentionSite, Axis
from bioattn.figures.treatment_maps import cluster_treatments
from bioattn.interpret import promoter_maps
from bioattn.interpret.promoter_maps import attention_maps, maps_in_memory
from bioattn.store.reader import open_attention
from tests.result_files import promoter_layout, write_promoters

SITES = ["promoter.cross.0", "promoter.cross.1"]


@pytest.mark.parametrize("genes", [["g1"], ["g3", "g0", "g2"], None])
def test_means_over_genes_by_plain_loops(promoters, genes, monkeypatch):
    monkeypatch.setattr(promoter_maps, "READ_BYTES", 1)  # a gene at a time
    with open_attention(promoters.path) as attention:
        maps = attention_maps(attention, heads=[1]).averaged(genes or (), ["H2O2", "heat"])
    numbers = range(5) if genes is None else [int(gene[1]) for gene in genes]
    assert maps.treatments == ["H2O2", "heat"]
    assert [(site.name, site.heads) for site in maps.sites] == [(name, ["1"]) for name in SITES]
    values_HTK = maps.by_head(slice(0, 1))[0]
    for hop, site in enumerate(SITES):
        for row, treatment in enumerate((2, 0)):
            for bin_ in range(len(maps.key_edges) - 1):
                values = [float(promoters.weights[site][gene, treatment, 1, bin_]) for gene in numbers]
                assert values_HTK[hop, row, bin_] == pytest.approx(sum(values) / len(values), rel=1e-6)
    np.testing.assert_allclose(maps.block(slice(0, 1))[0], values_HTK.mean(axis=0))


def test_differences(promoters):
    weights = promoters.weights[SITES[0]][3].astype(np.float64)  # treatment, head, bin
    with open_attention(promoters.path) as attention:
        maps = attention_maps(attention, [SITES[0]])
        against = maps.averaged(["g3"], ["heat"], "H2O2")
        mean = maps.averaged(["g3"], ["heat"], "mean")
        every = maps.averaged(["g3"], None, "H2O2")
    assert against.treatments == mean.treatments == ["heat"]
    assert every.treatments == ["heat", "cold $5 a_b$"]
    np.testing.assert_allclose(against.by_head(slice(0, 1))[0, :, 0], weights[0] - weights[2], atol=1e-7)
    # The mean is that of all treatments, not of those shown.
    np.testing.assert_allclose(
        mean.by_head(slice(0, 1))[0, :, 0], weights[0] - (weights[0] + weights[1] + weights[2]) / 3, atol=1e-7
    )


def test_of_positions_that_look_at_positions_the_mean_over_queries_is_shown(promoters, tmp_path):
    query = Axis("query", "position", edges=(0, 30, 60))
    site = AttentionSite(
        name="promoter.trunk.0",
        axes=(Axis("sample"), Axis("head"), query, Axis("key", "position", edges=(0, 20, 40, 60))),
        heads=(0, 1),
    )
    weights = np.random.default_rng(3).dirichlet(np.ones(3), (5, 2, 2)).astype(np.float32)
    layout = promoter_layout([site], ["heat"], 60)
    write_promoters(tmp_path / "a.h5", layout, promoters.samples, {site.name: weights})
    with open_attention(tmp_path / "a.h5") as attention:
        maps = attention_maps(attention).averaged(["g1", "g4"])
    assert maps.treatments == ["all treatments"]
    for head in range(2):
        for bin_ in range(3):
            values = [float(weights[gene, head, query, bin_]) for gene in (1, 4) for query in (0, 1)]
            assert maps.by_head(slice(0, 1))[0, head, 0, bin_] == pytest.approx(sum(values) / 4, rel=1e-6)


def maps_of(rows):
    names = [f"t{number}" for number in range(len(rows))]
    return maps_in_memory(rows[None], names, np.arange(rows.shape[1] + 1) * 8, genes=["g"])


def test_alike_treatments_stand_together():
    """Three groups whose members lie far apart in the file; a tree that is right keeps each in one run."""
    random = np.random.default_rng(0)
    centres = np.abs(random.normal(size=(3, 20)))
    groups = np.array([0, 1, 2, 1, 0, 2, 0, 1, 2])
    rows = centres[groups] + 0.01 * random.normal(size=(9, 20))
    heatmap = cluster_treatments(maps_of(rows))
    ordered = groups[heatmap.order]
    assert (np.diff(ordered) != 0).sum() == 2
    assert heatmap.treatments == [f"t{number}" for number in heatmap.order]
    np.testing.assert_allclose(heatmap.values_TK, rows[heatmap.order] / 8 * 160)
    # The same rows in another order of the file give the same picture.
    shuffled = random.permutation(9)
    again = cluster_treatments(maps_of(rows[shuffled]))
    groups_again = groups[shuffled][again.order]
    assert (np.diff(groups_again) != 0).sum() == 2


def test_the_files_order_is_kept_on_request():
    heatmap = cluster_treatments(maps_of(np.random.default_rng(1).random((5, 4))), cluster=False)
    assert heatmap.order == [0, 1, 2, 3, 4]
    assert heatmap.tree is None
