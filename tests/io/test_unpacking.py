"""Packed input up to a limit: a bomb is a sentence, what people have is read."""

import bz2
import gzip
import lzma
import tracemalloc

import pytest

from bioattn.errors import FormatError, SettingsError
from bioattn.formats.fasta import read_fasta
from bioattn.io import unpacking
from bioattn.io.files import open_bytes, read_lines
from bioattn.io.unpacking import LIMIT_VARIABLE


def test_what_packs_too_well_is_refused_and_fills_no_memory(tmp_path, monkeypatch):
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"A" * 40_000_000))
    limit = unpacking.MOST_TIMES * path.stat().st_size
    assert limit < 40_000_000 < unpacking.ALWAYS_ALLOWED
    with open_bytes(path) as file:
        assert len(file.read()) == 40_000_000
    monkeypatch.setattr(unpacking, "ALWAYS_ALLOWED", 1 << 20)
    given = []
    with pytest.raises(
        FormatError, match=r"bomb\.gz: its 38.* kB unpack to more than .*BIOATTN_MAX_UNPACKED"
    ):
        given.extend(len(block) for block in blocks(path))
    assert sum(given) <= limit


def blocks(path):
    with open_bytes(path) as file:
        while block := file.read(1 << 16):
            yield block


def test_the_limit_can_be_set(tmp_path, monkeypatch):
    path = tmp_path / "x.fa.gz"
    path.write_bytes(gzip.compress(b">a\n" + b"ACGT\n" * 1000))
    monkeypatch.setenv(LIMIT_VARIABLE, "5002")
    with pytest.raises(FormatError, match=r"x\.fa\.gz: its .* bytes unpack to more than 5 kB"):
        list(read_fasta(path))
    monkeypatch.setenv(LIMIT_VARIABLE, "5003")
    assert len(next(read_fasta(path)).sequence) == 4000
    monkeypatch.setenv(LIMIT_VARIABLE, "much")
    with pytest.raises(SettingsError, match="much: a number of bytes is needed"):
        list(read_lines(path))


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_a_line_without_end_stops_at_the_limit(tmp_path, monkeypatch, pack):
    path = tmp_path / "x"
    path.write_bytes(pack(b"A" * 40_000_000))
    monkeypatch.setenv(LIMIT_VARIABLE, "1000000")
    tracemalloc.start()
    with pytest.raises(FormatError, match="unpack to more than 1 MB"):
        list(read_lines(path))
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_members_one_after_the_other_are_one_file(tmp_path, pack):
    path = tmp_path / "x"
    path.write_bytes(pack(b"a\nb") + pack(b"c\nd\n"))
    assert list(read_lines(path)) == [(1, "a"), (2, "bc"), (3, "d")]


def test_bzip2_is_named(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(bz2.compress(b"a"))
    with pytest.raises(FormatError, match="bzip2"):
        list(read_lines(path))
