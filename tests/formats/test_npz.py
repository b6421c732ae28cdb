"""Our reader of .npz beside NumPy's, NumPy's beside our writer, and archives that are not what they say."""

import io
import struct
import zipfile
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bioattn.errors import FormatError
from bioattn.formats.npz import NpzArrays, npz_output

ARRAYS = hnp.arrays(
    dtype=hnp.floating_dtypes(sizes=(16, 32)),
    shape=hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
)
NAMES = st.text("abc/:_~ 1", min_size=1, max_size=12).filter(lambda name: not name.startswith("/"))


@given(st.dictionaries(NAMES, ARRAYS, min_size=1, max_size=4), st.booleans(), st.booleans())
def test_reads_what_numpy_writes(tmp_path_factory, arrays, packed, fortran):
    path = tmp_path_factory.mktemp("npz") / "x.npz"
    if fortran:
        arrays = {name: np.asfortranarray(array) for name, array in arrays.items()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, array)
            archive.writestr(name + ".npy", content.getvalue())
    with closing(NpzArrays(path)) as file:
        assert list(file.shapes) == list(arrays)
        for name, array in arrays.items():
            assert file.shapes[name] == array.shape
            read = file.read(name)
            assert read.dtype == np.float32
            np.testing.assert_array_equal(read, array.astype(np.float32))


def test_numpy_reads_what_is_written_and_bytes_repeat(tmp_path):
    arrays = {"a//b": np.arange(6.0).reshape(2, 3), "c": np.ones((3, 2), np.float32).T, "d": np.array(5)}
    for name in ("x.npz", "y.npz"):
        with npz_output(tmp_path / name) as archive:
            for key, array in arrays.items():
                archive.write(key, array)
    with np.load(tmp_path / "x.npz", allow_pickle=False) as read:
        assert list(read.files) == list(arrays)
        for key, array in arrays.items():
            np.testing.assert_array_equal(read[key], array)
    assert (tmp_path / "x.npz").read_bytes() == (tmp_path / "y.npz").read_bytes()
    with pytest.raises(ZeroDivisionError), npz_output(tmp_path / "z.npz") as archive:
        archive.write("a", np.ones(1 // 0))
    assert not (tmp_path / "z.npz").exists()


def header(text, version=1):
    body = text.encode()
    length = struct.pack("<H" if version == 1 else "<I", len(body))
    return b"\x93NUMPY" + bytes([version, 0]) + length + body


GOOD = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n"
MEMBERS = {
    "no header": b"hello",
    "cut": header(GOOD) + b"\0" * 7,
    "longer": header(GOOD) + b"\0" * 9,
    "code": header("__import__('os').system('true')\n") + b"\0" * 8,
    "negative": header(GOOD.replace("(2,)", "(-2,)")) + b"\0" * 8,
    "enormous": header(GOOD.replace("(2,)", "(2000000000, 2000000000)")),
    "no type": header(GOOD.replace("<f4", "nonsense")) + b"\0" * 8,
    "no shape": header("{'descr': '<f4', 'fortran_order': False}\n") + b"\0" * 8,
    "version": header(GOOD, 9) + b"\0" * 8,
    "long header": b"\x93NUMPY\x02\x00" + struct.pack("<I", 1 << 30),
}


@pytest.mark.parametrize("name", MEMBERS)
def test_members_that_are_no_arrays_are_named(name, tmp_path):
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("the one.npy", MEMBERS[name])
    with pytest.raises(FormatError, match=r"x\.npz: the array the one is damaged"):
        NpzArrays(tmp_path / "x.npz")
