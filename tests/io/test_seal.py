"""Writing HDF5: a full disk is an ordinary error; the seal shows any changed byte before HDF5 reads the file."""

import errno
import hashlib
import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import h5py
import numpy as np
import pytest

from bioattn.errors import BioattnError, FormatError
from bioattn.io import seal
from bioattn.io.hdf5_output import hdf5_output
from bioattn.io.seal import check_seal, stream_sealed, structure_sealed


def fill(file):
    file["plain"] = np.arange(100)
    file.create_dataset("group/packed", data=np.zeros((64, 64)), chunks=(16, 64), compression="gzip")
    file.create_dataset("empty", shape=(0,), dtype="f4")


def write_streamed(path, fill):
    with stream_sealed(path) as file:
        fill(file)
    return path


@pytest.fixture
def sealed(tmp_path):
    return write_streamed(tmp_path / "a.h5", fill)


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
    for position in [*range(0, len(content), 31), *range(len(content) - 87, len(content))]:
        changed = bytearray(content)
        changed[position] ^= 0x10
        sealed.write_bytes(changed)
        with pytest.raises(FormatError, match=r"seal|changed after the file was written"):
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


def large_arrays(file):
    """One array that is left out of a seal of the structure, and some that are not."""
    rng = np.random.default_rng(0)
    file.attrs["format"] = "x"
    weights = rng.normal(size=(64, 600)).astype("f4")
    file.create_dataset("weights", data=weights, chunks=(7, 600), fletcher32=True)
    file.create_dataset("few", data=weights[:4, :9], chunks=(2, 9), fletcher32=True)
    file["names"] = [f"gene{number}" for number in range(50)]
    file["unchecked"] = weights


@pytest.fixture
def structure(tmp_path):
    path = tmp_path / "structure.h5"
    with structure_sealed(path) as (file, _):
        large_arrays(file)
    return path


def test_a_seal_of_the_structure_leaves_out_what_checks_itself(structure):
    assert check_seal(structure)
    with h5py.File(structure) as file:
        places = [file["weights"].id.get_chunk_info(n) for n in range(file["weights"].id.get_num_chunks())]
        left_out = {
            byte for chunk in places for byte in range(chunk.byte_offset, chunk.byte_offset + chunk.size)
        }
    content = structure.read_bytes()
    rng = np.random.default_rng(1)
    outside = [byte for byte in range(len(content)) if byte not in left_out]
    for position in [*rng.choice(outside, 200, replace=False), *range(len(content) - 90, len(content))]:
        changed = bytearray(content)
        changed[position] ^= 1 << rng.integers(8)
        structure.write_bytes(changed)
        with pytest.raises(FormatError, match=r"seal|changed after the file was written"):
            check_seal(structure)
    for position in rng.choice(sorted(left_out), 50):
        changed = bytearray(content)
        changed[position] ^= 1 << rng.integers(8)
        structure.write_bytes(changed)
        assert check_seal(structure)
        with h5py.File(structure) as file, pytest.raises(OSError, match=r"filter returned failure|checksum"):
            file["weights"][:]


def test_what_is_left_of_a_seal_that_was_cut_is_refused(sealed, structure):
    for path in (sealed, structure):
        content = path.read_bytes()
        for lost in (1, 14, 50, 88):
            path.write_bytes(content[:-lost])
            with pytest.raises(FormatError, match="its seal is cut short or damaged"):
                check_seal(path)


def test_seals_of_earlier_versions_are_compared(sealed, structure):
    """Their list holds all arrays, those that are left out without a digest; see `bioattn.io.seal`."""
    for path in (sealed, structure):
        content = path.read_bytes()
        width = int(content[-87:-79], 16)
        pieces = json.loads(content[-87 - width : -87])
        arrays = {"/weights": {"extents": pieces}} if pieces else {"/plain": {"extents": [], "sha256": "0"}}
        body = content[: -87 - width] + json.dumps(arrays).encode()
        covered = body
        for offset, size in reversed(pieces):
            covered = covered[:offset] + covered[offset + size :]
        digest = hashlib.sha256(covered).hexdigest()
        footer = f"{len(json.dumps(arrays)):08x} {digest} bioattn-seal\n".encode()
        path.write_bytes(body + footer)
        assert check_seal(path)
        path.write_bytes(bytes([body[0] ^ 1]) + body[1:] + footer)
        with pytest.raises(FormatError, match="changed after the file was written"):
            check_seal(path)


def test_the_seal_of_a_structure_repeats(structure):
    first = structure.read_bytes()
    with structure_sealed(structure) as (file, _):
        large_arrays(file)
    assert structure.read_bytes() == first


def test_memory_of_sealing_does_not_grow_with_arrays(tmp_path, monkeypatch):
    monkeypatch.setattr(seal, "_BLOCK", 1 << 14)
    peaks = []
    for number in (1000, 2000):
        try:
            with structure_sealed(tmp_path / "x.h5") as (file, _):
                for name in range(number):
                    file[f"{name:05d}"] = np.arange(3)
                assert file.id.get_mdc_size()[0] <= 1 << 18  # of the library's own cache
                tracemalloc.start()
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        assert check_seal(tmp_path / "x.h5")
    # Descriptions of a thousand arrays more, kept until they are written, take more than 1 MB.
    assert abs(peaks[1] - peaks[0]) < 200_000


REPOSITORY = Path(__file__).resolve().parents[2]


def fill_with(file, values):
    file.create_dataset("values", data=values, chunks=(100,), fletcher32=True)
    file.create_dataset("names", data=np.array(["a", "bé"] * 50, dtype=object), dtype=h5py.string_dtype())
    file.attrs["format"] = "test"


def test_what_is_written_is_read(tmp_path):
    values = np.random.default_rng(0).random(100_000)
    for name in ("a.h5", "b.h5"):
        with hdf5_output(tmp_path / name) as (file, raw):
            fill_with(file, values)
            raw.check()
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()
    with h5py.File(tmp_path / "a.h5") as file:
        np.testing.assert_array_equal(file["values"], values)
        assert list(file["names"].asstr()[:3]) == ["a", "bé", "a"]
        assert file.attrs["format"] == "test"


@pytest.mark.parametrize("room", [0, 1, 3000, 100_000, 700_000])
def test_a_full_disk_is_an_oserror(tmp_path, monkeypatch, room):
    real = os.pwrite

    def limited(descriptor, content, offset):
        if offset + len(content) > room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, content, offset)

    monkeypatch.setattr(os, "pwrite", limited)
    with pytest.raises(OSError, match="No space left") as caught, hdf5_output(tmp_path / "x.h5") as (file, _):
        fill_with(file, np.zeros(100_000))
    assert caught.value.errno == errno.ENOSPC


def test_the_process_survives_a_full_disk():
    """The HDF5 library alone ends such a process with a segmentation fault as it exits."""
    script = """
import resource, signal, sys, tempfile
from pathlib import Path
import numpy as np
from bioattn.io.hdf5_output import hdf5_output
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with tempfile.TemporaryDirectory() as folder:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    try:
        with hdf5_output(Path(folder) / "x.h5") as (file, raw):
            for number in range(20):
                file.create_dataset(f"d{number}", data=np.arange(10_000), chunks=(100,), fletcher32=True)
    except OSError as error:
        print(error.strerror)
"""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "File too large\n", "")
