"""Transcription units by distance and strand, against a plain loop over pairs; from a table; refused tables."""

import itertools
import random

import pytest

from bioattn.errors import BioattnError, FormatError
from bioattn.formats.genes import Gene, Place
from bioattn.promoters.operons import read_units, units_by_distance
from bioattn.promoters.promoter_fasta import read_promoters
from bioattn_cli.main import main


def gene(name, chrom, start, end, strand, problem=""):
    return Gene(name, "", "", (Place(chrom, start, end, strand),), (), 1, problem)


@pytest.mark.parametrize("distance", [0, 40, 200])
def test_genes_are_joined_when_no_wider_gap_lies_between_them(distance):
    draw = random.Random(distance)
    genes = []
    for number in range(120):
        start = draw.randrange(5000)
        genes.append(
            gene(f"g{number}", draw.choice("UV"), start, start + draw.randrange(1, 120), draw.choice("+-"))
        )
    genes += [gene("nowhere", "U", 10, 4000, "."), gene("twice", "U", 10, 4000, "+", "several_places")]
    unit_of = {
        name: number for number, unit in enumerate(units_by_distance(genes, distance)) for name in unit
    }
    assert not {"nowhere", "twice"} & set(unit_of)
    for a, b in itertools.combinations(genes[:120], 2):
        x, y = a.place, b.place
        near = max(x.start, y.start) - min(x.end, y.end) <= distance
        if (x.chrom, x.strand) != (y.chrom, y.strand):
            assert unit_of.get(a.gene_id, -1) != unit_of.get(b.gene_id, -2)
        elif near:
            assert unit_of[a.gene_id] == unit_of[b.gene_id]
    for name, number in unit_of.items():  # and nothing is joined without a near member
        x = next(g.place for g in genes if g.gene_id == name)
        others = [g.place for g in genes if unit_of.get(g.gene_id) == number and g.gene_id != name]
        assert any(max(x.start, y.start) - min(x.end, y.end) <= distance for y in others)


def test_units_of_a_table_are_joined_by_the_genes_they_share(tmp_path):
    table = tmp_path / "u.tsv"
    table.write_text("unit\tgene\n1\ta\n1\tb\n2\tc\n2\td\n3\tb\n3\tc\n4\te\n")
    names = read_units([gene("a", "U", 0, 9, "+")], str(table))
    assert len({names[name] for name in "abcd"}) == 1
    assert names["e"] not in {names["a"], "a"}
    with pytest.raises(
        BioattnError, match=r"none of the genes of .*u.tsv \('a', 'b'.* is in the annotation \('z'\)"
    ):
        read_units([gene("z", "U", 0, 9, "+")], str(table))
    table.write_text("gene,operon\na,1\n")
    with pytest.raises(FormatError, match="--operons: there is no column 'unit'"):
        read_units([gene("a", "U", 0, 9, "+")], str(table))


def test_the_command_names_the_units_in_the_fasta(tmp_path):
    (tmp_path / "g.fa").write_text(">U\n" + "ACGT" * 500 + "\n")
    rows = [(500, 600, "a", "+"), (650, 700, "b", "+"), (660, 690, "x", "-"), (801, 900, "c", "+")]
    (tmp_path / "g.bed").write_text(
        "".join(f"U\t{s}\t{e}\t{name}\t0\t{strand}\n" for s, e, name, strand in rows)
    )
    words = [
        "prepare",
        "promoters",
        *(str(tmp_path / name) for name in ("g.fa", "g.bed")),
        "--upstream",
        "100",
        "-q",
    ]
    (tmp_path / "u.csv").write_text("gene,unit\nc,k\nx,k\n")
    for value, expected in (
        ("100", ["a", "a", "", ""]),
        ("101", ["a", "a", "", "a"]),
        (str(tmp_path / "u.csv"), ["", "", "c", "c"]),
    ):
        assert main([*words, "-o", str(tmp_path / "p.fa"), "--operons", value]) == 0
        assert [promoter.unit for promoter in read_promoters(tmp_path / "p.fa")] == expected
    assert main([*words, "-o", str(tmp_path / "q.fa"), "--operons", "missing.tsv"]) == 1
