"""The saved state of a run: a full disk is one sentence, and the state before it stays."""

import errno
from pathlib import Path

import pytest
import torch

from bioattn.errors import BioattnError
from bioattn.training.state import Position, load_state, save_state

JOB = {"dataset": "0" * 64, "training": {"seed": 0, "epochs": 3}, "exclude": ["1ABC"]}


def test_a_full_disk_keeps_the_earlier_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    path = tmp_path / "state.safetensors"
    save_state(path, JOB, Position(round=3), model, model, model.state_dict(), optimizer)

    def full(self: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(BioattnError, match=r"state\.safetensors: no space left"):
        save_state(path, JOB, Position(round=4), model, model, model.state_dict(), optimizer)
    assert [file.name for file in tmp_path.iterdir()] == ["state.safetensors"]
    assert load_state(path, JOB, model, model, optimizer)[0].round == 3


def test_every_flipped_bit_is_found_or_harmless(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    path = tmp_path / "state.safetensors"
    save_state(path, JOB, Position(round=3), model, model, model.state_dict(), optimizer)
    whole = path.read_bytes()
    expected = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    found = 0
    for bit in range(0, 8 * len(whole), 13):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            position, best = load_state(path, JOB, model, model, optimizer)
        except BioattnError:
            found += 1
        else:
            assert position == Position(round=3)
            assert all(torch.equal(best[name], tensor) for name, tensor in expected.items())
    assert found > 0.95 * (8 * len(whole) / 13)


def test_what_differs_from_the_interrupted_run_is_named(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    path = tmp_path / "state.safetensors"
    save_state(path, JOB, Position(), model, model, model.state_dict(), optimizer)
    other = {"dataset": "1" * 64, "training": {"seed": 7, "epochs": 3}, "exclude": [], "initial_model": None}
    with pytest.raises(BioattnError) as refusal:
        load_state(path, other, model, model, optimizer)
    assert "(different: dataset, training.seed (0 then, 7 now), exclude (1ABC then, none now))" in str(
        refusal.value
    )


def test_a_state_of_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    path = tmp_path / "state.safetensors"
    with monkeypatch.context() as patch:
        patch.setattr("bioattn.training.state.asdict", lambda _: {"epoch": 3})
        save_state(path, JOB, Position(), model, model, model.state_dict(), optimizer)
    with pytest.raises(
        BioattnError, match="was saved by another version of bioattn; start again with --force"
    ):
        load_state(path, JOB, model, model, optimizer)
