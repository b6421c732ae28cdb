"""Training curves: what stands in history.csv is what is drawn."""

import json
import math
import re

import numpy as np
import pytest

from bioattn.checks.measures import Code, Measure, Verdict
from bioattn.checks.record import CheckRecord, Curve
from bioattn.errors import BioattnError, FormatError
from bioattn.figures.curves import draw_check, draw_training, training_picture
from bioattn.models.evaluation import read_history

PROMOTER = (
    "epoch,learning_rate,training_loss,validation_loss,validation_mean_pearson\n"
    "1,0.1,2.5,2.6,\n2,0.1,1.5,1.8,0.4\n3,0.05,1.2,1.9,0.5\n"
)


def run(tmp_path, name, text, best=None):
    folder = tmp_path / name
    folder.mkdir()
    (folder / "history.csv").write_text(text)
    (folder / "training.json").write_text(json.dumps({"best_epoch": best}))
    return folder


def test_curves_of_two_runs(tmp_path):
    histories = [
        read_history(run(tmp_path, "first", PROMOTER, 2)),
        read_history(run(tmp_path, "second", PROMOTER.replace("2.5", "9.5"), 3)),
    ]
    figure = draw_training(training_picture(histories), 180)
    losses, pearson = figure.axes
    lines = {line.get_label(): line for line in losses.lines}
    assert lines["first: training"].get_xydata().tolist() == [[1, 2.5], [2, 1.5], [3, 1.2]]
    assert lines["second: training"].get_ydata().tolist() == [9.5, 1.5, 1.2]
    assert lines["second: validation"].get_ydata().tolist() == [2.6, 1.8, 1.9]
    assert np.isnan(pearson.lines[0].get_ydata()[0])
    assert pearson.lines[0].get_ydata()[1:].tolist() == [0.4, 0.5]
    dots = [line.get_xydata().tolist() for line in losses.lines if line.get_marker() == "o"]
    assert dots == [[[2, 1.8]], [[3, 1.9]]]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["first", "second"]
    # The axis spans the values: 0.4 to 0.5, without 0.
    assert pearson.get_ylim()[0] > 0.3


def test_bad_input_is_one_sentence(tmp_path):
    good = read_history(run(tmp_path, "a", PROMOTER))
    steps = read_history(run(tmp_path, "b", "step,training_loss\n1,2\n"))
    with pytest.raises(BioattnError, match="some of the runs count epochs, others steps"):
        training_picture([good, steps])
    with pytest.raises(BioattnError, match="--show 'r2': no run has it; there are epoch, learning_rate"):
        training_picture([good], ["r2"])
    with pytest.raises(FormatError, match=re.escape("history.csv: is no training history")):
        read_history(run(tmp_path, "c", "step,training_loss\n1,2\n2,x\n"))
    with pytest.raises(FormatError, match="its first column must be epoch or step"):
        read_history(run(tmp_path, "e", "gene,x\n1,2\n"))


def check(curves):
    """A check of four measures, of which the last has no value."""
    judged = {"interval": (0.4, 0.7), "threshold": 0.1, "passed": True}
    measures = [
        Measure(name="first", label="first", value=0.5, sentence="", **judged),
        Measure(name="second", label="second", value=-0.25, sentence=""),
        Measure(name="last", label="last", value=-0.001, sentence=""),
        Measure(name="third", label="third", value=math.nan, threshold=1, sentence=""),
    ]
    verdict = Verdict(Code.USED, "Attention is used.", ["Few genes."], [])
    return CheckRecord(
        model_sha256="", input_sha256="", settings={}, verdict=verdict, measures=measures, curves=curves
    )


def test_what_is_drawn():
    deletion = Curve([0, 0.1, 0.2], top=[1, 0.5, 0.2], random=[1, 0.9, 0.8])
    figure = draw_check(check({"deletion": deletion}), 180)
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
    assert [text.get_text() for text in measures.texts] == ["0.50", "−0.25", "0.00"]
    assert [label.get_text() for label in measures.get_yticklabels()] == ["first", "second", "last"]
    assert measures.get_yticks().tolist()[:2] == [value.get_ydata()[0], second.get_ydata()[0]]
