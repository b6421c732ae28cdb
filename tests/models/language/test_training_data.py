"""What language models are asked: masked, next and hidden tokens; and the counts that they are compared with."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bioattn.models.language.simple_models import ContextCounts
from bioattn.models.language.windows import IGNORED, corrupted, masked
from bioattn.sequences.vocabulary import CLS, EOS, MASK, SPECIAL


def make_window(length: int, seed: int = 0) -> np.ndarray:
    words = len(SPECIAL) + np.random.default_rng(seed).integers(4, size=length)
    return np.concatenate([[CLS], words, [EOS]])


def test_masks_are_those_of_bert():
    """15 % of the words are to be restored: 80 % of them masked, 10 % other words, 10 % left alone."""
    window = make_window(20_000)
    hidden, targets = masked(window, 0.15, np.random.default_rng(1), 4)
    chosen = targets != IGNORED
    assert chosen.sum() == 3_000
    assert (targets[chosen] == window[chosen]).all()
    assert not chosen[[0, -1]].any()
    assert (hidden[~chosen] == window[~chosen]).all()
    assert (hidden[chosen] == MASK).mean() == pytest.approx(0.8, abs=0.03)
    # One in four of the words put in by chance is the word that was there.
    assert (hidden[chosen] == window[chosen]).mean() == pytest.approx(0.1 + 0.1 / 4, abs=0.02)


@given(length=st.integers(1, 60), share=st.floats(0.05, 0.6), span=st.floats(1, 5), seed=st.integers(0, 99))
def test_source_and_target_hold_the_whole_window_between_them(
    length: int, share: float, span: float, seed: int
):
    window = make_window(length, seed)
    source, target = corrupted(window, share, span, 8, np.random.default_rng(seed), 4)
    assert target[0] == CLS
    assert target[-1] == EOS
    spans = {}
    for token in target[1:-1].tolist():
        if token >= len(SPECIAL) + 4:
            spans[token] = []
        else:
            spans[max(spans)].append(token)
    restored = [each for token in source.tolist() for each in spans.get(token, [token])]
    assert restored == window.tolist()
    assert all(spans.values())


def plain_probability(
    sequences: list[list[int]], order: int, before: list[int], num_words: int
) -> np.ndarray:
    """Witten–Bell's mixture, one context at a time."""
    probability = np.full(num_words, 1 / num_words)
    for k in range(order + 1):
        if len(before) < k or -1 in before[len(before) - k :]:
            break
        following: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
        for words in sequences:
            for place in range(k, len(words)):
                context = tuple(words[place - k : place])
                if -1 not in context and words[place] >= 0:
                    following[context][words[place]] += 1
        counts = following[tuple(before[len(before) - k :])]
        total, kinds = sum(counts.values()), len(counts)
        if total:
            observed = np.array([counts[word] for word in range(num_words)]) / total
            share = kinds / (total + kinds)
            probability = share * probability + (1 - share) * observed
    return probability


def test_counts_give_the_mixture_of_witten_and_bell():
    random = np.random.default_rng(5)
    sequences = [random.integers(-1, 3, size=size) for size in (40, 3, 25)]
    counts = ContextCounts(3, order=2)
    for words in sequences:
        counts.learn(words)
    query = random.integers(-1, 3, size=30)
    found = counts.probabilities(query)
    plain = [each.tolist() for each in sequences]
    for place in range(len(query)):
        expected = plain_probability(plain, 2, query[:place].tolist(), 3)
        assert np.allclose(found[place], expected), place
    assert np.allclose(found.sum(-1), 1)
