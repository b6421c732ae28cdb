"""Whatever the bytes, `inspect` and `validate` answer or refuse in one sentence."""

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bioattn.errors import BioattnError, FormatError
from bioattn.formats.structure_file import StructureResidue, write_mmcif, write_pdb
from bioattn.store.inspection import as_json, as_text, inspect_file, validate_file
from bioattn.store.kinds import file_kinds
from bioattn_cli.main import main

HEADS = [
    b"",
    b">a\n",
    b"{",
    b"[1]",
    b"a\tb\n",
    b"\x89HDF\r\n\x1a\n",
    b"\x1f\x8b\x08",
    b"\xfd7zXZ\x00",
    b"a,b\r\n",
    b"PFRMAT RR\n",
    b"data_x\n",
    b"ATOM      1  CA  ALA A   1 ",
    b"\x80\x02",
    b"2 3\n",
    b"#NEXUS\nbegin data;\ndimensions ntax=1 nchar=2;\nmatrix\n",
    b"PileUp\n MSF: 2 Type: P Check: 0 ..\n\n Name: a Len: 2 Check: 0 Weight: 1\n\n//\n\n",
    b">P1;a\n\n",
]


@settings(max_examples=200)
@given(st.sampled_from(HEADS), st.binary(max_size=300) | st.text(max_size=100).map(str.encode))
def test_any_bytes_are_answered(tmp_path, head, rest):
    path = tmp_path / "file"
    path.write_bytes(head + rest)
    refusal = None
    try:
        description = inspect_file(path)
    except BioattnError as error:
        refusal = str(error)
    if refusal is not None:
        assert refusal.startswith(str(path))
        assert validate_file(path)
        return
    assert description.kind in {kind.name for kind in file_kinds()}
    assert as_text(description, "file").startswith("file: ")
    assert as_json(description)


def test_proteins_that_are_not_aligned_are_no_bad_alignment(tmp_path):
    path = tmp_path / "x.fa"
    path.write_text(">a\nMKLV\n>b x\nMKLVEE\nF*\n")
    description = inspect_file(path)
    assert (description.kind, description.figures) == (
        "proteins",
        {"proteins": 2, "shortest": 4, "longest": 8},
    )
    assert not validate_file(path)
    path.write_text(">a\nMKLV\n>b\nM-LVE\n")
    with pytest.raises(FormatError, match="the rows of an alignment are equally long"):
        inspect_file(path)


@pytest.fixture
def residues():
    return [
        StructureResidue(name=name, number=number, atoms={"CA": (3.8 * number, 0.0, 0.0)}, confidence=50.0)
        for number, name in enumerate(("MET", "GLY", "VAL"), start=1)
    ]


@pytest.mark.parametrize("write", [write_pdb, lambda path, residues: write_mmcif(path, residues, name="x")])
def test_structures_are_known_by_content(tmp_path, residues, write):
    path = tmp_path / "structure"
    write(path, residues)
    description = inspect_file(path)
    assert description.kind == "structure"
    assert description.figures == {"chains": {"A": 3}, "missing_cb": 2}
    assert validate_file(path) == []
    # The coordinates, and only those, are gone.
    path.write_text(path.read_text().replace("3.800", "x.xxx"))
    (finding,) = validate_file(path)
    assert "cannot be read as" in str(finding)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Dear colleague, thank you for the files.\n", "is none of the files"),
        ("# Settings, all of them\n[model]\n", "the header '[model]' is a single column"),
        ("a,b\n1,2\n1,2,3\n", "line 3: the row has 3 cells, the header has 2"),
        ("a\tb\n1\n", "line 2: the row has 1 cell, the header has 2"),
        ("a,a\n1,2\n", "the column 'a' occurs more than once (columns 1, 2)"),
    ],
)
def test_text_with_commas_is_no_table(tmp_path, text, sentence):
    path = tmp_path / "x"
    path.write_text(text)
    (finding,) = validate_file(path)
    assert sentence in str(finding)


def test_tables_as_others_write_them_are_tables(tmp_path):
    path = tmp_path / "x"
    path.write_text(',"b, and c",d\r\n1,"2,3","4;5"\r\n\r\n6,7,8\r\n')
    description = inspect_file(path)
    assert description.figures == {"rows": 2, "columns": 3, "names": ["", "b, and c", "d"]}


A3M = ">q/1-5 the query\nMKVLE\n>a\nMK-LEgg\n>b\n--V--\n"


@pytest.mark.parametrize(
    ("text", "rows", "columns", "first", "gaps", "inserted"),
    [
        (A3M, 3, 5, "q/1-5", "33.3 %", 2),
        ("CLUSTAL W (1.83)\n\nx      MKVL\ny      MKVL\n", 2, 4, "x", "0 %", 0),
        ("\ufeff2 4\r\nx MKVL\r\ny MKVL\r\n", 2, 4, "x", "0 %", 0),
        ("#4\t1\n>x\nMKVL\n", 1, 4, "x", "0 %", 0),
    ],
)
def test_alignments(tmp_path, capsys, text, rows, columns, first, gaps, inserted):
    path = tmp_path / "x.a3m"
    path.write_text(text)
    assert main(["inspect", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "kind": "alignment",
        "rows": rows,
        "columns": columns,
        "letters": "protein",
        "first_row": first,
        "gaps": gaps,
        "inserted_letters": inserted,
    }
    assert main(["validate", str(path)]) == 0


def test_the_registry_does_not_import_torch(tmp_path):
    table = tmp_path / "x.tsv"
    table.write_text("a\tb\n1\t2\n")
    code = (
        "import sys; from pathlib import Path; from bioattn.store.inspection import inspect_file; "
        f"assert inspect_file(Path({str(table)!r})).kind == 'table'; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        (
            {"config.json": '{"format": "bioattn-model", "format_version": 1}', "model.safetensors": ""},
            "type None",
        ),
        ({"contacts.rr": ""}, "is a folder that bioattn did not make"),
        (
            {"motifs.json": '{"format": "bioattn-motifs", "format_version": "1.0", "files": []}'},
            "is incomplete",
        ),
    ],
)
def test_folders_that_lack_something_are_refused_in_a_sentence(tmp_path, files, sentence):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(BioattnError, match=sentence):
        inspect_file(tmp_path)
    (finding,) = validate_file(tmp_path)
    assert sentence.replace("\\", "") in str(finding)
