"""The table reader against csv.writer, and each kind of broken table against its sentence."""

import csv
import gzip
import io
import lzma
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bioattn.errors import FormatError
from bioattn.formats.tables import (
    open_table,
    parse_numbers,
    refuse_duplicate_columns,
)


def table(tmp_path, text, name="t.tsv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def rows_of(path):
    return [cells for _, cells in open_table(path).rows()]


CELL = st.text(
    alphabet=st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=8
).filter(lambda cell: not cell.startswith(("#", '"', "\ufeff")) and cell == cell.strip())


@given(
    delimiter=st.sampled_from("\t,;"),
    cells=st.integers(2, 4).flatmap(
        lambda width: st.lists(st.lists(CELL, min_size=width, max_size=width), min_size=2, max_size=6)
    ),
)
def test_reads_what_the_csv_module_writes(tmp_path_factory, delimiter, cells):
    # The header decides the delimiter, so it holds none of the others.
    cells[0] = [f"column{i}" for i in range(len(cells[0]))]
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=delimiter, lineterminator="\n").writerows(cells)
    path = tmp_path_factory.mktemp("t") / "t.txt"
    path.write_text(buffer.getvalue(), encoding="utf-8")
    reader = open_table(path)
    assert reader.delimiter == delimiter
    assert list(reader.header) == cells[0]
    assert [row for _, row in reader.rows()] == [row for row in cells[1:] if row != cells[0]]


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bytes])
def test_compression_is_found_by_content(tmp_path, pack):
    assert rows_of(table(tmp_path, pack(b"gene\tx\nA\t1\n"), "odd.csv")) == [["A", "1"]]


def test_r_row_names_without_a_header(tmp_path):
    reader = open_table(table(tmp_path, '"heat" "salt"\n"A" 1 2\n"B" 3 4\n'))
    assert reader.header == ("", "heat", "salt")
    assert [cells for _, cells in reader.rows()] == [["A", "1", "2"], ["B", "3", "4"]]


def test_comments_blank_lines_crlf_and_byte_order_mark(tmp_path):
    path = table(tmp_path, b"\xef\xbb\xbf# made by a tool, v1\r\n\r\ngene,x\r\nA,1\r\n\r\nB,2\r\n")
    reader = open_table(path)
    assert list(reader.rows()) == [(4, ["A", "1"]), (6, ["B", "2"])]


def test_a_commented_header_is_the_header(tmp_path):
    reader = open_table(table(tmp_path, "# by X\n#gene\theat\nA\t1\n"))
    assert reader.header == ("gene", "heat")
    assert reader.header_line == 2
    assert list(reader.rows()) == [(3, ["A", "1"])]


def test_repeated_headers_are_left_out_and_counted(tmp_path):
    reader = open_table(table(tmp_path, "gene\tx\nA\t1\ngene\tx\nB\t2\n"))
    assert [cells[0] for _, cells in reader.rows()] == ["A", "B"]
    assert reader.repeated_headers == [3]


def test_quotes_are_ordinary_in_tsv(tmp_path):
    assert rows_of(table(tmp_path, "gene\tnote\nA\t\"5' end\n")) == [["A", "\"5' end"]]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty"),
        ("gene\nA\n", "t.tsv:1: the header 'gene' is a single column"),
        ("gene\ta\tb\nA\t1\t2\nB\t1\n", "t.tsv:3: the row has 2 cells, the header has 3"),
        (b"PK\x03\x04rest", "is a spreadsheet"),
        (b"gene\tx\n\xff\xfe\t1\n", "t.tsv:2: not UTF-8"),
        (b"\x1f\x8b\x08\x00broken", "compressed data end early or are damaged"),
    ],
)
def test_broken_tables_are_refused_with_their_place(tmp_path, text, sentence):
    with pytest.raises(FormatError, match=r"t\.tsv") as caught:
        rows_of(table(tmp_path, text))
    assert sentence in str(caught.value)


def test_duplicate_columns_are_refused_not_renamed(tmp_path):
    reader = open_table(table(tmp_path, "gene\tctrl\theat\tctrl\nA\t1\t2\t3\n"))
    with pytest.raises(FormatError, match=r"'ctrl' occurs more than once \(columns 2, 4\)"):
        refuse_duplicate_columns(reader)


NUMBER = st.floats(allow_nan=False, allow_infinity=False, width=32)


@given(st.lists(st.one_of(NUMBER, st.sampled_from(["", "NA", "n/a", "NaN", "-", " null ", "#N/A", "."]))))
def test_numbers_are_what_float_says_and_missing_is_nan(cells):
    texts = [cell if isinstance(cell, str) else repr(cell) for cell in cells]
    values = parse_numbers(texts, str)
    expected = [math.nan if isinstance(cell, str) else cell for cell in cells]
    np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        ("high", "'high' is not a number; write NA"),
        ("1_000", "is not a number"),
        ("Inf", "infinite or too large"),
        ("-inf", "infinite or too large"),
        ("1e39", "infinite or too large"),
        ("0,53", "has a comma"),
        ("1,234.5", "has a comma"),
        ("0x1f", "is not a number"),
    ],
)
def test_what_is_no_number_is_refused_with_its_place(cell, sentence):
    with pytest.raises(FormatError) as caught:
        parse_numbers(["1", cell], lambda i: f"file:7, column {i}")
    assert str(caught.value).startswith("file:7, column 1: ")
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("gene;x;y\nA;0,53;NA\nB;-1,2;3\n", ["A", "0.53", "NA"]),
        ("gene;x\nA;0,53\nB;1.5\n", ["A", "0,53"]),  # both kinds: refused when parsed
        ("gene;x\nA;1,234\n", ["A", "1,234"]),  # could be a thousand
        ("gene\tx\nA\t0,53\n", ["A", "0,53"]),  # only spreadsheets write semicolons and decimal commas
    ],
)
def test_decimal_commas_are_read_only_when_nothing_else_is_possible(tmp_path, text, first):
    assert rows_of(table(tmp_path, text))[0] == first
