"""Training runs of both families through the library, and what tests ask of them."""

import signal
from dataclasses import replace
from pathlib import Path

import torch

from bioattn.models.evoformer import family as evoformer
from bioattn.models.evoformer.family import EvoformerTrainingSettings
from bioattn.models.promoter import family as promoter
from bioattn.models.promoter.family import PromoterTrainingSettings
from bioattn.system.progress import NoProgress
from bioattn.system.signals import StopRequest
from bioattn.training import run

CPU = torch.device("cpu")
FAMILIES = {PromoterTrainingSettings: promoter.FAMILY, EvoformerTrainingSettings: evoformer.FAMILY}


def train(settings, *, resume=False, force=False, **running):
    """Train on the CPU by the settings of either family."""
    settings = replace(settings, resume=resume, force=force)
    return run.train(FAMILIES[type(settings)], settings, device=CPU, **running)


def same_folders(one: Path, other: Path) -> None:
    for name in ("model.safetensors", "history.csv", "training.json", "config.json", "README.md"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


class StopAfter(NoProgress):
    """Progress that asks for a stop after some steps."""

    def __init__(self, steps: int, request: StopRequest) -> None:
        self.left, self.request = steps, request

    def advance(self, steps=1, **status):
        if status:
            self.left -= steps
            if self.left == 0:
                self.request.signal = signal.SIGTERM


class Notes(NoProgress):
    """Progress that keeps what it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.status: dict[str, float | str] = {}

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)

    def advance(self, steps: int = 1, **status: float | str) -> None:
        self.status |= status
