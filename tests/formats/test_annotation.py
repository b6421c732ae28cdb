"""Genes of BED, GTF and GFF3, what the readers have in common, and the corpus against bioframe."""

import gzip
import warnings
from urllib.parse import quote

import bioframe
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bioattn.errors import FormatError
from bioattn.formats.annotation import read_annotation, read_gff3, read_gtf
from bioattn.formats.bed import read_bed
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
        ("#only\n\n", "holds no BED row"),
    ],
)
def test_refusals_of_bed_name_the_line(tmp_path, content, message):
    path = tmp_path / "x.bed"
    path.write_text(content)
    with pytest.raises(FormatError, match=message):
        read_bed(path)


def test_the_thick_part_of_bed12_is_the_coding_sequence(tmp_path):
    """As UCSC's genePredToBed writes transcripts; the coding bases by hand."""
    path = tmp_path / "x.bed"
    path.write_text(
        "c\t100\t500\tcoding\t0\t+\t150\t450\t0\t2\t100,200,\t0,200,\n"
        "c\t600\t900\tone\t0\t-\t620\t880\t0\t1\t300\t0\n"
        "c\t950\t990\tnoncoding\t0\t+\t950\t950\t0\t1\t40,\t0,\n"
        "c\t10\t20\tpair\t0\t+\tc\t12\t30\tother\t0\t-\n"  # bedtools intersect -wa -wb
    )
    found = {gene.gene_id: [each[1:] for each in gene.transcripts] for gene in read_annotation(path).genes}
    assert found == {
        "coding": [("mRNA", 100, 500, 150, 450, 50 + 150)],
        "one": [("mRNA", 600, 900, 620, 880, 260)],
        "noncoding": [("transcript", 950, 990, -1, -1, 0)],
        "pair": [],
    }


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
            with pytest.raises(FormatError, match=r"where a gene needs BED6|none of GFF3, GTF and BED"):
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


def test_id_attribute_of_gtf(tmp_path):
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


def gff(tmp_path, *rows, header="##gff-version 3\n"):
    """A file of rows written with spaces for tabs: `seq kind start end strand attributes`."""
    path = tmp_path / "x.gff3"
    lines = []
    for row in rows:
        if row.startswith(("#", ">")) or "\t" in row or row.count(" ") < 5:
            lines.append(row)
            continue
        seq, kind, start, end, strand, attributes = row.split(" ", 5)
        lines.append("\t".join([seq, "test", kind, start, end, ".", strand, ".", attributes]))
    path.write_text(header + "\n".join(lines) + "\n")
    return path


ROWS = (
    "c gene 101 900 + ID=gene:g1;Name=abc;biotype=protein_coding",
    "c mRNA 101 900 + ID=t1;Parent=gene:g1",
    "c mRNA 201 800 + ID=t2;Parent=gene:g1",
    "c exon 101 300 + Parent=t1",
    "c CDS 151 300 + ID=p1;Parent=t1",
    "c CDS 401 450 + ID=p1;Parent=t1",
    "c CDS 251 700 + ID=p2;Parent=t2",
    "c tRNA_gene 2000 2070 - ID=gene-trn",
)


@pytest.mark.parametrize("order", [1, -1])
def test_hierarchy_in_either_order(tmp_path, order):
    annotation = read_gff3(gff(tmp_path, *ROWS[::order]))
    genes = {gene.gene_id: gene for gene in annotation.genes}
    assert [gene.gene_id for gene in annotation.genes] == ["g1", "trn"][::order]
    assert genes["g1"].place == Place("c", 100, 900, "+")
    assert genes["g1"].name == "abc"
    transcripts = {t.transcript_id: t for t in genes["g1"].transcripts}
    assert transcripts["t1"][2:] == (100, 900, 150, 450, 200)
    assert transcripts["t2"][2:] == (200, 800, 250, 700, 450)
    assert genes["g1"].representative() == transcripts["t2"]
    assert genes["trn"].biotype == "tRNA_gene"
    assert genes["trn"].representative() is None


def test_representative_ties_go_to_the_longer_then_the_more_upstream_transcript(tmp_path):
    rows = [
        "c gene 100 999 - ID=g",
        "c mRNA 100 700 - ID=a;Parent=g",
        "c mRNA 200 999 - ID=b;Parent=g",
        "c mRNA 180 979 - ID=d;Parent=g",
        "c CDS 300 400 - Parent=a,b,d",
    ]
    gene = read_gff3(gff(tmp_path, *rows)).genes[0]
    assert {t.transcript_id: t.cds_length for t in gene.transcripts} == {"a": 101, "b": 101, "d": 101}
    assert gene.representative().transcript_id == "b"


def test_a_transcript_of_two_genes_belongs_to_both(tmp_path):
    rows = [
        "c gene 101 400 + ID=a",
        "c gene 301 900 + ID=b",
        "c mRNA 101 900 + ID=t;Parent=a,b",
        "c CDS 151 300 + Parent=t",
        "c mRNA 301 900 + ID=u;Parent=b",
        "c CDS 401 500 + Parent=absent,u",
    ]
    genes = {gene.gene_id: gene for gene in read_gff3(gff(tmp_path, *rows)).genes}
    assert [t.transcript_id for t in genes["a"].transcripts] == ["t"]
    assert {t.transcript_id: t.cds_length for t in genes["b"].transcripts} == {"t": 0, "u": 100}
    assert genes["a"].transcripts[0].cds_length == 150


def test_a_cds_below_the_gene_counts_as_its_transcript(tmp_path):
    rows = [
        "c gene 10 99 - ID=gene-b1;locus_tag=b0001;gene=abc",
        "c CDS 40 99 - ID=cds1;Parent=gene-b1",
        "c CDS 10 39 - ID=cds1;Parent=gene-b1",
    ]
    gene = read_gff3(gff(tmp_path, *rows)).genes[0]
    assert (gene.gene_id, gene.name, gene.biotype) == ("b0001", "abc", "protein_coding")
    assert [tuple(t) for t in gene.transcripts] == [("cds1", "CDS", 9, 99, 9, 99, 90)]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (["c mRNA 10 99 + ID=t1;geneID=g", "c mRNA 20 120 + ID=t2;geneID=g"], [("g", 9, 120)]),
        (["c mRNA 10 99 + ID=t1;Parent=absent"], [("absent", 9, 99)]),
        (["c CDS 10 99 + ID=1_1", "c CDS 200 299 - ID=1_2"], [("1_1", 9, 99), ("1_2", 199, 299)]),
        (["c gene 10 99 + ID=x;locus_tag=b1", "c CDS 10 99 + ID=y;locus_tag=b1"], [("b1", 9, 99)]),
        (["c gene 10 99 + ID=g", "c CDS 200 299 + ID=p;Parent=absent"], [("g", 9, 99)]),
        (["c gene 10 99 + Note=nameless"], [("c:9-99(+)", 9, 99)]),
    ],
    ids=["gffread", "lost parent", "cds only", "joined by locus_tag", "remnant", "no id"],
)
def test_files_without_a_full_hierarchy(tmp_path, rows, expected):
    genes = read_gff3(gff(tmp_path, *rows)).genes
    assert [(gene.gene_id, gene.place.start, gene.place.end) for gene in genes] == expected
    assert not any(gene.problem for gene in genes)


def test_percent_encoding_directives_and_fasta_section(tmp_path):
    path = gff(
        tmp_path,
        "##sequence-region chr%201 1 5000",
        "# a comment",
        "chr%201 region 1 5000 + ID=r;Is_circular=true;chromosome=I",
        "chr%201 gene 10 99 + ID=g%3B1;Name=a%2Cb;note=loose; words",
        "###",
        "##FASTA",
        ">chr%201",
        "ACGTACGT",
    )
    annotation = read_gff3(path)
    assert [(g.gene_id, g.name, g.place.chrom) for g in annotation.genes] == [("g;1", "a,b", "chr 1")]
    assert annotation.chromosome_lengths == {"chr 1": 5000}
    assert annotation.chromosome_labels == {"chr 1": "I"}
    assert annotation.circular == {"chr 1"}


def test_id_attribute_of_gff3(tmp_path):
    rows = [
        "c gene 10 99 + ID=gene-1;gene=abc;locus_tag=L1",
        "c gene 200 299 + ID=gene-2;locus_tag=L2",
        "c gene 400 499 + ID=gene-3;gene=abc;locus_tag=L3",
    ]
    path = gff(tmp_path, *rows)
    assert [g.gene_id for g in read_gff3(path).genes] == ["L1", "L2", "L3"]
    assert [g.gene_id for g in read_gff3(path, "ID").genes] == ["1", "2", "3"]
    by_name = {g.gene_id: g for g in read_gff3(path, "gene").genes}
    assert {name: gene.problem for name, gene in by_name.items()} == {"abc": "several_places", "L2": "no_id"}
    assert len(by_name["abc"].places) == 2
    with pytest.raises(
        FormatError, match="'nope' named by --id-attribute; gene rows have ID, gene, locus_tag"
    ):
        read_gff3(path, "nope")


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (["c gene 10 99 + ID=g", "c gene 10 99 + ID=g"], ""),
        (["c gene 10 99 + ID=g", "c gene 800 899 + ID=g"], "several_places"),
        (
            ["c gene 10 99 + ID=g", "c CDS 10 20 + ID=p;Parent=g", "c CDS 80 99 - ID=p;Parent=g"],
            "trans_spliced",
        ),
        (["c gene 10 99 + ID=g", "d CDS 10 20 + ID=p;Parent=g"], "trans_spliced"),
        (["c gene 10 99 + ID=g", "c CDS 10 20 . ID=p;Parent=g"], ""),
        (["c gene 10 99 ? ID=g"], ""),
    ],
)
def test_problems(tmp_path, rows, problem):
    (gene,) = read_gff3(gff(tmp_path, *rows)).genes
    assert gene.problem == problem


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("c\tx\tgene\t1\t9\t.\t+\t.", r"x\.gff3:2: 8 columns where GFF3 has 9"),
        ("c x gene 1 9 . + . ID=g", "separated by spaces"),
        ("c gene a 9 + ID=g", "start 'a' and end '9' must be whole numbers"),
        ("c gene 1 9 + something", "does not hold GFF3 name=value"),
        ("c exon 1 9 + ID=g", "holds no gene"),
    ],
)
def test_refusals_name_the_line(tmp_path, row, message):
    path = gff(tmp_path, row.replace(" ", "\t\t") if "x gene" in row and "\t" not in row else row)
    if "separated by spaces" in message:
        path.write_text("##gff-version 3\n" + row + "\n")
    with pytest.raises(FormatError, match=message):
        read_gff3(path)


REFUSED = {
    "BioFmtSpecimens__only_fasta.gff3": "FASTA record stands where an annotation",
    "biotite__bt_lysozyme.gff3": "holds no gene",  # a protein's regions
    "cogent3__gff2_test.gff": "is GFF version 2",
    "gffutils__F3-unique-3.v2.gff": "is GFF version 2",
    "gffutils__issue167.gff": "separated by tabs",
    "scikit-bio__gff3_bad_wrong_columns": "8 columns where GFF3 has 9",
    "scikit-bio__gff3_single_record": "holds no gene",
}
"""Files of the corpus that are no annotation of genes, and what is said of them."""


@pytest.mark.shared
def test_the_corpus_is_read_or_refused_as_expected(corpus):
    files = corpus("gff") + corpus("gtf")
    assert {entry.path.name for entry in files} > set(REFUSED)
    for entry in files:
        if entry.path.name in REFUSED:
            with pytest.raises(FormatError, match=REFUSED[entry.path.name]):
                read_annotation(entry.path)
        else:
            assert read_annotation(entry.path).genes, entry.path.name


def test_bare_ids_of_augustus_and_braker(tmp_path):
    """Rows of genes and transcripts hold the id alone; other rows of a transcript name its gene."""
    rows = [
        row("gene", 1001, 1900, "-", "g1"),
        row("transcript", 1001, 1900, "-", "g1.t1"),
        row("CDS", 1101, 1400, "-", 'transcript_id "g1.t1"; gene_id "g1";'),
        row("transcript", 2001, 2900, "-", "jg2.t1"),
        row("transcript", 2001, 2500, "-", "jg2.t2"),
        row("CDS", 3101, 3400, "+", 'transcript_id "g5_t"; gene_id "g5_g";'),
        row("mRNA", 3001, 3500, "+", "g5_t"),
    ]
    genes = read_annotation(write(tmp_path, *rows)).genes
    assert [(gene.gene_id, gene.place.start, gene.place.end) for gene in genes] == [
        ("g1", 1000, 1900),
        ("jg2", 2000, 2900),
        ("g5_g", 3000, 3500),
    ]
    assert [[t.transcript_id for t in gene.transcripts] for gene in genes] == [
        ["g1.t1"],
        ["jg2.t1", "jg2.t2"],
        ["g5_t"],
    ]
    (gene,) = read_annotation(write(tmp_path, rows[0])).genes  # genes alone, as grep leaves them
    assert (gene.gene_id, gene.place.strand) == ("g1", "-")


def test_a_transcript_without_strand_leaves_those_with_one(tmp_path):
    """StringTie gives a strand to transcripts with introns only."""
    rows = [
        row("exon", 101, 300, "-", 'gene_id "g"; transcript_id "t1"'),
        row("exon", 90, 900, ".", 'gene_id "g"; transcript_id "t2"'),
        row("exon", 2001, 2300, ".", 'gene_id "alone"; transcript_id "t3"'),
    ]
    first, alone = read_annotation(write(tmp_path, *rows)).genes
    assert (first.problem, first.places) == ("", (Place("c", 100, 300, "-"),))
    assert [t.transcript_id for t in first.transcripts] == ["t1"]
    assert alone.places == (Place("c", 2000, 2300, "."),)


def test_copies_of_a_gene_under_one_name_are_not_one_gene(tmp_path):
    """UCSC's refGene: transcripts of a name that do not overlap; those that do are one gene."""
    row = 'c\tr\ttranscript\t{}\t{}\t.\t-\t.\tgene_id "{}"; transcript_id "{}";\n'
    path = tmp_path / "x.gtf"
    path.write_text(
        row.format(101, 200, "far", "t1")
        + row.format(901, 990, "far", "t1_dup1")
        + row.format(101, 200, "near", "t2")
        + row.format(301, 400, "near", "t3")
        + row.format(150, 350, "near", "t4")
    )
    far, near = read_annotation(path).genes
    assert (far.problem, [place[1:3] for place in far.places]) == ("several_places", [(100, 200), (900, 990)])
    assert (near.problem, near.places) == ("", (Place("c", 100, 400, "-"),))


def test_quotes_around_gff3_values_are_no_part_of_them(tmp_path):
    rows = [
        row("gene", 11, 90, attributes='ID="gene:g1"; Name="abc"'),
        row("mRNA", 11, 80, attributes='ID="t1";Parent="gene:g1"'),
        row("CDS", 21, 50, attributes='ID="c";Parent="t1"'),
    ]
    (gene,) = read_annotation(write(tmp_path, *rows)).genes
    assert (gene.gene_id, gene.name, gene.transcripts[0].cds_length) == ("g1", "abc", 30)


def test_a_gene_is_called_as_any_of_its_transcripts(tmp_path):
    known = 'transcript_id "t"; gene_name "A"; ref_gene_id "G";'
    path = write(
        tmp_path,
        row("transcript", 1, 90, attributes='gene_id "MSTRG.1"; transcript_id "MSTRG.1.1"; cov "3";'),
        row("transcript", 1, 80, attributes=f'gene_id "MSTRG.1"; {known}'),
    )
    assert [gene.name for gene in read_annotation(path).genes] == ["A"]
    assert [gene.gene_id for gene in read_annotation(path, "ref_gene_id").genes] == ["G"]


@pytest.mark.parametrize(
    "attributes",
    [
        "ID=gene-A;Dbxref=HGNC:HGNC:7,GeneID:12;Name=A",
        'gene_id "A"; db_xref "HGNC:HGNC:7"; db_xref "GeneID:12"; gene "A";',
    ],
)
def test_ids_of_databases_are_ids(tmp_path, attributes):
    path = write(tmp_path, row("gene", 1, 90, attributes=attributes))
    (gene,) = read_annotation(path, "GeneID").genes
    assert (gene.gene_id, gene.name) == ("12", "A")


@pytest.mark.parametrize(
    ("attributes", "name"),
    [
        ("ID=Gene:WBGene1;Name=WBGene1;locus=aap-1", "aap-1"),
        ("ID=AT1G01010;Name=AT1G01010;symbol=NAC001", "NAC001"),
        ("ID=YAL001C;Name=YAL001C;gene=TFC3", "TFC3"),
        ("ID=AT1G01040;locus=2200938;locus_type=protein_coding", ""),
    ],
)
def test_a_common_name_is_another_than_the_id(tmp_path, attributes, name):
    (gene,) = read_annotation(write(tmp_path, row("gene", 1, 90, attributes=attributes))).genes
    assert gene.name == name
    assert gene.gene_id in attributes
    assert ":" not in gene.gene_id
