"""Signal as bedGraph and bigWig."""

import io
import itertools

import numpy as np
import pybigtools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bioattn.formats import bigwig
from bioattn.formats.bigwig import Intervals, track_line, write_bigwig, write_intervals


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


LENGTHS = {"chrII": 500, "chrI": 100_000, "chrIII": 7, "chrµ": 3_000}


def random_blocks(chroms=("chrI", "chrII", "chrµ"), seed=0):
    """Some runs of touching intervals with gaps between them, short and long."""
    random = np.random.default_rng(seed)
    for chrom in chroms:
        bounds = np.unique(random.integers(0, LENGTHS[chrom], LENGTHS[chrom] // 20))
        values = random.normal(size=len(bounds) - 1).astype(np.float32)
        keep = np.repeat(random.random(len(values) // 10 + 1) < 0.4, 10)[: len(values)]
        keep[0] = True
        for part in np.array_split(np.flatnonzero(keep), 3):
            yield Intervals(chrom, bounds[:-1][part], bounds[1:][part], values[part])


def of_every_base(blocks, lengths=LENGTHS):
    """Values by chromosome, NaN where there is none."""
    found = {name: np.full(length, np.nan) for name, length in lengths.items()}
    for block in blocks:
        for start, end, value in zip(block.starts, block.ends, block.values, strict=True):
            found[block.chrom][start:end] = value
    return found


@pytest.fixture(params=["usual", "small"])
def sizes(request, monkeypatch):
    """The usual sizes of blocks, or ones so small that indexes are deep and every buffer overflows."""
    if request.param == "small":
        monkeypatch.setattr(bigwig, "BLOCK_SIZE", 3)
        monkeypatch.setattr(bigwig, "ITEMS_PER_SECTION", 5)
        monkeypatch.setattr(bigwig, "RECORDS_PER_BLOCK", 4)
        monkeypatch.setattr(bigwig, "_FEW_RECORDS", 2)
    return request.param


def test_what_was_written_is_what_is_read(tmp_path, sizes):
    path = tmp_path / "track.bw"
    covered = write_bigwig(path, LENGTHS, random_blocks())
    reader = pybigtools.open(str(path))
    assert reader.chroms() == LENGTHS
    expected = of_every_base(random_blocks())
    for chrom, values in expected.items():
        found = reader.values(chrom, 0, LENGTHS[chrom], fillna=None)
        np.testing.assert_array_equal(found, values)
    records = [(chrom, *record) for chrom in LENGTHS for record in reader.records(chrom)]
    assert len(records) == sum(len(block.starts) for block in random_blocks())
    every = np.concatenate(list(expected.values()))
    every = every[~np.isnan(every)]
    assert covered == len(every)
    summary = reader.info()["summary"]
    assert summary["basesCovered"] == len(every)
    for name, value in (
        ("min", every.min()),
        ("max", every.max()),
        ("mean", every.mean()),
        ("sum", every.sum()),
    ):
        assert summary[name] == pytest.approx(value)
    assert summary["std"] == pytest.approx(every.std(), rel=1e-3)


def test_zoom_levels_say_what_lies_in_each_bin(tmp_path, sizes):
    """pybigtools' own writer fills the gaps between intervals with the value behind them; here gaps stay gaps."""
    write_bigwig(tmp_path / "track.bw", LENGTHS, random_blocks())
    reader = pybigtools.open(str(tmp_path / "track.bw"))
    levels = reader.zooms()
    assert levels == [64 * 4**number for number in range(len(levels))]
    assert len(levels) >= 3
    for reduction, (chrom, values) in itertools.product(levels, of_every_base(random_blocks()).items()):
        expected = []
        for first in range(0, len(values), reduction):
            part = values[first : first + reduction]
            places = np.flatnonzero(~np.isnan(part))
            if places.size:
                known = part[places]
                sums = known.sum(), (known**2).sum()
                start, end = first + int(places[0]), first + int(places[-1]) + 1
                expected.append((start, end, len(known), known.min(), known.max(), *sums))
        names = ("bases_covered", "min_val", "max_val", "sum", "sum_squares")
        found = [
            (start, end, *(record[name] for name in names))
            for start, end, record in reader.zoom_records(reduction, chrom)
        ]
        assert [row[:3] for row in found] == [row[:3] for row in expected]
        if expected:
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
