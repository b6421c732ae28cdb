"""Letters of sequences as codes, and codes as the tokens that language models read.

A token is a word of letters: one residue, one codon, or `kmer` bases that do not overlap the next word's. Bases
behind the last whole word are tokens of one base. What is no certain letter (N, X) makes the word `<unk>`.

Of a published vocabulary the special tokens are numbered as here, before its words, so that all code knows them;
`PublishedTokens` has the numbers that the weights were published with.
"""

import json
import sys
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import BioattnError, FormatError
from bioattn.formats import nucleotides
from bioattn.sequences.choices import Alphabet

SPECIAL = ("<pad>", "<cls>", "<eos>", "<mask>", "<unk>")
PAD, CLS, EOS, MASK, UNKNOWN = range(len(SPECIAL))
RESIDUES = "ACDEFGHIKLMNPQRSTVWY"
GAP = "-"
CODON_LENGTH = 3
MAX_KMER = 6
"""Longest word: 4^6 = 4,096 tokens."""

_NO_LETTER = 255
_PIECE = 1 << 20
"""Words that are tokenized at a time."""


def _residue_table(*others: str) -> bytes:
    table = np.full(256, _NO_LETTER, dtype=np.uint8)
    for code, letters in enumerate([*RESIDUES, *others]):
        for letter in letters:
            table[ord(letter)] = table[ord(letter.lower())] = code
    return table.tobytes()


_CODE_OF_RESIDUE = {
    Alphabet.PROTEIN: _residue_table("XBZJUO"),
    Alphabet.ALIGNMENT: _residue_table("-.", "XBZJUO"),
}
_MARKS = str.maketrans("", "", "▁Ġ#")
"""What tokenizers mark the beginning or inside of words with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTokens:
    """The vocabulary that weights were published with."""

    tokens: tuple[str, ...]
    """By their published numbers."""
    special: tuple[int | None, ...]
    """Published number of each of `SPECIAL`; None for one that the vocabulary lacks."""
    begins: bool
    """Whether sequences are read with `<cls>` before them."""
    ends: bool
    """Whether sequences are read with `<eos>` behind them."""
    overlapping: bool = False
    """Whether a word begins at every letter (DNABERT), or where the last one ended."""
    sentinels: tuple[int, ...] = ()
    """Published numbers of the tokens that stand for masked spans."""
    tokenizer: str = ""
    """JSON of the library `tokenizers`, where words are made by merging (byte-pair encoding)."""


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of an alphabet: `SPECIAL` first, then words in the order of their letters, or as published."""

    alphabet: Alphabet
    kmer: int = 1
    """Letters of a word: of DNA, and of a published vocabulary; 1 for the other alphabets."""
    published: PublishedTokens | None = None
    """None for words that follow from the alphabet."""

    @property
    def letters(self) -> str:
        """The letters whose codes are 0, 1, …; the next code is an unknown letter."""
        letters = {Alphabet.PROTEIN: RESIDUES, Alphabet.ALIGNMENT: RESIDUES + GAP}
        return letters.get(self.alphabet, "ACGT")

    @property
    def gap(self) -> int | None:
        """The token of a gap in a row of an alignment; None for other alphabets."""
        return self.tokens.index(GAP) if self.alphabet is Alphabet.ALIGNMENT else None

    @property
    def word(self) -> int:
        """Letters of a word."""
        return CODON_LENGTH if self.alphabet is Alphabet.CODON else self.kmer

    @property
    def overlapping(self) -> bool:
        """Whether a word begins at every letter."""
        return self.published is not None and self.published.overlapping

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """All tokens; a token's number is its place."""
        if self.published is not None:
            numbers = self.order[len(SPECIAL) : len(self.order) - len(self.published.sentinels)]
            return (*SPECIAL, *(self.published.tokens[number] for number in numbers.tolist()))
        words = tuple("".join(each) for each in product(self.letters, repeat=self.word))
        return (*SPECIAL, *words, *(self.letters if self._has_single_letters else ""))

    @property
    def _has_single_letters(self) -> bool:
        return self.alphabet is Alphabet.DNA and self.word > 1

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """Published number of each token, sentinels last; -1 for a token that the published vocabulary lacks."""
        assert self.published is not None
        special = [-1 if number is None else number for number in self.published.special]
        apart = {*special, *self.published.sentinels}
        words = [number for number in range(len(self.published.tokens)) if number not in apart]
        return np.array([*special, *words, *self.published.sentinels], np.int64)

    @property
    def begins(self) -> bool:
        """Whether sequences are read with `<cls>` before them."""
        return self.published is None or self.published.begins

    def framed(self, words: NDArray[np.integer]) -> NDArray[np.int64]:
        """A sequence as models read it: its words between `<cls>` and `<eos>`, where the vocabulary has them."""
        ends = self.published is None or self.published.ends
        return np.concatenate([[CLS] * self.begins, words, [EOS] * ends]).astype(np.int64)

    def words(self, sequence: str, name: str) -> NDArray[np.int64]:
        """Tokens of a sequence, without special ones. name: as in `encode`, which says what is raised."""
        codes = self.encode(sequence, name)
        if self.published is None:
            # Piece by piece: what lies between takes tens of bytes a letter, of a chromosome gigabytes.
            size = _PIECE * self.word
            firsts = range(0, max(1, len(codes)), size)
            return np.concatenate([self.tokenize(codes[first : first + size]) for first in firsts])
        letters = sequence.upper()
        if self.alphabet is not Alphabet.PROTEIN:
            letters = nucleotides.decode(codes)
        words = self._published_words(letters)
        lost = self.published.tokenizer and self._sizes[words].sum() < len(letters)
        if self.published.special[UNKNOWN] is None and (lost or UNKNOWN in words):
            strange = "".join(sorted(set(letters).difference(*self._letters[len(SPECIAL) :])))
            found = f"{name}: holds words that are no tokens of the model" + f" ({strange})" * bool(strange)
            raise FormatError(f"{found}, and it has no token for unknown words; leave the sequence out")
        return words

    def spans(self, tokens: NDArray[np.int64], num_letters: int) -> NDArray[np.int64]:
        """Where framed tokens lie in their sequence of `num_letters`: (tokens, 2), 0-based and half-open.

        Special tokens cover no letter.
        """
        lengths = np.where(np.isin(tokens, (PAD, CLS, EOS)), 0, self.word)
        if self.published is not None:
            known = tokens >= len(SPECIAL)
            unknown = self.word if self.overlapping else 1
            lengths = np.where(known, self._sizes[tokens], np.minimum(lengths, unknown))
        elif self._has_single_letters:
            lengths[(lengths > 0) & (lengths.cumsum() > num_letters // self.word * self.word)] = 1
        steps = np.minimum(lengths, 1) if self.overlapping else lengths
        first = np.concatenate([[0], steps.cumsum()[:-1]])
        return np.asarray(np.minimum(np.stack([first, first + lengths], axis=1), num_letters))

    def names(self, tokens: NDArray[np.int64], letters: str) -> list[str]:
        """What the framed tokens of a sequence are called.

        A letter has its number from 1 (`M1`), a longer word those of its first and last letter (`ATG:1-3`).
        Special tokens go by name (`<cls>`), as do gaps with their column (`gap7`).
        """
        names, spans = [], self.spans(tokens, len(letters))
        for token, (start, end) in zip(tokens.tolist(), spans.tolist(), strict=True):
            word = letters[start:end].upper().replace("-", "gap").replace(".", "gap")
            number = f"{end}" if end - start == 1 else f":{start + 1}-{end}"
            names.append(sys.intern(f"{word}{number}" if word else self.tokens[token]))
        return names

    def encode(self, sequence: str, name: str) -> NDArray[np.uint8]:
        """Codes of letters, upper or lower case; a final `*` of a protein must be taken away before.

        name: for messages.
        """
        if self.alphabet not in _CODE_OF_RESIDUE:
            return nucleotides.encode(sequence, name)
        raw = sequence.encode("ascii", "replace")
        codes = np.frombuffer(bytearray(raw.translate(_CODE_OF_RESIDUE[self.alphabet])), dtype=np.uint8)
        if codes.size and int(codes.max()) == _NO_LETTER:
            place = int(codes.argmax())
            raise FormatError(
                f"{name}, position {place + 1:,}: {sequence[place]!r} is not a residue letter; unaligned "
                "protein sequences are needed"
            )
        return codes

    def num_tokens(self, num_letters: int) -> int:
        """Tokens of a sequence of so many letters, without special ones; of a published vocabulary without unequal
        words."""
        if self.overlapping:
            return max(num_letters - self.word + 1, 0)
        whole, rest = divmod(num_letters, self.word)
        return whole + (rest if self._has_single_letters else 0)

    def num_letters(self, num_tokens: int) -> int:
        """Letters that so many tokens at least cover, special ones not counted."""
        return num_tokens + self.word - 1 if self.overlapping else num_tokens * self.word

    def tokenize(self, codes: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Tokens of the codes of one sequence, without special ones."""
        if self.published is not None:
            letters = f"{self.letters}{'X' if self.alphabet is Alphabet.PROTEIN else 'N'}"
            text = (letters[min(code, len(letters) - 1)] for code in codes.tolist())
            return self._published_words("".join(text))
        whole = len(codes) // self.word * self.word
        words = codes[:whole].reshape(-1, self.word).astype(np.int64)
        size = len(self.letters)
        numbers = words @ (size ** np.arange(self.word - 1, -1, -1))
        known = (words < size).all(axis=1)
        tokens = np.where(known, len(SPECIAL) + numbers, UNKNOWN)
        if not self._has_single_letters:
            return tokens
        rest = codes[whole:].astype(np.int64)
        singles = np.where(rest < size, len(SPECIAL) + size**self.word + rest, UNKNOWN)
        return np.concatenate([tokens, singles])

    def text(self, tokens: NDArray[np.int64]) -> str:
        """The letters of tokens; special ones but `<unk>` are left out."""
        unknown = ("X" if self.alphabet in _CODE_OF_RESIDUE else "N") * self.word
        shown = [each for each in tokens.tolist() if each >= UNKNOWN]
        words = [unknown if each == UNKNOWN else self._letters[each] for each in shown]
        if self.overlapping:
            words[1:] = [word[-1] for word in words[1:]]
        return "".join(words)

    @cached_property
    def _letters(self) -> list[str]:
        """Letters of each token: of a published one without its marks, and of RNA in those of DNA."""
        if self.published is None:
            return list(self.tokens)
        letters = [letters_of(token) for token in self.tokens]
        return letters if self.alphabet is Alphabet.PROTEIN else [each.replace("U", "T") for each in letters]

    @cached_property
    def _sizes(self) -> NDArray[np.int64]:
        return np.array([len(letters) for letters in self._letters])

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """Of words of letters, their tokens; of two that differ in marks alone the one that begins a word, and of
        T and U that of T."""

        def later(number: int) -> tuple[bool, bool, bool]:
            token = self.tokens[number]
            return not token.startswith(("▁", "Ġ")), token.startswith("##"), "U" in token

        found: dict[str, int] = {}
        for number in sorted(range(len(self.tokens)), key=later):
            found.setdefault(self._letters[number], number)
        return found

    def _published_words(self, letters: str) -> NDArray[np.int64]:
        """Tokens of letters in upper case: all overlapping words, merged ones, or always the longest that fits."""
        assert self.published is not None
        unknown, numbers = UNKNOWN, self._numbers
        if self.published.tokenizer:
            ids = _tokenizer(self.published.tokenizer).encode(letters).ids
            return self.of_published[np.array(ids, np.int64)]
        if self.published.overlapping:
            starts = range(len(letters) - self.word + 1)
            return np.array([numbers.get(letters[i : i + self.word], unknown) for i in starts], np.int64)
        found: list[int] = []
        place = 0
        while place < len(letters):
            for size in (self.word, 1) if self.alphabet is not Alphabet.CODON else (self.word,):
                token = numbers.get(letters[place : place + size])
                if token is not None:
                    break
            found.append(unknown if token is None else token)
            place += size
        return np.array(found, np.int64)

    @cached_property
    def written(self) -> NDArray[np.int64]:
        """Tokens that new sequences are made of: words of letters, and `<eos>`, which ends them."""
        letters = (number for number, token in enumerate(self.tokens) if letters_of(token).isalpha())
        return np.array([EOS, *letters], np.int64)

    @cached_property
    def of_published(self) -> NDArray[np.int64]:
        """By published number, the token here."""
        assert self.published is not None
        ours = np.full(len(self.published.tokens), UNKNOWN, np.int64)
        there = self.order >= 0
        ours[self.order[there]] = np.flatnonzero(there)
        return ours


def letters_of(token: str) -> str:
    """A token without the marks of tokenizers."""
    return token.translate(_MARKS)


@lru_cache(maxsize=1)
def _tokenizer(text: str) -> Any:
    """The tokenizer of this JSON, which adds no special tokens."""
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise BioattnError(
            "this model's words are made by merging letters, which needs the library tokenizers: "
            "pip install tokenizers"
        ) from error
    content = json.loads(text) | {"post_processor": None, "truncation": None, "padding": None}
    return Tokenizer.from_str(json.dumps(content))
