"""How much each attention head of a language model matters for the tokens that it predicts.

As for promoter models (`bioattn.models.promoter.head_scorer`): the size of the loss's slope in a mask on what the
head gives (Michel, Levy & Neubig 2019), here one slope per window of a dataset, averaged over windows. The loss is
that of training, the mean cross-entropy of a window's predicted tokens.

Shape suffixes: B windows, L tokens, V tokens of the vocabulary, H heads.
"""

from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray
from torch import Tensor

from bioattn.attention.head_masks import attention_layers, masked_heads
from bioattn.errors import BioattnError
from bioattn.inference.runner import Head, HeadFigures
from bioattn.models.language.config import LanguageTrainingConfig, Shape
from bioattn.models.language.training.windows import IGNORED, Exercise, Windows, exercise
from bioattn.promoters.dataset import SPLIT_NAMES
from bioattn.sequences.sequence_dataset import SequenceDataset
from bioattn.sequences.vocabulary import CLS, MASK, SPECIAL

if TYPE_CHECKING:
    from bioattn.models.language.folder import LoadedLanguageModel

WINDOWS = 64
"""Windows by which heads are judged, spread evenly over the split."""
LISTENED = 16
"""Of them, those whose attention is described."""
BATCH_SIZE = 16
COPIES, COPY_LENGTH = 8, 32
"""Random sequences that are given twice, and their longest."""
SEED = 0
"""Of masks and random sequences."""


class LanguageHeadScorer:
    """Scores a model's heads on one split of a dataset: a `SilencingScorer` and, but for encoder-decoders, a
    `CopyScorer` of `bioattn.inference.runner`."""

    item = "window"

    def __init__(self, model: "LoadedLanguageModel", dataset: SequenceDataset, split: int) -> None:
        """dataset: read as the model's tokens. split: TRAIN, VALIDATION or TEST of `bioattn.promoters.dataset`.

        Raises: BioattnError when nothing is on this side.
        """
        windows = Windows(dataset, model.config, dataset.segments_in(split))
        if not len(windows.segments):
            raise BioattnError(
                f"{dataset.path}: no sequence is in the {SPLIT_NAMES[split]} split; choose another with --split"
            )
        self._model = model
        self._num_words = len(dataset.vocabulary.tokens) - len(SPECIAL)
        self.sites = {name: site for name, (_, site) in attention_layers(model.model).items()}
        places = windows.places(WINDOWS)
        self.items = [windows.name(*place) for place in places]
        self._tokens = [windows.window(*place) for place in places]
        generator = np.random.default_rng(SEED)
        self._exercises = [
            self._exercise(self._tokens[first : first + BATCH_SIZE], generator)
            for first in range(0, len(places), BATCH_SIZE)
        ]

    def record(self) -> dict[str, Any]:
        """Number of windows, the loss, and what accuracy is."""
        return {
            "windows": len(self.items),
            "loss": "cross-entropy of predicted tokens",
            "accuracy": "share of tokens that were the likeliest",
        }

    def importance(self, silenced: Collection[Head] = ()) -> dict[Head, NDArray[np.float64]]:
        """|∂ loss / ∂ mask| of every head that is not silenced for every window."""
        by_site: dict[str, list[NDArray[np.float64]]] = {name: [] for name in self.sites}
        for part in self._exercises:
            masks = self._masks(silenced, len(part.tokens_BL))
            for mask in masks.values():
                mask.requires_grad_()
            with torch.enable_grad(), masked_heads(self._model.model, masks):
                losses_B = self._losses(part)[0]
            # A window depends on its own masks alone: one pass gives the gradients of all.
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
        """The mean over windows."""
        return float(by_item.mean())

    def figures(self, silenced: Collection[Head] = ()) -> HeadFigures:
        loss, right, tokens = 0.0, 0, 0
        with torch.inference_mode(), masked_heads(self._model.model, self._masks(silenced, 1)):
            for part in self._exercises:
                losses_B, number_B, right_B = self._losses(part)
                loss += float((losses_B * number_B).double().sum())
                right, tokens = right + int(right_B.sum()), tokens + int(number_B.sum())
        return HeadFigures(loss / tokens, right / tokens)

    def passes(self) -> Iterator[Callable[[], object]]:
        """A pass for each window, with what is masked as in training."""
        generator = np.random.default_rng(SEED)
        for tokens in self._tokens[:LISTENED]:
            part = self._exercise([tokens], generator)
            yield partial(self._hidden, part)

    def copies(self) -> Iterator[tuple[Callable[[], object], NDArray[np.int64], NDArray[np.int64]]]:
        """Random words given twice. A decoder finds the next one behind the copy of the last; an encoder, in whose
        second copy some words are masked, at their place in the first. Nothing of an encoder-decoder."""
        config = self._model.config
        length = min(COPY_LENGTH, (config.context - 1) // 2)
        if config.shape is Shape.ENCODER_DECODER:
            return
        masked = config.shape is Shape.ENCODER
        for number in range(COPIES):
            generator = np.random.default_rng([SEED, number])
            words = len(SPECIAL) + generator.integers(self._num_words, size=length)
            tokens = np.concatenate([[CLS], words, words])
            queries = np.arange(1 + length, 2 * length)
            keys = queries - length + 1
            if masked:
                queries = np.sort(generator.permutation(queries)[: max(1, length // 8)])
                tokens[queries], keys = MASK, queries - length
            part = Exercise(torch.from_numpy(tokens[None]), torch.empty(0), None)
            yield partial(self._hidden, part), queries, keys

    def _exercise(self, windows: list[NDArray[np.int64]], generator: np.random.Generator) -> Exercise:
        config = self._model.config
        return exercise(windows, config, LanguageTrainingConfig(), generator, self._num_words)

    def _hidden(self, part: Exercise) -> Tensor:
        tokens_BL, _, source_BS = part.to(self._model.device)
        return self._model.model.hidden(tokens_BL, source_BS)

    def _losses(self, part: Exercise) -> tuple[Tensor, Tensor, Tensor]:
        """Mean loss of each window, and how many tokens were predicted, and rightly, (B,) each."""
        logits_BLV = self._model.model.logits(self._hidden(part)).float()
        targets_BL = part.targets_BL.to(self._model.device)
        number_B = (targets_BL != IGNORED).sum(-1)
        loss_BL = F.cross_entropy(
            logits_BLV.transpose(1, 2), targets_BL, reduction="none", ignore_index=IGNORED
        )
        right_B = (logits_BLV.argmax(-1) == targets_BL).sum(-1)
        return loss_BL.sum(-1) / number_B.clamp(min=1), number_B, right_B

    def _masks(self, silenced: Collection[Head], windows: int) -> dict[str, Tensor]:
        """1 for every head but those silenced, (B, 1, H)."""
        device = self._model.device
        return {
            name: torch.tensor([float((name, head) not in silenced) for head in site.heads], device=device)
            .expand(windows, 1, -1)
            .clone()
            for name, site in self.sites.items()
        }
