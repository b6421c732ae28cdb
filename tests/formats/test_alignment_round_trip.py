"""Alignments written and read in every layout, and garbage: generated input for the readers."""

import logging
from pathlib import Path

from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from bioattn.errors import BioattnError, FormatError
from bioattn.formats.a3m import parse_a3m, write_a3m
from bioattn.formats.alignment_file import AlignmentFormat, read_alignment

NAMES = st.from_regex(r"[A-Za-z0-9_|/.:=>#-]{1,12}", fullmatch=True)
RESIDUES = st.sampled_from("ACDEFGHIKLMNPQRSTVWYXBZUOJ-")


@st.composite
def alignments(draw: st.DrawFn) -> list[tuple[str, str, str]]:
    """Names, descriptions and rows of A3M."""
    width = draw(st.integers(1, 8))
    word = st.text("acdefghiklmnpqrstvwyxbzuoj", max_size=2)
    text = st.tuples(*(st.tuples(word, RESIDUES).map("".join) for _ in range(width)), word).map("".join)
    note = st.text(st.characters(exclude_categories=["C", "Z"]) | st.just(" "), max_size=12).map(str.strip)
    return draw(st.lists(st.tuples(NAMES, note, text), min_size=1, max_size=6))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(alignments())
def test_a3m_comes_back_as_written(tmp_path: Path, records: list[tuple[str, str, str]]) -> None:
    text = "".join(f">{name} {note}".rstrip() + f"\n{row}\n" for name, note, row in records)
    alignment = parse_a3m("x.a3m", text.encode())
    path = tmp_path / "y.a3m"
    write_a3m(alignment, path)
    assert path.read_text() == text
    again = read_alignment(path, format=AlignmentFormat.A3M)
    assert (again.names, again.descriptions) == (alignment.names, alignment.descriptions)
    assert again.insertions == alignment.insertions
    assert again.residues.tobytes() == alignment.residues.tobytes()


@st.composite
def layouts(draw: st.DrawFn) -> tuple[str, list[str], list[str]]:
    """Text of some format in some layout, with the names and rows it stands for."""
    width = draw(st.integers(1, 30))
    row = st.text("ACDEFGHIKLMNPQRSTVWY-", min_size=width, max_size=width)
    texts = draw(st.lists(row, min_size=1, max_size=5))
    names = [f"n{index}_{'x' * draw(st.integers(0, 4))}" for index in range(len(texts))]
    step = draw(st.integers(1, width))
    starts = range(0, width, step)
    kind = draw(st.sampled_from(["stockholm", "clustal", "phylip", "phylip-sequential", "fasta"]))
    pieces = [[text[start : start + step] for start in starts] for text in texts]
    if kind == "fasta":
        text = "".join(
            f">{name}\n" + "\n".join(parts) + "\n" for name, parts in zip(names, pieces, strict=True)
        )
    elif kind == "phylip-sequential":
        bodies = [
            f"{name:10}" + "\n          ".join(parts) + "\n"
            for name, parts in zip(names, pieces, strict=True)
        ]
        text = f" {len(texts)} {width}\n" + "".join(bodies)
    else:
        blocks = [
            [f"{name:10} {parts[number]}" for name, parts in zip(names, pieces, strict=True)]
            for number in range(len(starts))
        ]
        if kind == "phylip":
            blocks[1:] = [[line[11:] for line in block] for block in blocks[1:]]
        head = {"stockholm": "# STOCKHOLM 1.0", "clustal": "CLUSTAL W", "phylip": f"{len(texts)} {width}"}[
            kind
        ]
        text = head + "\n\n" + "\n\n".join("\n".join(block) for block in blocks) + "\n"
        if kind == "stockholm":
            text += "//\n"
    return text, names, texts


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(layouts())
def test_rows_survive_any_layout(tmp_path: Path, case: tuple[str, list[str], list[str]]) -> None:
    text, names, texts = case
    (tmp_path / "x").write_text(text)
    try:
        alignment = read_alignment(tmp_path / "x")
    except FormatError as error:
        # Rows of PHYLIP may by chance fit both layouts.
        assume("as interleaved and as sequential" not in str(error))
        raise
    assert alignment.names == names
    assert [alignment.row(index) for index in range(alignment.num_rows)] == texts
    assert not any(alignment.insertions)


WORDS = [
    "# STOCKHOLM 1.0",
    "//",
    "#=GC RF",
    "#=GR a SS",
    "#=GS a",
    "#=GF",
    ">a",
    ">",
    "CLUSTAL W",
    "2 3",
    "a",
]
WORDS += ["MKV", "mKv", " ", "\n", "\n", "\n", "-.~", "*:.", "\t", "é", "1", ">ss_pred", "\0", "#", ";"]
GARBAGE = st.lists(st.sampled_from(WORDS), max_size=25).map("".join).map(str.encode) | st.binary(max_size=60)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(GARBAGE, st.none() | st.sampled_from(list(AlignmentFormat)))
@example(b"2 3\n", None)
@example(b"# STOCKHOLM 1.0\n\n#=GR a SS MKV\n//", None)
def test_garbage_raises_nothing_but_our_errors(
    tmp_path: Path, data: bytes, format: AlignmentFormat | None
) -> None:
    path = tmp_path / "x"
    path.write_bytes(data)
    logging.disable(logging.WARNING)
    try:
        alignment = read_alignment(path, format=format)
    except BioattnError:
        return
    finally:
        logging.disable(logging.NOTSET)
    assert alignment.residues.shape == (len(alignment.names), alignment.num_columns)
    assert alignment.num_rows
    assert alignment.num_columns
    assert set(alignment.residues.ravel().tolist()) <= set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ-")
