"""Tokens of letters, against a plain loop over words."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bioattn.errors import FormatError
from bioattn.sequences.choices import Alphabet
from bioattn.sequences.vocabulary import SPECIAL, Vocabulary

VOCABULARIES = [
    Vocabulary(Alphabet.DNA),
    Vocabulary(Alphabet.DNA, 3),
    Vocabulary(Alphabet.CODON),
    Vocabulary(Alphabet.PROTEIN),
]


def words_of(vocabulary: Vocabulary, sequence: str) -> list[str]:
    """One token after the other, as the page of the format says."""
    found = []
    while sequence:
        word = sequence[: vocabulary.word]
        if len(word) < vocabulary.word:
            word = word[0]
        found.append(word if set(word) <= set(vocabulary.letters) else "<unk>")
        sequence = sequence[len(word) :]
    return found


@pytest.mark.parametrize("vocabulary", VOCABULARIES, ids=lambda each: f"{each.alphabet}-{each.word}")
@given(data=st.data())
def test_tokens_are_the_words_of_a_plain_loop(vocabulary: Vocabulary, data: st.DataObject):
    unknown = "X" if vocabulary.alphabet is Alphabet.PROTEIN else "N"
    step = 3 if vocabulary.alphabet is Alphabet.CODON else 1
    size = data.draw(st.integers(1, 10)) * step
    letters = data.draw(
        st.lists(st.sampled_from([*vocabulary.letters, unknown]), min_size=size, max_size=size)
    )
    sequence = "".join(letters)
    tokens = vocabulary.tokenize(vocabulary.encode(sequence.lower(), "record"))
    assert [vocabulary.tokens[each] for each in tokens] == words_of(vocabulary, sequence)
    assert vocabulary.num_tokens(len(sequence)) == len(tokens)
    if unknown not in sequence:
        assert vocabulary.text(tokens) == sequence


def test_special_tokens_come_first_and_no_token_twice():
    for vocabulary in VOCABULARIES:
        assert vocabulary.tokens[: len(SPECIAL)] == SPECIAL
        assert len(set(vocabulary.tokens)) == len(vocabulary.tokens)


def test_codes_that_no_letter_has_become_unknown_tokens():
    """A forged dataset must not lead beyond the embeddings."""
    tokens = Vocabulary(Alphabet.DNA, 2).tokenize(np.array([0, 200, 3], np.uint8))
    assert [Vocabulary(Alphabet.DNA, 2).tokens[each] for each in tokens] == ["<unk>", "T"]


@pytest.mark.parametrize(
    ("alphabet", "sequence", "said"),
    [(Alphabet.PROTEIN, "MK1", "record, position 13: '1' is not a residue"), (Alphabet.CODON, "AUG", "RNA")],
)
def test_other_characters_are_named_with_their_position(alphabet: Alphabet, sequence: str, said: str):
    with pytest.raises(FormatError, match=said):
        Vocabulary(alphabet).encode(sequence, "record", 10)
