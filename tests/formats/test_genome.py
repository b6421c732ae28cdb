"""The genome index, and chromosome lengths from the files that people have."""

import gzip
import os

import numpy as np
import pytest
from Bio import SeqIO, bgzf
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bioattn.errors import BioattnError, FormatError
from bioattn.formats import genome as genome_module
from bioattn.formats.fasta import FastaRecord, write_fasta
from bioattn.formats.genome import Genome, open_genome
from bioattn.formats.nucleotides import decode


def write_random_fasta(path, seed=0):
    """Three chromosomes of a few thousand bases, some N, some lower case."""
    random = np.random.default_rng(seed)
    sequences = {
        name: "".join(random.choice(list("ACGTNacgtn"), size=length))
        for name, length in (("chrA", 3001), ("chrB", 60), ("chrC", 4999))
    }
    write_fasta(path, (FastaRecord(name, f"describes {name}", text) for name, text in sequences.items()))
    return sequences


@pytest.fixture
def fasta(tmp_path):
    path = tmp_path / "genome.fa"
    write_random_fasta(path)
    return path


def text(genome, chrom, start, end):
    return decode(genome.windows(genome.chromosome_numbers([chrom]), np.array([start]), end - start)[0])


def write_as(kind, plain, path):
    content = plain.read_bytes()
    if kind == "plain":
        path.write_bytes(content)
    elif kind == "gzip":
        path.write_bytes(gzip.compress(content))
    elif kind == "uneven":
        path.write_bytes(content.replace(b">chrC", b"\n>chrC", 1).replace(b"Ac", b"A\nc", 50))
    elif kind == "crlf":
        path.write_bytes(content.replace(b"\n", b"\r\n"))
    else:
        with bgzf.BgzfWriter(str(path), "wb") as file:
            file.write(content)


@pytest.mark.parametrize("kind", ["plain", "gzip", "bgzip", "uneven", "crlf"])
def test_every_kind_of_file_gives_biopythons_sequences(tmp_path, fasta, kind):
    path = tmp_path / ("copy.fa.gz" if kind in ("gzip", "bgzip") else "copy.fa")
    write_as(kind, fasta, path)
    before = sorted(tmp_path.iterdir())
    genome = open_genome(path)
    assert sorted(tmp_path.iterdir()) == before  # nothing beside the input
    expected = {record.id: str(record.seq).upper() for record in SeqIO.parse(fasta, "fasta")}
    assert genome.names == list(expected)
    assert genome.chromosomes[0].description == "describes chrA"
    for name, sequence in expected.items():
        assert text(genome, name, 0, len(sequence)) == sequence
        assert genome.lengths[name] == len(sequence)


LINES = st.lists(
    st.sampled_from(
        [">a", ">b x", "> ", "", "ACGT", "ACGTACGT", "AC", "acgtN", " AC", "AC ", ";c", "AUG", "\t"]
    ),
    max_size=9,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(LINES, st.sampled_from(["\n", "\r\n", "\r"]), st.booleans())
@example([">a", "ACGT", "ACGTACGTACGT", ">b", "AC"], "\n", True)
@example([">a", "ACGT", "ACGT" * 10, ">b AC", "ACGT", "AC"], "\n", True)
@example([">a", "ACGT", "ACGT" * 10], "\r\n", False)
@example([">a", "", "", "ACGT"], "\r\n", False)
def test_plain_and_streamed_reading_agree(tmp_path, lines, newline, ends):
    """Plain files go through pyfaidx, compressed ones do not: same codes or the same refusal."""
    content = (newline.join(lines) + (newline if ends else "")).encode()
    outcomes = []
    for name, data in (("p.fa", content), ("p.fa.gz", gzip.compress(content))):
        path = tmp_path / name
        path.write_bytes(data)
        try:
            genome = open_genome(path)
            outcomes.append([(*c, text(genome, c.name, 0, c.length)) for c in genome.chromosomes])
        except BioattnError as error:
            outcomes.append(str(error).replace(name, "p"))
    assert outcomes[0] == outcomes[1]


def test_windows_equal_a_plain_loop_also_beyond_the_ends(fasta):
    genome = open_genome(fasta)
    sequences = {record.id: str(record.seq).upper() for record in SeqIO.parse(fasta, "fasta")}
    random = np.random.default_rng(1)
    numbers = random.integers(0, 3, 200)
    starts = random.integers(-150, 5100, 200)
    windows = genome.windows(numbers, starts, 100)
    for number, start, window in zip(numbers, starts, windows, strict=True):
        sequence = sequences[genome.names[number]]
        expected = "".join(sequence[i] if 0 <= i < len(sequence) else "N" for i in range(start, start + 100))
        assert decode(window) == expected
    assert text(genome, "chrB", -2, 1)[:2] == "NN"
    assert not text(genome, "chrB", 5, 5)


def test_a_changed_genome_is_indexed_again(fasta):
    first = open_genome(fasta)
    state = fasta.stat()
    write_random_fasta(fasta, seed=9)
    os.utime(fasta, ns=(state.st_atime_ns, state.st_mtime_ns))  # same size and modification time
    second = open_genome(fasta)
    expected = next(SeqIO.parse(fasta, "fasta"))
    assert text(second, "chrA", 0, 3001) == str(expected.seq).upper()
    # Who has the old one mapped keeps it.
    assert text(first, "chrA", 0, 3001) != str(expected.seq).upper()


def test_a_damaged_index_is_made_again(fasta):
    genome = open_genome(fasta)
    expected = genome.codes.copy()
    whole = genome.index.read_bytes()
    for content in (whole[:-5], b"", whole[100:], genome_module.MAGIC):
        genome.index.write_bytes(content)
        with pytest.raises(FormatError):
            Genome(genome.index)
        np.testing.assert_array_equal(open_genome(fasta).codes, expected)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b">a\nACGU\n", "record 'a', position 4: .*RNA"),
        (b">a\nACGT\n>p\nMKLV\n", "record 'p', position 3"),
        (b">a\nACGT\n>b\n", "record 'b' has no sequence"),
        (b">a\nAC\n>a\nAC\n", "names must be unique"),
    ],
)
def test_what_is_no_genome_is_refused_and_leaves_nothing(tmp_path, content, message, monkeypatch):
    path = tmp_path / "bad.fa"
    path.write_bytes(content)
    monkeypatch.setenv("BIOATTN_CACHE", str(tmp_path / "cache"))
    with pytest.raises(FormatError, match=message):
        open_genome(path)
    assert not [*(tmp_path / "cache").iterdir()]
    with pytest.raises(BioattnError, match="no such file"):
        open_genome(tmp_path / "missing.fa")
