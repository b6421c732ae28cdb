"""Logos: heights by the formula, letters of just these heights, stacked in order."""

import math
import re

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from bioattn.errors import BioattnError, SettingsError
from bioattn.figures.motif_logos import choose_motifs, draw_logos
from bioattn.figures.sequence_letters import BASE_COLOURS, draw_letters, information_heights
from bioattn.formats.motif import Motif


def motif(name: str, rows: list[list[float]], alternative: str = "") -> Motif:
    return Motif(name=name, alternative_name=alternative, probabilities=np.array(rows), sites=20)


ROWS = [[0.7, 0.1, 0.1, 0.1], [0.0, 0.0, 1.0, 0.0], [0.25, 0.25, 0.25, 0.25], [0.5, 0.5, 0.0, 0.0]]


def test_heights_by_the_formula() -> None:
    """Bits of a position: 2 − entropy for equal frequencies; the relative entropy for others."""
    background = [0.3, 0.2, 0.2, 0.3]
    for expected, found in ((None, 4 * [0.25]), (np.array(background), background)):
        heights = information_heights(np.array(ROWS), expected)
        for row, drawn in zip(ROWS, heights, strict=True):
            bits = sum(p * math.log2(p / q) for p, q in zip(row, found, strict=True) if p > 0)
            assert drawn.tolist() == pytest.approx([p * bits for p in row])


def test_letters_have_their_heights_and_colours() -> None:
    heights = np.array([[0.5, 1.0, 0.0, 0.2], [-0.5, 0.3, -1.0, 0.0]])
    axis = Figure().add_subplot()
    letters = draw_letters(axis, heights, start=10)
    boxes = [path.get_extents() for path in letters.get_paths()]
    colours = [to_hex(colour).upper() for colour in letters.get_facecolors()]
    # From the line of 0: the smallest first; what is negative below it, the largest lowest.
    expected = [
        ("T", 10, 0.0, 0.2),
        ("A", 10, 0.2, 0.7),
        ("C", 10, 0.7, 1.7),
        ("C", 11, 0.0, 0.3),
        ("A", 11, -0.5, 0.0),
        ("G", 11, -1.5, -0.5),
    ]
    assert len(boxes) == len(expected)
    for box, colour, (letter, place, low, high) in zip(boxes, colours, expected, strict=True):
        assert (box.y0, box.y1) == pytest.approx((low, high))
        assert (box.x0 + box.x1) / 2 == pytest.approx(place + 0.5)
        assert 0.9 < box.width < 1
        assert colour == BASE_COLOURS[letter].upper()


def test_a_logo_for_each_motif() -> None:
    motifs = [motif("m1", ROWS), motif("m2", ROWS[:2], "TF")]
    figure = draw_logos(motifs, 180)
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert titles == ["m1 (20 sites)", "m2 TF (20 sites)"]
    plain, reverse = (draw_logos([motifs[0]], 85, reverse_complement=other) for other in (False, True))
    boxes = [
        [path.get_extents() for path in figure.axes[0].findobj(PathCollection)[0].get_paths()]
        for figure in (plain, reverse)
    ]
    # G of position 2 is C of position 3 from the other side: 2 bits high in both.
    tall = [[box for box in found if box.y1 - box.y0 > 1.99] for found in boxes]
    assert [round((box.x0 + box.x1) / 2) for (box,) in tall] == [2, 3]


def test_choosing() -> None:
    motifs = [motif("m1", ROWS), motif("m2", ROWS, "TF"), motif("m3", ROWS, "TF")]
    assert [found.name for found in choose_motifs(motifs, ["TF", "m1"])] == ["m2", "m3", "m1"]
    assert choose_motifs(motifs, None) == motifs
    with pytest.raises(BioattnError, match="--motif 'x': the file holds no such motif; it holds 'm1'"):
        choose_motifs(motifs, ["x"])
    with pytest.raises(SettingsError, match=re.escape("46 logos do not fit on a page, 45 do")):
        draw_logos([motif(f"m{number}", ROWS) for number in range(46)], 180)
