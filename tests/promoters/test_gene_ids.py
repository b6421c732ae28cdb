"""Ids with and without `.N` suffixes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bioattn.promoters.gene_ids import Matched, match_ids


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
    assert match.how == [
        Matched.EXACT,
        Matched.SUPERSEDED,
        Matched.AMBIGUOUS,
        Matched.UNKNOWN,
        Matched.EXACT,
    ]


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
