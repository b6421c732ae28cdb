"""The saved state of a run: a full disk is one sentence, and the state before it stays."""

import errno
from pathlib import Path

import pytest
import torch

from bioattn.errors import BioattnError
from bioattn.training.state import Position, load_state, save_state


def test_a_full_disk_keeps_the_earlier_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    path = tmp_path / "state.safetensors"
    save_state(path, "job", Position(epoch=3), model, model, model.state_dict(), optimizer)

    def full(self: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(BioattnError, match=r"state\.safetensors: no space left"):
        save_state(path, "job", Position(epoch=4), model, model, model.state_dict(), optimizer)
    assert [file.name for file in tmp_path.iterdir()] == ["state.safetensors"]
    assert load_state(path, "job", model, model, optimizer)[0].epoch == 3
