"""How well a model predicts what it was not trained on, tokens above all, beside simple models."""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bioattn.choices import SPLIT_NAMES
from bioattn.store.training_record import MINUS, MODEL_ROW, Comparison
from bioattn.system.shard import Shard
from bioattn.training.task import ConfiguredTask, Judgement, figures_by_part

SUMS = ("tokens", "nats", "right")
"""What is summed over predicted tokens: their number, their surprise, and how many had the highest probability."""


def sums_of(logits: Tensor, targets: Tensor, ignored: int) -> Tensor:
    """`SUMS` of predictions, float64 (3,). logits (…, V), targets (…)."""
    chosen = targets != ignored
    wanted, given = targets[chosen], logits[chosen].float()
    surprise = given.logsumexp(-1) - given.gather(-1, wanted[:, None]).squeeze(-1)
    right = given.argmax(-1) == wanted
    return surprise.new_tensor(
        [len(wanted), surprise.double().sum(), right.sum()], dtype=surprise.double().dtype
    )


def figures_of(sums: Sequence[float]) -> dict[str, float]:
    """Bits, perplexity and accuracy of predicted tokens."""
    tokens, nats, right = sums
    loss = nats / tokens if tokens else math.nan
    return {
        "loss": loss,
        "bits": loss / math.log(2),
        "perplexity": math.exp(min(loss, 700.0)),
        "accuracy": right / tokens if tokens else math.nan,
    }


def mixed(count_NV: NDArray[np.float64], shorter_NV: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities by the counts of contexts and those of shorter ones, by Witten and Bell's weights."""
    kinds_N1 = (count_NV > 0).sum(-1, keepdims=True)
    mixed_NV: NDArray[np.float64] = kinds_N1 * shorter_NV + count_NV
    mixed_NV /= count_NV.sum(-1, keepdims=True) + kinds_N1
    return mixed_NV


@dataclass(frozen=True, slots=True)
class Row:
    """One predictor on one side of the split."""

    side: str
    name: str
    figures: Mapping[str, float]
    """NaN where a statistic is not known, as the correlation of one value."""
    target: str = ""
    """What was predicted, where models have several targets with figures of their own."""

    def knows(self, name: str) -> bool:
        """Whether a figure is there and known."""
        return math.isfinite(self.figures.get(name, math.nan))


BITS = MappingProxyType(
    {"bits": ("bits per token", 4), "perplexity": ("perplexity", 3), "accuracy": ("accuracy", 4)}
)
"""The columns of tables of predicted tokens: by figure the heading and the decimals."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A trained model beside simple models."""

    rows: Sequence[Row]
    predicted: str
    """What was predicted, such as `next tokens`."""
    columns: Mapping[str, tuple[str, int]] = field(default_factory=lambda: BITS)
    """By figure its heading and its decimals; the first one decides which simple model is best."""
    smaller_is_better: bool = True
    """Whether that is so of the first figure."""
    gains: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """By simple model the 95 % interval of what the model is better by, where it is known."""

    def tables(self) -> list[list[list[str]]]:
        tables = []
        for side in dict.fromkeys(row.side for row in self.rows):
            rows = [[f"{side}, {self.predicted}", *(title for title, _ in self.columns.values())]]
            for row in self.rows:
                if row.side == side:
                    cells = (
                        f"{row.figures[name]:.{digits}f}" if row.knows(name) else "–"
                        for name, (_, digits) in self.columns.items()
                    )
                    rows.append([row.name, *cells])
            tables.append(rows)
        return tables

    def to_json(self) -> list[dict[str, Any]]:
        return [
            {
                "side": row.side,
                **({"target": row.target} if row.target else {}),
                "name": row.name,
                **{name: round(value, 6) if row.knows(name) else None for name, value in row.figures.items()},
            }
            for row in self.rows
        ]

    def deciding(self, row: Row) -> tuple[str, float]:
        """The figure that decides which model is better: its heading, and its value, NaN where it is not known."""
        name, (title, _) = next(iter(self.columns.items()))
        return title, row.figures.get(name, math.nan)

    def best_simple(self) -> tuple[str, dict[str, str]]:
        """The side that the model is judged on, and by target the simple model with the best figure on the
        validation side, or on the only one."""
        sides = [each for each in ("validation", "test") if any(row.side == each for row in self.rows)]
        best: dict[str, tuple[float, str]] = {}
        for row in self.rows:
            if row.side in sides[:1] and row.name != MODEL_ROW:
                value = self.deciding(row)[1]
                figure = -math.inf if math.isnan(value) else -value if self.smaller_is_better else value
                if row.target not in best or figure > best[row.target][0]:
                    best[row.target] = figure, row.name
        return "".join(sides[-1:]), {target: name for target, (_, name) in best.items()}

    def comparison(self) -> Comparison | None:
        """The model beside the best simple models, by the mean over targets."""
        side, chosen = self.best_simple()
        own = [row for row in self.rows if row.side == side]
        ours = [self.deciding(row)[1] for row in own if row.name == MODEL_ROW]
        theirs = [self.deciding(row)[1] for row in own if row.name == chosen.get(row.target)]
        if not ours or not theirs or not np.isfinite([*ours, *theirs]).all():
            return None
        titles = {self.deciding(row)[0] for row in own}
        title = titles.pop() if len(titles) == 1 else "mean figure"
        sign, figure = (-1, f"{MINUS}{title}") if self.smaller_is_better else (1, title)
        name = " and ".join(dict.fromkeys(chosen.values()))
        means = (sign * float(np.mean(each)) for each in (ours, theirs))
        return Comparison(
            f"{side} {self.predicted}", figure, next(means), name, next(means), self.gains.get(name)
        )


class TokenTask(ConfiguredTask):
    """A task whose model predicts tokens, and is judged by them."""

    metric = "bits per token"
    shown: Mapping[str, str] = {"accuracy": "accuracy", "bits": "bits per token"}
    smaller_is_better = True
    validation: Sequence[Any]
    """Batches of the validation side that every round predicts."""
    num_sums = len(SUMS)

    @abstractmethod
    def batch_sums(self, model: Any, batch: Any) -> Tensor:
        """What is summed over the tokens of a batch, `SUMS` first: float64 (num_sums,)."""

    def sums(self, model: nn.Module, batches: Sequence[Any], shard: Shard) -> Tensor:
        """(batches, num_sums)."""
        with self.training.precision.autocast(self.device):
            return figures_by_part(batches, shard, self.num_sums, partial(self.batch_sums, model))

    def figures(self, sums: Sequence[float]) -> dict[str, float]:
        """What sums over all batches say."""
        return figures_of(sums)

    def validate(self, model: nn.Module, shard: Shard) -> Tensor | None:
        return self.sums(model, self.validation, shard) if self.validation else None

    def judge(self, values: Tensor) -> Judgement:
        figures = self.figures(values.sum(0).tolist())
        return Judgement(figures["bits"], figures)

    def model_row(self, side: int, batches: Sequence[Any]) -> Row:
        """The trained model on some batches of a side."""
        with torch.no_grad():
            sums = self.sums(self.model, batches, Shard(1, 1)).sum(0)
        return Row(SPLIT_NAMES[side], MODEL_ROW, self.figures(sums.tolist()))
