"""Sequences of a FASTA file or in memory as the tokens that a model reads: a `bioattn.inference.run.Source`."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import ascii_letters
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bioattn.choices import PositionEncoding
from bioattn.errors import FormatError, SettingsError
from bioattn.formats.nucleotides import AMBIGUITY_LETTERS, are_nucleotides, count_nucleotides
from bioattn.inference.inputs import HELD, Source, path_in, sequences_in
from bioattn.inference.passes import padded
from bioattn.io.files import sha256_of
from bioattn.models.language.config import LanguageModelConfig
from bioattn.models.language.layers import is_word
from bioattn.models.language.model import SOURCE_TOKENS, TOKENS
from bioattn.sequences.choices import Alphabet
from bioattn.sequences.letters import read_letters, warn_of_nucleotides
from bioattn.sequences.vocabulary import CLS, EOS, PAD, Vocabulary
from bioattn.store.schema import Samples

FIRST_WORD = "first_word"
"""Column of the sample table: where a window begins in its sequence."""
RESIDUES = "query"
"""Column of the sample table: one letter a token, `-` for special ones."""
NAMES = "token_names"
"""List of each sample: what its tokens are called."""
NUCLEOTIDES = "ACGTU" + AMBIGUITY_LETTERS
LETTERS = {
    Alphabet.DNA: NUCLEOTIDES + NUCLEOTIDES.lower(),
    Alphabet.CODON: NUCLEOTIDES + NUCLEOTIDES.lower(),
    Alphabet.PROTEIN: ascii_letters + "*",
    Alphabet.ALIGNMENT: ascii_letters + "*-",
}
"""Letters of sequences: text of these alone is no path."""


class Window(NamedTuple):
    """What a model reads at once of a longer sequence."""

    tokens: NDArray[np.int64]
    """`<cls>`, some words, and `<eos>` where the sequence ends, as in training."""
    first: int
    """Number of its first word in the sequence."""
    kept: slice
    """The tokens whose values are taken from this window."""
    number: int = 0
    """Of the sequence, where there are several."""

    @property
    def words(self) -> NDArray[np.intp]:
        """The words that are kept of it."""
        places = np.arange(len(self.tokens))[self.kept]
        return places[is_word(self.tokens[places])]


def windows(
    tokens: NDArray[np.integer], most: int, vocabulary: Vocabulary, *, causal: bool, number: int = 0
) -> Iterator[Window]:
    """Windows of at most `most` tokens, each half a window behind the one before; one for a short sequence.

    Each of the framed `tokens` is kept in one window: in the one where it lies farthest from an edge or, for
    causal attention, where most tokens come before it, which is at least half a window.
    """
    tokens = tokens.astype(np.int64)
    head = int(vocabulary.begins)
    body = tokens[head:]
    room = min(most - head, len(body))
    starts = [*range(0, len(body) - room, max(1, room // 2)), len(body) - room]
    kept = 0
    for start, following in zip(starts, [*starts[1:], len(body)], strict=True):
        end = start + room
        next_kept = (following + end) // 2 if following < len(body) and not causal else end
        first = kept - start + head if kept else 0
        read = np.concatenate([tokens[:head], body[start:end]])
        yield Window(read, start, slice(first, next_kept - start + head), number)
        kept = next_kept


@dataclass(frozen=True)
class TokenSource(Source):
    """Sequences, each `<cls>`, its words, `<eos>`, or windows of them.

    items: a list of their tokens.
    """

    path: Path
    sha256: str

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence."""
        return max(map(len, self.items))

    def padded(self) -> Tensor:
        """All of them, filled up on the right, (B, L)."""
        return padded(self.items, PAD)

    def with_residues(self, vocabulary: Vocabulary) -> "TokenSource":
        """The same with the residues of the tokens, unless these are no proteins or a token is no single one."""
        if vocabulary.alphabet is not Alphabet.PROTEIN:
            return self
        letters = [vocabulary.text(np.array([token])) or "-" for token in range(len(vocabulary.tokens))]
        found = ["".join(letters[token] for token in tokens.tolist()) for tokens in self.items]
        if list(map(len, found)) != list(map(len, self.items)):
            return self
        return replace(self, samples=replace(self.samples, columns={**self.samples.columns, RESIDUES: found}))

    def in_windows(self, most: int, vocabulary: Vocabulary) -> "TokenSource":
        """The same in windows of at most `most` tokens, named after their words: `chr1:0-254`, half-open."""
        ids, tokens, first_words = [], [], []
        lists: Mapping[str, Sequence[Any]] = self.samples.lists
        names: dict[str, list[Any]] = {listed: [] for listed in lists}
        head = int(vocabulary.begins)
        for number, (name, whole) in enumerate(zip(self.samples.ids, self.items, strict=True)):
            for window in windows(whole, most, vocabulary, causal=False):
                last = window.first + int(np.count_nonzero(~np.isin(window.tokens, (CLS, EOS))))
                ids.append(name if len(whole) <= most else f"{name}:{window.first}-{last}")
                tokens.append(window.tokens)
                first_words.append(window.first)
                for listed, of_samples in lists.items():
                    called = list(of_samples[number])
                    words = called[head + window.first :][: len(window.tokens) - head]
                    names[listed].append(called[:head] + words)
        return replace(self, items=tokens, samples=_samples(ids, tokens, first_words, names))


def _samples(
    ids: list[str],
    tokens: Sequence[NDArray[np.integer]],
    first_words: Sequence[int],
    names: Mapping[str, list[Any]],
) -> Samples:
    """first_words: where each begins in its sequence."""
    lengths = np.array([len(each) for each in tokens], dtype=np.int32)
    first = np.array(first_words, dtype=np.int64)
    return Samples({"id": ids, TOKENS: lengths, SOURCE_TOKENS: lengths, FIRST_WORD: first}, names)


def letters_in(inputs: Any, alphabet: Alphabet) -> tuple[Path | None, Iterator[tuple[str, str]]]:
    """Names and letters of anything that `bioattn.inference.inputs` reads, and the path of a file."""
    path = path_in(inputs, LETTERS[alphabet])
    if path is not None:
        return path, read_letters(path, alphabet)
    end = "*" if alphabet is Alphabet.PROTEIN else ""
    ids, sequences, _ = sequences_in(inputs, numbers=alphabet in (Alphabet.DNA, Alphabet.CODON))
    return None, ((name, letters.removesuffix(end)) for name, letters in zip(ids, sequences, strict=True))


def tokens_at_once(config: LanguageModelConfig, wanted: int | None) -> int:
    """Tokens that a model reads at once: its context, unless others are `wanted`.

    Raises: SettingsError for more than a model has learned positions for, and for parts of an alignment.
    """
    if wanted is None:
        return config.context
    if wanted != config.context and config.alphabet is Alphabet.ALIGNMENT:
        raise SettingsError(f"--window {wanted}: models of an alignment read whole rows; leave it out")
    if wanted > config.context and config.positions is PositionEncoding.LEARNED:
        raise SettingsError(
            f"--window {wanted}: the model has learned positions for {config.context:,} tokens; give at most these"
        )
    return wanted


def read_tokens(
    inputs: Any, vocabulary: Vocabulary, context: int, *, whole: bool = False, named: bool = False
) -> TokenSource:
    """Read the sequences of a FASTA file, or the rows of an alignment, which have `context` tokens.

    inputs: the path of such a file, or what else `letters_in` reads. whole: whether sequences are not to be cut
    into windows. named: whether the samples are to have the list `NAMES`.
    """
    ids, tokens, names = [], [], []
    letters = nucleotides = 0
    digest = hashlib.sha256()
    path, sequences = letters_in(inputs, vocabulary.alphabet)
    shown = path or HELD
    for name, sequence in sequences:
        where = f"{shown}: {name}"
        if path is None:
            digest.update(f"{name}\0{sequence}\0".encode())
        letters += len(sequence)
        nucleotides += count_nucleotides(sequence)
        if not sequence:
            raise FormatError(f"{where}: has no sequence")
        ids.append(name)
        words = vocabulary.words(sequence, where)
        framed = framed_tokens(words, len(sequence), vocabulary, context, where, whole=whole)
        tokens.append(framed.astype(np.int32))
        if named:
            names.append(vocabulary.names(framed, sequence))
    if vocabulary.alphabet is Alphabet.PROTEIN and are_nucleotides(nucleotides, letters):
        warn_of_nucleotides(shown, "a model of DNA")
    sha256 = digest.hexdigest() if path is None else sha256_of(path)
    samples = _samples(ids, tokens, [0] * len(ids), {NAMES: names} if named else {})
    return TokenSource(tokens, samples, shown, sha256)


def framed_tokens(
    words: NDArray[np.integer],
    num_letters: int,
    vocabulary: Vocabulary,
    context: int,
    where: str,
    *,
    whole: bool = True,
) -> NDArray[np.int64]:
    """The words of a sequence as a model reads them. where: for messages. whole and what is raised: as
    `read_tokens`."""
    if vocabulary.alphabet is Alphabet.CODON and num_letters % vocabulary.word:
        raise FormatError(f"{where}: {num_letters:,} bases are not whole codons")
    if not len(words):
        raise FormatError(f"{where}: is shorter than a token of {vocabulary.word} letters")
    framed = vocabulary.framed(words)
    room = context - len(framed) + len(words)
    if vocabulary.alphabet is Alphabet.ALIGNMENT and len(words) != room:
        raise FormatError(
            f"{where}: has {len(words):,} columns; the model's alignment has {room:,}: align the row to it"
        )
    if whole and len(words) > room:
        raise FormatError(
            f"{where}: is {len(words):,} tokens long; the model reads {room:,} at once: cut it into "
            "pieces of at most so many, or train with a larger context"
        )
    return framed
