"""What the heads of language models are judged by: windows of a dataset, and random words given twice.

Shape suffixes: B windows, L tokens, V tokens of the vocabulary.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.errors import BioattnError
from bioattn.inference.token_heads import TokenHeadScorer
from bioattn.models.language.config import LanguageTrainingConfig, Shape
from bioattn.models.language.training.windows import Exercise, Windows, exercise
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


class LanguageHeadScorer(TokenHeadScorer[Exercise]):
    """Scores a model's heads on one split of a dataset; but for encoder-decoders also a
    `bioattn.inference.runner.CopyScorer`."""

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
        self._loaded = model
        self._num_words = len(dataset.vocabulary.tokens) - len(SPECIAL)
        places = windows.places(WINDOWS)
        self._tokens = [windows.window(*place) for place in places]
        generator = np.random.default_rng(SEED)
        parts = [
            self._exercise(self._tokens[first : first + BATCH_SIZE], generator)
            for first in range(0, len(places), BATCH_SIZE)
        ]
        super().__init__(model, [windows.name(*place) for place in places], parts)

    def predicted(self, part: Exercise) -> tuple[Tensor, Tensor]:
        return self._loaded.model.logits(self._hidden(part)), part.targets_BL.to(self._loaded.device)

    def passes(self) -> Iterator[Callable[[], object]]:
        """A pass for each window, with what is masked as in training."""
        generator = np.random.default_rng(SEED)
        for tokens in self._tokens[:LISTENED]:
            part = self._exercise([tokens], generator)
            yield partial(self._hidden, part)

    def copies(self) -> Iterator[tuple[Callable[[], object], NDArray[np.int64], NDArray[np.int64]]]:
        """Random words given twice. A decoder finds the next one behind the copy of the last; an encoder, in whose
        second copy some words are masked, at their place in the first. Nothing of an encoder-decoder."""
        config = self._loaded.config
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
        config = self._loaded.config
        return exercise(windows, config, LanguageTrainingConfig(), generator, self._num_words)

    def _hidden(self, part: Exercise) -> Tensor:
        tokens_BL, _, source_BS = part.to(self._loaded.device)
        return self._loaded.model.hidden(tokens_BL, source_BS)
