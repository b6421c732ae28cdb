"""GenBank and EMBL, written by Biopython, against GFF3 of the same genes."""

import gzip

import numpy as np
import pytest
from Bio import SeqIO
from Bio.Seq import Seq
from Bio.SeqFeature import BeforePosition, CompoundLocation, SeqFeature, SimpleLocation
from Bio.SeqRecord import SeqRecord

from bioattn.errors import FormatError
from bioattn.formats.annotation import read_annotation
from bioattn.formats.genome import open_genome
from bioattn.formats.nucleotides import decode

SEQUENCE = "".join(np.random.default_rng(0).choice(list("ACGT"), 2000))


def feature(kind, *parts, strand=1, **qualifiers):
    """parts: 1-based first and last base, in the order of the forward strand."""
    found = [SimpleLocation(first - 1, last, strand) for first, last in parts][::strand]
    return SeqFeature(
        found[0] if len(found) == 1 else CompoundLocation(found), type=kind, qualifiers=qualifiers
    )


def written(path, features, format="genbank", topology="circular", sequence=SEQUENCE):
    record = SeqRecord(Seq(sequence), "U1.1", "U1", "a plasmid", features=features)
    record.annotations = {"molecule_type": "DNA", "topology": topology}
    with gzip.open(path, "wt") if path.suffix == ".gz" else path.open("w") as file:
        SeqIO.write(record, file, format)
    return path


GFF3 = """\
##gff-version 3
U1.1 . region 1 2000 . + . ID=r;Is_circular=true
U1.1 . gene 100 400 . + . ID=gene-a;locus_tag=b1;gene=alpha
U1.1 . mRNA 100 400 . + . ID=t1;Parent=gene-a
U1.1 . CDS 120 200 . + . ID=p1;Parent=t1
U1.1 . CDS 300 380 . + . ID=p1;Parent=t1
U1.1 . gene 500 800 . - . ID=gene-b;locus_tag=b2;gene=beta
U1.1 . CDS 500 600 . - . ID=p2;Parent=gene-b
U1.1 . CDS 700 800 . - . ID=p2;Parent=gene-b
U1.1 . gene 900 970 . + . ID=gene-c;locus_tag=b3
U1.1 . tRNA 900 970 . + . ID=t3;Parent=gene-c
U1.1 . pseudogene 1000 1100 . - . ID=gene-d;locus_tag=b4
U1.1 . gene 1950 2030 . - . ID=gene-e;locus_tag=b5
U1.1 . CDS 1950 2030 . - . ID=p5;Parent=gene-e
"""
FEATURES = [
    SeqFeature(SimpleLocation(0, 2000), type="source"),
    feature("gene", (100, 400), locus_tag="b1", gene="alpha", db_xref="GeneID:11"),
    feature("mRNA", (100, 400), locus_tag="b1", transcript_id="t1"),
    feature("CDS", (120, 200), (300, 380), locus_tag="b1", protein_id="p1"),
    feature("gene", (500, 800), strand=-1, locus_tag="b2", gene="beta", db_xref="GeneID:12"),
    feature("CDS", (500, 600), (700, 800), strand=-1, locus_tag="b2", protein_id="p2"),
    feature("gene", (900, 970), locus_tag="b3"),
    feature("tRNA", (900, 970), locus_tag="b3"),
    feature("gene", (1000, 1100), strand=-1, locus_tag="b4", pseudo=""),
    feature("gene", (1950, 2000), (1, 30), strand=-1, locus_tag="b5"),
    feature("CDS", (1950, 2000), (1, 30), strand=-1, locus_tag="b5", protein_id="p5"),
]


def described(annotation):
    return annotation.circular, [
        (
            gene.gene_id,
            gene.name,
            gene.biotype,
            gene.places,
            gene.problem,
            [each[2:] for each in gene.transcripts],
        )
        for gene in annotation.genes
    ]


@pytest.mark.parametrize(
    ("name", "format"), [("x.gbk", "genbank"), ("x.gb.gz", "genbank"), ("x.embl", "embl")]
)
def test_genes_are_those_of_gff3_and_the_genome_is_in_it(tmp_path, name, format):
    path, gff3 = written(tmp_path / name, FEATURES, format), tmp_path / "x.gff3"
    gff3.write_text(GFF3.replace(" ", "\t").replace("##gff-version\t", "##gff-version "))
    found = read_annotation(path)
    assert described(found) == described(read_annotation(gff3))
    genome = open_genome(path)
    assert genome.names == ["U1.1"]
    assert decode(genome.chromosome("U1.1")) == SEQUENCE
    assert "topology=circular" in genome.chromosomes[0].description


def test_ids_of_qualifiers_and_databases(tmp_path):
    path = written(tmp_path / "x.gbk", FEATURES)
    by_gene, by_database = (read_annotation(path, name).genes for name in ("gene", "GeneID"))
    assert [(gene.gene_id, gene.problem) for gene in by_gene][:3] == [
        ("alpha", ""),
        ("beta", ""),
        ("b3", "no_id"),
    ]
    assert [gene.gene_id for gene in by_database][:2] == ["11", "12"]
    assert by_database[0].name == "alpha"
    with pytest.raises(FormatError, match="no gene has the qualifier 'old_locus_tag'"):
        read_annotation(path, "old_locus_tag")


def test_cds_alone_make_genes_and_nameless_ones_are_told(tmp_path, caplog):
    fuzzy = SimpleLocation(BeforePosition(9), 90, 1)
    features = [
        SeqFeature(fuzzy, type="CDS", qualifiers={"protein_id": "P1"}),
        feature("CDS", (200, 290), product="hypothetical protein"),
    ]
    (gene,) = read_annotation(written(tmp_path / "x.gbk", features, topology="linear")).genes
    assert (gene.gene_id, gene.place[1:3], gene.biotype) == ("P1", (9, 90), "protein_coding")
    assert "1 gene feature without a name left out" in caplog.text


def test_refusals(tmp_path):
    empty = written(tmp_path / "empty.gbk", [])
    with pytest.raises(FormatError, match="holds no gene"):
        read_annotation(empty)
    path = written(tmp_path / "x.gbk", FEATURES)
    text = path.read_text()
    path.write_text(text[: text.index("ORIGIN")] + "CONTIG      join(AE005174.2:1..2000)\n//\n")
    with pytest.raises(FormatError, match=r"record U1\.1 has no sequence"):
        open_genome(path)
    path.write_text(text.replace("     gene            100..400", "     gene            nonsense("))
    with pytest.raises(FormatError, match="cannot be read as GenBank"):
        read_annotation(path)
