"""Which genes ids mean: ids and files of `--genes`, and ids that differ in version or isoform suffixes."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bioattn.errors import BioattnError
from bioattn.promoters.gene_ids import Matched, choose_genes, match_ids


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
    assert match_ids(promoters, ids).promoter.tolist() == expected


def test_reasons():
    match = match_ids(["G", "H.1", "H.2"], ["G", "G.1", "H", "X", "H.1"])
    assert match.how == [Matched.EXACT, Matched.SUPERSEDED, Matched.AMBIGUOUS, Matched.UNKNOWN, Matched.EXACT]


ID = st.tuples(st.sampled_from(["A", "B", "C"]), st.sampled_from(["", ".1", ".2"])).map("".join)


@given(st.lists(ID, unique=True, min_size=1), st.lists(ID, unique=True))
def test_an_exact_name_is_always_found_and_no_gene_finds_another(promoters, ids):
    match = match_ids(promoters, ids)
    for name, index, how in zip(ids, match.promoter, match.how, strict=True):
        if name in promoters:
            assert promoters[index] == name
        elif index >= 0:
            assert promoters[index].split(".")[0] == name.split(".")[0]
        assert (index >= 0) == (how in (Matched.EXACT, Matched.WITHOUT_SUFFIX))


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


def test_what_no_file_can_be_called_is_no_file():
    with pytest.raises(BioattnError, match="holds no such gene, and no file has this name"):
        choose_genes(["x" * 5000], KNOWN, Path("a.h5"))


def test_what_is_neither_is_named():
    sentence = "--genes 'YAL01C': a.h5 holds no such gene, and no file has this name; near: 'YAL001C'"
    with pytest.raises(BioattnError, match=re.escape(sentence)):
        choose_genes(["YAL01C"], KNOWN, Path("a.h5"))
