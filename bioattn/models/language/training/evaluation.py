"""Counts of short contexts, with which language models are compared."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from bioattn.sequences.vocabulary import SPECIAL
from bioattn.text import counted

PSEUDOCOUNT = 5.0
"""Rows that are added to those of an alignment, with all letters alike."""
MAX_ORDER = 8
MAX_CONTEXTS = 1 << 22
"""Most cells of a table of counts."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Frequencies of tokens in each column of an alignment, rows weighted."""

    nats_LV: NDArray[np.float64]
    """ln of the frequency of each token (special ones, too) at each place where one is predicted."""

    name: ClassVar[str] = "profile of the alignment"
    """The row of tables."""

    @classmethod
    def counted(
        cls, rows: Iterable[NDArray[np.int64]], weights: NDArray[np.float64], num_tokens: int
    ) -> "Profile":
        """Count the predicted tokens of rows; `PSEUDOCOUNT` is added to each column, shared by the words."""
        count_LV = np.zeros((0, num_tokens))
        for row, weight in zip(rows, weights, strict=True):
            if not len(count_LV):
                count_LV = np.zeros((len(row), num_tokens))
            count_LV[np.arange(len(row)), row] += weight
        count_LV[:, len(SPECIAL) :] += PSEUDOCOUNT / (num_tokens - len(SPECIAL))
        count_LV[:, : len(SPECIAL)] += PSEUDOCOUNT / num_tokens**2
        return cls(np.log(count_LV / count_LV.sum(-1, keepdims=True)))

    def sums(self, shown: NDArray[np.int64], targets: NDArray[np.int64]) -> NDArray[np.float64]:
        """As `SimpleModel.sums`; `shown` is not looked at."""
        chosen = np.flatnonzero(targets >= 0)
        nats_NV = self.nats_LV[chosen, len(SPECIAL) :]
        wanted = targets[chosen]
        own = nats_NV[np.arange(len(chosen)), wanted]
        return np.array([len(chosen), -own.sum(), (nats_NV.argmax(-1) == wanted).sum()])


class ContextCounts:
    """Probabilities of a word given the words before it, by counts: orders 0 to `order`, each mixed with the order
    below it by Witten and Bell's weights (contexts that were followed by many different words count less)."""

    def __init__(self, num_words: int, order: int | None = None) -> None:
        """order: the longest context; None: as long as the table stays small."""
        self.num_words = num_words
        fitting = int(math.log(MAX_CONTEXTS) / math.log(num_words)) - 1
        self.order = min(MAX_ORDER, max(0, fitting)) if order is None else order
        self._counts = [np.zeros((num_words**k, num_words), np.float64) for k in range(self.order + 1)]

    def learn(self, words: NDArray[np.int64]) -> None:
        """Count a sequence of words 0 to num_words − 1; −1 is no word, and no context reaches across one."""
        for k, counts in enumerate(self._counts):
            context, following = self._contexts(words, k)
            known = (context >= 0) & (following >= 0)
            cells = np.bincount(context[known] * self.num_words + following[known], minlength=counts.size)
            counts += cells.reshape(counts.shape)

    def probabilities(self, words: NDArray[np.int64], order: int | None = None) -> NDArray[np.float64]:
        """Of every word the probabilities (N, num_words) given the `order` words before it (None: all counted)."""
        probability_NV = np.full((len(words), self.num_words), 1.0 / self.num_words)
        for k, counts in enumerate(self._counts[: None if order is None else order + 1]):
            context, _ = self._contexts(words, k)
            known = np.flatnonzero(context >= 0)
            rows_MV = counts[context[known]]
            total_M1, kinds_M1 = rows_MV.sum(-1, keepdims=True), (rows_MV > 0).sum(-1, keepdims=True)
            weight_M1 = kinds_M1 / np.maximum(total_M1 + kinds_M1, 1.0)
            weight_M1[total_M1 == 0] = 1.0
            rows = known + k
            observed_MV = rows_MV / np.maximum(total_M1, 1.0)
            probability_NV[rows] = weight_M1 * probability_NV[rows] + (1 - weight_M1) * observed_MV
        return probability_NV

    def _contexts(self, words: NDArray[np.int64], k: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The number of the k words before each word from the k-th on, −1 where one is unknown; and the words."""
        if len(words) <= k:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        following = words[k:]
        context = np.zeros(len(following), np.int64)
        unknown = np.zeros(len(following), np.bool_)
        for back in range(k, 0, -1):
            before = words[k - back : len(words) - back]
            unknown |= before < 0
            context = context * self.num_words + before
        return np.where(unknown, -1, context), following


@dataclass(slots=True)
class SimpleModel:
    """Counts of the words before a word and, for hidden words, also of those behind it."""

    before: ContextCounts
    behind: ContextCounts | None
    """Learned on reversed sequences; None where only what stands before is seen."""
    order: int
    """Words of the longest context that is used."""

    @classmethod
    def learned(
        cls,
        sequences: Iterable[NDArray[np.int64]],
        num_words: int,
        validation: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]],
        *,
        both_sides: bool,
    ) -> "SimpleModel":
        """Count the words of training sequences; the order is chosen on `validation`, as `sums` takes it."""
        before = ContextCounts(num_words)
        model = cls(before, ContextCounts(num_words) if both_sides else None, before.order)
        for words in sequences:
            model.before.learn(words)
            if model.behind is not None:
                model.behind.learn(words[::-1])
        nats = []
        for model.order in range(before.order + 1):
            nats.append(sum(model.sums(shown, targets)[1] for shown, targets in validation))
        model.order = int(np.argmin(nats)) if validation else before.order
        return model

    @property
    def name(self) -> str:
        return (
            f"counts of {counted(self.order, 'word')} {'before' if self.behind is None else 'on either side'}"
        )

    def sums(self, shown: NDArray[np.int64], targets: NDArray[np.int64]) -> NDArray[np.float64]:
        """`SUMS` over the words `targets` ≥ 0 of one sequence. shown: all words, −1 where one is hidden."""
        probability_NV = self.before.probabilities(shown, self.order)
        if self.behind is not None:
            alone_V = self.before.probabilities(np.full(1, -1))[0]
            behind_NV = self.behind.probabilities(shown[::-1], self.order)[::-1]
            probability_NV = probability_NV * behind_NV / alone_V
            probability_NV /= probability_NV.sum(-1, keepdims=True)
        chosen = np.flatnonzero(targets >= 0)
        wanted = targets[chosen]
        own = probability_NV[chosen, wanted]
        right = probability_NV[chosen].argmax(-1) == wanted
        return np.array([len(chosen), -np.log(own).sum(), right.sum()])
