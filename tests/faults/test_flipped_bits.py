"""Two thousand flipped bits of a small HDF5 result: each is refused, or changes nothing that is read."""

import hashlib
import os
import select
import signal

import h5py
import numpy as np
import pytest

FLIPS = 2000
PROCESSES = 20
LONGEST = 60
"""Seconds that a hundred flips may take."""


def digest(path):
    """SHA-256 of all values, names and attributes of a file, as h5py reads them.

    Of labels of axes that HDF5 keeps for netCDF, in a heap without checksums, it is enough that they can be read:
    bioattn reads `dims`.
    """
    read = hashlib.sha256()
    with h5py.File(path, "r") as file:
        items = {"/": file}
        file.visititems(items.__setitem__)
        datasets = {name: item for name, item in items.items() if isinstance(item, h5py.Dataset)}
        # The largest first: most flips are found at once.
        for name in sorted(datasets, key=lambda name: -datasets[name].id.get_storage_size()):
            values = datasets[name][()]
            read.update(f"{name} {values.dtype} {values.shape}".encode() + np.asarray(values).tobytes())
        for name, item in items.items():
            attributes = {key: item.attrs[key] for key in item.attrs}
            kept = {key: value for key, value in attributes.items() if not key.startswith("DIMENSION_")}
            read.update(f"{name} {kept}".encode(errors="surrogateescape"))
    return read.hexdigest()


def try_flips(path, content, places, expected):
    """How many flips are read as if nothing had been, and those that are read otherwise."""
    same, silent = 0, []
    for place in places:
        damaged = bytearray(content)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(damaged)
        try:
            if digest(path) == expected:
                same += 1
            else:
                silent.append(int(place))
        except (OSError, RuntimeError, KeyError, ValueError, TypeError):  # as h5py raises
            continue
    return same, silent


def in_a_process(function, *arguments):
    """What a function returns in a process of its own, which may crash or hang: as text."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, repr(function(*arguments)).encode())
        finally:
            os._exit(0)
    os.close(writer)
    try:
        ready, _, _ = select.select([reader], [], [], LONGEST)
        return os.read(reader, 1 << 16).decode() if ready else "hangs"
    finally:
        os.close(reader)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.parametrize("file", ["attention.h5", "x.dataset.h5"])
def test_a_flipped_bit_is_refused_or_changes_nothing(file, inputs, tmp_path):
    content = (inputs / file).read_bytes()
    assert content[8] == 3, "the superblock of HDF5 1.10, whose structures have checksums"
    expected = digest(inputs / file)
    places = np.random.default_rng(0).choice(8 * len(content), FLIPS // 2, replace=False)
    refused = 0
    for part in np.array_split(places, PROCESSES // 2):
        told = in_a_process(try_flips, tmp_path / "x.h5", content, part, expected)
        assert told, "the interpreter crashed"
        assert told != "hangs"
        same, _, silent = told.strip("()").partition(", ")
        assert silent == "[]"
        refused += len(part) - int(same)
    assert refused > FLIPS // 8
