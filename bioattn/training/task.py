"""What is trained: the part of a training run that belongs to a model family. `trainer.py` does the rest.

A task is made from the settings of a command, which is cheap. `prepare` then reads the data and makes the model.

Every random choice of a task is a function of its seed and of the `Step`: a run that goes on after an interruption
takes the same steps as an undisturbed one, and several processes draw the same batch.

Weights are updated alike, whatever the model. Their running average is validated and kept while the optimiser
goes on with the weights: with few and noisy data the last step's weights wobble around a better point (Polyak
& Juditsky 1992).
"""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from bioattn.io.files import sha256_of
from bioattn.io.settings import build
from bioattn.models.family import CONFIG, WEIGHTS
from bioattn.models.model_folder import write_model
from bioattn.store.training_record import Comparison
from bioattn.system.progress import Progress
from bioattn.system.shard import Shard
from bioattn.text import markdown_table
from bioattn.training.settings import OptimiserConfig


def set_seed(seed: int) -> None:
    """Seed torch's random numbers for a step.

    `torch.manual_seed` looks for every kind of accelerator, which takes up to a millisecond.
    """
    if torch.accelerator.is_available():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


class AdamW:
    """AdamW (Loshchilov & Hutter 2019) that lets matrices and filters decay, not biases and norms.

    `torch.optim.AdamW` does the same, but imports torch's compiler when it is made, which takes a second.
    """

    def __init__(self, model: nn.Module, *, weight_decay: float, betas: tuple[float, float]) -> None:
        self.weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
        self.weight_decay, self.betas = weight_decay, betas
        self.moments: dict[str, dict[str, Tensor]] = {}
        """Of the weights that have had a gradient."""

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        """Change the weights that have a gradient."""
        for decaying in (True, False):
            names = [
                name
                for name, weight in self.weights.items()
                if weight.grad is not None and (weight.dim() > 1) == decaying
            ]
            for name in names:
                if name not in self.moments:
                    mean, square = (torch.zeros_like(self.weights[name]) for _ in range(2))
                    self.moments[name] = {"mean": mean, "square": square, "step": torch.tensor(0.0)}
            moments = [self.moments[name] for name in names]
            adamw(
                [self.weights[name] for name in names],
                [gradient for name in names if (gradient := self.weights[name].grad) is not None],
                [each["mean"] for each in moments],
                [each["square"] for each in moments],
                [],
                [each["step"] for each in moments],
                amsgrad=False,
                beta1=self.betas[0],
                beta2=self.betas[1],
                lr=learning_rate,
                weight_decay=self.weight_decay if decaying else 0.0,
                eps=1e-8,
                maximize=False,
            )

    def state_dict(self) -> dict[str, Tensor]:
        """The moments, as `NAME OF THE WEIGHT.mean`, `….square` and `….step`."""
        return {f"{name}.{key}": value for name, each in self.moments.items() for key, value in each.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take moments up again, on the device of the weights."""
        self.moments = {}
        for path, value in state.items():
            name, _, key = path.rpartition(".")
            where = "cpu" if key == "step" else self.weights[name].device
            self.moments.setdefault(name, {})[key] = value.to(where, copy=True)


class WeightAverage:
    """An exponential average whose memory grows with the steps, so that the first weights are soon forgotten."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.model = copy.deepcopy(model) if decay else model

    @torch.no_grad()
    def update(self, model: nn.Module, steps_done: int) -> None:
        """Move the average towards `model` after step number `steps_done` (counted from 1)."""
        if not self.decay:
            return
        decay = min(self.decay, steps_done / (10 + steps_done))
        current = model.state_dict()
        for name, average in self.model.state_dict().items():
            if average.is_floating_point():
                average.lerp_(current[name], 1 - decay)
            else:
                average.copy_(current[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Updates with a learning rate schedule of their own; the next stage starts from the averaged weights."""

    steps: int
    steps_per_round: int
    """Updates after which the model is validated, the history gets a row and the state is saved."""
    learning_rate: float
    warmup_fraction: float
    """Share of the steps in which the rate rises; then it falls along a cosine."""
    can_be_best: bool = True
    """Whether the weights after a round may be the ones that are kept; otherwise those of a later stage are."""

    def rate(self, step: int) -> float:
        """The learning rate of step `step` (from 0): a line up, then half a cosine down to 1 % of the peak."""
        warmup = self.warmup_fraction * self.steps
        if step < warmup:
            return self.learning_rate * (step + 1) / max(1.0, warmup)
        share = (step - warmup) / max(1.0, self.steps - warmup)
        return self.learning_rate * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * share)))


class Step(NamedTuple):
    """One update."""

    stage: Stage
    stage_index: int
    number: int


class Round(NamedTuple):
    """Consecutive updates of a stage, with a validation behind the last."""

    stage: Stage
    stage_index: int
    first: int
    """Number of its first update in the stage."""
    steps: int


def rounds_of(stages: Sequence[Stage]) -> list[Round]:
    """All rounds of a run; only the last round of a stage may be shorter than `steps_per_round`.

    >>> stage = Stage(steps=5, steps_per_round=2, learning_rate=1e-3, warmup_fraction=0.1)
    >>> [(each.first, each.steps) for each in rounds_of([stage])]
    [(0, 2), (2, 2), (4, 1)]
    """
    return [
        Round(stage, index, first, min(stage.steps_per_round, stage.steps - first))
        for index, stage in enumerate(stages)
        for first in range(0, stage.steps, stage.steps_per_round)
    ]


class Judgement(NamedTuple):
    """How good a model is on the validation data."""

    score: float
    """What decides which weights are kept, in the units of `Task.metric`."""
    figures: Mapping[str, float]


class Results(Protocol):
    """How good the trained model is, on validation and test data."""

    def tables(self) -> list[list[list[str]]]:
        """Tables to print: rows of cells, the header first."""

    def to_json(self) -> Any:
        """Plain JSON for the training record."""

    def comparison(self) -> Comparison | None:
        """The model beside the best simple model; None where there is none."""


class Training(ABC):
    """How one model is trained: what `trainer.py` asks for."""

    counts: Literal["epoch", "step"] = "step"
    """What the history and messages count: rounds as epochs, or steps."""
    model: nn.Module
    """The model, on its device. At the end it gets the weights that are kept."""
    stages: Sequence[Stage]
    training: Any
    """Settings, of which training reads `weight_decay`, `gradient_clip`, `average_decay` and `patience`, as
    `UpdateConfig` has them."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Coefficients of AdamW's running averages of the gradient and its square."""
    metric: str
    shown: Mapping[str, str] = MappingProxyType({})
    """Figures of a validation that messages give, by key, and their names; the last one is also shown beside the
    bar, and has the name and is the statistic of the tables of `evaluate`."""
    smaller_is_better: bool = False
    keeps_start: bool = False
    """Whether the weights before the first step are validated, and kept unless training makes better ones."""
    work_per_step: tuple[str, int]
    """How many parts a step can be divided into, and the setting that says so: more processes would be idle."""
    summary: str

    def update_in_one_stage(self, steps: int | None = None, steps_per_round: int | None = None) -> None:
        """Update weights as the settings of a `UpdateConfig` say, of which steps may be others."""
        training = self.training
        self.stages = [
            Stage(
                steps=steps or training.steps,
                steps_per_round=steps_per_round or training.steps_per_round,
                learning_rate=training.learning_rate,
                warmup_fraction=training.warmup_fraction,
            )
        ]
        self.work_per_step = ("batch_size", training.batch_size)

    def begin(self) -> None:  # noqa: B027 - most tasks start from random weights
        """Change the first weights by what the data tell (a warm start). Called in the first process, when a run
        starts; the other processes then get these weights."""

    @abstractmethod
    def parts(self, step: Step, shard: Shard) -> Iterator[Tensor]:
        """The losses of the parts of an update that are this process's share of its work, each already divided by
        what the whole step counts.

        Summed over parts and processes they are the loss of the step. One at a time is held in memory.
        """

    @abstractmethod
    def validate(self, model: nn.Module, shard: Shard) -> Tensor | None:
        """Predictions or figures for the validation data, float tensors on the CPU, zero where another process's
        share is: the sum over processes is given to `judge`. None without validation data."""

    @abstractmethod
    def judge(self, values: Tensor) -> Judgement:
        """The score of the validated model."""


class Task(ABC):
    """What is trained."""

    digest: Mapping[str, Any]
    """What the weights follow from: digests of the data, and settings. A saved state of another one is refused."""
    trainings: Sequence[Training]
    """Models to be trained one after the other; there after `prepare`."""

    @abstractmethod
    def prepare(self, progress: Progress) -> None:
        """Read the data and make the model, with the same first weights in every process."""

    @abstractmethod
    def evaluate(self, progress: Progress) -> Results:
        """How good the model is; it has the weights that are kept. Called in the first process."""

    @abstractmethod
    def write(self, folder: Path) -> Sequence[str]:
        """Write weights, `config.json` and the family's own files; return the names of those whose digests go into
        the training record."""

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """The family's entries of the training record `training.json`."""

    @abstractmethod
    def card(self, record: Mapping[str, Any], results: Results) -> Sequence[str]:
        """Lines of the model card `README.md`."""


Part = TypeVar("Part")


def figures_by_part(
    parts: Sequence[Part], shard: Shard, width: int, figures: Callable[[Part], Tensor]
) -> Tensor:
    """The `width` figures of parts of the data, a row each, float64 and 0 where another process's share is."""
    rows = torch.zeros(len(parts), width, dtype=torch.float64)
    for number in range(len(parts))[shard.slice(len(parts))]:
        rows[number] = figures(parts[number]).cpu()
    return rows


class ConfiguredTask(Task, Training):
    """A task with one model, that input files, the model's configuration and the settings of training decide."""

    family: str
    training_kind: type[OptimiserConfig]
    config: Any
    inputs: Mapping[str, Path]
    """Files that are learned from, by their names in the record."""

    def __init__(self, settings: Any, device: torch.device) -> None:
        self.settings = settings
        self.device = device
        self.trainings = (self,)
        self.training = build(self.training_kind, settings.training, settings.source("training"))

    def make(self, kind: Callable[[Any], nn.Module]) -> None:
        """Make the model of `config` with weights by the seed, to be updated as `training` says."""
        torch.manual_seed(self.training.seed)
        self.model = kind(self.config).to(self.device)
        self.update_in_one_stage()

    @property
    def weights(self) -> str:
        """How many the model has, for messages."""
        return f"{sum(p.numel() for p in self.model.parameters()):,} weights"

    def decided_by(self, **inputs: Path) -> None:
        """Note the inputs, and what the weights follow from."""
        self.inputs = inputs
        self.digest = {
            **{name: sha256_of(path) for name, path in inputs.items()},
            "model": asdict(self.config),
            "training": asdict(self.training),
        }

    def write(self, folder: Path) -> Sequence[str]:
        """Write weights and `config.json`."""
        write_model(folder, self.family, self.model, architecture=asdict(self.config))
        return (WEIGHTS, CONFIG)

    @abstractmethod
    def describe(self) -> tuple[str, str]:
        """Title and text of the model card."""

    def record(self) -> dict[str, Any]:
        """What the model was trained on, and how."""
        files = {name: {"file": path.name, "sha256": self.digest[name]} for name, path in self.inputs.items()}
        return {**files, "training": asdict(self.training)}

    def card(self, record: Mapping[str, Any], results: Results) -> Sequence[str]:
        """The model card, with the tables of the evaluation."""
        title, text = self.describe()
        lines = [f"# {title}", "", text]
        for rows in results.tables():
            lines += ["", *markdown_table(rows)]
        comparison = results.comparison()
        if comparison is not None and comparison.below:
            lines += ["", f"Note: {comparison.sentence()}."]
        return lines
