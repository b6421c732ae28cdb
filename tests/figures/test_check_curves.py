"""The picture of a check: verdict, curves, and each measure beside its threshold."""

import json
import re

import pytest

from bioattn.errors import FormatError
from bioattn.figures.check_curves import draw_check
from bioattn.views.check import read_check

CHECK = {
    "format": "bioattn-check",
    "format_version": "1.0",
    "verdict": {"code": "used", "sentence": "Attention is used.", "caveats": ["Few genes."]},
    "measures": [
        {
            "name": "a",
            "label": "first",
            "value": 0.5,
            "interval": [0.4, 0.7],
            "threshold": 0.1,
            "passed": True,
        },
        {"name": "b", "label": "second", "value": -0.25, "interval": None, "threshold": None, "passed": None},
        {"name": "c", "label": "third", "value": None, "interval": None, "threshold": 1, "passed": None},
    ],
    "curves": {"deletion": {"fraction": [0, 0.1, 0.2], "top": [1, 0.5, 0.2], "random": [1, 0.9, 0.8]}},
}


def test_what_is_drawn(tmp_path) -> None:
    path = tmp_path / "check.json"
    path.write_text(json.dumps(CHECK))
    figure = draw_check(read_check(path), 180)
    assert figure.get_suptitle() == "Attention is used.\nBut: Few genes."
    curves, measures = figure.axes
    top, random = curves.lines
    assert top.get_xydata().tolist() == [[0, 1], [10, 0.5], [20, 0.2]]
    assert random.get_ydata().tolist() == [1, 0.9, 0.8]
    interval, value, threshold, second = measures.lines[:4]
    assert list(interval.get_xdata()) == [0.4, 0.7]
    assert list(value.get_xdata()) == [0.5]
    assert list(threshold.get_xdata()) == [0.1, 0.1]
    assert list(second.get_xdata()) == [-0.25]
    assert value.get_color() != second.get_color()
    assert [text.get_text() for text in measures.texts] == ["0.50", "−0.25"]
    assert [label.get_text() for label in measures.get_yticklabels()] == ["first", "second"]
    assert measures.get_yticks().tolist() == [value.get_ydata()[0], second.get_ydata()[0]]


def test_a_check_without_curves(tmp_path) -> None:
    path = tmp_path / "check.json"
    path.write_text(json.dumps(CHECK | {"curves": {}}))
    assert len(draw_check(read_check(path), 85).axes) == 1


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"format": "x"}, "is no result of `bioattn explain check`"),
        ([], "is no result of `bioattn explain check`"),
        ({**CHECK, "measures": [{"label": "x"}]}, "is not a complete check"),
    ],
)
def test_what_is_no_check(tmp_path, content, sentence) -> None:
    path = tmp_path / "check.json"
    path.write_text(json.dumps(content))
    with pytest.raises(FormatError, match=re.escape(sentence)):
        read_check(path)
