"""Heatmaps of treatments: values, order and what is drawn."""

import numpy as np
import pytest
from matplotlib.collections import QuadMesh

from bioattn.errors import SettingsError
from bioattn.figures.treatment_heatmap import cluster_treatments, draw_treatment_heatmap
from bioattn.figures.treatment_maps import TreatmentMaps, read_treatment_maps
from bioattn.store import open_attention


def maps_of(rows: np.ndarray) -> TreatmentMaps:
    return TreatmentMaps(
        treatments=[f"t{number}" for number in range(len(rows))],
        heads=["0"],
        weights_HTK=rows[None],
        key_edges=np.arange(rows.shape[1] + 1) * 8,
        window_length=rows.shape[1] * 8,
        receptive_field=None,
        genes=["g"],
    )


def test_alike_treatments_stand_together() -> None:
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


def test_the_files_order_is_kept_on_request() -> None:
    heatmap = cluster_treatments(maps_of(np.random.default_rng(1).random((5, 4))), cluster=False)
    assert heatmap.order == [0, 1, 2, 3, 4]
    assert heatmap.tree is None


def test_what_is_drawn(promoters) -> None:
    with open_attention(promoters.path) as attention:
        maps = read_treatment_maps(attention, genes=["g1"])
    heatmap = cluster_treatments(maps, title="g1", zero=50)
    figure = draw_treatment_heatmap(heatmap, 120)
    (axis,) = [axis for axis in figure.axes if axis.get_label() == "heatmap"]
    (mesh,) = [found for found in axis.collections if isinstance(found, QuadMesh)]
    np.testing.assert_allclose(mesh.get_array(), heatmap.values_TK)
    np.testing.assert_allclose(mesh.get_coordinates()[0, :, 0], maps.key_edges - 50)
    assert [label.get_text() for label in axis.get_yticklabels()] == heatmap.treatments
    # Attention that is uniform has value 1 in every bin, whatever the bin's width.
    widths = np.diff(maps.key_edges)
    np.testing.assert_allclose((heatmap.values_TK * widths).sum(axis=1) / 60, 1, rtol=1e-6)


def test_many_treatments_are_named_now_and_then() -> None:
    random = np.random.default_rng(2)
    heatmap = cluster_treatments(maps_of(random.random((173, 5))))
    figure = draw_treatment_heatmap(heatmap, 180)
    (axis,) = [axis for axis in figure.axes if axis.get_label() == "heatmap"]
    places, names = axis.get_yticks(), [label.get_text() for label in axis.get_yticklabels()]
    height = figure.get_size_inches()[1] * 25.4
    assert height <= 231
    assert (height - 20) / 173 * (places[1] - places[0]) >= 2.1  # millimetres: a line of 6 pt
    assert names == [heatmap.treatments[int(place)] for place in places]
    with pytest.raises(SettingsError, match="900 treatments do not fit on a page"):
        draw_treatment_heatmap(cluster_treatments(maps_of(random.random((900, 5))), cluster=False), 180)
