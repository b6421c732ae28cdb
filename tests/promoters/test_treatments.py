"""Reading treatment tables."""

import logging

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bioattn.errors import BioattnError, FormatError
from bioattn.promoters.treatments import average_features, named_treatments, read_treatment_table


def read(tmp_path, text):
    path = tmp_path / "t.tsv"
    path.write_text(text, encoding="utf-8")
    return read_treatment_table(path)


def test_numbers_and_categories(tmp_path):
    table = read(tmp_path, "name\tagent\tdose\tinhibitor\nb\tNaCl\t0.5\tnone\na\t\tNA\t-\n")
    assert table.names == ["b", "a"]
    assert table.columns == ["agent", "dose", "inhibitor"]
    assert [table.is_numeric(column) for column in table.columns] == [False, True, False]
    assert list(table.frame["agent"]) == ["NaCl", ""]
    assert list(table.frame["inhibitor"]) == ["none", "-"]  # "no inhibitor" is something said
    np.testing.assert_array_equal(table.frame["dose"], [0.5, np.nan])


def test_select_keeps_order_and_names_what_is_unknown(tmp_path):
    table = read(tmp_path, "name\tdose\nheat_10\t1\nheat_20\t2\nsalt\t3\n")
    assert table.select(["salt", "heat_10"]).names == ["salt", "heat_10"]
    with pytest.raises(BioattnError, match=r"'heat_30': .* holds no such treatment; near: 'heat_"):
        table.select(["heat_30"])


def test_semicolon_tables_may_have_decimal_commas(tmp_path):
    table = read(tmp_path, "name;agent;dose\na;1,10-phenanthroline;0,5\nb;DMSO;10\n")
    assert list(table.frame["agent"]) == ["1,10-phenanthroline", "DMSO"]
    np.testing.assert_array_equal(table.frame["dose"], [0.5, 10.0])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("name\tx\n", "has a header but no rows"),
        ("name\tx\na\t1\na\t2\n", "t.tsv:3: the treatment 'a' has a row already (line 2)"),
        ("name\tx\n\t1\n", "t.tsv:2: the treatment has no name"),
        ("name\tx\tx\na\t1\t2\n", "columns 2 and 3 are both called 'x' and differ"),
        ("name\tx\t\na\t1\t2\n", "column 3 has values but no name"),
        ("name\tdose\na\t1 M\nb\t0,5 mM\n", "t.tsv:3, column 'dose': '0,5 mM' has a comma (decimal comma or"),
        ("name\tdose\na\t0,5\nb\t1,5\n", "t.tsv:2, column 'dose': '0,5' has a comma (decimal comma or"),
        ("name\tdose\na\tinf\n", "t.tsv:2, column 'dose': the value inf is infinite"),
    ],
)
def test_bad_tables_are_refused(tmp_path, text, sentence):
    with pytest.raises(FormatError) as caught:
        read(tmp_path, text)
    assert sentence in str(caught.value)


def test_equal_columns_of_one_name_are_merged_and_said(tmp_path, caplog):
    with caplog.at_level(logging.WARNING, "bioattn"):
        table = read(tmp_path, "name\tx\ty\tx\t\na\t1\t2\t1\t\n")
    assert table.columns == ["x", "y"]
    assert "columns 2 and 4 are both called 'x'" in caplog.text


def test_a_slip_in_a_number_column_is_warned_about(tmp_path, caplog):
    rows = "".join(f"t{i}\t{i}\n" for i in range(9)) + "t9\tten\n"
    with caplog.at_level(logging.WARNING, "bioattn"):
        table = read(tmp_path, "name\tdose\n" + rows)
    assert not table.is_numeric("dose")
    assert "t.tsv:11, column 'dose': 'ten' is not a number while 9 of 10 values are" in caplog.text


@given(
    st.lists(
        st.tuples(st.sampled_from("pqr"), st.sampled_from("xy"), st.sampled_from([1.0, 2.0, np.nan])),
        min_size=1,
    )
)
def test_average_features_keeps_what_groups_agree_on(rows):
    frame = pd.DataFrame(
        {
            "letter": pd.Series([row[1] for row in rows], dtype=object),
            "number": pd.Series([row[2] for row in rows], dtype=np.float64),
        }
    )
    frame.index = pd.Index([f"s{i}" for i in range(len(rows))], dtype=object)
    table = named_treatments(list(frame.index))
    averaged, differing = average_features(type(table)(frame), [row[0] for row in rows])
    assert averaged.names == list(dict.fromkeys(row[0] for row in rows))
    for position, column in ((1, "letter"), (2, "number")):
        values = {group: {str(row[position]) for row in rows if row[0] == group} for group in averaged.names}
        agree = all(len(found) == 1 for found in values.values())
        assert (column in averaged.columns) == agree == (column not in differing)
        named = [text.split(" of ")[0] for text in differing.get(column, [])]
        assert named == [repr(group) for group in averaged.names if len(values[group]) > 1]
        if agree:
            assert [{str(value)} for value in averaged.frame[column]] == list(values.values())
            assert averaged.frame[column].dtype == frame[column].dtype
