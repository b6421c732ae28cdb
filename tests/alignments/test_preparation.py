"""The steps of `prepare msa` on alignments small enough to read."""

import numpy as np
import pytest

from bioattn.alignments.choices import ContactSettings, PreparationSettings, SearchSettings
from bioattn.alignments.preparation import prepare_alignment
from bioattn.alignments.rows import centre_on_query
from bioattn.errors import BioattnError, SettingsError
from bioattn.formats.alignment_file import parse_a3m
from tests.alignments.conftest import random_family

SMALL = b"""\
>q/1-6 the query
AC-DEF
>a
ACWDxxEY
>b
GC-DE-
>b_again
GC-DE-
>short
----E-
>nothing
------
>sp|P1|c_LONG
aWWWWkWWrr
"""


def prepare(text=SMALL, **settings):
    return prepare_alignment(parse_a3m("in.a3m", text), PreparationSettings(**settings), "in.a3m")  # type: ignore[arg-type]


def rows(alignment):
    return {name: alignment.row_with_insertions(row) for row, name in enumerate(alignment.names)}


def test_without_a_query_row_1_stays_first_and_every_column_stays():
    assert rows(prepare()) == {
        "q/1-6": "AC-DEF",
        "a": "ACWDxxEY",
        "b": "GC-DE-",
        "short": "----E-",
        "sp|P1|c_LONG": "aWWWWkWWrr",
    }


def test_centred_on_the_first_row(caplog):
    caplog.set_level("INFO")
    assert rows(prepare(query="q/1-6")) == {
        "q/1-6": "ACDEF",
        "a": "ACwDxxEY",
        "b": "GCDE-",
        "short": "---E-",
        "sp|P1|c_LONG": "aWWwWkWWrr",
    }
    assert caplog.messages == [
        "query columns: 1 column made insertions, 5 stay",
        "duplicates: 1 row left out, 6 stay",
        "empty rows: 1 row left out, 5 stay",
    ]


def test_centred_on_a_row_with_insertions_of_its_own():
    alignment = prepare(query="c_LONG")
    assert alignment.names[0] == "sp|P1|c_LONG"
    assert alignment.row_with_insertions(0) == "AWWWWKWWRR"
    # Columns of the query's insertions hold gaps; what others inserted at the same place stays an insertion.
    assert rows(alignment)["a"] == "-ACWD-xxEY--"
    assert rows(alignment)["q/1-6"] == "-AC-D-EF--"


def test_every_row_keeps_its_whole_sequence():
    residues = random_family(30, 40, seed=9)
    text = b"".join(b">s%d\n%s\n" % (i, row.tobytes()) for i, row in enumerate(residues))
    before = parse_a3m("in.a3m", text)
    after = prepare(text, query="s5", max_gap_column=0.3)
    assert 0 < after.num_columns < 40
    sequences = {name: before.sequence(row) for row, name in enumerate(before.names)}
    assert {name: after.sequence(row) for row, name in enumerate(after.names)}.items() <= sequences.items()


def test_gappy_columns_become_insertions_and_gappy_rows_go():
    alignment = prepare(max_gap_column=0.4, max_gap_row=0.5)
    # Gaps of the seven rows: 2, 2, 5, 2, 1 and 4. Without the last column a is a duplicate of the query.
    assert rows(alignment) == {"q/1-6": "ACDEf", "b": "GCDE", "sp|P1|c_LONG": "aWWwWkWwrr"}


def test_identity_and_depth():
    assert list(rows(prepare(min_query_identity=0.5))) == ["q/1-6", "a", "b", "short"]
    assert list(rows(prepare(max_identity=0.7))) == ["q/1-6", "sp|P1|c_LONG"]
    assert list(rows(prepare(max_identity=0.9))) == ["q/1-6", "a", "b", "sp|P1|c_LONG"]
    drawn = {tuple(rows(prepare(max_depth=3, seed=seed))) for seed in range(20)}
    assert {len(names) for names in drawn} == {3}
    assert {names[0] for names in drawn} == {"q/1-6"}
    assert len(drawn) > 3
    assert rows(prepare(max_depth=3, seed=4)) == rows(prepare(max_depth=3, seed=4))
    assert list(rows(prepare(max_depth=1))) == ["q/1-6"]


@pytest.mark.parametrize("kind", [PreparationSettings, ContactSettings])
def test_no_row_at_all_is_refused(kind):
    with pytest.raises(SettingsError, match="--max-depth must be at least 1, not 0"):
        kind(max_depth=0)


def test_no_iteration_at_all_is_refused():
    with pytest.raises(SettingsError, match="--iterations must be at least 1, not 0"):
        SearchSettings(iterations=0)


def test_rows_left_out_by_other_filters_do_not_hold_back_the_redundancy_filter():
    """A long distant row may be the one that a nearer row is too close to."""
    residues = random_family(120, 60, seed=13)
    text = b"".join(b">s%d\n%s\n" % (i, row.tobytes()) for i, row in enumerate(residues))
    both = prepare(text, max_gap_row=0.4, min_query_identity=0.2, max_identity=0.8)
    first = prepare(text, max_gap_row=0.4, min_query_identity=0.2)
    assert 5 < both.num_rows < first.num_rows < 120
    codes = {name: both.residues[row] for row, name in enumerate(both.names)}
    for name, row in zip(first.names, first.residues, strict=True):
        shared = [(row != ord("-")) & (other != ord("-")) for other in codes.values()]
        closest = max(
            np.mean(row[where] == other[where]) if where.any() else 0
            for where, other in zip(shared, codes.values(), strict=True)
        )
        assert name in codes or closest > 0.75  # rare letters apart, 0.8


@pytest.mark.shared
def test_all_filters_together_as_hhfilter(hhfilter, families):
    for name in ("protenix_102m", "PF00041_1TEN_A", "psicov_16pkA"):
        whole = prepare_alignment(families[name].alignment, PreparationSettings(), name)
        settings = PreparationSettings(max_gap_row=0.3, min_query_identity=0.2, max_identity=0.7)
        filtered = prepare_alignment(whole, settings, name)
        kept = hhfilter(whole.residues, "-cov", "70", "-qid", "20", "-id", "70")
        assert 1 < len(kept) < whole.num_rows * 0.6
        assert filtered.residues.tolist() == whole.residues[kept].tolist()


def test_queries_that_cannot_be():
    with pytest.raises(BioattnError, match=r"in\.a3m: the query, nothing, has no residue in the alignment"):
        prepare(query="nothing")
    with pytest.raises(BioattnError, match="--max-gap-column 0 leaves no column"):
        prepare(max_gap_column=0)
    with pytest.raises(BioattnError, match="the query, q, has no residue in the columns that are left"):
        prepare(b">q\nA---\n>a\n-CDE\n>b\n-CDE\n", max_gap_column=0.4)
    alignment = parse_a3m("in.a3m", b">q\nAC\n")
    assert centre_on_query(alignment, 0, "in.a3m").row(0) == "AC"
