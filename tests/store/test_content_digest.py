"""The digest of a whole HDF5 file against its definition written down in one piece."""

import hashlib
import json
import tracemalloc
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from bioattn.store.content_digest import content_digest


def in_one_piece(file: h5py.File) -> str:
    """As docs/formats/attention.md says: one JSON text of everything."""
    everything: dict[str, Any] = {}

    def describe(path: str, item: h5py.HLObject) -> None:
        attributes = {
            name: value.tolist() if isinstance(value, np.generic) else value
            for name, value in item.attrs.items()
            if name != "content_sha256"
        }
        everything[path] = {"attributes": attributes}
        if isinstance(item, h5py.Dataset):
            text = h5py.check_string_dtype(item.dtype) is not None
            everything[path] |= {"shape": list(item.shape), "dtype": "text" if text else item.dtype.str}

    describe("/", file)
    file.visititems(lambda name, item: describe("/" + name, item))
    text = json.dumps(everything, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def fill(file: h5py.File, datasets: int) -> None:
    """Names whose order is not that of a walk through the tree, since `-` and `.` come before `/`."""
    file.attrs["format"] = "some"
    for group in ("a", "a-b", "a.b", "a/b", "a/b-", "a/b/c", "é"):
        made = file.require_group(group)
        made.attrs["heads"] = np.int32(4)
        made["text"] = "x"
        for number in range(datasets):
            made.create_dataset(f"d{number}", data=np.zeros((2, 3), "<f4")).attrs["sha256"] = "0" * 64


def test_equals_its_definition(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        fill(file, 3)
        assert content_digest(file) == in_one_piece(file)
        before = content_digest(file)
        file.attrs["content_sha256"] = before
        assert content_digest(file) == before
        file["a/b/c/d1"].attrs["sha256"] = "0" * 63 + "1"
        assert content_digest(file) != before


def test_memory_does_not_grow_with_objects(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        fill(file, 200)
    with h5py.File(tmp_path / "x.h5") as file:
        content_digest(file)
        tracemalloc.start()
        try:
            content_digest(file)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    # 1,400 descriptions take more than 1 MB together.
    assert peak < 300_000


@pytest.mark.parametrize("link", [h5py.SoftLink("/a"), h5py.ExternalLink("other.h5", "/")])
def test_links_that_lead_elsewhere_are_not_followed(tmp_path: Path, link: object) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        fill(file, 1)
        before = content_digest(file)
        file["leads"] = link
        assert content_digest(file) == before


def test_a_group_within_itself_comes_to_an_end(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        fill(file, 1)
        file["a/b/itself"] = file["a"]
        file["a/root"] = file["/"]
        assert len(content_digest(file)) == 64
