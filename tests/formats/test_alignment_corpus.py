"""Every real alignment file of the shared data, against Biopython where it reads, and refused where it must be.

`DIFFERENT` holds the files on which we and Biopython disagree on purpose, and why.
"""

import gzip
import io
import re

import pytest
from Bio import AlignIO

from bioattn.errors import FormatError
from bioattn.formats.alignment import looks_like_nucleotides
from bioattn.formats.alignment_file import read_alignment

BIOPYTHON_FORMATS = {
    "a2m": ["fasta"],
    "a3m": ["fasta"],
    "clustal": ["clustal"],
    "fasta": ["fasta"],
    "phylip": ["phylip", "phylip-sequential", "phylip-relaxed"],
    "stockholm": ["stockholm"],
}

DIFFERENT = {
    # A3M and A2M without dots: unequal rows for Biopython, insertions for us.
    "a3m/openfold-3__a3m_realign.a3m": "read: 2 x 69",
    "fasta/easel__a2m.good.1": "read: 4 x 153",
    "fasta/easel__a2m.good.2": "read: 5 x 72",
    # aUG, AuC, AUg: as many capitals in each row, so A3M; a warning tells how to have the other reading.
    "fasta/scikit-bio__fasta_tabular_msa_different_type": "other rows",
    # Aligned FASTA under another name; Biopython asks its Clustal reader.
    "clustal/biopython__clustalw.fa": "read: 2 x 601",
    # Biopython stops with an AssertionError.
    "clustal/biotite__clustal.aln": "read: 3 x 24",
    # Digits, and records without a letter.
    "fasta/easel__fasta.bad.1": "refused: '1' is no residue",
    "fasta/seqkit__b.fa": "refused: '1' is no residue",
    "fasta/easel__fasta.bad.2": "refused: has no columns",
    "fasta/easel__fasta.bad.3": "refused: has no columns",
    "fasta/easel__fasta.odd.1": "refused: has no columns",
    # Biopython takes no '.' in PHYLIP. In the first row it can only be a gap.
    "phylip/scikit-bio__phylip_dna_3_seqs": "read: 3 x 13",
    "phylip/scikit-bio__phylip_invalid_empty_line_before_header": "read: 2 x 20",
    "phylip/scikit-bio__phylip_invalid_empty_line_between_seqs": "read: 2 x 20",
    "phylip/scikit-bio__phylip_single_seq_long": "read: 1 x 24",
    "phylip/scikit-bio__phylip_single_seq_relaxed": "read: 1 x 24",
    "phylip/scikit-bio__phylip_variable_length_ids": "read: 6 x 6",
    "phylip/scikit-bio__phylip_whitespace_in_header_2": "read: 2 x 20",
    # An option letter after the two numbers.
    "phylip/cogent3__interleaved.phylip": "read: 3 x 1758",
    # Easel's bad files, which Biopython reads in one of its three ways without checking the letters.
    "phylip/easel__phylip.ambig.1": "refused: as interleaved and as sequential",
    "phylip/easel__phylip.bad.1": "refused: has 21 columns",
    "phylip/easel__phylip.bad.11": "refused: '2' stands where letters are expected",
    "phylip/easel__phylip.bad.5": "refused: the file ends after 0 rows",
    "phylip/scikit-bio__phylip_invalid_zero_seqs": "refused: 0 rows",
    # Faults of the annotation alone; only rows are read.
    "stockholm/scikit-bio__stockholm_differing_gr_data_length": "read: 1 x 8",
    "stockholm/scikit-bio__stockholm_duplicate_gc": "read: 2 x 20",
    "stockholm/easel__stockholm.bad.8": "read: 1 x 20",
}


def rows_of_biopython(path, formats):
    """The rows as Biopython reads them, or None when it refuses."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt") as file:
        text = file.read()
    for name in formats:
        dots = "."
        if name == "stockholm":
            # Biopython writes '-' for '.', which tells insert columns; '~' it leaves alone.
            dots = "~"
            text = re.sub(r"(?m)^([^#\s]\S*\s+)(\S+)$", lambda m: m[1] + m[2].replace(".", "~"), text)
        try:
            alignments = list(AlignIO.parse(io.StringIO(text), name))
        except (ValueError, AssertionError, TypeError, IndexError):
            continue
        if len(alignments) == 1:
            return [str(record.seq).replace(dots, ".") for record in alignments[0]]
    return None


def expected(rows, *, case_matters):
    """Match columns and whole sequence of each row, by the rule of A2M told column by column."""
    columns = ["".join(column) for column in zip(*rows, strict=True)]
    insert = [all(letter.islower() or letter == "." for letter in column) for column in columns]
    mixed = any(
        not out and any(letter.islower() or letter == "." for letter in column)
        for out, column in zip(insert, columns, strict=True)
    )
    if not case_matters or mixed or all(insert) or not any(map(str.islower, "".join(rows))):
        insert = [False] * len(columns)
    texts = []
    for row in rows:
        match = "".join(letter for letter, out in zip(row, insert, strict=True) if not out)
        texts.append((re.sub("[.~_?]", "-", match).upper(), re.sub("[^A-Z]", "", row.upper())))
    return texts


def verdict(path, formats):
    """How our reading compares with Biopython's: `same`, or what differs."""
    rows = rows_of_biopython(path, formats)
    try:
        alignment = read_alignment(path)
    except FormatError as error:
        return "same" if rows is None and str(error).startswith(str(path)) else f"refused: {error}"
    if rows is None:
        return f"read: {alignment.num_rows} x {alignment.num_columns}"
    ours = [(alignment.row(index), alignment.sequence(index)) for index in range(alignment.num_rows)]
    theirs = expected(rows, case_matters=formats[0] in ("fasta", "stockholm"))
    return "same" if ours == theirs else "other rows"


@pytest.mark.parametrize("folder", sorted(BIOPYTHON_FORMATS))
def test_each_file_of_the_parser_corpus(shared, folder):
    files = sorted((shared / "data" / "parsers" / folder).iterdir())
    assert files
    for path in files:
        found = verdict(path, BIOPYTHON_FORMATS[folder])
        wanted = DIFFERENT.get(f"{folder}/{path.name}", "same")
        kind, _, reason = wanted.partition(": ")
        assert found.startswith(kind), (path, found)
        assert reason in found, (path, found)


REAL = {
    "msa_structure/msa/*.fasta*": "fasta",
    "phylo/phyloformer/msas/*": "fasta",
    "phylo/generax_sim/*.fasta": "fasta",
    "phylo/real/*.aln.fasta": "fasta",
    "homologs/adeno_fiber.ref_msa.fasta": "fasta",
    "msa_formats/*.sto*": "stockholm",
    "funfam_sto/*": "stockholm",
    "homologs/*.sto": "stockholm",
    "homologs/*.aln": "clustal",
    "phylo/real/*.phy": "phylip-relaxed",
}


@pytest.mark.parametrize("pattern", sorted(REAL))
def test_real_alignments_equal_biopython(shared, pattern):
    files = sorted((shared / "data").glob(pattern))
    assert files
    assert {path.name: verdict(path, [REAL[pattern]]) for path in files} == {
        path.name: "same" for path in files
    }


def plain_a3m(path):
    """Match columns and deletion counts, letter by letter, as the supplement of AlphaFold describes them."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt") as file:
        records = file.read().split(">")[1:]
    rows, counts = [], []
    for record in records:
        row, before, inserted = "", [], 0
        for letter in record.partition("\n")[2].replace("\n", ""):
            if letter.islower():
                inserted += 1
            else:
                row += letter
                before.append(inserted)
                inserted = 0
        rows.append(row)
        counts.append(before)
    return rows, counts


@pytest.mark.parametrize("pattern", ["msa_formats/*.a3m", "msa_structure/msa/[!a]*.a3m"])
def test_real_a3m_equals_a_plain_loop(shared, pattern):
    files = sorted((shared / "data").glob(pattern))
    assert files
    for path in files:
        alignment = read_alignment(path)
        rows, counts = plain_a3m(path)
        assert [alignment.row(index) for index in range(alignment.num_rows)] == rows, path
        deletions = [
            [len(inserted.get(column, "")) for column in range(alignment.num_columns)]
            for inserted in alignment.insertions
        ]
        assert deletions == counts, path


def test_golden_a3m_with_dots_is_the_one_without(shared):
    plain = read_alignment(shared / "golden" / "features_small.a3m")
    dots = read_alignment(shared / "golden" / "features_small_dots.a3m")
    assert (plain.num_rows, plain.num_columns) == (22, 23)
    assert plain.residues.tobytes() == dots.residues.tobytes()
    assert plain.insertions == dots.insertions
    assert plain.names == dots.names


def test_dna_is_told_from_protein(shared):
    data = shared / "data"
    dna = ["homologs/opuntia.aln", "phylo/real/iqtree_example_17_1998_dna.phy", "phylo/generax_sim/0.fasta"]
    assert all(looks_like_nucleotides(read_alignment(data / name)) for name in dna)
    proteins = [
        *(data / "msa_structure" / "msa").glob("*"),
        *(data / "phylo" / "phyloformer" / "msas").glob("*"),
    ]
    assert not any(looks_like_nucleotides(read_alignment(path)) for path in proteins)
