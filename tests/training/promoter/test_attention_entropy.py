"""The weight of entropy in training: it sharpens maps, rises from zero, costs nothing when it is off."""

import pytest
import torch

from bioattn.attention.capture import capture
from bioattn.attention.entropy import EntropyMeter
from bioattn.errors import BioattnError, Interrupted, SettingsError
from bioattn.models.promoter.config import TrainingConfig
from bioattn.models.promoter.family import PromoterTrainingSettings
from bioattn.models.promoter.folder import load_promoter_model
from bioattn.models.promoter.training import task
from bioattn.models.promoter.training.data import centred_windows
from bioattn.promoters.dataset import TEST, read_dataset
from bioattn.system.signals import StopRequest
from tests.training.runs import CPU, StopAfter, train

SMALL = {"channels": 16, "kernel": 7, "pool": 4, "hidden_channels": 32, "head_channels": 8, "num_heads": 2}


def job(dataset, output, model=None, **training):
    settings = {"epochs": 6, "batch_size": 16, "learning_rate": 5e-3, "max_shift": 2, **training}
    return PromoterTrainingSettings(
        dataset=dataset, output=output, model={**SMALL, **(model or {})}, training=settings, baselines=False
    )


def mean_entropy(folder, dataset_path):
    loaded = load_promoter_model(folder, CPU)
    dataset = read_dataset(dataset_path)
    meter = EntropyMeter()
    with torch.inference_mode(), capture(["*"], meter):
        loaded.model(
            centred_windows(dataset, dataset.genes_in(TEST)), loaded.encode_treatments(loaded.treatments)
        )
    return float(meter.mean())


def test_maps_become_sharper(dataset_path, tmp_path):
    for name, weight in (("off", 0.0), ("on", 0.5)):
        train(job(dataset_path, tmp_path / name, attention_entropy=weight))
    assert mean_entropy(tmp_path / "on", dataset_path) < mean_entropy(tmp_path / "off", dataset_path) - 0.1


def test_the_weight_of_entropy_rises_in_a_straight_line_from_zero(dataset_path, tmp_path, monkeypatch):
    means = []

    class Noted(EntropyMeter):
        def mean(self):
            means.append(super().mean())
            return means[-1]

    weights = []
    part = task.PromoterTask._part
    monkeypatch.setattr(task, "EntropyMeter", Noted)
    monkeypatch.setattr(task.PromoterTask, "_part", lambda *a: weights.append(a[-1]) or part(*a))
    train(job(dataset_path, tmp_path / "m", epochs=2, attention_entropy=0.2))
    steps = len(weights)
    assert steps > 10
    assert weights == pytest.approx([0.2 * step / steps for step in range(steps)])
    assert len(means) == steps - 1, "the first step is free and captures no weights"


def test_a_stopped_run_goes_on_to_the_same_bytes(dataset_path, tmp_path):
    settings = {"epochs": 3, "attention_entropy": 0.1}
    train(job(dataset_path, tmp_path / "whole", **settings))
    stopped, request = job(dataset_path, tmp_path / "stopped", **settings), StopRequest()
    with pytest.raises(Interrupted):
        train(stopped, progress=StopAfter(25, request), stop=request)
    train(stopped, resume=True)
    for name in ("model.safetensors", "history.csv", "training.json"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "stopped" / name).read_bytes(), name


def test_a_model_without_attention_is_refused(dataset_path, tmp_path):
    with pytest.raises(BioattnError, match="attention_entropy is for models with attention; film has none"):
        train(job(dataset_path, tmp_path / "m", {"conditioning": "film"}, attention_entropy=0.1))
    with pytest.raises(SettingsError, match="attention_entropy is -1"):
        TrainingConfig(attention_entropy=-1)
