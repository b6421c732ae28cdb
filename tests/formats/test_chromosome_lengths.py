"""Chromosome lengths from the files that people have."""

import gzip
from pathlib import Path

import pyfaidx
import pytest

from bioattn.errors import FormatError
from bioattn.formats.chromosome_lengths import read_chromosome_lengths


def test_fai_sizes_and_fasta_agree(tmp_path: Path) -> None:
    fasta = tmp_path / "genome.fa"
    fasta.write_text(">chrI first\nACGTAC\nGT\n>chrII\nACG\n")
    pyfaidx.Fasta(str(fasta))
    sizes = tmp_path / "genome.sizes"
    sizes.write_text("# made by hand\nchrI 8\nchrII\t3\textra\n\n")
    packed = tmp_path / "genome.fa.gz"
    packed.write_bytes(gzip.compress(fasta.read_bytes()))
    for path in (fasta, packed, sizes, tmp_path / "genome.fa.fai"):
        assert read_chromosome_lengths(path) == {"chrI": 8, "chrII": 3}


@pytest.mark.parametrize("line", ["chrI", "chrI\tlong", "chrI\t0", "chrI\t-5", "chrI\t4294967296"])
def test_what_is_no_length_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "sizes"
    path.write_text(f"chrII\t9\n{line}\n")
    with pytest.raises(FormatError, match=":2: "):
        read_chromosome_lengths(path)
