"""The seal of HDF5 files: any changed byte is found before the HDF5 library reads it."""

import errno
import os

import h5py
import numpy as np
import pytest

from bioattn.errors import BioattnError, FormatError
from bioattn.formats.seal import check_seal, stream_sealed, write_sealed


def fill(file):
    file["plain"] = np.arange(100)
    file.create_dataset("group/packed", data=np.zeros((64, 64)), chunks=(16, 64), compression="gzip")
    file.create_dataset("empty", shape=(0,), dtype="f4")


def write_streamed(path, fill):
    with stream_sealed(path) as file:
        fill(file)


@pytest.fixture(params=[write_sealed, write_streamed])
def sealed(tmp_path, request):
    request.param(tmp_path / "a.h5", fill)
    return tmp_path / "a.h5"


def test_hdf5_tools_drop_the_seal_when_they_write(sealed):
    with h5py.File(sealed, "r+") as file:
        file["plain"][0] = 5
    assert not check_seal(sealed)


def test_a_sealed_file_is_an_ordinary_hdf5_file(sealed):
    assert check_seal(sealed)
    with h5py.File(sealed) as file:
        np.testing.assert_array_equal(file["plain"], np.arange(100))
        assert file["group/packed"].shape == (64, 64)


def test_no_seal_is_not_an_error(tmp_path):
    path = tmp_path / "b.h5"
    with h5py.File(path, "w") as file:
        file["x"] = 1
    assert not check_seal(path)
    (tmp_path / "tiny").write_bytes(b"x")
    assert not check_seal(tmp_path / "tiny")


def test_every_changed_byte_is_found(sealed):
    content = sealed.read_bytes()
    footer = len(content) - 87
    for position in range(0, footer, 31):
        changed = bytearray(content)
        changed[position] ^= 0x10
        sealed.write_bytes(changed)
        with pytest.raises(FormatError, match=r"changed after the file was written"):
            check_seal(sealed)


@pytest.mark.parametrize("name", ["/plain", "/group/packed"])
def test_the_array_that_changed_is_named(sealed, name):
    with h5py.File(sealed) as file:
        node = file[name]
        offset = node.id.get_offset() if node.chunks is None else node.id.get_chunk_info(1).byte_offset
    content = bytearray(sealed.read_bytes())
    content[offset + 3] ^= 1
    sealed.write_bytes(content)
    with pytest.raises(FormatError, match=f"the array {name} changed"):
        check_seal(sealed)


def test_a_streamed_file_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "a.h5"

    def failing(file):
        fill(file)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_streamed(path, failing)
    assert list(tmp_path.iterdir()) == []

    def full(descriptor, content, offset):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(BioattnError, match=r"a\.h5: no space left"):
        write_streamed(path, fill)
    assert list(tmp_path.iterdir()) == []


def test_streamed_bytes_repeat(tmp_path):
    for name in ("a.h5", "b.h5"):
        write_streamed(tmp_path / name, fill)
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()
