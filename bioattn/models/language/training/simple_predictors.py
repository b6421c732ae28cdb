"""Linear models on counts, letters and mean embeddings, with which fine-tuned models are compared.

Shape suffixes: N rows, F features, W outputs of a target.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.models.language.training.targets import Wanted

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
    features_NF: Features,
    wanted: Wanted,
    values_N: Tensor,
    score: Callable[[Linear], float],
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
