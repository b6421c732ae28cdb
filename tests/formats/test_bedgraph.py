"""bedGraph lines, and what is refused before it is written."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bioattn.formats.bedgraph import LINES_AT_ONCE, Intervals, checked_intervals, track_line, write_intervals


def intervals(chrom, *rows):
    starts, ends, values = zip(*rows, strict=True)
    return Intervals(chrom, np.array(starts), np.array(ends), np.array(values, dtype=np.float32))


def text_of(*blocks):
    file = io.StringIO()
    for block in blocks:
        write_intervals(file, block)
    return file.getvalue()


def test_by_eye():
    block = intervals("chr%d", (0, 8, 0.125), (8, 9, -0.0), (20, 30, -1e-9))
    assert text_of(block) == "chr%d\t0\t8\t0.125\nchr%d\t8\t9\t0\nchr%d\t20\t30\t-1e-09\n"


@given(st.integers(0, 3), st.integers(-2, 2))
def test_lengths_about_the_size_of_a_piece(pieces, more):
    number = max(1, pieces * LINES_AT_ONCE + more)
    values = np.arange(number, dtype=np.float32)
    lines = text_of(Intervals("I", np.arange(number), np.arange(number) + 1, values)).splitlines()
    assert len(lines) == number
    assert lines[-1] == f"I\t{number - 1}\t{number}\t{number - 1}"


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=50))
def test_values_come_back_to_seven_digits(values):
    block = intervals("I", *((place, place + 1, value) for place, value in enumerate(values)))
    found = [float(line.split("\t")[3]) for line in text_of(block).splitlines()]
    np.testing.assert_allclose(found, block.values.astype(np.float64), rtol=1e-6)


def test_names_in_the_track_line_stay_one_field():
    line = track_line('5" of\theat\n(+)', "share", (0, 114, 178), (120, 120, 120))
    assert line.startswith('track type=bedGraph name="5\' of heat (+)" description="share" visibility=full ')
    assert "color=0,114,178 altColor=120,120,120" in line
    assert line.count("\n") == 1
    assert line.endswith("\n")


def test_good_blocks_pass():
    blocks = [intervals("I", (0, 5, 1), (5, 6, 2)), intervals("I", (6, 7, 1)), intervals("II", (0, 1, 1))]
    empty = Intervals("II", np.zeros(0, int), np.zeros(0, int), np.zeros(0, np.float32))
    assert list(checked_intervals([*blocks, empty])) == blocks


@pytest.mark.parametrize(
    ("blocks", "sentence"),
    [
        ([("I", (5, 5, 1))], "I:5-5 is empty"),
        ([("I", (-1, 5, 1))], "I:-1-5"),
        ([("I", (0, 5, 1), (4, 6, 1))], "I:4-6 is empty or not behind 5"),
        ([("I", (0, 5, 1)), ("I", (3, 6, 1))], "I:3-6 is empty or not behind 5"),
        ([("I", (0, 5, 1)), ("II", (0, 5, 1)), ("I", (6, 7, 1))], "I comes back"),
        ([("I", (0, 5, float("nan")))], "not a finite number"),
    ],
)
def test_bad_blocks_are_refused(blocks, sentence):
    with pytest.raises(ValueError, match=sentence):
        list(checked_intervals([intervals(*block) for block in blocks]))
