"""Folders: writable or not, with locks or without, with HDF5 that works or does not; nothing is left behind."""

import errno
import os
import stat
from pathlib import Path

import pytest

from bioattn.system.doctor import storage
from bioattn.system.doctor.finding import Verdict
from bioattn.system.doctor.storage import handle_finding, hdf5_finding, lock_finding, storage_findings


def test_a_good_folder(tmp_path: Path) -> None:
    found = {finding.name: finding for finding in storage_findings(tmp_path)}
    assert {name: finding.verdict for name, finding in found.items()} == dict.fromkeys(
        ("folder", "locks", "HDF5", "cache", "open files"), Verdict.OK
    )
    assert found["cache"].value == os.environ["BIOATTN_CACHE"]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_takes_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may write anywhere, so the folder is one of the system's that takes none from anyone."""
    closed = Path("/proc") if os.geteuid() == 0 else tmp_path / "closed"
    if closed.parent == tmp_path:
        closed.mkdir(mode=stat.S_IRUSR | stat.S_IXUSR)
    if not closed.is_dir():
        pytest.skip("root may write anywhere here")
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("BIOATTN_CACHE", str(file / "cache"))
    folder, cache, *_ = storage_findings(closed)
    assert (folder.name, folder.verdict) == ("folder", Verdict.WARNING)
    assert "cannot be written" in folder.text
    assert (cache.name, cache.verdict) == ("cache", Verdict.WARNING)
    assert "BIOATTN_CACHE" in cache.advice


@pytest.mark.skipif(storage.fcntl is None, reason="Windows has no advisory locks")
def test_file_systems_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lock_finding(tmp_path).value is True

    def refused(_descriptor: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(storage.fcntl, "flock", refused)
    none = lock_finding(tmp_path)
    assert (none.value, none.verdict) == (False, Verdict.WARNING)
    assert "this file system has none (No locks available)" in none.text
    monkeypatch.setattr(storage.fcntl, "flock", lambda _descriptor, _operation: None)
    assert "are granted twice here" in lock_finding(tmp_path).text
    monkeypatch.setattr(storage, "fcntl", None)
    assert "this system has none" in lock_finding(tmp_path).text


def test_hdf5_that_cannot_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import h5py

    def refused(*_: object) -> None:
        raise BlockingIOError(
            errno.EAGAIN, "Unable to synchronously open file (unable to lock file, errno = 11)"
        )

    monkeypatch.setattr(h5py, "File", refused)
    finding = hdf5_finding(tmp_path)
    assert finding.verdict is Verdict.ERROR
    assert "unable to lock file" in finding.text
    assert "HDF5_USE_FILE_LOCKING=FALSE" in finding.advice
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("limit", "verdict"), [(-1, Verdict.OK), (1024, Verdict.OK), (128, Verdict.OK), (64, Verdict.WARNING)]
)
def test_few_file_handles(limit: int, verdict: Verdict) -> None:
    assert handle_finding(limit).verdict is verdict
