"""The simple model that translation models are compared with: counts of a few tokens around the one to predict."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bioattn.sequences.pairs import Pair, Tokens
from bioattn.sequences.vocabulary import EOS

NO_TOKEN = 0


@dataclass(frozen=True, slots=True)
class Table:
    """What followed each context in training."""

    contexts: NDArray[np.int64]
    """Those that were seen, ascending."""
    counts: NDArray[np.float64]
    """(contexts, tokens)."""


class AlignedCounts:
    """Probabilities of a target token by counts of contexts that grow by one token after the other.

    Where source and target are as long in (nearly) all pairs, a context is the source token of the same place, the
    target token before, the source tokens beside, and the target token two before; elsewhere the target tokens
    before. Each order is mixed with the one below by Witten and Bell's weights.
    """

    def __init__(self, pairs: Sequence[Pair], num_tokens: int, num_source: int) -> None:
        differing = sum(abs(len(pair.source) - len(pair.target)) > 1 for pair in pairs)
        self.aligned = differing <= len(pairs) / 20
        self.num_tokens, self.base = num_tokens, max(num_tokens, num_source)
        contexts, targets = zip(*(self._contexts(pair) for pair in pairs), strict=True)
        context_FN, target_N = np.concatenate(contexts, 1), np.concatenate(targets)
        self.tables = [self._counted(codes, target_N) for codes in context_FN]

    @property
    def name(self) -> str:
        return f"counts of {'aligned tokens' if self.aligned else 'the tokens before'}"

    def _contexts(self, pair: Pair) -> tuple[NDArray[np.int64], Tokens]:
        """A number for each context of each order (F, N), and the tokens to predict, `<eos>` the last."""
        target = np.append(pair.target, EOS)
        size = len(target)
        before = np.concatenate([[NO_TOKEN] * 3, pair.target])
        if self.aligned:
            source = np.concatenate([[NO_TOKEN], pair.source, [EOS] + [NO_TOKEN] * size])
            features = [source[1:], before[2:], source, source[2:], before[1:]]
        else:
            features = [before[2:], before[1:], before]
        codes = [np.zeros(size, np.int64)]
        for each in features:
            codes.append(codes[-1] * self.base + each[:size])
        return np.stack(codes), target

    def _counted(self, codes: NDArray[np.int64], targets: Tokens) -> Table:
        contexts, place = np.unique(codes, return_inverse=True)
        cells = np.bincount(place * self.num_tokens + targets, minlength=len(contexts) * self.num_tokens)
        return Table(contexts, cells.reshape(len(contexts), -1).astype(np.float64))

    def probabilities(self, pair: Pair) -> tuple[NDArray[np.float64], Tokens]:
        """Of each token of a target and of `<eos>` behind it the probabilities (N, tokens); and these tokens."""
        context_FN, targets = self._contexts(pair)
        probability_NV = np.full((len(targets), self.num_tokens), 1.0 / self.num_tokens)
        for codes, table in zip(context_FN, self.tables, strict=True):
            place = np.minimum(np.searchsorted(table.contexts, codes), len(table.contexts) - 1)
            seen = table.contexts[place] == codes
            rows_MV = table.counts[place[seen]]
            total_M1, kinds_M1 = rows_MV.sum(-1, keepdims=True), (rows_MV > 0).sum(-1, keepdims=True)
            probability_NV[seen] = (kinds_M1 * probability_NV[seen] + rows_MV) / (total_M1 + kinds_M1)
        return probability_NV, targets

    def sums(self, pair: Pair) -> NDArray[np.float64]:
        """Number, surprise in nats and hits of the tokens of one target and its end."""
        probability_NV, targets = self.probabilities(pair)
        own = probability_NV[np.arange(len(targets)), targets]
        return np.array([len(targets), -np.log(own).sum(), (probability_NV.argmax(-1) == targets).sum()])
