"""Which chromosome is which: aliases, and what is suggested when no name agrees."""

from pathlib import Path

import pytest

from bioattn.errors import BioattnError
from bioattn.formats.genes import Annotation, Gene, Place
from bioattn.formats.genome import Chromosome, open_genome
from bioattn.promoters.chromosomes import match_chromosomes, read_aliases, suggest_aliases


def annotation(*names, lengths=None, labels=None):
    genes = [Gene(f"g{name}", "", "", (Place(name, 0, 3, "+"),), (), 1) for name in names]
    return Annotation(Path("a.gff3"), "GFF3", genes, lengths or {}, labels or {})


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
            {"I": "", "Mito": ""},
            {"BK1": "S288C chromosome I, complete", "BK2": "mitochondrion"},
            {"I": "BK1"},
        ),
        ({"BK1": "I"}, {"I": "dna:chromosome chromosome:R64-1-1:I:1:9:1 REF"}, {"BK1": "I"}),
        ({"scaffold_9": ""}, {"chr1": ""}, {}),
    ],
)
def test_suggestions_by_name(ours, theirs, expected):
    labels = {name: label for name, label in ours.items() if label}
    chromosomes = [Chromosome(name, text, 5 + i) for i, (name, text) in enumerate(theirs.items())]
    assert suggest_aliases(annotation(*ours, labels=labels), chromosomes) == expected


def test_suggestions_by_length_need_unique_lengths():
    chromosomes = [Chromosome("x", "", 10), Chromosome("y", "", 20), Chromosome("z", "", 20)]
    lengths = {"a": 10, "b": 20}
    assert suggest_aliases(annotation("a", "b", lengths=lengths), chromosomes) == {"a": "x"}


def test_alias_table(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text("# comment\nI\tchrI\n\nII\t chrII \n")
    assert read_aliases(path) == [("I", "chrI"), ("II", "chrII")]
