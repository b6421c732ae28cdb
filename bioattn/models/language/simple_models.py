"""Simple models to compare language models with: counts of contexts, and linear models on counts, letters and
mean embeddings.

Shape suffixes: N rows, F features, W outputs of a target.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.models.language.targets import Wanted
from bioattn.sequences.vocabulary import SPECIAL
from bioattn.text import counted
from bioattn.training.predicted_tokens import mixed

PSEUDOCOUNT = 5.0
"""Rows that are added to those of an alignment, with all letters alike."""
MAX_ORDER = 8
MAX_CONTEXTS = 1 << 22
"""Most cells of a table of counts."""
PENALTIES = (1e-3, 1e-1, 1e-2, 1e-4, 1e-5)
"""Of features whose mean squared row length is 1, on half the squared length of a target's weights; the first one
where there are no validation data."""
MAX_CELLS = 1 << 26
"""Most numbers of a table of features."""
LONGEST = 6
"""Words of a counted k-mer at most."""
REACH = 7
"""Tokens on either side by whose words a tag is predicted."""
LBFGS_STEPS = 100
Features = NDArray[np.float32]


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
            # Not by bincount, which would pass over the whole table for each of thousands of proteins.
            np.add.at(counts.reshape(-1), context[known] * self.num_words + following[known], 1.0)

    def probabilities(self, words: NDArray[np.int64], order: int | None = None) -> NDArray[np.float64]:
        """Of every word the probabilities (N, num_words) given the `order` words before it (None: all counted)."""
        probability_NV = np.full((len(words), self.num_words), 1.0 / self.num_words)
        for k, counts in enumerate(self._counts[: None if order is None else order + 1]):
            context, _ = self._contexts(words, k)
            known = np.flatnonzero(context >= 0)
            rows_MV = counts[context[known]]
            seen = rows_MV.any(-1)
            rows = known[seen] + k
            probability_NV[rows] = mixed(rows_MV[seen], probability_NV[rows])
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


@dataclass(frozen=True, slots=True)
class Linear:
    mean_F: Tensor
    scale: float
    weight_WF: Tensor
    bias_W: Tensor

    def outputs(self, features_NF: Features) -> Tensor:
        """Outputs (N, W) as a readout gives them."""
        scaled = (torch.from_numpy(features_NF) - self.mean_F) * self.scale
        return scaled @ self.weight_WF.T + self.bias_W


def fit_linear(
    features_NF: Features, wanted: Wanted, values_N: Tensor, score: Callable[[Linear], float]
) -> Linear:
    """The linear model that minimises the mean loss and a penalty on its squared weights; of all `PENALTIES` the
    one with the highest `score`."""
    rows = wanted.known(values_N)
    known_NF, values_N = torch.from_numpy(features_NF)[rows], values_N[rows]
    mean_F = known_NF.mean(0)
    known_NF = known_NF - mean_F
    scale = float(known_NF.square().sum(1).mean().clamp(min=1e-12).rsqrt())
    known_NF *= scale
    width = wanted.target.width
    weight_WF = torch.zeros(width, known_NF.shape[1], requires_grad=True)
    bias_W = torch.zeros(width, requires_grad=True)
    found: list[tuple[float, Linear]] = []
    for penalty in PENALTIES:
        solver = torch.optim.LBFGS(
            [weight_WF, bias_W], max_iter=LBFGS_STEPS, history_size=20, line_search_fn="strong_wolfe"
        )

        def loss(penalty: float = penalty) -> Tensor:
            weight_WF.grad = bias_W.grad = None
            outputs = torch.nn.functional.linear(known_NF, weight_WF, bias_W)
            value = wanted.losses(outputs, values_N) / len(values_N) + penalty / 2 * weight_WF.square().sum()
            value.backward()
            return value

        with torch.enable_grad():
            solver.step(loss)
        model = Linear(mean_F, scale, weight_WF.detach().clone(), bias_W.detach().clone())
        found.append((score(model), model))
    return max(found, key=lambda each: each[0])[1]


def sequence_features(words: Sequence[NDArray[np.int64]], num_words: int) -> Iterator[tuple[str, Features]]:
    """Features (N, F) of whole sequences, with the name of what they are. words: from 0 on, unknown ones below."""
    longest = 1
    while longest < LONGEST and len(words) * num_words ** (longest + 1) <= MAX_CELLS:
        longest += 1
    counts = [_counts(words, num_words, k) for k in range(1, longest + 1)]
    # Square roots: a word that occurs often tells little more than one that occurs twice.
    yield f"{'1- to ' if longest > 1 else ''}{longest}-words", np.sqrt(np.concatenate(counts, axis=1))
    length = len(words[0])
    if length and all(len(each) == length for each in words):
        table_NL = np.stack(words)
        letters = [_one_hot(table_NL, num_words)]
        if length > 1 and len(words) * length * num_words**2 <= MAX_CELLS:
            pairs_NL = table_NL[:, :-1] * num_words + table_NL[:, 1:]
            pairs_NL[(table_NL[:, :-1] < 0) | (table_NL[:, 1:] < 0)] = -1
            yield "words by position", letters[0]
            letters.append(_one_hot(pairs_NL, num_words**2))
            yield "words and pairs by position", np.concatenate(letters, axis=1)
        elif letters[0].size <= MAX_CELLS:
            yield "words by position", letters[0]


def token_features(
    tokens: Sequence[NDArray[np.int64]], num_words: int, first: int
) -> Iterator[tuple[str, Features]]:
    """Features (N, F) of all tokens of all sequences, one after the other: the words around each.

    Words are the tokens from `first` on. Nothing where there are too many of them.
    """
    reach, total = REACH, sum(map(len, tokens))
    while reach and total * (2 * reach + 1) * num_words > MAX_CELLS:
        reach -= 1
    if total * (2 * reach + 1) * num_words > MAX_CELLS:
        return
    parts = []
    for each in tokens:
        words = np.pad(np.where(each < first, -1, each - first), reach, constant_values=-1)
        parts.append(np.lib.stride_tricks.sliding_window_view(words, 2 * reach + 1))
    yield f"words within {reach}", _one_hot(np.concatenate(parts), num_words, constant=True)


def _counts(words: Sequence[NDArray[np.int64]], num_words: int, k: int) -> Features:
    """How often each word of k words occurs, as a share of all places."""
    counts = np.zeros((len(words), num_words**k), np.float32)
    for row, each in zip(counts, words, strict=True):
        places = len(each) - k + 1
        if places > 0:
            windows = np.lib.stride_tricks.sliding_window_view(each, k)
            known = windows[((windows >= 0) & (windows < num_words)).all(1)]
            np.add.at(row, known @ num_words ** np.arange(k - 1, -1, -1), 1.0 / places)
    return counts


def _one_hot(words_NL: NDArray[np.int64], num_words: int, *, constant: bool = False) -> Features:
    """Columns of (N, L · num_words) that are not the same in all rows. constant: keep those, too."""
    hot = np.zeros((*words_NL.shape, num_words), np.float32)
    known = (words_NL >= 0) & (words_NL < num_words)
    hot[(*np.nonzero(known), words_NL[known])] = 1.0
    flat = hot.reshape(len(words_NL), -1)
    return flat if constant else flat[:, np.ptp(flat, axis=0) > 0]
