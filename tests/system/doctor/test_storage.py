"""Folders: writable or not, with locks or without, with HDF5 that works or does not; nothing is left behind."""

import errno
import os
import stat
from pathlib import Path

import pytest

from bioattn.system.doctor import storage
from bioattn.system.doctor.diagnosis import Status
from bioattn.system.doctor.storage import handle_diagnosis, hdf5_diagnosis, lock_diagnosis, storage_diagnoses


def test_a_good_folder(tmp_path: Path) -> None:
    found = {diagnosis.name: diagnosis for diagnosis in storage_diagnoses(tmp_path)}
    assert {name: diagnosis.status for name, diagnosis in found.items()} == dict.fromkeys(
        ("folder", "locks", "HDF5", "cache", "open files"), Status.OK
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
    folder, cache, *_ = storage_diagnoses(closed)
    assert (folder.name, folder.status) == ("folder", Status.WARNING)
    assert "cannot be written" in folder.text
    assert (cache.name, cache.status) == ("cache", Status.WARNING)
    assert "BIOATTN_CACHE" in cache.advice


@pytest.mark.skipif(storage.fcntl is None, reason="Windows has no advisory locks")
def test_file_systems_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lock_diagnosis(tmp_path).value is True

    def refused(_descriptor: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(storage.fcntl, "flock", refused)
    none = lock_diagnosis(tmp_path)
    assert (none.value, none.status) == (False, Status.WARNING)
    assert "this file system has none (No locks available)" in none.text
    monkeypatch.setattr(storage.fcntl, "flock", lambda _descriptor, _operation: None)
    assert "are granted twice here" in lock_diagnosis(tmp_path).text
    monkeypatch.setattr(storage, "fcntl", None)
    assert "this system has none" in lock_diagnosis(tmp_path).text


def test_hdf5_that_cannot_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import h5py

    def refused(*_: object) -> None:
        raise BlockingIOError(
            errno.EAGAIN, "Unable to synchronously open file (unable to lock file, errno = 11)"
        )

    monkeypatch.setattr(h5py, "File", refused)
    diagnosis = hdf5_diagnosis(tmp_path)
    assert diagnosis.status is Status.ERROR
    assert "unable to lock file" in diagnosis.text
    assert "HDF5_USE_FILE_LOCKING=FALSE" in diagnosis.advice
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("limit", "status"), [(-1, Status.OK), (1024, Status.OK), (128, Status.OK), (64, Status.WARNING)]
)
def test_few_file_handles(limit: int, status: Status) -> None:
    assert handle_diagnosis(limit).status is status
