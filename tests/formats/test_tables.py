"""Tables, CASP RR files of contacts, and npz files."""

import csv
import datetime as dt
import gzip
import io
import math
import struct
import zipfile
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bioattn.errors import FormatError
from bioattn.formats.npz import NpzArrays, npz_output
from bioattn.formats.rr import ranked_pairs, write_rr
from bioattn.formats.rr import read_rr as read_contacts
from bioattn.formats.tables import open_table, parse_numbers


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
    assert list(reader.header) == cells[0]
    assert [row for _, row in reader.rows()] == [row for row in cells[1:] if row != cells[0]]


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
    "text",
    [
        "gene\theat\nA\t1\t\nB\t2\t\n",  # rows that end in a delimiter
        "sep=;\ngene;heat\nA;1\nB;2\n",
        '!Series_title\t"x"\n!series_matrix_table_begin\ngene\theat\nA\t1\nB\t2\n!series_matrix_table_end\n',
        "#1.2\n2\t1\ngene\theat\nA\t1\nB\t2\n",
    ],
)
def test_what_programs_write_around_a_table_is_no_part_of_it(tmp_path, text):
    reader = open_table(table(tmp_path, text))
    assert reader.header[:2] == ("gene", "heat")
    assert [cells[:2] for _, cells in reader.rows()] == [["A", "1"], ["B", "2"]]


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
        ("-inf", "infinite or too large"),
        ("1e39", "infinite or too large"),
        ("0,53", "has a comma"),
        ("1,234.5", "has a comma"),
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
        ("gene\tx\nA\t0,53\n", ["A", "0.53"]),
        ('gene,x\nA,"0,53"\n', ["A", "0,53"]),
    ],
)
def test_decimal_commas_are_read_only_when_nothing_else_is_possible(tmp_path, text, first):
    assert rows_of(table(tmp_path, text))[0] == first


def read_rr(path):
    """Sequence and contact lines."""
    lines = path.read_text().splitlines()
    assert lines[0] == "PFRMAT RR"
    assert lines[-1] == "END"
    body = lines[lines.index("MODEL 1") + 1 : -1]
    sequence = "".join(line for line in body if " " not in line)
    contacts = [tuple(map(float, line.split())) for line in body if " " in line]
    return sequence, [(int(i), int(j), low, high, p) for i, j, low, high, p in contacts]


def test_what_is_written_is_what_ranks(tmp_path):
    probabilities = np.zeros((120, 120), np.float32)
    for i, j, value in (
        (0, 9, 0.5),
        (3, 50, 0.9),
        (2, 7, 0.99),
        (2, 8, 0.5),
        (5, 80, 4e-6),
        (118, 100, 0.25),
    ):
        probabilities[i, j] = probabilities[j, i] = value
    sequence = "ACDEFGHIKLMN" * 10
    count = write_rr(tmp_path / "x.rr", sequence, probabilities, target="t", method=["one", "two"])
    written, contacts = read_rr(tmp_path / "x.rr")
    assert written == sequence
    # 2-7 is closer than 6, 5-80 prints as 0; of the equal ones the smaller i comes first
    assert contacts == [(4, 51, 0, 8, 0.9), (1, 10, 0, 8, 0.5), (3, 9, 0, 8, 0.5), (101, 119, 0, 8, 0.25)]
    assert count == 4
    head = (tmp_path / "x.rr").read_text().splitlines()
    assert head[1:5] == ["TARGET t", "METHOD one", "METHOD two", "MODEL 1"]
    assert max(map(len, head)) <= 80


def test_ranking_equals_a_plain_sort():
    random = np.random.default_rng(0)
    values = random.integers(0, 5, (40, 40)) / 7
    values = (values + values.T) / 2
    columns = np.sort(random.choice(80, 40, replace=False))
    expected = sorted(
        (-values[i, j], i, j)
        for i in range(40)
        for j in range(i + 1, 40)
        if columns[j] - columns[i] >= 6 and values[i, j] > 0
    )
    first, second = ranked_pairs(values, columns)
    assert list(zip(first, second, strict=True)) == [(i, j) for _, i, j in expected]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("1 9 0 8", ":4: is '1 9 0 8'; two positions"),
        ("1 x 0 8 0.5", ":4: is"),
        ("1 10 0 8 0.5", ":4: 1 and 10 are no pair of the 9 positions"),
        ("0 8 0 8 0.5", ":4: 0 and 8 are no pair"),
        ("8 2 0 8 0.5", ":4: 8 and 2 are no pair"),
        ("1 8 0 8 1.5", "1.5 is no probability"),
        ("1 8 0 8 nan", "nan is no probability"),
        ("END\n1 8 0 8 0.5", ":5: stands after END"),
    ],
)
def test_lines_that_are_no_contacts_are_named(tmp_path, line, sentence):
    path = tmp_path / "x.rr"
    path.write_text(f"PFRMAT RR\nMODEL 1\nMKVLEACDE\n{line}\nEND\n")
    with pytest.raises(FormatError) as refusal:
        read_contacts(path)
    assert sentence in str(refusal.value)


ARRAYS = hnp.arrays(
    dtype=hnp.floating_dtypes(sizes=(16, 32)),
    shape=hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
)
NAMES = st.text("abc/:_~ 1", min_size=1, max_size=12).filter(lambda name: not name.startswith("/"))


@given(st.dictionaries(NAMES, ARRAYS, min_size=1, max_size=4), st.booleans(), st.booleans())
def test_reads_what_numpy_writes(tmp_path_factory, arrays, packed, fortran):
    path = tmp_path_factory.mktemp("npz") / "x.npz"
    if fortran:
        arrays = {name: np.asfortranarray(array) for name, array in arrays.items()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, array)
            archive.writestr(name + ".npy", content.getvalue())
    with closing(NpzArrays(path)) as file:
        assert list(file.shapes) == list(arrays)
        for name, array in arrays.items():
            assert file.shapes[name] == array.shape
            read = file.read(name)
            assert read.dtype == np.float32
            np.testing.assert_array_equal(read, array.astype(np.float32))


def test_numpy_reads_what_is_written_and_bytes_repeat(tmp_path):
    arrays = {"a//b": np.arange(6.0).reshape(2, 3), "c": np.ones((3, 2), np.float32).T, "d": np.array(5)}
    for name in ("x.npz", "y.npz"):
        with npz_output(tmp_path / name) as archive:
            for key, array in arrays.items():
                archive.write(key, array)
    with np.load(tmp_path / "x.npz", allow_pickle=False) as read:
        assert list(read.files) == list(arrays)
        for key, array in arrays.items():
            np.testing.assert_array_equal(read[key], array)
    assert (tmp_path / "x.npz").read_bytes() == (tmp_path / "y.npz").read_bytes()
    with pytest.raises(ZeroDivisionError), npz_output(tmp_path / "z.npz") as archive:
        archive.write("a", np.ones(1 // 0))
    assert not (tmp_path / "z.npz").exists()


def header(text, version=1):
    body = text.encode()
    length = struct.pack("<H" if version == 1 else "<I", len(body))
    return b"\x93NUMPY" + bytes([version, 0]) + length + body


GOOD = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n"
MEMBERS = {
    "no header": b"hello",
    "cut": header(GOOD) + b"\0" * 7,
    "longer": header(GOOD) + b"\0" * 9,
    "code": header("__import__('os').system('true')\n") + b"\0" * 8,
    "negative": header(GOOD.replace("(2,)", "(-2,)")) + b"\0" * 8,
    "enormous": header(GOOD.replace("(2,)", "(2000000000, 2000000000)")),
    "no type": header(GOOD.replace("<f4", "nonsense")) + b"\0" * 8,
    "no shape": header("{'descr': '<f4', 'fortran_order': False}\n") + b"\0" * 8,
    "version": header(GOOD, 9) + b"\0" * 8,
    "long header": b"\x93NUMPY\x02\x00" + struct.pack("<I", 1 << 30),
}


@pytest.mark.parametrize("name", MEMBERS)
def test_members_that_are_no_arrays_are_named(name, tmp_path):
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("the one.npy", MEMBERS[name])
    with pytest.raises(FormatError, match=r"x\.npz: the array the one is damaged"):
        NpzArrays(tmp_path / "x.npz")


def test_utf_16_with_a_mark_is_read_as_utf_8_is(tmp_path):
    text = "gene\tHitze µ\nA\t1\nB\t2\n"
    for name, content in (
        ("little", text.encode("utf-16")),
        ("markless", text.encode("utf-16-le")),
        ("big", b"\xfe\xff" + text.encode("utf-16-be")),
        ("packed", gzip.compress(text.encode("utf-16"))),
    ):
        (tmp_path / name).write_bytes(content)
        reader = open_table(tmp_path / name)
        assert reader.header == ("gene", "Hitze µ")
        assert [cells for _, cells in reader.rows()] == [["A", "1"], ["B", "2"]]


def test_sheets_of_a_workbook(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    sheet = book.active
    for row in (
        ["Table S1. Responses"],
        [],
        ["gene", "heat", "salt", None],
        ["YAL001C", 1.5, None],
        [dt.datetime(2024, 9, 2), -2, "NA"],
        ["gene", "heat", "salt"],
        [],
    ):
        sheet.append(row)
    other = book.create_sheet("second")
    other.append(["gene", "cold"])
    other.append(["YAL002W", 3])
    book.save(tmp_path / "t.xlsx")
    reader = open_table(tmp_path / "t.xlsx")
    assert (reader.header, reader.header_line) == (("gene", "heat", "salt"), 3)
    assert list(reader.rows()) == [(4, ["YAL001C", "1.5", ""]), (5, ["2-Sep", "-2", "NA"])]
    assert reader.repeated_headers == [6]
    assert open_table(tmp_path / "t.xlsx", "second").header == ("gene", "cold")
    with pytest.raises(FormatError, match="no sheet 'third'; it has 'Sheet', 'second'"):
        open_table(tmp_path / "t.xlsx", "third")
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("a", "b")
    with pytest.raises(FormatError, match="no Excel workbook"):
        open_table(tmp_path / "t.zip")
