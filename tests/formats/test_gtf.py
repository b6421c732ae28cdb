"""GTF: gene rows there or not, attributes as people write them, refusals."""

import contextlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bioattn.errors import BioattnError, FormatError
from bioattn.formats.annotation import read_annotation
from bioattn.formats.genes import Place
from bioattn.formats.gtf import parse_attributes, read_gtf


def row(kind, start, end, strand="+", attributes='gene_id "g"; transcript_id "t";', chrom="c"):
    return "\t".join([chrom, "test", kind, str(start), str(end), ".", strand, ".", attributes])


def write(tmp_path, *rows):
    path = tmp_path / "x.gtf"
    path.write_text("#!genome-build test\n" + "\n".join(rows) + "\n")
    return path


FULL = (
    row("gene", 101, 900, attributes='gene_id "g"; gene_name "abc"; gene_biotype "protein_coding";'),
    row(
        "transcript",
        101,
        850,
        attributes='gene_id "g"; transcript_id "t"; transcript_biotype "protein_coding";',
    ),
    row("exon", 101, 300),
    row("exon", 500, 850),
    row("CDS", 151, 300),
    row("CDS", 500, 549),
    row("stop_codon", 550, 552),
)


def test_all_rows(tmp_path):
    (gene,) = read_gtf(write(tmp_path, *FULL)).genes
    assert (gene.gene_id, gene.name, gene.biotype, gene.place) == (
        "g",
        "abc",
        "protein_coding",
        Place("c", 100, 900, "+"),
    )
    assert [tuple(t) for t in gene.transcripts] == [("t", "mRNA", 100, 850, 150, 549, 200)]


@pytest.mark.parametrize(
    ("kinds", "extent"),
    [(("transcript", "exon", "CDS"), (100, 850)), (("exon", "CDS"), (100, 850)), (("CDS",), (150, 549))],
)
def test_missing_gene_and_transcript_rows_are_derived(tmp_path, kinds, extent):
    rows = [line for line in FULL if line.split("\t")[2] in kinds]
    (gene,) = read_gtf(write(tmp_path, *rows)).genes
    assert (gene.place.start, gene.place.end) == extent
    assert gene.transcripts[0].cds_length == 200
    assert gene.biotype == "protein_coding"


def test_one_gene_id_on_two_chromosomes_is_several_places(tmp_path):
    (gene,) = read_gtf(write(tmp_path, row("exon", 1, 9, chrom="X"), row("exon", 1, 9, chrom="Y"))).genes
    assert gene.problem == "several_places"
    assert {place.chrom for place in gene.places} == {"X", "Y"}


def test_id_attribute(tmp_path):
    path = write(
        tmp_path,
        row("gene", 1, 9, attributes='gene_id "g1"; gene_name "abc";'),
        row("gene", 20, 29, attributes='gene_id "g2"; gene_name "def";'),
        row("gene", 40, 49, attributes='gene_id "g3"; gene_name "abc";'),
        row("gene", 60, 69, attributes='gene_id "g4";'),
    )
    genes = {gene.gene_id: gene for gene in read_gtf(path, "gene_name").genes}
    assert {name: gene.problem for name, gene in genes.items()} == {
        "abc": "several_places",
        "def": "",
        "g4": "no_id",
    }
    with pytest.raises(FormatError, match="'nope' named by --id-attribute; the rows have gene_id, gene_name"):
        read_gtf(path, "nope")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('gene_id "a"; note "x; y"; level 2;', {"gene_id": "a", "note": "x; y", "level": "2"}),
        (' gene_id "a" ; transcript_id "b"', {"gene_id": "a", "transcript_id": "b"}),
        ('gene_id "a"; tag "x"; tag "y";', {"gene_id": "a", "tag": "x"}),
        ("gene_id a;", {"gene_id": "a"}),
        ("", {}),
    ],
)
def test_attributes(text, expected):
    assert parse_attributes(text) == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (row("exon", 1, 9, attributes='transcript_id "t";'), r"x\.gtf:2: the exon row has no gene_id"),
        (row("exon", 9, 1), "start 9 lies behind end 1"),
        (row("exon", 0, 1), "below 1"),
        (row("exon", 1, "x"), "whole numbers"),
        ("c\tx\texon\t1\t9", "5 columns where GTF has 9"),
        (row("three_prime_utr", 1, 9), "holds no gene, transcript, exon or CDS"),
    ],
)
def test_refusals_name_the_line(tmp_path, line, message):
    with pytest.raises(FormatError, match=message):
        read_gtf(write(tmp_path, line))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(
        st.lists(
            st.sampled_from(
                ["c", "gene", "exon", "CDS", "1", "9", "-", ".", 'gene_id "a";', "gene_id", '"', ""]
            ),
            max_size=10,
        ),
        max_size=5,
    )
)
def test_garbage_raises_only_our_error(tmp_path, rows):
    path = tmp_path / "x.gtf"
    path.write_text("\n".join("\t".join(row) for row in rows))
    for reader in (read_gtf, read_annotation):
        with contextlib.suppress(BioattnError):
            assert reader(path).genes


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(
        st.tuples(
            st.text("abcXYZ019._-;=%&, ", min_size=1, max_size=10),
            st.integers(1, 10**6),
            st.integers(0, 5000),
            st.sampled_from("+-"),
        ),
        min_size=1,
        max_size=8,
        unique_by=lambda gene: gene[0],
    ),
    st.sampled_from(["gene", "transcript", "exon", "CDS"]),
)
def test_genes_written_as_gtf_come_back(tmp_path, genes, kind):
    rows = [
        row(kind, start, start + extent, strand, f'transcript_id "t{number}"; gene_id "{gene_id}";')
        for number, (gene_id, start, extent, strand) in enumerate(genes)
    ]
    read = {gene.gene_id: gene for gene in read_annotation(write(tmp_path, *rows)).genes}
    assert {name: gene.places for name, gene in read.items()} == {
        gene_id: (Place("c", start - 1, start + extent, strand),) for gene_id, start, extent, strand in genes
    }
