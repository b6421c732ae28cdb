"""Streams that were closed before the program began."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


def shell(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", line.replace("bioattn", f"'{sys.executable}' -m bioattn_cli", 1)],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{REPOSITORY / 'cli'}"},
    )


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
def test_files_are_written_whatever_is_closed_and_get_nothing_of_the_talk(
    closed: str, tmp_path: Path
) -> None:
    line = "bioattn simulate promoters --genes 20 --treatments 2 --length 120 --chromosomes 2 -o"
    assert shell(f"{line} open", tmp_path).returncode == 0
    assert shell(f"{line} shut {closed}", tmp_path).returncode == 0
    for path in (tmp_path / "open").iterdir():
        if not path.name.endswith(".run.json"):
            assert (tmp_path / "shut" / path.name).read_bytes() == path.read_bytes()


def test_data_that_nobody_gets_are_not_lost_in_silence(tmp_path: Path) -> None:
    done = shell("bioattn --version >&-", tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("bioattn: error: standard output cannot be written")
    assert done.stderr.count("\n") == 1
