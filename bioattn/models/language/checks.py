"""What heads and attention of language models are judged by: windows of sequences, and random words given twice.

Shape suffixes: B or N windows, L tokens, M predicted positions, V tokens of the vocabulary, W words.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.checks.engine import CheckSettings, Evidence
from bioattn.checks.tokens import TokenProbe
from bioattn.choices import SPLIT_NAMES, TEST, VALIDATION
from bioattn.errors import BioattnError
from bioattn.inference.inputs import HELD, Inputs, path_in
from bioattn.inference.token_heads import TokenHeadScorer
from bioattn.io.files import sha256_of
from bioattn.models.language.config import LanguageTrainingConfig, Shape
from bioattn.models.language.layers import is_word
from bioattn.models.language.source import LETTERS, read_tokens
from bioattn.models.language.windows import Exercise, Windows, exercise
from bioattn.sequences.sequence_dataset import SEQUENCE_DATASET, SequenceDataset, open_sequence_dataset
from bioattn.sequences.vocabulary import CLS, MASK, SPECIAL, UNKNOWN
from bioattn.store.kinds import Candidate
from bioattn.system.progress import Progress

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
LONGEST, SHORTEST = 256, 8
"""Most and least words of a window."""
ENOUGH, SHORTENED = 40, 32
"""Windows that there should be, for which they are shortened to so many words."""
BATCH_TOKENS = 8192


class LanguageHeadScorer(TokenHeadScorer[Exercise]):
    """Scores a model's heads on one split of a dataset; but for encoder-decoders also a
    `bioattn.inference.runner.HeadScorer`."""

    item = "window"

    def __init__(self, model: "LoadedLanguageModel", path: Path, split: str, _progress: Progress) -> None:
        """Raises: BioattnError for a dataset that does not fit, or when nothing is on this side."""
        model.require_output()
        dataset = _open_dataset(model, path)
        windows = Windows(dataset, model.config, dataset.segments_in(SPLIT_NAMES.index(split)))
        if not len(windows.segments):
            raise BioattnError(f"{path}: no sequence is in the {split} split; choose another with --split")
        self._loaded = model
        self._num_words = len(dataset.vocabulary.tokens) - len(SPECIAL)
        places = windows.places(WINDOWS)
        self._tokens = tokens = [windows.window(*place) for place in places]
        generator, firsts = np.random.default_rng(SEED), range(0, len(places), BATCH_SIZE)
        parts = [self._exercise(tokens[first : first + BATCH_SIZE], generator) for first in firsts]
        super().__init__(model, [windows.name(*place) for place in places], parts)

    def predicted(self, part: Exercise) -> tuple[Tensor, Tensor]:
        return self._loaded.model.logits(self._hidden(part)), part.targets_BL.to(self._loaded.device)

    def passes(self) -> Iterator[Callable[[], object]]:
        """A pass for each window."""
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


@dataclass(kw_only=True)
class LanguageProbe(TokenProbe):
    """Windows `<cls>`, words, all of one length."""

    loaded: "LoadedLanguageModel"
    positions_M: NDArray[np.int64]
    """Those whose words are predicted."""

    @property
    def known_NL(self) -> NDArray[np.bool_]:  # noqa: N802
        """Windows hold no padding."""
        return np.ones_like(self.tokens_NL, np.bool_)

    @property
    def num_words(self) -> int:
        return len(self.loaded.vocabulary.tokens) - len(SPECIAL)

    @property
    def hidden(self) -> int | None:
        """`<mask>`; None for a decoder, which never saw it."""
        return MASK if self.loaded.config.shape is Shape.ENCODER else None

    @property
    def causal(self) -> bool:
        """Of a decoder, in which the token before a position predicts it; else that at the position does."""
        return self.hidden is None

    def draw_positions(self, random: np.random.Generator) -> NDArray[np.int64]:
        """Of a decoder in the later half, where it has seen something."""
        number, length = self.tokens_NL.shape
        return np.asarray(random.integers(length // 2 if self.causal else 1, length, size=number))

    def queries(self, position_N: NDArray[np.int64]) -> NDArray[np.int64]:
        """The position before of a decoder, else the position."""
        return position_N - int(self.causal)

    def exchangeable(self, position_N: NDArray[np.int64]) -> NDArray[np.bool_]:
        """All words that are seen but that at the query, which needs no attention."""
        position_L = np.arange(self.tokens_NL.shape[1])
        known_NL = (position_L > 0) & (position_L != self.queries(position_N)[:, None])
        return np.asarray(known_NL & (position_L < position_N[:, None]) if self.causal else known_NL)

    def true_log_likelihoods(self) -> NDArray[np.float64]:
        """ln of the probability of the true words at `positions_M`, (N, M), an encoder's hidden all at once."""
        tokens_NL = self.tokens_NL.copy()
        if self.hidden is not None:
            tokens_NL[:, self.positions_M] = self.hidden
        rows = torch.from_numpy(self.queries(self.positions_M)).to(self.loaded.device)
        found = []
        with torch.inference_mode():
            for part, own in self._batches(tokens_NL):
                logits = self.loaded.model.logits(self.loaded.model.hidden(part)[:, rows]).float()
                wanted = torch.from_numpy(self.tokens_NL[own][:, self.positions_M]).to(self.loaded.device)
                likely = logits.log_softmax(-1).gather(-1, wanted[..., None]).squeeze(-1)
                found.append(likely.double().cpu().numpy())
        return np.concatenate(found)

    def word_log_likelihoods(
        self, tokens_NL: NDArray[np.int64], _row_N: NDArray[np.int64], position_N: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        tokens_NL = tokens_NL.copy()
        if self.hidden is not None:
            tokens_NL[np.arange(len(position_N)), position_N] = self.hidden
        found = []
        with torch.inference_mode():
            for part, own in self._batches(tokens_NL):
                rows = torch.from_numpy(self.queries(position_N[own])).to(self.loaded.device)
                chosen = self.loaded.model.hidden(part)[torch.arange(len(rows), device=rows.device), rows]
                words = slice(len(SPECIAL), len(SPECIAL) + self.num_words)
                logits = self.loaded.model.logits(chosen).float()[:, words]
                found.append(logits.log_softmax(-1).double().cpu().numpy())
        return np.concatenate(found)

    def _batches(self, tokens_NL: NDArray[np.int64]) -> Iterator[tuple[torch.Tensor, slice]]:
        """At least two at a time, so that each has another beside it to swap maps with."""
        size = max(2, BATCH_TOKENS // tokens_NL.shape[1])
        firsts = list(range(0, max(1, len(tokens_NL) - 1), size))
        for first, end in zip(firsts, [*firsts[1:], len(tokens_NL)], strict=True):
            yield torch.from_numpy(tokens_NL[first:end]).to(self.loaded.device), slice(first, end)


def _open_dataset(loaded: "LoadedLanguageModel", path: Path) -> SequenceDataset:
    """A dataset, its letters read as the tokens of a model. Raises: BioattnError for another alphabet."""
    found, own = open_sequence_dataset(path), loaded.vocabulary
    if found.vocabulary.alphabet is not own.alphabet or (own.published is None and own != found.vocabulary):
        raise BioattnError(
            f"{path}: holds {found.vocabulary.alphabet} in words of {found.vocabulary.word}; the model reads "
            f"{own.alphabet} in words of {own.word}"
        )
    return replace(found, vocabulary=own)


def make_probe(
    loaded: "LoadedLanguageModel", inputs: Inputs, settings: CheckSettings, _evidence: Evidence
) -> LanguageProbe:
    """`settings.samples` windows drawn from sequences, or from the test side (or else validation) of a dataset.

    Windows are as long as half of the sequences at least; shorter sequences and windows with unknown letters are
    left out.

    Raises: BioattnError for an encoder-decoder, another alphabet, or too few windows.
    """
    loaded.require_output()
    if loaded.config.shape is Shape.ENCODER_DECODER:
        raise BioattnError("the attention of an encoder-decoder cannot be checked; encoders and decoders can")
    held_out, pieces = "", []
    path = path_in(inputs, LETTERS[loaded.vocabulary.alphabet])
    if path is not None and Candidate(path).hdf5_format == SEQUENCE_DATASET.format:
        dataset, sha256 = _open_dataset(loaded, path), sha256_of(path)
        side = TEST if len(dataset.segments_in(TEST)) else VALIDATION
        windows = Windows(dataset, loaded.config, dataset.segments_in(side))
        held_out = SPLIT_NAMES[side]
        for place in windows.places(4 * settings.samples) if len(windows.segments) else []:
            tokens = windows.window(*place)
            pieces.append((windows.name(*place), tokens[is_word(tokens)]))
    else:
        source = read_tokens(inputs, loaded.vocabulary, loaded.config.context)
        pieces = [
            (name, tokens[is_word(tokens)])
            for name, tokens in zip(source.samples.ids, source.items, strict=True)
        ]
        sha256 = source.sha256
    lengths = sorted((len(words) for _, words in pieces), reverse=True)
    usual = lengths[(len(lengths) - 1) // 2] if lengths else 0
    length = min(LONGEST, loaded.config.context - 2, usual, max(SHORTENED, sum(lengths) // ENOUGH))
    found = [
        (f"{name}:{first + 1}", words[first : first + length])
        for name, words in (pieces if length >= SHORTEST else [])
        for first in range(0, len(words) - length + 1, length)
        if not (words[first : first + length] == UNKNOWN).any()
    ]
    random = np.random.default_rng([settings.seed, 0])
    chosen = np.sort(random.permutation(len(found))[: settings.samples])
    words_NL = np.array([found[row][1] for row in chosen], np.int64).reshape(len(chosen), length)
    positions = np.arange(1, length + 1)
    if loaded.config.shape is Shape.ENCODER:
        number = max(1, round(LanguageTrainingConfig().masked * length))
        positions = np.sort(random.permutation(positions)[:number])
    tokens_NL = np.pad(words_NL, ((0, 0), (1, 0)), constant_values=CLS)
    return LanguageProbe(
        loaded=loaded,
        settings=settings,
        inputs=path or HELD,
        ids=[found[row][0] for row in chosen],
        sha256=sha256,
        held_out=held_out,
        tokens_NL=tokens_NL,
        positions_M=positions,
        words_NM=tokens_NL[:, positions] - len(SPECIAL),
    )
