"""The trainer, with several families: runs repeat, go on where they stopped, and refuse what is not theirs."""

import copy
import errno
import logging
import math
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from bioattn.errors import BioattnError, Interrupted
from bioattn.io.files import read_json
from bioattn.models.evoformer.family import EvoformerTrainingSettings
from bioattn.models.promoter.family import PromoterTrainingSettings
from bioattn.system.signals import StopRequest
from bioattn.training.state import Position, load_state, save_state
from bioattn.training.task import AdamW, Stage, WeightAverage
from bioattn_cli.main import main
from tests.training.runs import EVOFORMER, PROMOTER, STAGES, StopAfter, same_folders, train, write_settings

JOB = {"dataset": "0" * 64, "training": {"seed": 0, "epochs": 3}, "exclude": ["1ABC"]}


def test_a_full_disk_keeps_the_earlier_state(tmp_path, monkeypatch):
    model = torch.nn.Linear(2, 1)
    optimizer = AdamW(model, weight_decay=0.01, betas=(0.9, 0.999))
    path = tmp_path / "state.safetensors"
    save_state(path, JOB, Position(round=3), model, model, model.state_dict(), optimizer)

    def full(self, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(BioattnError, match=r"state\.safetensors: no space left"):
        save_state(path, JOB, Position(round=4), model, model, model.state_dict(), optimizer)
    assert [file.name for file in tmp_path.iterdir()] == ["state.safetensors"]
    assert load_state(path, JOB, model, model, optimizer)[0].round == 3


def test_every_flipped_bit_is_found_or_harmless(tmp_path):
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    optimizer = AdamW(model, weight_decay=0.01, betas=(0.9, 0.999))
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step(1e-3)
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


def test_what_differs_from_the_interrupted_run_is_named(tmp_path):
    model = torch.nn.Linear(2, 1)
    optimizer = AdamW(model, weight_decay=0.01, betas=(0.9, 0.999))
    path = tmp_path / "state.safetensors"
    save_state(path, JOB, Position(), model, model, model.state_dict(), optimizer)
    other = {"dataset": "1" * 64, "training": {"seed": 7, "epochs": 3}, "exclude": [], "initial_model": None}
    with pytest.raises(BioattnError) as refusal:
        load_state(path, other, model, model, optimizer)
    assert "(different: dataset, exclude, training)" in str(refusal.value)


@pytest.fixture(params=["promoter", "evoformer"], scope="module")
def settings(request, dataset_path, contact_dataset):
    """Of a run into a folder, with other settings of its training."""

    def make(output, **training):
        if request.param == "promoter":
            content = {"dataset": dataset_path, "baselines": False, "check": False, **PROMOTER}
            kind: type = PromoterTrainingSettings
        else:
            content, kind = {"dataset": contact_dataset, **EVOFORMER}, EvoformerTrainingSettings
        return kind(output=output, **content | {"training": content["training"] | training})

    return make


@pytest.fixture(scope="module")
def whole(settings, tmp_path_factory):
    """The model of a run that nobody disturbed."""
    output = tmp_path_factory.mktemp("whole") / "m"
    train(settings(output))
    return output


def interrupted(settings, steps):
    """Stop a run after some steps."""
    request = StopRequest()
    with pytest.raises(Interrupted) as stop:
        train(settings, progress=StopAfter(steps, request), stop=request)
    assert stop.value.exit_code == 143
    assert not settings.output.exists()


@pytest.mark.parametrize(
    ("settings", "steps"),
    [("promoter", 1), ("promoter", 10), ("promoter", 17), ("evoformer", 7)],
    indirect=["settings"],
)
def test_a_stopped_run_goes_on_to_the_same_bytes(settings, whole, tmp_path, steps):
    """In the first epoch, at its end, and in the second; at the end of all for families, of which see below."""
    stopped = settings(tmp_path / "stopped")
    interrupted(stopped, steps)
    train(stopped, resume=True)
    same_folders(whole, stopped.output)
    assert not (tmp_path / "stopped.partial").exists()


@pytest.fixture(scope="module")
def two_stages(contact_dataset, tmp_path_factory):
    """The settings of a finished run of two stages."""
    content = EVOFORMER | {"training": EVOFORMER["training"] | STAGES}
    output = tmp_path_factory.mktemp("stages") / "m"
    settings = EvoformerTrainingSettings(dataset=contact_dataset, output=output, **content)
    train(settings)
    return settings


@pytest.mark.parametrize("steps", [2, 4, 8])
def test_two_stages_go_on_to_the_same_bytes(two_stages, tmp_path, steps):
    """In the first stage, at its end, and in the second round of the second."""
    stopped = replace(two_stages, output=tmp_path / "stopped")
    interrupted(stopped, steps)
    train(stopped, resume=True)
    same_folders(two_stages.output, stopped.output)
    rows = (stopped.output / "history.csv").read_text().splitlines()[1:]
    assert [row.split(",")[0] for row in rows] == ["3", "4", "7", "9"]
    assert read_json(stopped.output / "training.json")["best_step"] in (7, 9)


def test_a_killed_process_goes_on_to_the_same_bytes(two_stages, tmp_path, bioattn_folder):
    """Promoter models: `tests/faults/test_kills.py`."""
    config = tmp_path / "settings.toml"
    write_settings(config, two_stages.model, two_stages.training)
    words = ["train", "evoformer", str(two_stages.dataset), "-c", str(config), "--threads", "1", "-q", "-o"]
    program = bioattn_folder / "bioattn"
    process = subprocess.Popen([program, *words, str(tmp_path / "killed")], stderr=subprocess.PIPE)
    state = tmp_path / "killed.partial" / "trainer_state.safetensors"
    while not state.exists() and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    process.communicate()
    assert process.returncode == -9
    assert state.exists()
    assert not (tmp_path / "killed").exists()
    assert main([*words, str(tmp_path / "killed"), "--resume"]) == 0
    same_folders(two_stages.output, tmp_path / "killed")


def test_resume_of_a_finished_run_leaves_it_as_it_is(settings, whole, tmp_path, caplog, monkeypatch):
    one = settings(shutil.copytree(whole, tmp_path / "m"))
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in one.output.iterdir()}
    # A command run before in this process keeps messages to itself.
    monkeypatch.setattr(logging.getLogger("bioattn"), "propagate", True)
    caplog.set_level("INFO", "bioattn")
    assert train(one, resume=True) is None
    assert "m: finished before with the same data and settings" in caplog.text
    with pytest.raises(BioattnError, match=r"is finished, but .*\(different: training\)"):
        train(settings(tmp_path / "m", seed=5), resume=True)
    after = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in one.output.iterdir()}
    assert after == before
    with pytest.raises(BioattnError, match="exists already"):
        train(one)
    assert train(settings(tmp_path / "m", seed=5), force=True) is not None
    assert (one.output / "model.safetensors").read_bytes() != before["model.safetensors"][0]


def test_the_record_names_data_settings_and_versions(settings, whole):
    one, record = settings(whole), read_json(whole / "training.json")
    assert record["dataset"]["file"] == one.dataset.name
    assert (record.get("networks") or [record])[0]["training"]["seed"] == 0
    assert set(record["versions"]) == {"bioattn", "torch", "numpy", "python"}
    assert str(whole.parent) not in (whole / "training.json").read_text()
    assert replace(one).input_paths() == {"dataset": one.dataset}


def test_updates_are_those_of_torch_and_only_matrices_and_filters_decay():
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Conv1d(4, 8, 3), nn.GroupNorm(1, 8), nn.Flatten(), nn.Linear(16, 2))
    theirs = copy.deepcopy(ours)
    betas = (0.9, 0.99)
    optimizer = AdamW(ours, weight_decay=0.1, betas=betas)
    groups = [
        {"params": [p for p in theirs.parameters() if p.dim() > 1], "weight_decay": 0.1},
        {"params": [p for p in theirs.parameters() if p.dim() == 1], "weight_decay": 0.0},
    ]
    reference = torch.optim.AdamW(groups, betas=betas)
    for step in range(6):
        if step == 3:  # a run that goes on takes the moments up again
            state = {name: value.clone() for name, value in optimizer.state_dict().items()}
            optimizer = AdamW(ours, weight_decay=0.1, betas=betas)
            optimizer.load_state_dict(state)
        batch = torch.randn(5, 4, 4)
        for model in (ours, theirs):
            model.zero_grad()
            model[3].requires_grad_(step > 0)
            model(batch).square().mean().backward()
        for group in reference.param_groups:
            group["lr"] = 0.1 / (step + 1)
        reference.step()
        optimizer.step(0.1 / (step + 1))
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.equal(one, other)


def test_the_rate_rises_in_a_line_and_falls_along_half_a_cosine():
    stage = Stage(steps=100, steps_per_round=10, learning_rate=2.0, warmup_fraction=0.1)
    rates = [stage.rate(step) for step in range(101)]
    assert rates[:10] == pytest.approx([2.0 * (step + 1) / 10 for step in range(10)])
    assert rates[10] == pytest.approx(2.0)
    assert rates[55] == pytest.approx(2.0 * (0.01 + 0.99 / 2))
    assert rates[70] == pytest.approx(2.0 * (0.01 + 0.99 * (1 + math.cos(math.pi * 60 / 90)) / 2))
    assert rates[100] == pytest.approx(0.02)
    at_once = Stage(steps=5, steps_per_round=5, learning_rate=1.0, warmup_fraction=0.0)
    assert at_once.rate(0) == pytest.approx(1.0)


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.99])
def test_the_average_is_that_of_a_loop(decay):
    model = nn.BatchNorm1d(2)  # also has a counter, which is copied
    average = WeightAverage(model, decay)
    expected = torch.ones(2)
    for step in range(1, 8):
        with torch.no_grad():
            model.weight.copy_(torch.tensor([1.0 + step, -step]))
            model.num_batches_tracked.fill_(step)
        average.update(model, step)
        memory = min(decay, step / (10 + step)) if decay else 0.0
        expected = memory * expected + (1 - memory) * model.weight.detach()
    torch.testing.assert_close(average.model.weight.detach(), expected)
    assert average.model.num_batches_tracked.item() == 7
