"""Pairs of sequences, such as proteins and their coding sequences: their tokens, and the dataset file.

The schema is written down in `docs/formats/other-datasets.md`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.choices import SPLIT_NAMES
from bioattn.errors import FormatError
from bioattn.io.dataset_file import DatasetKind, put_metadata
from bioattn.io.hdf5 import hdf5_file, put_array
from bioattn.sequences.choices import Alphabet, PairAlphabet
from bioattn.sequences.vocabulary import CLS, CODON_LENGTH, SPECIAL, UNKNOWN, Vocabulary

PAIR_DATASET = DatasetKind(
    name="dataset of pairs", format="bioattn-pair-dataset", version=1, command="bioattn prepare translation"
)
SIDES = ("source", "target")
Tokens = NDArray[np.int64]


@dataclass(frozen=True)
class PairVocabulary:
    """The tokens of one side of the pairs: `SPECIAL` first, then words."""

    alphabet: PairAlphabet
    characters: str = ""
    """Those of the data, ascending (alphabet `characters`)."""

    @cached_property
    def words(self) -> Vocabulary | None:
        """The vocabulary of an alphabet of biology; None of characters."""
        return None if self.alphabet is PairAlphabet.CHARACTERS else Vocabulary(Alphabet(self.alphabet))

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """All tokens; a token's number is its place."""
        return (*SPECIAL, *self.characters) if self.words is None else self.words.tokens

    def tokenize(self, sequence: str, where: str) -> Tokens:
        """Tokens of a sequence, without special ones; the final `*` of a protein is left out.

        where: file and record, for messages.
        """
        if self.alphabet is PairAlphabet.PROTEIN:
            sequence = sequence.removesuffix("*")
        if not sequence:
            raise FormatError(f"{where}: has no sequence; give one, or leave the pair out")
        if self.words is None:
            unknown = next((each for each in sequence if each not in self._number), None)
            if unknown is not None:
                raise FormatError(
                    f"{where}: {unknown!r} is not a character of the training data ({self.characters})"
                )
            return np.array([self._number[each] for each in sequence], dtype=np.int64)
        codes = self.words.encode(sequence, where)
        if self.alphabet is PairAlphabet.CODON and len(codes) % CODON_LENGTH:
            raise FormatError(f"{where}: {len(codes):,} bases are not whole codons")
        return self.words.tokenize(codes)

    def names(self, tokens: Tokens) -> list[str]:
        """What tokens are called, special ones among them, as by `Vocabulary.names`."""
        if self.words is not None:
            return self.words.names(tokens, self.words.text(tokens))
        first = int(tokens[0] != CLS)
        return [
            self.tokens[token]
            if token < UNKNOWN
            else f"{self.text(tokens[place : place + 1])}{place + first}"
            for place, token in enumerate(tokens.tolist())
        ]

    def text(self, tokens: Tokens) -> str:
        """The letters of tokens; special ones but `<unk>` are left out."""
        if self.words is not None:
            return self.words.text(tokens)
        return "".join("?" if t == UNKNOWN else self.tokens[t] for t in tokens if t >= UNKNOWN)

    @cached_property
    def _number(self) -> dict[str, int]:
        return {each: len(SPECIAL) + place for place, each in enumerate(self.characters)}


class Pair(NamedTuple):
    """Tokens of both sides, without special ones."""

    source: Tokens
    target: Tokens


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PairDataset:
    path: Path
    source: PairVocabulary
    target: PairVocabulary
    ids: list[str]
    split: NDArray[np.uint8]
    """TRAIN, VALIDATION or TEST of each pair."""
    pairs: Sequence[Pair]
    metadata: dict[str, Any]
    """What made the dataset; JSON types only."""

    def __repr__(self) -> str:
        return f"<{len(self.ids):,} pairs, {self.source.alphabet} to {self.target.alphabet}>"

    def side(self, split: int) -> list[Pair]:
        return [self.pairs[number] for number in np.flatnonzero(self.split == split).tolist()]


def write_pair_dataset(path: Path, dataset: PairDataset) -> None:
    """Write a dataset; the same pairs give the same bytes."""
    with hdf5_file(path) as file:
        put_array(file, "pairs/id", dataset.ids)
        put_array(file, "pairs/split", dataset.split)
        for place, name in enumerate(SIDES):
            tokens = [pair[place] for pair in dataset.pairs]
            offsets = np.concatenate([[0], np.cumsum([len(each) for each in tokens])])
            put_array(file, f"{name}/offset", offsets.astype("<i8"))
            put_array(file, f"{name}/tokens", np.concatenate(tokens).astype("<u2"))
        put_metadata(file, dataset.metadata)
        attributes = {}
        for name, vocabulary in zip(SIDES, (dataset.source, dataset.target), strict=True):
            attributes[f"{name}_alphabet"] = str(vocabulary.alphabet)
            attributes[f"{name}_characters"] = vocabulary.characters
        PAIR_DATASET.write_attributes(file, **attributes)


def open_pair_dataset(path: Path) -> PairDataset:
    with PAIR_DATASET.open(path) as arrays:
        split = arrays.get("pairs/split", "u1")
        sides: list[list[Tokens]] = []
        vocabularies: list[PairVocabulary] = []
        for name in SIDES:
            alphabet, characters = (
                arrays.attributes[f"{name}_{kind}"] for kind in ("alphabet", "characters")
            )
            vocabularies.append(PairVocabulary(PairAlphabet(alphabet), characters))
            tokens = arrays.get(f"{name}/tokens", "u2").astype(np.int64)
            sides.append(np.split(tokens, arrays.get(f"{name}/offset", "i8")[1:-1]))
        pairs = [Pair(source, target) for source, target in zip(*sides, strict=True)]
        source, target = vocabularies
        ids = arrays.text("pairs/id")
        return PairDataset(path, source, target, ids, split, pairs, arrays.metadata())


def describe_pair_dataset(path: Path) -> dict[str, Any]:
    """The main figures for `bioattn inspect`. Raises: FormatError when it is damaged."""
    dataset = open_pair_dataset(path)
    return {
        "source_alphabet": str(dataset.source.alphabet),
        "target_alphabet": str(dataset.target.alphabet),
        "pairs": len(dataset.ids),
        "pairs_per_split": {name: len(dataset.side(side)) for side, name in enumerate(SPLIT_NAMES)},
        "longest_source": max(len(pair.source) for pair in dataset.pairs),
        "longest_target": max(len(pair.target) for pair in dataset.pairs),
        "leakage": dataset.metadata.get("leakage"),
    }
