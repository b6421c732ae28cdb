"""Which genes ids mean, and transcription units by distance and strand, against a plain loop over pairs."""

import itertools
import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bioattn.errors import BioattnError, FormatError
from bioattn.formats.genes import Gene, Place
from bioattn.promoters.genes import GeneNames, choose_genes, find_genes, match_ids, read_units


@pytest.mark.parametrize(
    ("promoters", "ids", "expected"),
    [
        # isoforms find their gene
        (["AT1G01010", "AT1G01020"], ["AT1G01010.1", "AT1G01010.2", "AT9.1"], [0, 0, -1]),
        # a gene finds its only isoform, not one of two
        (["AT1G01010.1", "AT1G01020.1", "AT1G01020.2"], ["AT1G01010", "AT1G01020"], [0, -1]),
        # another release, when suffixes are versions on both sides
        (["ENSG1.5", "ENSG2.7"], ["ENSG1.6", "ENSG2.7"], [0, 1]),
        # names that differ in the suffix alone are different genes
        (["F54D5.1", "F54D5.2"], ["F54D5.1", "F54D5.3"], [0, -1]),
        (["F54D5.1", "B0001.1"], ["F54D5.1", "F54D5.3"], [0, -1]),
        # an exact name goes before an isoform
        (["G", "H"], ["G", "G.1", "H.1"], [0, -1, 1]),
    ],
)
def test_suffixes(promoters, ids, expected):
    assert match_ids(promoters, ids)[0].tolist() == expected


ID = st.tuples(st.sampled_from(["A", "B", "C"]), st.sampled_from(["", ".1", ".2"])).map("".join)


@given(st.lists(ID, unique=True, min_size=1), st.lists(ID, unique=True))
def test_an_exact_name_is_always_found_and_no_gene_finds_another(promoters, ids):
    found, reasons = match_ids(promoters, ids)
    for name, index, reason in zip(ids, found, reasons, strict=True):
        if name in promoters:
            assert promoters[index] == name
        elif index >= 0:
            assert promoters[index].split(".")[0] == name.split(".")[0]
        assert (index >= 0) == (reason == "")


KNOWN = ["YAL001C", "YAL002W", "YAL003W", "YAL005C"]


def test_ids_and_files_mix_in_the_order_given(tmp_path):
    listed = tmp_path / "listed.txt"
    listed.write_text("# heat shock\nYAL005C\tSSA1\n\nYAL001C\r\n")
    assert choose_genes(["YAL003W", str(listed), "YAL005C"], KNOWN, Path("a.h5")) == [
        "YAL003W",
        "YAL005C",
        "YAL001C",
    ]


def test_a_gene_goes_before_a_file_of_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("YAL001C").write_text("YAL002W\n")
    assert choose_genes(["YAL001C"], KNOWN, Path("a.h5")) == ["YAL001C"]


def test_what_is_neither_is_named():
    sentence = "--genes 'YAL01C': a.h5 holds no such gene, and no file has this name; near: 'YAL001C'"
    with pytest.raises(BioattnError, match=re.escape(sentence)):
        choose_genes(["YAL01C"], KNOWN, Path("a.h5"))


NAMED = GeneNames(KNOWN, ["TFC3", "VPS8", "dup", "DUP"])


def test_common_names_stand_for_ids_in_any_case(tmp_path):
    listed = tmp_path / "listed.txt"
    listed.write_text("vps8\nYAL001C\n")
    assert choose_genes(["TFC3", str(listed)], NAMED, Path("a.h5")) == ["YAL001C", "YAL002W"]
    assert find_genes(["tfc3", "YAL005C", "GAL4"], NAMED) == (["YAL001C", "YAL005C"], ["GAL4"])
    assert choose_genes(["DUP", "yal001c"], NAMED, Path("a.h5")) == ["YAL005C", "YAL001C"]
    with pytest.raises(BioattnError, match=r"--genes 'Dup': is the name of YAL003W, YAL005C in a.h5"):
        choose_genes(["Dup"], NAMED, Path("a.h5"))


def test_rows_find_promoters_by_id_then_by_name():
    found, reasons = NAMED.match(["YAL002W", "tfc3", "YAL005C.1", "VPS8", "Dup", "GAL4"])
    assert found.tolist() == [1, 0, 3, -1, -1, -1]
    assert reasons[:4] == ["", "", "", "another row has the id of the promoter"]
    assert reasons[4:] == ["several promoters have this name", "no promoter of this name"]


def test_ids_are_found_in_other_letters_and_with_their_prefix():
    promoters = GeneNames(["AT1G01010", "AT1G01020", "ENSG1.5", "Act", "act"])
    ids = ["At1g01010", "gene:AT1G01020", "ensg1.5", "ACT", "act"]
    assert promoters.match(ids)[0].tolist() == [0, 1, 2, -1, 4]
    assert promoters.match(["gene-AT1G01010.2", "transcript:at1g01020.1"])[0].tolist() == [0, 1]
    assert promoters.share(ids) == 1


def test_transcripts_of_maize_and_yeast_and_joined_names_find_their_gene():
    promoters = GeneNames(["Zm00001d027230", "YAL001C", "AT1G01010", "G9"], ["", "TFC3", "NAC001", ""])
    ids = ["Zm00001d027230_T001", "YAL001C_mRNA", "AT1G01010|NAC001", "ENST1.2|G9.5|x|", "A|B"]
    assert promoters.match(ids)[0].tolist() == [0, 1, 2, 3, -1]
    assert promoters.match(["MSTRG.7|tfc3"])[0].tolist() == [1]
    assert promoters.share(ids) == 4 / 5


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
    unit_of = read_units(genes, str(distance))
    assert not {"nowhere", "twice"} & set(unit_of)
    for a, b in itertools.combinations(genes[:120], 2):
        x, y = a.place, b.place
        near = max(x.start, y.start) - min(x.end, y.end) <= distance
        if (x.chrom, x.strand) != (y.chrom, y.strand):
            assert unit_of.get(a.gene_id, -1) != unit_of.get(b.gene_id, -2)
        elif near:
            assert unit_of[a.gene_id] == unit_of[b.gene_id]
    for name, unit in unit_of.items():  # and nothing is joined without a near member
        x = next(g.place for g in genes if g.gene_id == name)
        others = [g.place for g in genes if unit_of.get(g.gene_id) == unit and g.gene_id != name]
        assert any(max(x.start, y.start) - min(x.end, y.end) <= distance for y in others)


def test_units_of_a_table_are_joined_by_the_genes_they_share(tmp_path):
    table = tmp_path / "u.tsv"
    table.write_text("unit\tgene\n1\ta\n1\tb\n2\tc\n2\td\n3\tb\n3\tc\n4\te\n")
    names = read_units([gene("a", "U", 0, 9, "+")], str(table))
    assert len({names[name] for name in "abcd"}) == 1
    assert names["e"] not in {names["a"], "a"}
    named = [Gene("a", "lacZ", "", (Place("U", 0, 9, "+"),), (), 1, "")]
    table.write_text("unit\tgene\n1\tLACZ\n1\tb\n")
    assert read_units(named, str(table)) == {"a": "a", "b": "a"}
    with pytest.raises(
        BioattnError, match=r"none of the genes of .*u.tsv \('LACZ', 'b'.* is in the annotation \('z'\)"
    ):
        read_units([gene("z", "U", 0, 9, "+")], str(table))
    table.write_text("gene,operon\na,1\n")
    with pytest.raises(FormatError, match="--operons: there is no column 'unit'"):
        read_units([gene("a", "U", 0, 9, "+")], str(table))
