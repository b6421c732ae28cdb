"""How well a model predicts tokens that it was not trained on, beside simple models."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from bioattn.store.training_record import MODEL_ROW, Comparison

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


@dataclass(frozen=True, slots=True)
class Row:
    """One predictor on one side of the split."""

    side: str
    name: str
    figures: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A trained model beside simple models."""

    rows: Sequence[Row]
    predicted: str
    """What was predicted, such as `next tokens`."""

    def tables(self) -> list[list[list[str]]]:
        """One table for each side."""
        tables = []
        for side in dict.fromkeys(row.side for row in self.rows):
            header = [f"{side}, {self.predicted}", "bits per token", "perplexity", "accuracy"]
            tables.append(
                [
                    header,
                    *(
                        [
                            row.name,
                            f"{row.figures['bits']:.4f}",
                            f"{row.figures['perplexity']:.3f}",
                            f"{row.figures['accuracy']:.4f}",
                        ]
                        for row in self.rows
                        if row.side == side
                    ),
                ]
            )
        return tables

    def to_json(self) -> list[dict[str, Any]]:
        """Plain JSON."""
        return [
            {
                "side": row.side,
                "name": row.name,
                **{name: round(value, 6) for name, value in row.figures.items()},
            }
            for row in self.rows
        ]

    def comparison(self) -> Comparison | None:
        """The model beside the simple model that is best on the validation side, by minus bits per token."""
        side = "test" if any(row.side == "test" for row in self.rows) else "validation"
        simple = [row for row in self.rows if row.name != MODEL_ROW]
        ours = next((row for row in self.rows if row.name == MODEL_ROW and row.side == side), None)
        if ours is None or not simple:
            return None
        chosen = min(
            (row for row in simple if row.side == "validation"),
            key=lambda row: row.figures["bits"],
            default=simple[0],
        )
        theirs = next(row for row in simple if row.name == chosen.name and row.side == side)
        figure = "minus bits per token"
        return Comparison(
            f"{side} {self.predicted}", figure, -ours.figures["bits"], theirs.name, -theirs.figures["bits"]
        )
