"""Grids of heads: maps against the weights written, one panel for each."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.image import AxesImage
from matplotlib.text import Text

from bioattn.errors import BioattnError
from bioattn.figures.head_grid import draw_head_grid, read_head_grid
from bioattn.store.reader import open_attention


def test_each_panel_shows_its_head(alignments):
    with open_attention(alignments.path) as attention:
        grid = read_head_grid(attention, heads=[1])
        corrected = read_head_grid(attention, corrected=True)
    for panel in grid.panels:
        whole = alignments.weights[panel.site][:, int(panel.head)]
        np.testing.assert_allclose(panel.values, whole.mean(axis=0, dtype=np.float64), atol=1e-6)
    figure = draw_head_grid(grid, 85)
    images = [image for axis in figure.axes for image in axis.images if isinstance(image, AxesImage)]
    for image, panel in zip(images, grid.panels, strict=True):
        np.testing.assert_array_equal(image.get_array(), panel.values)
    # Blocks and heads are counted as in the file: from 0.
    axes = [axis for axis in figure.axes if axis.images]
    assert [axis.get_ylabel() for axis in axes] == ["block 0\nquery residue", "block 1\nquery residue"]
    assert [axis.get_title(loc="left")[:6] for axis in axes] == ["head 1", "head 1"]
    for panel in corrected.panels:
        whole = alignments.weights[panel.site][:, int(panel.head)].mean(axis=0, dtype=np.float64)
        both = whole + whole.T
        np.fill_diagonal(both, 0)
        share = both.sum(axis=0)
        expected = both - np.outer(share, share) / share.sum() * 12 / 11
        far = ~np.eye(12, dtype=bool)
        np.testing.assert_allclose(panel.values[far], expected[far], atol=1e-7)
    sizes = [text.get_fontsize() for text in figure.findobj(Text) if text.get_text().strip()]
    assert min(sizes) >= 6


def test_many_heads_of_a_block_take_several_lines(alignments):
    with open_attention(alignments.path) as attention:
        grid = read_head_grid(attention)
    first = grid.panels[0]
    panels = [first._replace(site=site, head=str(head)) for site in ("a", "b") for head in range(16)]
    figure = draw_head_grid(replace(grid, panels=panels), 180)
    axes = [axis for axis in figure.axes if axis.images]
    assert [axis.get_title(loc="left").split()[1] for axis in axes] == [str(head) for head in range(16)] * 2
    assert len({round(axis.get_position().y0, 3) for axis in axes}) == 4
    assert all(axis.get_window_extent().width > figure.dpi * 13 / 25.4 for axis in axes)


def test_names_of_many_blocks_do_not_overlap(alignments):
    with open_attention(alignments.path) as attention:
        grid = read_head_grid(attention)
    sites = [f"encoder.{block:02d}.self" for block in range(6)]
    panels = [grid.panels[0]._replace(site=site, head=str(head)) for site in sites for head in range(4)]
    figure = draw_head_grid(replace(grid, panels=panels), 85)
    figure.canvas.draw()
    names = [axis.yaxis.label.get_window_extent() for axis in figure.axes if axis.get_ylabel()]
    assert len(names) == 6
    assert not any(one.overlaps(other) for one, other in pairwise(names))
    with pytest.raises(BioattnError, match="6 blocks of 4 heads do not fit"):
        draw_head_grid(replace(grid, panels=panels), 20)


def test_heads_of_promoters(promoters):
    with open_attention(promoters.path) as attention:
        grid = read_head_grid(attention, samples=["g2"], zero=60)
    assert [(panel.site, panel.head) for panel in grid.panels] == [
        (f"cross.{hop}", head) for hop in (0, 1) for head in "01"
    ]
    weights = promoters.weights["promoter.cross.1"][2, :, 0]
    widths = np.array([4, 8, 8, 8, 8, 8, 8, 8])
    np.testing.assert_allclose(grid.panels[2].values, weights / widths * 60, rtol=1e-5)
    figure = draw_head_grid(grid, 180)
    meshes = [axis.collections[0].get_array() for axis in figure.axes[:4]]
    for mesh, panel in zip(meshes, grid.panels, strict=True):
        np.testing.assert_array_equal(mesh, panel.values)
