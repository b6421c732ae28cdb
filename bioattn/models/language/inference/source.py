"""A FASTA file as the tokens that a model reads: a `bioattn.inference.runner.Source`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.errors import FormatError
from bioattn.formats.fasta import read_fasta
from bioattn.io.files import sha256_of
from bioattn.models.language.model import SOURCE_TOKENS, TOKENS
from bioattn.sequences.choices import Alphabet
from bioattn.sequences.preparation import aligned_rows
from bioattn.sequences.vocabulary import PAD, Vocabulary
from bioattn.store.schema import Samples


@dataclass(frozen=True, slots=True)
class TokenSource:
    """Sequences, each `<cls>`, its words, `<eos>`."""

    path: Path
    sha256: str
    ids: Sequence[str]
    tokens: Sequence[NDArray[np.int64]]

    @property
    def num_samples(self) -> int:
        """Sequences."""
        return len(self.ids)

    @property
    def samples(self) -> Samples:
        """Names and lengths."""
        lengths = np.array([len(each) for each in self.tokens], dtype=np.int32)
        return Samples({"id": list(self.ids), TOKENS: lengths, SOURCE_TOKENS: lengths})

    @property
    def lengths(self) -> list[dict[str, int]]:
        """Lengths of the ragged axes of every sequence."""
        return [{TOKENS: len(each), SOURCE_TOKENS: len(each)} for each in self.tokens]

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence."""
        return max(map(len, self.tokens))

    def padded(self) -> Tensor:
        """All of them, padded on the right."""
        padded = np.full((len(self.tokens), self.longest), PAD, dtype=np.int64)
        for row, tokens in zip(padded, self.tokens, strict=True):
            row[: len(tokens)] = tokens
        return torch.from_numpy(padded)

    def part(self, rows: slice) -> "TokenSource":
        """Some of them."""
        return replace(self, ids=self.ids[rows], tokens=self.tokens[rows])

    def batches(self, size: int) -> Iterator["TokenSource"]:
        """Some after the other."""
        for first in range(0, self.num_samples, size):
            yield self.part(slice(first, first + size))


def read_letters(path: Path, vocabulary: Vocabulary) -> Iterator[tuple[str, str]]:
    """Names and letters of the sequences of a FASTA file; stops at the end of proteins left out. For a model of
    aligned rows an alignment in any format is read."""
    if vocabulary.alphabet is Alphabet.ALIGNMENT:
        yield from aligned_rows(path)
        return
    protein = vocabulary.alphabet is Alphabet.PROTEIN
    for record in read_fasta(path):
        yield record.name, record.sequence.removesuffix("*") if protein else record.sequence


def read_tokens(path: Path, vocabulary: Vocabulary, context: int) -> TokenSource:
    """Read the sequences of a FASTA file.

    Raises: FormatError naming a record that is empty, holds other characters or broken codons, or has more tokens
    than the model reads at once.
    """
    ids, tokens = [], []
    for name, sequence in read_letters(path, vocabulary):
        where = f"{path}: {name}"
        if not sequence:
            raise FormatError(f"{where}: has no sequence")
        ids.append(name)
        tokens.append(
            framed_tokens(vocabulary.words(sequence, where), len(sequence), vocabulary, context, where)
        )
    return TokenSource(path, sha256_of(path), ids, tokens)


def framed_tokens(
    words: NDArray[np.int64], num_letters: int, vocabulary: Vocabulary, context: int, where: str
) -> NDArray[np.int64]:
    """The words of a sequence as a model reads them. where: for messages. Raises: as `read_tokens`."""
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
    if len(words) > room:
        raise FormatError(
            f"{where}: is {len(words):,} tokens long; the model reads {room:,} at once: cut it into "
            "pieces of at most so many, or train with a larger context"
        )
    return framed
