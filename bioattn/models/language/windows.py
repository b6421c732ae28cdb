"""Windows of a sequence dataset as tokens, and what a model is to predict of them.

Shape suffixes: B windows, L tokens, S tokens of the source.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.formats.nucleotides import reverse_complement
from bioattn.inference.passes import IGNORED, padded
from bioattn.models.language.config import LanguageModelConfig, LanguageTrainingConfig, Shape
from bioattn.sequences.choices import Alphabet
from bioattn.sequences.sequence_dataset import SequenceDataset
from bioattn.sequences.vocabulary import CLS, EOS, MASK, PAD, SPECIAL, UNKNOWN

KEPT, REPLACED = 0.1, 0.1
"""In training a tenth of the chosen tokens stays, a tenth becomes another word, the others `<mask>` (BERT)."""


class Exercise(NamedTuple):
    """One batch of windows, and what is to be predicted."""

    tokens_BL: Tensor
    """What the only stack, or the decoder, reads."""
    targets_BL: Tensor
    """Tokens to predict; `IGNORED` elsewhere."""
    source_BS: Tensor | None
    """What the encoder of an encoder-decoder reads."""

    def part(self, rows: slice) -> "Exercise":
        source_BS = None if self.source_BS is None else self.source_BS[rows]
        return Exercise(self.tokens_BL[rows], self.targets_BL[rows], source_BS)

    def to(self, device: torch.device) -> "Exercise":
        source_BS = None if self.source_BS is None else self.source_BS.to(device)
        return Exercise(self.tokens_BL.to(device), self.targets_BL.to(device), source_BS)


@dataclass(frozen=True, slots=True)
class Windows:
    """One side of a dataset, cut into windows that a model can read."""

    dataset: SequenceDataset
    config: LanguageModelConfig
    segments: NDArray[np.int64]
    """Numbers of the segments."""
    weights: NDArray[np.float64] | None = None
    """How often each segment is drawn, of rows of an alignment; None: as often as it has letters."""
    number_to: NDArray[np.int64] = field(init=False)
    """Windows in all segments up to each one; random windows are drawn by it."""

    def __post_init__(self) -> None:
        lengths = self.dataset.segments.end[self.segments] - self.dataset.segments.start[self.segments]
        object.__setattr__(self, "number_to", np.cumsum(np.maximum(1, lengths // self.letters)))

    @property
    def letters(self) -> int:
        """Letters of the longest window: room for `<cls>` and `<eos>` is kept."""
        return self.dataset.vocabulary.num_letters(self.config.context - 2)

    def random(self, generator: np.random.Generator, *, turned: bool) -> NDArray[np.int64]:
        """Tokens of a random window; each letter is as likely to be in it. turned: perhaps of the other strand."""
        if self.weights is None:
            last = self.number_to[-1]
            place = int(np.searchsorted(self.number_to, generator.integers(last), side="right"))
        else:
            place = int(generator.choice(len(self.segments), p=self.weights / self.weights.sum()))
        codes = self.dataset.segment(int(self.segments[place]))
        spare = len(codes) - self.letters
        first = 0
        if spare > 0:
            first = int(generator.integers(spare + 1))
            if self.dataset.vocabulary.alphabet is Alphabet.CODON:
                first -= first % self.dataset.vocabulary.word
        if turned and self.dataset.vocabulary.alphabet is Alphabet.DNA and generator.random() < 0.5:
            part = reverse_complement(codes[first : first + self.letters])
            return self._tokens(part, at_start=spare <= 0, at_end=spare <= 0)
        return self._tokens(codes[first : first + self.letters], at_start=first == 0, at_end=first >= spare)

    def places(self, number: int) -> list[tuple[int, int]]:
        """Segments and first letters of at most `number` windows, evenly spread over all; always the same ones."""
        places = []
        for segment in self.segments.tolist():
            length = int(self.dataset.segments.end[segment] - self.dataset.segments.start[segment])
            places += [(segment, first) for first in range(0, length, self.letters)]
        chosen = np.unique(np.linspace(0, len(places) - 1, min(number, len(places))).round().astype(int))
        return [places[place] for place in chosen.tolist()]

    def name(self, segment: int, first: int) -> str:
        """A window as `record:start-end`, letters of the record from 1."""
        segments = self.dataset.segments
        start = int(segments.start[segment]) + first
        end = min(start + self.letters, int(segments.end[segment]))
        return f"{self.dataset.ids[segments.record[segment]]}:{start + 1}-{end}"

    def window(self, segment: int, first: int) -> NDArray[np.int64]:
        """Tokens of the window that begins at letter `first` of a segment."""
        codes = self.dataset.segment(segment)
        part = codes[first : first + self.letters]
        return self._tokens(part, at_start=first == 0, at_end=first + len(part) == len(codes))

    def _tokens(self, codes: NDArray[np.uint8], *, at_start: bool, at_end: bool) -> NDArray[np.int64]:
        """`<cls>` stands first in every window, `<eos>` where a segment ends."""
        vocabulary = self.dataset.vocabulary
        # A published word may be shorter than others, so that a window has more tokens than are read at once.
        words = vocabulary.tokenize(np.asarray(codes))[: self.config.context - 2]
        framed = vocabulary.framed(words)
        return framed if at_end else framed[: vocabulary.begins + len(words)]


def exercise(
    windows: list[NDArray[np.int64]],
    config: LanguageModelConfig,
    training: LanguageTrainingConfig,
    generator: np.random.Generator,
    num_words: int,
    *,
    learning: bool = False,
) -> Exercise:
    """What a model of this shape is asked. num_words: words of the vocabulary. learning: as of `masked`."""
    if config.shape is Shape.DECODER:
        following = [np.where(window[1:] == UNKNOWN, IGNORED, window[1:]) for window in windows]
        return Exercise(padded([window[:-1] for window in windows], PAD), padded(following, IGNORED), None)
    if config.shape is Shape.ENCODER:
        pairs = (masked(window, training.masked, generator, num_words, learning) for window in windows)
        hidden, restored = zip(*pairs, strict=True)
        return Exercise(padded(hidden, PAD), padded(restored, IGNORED), None)
    sizes = training.masked, training.span, config.sentinels
    sources, targets = zip(*(corrupted(each, *sizes, generator, num_words) for each in windows), strict=True)
    return Exercise(
        padded([target[:-1] for target in targets], PAD),
        padded([target[1:] for target in targets], IGNORED),
        padded(sources, PAD),
    )


def masked(
    tokens: NDArray[np.int64], share: float, generator: np.random.Generator, num_words: int, learning: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Tokens with some of the words hidden, and the words to restore (Devlin et al. 2019).

    learning: some are kept or replaced instead; where a model is judged, it would read the answers there.
    """
    words = np.flatnonzero(tokens >= len(SPECIAL))
    chosen = generator.permutation(words)[: max(1, round(share * len(words)))]
    targets = np.full_like(tokens, IGNORED)
    targets[chosen] = tokens[chosen]
    hidden = tokens.copy()
    hidden[chosen] = MASK
    if learning:
        fate = generator.random(len(chosen))
        kept, replaced = chosen[fate < KEPT], chosen[fate >= 1 - REPLACED]
        hidden[kept] = tokens[kept]
        hidden[replaced] = len(SPECIAL) + generator.integers(num_words, size=len(replaced))
    return hidden, targets


def corrupted(
    tokens: NDArray[np.int64],
    share: float,
    span: float,
    sentinels: int,
    generator: np.random.Generator,
    num_words: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Source with spans replaced by sentinels, and the spans, each behind its sentinel (Raffel et al. 2020).

    The target begins with `<cls>` and ends with `<eos>`.
    """
    inner = np.arange(1, len(tokens))
    number = max(1, round(share * len(inner)))
    spans = int(np.clip(round(number / span), 1, min(sentinels, number, max(1, len(inner) - number))))
    hidden = _random_lengths(number, spans, generator)
    between = _random_lengths(len(inner) - number, spans, generator, first_may_be_empty=True)
    first_sentinel = len(SPECIAL) + num_words
    source, target = [tokens[:1]], [np.array([CLS])]
    place = 1
    for index, (kept, lost) in enumerate(zip(between, hidden, strict=True)):
        sentinel = np.array([first_sentinel + index])
        source += [tokens[place : place + kept], sentinel]
        target += [sentinel, tokens[place + kept : place + kept + lost]]
        place += kept + lost
    source.append(tokens[place:])
    target.append(np.array([EOS]))
    return np.concatenate(source), np.concatenate(target)


def _random_lengths(
    total: int, parts: int, generator: np.random.Generator, *, first_may_be_empty: bool = False
) -> list[int]:
    """`parts` numbers of at least 1 (the first perhaps 0) that add up to `total`."""
    places = total + first_may_be_empty
    cuts = (
        np.sort(generator.permutation(np.arange(1, places))[: parts - 1]) if places > 1 else np.zeros(0, int)
    )
    lengths = np.diff(np.concatenate([[0], cuts, [places]])).tolist()
    lengths[0] -= int(first_may_be_empty)
    return [*lengths, *([0] * (parts - len(lengths)))]
