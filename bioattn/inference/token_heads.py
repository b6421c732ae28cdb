"""How much each attention head matters for the tokens that a model predicts.

As for promoter models (`bioattn.models.promoter.heads`): the size of the loss's slope in a mask on what the
head gives (Michel, Levy & Neubig 2019), here one slope per sequence, averaged over sequences. The loss is that of
training, the mean cross-entropy of a sequence's predicted tokens.

Shape suffixes: B sequences, T predicted tokens, V tokens of the vocabulary, H heads.
"""

from collections.abc import Collection, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray
from torch import Tensor

from bioattn.attention.measures import attention_layers, masked_heads
from bioattn.inference.passes import IGNORED
from bioattn.inference.runner import Head, HeadFigures, Runner

Part = TypeVar("Part", bound=tuple[Any, ...])
"""A batch of sequences; its first tensor has as many rows."""


class TokenHeadScorer(Generic[Part]):
    """Scores a model's heads on batches: what families share of a `bioattn.inference.runner.HeadScorer`."""

    item: ClassVar[str]

    def __init__(self, runner: Runner, items: Sequence[str], parts: Sequence[Part]) -> None:
        """items: names of the sequences of the `parts`, in their order."""
        self.sites = {name: site for name, (_, site) in attention_layers(runner.model).items()}
        self.items, self.parts = items, parts
        self._model, self._device = runner.model, runner.device

    def record(self) -> dict[str, Any]:
        """Number of sequences, the loss, and what accuracy is."""
        return {
            f"{self.item}s": len(self.items),
            "loss": "cross-entropy of predicted tokens",
            "accuracy": "share of tokens that were the likeliest",
        }

    def predicted(self, part: Part) -> tuple[Tensor, Tensor]:
        """Logits (B, T, V), and the tokens (B, T) that were to be predicted, or `IGNORED`."""
        raise NotImplementedError

    def importance(self, silenced: Collection[Head] = ()) -> dict[Head, NDArray[np.float64]]:
        """|∂ loss / ∂ mask| of every head that is not silenced for every sequence."""
        by_site: dict[str, list[NDArray[np.float64]]] = {name: [] for name in self.sites}
        for part in self.parts:
            masks = self._masks(silenced, len(part[0]))
            for mask in masks.values():
                mask.requires_grad_()
            # cuDNN's recurrent layers have no gradient but in training.
            with (
                torch.enable_grad(),
                torch.backends.cudnn.flags(enabled=False),
                masked_heads(self._model, masks),
            ):
                losses_B = self._losses(part)[0]
            # A sequence depends on its own masks alone: one pass gives the gradients of all.
            gradients = torch.autograd.grad(losses_B.sum(), list(masks.values()))
            for name, gradient in zip(masks, gradients, strict=True):
                by_site[name].append(gradient[:, 0].abs().double().cpu().numpy())
        return {
            (name, head): np.concatenate([each[:, place] for each in by_site[name]])
            for name, site in self.sites.items()
            for place, head in enumerate(site.heads)
            if (name, head) not in silenced
        }

    def overall(self, by_item: NDArray[np.float64]) -> float:
        """The mean over sequences."""
        return float(by_item.mean())

    def figures(self, silenced: Collection[Head] = ()) -> HeadFigures:
        loss, right, tokens = 0.0, 0, 0
        with torch.inference_mode(), masked_heads(self._model, self._masks(silenced, 1)):
            for part in self.parts:
                losses_B, number_B, right_B = self._losses(part)
                loss += float((losses_B * number_B).double().sum())
                right, tokens = right + int(right_B.sum()), tokens + int(number_B.sum())
        return HeadFigures(loss / tokens, right / tokens)

    def _losses(self, part: Part) -> tuple[Tensor, Tensor, Tensor]:
        """Mean loss of each sequence, and how many tokens were predicted, and rightly, (B,) each."""
        logits_BTV, targets_BT = self.predicted(part)
        number_B = (targets_BT != IGNORED).sum(-1)
        loss_BT = F.cross_entropy(
            logits_BTV.float().transpose(1, 2), targets_BT, reduction="none", ignore_index=IGNORED
        )
        right_B = (logits_BTV.argmax(-1) == targets_BT).sum(-1)
        return loss_BT.sum(-1) / number_B.clamp(min=1), number_B, right_B

    def _masks(self, silenced: Collection[Head], sequences: int) -> dict[str, Tensor]:
        """1 for every head but those silenced, (B, 1, H)."""
        return {
            name: torch.tensor(
                [float((name, head) not in silenced) for head in site.heads], device=self._device
            )
            .expand(sequences, 1, -1)
            .clone()
            for name, site in self.sites.items()
        }
