"""Training runs of both families through the library, and what tests ask of them."""

import csv
import signal
from dataclasses import replace

import numpy as np
import torch

from bioattn.models.evoformer import family as evoformer
from bioattn.models.evoformer.family import EvoformerTrainingSettings
from bioattn.models.promoter import family as promoter
from bioattn.models.promoter.family import PromoterTrainingSettings
from bioattn.system.progress import Progress
from bioattn.training import run

CPU = torch.device("cpu")
PROMOTER = {
    "model": {
        "channels": 16,
        "kernel": 7,
        "pool": 4,
        "hidden_channels": 32,
        "head_channels": 8,
        "num_heads": 2,
    },
    "training": {"epochs": 3, "batch_size": 30, "learning_rate": 5e-3},
}
"""Ten steps an epoch."""
EVOFORMER = {
    "model": {
        "msa_channels": 8,
        "pair_channels": 16,
        "extra_msa_channels": 8,
        "single_channels": 8,
        "msa_heads": 2,
        "extra_msa_heads": 2,
        "outer_product_channels": 8,
        "triangle_multiplication_channels": 8,
        "num_blocks": 1,
    },
    "training": {"steps": 7, "steps_per_round": 5, "max_extra_msa": 60, "max_msa_clusters": 8, "crop": 24},
}
STAGES = {"simulated_steps": 4, "simulated_families": 2, "steps_per_round": 3, "steps": 5}
"""Two rounds each."""
FAMILIES = {PromoterTrainingSettings: promoter.FAMILY, EvoformerTrainingSettings: evoformer.FAMILY}


def promoter_job(dataset, output, model=None, *, baselines=False, check=False, **training):
    """Settings of a small promoter model: those above, with others of the model and of its training."""
    return PromoterTrainingSettings(
        dataset=dataset,
        output=output,
        model=PROMOTER["model"] | (model or {}),
        training=PROMOTER["training"] | training,
        baselines=baselines,
        check=check,
    )


def train(settings, *, resume=False, force=False, **running):
    """Train on the CPU by the settings of either family."""
    settings = replace(settings, resume=resume, force=force)
    return run.train(FAMILIES[type(settings)], settings, device=CPU, **running)


def write_settings(path, model, training):
    """A file for --config."""
    tables = {"model": model, "training": training}.items()
    path.write_text(
        "".join(
            f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in table.items())
            for name, table in tables
        )
    )
    return path


def assert_same_curves(one, other, *columns):
    """Histories that agree up to rounding.

    Weights are not compared one by one: AdamW makes a step of whole size of a gradient that is all rounding.
    """
    curves = [
        [
            [float(row[name] or "nan") for name in columns]
            for row in csv.DictReader((folder / "history.csv").open())
        ]
        for folder in (one, other)
    ]
    np.testing.assert_allclose(*curves, rtol=0, atol=1e-5)


def same_folders(one, other):
    for name in ("model.safetensors", "history.csv", "training.json", "config.json", "README.md"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


class StopAfter(Progress):
    """Progress that asks for a stop after some steps."""

    def __init__(self, steps, request):
        self.left, self.request = steps, request

    def advance(self, steps=1, **status):
        if status:
            self.left -= steps
            if self.left == 0:
                self.request.signal = signal.SIGTERM


class Notes(Progress):
    """Progress that keeps what it is told."""

    def __init__(self):
        self.notes: list[str] = []
        self.status: dict[str, float | str] = {}

    def note(self, sentence):
        self.notes.append(sentence)

    def advance(self, steps=1, **status):
        self.status |= status
