"""Scores of substitutions: how much likelier a model finds the mutant than the sequence it is a mutant of."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from bioattn.choices import not_there
from bioattn.errors import BioattnError, FormatError
from bioattn.formats.tables import open_table
from bioattn.models.language.config import Shape
from bioattn.models.language.folder import LoadedLanguageModel
from bioattn.models.language.inference.scoring import score
from bioattn.models.language.inference.source import TokenSource
from bioattn.sequences.vocabulary import MASK, UNKNOWN, Vocabulary

SEQUENCE, MUTANT = "sequence", "mutant"
_SUBSTITUTION = re.compile(r"([A-Za-z])(\d{1,9})([A-Za-z])")


class Variant(NamedTuple):
    """One or more substitutions of one sequence."""

    sequence: str
    mutant: str
    """As written."""
    letters: Mapping[int, str]
    """By position from 0, the new letter."""
    where: str
    """File and line, for messages."""


def read_variants(path: Path, sequences: Mapping[str, str]) -> list[Variant]:
    """Read a table with the columns `sequence` (a name of the FASTA) and `mutant`: old letter, position from 1 and
    new letter, such as `H24C`; several are joined by `:` or `,`. sequences: by name.

    Without a column `sequence` the FASTA must hold one sequence, which all are of.

    Raises: FormatError, with file and line, for another form, a position beyond the sequence, an old letter that
    the sequence does not have there; BioattnError for a sequence that is not there.
    """
    table = open_table(path)
    mutant = table.column(MUTANT, "--variants")
    named = SEQUENCE in table.header
    if not named and len(sequences) != 1:
        table.column(SEQUENCE, "--variants")
    only = next(iter(sequences))
    variants = []
    for line, cells in table.rows():
        name = cells[table.header.index(SEQUENCE)] if named else only
        if name not in sequences:
            raise not_there(f"{path}:{line}: sequence", name, "the FASTA", "sequence", sequences)
        substitutions = list(_substitutions(f"{path}:{line}", cells[mutant], name, sequences[name]))
        letters = dict(substitutions)
        if len(letters) < len(substitutions):
            raise FormatError(f"{path}:{line}: the mutant {cells[mutant]!r} names a position twice")
        variants.append(Variant(name, cells[mutant], letters, f"{path}:{line}"))
    return variants


def _substitutions(where: str, text: str, name: str, sequence: str) -> Iterator[tuple[int, str]]:
    for part in re.split(r"[:,]", text):
        match = _SUBSTITUTION.fullmatch(part.strip())
        if match is None:
            raise FormatError(
                f"{where}: the mutant {text!r}; write old letter, position and new letter: H24C"
            )
        old, position, new = match[1].upper(), int(match[2]), match[3].upper()
        if not 1 <= position <= len(sequence):
            raise FormatError(f"{where}: {part}: {name} has {len(sequence):,} letters")
        if sequence[position - 1].upper() != old:
            raise FormatError(
                f"{where}: {part}: position {position} of {name} (from 1) is {sequence[position - 1].upper()}"
            )
        yield position - 1, new


def variant_scores(
    loaded: LoadedLanguageModel,
    source: TokenSource,
    sequences: Mapping[str, str],
    variants: list[Variant],
    most: int | None = None,
) -> Iterator[float | None]:
    """ln of how much likelier each mutant is; above 0: the model prefers it. None where a word that differs is
    unknown.

    Encoder: all words that differ are masked at once, and ln of the probabilities of new and old ones compared
    (masked marginals, Meier et al. 2021). Decoder: the difference of the log-likelihoods of both sequences.
    most: tokens that are read at once, None = the model's context; of a longer sequence an encoder reads the
    window with the substitutions in its middle, and a decoder `windows`.
    """
    tokens_of = dict(zip(source.ids, source.tokens, strict=True))
    is_encoder = loaded.config.shape is Shape.ENCODER
    known: dict[str, float] = {}
    for variant in variants:
        old = tokens_of[variant.sequence]
        new = _mutated(loaded.vocabulary, old, sequences[variant.sequence], variant, is_encoder=is_encoder)
        if _differ_in_unknown_words(old, new):
            yield None
            continue
        if is_encoder:
            yield _masked_marginal(loaded, old, new, variant, most or loaded.config.context)
            continue
        if variant.sequence not in known:
            known[variant.sequence] = score(loaded, old, most).log_likelihood
        yield score(loaded, new, most).log_likelihood - known[variant.sequence]


def _mutated(
    vocabulary: Vocabulary, tokens: NDArray[np.integer], sequence: str, variant: Variant, *, is_encoder: bool
) -> NDArray[np.int64]:
    letters = list(sequence)
    for place, letter in variant.letters.items():
        letters[place] = letter
    where = f"{variant.where}: {variant.sequence} {variant.mutant}"
    new = vocabulary.framed(vocabulary.words("".join(letters), where))
    if is_encoder and len(new) != len(tokens):
        raise BioattnError(
            f"{where}: makes {len(new):,} tokens of {len(tokens):,}, which an encoder cannot compare"
        )
    return new


def _differ_in_unknown_words(old: NDArray[np.integer], new: NDArray[np.integer]) -> bool:
    if len(old) == len(new):
        old, new = old[old != new], new[old != new]
    return UNKNOWN in old or UNKNOWN in new


def _masked_marginal(
    loaded: LoadedLanguageModel,
    old: NDArray[np.integer],
    new: NDArray[np.integer],
    variant: Variant,
    most: int,
) -> float:
    places = np.flatnonzero(old != new)
    head = int(loaded.vocabulary.begins)
    if len(old) > most and len(places):
        # The window with all substitutions in its middle.
        room = most - head
        if places[-1] - places[0] >= room:
            raise BioattnError(
                f"{variant.where}: {variant.mutant}: its substitutions lie further apart than the {room:,} "
                "tokens that the model reads at once"
            )
        first = int(np.clip((places[0] + places[-1] + 1 - room) // 2, head, len(old) - room))
        old, new = (np.concatenate([each[:head], each[first : first + room]]) for each in (old, new))
        places = np.flatnonzero(old != new)
    hidden = old.copy()
    hidden[places] = MASK
    with torch.inference_mode():
        tokens_1L = torch.from_numpy(hidden)[None].to(loaded.device)
        likely_PV = loaded.model(tokens_1L)[0, torch.from_numpy(places)].float().log_softmax(-1).cpu()
    row = torch.arange(len(places))
    return float(
        (likely_PV[row, torch.from_numpy(new[places])] - likely_PV[row, torch.from_numpy(old[places])]).sum()
    )
