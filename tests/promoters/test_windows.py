"""Windows of promoters, and the FASTA that holds them."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bioattn.errors import BioattnError
from bioattn.formats.annotation import read_annotation
from bioattn.formats.genes import Annotation, Gene, Place, Transcript
from bioattn.formats.genome import Chromosome, open_genome
from bioattn.formats.nucleotides import decode, encode
from bioattn.promoters.choices import WindowSettings
from bioattn.promoters.chromosomes import find_aliases, match_chromosomes, suggest_aliases
from bioattn.promoters.preparation import GeneSpans, Span, find_anchor, trim_upstream, window_around
from bioattn.promoters.promoter_fasta import Promoter, read_promoters, write_promoters


def test_the_anchor_is_the_first_base_of_the_downstream_part():
    """Chromosome 0123456789, gene at [4, 7): its first base is 4 on +, 6 on -."""
    chromosome = "0123456789"
    start, end = window_around(4, "+", 3, 2)
    assert chromosome[start:end] == "12345"
    assert chromosome[start:end][3] == "4"
    start, end = window_around(6, "-", 3, 2)
    assert chromosome[start:end][::-1] == "98765"
    assert chromosome[start:end][::-1][3] == "6"


def gene(strand="+", transcripts=(), start=100, end=200, problem=""):
    return Gene("g", "", "", (Place("c", start, end, strand),), tuple(transcripts), 1, problem)


CODING = Transcript("long", "mRNA", 110, 190, 120, 180, 45)
SHORT = Transcript("short", "mRNA", 100, 200, 130, 160, 30)
NONCODING = Transcript("nc", "lnc_RNA", 90, 210, -1, -1, 0)


@pytest.mark.parametrize(
    ("strand", "anchor", "feature", "expected"),
    [
        ("+", "tss", "gene", (100, "")),
        ("-", "tss", "gene", (199, "")),
        ("+", "tss", "mRNA", (110, "long")),
        ("-", "tss", "mRNA", (189, "long")),
        ("+", "cds", "gene", (120, "long")),
        ("-", "cds", "mRNA", (179, "long")),
    ],
)
def test_anchor_rule(strand, anchor, feature, expected):
    found = find_anchor(
        gene(strand, (NONCODING, SHORT, CODING)), WindowSettings(anchor=anchor, feature=feature)
    )
    assert (found.position, found.transcript_id, found.reason) == (*expected, "")


@given(
    st.integers(0, 60),
    st.sampled_from("+-"),
    st.integers(0, 20),
    st.integers(0, 10),
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 15)), max_size=5),
)
def test_trimming_equals_walking_upstream_base_by_base(anchor, strand, upstream, downstream, spans):
    start, end = window_around(anchor, strand, upstream, downstream)
    others = [(s, s + length) for s, length in spans if s < end and s + length > start]
    blocked = {position for s, e in others for position in range(s, e)}
    step = -1 if strand == "+" else 1
    kept = 0
    while kept < upstream and anchor + step * (kept + 1) not in blocked:
        kept += 1
    assert trim_upstream(start, end, strand, anchor, others) == window_around(
        anchor, strand, kept, downstream
    )


@given(st.integers(0, 10**6), st.data())
def test_overlaps_equal_brute_force(seed, data):
    random = np.random.default_rng(seed)
    count = data.draw(st.integers(0, 30))
    starts = random.integers(0, 80, count)
    spans = [
        ("ab"[i % 2], Span(int(s), int(s + random.integers(0, 40)), i // 3)) for i, s in enumerate(starts)
    ]
    index = GeneSpans(spans)
    for chrom, start, end, own in (("a", 10, 30, 0), ("b", 0, 1, 2), ("a", 60, 200, -1), ("c", 0, 9, 0)):
        expected = sorted(
            span
            for where, span in spans
            if where == chrom
            and span.gene != own
            and set(range(span.start, span.end)) & set(range(start, end))
        )
        assert index.overlapping(chrom, start, end, own) == expected


def annotation(*names, lengths=None, labels=None):
    genes = [Gene(f"g{name}", "", "", (Place(name, 0, 3, "+"),), (), 1) for name in names]
    return Annotation(Path("a.gtf"), "GTF", genes, lengths or {}, labels or {})


def genome(tmp_path, *names):
    path = tmp_path / "g.fa"
    path.write_text("".join(f">{name}\n{'ACGT' * (i + 2)}\n" for i, name in enumerate(names)))
    return open_genome(path), path


def test_names_stand_for_themselves_and_aliases_work_in_both_directions(tmp_path):
    opened, path = genome(tmp_path, "chr1", "chr2", "chr3")
    pairs = [("1", "chr1"), ("chr2", "2"), ("chr3", "x"), ("unrelated", "y")]
    matched = match_chromosomes(annotation("1", "2", "chr3", "4"), opened, path, pairs)
    assert matched == {"1": "chr1", "2": "chr2", "chr3": "chr3"}


def test_an_alias_to_two_chromosomes_is_refused(tmp_path):
    opened, path = genome(tmp_path, "chr1", "chr2")
    with pytest.raises(BioattnError, match="'1' stands for several chromosomes of the genome: chr1, chr2"):
        match_chromosomes(annotation("1"), opened, path, [("1", "chr1"), ("1", "chr2")])


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (
            {"I": "", "II": "", "IV": ""},
            {"chr1": "", "chr2": "", "chr4": ""},
            {"I": "chr1", "II": "chr2", "IV": "chr4"},
        ),
        ({"chr10": "", "chrX": ""}, {"10": "", "X": ""}, {"chr10": "10", "chrX": "X"}),
        ({"NC_1.2": ""}, {"NC_1.3": ""}, {"NC_1.2": "NC_1.3"}),
        (
            {"1": "", "MT": "", "KI270706.1": "", "GL000009.2": ""},
            {"chr1": "", "chrM": "", "chr1_KI270706v1_random": "", "chrUn_GL000009v2": ""},
            {
                "1": "chr1",
                "MT": "chrM",
                "KI270706.1": "chr1_KI270706v1_random",
                "GL000009.2": "chrUn_GL000009v2",
            },
        ),
        ({"Pt": "", "1": ""}, {"Chr1": "", "ChrC": ""}, {"Pt": "ChrC", "1": "Chr1"}),
        ({"mitochondrion_genome": ""}, {"chrM": ""}, {"mitochondrion_genome": "chrM"}),
        ({"BK1": "I"}, {"I": "dna:chromosome chromosome:R64-1-1:I:1:9:1 REF"}, {"BK1": "I"}),
        ({"scaffold_9": ""}, {"chr1": ""}, {}),
    ],
)
def test_suggestions_by_name(ours, theirs, expected):
    labels = {name: label for name, label in ours.items() if label}
    chromosomes = [Chromosome(name, text, 5 + i) for i, (name, text) in enumerate(theirs.items())]
    assert suggest_aliases(annotation(*ours, labels=labels), chromosomes) == expected


def test_what_is_found_agrees_in_length_and_no_gene_lies_beyond(tmp_path):
    opened, path = genome(tmp_path, "chr1", "chr2", "chr3")  # 8, 12 and 16 bases
    found = find_aliases(annotation("1", "2", "3", "9", lengths={"1": 8, "2": 13, "9": 16}), opened)
    assert found == {"1": "chr1", "3": "chr3"}  # 3 by its name before 9 by its length
    genes = annotation("2")
    genes.genes[:] = [Gene("g", "", "", (Place("2", 12, 14, "+"),), (), 1)]
    assert find_aliases(genes, opened) == {}
    with pytest.raises(BioattnError, match="another assembly"):
        match_chromosomes(genes, opened, path)
    with pytest.raises(BioattnError, match="1 = chr1 seem to be the same: --chromosome-aliases auto"):
        match_chromosomes(annotation("1"), opened, path)


def test_sequences_decide_where_the_annotation_holds_them(tmp_path):
    """Three chromosomes of one length, two of which go by each other's name."""
    sequences = ["ACGTACGTAC", "TTTTTTTTTT", "GATTACAGAT"]
    (tmp_path / "g.fa").write_text("".join(f">chr{n}\n{text}\n" for n, text in enumerate(sequences, 1)))
    rows = "".join(f"{n}\tx\tgene\t1\t9\t.\t+\t.\tID=g{n}\n" for n in (1, 2, 3))
    held = f"##FASTA\n>1\n{sequences[1].lower()}\n>2\n{sequences[0]}\n>3\nGATTACAGAA\n"
    (tmp_path / "a.gff3").write_text(f"##gff-version 3\n{rows}{held}")
    opened = open_genome(tmp_path / "g.fa")
    assert find_aliases(read_annotation(tmp_path / "a.gff3"), opened) == {"1": "chr2", "2": "chr1"}


def test_the_only_chromosome_of_both_is_one_when_genes_reach_its_end(tmp_path):
    (tmp_path / "g.fa").write_text(">NC_000913.3\n" + "ACGT" * 100 + "\n")
    opened = open_genome(tmp_path / "g.fa")
    for start, expected in ((390, {"Chromosome": "NC_000913.3"}), (200, {}), (400, {})):
        genes = [Gene("g", "", "", (Place("Chromosome", start, start + 9, "+"),), (), 1)]
        assert find_aliases(Annotation(Path("a.gtf"), "GTF", genes), opened) == expected


NAMES = st.text(st.characters(codec="ascii", min_codepoint=33, max_codepoint=126), min_size=1, max_size=10)


@st.composite
def promoters(draw):
    sequence = draw(st.text("ACGTN", min_size=1, max_size=80))
    flank = draw(st.integers(0, (len(sequence) - 1) // 2))
    start = draw(st.integers(-1000, 10**9))
    strand = draw(st.sampled_from("+-."))
    end = start + len(sequence) - 2 * flank
    downstream = draw(st.none() | st.integers(0, end - start))
    named = {name: draw(st.text("HSP 3%+", max_size=4).map(str.strip)) for name in ("unit", "name")}
    return Promoter(
        draw(NAMES), draw(NAMES), start, end, strand, flank, encode(sequence), downstream, **named
    )


@given(st.lists(promoters(), min_size=1, max_size=5, unique_by=lambda p: p.gene_id))
@pytest.mark.parametrize("name", ["p.fa", "p.fa.gz"])
def test_what_is_written_is_read_back(tmp_path, name, written):
    write_promoters(tmp_path / name, written)
    read = list(read_promoters(tmp_path / name))
    assert [(p[:6], p[7:]) for p in read] == [(p[:6], p[7:]) for p in written]
    for ours, theirs in zip(read, written, strict=True):
        np.testing.assert_array_equal(ours.codes, theirs.codes)


def test_fasta_of_other_origin_is_accepted(tmp_path):
    path = tmp_path / "p.fa"
    path.write_text(
        ">g1\nACgtR\n>g2 some text\nAC\n>g3 chrI:5-7(-) more flank=1 words\nACGT\n"
        f">g4 chrI:1-{'9' * 5000}(-)\nA\n"
    )
    first, second, third, fourth = read_promoters(path)
    assert first[:6] == ("g1", "", -1, -1, ".", 0)
    assert decode(first.codes) == "ACGTN"
    assert second.chrom == fourth.chrom == ""  # what is no place on a chromosome is a description
    assert third[:6] == ("g3", "chrI", 5, 7, "-", 1)
