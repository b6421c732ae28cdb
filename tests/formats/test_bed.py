"""BED6: every row a gene; refusals; the corpus against bioframe."""

import contextlib
import warnings

import bioframe
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.formats.annotation import read_annotation, read_bed
from bioattn.formats.genes import Place

HEADERS = [
    "",
    "track name=x\n",
    "browser position c:1-9\n",
    "#chrom\tstart\tend\n",
    "chrom\tstart\tend\tname\n\n",
]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(
        st.tuples(
            st.text("abcXYZ019_-:;", min_size=1, max_size=8),
            st.integers(0, 10**10),
            st.integers(0, 5000),
            st.sampled_from("+-."),
        ),
        min_size=1,
        max_size=8,
        unique_by=lambda gene: gene[0],
    ),
    st.sampled_from(HEADERS),
    st.sampled_from(["", "\t1\t2\tjunk"]),
)
def test_genes_written_as_bed_come_back(tmp_path, genes, header, more):
    path = tmp_path / "x.bed"
    rows = [f"c\t{s}\t{s + e}\t{name}\t0\t{strand}{more}" for name, s, e, strand in genes]
    path.write_text(header + "\n".join(rows))
    assert [(gene.gene_id, gene.places) for gene in read_annotation(path).genes] == [
        (name, (Place("c", s, s + e, strand),)) for name, s, e, strand in genes
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
def test_refusals_name_the_line(tmp_path, content, message):
    path = tmp_path / "x.bed"
    path.write_text(content)
    with pytest.raises(FormatError, match=message):
        read_bed(path)


def test_bed_has_no_attributes(tmp_path):
    path = tmp_path / "x.bed"
    path.write_text("c\t1\t9\tg\t0\t+\n")
    with pytest.raises(SettingsError, match=r"--id-attribute: .*is BED"):
        read_annotation(path, "locus_tag")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(["c", "1", "9", "-", ".", "+", "track", ""]), max_size=8), max_size=5)
    | st.binary(max_size=100)
)
def test_garbage_raises_only_our_error(tmp_path, rows):
    path = tmp_path / "x.bed"
    path.write_bytes(rows if isinstance(rows, bytes) else "\n".join("\t".join(row) for row in rows).encode())
    for reader in (read_bed, read_annotation):
        with contextlib.suppress(BioattnError):
            assert reader(path).genes


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
