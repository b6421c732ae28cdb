"""Letters of sequences as codes, and codes as the tokens that language models read.

A token is a word of letters: one residue, one codon, or `kmer` bases that do not overlap the next word's. Bases
behind the last whole word are tokens of one base. What is no certain letter (N, X) makes the word `<unk>`.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import FormatError
from bioattn.formats import nucleotides
from bioattn.sequences.choices import Alphabet

SPECIAL = ("<pad>", "<cls>", "<eos>", "<mask>", "<unk>")
PAD, CLS, EOS, MASK, UNKNOWN = range(len(SPECIAL))
RESIDUES = "ACDEFGHIKLMNPQRSTVWY"
CODON_LENGTH = 3
MAX_KMER = 6
"""Longest word: 4^6 = 4,096 tokens."""

_NO_LETTER = 255


def _residue_table() -> bytes:
    table = np.full(256, _NO_LETTER, dtype=np.uint8)
    for code, letters in enumerate([*RESIDUES, "XBZJUO"]):
        for letter in letters:
            table[ord(letter)] = table[ord(letter.lower())] = code
    return table.tobytes()


_CODE_OF_RESIDUE = _residue_table()


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of an alphabet: `SPECIAL` first, then words in the order of their letters."""

    alphabet: Alphabet
    kmer: int = 1
    """Bases of a word of DNA; 1 for the other alphabets."""

    @property
    def letters(self) -> str:
        """The letters whose codes are 0, 1, …; the next code is an unknown letter."""
        return RESIDUES if self.alphabet is Alphabet.PROTEIN else "ACGT"

    @property
    def word(self) -> int:
        """Letters of a word."""
        return CODON_LENGTH if self.alphabet is Alphabet.CODON else self.kmer

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """All tokens; a token's number is its place."""
        words = tuple("".join(each) for each in product(self.letters, repeat=self.word))
        return (*SPECIAL, *words, *(self.letters if self._has_single_letters else ""))

    @property
    def _has_single_letters(self) -> bool:
        return self.alphabet is Alphabet.DNA and self.word > 1

    def encode(self, sequence: str, name: str, offset: int = 0) -> NDArray[np.uint8]:
        """Codes of letters, upper or lower case; a final `*` of a protein must be taken away before.

        name, offset (letters of the record before this piece): for messages.

        Raises: FormatError naming the record and the 1-based position of another character.
        """
        if self.alphabet is not Alphabet.PROTEIN:
            return nucleotides.encode(sequence, name, offset)
        raw = sequence.encode("ascii", "replace")
        codes = np.frombuffer(bytearray(raw.translate(_CODE_OF_RESIDUE)), dtype=np.uint8)
        if codes.size and int(codes.max()) == _NO_LETTER:
            place = int(codes.argmax())
            raise FormatError(
                f"{name}, position {offset + place + 1:,}: {sequence[place]!r} is not a residue letter; unaligned "
                "protein sequences are needed"
            )
        return codes

    def num_tokens(self, num_letters: int) -> int:
        """Tokens of a sequence of so many letters, without special ones."""
        whole, rest = divmod(num_letters, self.word)
        return whole + (rest if self._has_single_letters else 0)

    def tokenize(self, codes: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Tokens of the codes of one sequence, without special ones."""
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
        unknown = ("X" if self.alphabet is Alphabet.PROTEIN else "N") * self.word
        shown = [unknown if each == UNKNOWN else self.tokens[each] for each in tokens.tolist()]
        return "".join(each for each in shown if each not in SPECIAL)
