"""How a toy model is trained: a stage on the first halves of the sequences, then one on whole ones."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bioattn.models.toy.data import padded, read_sequences, seen_before
from bioattn.models.toy.family import ToyTraining
from bioattn.models.toy.model import ToyModel
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from bioattn.io.files import sha256_of
from bioattn.models.model_folder import CONFIG, WEIGHTS, write_model_config, write_weights
from bioattn.system.progress import Progress
from bioattn.system.shard import Shard
from bioattn.training.task import Judgement, Optimisation, PartLoss, Results, Stage, Step, Task

BATCH = 4


@dataclass
class Accuracy:
    """The share of bases that are called right."""

    value: float

    def tables(self) -> list[list[list[str]]]:
        """One figure."""
        return [[["accuracy"], [f"{self.value:.3f}"]]]

    def comparison(self) -> None:
        """There is no simpler caller."""

    def to_json(self) -> dict[str, float]:
        """The same."""
        return {"accuracy": round(self.value, 6)}


class ToyTask(Task):
    """One training run."""

    metric = "accuracy"
    work_per_step = ("the batch size", BATCH)
    optimisation = Optimisation(weight_decay=0.0, gradient_clip=1.0, average_decay=0.9, patience=100)

    def __init__(self, settings: ToyTraining, device: torch.device) -> None:
        self.settings = settings
        self.device = device
        self.training = {"steps": 4, "seed": 0, **settings.training}
        self.architecture = {"channels": 8, **settings.model}
        self.digest = {
            "sequences": sha256_of(settings.sequences),
            "model": self.architecture,
            "training": self.training,
        }

    def prepare(self, progress: Progress) -> None:
        """Read the sequences and make the model."""
        self.sequences = list(read_sequences(self.settings.sequences).values())
        torch.manual_seed(self.training["seed"])
        self.model = ToyModel(**self.architecture).to(self.device)
        steps = self.training["steps"]
        self.stages = [
            Stage(
                steps=steps,
                steps_per_round=2,
                learning_rate=rate,
                warmup_fraction=0.0,
                can_be_best=can_be_best,
            )
            for rate, can_be_best in ((0.03, False), (0.01, True))
        ]
        self.summary = f"a toy on {len(self.sequences)} sequences"

    def parts(self, step: Step, shard: Shard) -> Iterator[PartLoss]:
        """One sequence at a time, so that processes sum the same losses as one process."""
        random = np.random.default_rng([self.training["seed"], step.stage_index, step.number])
        chosen = [self.sequences[i] for i in random.integers(len(self.sequences), size=BATCH)]
        for codes in chosen[shard.slice(BATCH)]:
            shown = codes if step.stage_index else codes[: (len(codes) + 1) // 2]
            loss = self._losses(self.model, shown).mean() / BATCH
            yield PartLoss(loss, loss)

    def validate(self, model: nn.Module, shard: Shard) -> Tensor:
        """Bases that are called right, and all bases, of each sequence."""
        counts = torch.zeros(len(self.sequences), 2)
        for number in range(len(self.sequences))[shard.slice(len(self.sequences))]:
            codes = self.sequences[number]
            right = (model(self._batch(codes)) > 0).cpu().numpy() == (seen_before(codes[None]) > 0)
            counts[number] = torch.tensor([right.sum(), len(codes)])
        return counts

    def judge(self, values: Tensor) -> Judgement:
        """The share that is called right."""
        score = float(values[:, 0].sum() / values[:, 1].sum())
        return Judgement(score, {"accuracy": score})

    def evaluate(self, progress: Progress) -> Results:
        """The same figure of the weights that are kept."""
        with torch.no_grad():
            return Accuracy(self.judge(self.validate(self.model, Shard(1, 1))).score)

    def write(self, folder: Path) -> Sequence[str]:
        """Weights and config."""
        write_model_config(folder, "toy", architecture=self.architecture)
        write_weights(folder, self.model)
        return (WEIGHTS, CONFIG)

    def record(self) -> dict[str, Any]:
        """What it was trained on."""
        return {"sequences_sha256": self.digest["sequences"], "training": self.training}

    def card(self, record: Mapping[str, Any], results: Results) -> list[str]:
        """The model card."""
        return ["# Toy model", "", f"Accuracy {record['evaluation']['accuracy']:.3f}."]

    def finished_digest(self, config: Mapping[str, Any], record: Mapping[str, Any]) -> dict[str, Any]:
        """The digest of a finished folder."""
        return {
            "sequences": record["sequences_sha256"],
            "model": config["architecture"],
            "training": record["training"],
        }

    def _batch(self, codes: Any) -> Tensor:
        return torch.from_numpy(padded([codes])).to(self.device)

    def _losses(self, model: nn.Module, codes: Any) -> Tensor:
        wanted = torch.from_numpy(seen_before(codes[None])).to(self.device)
        return binary_cross_entropy_with_logits(model(self._batch(codes)), wanted, reduction="none")
