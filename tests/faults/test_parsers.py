"""Every parser on damaged input: refusals and nothing else; and all that fuzzing ever found, once more.

The mutations are the same at every run; `make fuzz` looks for new ones.
"""

import csv
import gzip
import io
import logging
import zipfile
import zlib

import numpy as np
import pytest

from bioattn.errors import FormatError
from bioattn.formats.alignment_file import read_alignment
from tests.faults.targets import TARGETS, mutations, parse_safely, seeds_of

MUTATIONS = 60
"""Of each parser."""


@pytest.fixture(autouse=True)
def _quiet():
    """Warnings about what was read are no matter here."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_damaged_files_are_read_or_refused(name, tmp_path):
    target = TARGETS[name]
    seeds = seeds_of(target, shared=False)
    path = tmp_path / "x"
    for data in [*seeds, *mutations(seeds, MUTATIONS, zlib.crc32(name.encode()))]:
        path.write_bytes(data)
        parse_safely(target, path)


def archive():
    """An `.npz` whose directory asks for an unknown version of zip."""
    file = io.BytesIO()
    np.savez(file, a=np.ones(3, "f4"))
    data = bytearray(file.getvalue())
    place = data.rindex(b"PK\x01\x02")
    data[place + 6] = 128
    return bytes(data)


def foreign_name():
    """A zip archive with a name that says it is UTF-8 and is not."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as opened:
        opened.writestr("é.npy", b"x")
    return file.getvalue().replace("é".encode(), b"\xc3\x28")


GENE = b"I\t.\tgene\t1\t9\t.\t+\t.\tID=a\n"
FINDS: dict[str, tuple[str, bytes]] = {
    "JSON with a number of 5,000 digits": ("model-config", b'{"a": ' + b"9" * 5000 + b"}"),
    "JSON nested 100,000 deep": ("check", b"[" * 100_000),
    "TOML nested 100,000 deep": ("settings", b"a = " + b"[" * 100_000),
    "TOML with a number of 5,000 digits": ("settings", b"a = " + b"9" * 5000),
    "a chromosome of 5,000 digits": ("chromosome-lengths", b"I\t" + b"9" * 5000 + b"\n"),
    "a region of 5,000 digits": ("gff3", b"##sequence-region I 1 " + b"9" * 5000 + b"\n" + GENE),
    "mmCIF with a value where names begin": ("mmcif", b"data_x\nloop_\nW\n_atom_site.id\n"),
    "a zip of version 12.8": ("parameters", archive()),
    "the same as .npz": ("npz", archive()),
    "a name in a zip that is no UTF-8": ("tensors", foreign_name()),
    "zero bytes between even lines": (
        "genome",
        b">a b\nACGT\n" + b"\0" * 14 + b"*\0\0\0\0\0\x1a\0\0AC\n>b\nAA\n",
    ),
    "a check whose measures are no list": (
        "check",
        b'{"format": "bioattn-check", "verdict": {"sentence": "b"}, "measures": {"a": {}}}',
    ),
    "a separator within the quotes of the only column": ("responses", b'\x01\x1c%ue",\x1a"\n\0/#/a\n'),
    "a last line longer than the others": (
        "genome",
        b">a\nACGT\n" + b"C" * 40 + b"\n>N\nACGTACGTACG\nACGT\n",
    ),
}
"""What came out of a parser other than a refusal, as small as it goes."""


@pytest.mark.parametrize("find", sorted(FINDS))
def test_what_fuzzing_found_is_refused_or_read(find, tmp_path):
    name, data = FINDS[find]
    path = tmp_path / "x"
    for content in (data, gzip.compress(data)):
        path.write_bytes(content)
        parse_safely(TARGETS[name], path)


FOREIGN = ("fastq", "newick", "nexus", "qual")
"""Formats that nobody reads here."""


def test_every_file_of_the_corpora_is_covered(shared):
    """Each file comes to the parsers of its own format (tests/formats) or is refused; none is left out."""
    folder = shared / "data" / "parsers"
    read = {"a2m", "a3m", "bed", "clustal", "fasta", "gff", "gtf", "phylip", "stockholm"}
    with (folder / "INDEX.tsv").open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    found = {f"{path.parent.name}/{path.name}" for path in folder.glob("*/*")}
    assert found == {row["file"] for row in rows}
    assert {row["format"] for row in rows} == read | set(FOREIGN)


@pytest.mark.parametrize(
    "name", ["annotation", "inspect", "motifs", "promoters", "table", "unknown-alignment"]
)
def test_every_parser_reads_or_refuses_every_file_of_the_corpora(shared, tmp_path, name):
    target = TARGETS[name]
    for path in sorted((shared / "data" / "parsers").glob("*/*")):
        copy = tmp_path / "x"  # some parsers write beside their file
        copy.write_bytes(path.read_bytes())
        parse_safely(target, copy)


@pytest.mark.parametrize("folder", FOREIGN)
def test_formats_that_nobody_reads_are_no_alignments(shared, folder):
    for path in sorted((shared / "data" / "parsers" / folder).iterdir()):
        with pytest.raises(FormatError):
            read_alignment(path)
