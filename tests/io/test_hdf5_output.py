"""HDF5 through the shielded file: the same content, and a full disk that is an ordinary error."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from bioattn.io.hdf5_output import hdf5_output

REPOSITORY = Path(__file__).resolve().parents[2]


def fill(file: h5py.File, values: np.ndarray) -> None:
    file.create_dataset("values", data=values, chunks=(100,), fletcher32=True)
    file.create_dataset("names", data=np.array(["a", "bé"] * 50, dtype=object), dtype=h5py.string_dtype())
    file.attrs["format"] = "test"


def test_what_is_written_is_read(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random(100_000)
    for name in ("a.h5", "b.h5"):
        with hdf5_output(tmp_path / name) as (file, raw):
            fill(file, values)
            raw.check()
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()
    with h5py.File(tmp_path / "a.h5") as file:
        np.testing.assert_array_equal(file["values"], values)
        assert list(file["names"].asstr()[:3]) == ["a", "bé", "a"]
        assert file.attrs["format"] == "test"


@pytest.mark.parametrize("room", [0, 1, 3000, 100_000, 700_000])
def test_a_full_disk_is_an_oserror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    real = os.pwrite

    def limited(descriptor: int, content: Any, offset: int) -> int:
        if offset + len(content) > room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, content, offset)

    monkeypatch.setattr(os, "pwrite", limited)
    with pytest.raises(OSError, match="No space left") as caught, hdf5_output(tmp_path / "x.h5") as (file, _):
        fill(file, np.zeros(100_000))
    assert caught.value.errno == errno.ENOSPC


def test_the_process_survives_a_full_disk() -> None:
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
