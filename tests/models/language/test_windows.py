"""Sequences longer than a model reads at once, what is asked of windows in training, and simple counts."""

from collections import Counter, defaultdict

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bioattn.choices import PositionEncoding
from bioattn.inference.passes import IGNORED
from bioattn.models.language.config import Shape
from bioattn.models.language.file_kinds import read_embeddings
from bioattn.models.language.simple_models import ContextCounts
from bioattn.models.language.source import read_tokens, windows
from bioattn.models.language.windows import corrupted, masked
from bioattn.sequences.choices import Alphabet
from bioattn.sequences.vocabulary import CLS, EOS, MASK, SPECIAL, Vocabulary
from bioattn.store.reader import open_attention
from tests.making import bioattn
from tests.models.language.made_models import loaded_of, log_likelihoods, make_model, saved

DNA = Vocabulary(Alphabet.DNA)
MOST = 24
"""The context of the models of `make_model`."""
LONG = "".join(np.random.default_rng(5).choice(list("ACGT"), 71))


def framed(words):
    return np.concatenate([[CLS], len(SPECIAL) + np.arange(words) % 4, [EOS]])


@pytest.mark.parametrize("words", [1, 21, 22, 23, 24, 40, 333])
@pytest.mark.parametrize("causal", [False, True])
def test_each_token_is_kept_once_where_it_sees_most(words, causal):
    tokens = framed(words)
    found = list(windows(tokens, MOST, DNA, causal=causal))
    assert np.array_equal(np.concatenate([window.tokens[window.kept] for window in found]), tokens)
    assert all(len(window.tokens) <= MOST and window.tokens[0] == CLS for window in found)
    assert (len(found) == 1) == (len(tokens) <= MOST)
    spans = [(window.first + 1, window.first + len(window.tokens)) for window in found]
    for window, (start, end) in zip(found, spans, strict=True):
        for place in range(max(1, start + window.kept.start - 1), start + window.kept.stop - 1):

            def seen(span, place=place):
                return place - span[0] if causal else min(place - span[0], span[1] - 1 - place)

            # Nothing lies before the first window or behind the last one: its outer edge is none.
            holding = [span for span in spans if span[0] <= place < span[1]]
            if causal:
                assert seen((start, end)) == max(map(seen, holding))
            elif place >= MOST and place < len(tokens) - MOST:
                assert seen((start, end)) >= max(map(seen, holding)) - 1


@pytest.mark.parametrize("shape", [Shape.ENCODER, Shape.DECODER])
def test_scores_of_long_sequences_are_those_of_their_windows(shape):
    model = make_model(shape)
    loaded = loaded_of(model)
    tokens = DNA.framed(DNA.words(LONG, "long"))
    found = log_likelihoods(loaded, tokens)
    assert len(found) == len(tokens) - 1
    for place in range(1, len(tokens) - 1):
        # Windows begin behind <cls> at 1, 12, 23, …; the last one ends with the sequence.
        starts = [*range(1, len(tokens) - 23, 11), len(tokens) - 23]
        holding = [start for start in starts if start <= place < start + 23]
        likely = []
        for start in holding:
            piece = np.concatenate([[CLS], tokens[start : start + 23]])
            own = place - start + 1
            with torch.no_grad():
                if shape is Shape.ENCODER:
                    piece[own] = MASK
                    logits = model(torch.from_numpy(piece)[None])[0, own]
                else:
                    logits = model(torch.from_numpy(piece)[None])[0, own - 1]
            likely.append(logits.log_softmax(-1)[tokens[place]].item())
        if shape is Shape.DECODER:
            assert found[place - 1] == pytest.approx(likely[0], abs=1e-4)
        else:
            assert min(abs(found[place - 1] - each) for each in likely) < 1e-4


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("long")
    for name, positions in (("rotary", PositionEncoding.ROTARY), ("learned", PositionEncoding.LEARNED)):
        saved(folder / name, make_model(Shape.ENCODER, positions))
    (folder / "long.fa").write_text(f">long\n{LONG}\n>short\nACGTAC\n")
    return folder


def test_long_sequences_are_read_in_windows(folder, capsys):
    words = (folder / "learned", folder / "long.fa")
    vectors, attention = folder / "e.h5", folder / "a.h5"
    assert bioattn("run", "language", *words, "-o", folder / "t.tsv", "--embeddings", vectors) == 0
    assert "1 sequence of 2 with more than 24 tokens: read in windows" in capsys.readouterr().err
    assert [line.split("\t")[1] for line in (folder / "t.tsv").read_text().splitlines()[1:]] == ["71", "6"]
    model = make_model(Shape.ENCODER, PositionEncoding.LEARNED)
    (long, _) = read_tokens(folder / "long.fa", DNA, MOST).items
    with torch.no_grad():
        kept = [
            model.hidden(torch.from_numpy(window.tokens)[None])[0, window.kept]
            for window in windows(long, MOST, DNA, causal=False)
        ]
    values = read_embeddings(vectors)
    assert np.allclose(values.iloc[0], torch.cat(kept)[1:-1].mean(0), atol=1e-5)
    assert bioattn("export", "attention", *words, "-o", attention) == 0
    assert bioattn("validate", attention) == 0
    with open_attention(attention) as file:
        assert list(file.samples.index)[:2] == ["long:0-23", "long:11-34"]
        assert list(file.samples.index)[-2:] == ["long:49-71", "short"]
        assert list(file.samples["first_word"])[:3] == [0, 11, 22]
        pieces = list(windows(long, MOST, DNA, causal=False))
        assert np.allclose(file.weights("language.encoder.0", sample="long:11-34").sum(-1), 1, atol=1e-5)
        assert file.weights("language.encoder.0", sample="long:49-71").shape[-1] == len(pieces[-1].tokens)


def test_variants_of_long_sequences_are_scored_in_the_window_around_them(folder, capsys):
    (folder / "v.tsv").write_text(f"sequence\tmutant\nlong\t{LONG[35]}36{'A' if LONG[35] != 'A' else 'C'}\n")
    words = (folder / "learned", folder / "long.fa", "-o", folder / "v.out.tsv", "--variants")
    assert bioattn("run", "language", *words, folder / "v.tsv") == 0
    (folder / "v.tsv").write_text(
        f"sequence\tmutant\nlong\t{LONG[1]}2{'A' if LONG[1] != 'A' else 'C'}:"
        f"{LONG[60]}61{'A' if LONG[60] != 'A' else 'C'}\n"
    )
    assert bioattn("run", "language", *words, folder / "v.tsv") == 1
    assert "lie further apart than the 23 tokens" in capsys.readouterr().err
    (folder / "v.tsv").write_text(f"sequence\tmutant\nlong\t{LONG[1]}2A:{LONG[1]}2C\n")
    assert bioattn("run", "language", *words, folder / "v.tsv") == 1
    assert "v.tsv:2: the mutant" in (said := capsys.readouterr().err)
    assert "names a position twice" in said


def make_window(length: int, seed: int = 0) -> np.ndarray:
    words = len(SPECIAL) + np.random.default_rng(seed).integers(4, size=length)
    return np.concatenate([[CLS], words, [EOS]])


def test_masks_are_those_of_bert():
    """15 % of the words are to be restored: 80 % of them masked, 10 % other words, 10 % left alone."""
    window = make_window(20_000)
    hidden, targets = masked(window, 0.15, np.random.default_rng(1), 4, learning=True)
    chosen = targets != IGNORED
    assert chosen.sum() == 3_000
    assert (targets[chosen] == window[chosen]).all()
    assert not chosen[[0, -1]].any()
    assert (hidden[~chosen] == window[~chosen]).all()
    assert (hidden[chosen] == MASK).mean() == pytest.approx(0.8, abs=0.03)
    # One in four of the words put in by chance is the word that was there.
    assert (hidden[chosen] == window[chosen]).mean() == pytest.approx(0.1 + 0.1 / 4, abs=0.02)
    judged, targets = masked(window, 0.15, np.random.default_rng(1), 4, learning=False)
    assert (targets[judged == MASK] == window[judged == MASK]).all()
    assert ((judged == MASK) == (targets != IGNORED)).all()


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
