"""Whatever the bytes, `inspect` and `validate` answer or refuse in one sentence."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bioattn.errors import BioattnError
from bioattn.store.inspection import KINDS, as_json, as_text, inspect_file
from bioattn.store.validation import validate_file

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
]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200, deadline=None)
@given(st.sampled_from(HEADS), st.binary(max_size=300) | st.text(max_size=100).map(str.encode))
def test_any_bytes_are_answered(tmp_path: Path, head: bytes, rest: bytes) -> None:
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
    assert description.kind in KINDS
    assert as_text(description, "file").startswith("file: ")
    assert as_json(description)


def test_folders_that_are_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BioattnError, match="is a folder but no model"):
        inspect_file(tmp_path)


def test_run_records_show_the_command_as_typed(tmp_path: Path) -> None:
    path = tmp_path / "x.run.json"
    path.write_text('{"command": ["bioattn", "run", "a file"], "bioattn_version": "1"}')
    description = inspect_file(path)
    assert "  command: bioattn run 'a file'\n" in as_text(description, "x.run.json")
    assert '"a file"' in as_json(description)


def test_bed_is_no_table_with_a_header(tmp_path: Path) -> None:
    path = tmp_path / "x.bed"
    path.write_text("chr1\t5\t9\tg\t0\t+\nchr2\t5\t9\th\t0\t-\n")
    description = inspect_file(path)
    assert (description.kind, description.figures) == ("bed", {"genes": 2, "chromosomes": ["chr1", "chr2"]})
