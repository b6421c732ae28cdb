"""GFF3: hierarchy in any order, odd files, refusals."""

import pytest

from bioattn.errors import FormatError
from bioattn.formats.annotation import read_annotation, read_gff3
from bioattn.formats.genes import Place


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


def test_id_attribute(tmp_path):
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
        ("c gene 9 1 + ID=g", r"x\.gff3:2: start 9 lies behind end 1"),
        ("c gene 0 9 + ID=g", "start 0 is below 1"),
        ("c gene a 9 + ID=g", "start 'a' and end '9' must be whole numbers"),
        (f"c gene 1 1{'0' * 30} + ID=g", "at most 15 digits"),
        (f"c gene 1 {'9' * 5000} + ID=g", "at most 15 digits"),
        ("c gene 1 9 x ID=g", "strand 'x'"),
        ("c gene 1 9 + something", "does not hold GFF3 name=value"),
        ("c exon 1 9 + ID=g", "holds no gene"),
        ("c mRNA 1 9 + ID=a;Parent=a", r"x\.gff3:2: .*circle"),
    ],
)
def test_refusals_name_the_line(tmp_path, row, message):
    path = gff(tmp_path, row.replace(" ", "\t\t") if "x gene" in row and "\t" not in row else row)
    if "separated by spaces" in message:
        path.write_text("##gff-version 3\n" + row + "\n")
    with pytest.raises(FormatError, match=message):
        read_gff3(path)


# What the readers make of the corpus: genes found, or what the refusal says.
CORPUS = {
    "BioFmtSpecimens__ERCC92.gff3": 92,
    "BioFmtSpecimens__gff3_with_syncs.gff3": 2,
    "BioFmtSpecimens__hybrid2.gff3": 1,
    "BioFmtSpecimens__knownGene2.gff3": 2,
    "BioFmtSpecimens__only_fasta.gff3": "FASTA record stands where an annotation",
    "BioFmtSpecimens__records.gff3": 1,
    "BioFmtSpecimens__tomato_test.gff3": 13,
    "bedtools2__b.issue311.gff": 1,  # a GTF
    "bedtools2__gdc.gff": 2,
    "biotite__bt_lysozyme.gff3": "holds no gene",  # a protein's regions
    "biotite__gg_avidin.gff3": 1,
    "biotite__sc_chrom1.gff3": 101,
    "cogent3__ensembl_sample.gff3": 1,
    "cogent3__gff2_test.gff": "is GFF version 2",
    "cogent3__simple.gff": 2,
    "cogent3__simple2.gff": 3,
    "gffread__ann_simple.gff": 4,
    "gffread__annotation.gff": 4,
    "gffutils__F3-unique-3.v2.gff": "is GFF version 2",
    "gffutils__gff_example1.gff3": 1,
    "gffutils__gff_example1.gff3.gz": 1,
    "gffutils__intro_docs_example.gff": 1,
    "gffutils__issue167.gff": "separated by tabs",
    "scikit-bio__gff3_bad_missing_directive": 1,  # a missing version line is no reason to refuse
    "scikit-bio__gff3_bad_wrong_columns": "8 columns where GFF3 has 9",
    "scikit-bio__gff3_dna": 1,
    "scikit-bio__gff3_multi_record": 1,  # two genes with one id: several places
    "scikit-bio__gff3_single_record": "holds no gene",
    "gffread__annotation.gtf": 4,
    "gffread__transcripts.gtf": 4,
    "gffutils__gencode-v19.gtf": 1,
    "gffutils__sharr.gtf": 1,
}


@pytest.mark.shared
def test_the_corpus_is_read_or_refused_as_expected(corpus):
    files = corpus("gff") + corpus("gtf")
    assert files
    for entry in files:
        assert entry.verdict == ""  # Biopython has no reader to compare with
        expected = CORPUS.get(entry.path.name)
        if isinstance(expected, str):
            with pytest.raises(FormatError, match=expected):
                read_annotation(entry.path)
        else:
            genes = read_annotation(entry.path).genes
            assert len(genes) == (expected or len(genes)), entry.path.name
