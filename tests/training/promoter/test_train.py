"""Training through the library: it learns, it repeats, it goes on where it stopped, it refuses what cannot be."""

import dataclasses
import logging
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from bioattn.errors import BioattnError, Interrupted, SettingsError
from bioattn.io.files import read_json
from bioattn.models.promoter.folder import load_promoter_model
from bioattn.models.promoter.training.config import Loss, Metric, TrainingConfig
from bioattn.models.promoter.training.train import TrainingJob, train_promoter
from bioattn.promoters.treatments import TreatmentTable, named_treatments
from bioattn.system.signals import StopRequest

CPU = torch.device("cpu")
SMALL = {"channels": 16, "kernel": 7, "pool": 4, "hidden_channels": 32, "head_channels": 8, "num_heads": 2}
CONCAT = {"conditioning": "concat", "concat_pools": [4, 4], "concat_hidden": [32, 16, 8]}


def job(dataset: Path, output: Path, model=None, **training) -> TrainingJob:
    settings = {"epochs": 4, "batch_size": 16, "learning_rate": 5e-3, **training}
    return TrainingJob(
        dataset_path=dataset,
        output=output,
        model={**SMALL, **(model or {})},
        training=TrainingConfig(**settings),
        baselines=False,
    )


def weights_of(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


class StopAfter:
    """Progress that asks for a stop after some steps."""

    def __init__(self, steps: int, request: StopRequest) -> None:
        self.left = steps
        self.request = request

    def begin(self, description, total):
        pass

    def advance(self, steps=1, **status):
        if status:
            self.left -= steps
            if self.left == 0:
                self.request.signal = signal.SIGTERM

    def end(self):
        pass


@pytest.mark.parametrize("score", ["dot", "additive", "gaussian"])
def test_cross_learns_the_planted_motifs(dataset_path, tmp_path, score):
    model = {"attention_score": score, "hops": 2 if score == "dot" else 1}
    evaluation = train_promoter(job(dataset_path, tmp_path / "m", model, epochs=25, max_shift=2), device=CPU)
    test = {row.cells: row.figures for row in evaluation.rows}["test genes"]
    assert test["pearson"] > 0.6
    history = (tmp_path / "m" / "history.csv").read_text().splitlines()
    assert history[0].startswith("epoch,learning_rate,training_loss,validation_loss")


@pytest.mark.parametrize(
    "model",
    [
        CONCAT,
        {"conditioning": "film"},
        {"conditioning": "cross-all"},
        {"conditioning": "cross-all", "treatment_encoder": "features"},
        {"treatment_encoder": "features", "sink": True},
    ],
    ids=["concat", "film", "cross-all", "cross-all-features", "cross-features-sink"],
)
def test_other_shapes_learn_and_repeat(dataset_path, tmp_path, model):
    settings = {"treatments_per_step": 2, "max_shift": 0}
    evaluation = train_promoter(
        job(dataset_path, tmp_path / "m", model, epochs=15, **settings),
        device=CPU,
    )
    assert evaluation.rows[0].figures["pearson"] > 0.3
    for name in ("first", "second"):
        train_promoter(job(dataset_path, tmp_path / name, model, epochs=2, **settings), device=CPU)
    assert weights_of(tmp_path / "first") == weights_of(tmp_path / "second")


def test_another_seed_gives_other_weights(dataset_path, tmp_path):
    for seed in (0, 1):
        train_promoter(job(dataset_path, tmp_path / str(seed), seed=seed, epochs=1), device=CPU)
    assert weights_of(tmp_path / "0") != weights_of(tmp_path / "1")


def test_answers_come_in_response_units(dataset_path, tmp_path):
    """The responses lie around 5 or 7, so an untransformed answer would be far off."""
    train_promoter(job(dataset_path, tmp_path / "m", epochs=2), device=CPU)
    loaded = load_promoter_model(tmp_path / "m", CPU)
    codes = torch.randint(0, 4, (32, loaded.length), dtype=torch.uint8)
    with torch.inference_mode():
        answers = loaded.model(codes, loaded.encode_treatments(loaded.treatments))
    assert 4 < float(answers.mean()) < 8


@pytest.mark.parametrize("steps", [1, 10, 17])
def test_a_stopped_run_goes_on_to_the_same_bytes(dataset_path, tmp_path, steps):
    """Ten steps make an epoch: stopped in the first, at the end of it, and in the second."""
    train_promoter(job(dataset_path, tmp_path / "whole"), device=CPU)
    request = StopRequest()
    stopped = job(dataset_path, tmp_path / "stopped")
    with pytest.raises(Interrupted) as stop:
        train_promoter(stopped, device=CPU, progress=StopAfter(steps, request), stop=request)
    assert stop.value.exit_code == 143
    assert not (tmp_path / "stopped").exists()
    train_promoter(stopped, device=CPU, resume=True)
    for name in ("model.safetensors", "history.csv", "training.json", "config.json", "README.md"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "stopped" / name).read_bytes(), name
    assert not (tmp_path / "stopped.partial").exists()


def test_a_killed_run_goes_on_to_the_same_bytes(dataset_path, tmp_path):
    command = [
        *(sys.executable, "-m", "bioattn_cli", "train", "promoter", str(dataset_path)),
        *("--epochs", "12", "--no-baselines", "--threads", "1", "-q"),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run(
        [*command, "-o", str(tmp_path / "whole")], check=True, env=environment, stdout=subprocess.DEVNULL
    )
    state = tmp_path / "killed.partial" / "trainer_state.safetensors"
    process = subprocess.Popen(
        [*command, "-o", str(tmp_path / "killed")], env=environment, stdout=subprocess.DEVNULL
    )
    while not state.exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert state.exists()
    assert not (tmp_path / "killed").exists()
    subprocess.run(
        [*command, "-o", str(tmp_path / "killed"), "--resume"],
        check=True,
        env=environment,
        stdout=subprocess.DEVNULL,
    )
    assert weights_of(tmp_path / "whole") == weights_of(tmp_path / "killed")


def test_a_state_of_other_settings_is_refused(dataset_path, tmp_path):
    request = StopRequest()
    with pytest.raises(Interrupted):
        train_promoter(
            job(dataset_path, tmp_path / "m"), device=CPU, progress=StopAfter(3, request), stop=request
        )
    with pytest.raises(BioattnError, match=r"different: training.learning_rate \(0.005 then, 0.0001 now\)"):
        train_promoter(job(dataset_path, tmp_path / "m", learning_rate=1e-4), device=CPU, resume=True)
    with pytest.raises(BioattnError, match="interrupted run; go on with --resume"):
        train_promoter(job(dataset_path, tmp_path / "m"), device=CPU)


def test_resume_of_a_finished_run_leaves_it_as_it_is(dataset_path, tmp_path, caplog, monkeypatch):
    one = job(dataset_path, tmp_path / "m", epochs=1)
    assert train_promoter(one, device=CPU) is not None
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in (tmp_path / "m").iterdir()}
    # A command run before in this process keeps messages to itself.
    monkeypatch.setattr(logging.getLogger("bioattn"), "propagate", True)
    caplog.set_level("INFO", "bioattn")
    assert train_promoter(one, device=CPU, resume=True) is None
    assert "m: finished before with the same data and settings" in caplog.text
    for other, words in (({"seed": 5}, "training.seed (0 then, 5 now)"), ({"epochs": 2}, "training.epochs")):
        with pytest.raises(BioattnError, match=f"is finished, but .*{re.escape(words)}"):
            train_promoter(
                job(dataset_path, tmp_path / "m", **{"epochs": 1, **other}), device=CPU, resume=True
            )
    with pytest.raises(BioattnError, match=r"different: reference \(none then, a now\)"):
        train_promoter(dataclasses.replace(one, reference="a"), device=CPU, resume=True)
    after = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in (tmp_path / "m").iterdir()}
    assert after == before


def test_an_existing_model_is_not_overwritten_unasked(dataset_path, tmp_path):
    one = job(dataset_path, tmp_path / "m", epochs=1)
    train_promoter(one, device=CPU)
    before = weights_of(tmp_path / "m")
    with pytest.raises(BioattnError, match="exists already"):
        train_promoter(one, device=CPU)
    train_promoter(job(dataset_path, tmp_path / "m", epochs=2), device=CPU, force=True)
    assert weights_of(tmp_path / "m") != before


def test_a_binary_task(binary_path, tmp_path):
    evaluation = train_promoter(job(binary_path, tmp_path / "m", epochs=25, max_shift=2), device=CPU)
    assert evaluation.rows[-1].figures["auroc"] > 0.8
    with pytest.raises(SettingsError, match="metric = pearson does not fit"):
        train_promoter(job(binary_path, tmp_path / "n", metric=Metric.PEARSON), device=CPU)
    with pytest.raises(SettingsError, match="loss = mse does not fit"):
        train_promoter(job(binary_path, tmp_path / "o", loss=Loss.MSE), device=CPU)


def test_the_unconditional_token_predicts_the_mean_response(dataset_path, tmp_path):
    train_promoter(job(dataset_path, tmp_path / "m", epochs=30, max_shift=2), device=CPU)
    loaded = load_promoter_model(tmp_path / "m", CPU)
    random = np.random.default_rng(5)
    codes = torch.from_numpy(random.integers(0, 4, (200, loaded.length)).astype(np.uint8))
    with torch.inference_mode():
        each = loaded.model(codes, loaded.encode_treatments(named_treatments(["a", "b", "c"])))
        mean = loaded.model(codes, loaded.encode_treatments(named_treatments(["unconditional"])))
    correlation = np.corrcoef(each.mean(1).numpy(), mean[:, 0].numpy())[0, 1]
    assert correlation > 0.8


def test_features_answer_unseen_doses_and_times(dataset_path, tmp_path):
    train_promoter(job(dataset_path, tmp_path / "m", {"treatment_encoder": "features"}), device=CPU)
    loaded = load_promoter_model(tmp_path / "m", CPU)
    frame = loaded.treatments.frame.iloc[[0, 0]].copy()
    frame.index = ["seen", "between"]
    frame.loc["between", "minutes"] = 15.0
    batch = loaded.encode_treatments(TreatmentTable(frame=frame))
    codes = torch.randint(0, 4, (8, loaded.length), dtype=torch.uint8)
    with torch.inference_mode():
        new = loaded.model(codes, batch)
        known = loaded.model(codes, loaded.encode_treatments(named_treatments(["a"])))
    torch.testing.assert_close(new[:, :1], known)
    assert not torch.allclose(new[:, 0], new[:, 1])
    frame.loc["between", "agent"] = "acid"
    with pytest.raises(BioattnError, match="'between' has agent = 'acid', which training never saw"):
        loaded.encode_treatments(TreatmentTable(frame=frame))


def test_without_the_token_it_cannot_be_asked(dataset_path, tmp_path):
    train_promoter(job(dataset_path, tmp_path / "m", epochs=1, unconditional_probability=0.0), device=CPU)
    loaded = load_promoter_model(tmp_path / "m", CPU)
    with pytest.raises(BioattnError, match="without an unconditional token"):
        loaded.encode_treatments(named_treatments(["unconditional"]))


def test_larger_shifts_than_the_flank_are_refused(dataset_path, tmp_path):
    with pytest.raises(SettingsError, match="max_shift is 9, the dataset stores a flank of 4"):
        train_promoter(job(dataset_path, tmp_path / "m", max_shift=9), device=CPU)


def test_the_reference_must_be_a_treatment(dataset_path, tmp_path):
    wrong = dataclasses.replace(job(dataset_path, tmp_path / "m"), reference="nobody")
    with pytest.raises(SettingsError, match="'nobody' is no training treatment"):
        train_promoter(wrong, device=CPU)


def test_the_record_names_data_settings_and_versions(dataset_path, tmp_path):
    train_promoter(job(dataset_path, tmp_path / "m", epochs=1), device=CPU)
    record = read_json(tmp_path / "m" / "training.json")
    assert record["dataset"]["file"] == dataset_path.name
    assert record["training"]["seed"] == 0
    assert record["versions"]["torch"] == torch.__version__
    assert str(tmp_path) not in (tmp_path / "m" / "training.json").read_text()
