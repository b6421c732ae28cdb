"""Opening safetensors: what the system refuses is told from what is damaged."""

import os
import resource
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from bioattn.errors import BioattnError, FormatError
from bioattn.io.safetensors_input import open_safetensors


def test_opens_what_is_whole(tmp_path: Path) -> None:
    save_file({"a": torch.arange(3.0)}, tmp_path / "x")
    with open_safetensors(tmp_path / "x") as file:
        assert file.get_tensor("a").tolist() == [0, 1, 2]


@pytest.mark.parametrize("content", [b"", b"\0" * 20, b'\x10\0\0\0\0\0\0\0{"a": 1}        '])
def test_what_is_damaged_is_said_to_be(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(FormatError, match=r"x: damaged or not a safetensors file"):
        open_safetensors(tmp_path / "x")


def test_a_file_that_is_not_there_is_not_damaged(tmp_path: Path) -> None:
    with pytest.raises(BioattnError, match=r"x: no such file or folder"):
        open_safetensors(tmp_path / "x")


@pytest.mark.parametrize("more", [0, 1, 2])
def test_too_many_open_files_are_no_damage(tmp_path: Path, more: int) -> None:
    """safetensors opens the file, and then torch does."""
    save_file({"a": torch.arange(3.0)}, tmp_path / "x")
    with open_safetensors(tmp_path / "x"):  # imports what it needs
        pass
    free = [os.open(tmp_path / "x", os.O_RDONLY) for _ in range(3)]
    for number in free:
        os.close(number)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[more], hard))  # of the free ones so many are below
    try:
        if more == 2:
            assert open_safetensors(tmp_path / "x").get_tensor("a").tolist() == [0, 1, 2]
            return
        with pytest.raises(BioattnError) as caught:
            open_safetensors(tmp_path / "x")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert str(caught.value) == f"{tmp_path / 'x'}: cannot be read (Too many open files)"
