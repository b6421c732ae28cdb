"""bigWig read back, and every way in which pybigtools fails in silence."""

from pathlib import Path

import numpy as np
import pybigtools
import pytest

from bioattn.errors import BioattnError
from bioattn.formats.bedgraph import Intervals
from bioattn.formats.bigwig import write_bigwig

LENGTHS = {"chrII": 500, "chrI": 100_000, "chrIII": 7}


def random_blocks(chroms=("chrI", "chrII"), seed=0):
    random = np.random.default_rng(seed)
    for chrom in chroms:
        bounds = np.sort(random.choice(LENGTHS[chrom], size=LENGTHS[chrom] // 20, replace=False))
        values = random.normal(size=len(bounds) - 1).astype(np.float32)
        keep = random.random(len(values)) < 0.8
        for part in np.array_split(np.flatnonzero(keep), 3):
            yield Intervals(chrom, bounds[:-1][part], bounds[1:][part], values[part])


def test_what_was_written_is_what_is_read(tmp_path: Path) -> None:
    path = tmp_path / "track.bw"
    covered = write_bigwig(path, LENGTHS, random_blocks())
    reader = pybigtools.open(str(path))
    assert reader.chroms() == {name: LENGTHS[name] for name in ("chrI", "chrII")}
    found = [(chrom, *record) for chrom in ("chrI", "chrII") for record in reader.records(chrom)]
    expected = [
        (block.chrom, int(start), int(end), pytest.approx(float(value), rel=1e-7))
        for block in random_blocks()
        for start, end, value in zip(block.starts, block.ends, block.values, strict=True)
    ]
    assert found == expected
    assert covered == sum(end - start for _, start, end, _ in expected)


def test_bytes_repeat(tmp_path: Path) -> None:
    for name in ("one.bw", "two.bw"):
        write_bigwig(tmp_path / name, LENGTHS, random_blocks())
    assert (tmp_path / "one.bw").read_bytes() == (tmp_path / "two.bw").read_bytes()


def one(chrom: str, start: int, end: int) -> Intervals:
    return Intervals(chrom, np.array([start]), np.array([end]), np.ones(1, np.float32))


@pytest.mark.parametrize(
    ("blocks", "sentence"),
    [
        ([one("chrI", 0, 5), one("chrI", 4, 9)], "not behind 5"),
        ([one("chrII", 490, 501)], "beyond the chromosome's end at 500"),
        ([one("chrX", 0, 5)], "beyond the chromosome's end at 0"),
        ([], "no interval"),
    ],
)
def test_what_the_library_would_drop_silently_is_an_error(tmp_path, blocks, sentence):
    with pytest.raises(ValueError, match=sentence):
        write_bigwig(tmp_path / "track.bw", LENGTHS, blocks)
    assert not list(tmp_path.iterdir())


def test_an_error_of_the_source_comes_through(tmp_path: Path) -> None:
    def failing():
        yield one("chrI", 0, 5)
        raise BioattnError("attention.h5: is damaged")

    with pytest.raises(BioattnError, match="is damaged"):
        write_bigwig(tmp_path / "track.bw", LENGTHS, failing())
    assert not list(tmp_path.iterdir())


def test_a_file_cut_short_is_an_error(tmp_path, monkeypatch):
    """What a full disk leaves: pybigtools prints a line and returns."""
    opened = pybigtools.open

    class CutShort:
        def __init__(self, path: str) -> None:
            self.path = path

        def write(self, lengths, rows) -> None:
            opened(self.path, "w").write(lengths, rows)
            with Path(self.path).open("r+b") as file:
                file.truncate(200)

    monkeypatch.setattr(
        pybigtools, "open", lambda path, mode="r": CutShort(path) if mode == "w" else opened(path)
    )
    with pytest.raises(BioattnError, match="could not be written whole"):
        write_bigwig(tmp_path / "track.bw", LENGTHS, random_blocks())
    assert not list(tmp_path.iterdir())
