"""Genes of BED and GTF files, what all three readers of genes have in common, and the corpus against bioframe."""

import gzip
import warnings
from urllib.parse import quote

import bioframe
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bioattn.errors import BioattnError, FormatError
from bioattn.formats.annotation import read_annotation, read_bed, read_gtf
from bioattn.formats.genes import Place

HEADERS = [
    "",
    "track name=x\n",
    "browser position c:1-9\n",
    "#chrom\tstart\tend\n",
    "chrom\tstart\tend\tname\n\n",
]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("c\t1\t9\n", r"x\.bed:1: 3 columns where a gene needs BED6"),
        ("c 1 9 g 0 +\n", "separated by spaces"),
        ("c\t9\t1\tg\t0\t+\n", "start 9 lies behind end 1"),
        ("c\t-5\t1\tg\t0\t+\n", "whole numbers from 0 up"),
        ("c\t1e3\t2000\tg\t0\t+\n", "whole numbers from 0 up"),
        ("c\t1\t9\t.\t0\t+\n", "column 4 is empty"),
        ("c\t1\t9\tg\t0\tx\n", "strand 'x'"),
        (f"c\t1\t{'9' * 5000}\tg\t0\t+\n", "at most 15 digits"),
        ("#only\n\n", "holds no BED row"),
    ],
)
def test_refusals_of_bed_name_the_line(tmp_path, content, message):
    path = tmp_path / "x.bed"
    path.write_text(content)
    with pytest.raises(FormatError, match=message):
        read_bed(path)


def test_bed_has_no_attributes(tmp_path):
    path = tmp_path / "x.bed"
    path.write_text("c\t1\t9\tg\t0\t+\n")
    with pytest.raises(BioattnError, match=r"--id-attribute: .*is BED"):
        read_annotation(path, "locus_tag")


@pytest.mark.shared
def test_the_corpus_equals_bioframe_or_is_refused(corpus):
    """Files with fewer than six columns are refused on purpose: a gene needs a name and a strand."""
    read = 0
    for entry in corpus("bed"):
        lines = [
            line.split("\t")
            for line in entry.path.read_text().splitlines()
            if line.strip() and not line.startswith(("#", "track", "chrom\t"))
        ]
        if min(len(line) for line in lines) < 6:
            with pytest.raises(FormatError, match=r"where a gene needs BED6|neither GFF3 nor GTF nor BED"):
                read_annotation(entry.path)
            continue
        genes = read_annotation(entry.path).genes
        read += 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table = bioframe.read_table(entry.path, schema="bed6", comment="#", usecols=range(6))
        table = table[table["chrom"] != "chrom"]
        assert {(gene.gene_id, *place) for gene in genes for place in gene.places} == {
            (str(name), str(chrom), int(start), int(end), strand if strand in "+-" else ".")
            for chrom, start, end, name, strand in table.drop(columns="score").itertuples(index=False)
        }
    assert read >= 35


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
def test_refusals_of_gtf_name_the_line(tmp_path, line, message):
    with pytest.raises(FormatError, match=message):
        read_gtf(write(tmp_path, line))


GENES = st.lists(
    st.tuples(
        st.text("abcXYZ019._-;=%&, ", min_size=1, max_size=10).map(str.strip).filter(bool),
        st.integers(1, 10**10),
        st.integers(0, 5000),
        st.sampled_from("+-"),
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda gene: gene[0].removeprefix("gene-"),
)


@given(GENES, st.sampled_from(HEADERS), st.sampled_from(["", "\t1\t2\tjunk"]), st.sampled_from("-."))
def test_genes_written_as_bed_come_back(tmp_path, genes, header, more, minus):
    path = tmp_path / "x.bed"
    genes = [(*gene[:3], gene[3].replace("-", minus)) for gene in genes if gene[0] != "."] or [
        ("g", 0, 5, "+")
    ]
    rows = [f"c\t{s}\t{s + e}\t{name}\t0\t{strand}{more}" for name, s, e, strand in genes]
    path.write_text(header + "\n".join(rows))
    assert [(gene.gene_id, gene.places) for gene in read_annotation(path).genes] == [
        (name, (Place("c", s, s + e, strand),)) for name, s, e, strand in genes
    ]


@given(GENES, st.sampled_from(["gene", "transcript", "exon", "CDS"]))
def test_genes_written_as_gtf_come_back(tmp_path, genes, kind):
    rows = [
        row(kind, start, start + extent, strand, f'transcript_id "t{number}"; gene_id "{gene_id}";')
        for number, (gene_id, start, extent, strand) in enumerate(genes)
    ]
    read = {gene.gene_id: gene for gene in read_annotation(write(tmp_path, *rows)).genes}
    assert {name: gene.places for name, gene in read.items()} == {
        gene_id: (Place("c", start - 1, start + extent, strand),) for gene_id, start, extent, strand in genes
    }


@given(GENES, st.randoms())
def test_genes_written_as_gff3_come_back(tmp_path, genes, random):
    """Any order of rows, any characters in ids (percent-encoded as the format demands)."""
    rows = []
    for gene_id, start, extent, strand in genes:
        code = quote(gene_id, safe="")
        for kind, attributes in (
            ("gene", f"locus_tag={code};ID=g{code}"),
            ("mRNA", f"ID=t{code};Parent=g{code}"),
        ):
            rows.append(f"c\t.\t{kind}\t{start}\t{start + extent}\t.\t{strand}\t.\t{attributes}")
    random.shuffle(rows)
    path = tmp_path / "x.gff3.gz"
    path.write_bytes(gzip.compress("\n".join(rows).encode()))
    read = {gene.gene_id: gene for gene in read_annotation(path).genes}
    assert set(read) == {gene[0] for gene in genes}
    for gene_id, start, extent, strand in genes:
        assert read[gene_id].places == (Place("c", start - 1, start + extent, strand),)
        assert len(read[gene_id].transcripts) == 1
