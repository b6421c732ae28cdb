"""How likely a model finds sequences and their mutants, and what it makes of them.

Shape suffixes: B sequences, L tokens, M masked copies, C channels.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.choices import not_there
from bioattn.errors import BioattnError, FormatError
from bioattn.formats.tables import open_table
from bioattn.models.language.config import Pool, Shape
from bioattn.models.language.folder import LoadedLanguageModel
from bioattn.models.language.layers import is_word, mean_of_words
from bioattn.models.language.model import LanguageModel
from bioattn.models.language.source import TokenSource, Window, sequences_at_once, windows
from bioattn.sequences.vocabulary import CLS, MASK, UNKNOWN, Vocabulary

MASKED_AT_ONCE = 4096
"""Tokens of one forward pass of masked copies."""
SEQUENCE, MUTANT = "sequence", "mutant"
_SUBSTITUTION = re.compile(r"([A-Za-z])(\d{1,9})([A-Za-z])")


def log_likelihoods(
    loaded: LoadedLanguageModel, tokens: NDArray[np.integer], most: int | None = None
) -> NDArray[np.float64]:
    """ln of the probability of each token of `<cls> … <eos>` behind `<cls>`; `<eos>` is NaN in an encoder.

    Of a published decoder that reads no `<cls>` the first word has none and is left out.

    Of rows of an alignment the gaps are given: they are NaN, and the probability is one of residues alone.
    An encoder-decoder reads the whole sequence, and its decoder's predictions are scored. most: tokens that are
    read at once, None = the model's context; longer sequences are read in `windows`.
    """
    masked = loaded.config.shape is Shape.ENCODER
    found: list[NDArray[np.float64]] = []
    for window in windows(tokens, most or loaded.config.context, loaded.vocabulary, causal=not masked):
        likely = np.full(len(window.tokens), np.nan)
        own = _masked_one_by_one(loaded, window) if masked else _given_those_before(loaded, window.tokens)
        likely[len(likely) - len(own) :] = own
        found.append(likely[window.kept] if found else own[: window.kept.stop - len(likely) + len(own)])
    return np.concatenate(found)


@torch.inference_mode()
def _given_those_before(loaded: LoadedLanguageModel, tokens: NDArray[np.int64]) -> NDArray[np.float64]:
    source_1S = None
    if loaded.config.shape is Shape.ENCODER_DECODER:
        source_1S = torch.from_numpy(tokens[None]).to(loaded.device)
        if not loaded.vocabulary.begins:
            tokens = np.concatenate([[CLS], tokens])
    tokens_1L = torch.from_numpy(tokens[None]).to(loaded.device)
    logits_LV = loaded.model(tokens_1L[:, :-1], source_1S)[0].float()
    return _likely(loaded.model, logits_LV, tokens_1L[0, 1:])


@torch.inference_mode()
def _masked_one_by_one(loaded: LoadedLanguageModel, window: Window) -> NDArray[np.float64]:
    """Pseudo-log-likelihoods of the words that are kept of a window."""
    model, tokens, kept = loaded.model, window.tokens, window.kept
    found = np.full(len(tokens) - 1, np.nan)
    places = 1 + np.flatnonzero(is_word(tokens[1:]))
    places = places[(places >= kept.start) & (places < kept.stop)]
    size = max(1, MASKED_AT_ONCE // len(tokens))
    for first in range(0, len(places), size):
        own = torch.from_numpy(places[first : first + size]).to(loaded.device)
        copies_ML = torch.from_numpy(tokens).to(loaded.device).repeat(len(own), 1)
        row = torch.arange(len(own), device=loaded.device)
        wanted = copies_ML[row, own].clone()
        copies_ML[row, own] = MASK
        logits_MV = model.logits(model.hidden(copies_ML)[row, own], own).float()
        found[own.cpu().numpy() - 1] = _likely(model, logits_MV, wanted)
    return found


def _likely(model: LanguageModel, logits_NV: Tensor, wanted_N: Tensor) -> NDArray[np.float64]:
    """ln of the probabilities of tokens; of a gap NaN."""
    gap = model.vocabulary.gap
    if gap is not None:
        logits_NV[:, gap] = -torch.inf
    likely_NV = logits_NV.log_softmax(-1)
    if gap is not None:
        likely_NV[:, gap] = torch.nan
    found: NDArray[np.float64] = likely_NV.gather(-1, wanted_N[:, None]).squeeze(-1).double().cpu().numpy()
    return found


def score(
    loaded: LoadedLanguageModel, tokens: NDArray[np.integer], most: int | None = None
) -> tuple[int, float]:
    """The words of a sequence that were predicted, and the sum of ln of their probabilities: given those before
    (decoder), or given all others (encoder, Salazar et al. 2020).

    `<eos>`, gaps and unknown words do not count: training never asks for them. most: as in `log_likelihoods`.
    """
    found = log_likelihoods(loaded, tokens, most)
    own = tokens[-len(found) :]
    words = found[is_word(own) & (own != loaded.vocabulary.gap) & (own != UNKNOWN)]
    return len(words), float(words.sum())


@torch.inference_mode()
def pooled(loaded: LoadedLanguageModel, source: TokenSource, pool: Pool, most: int) -> NDArray[np.float32]:
    """Embeddings (sequences, C). most: tokens that are read at once.

    Of a sequence in windows, each word counts once in the mean, and `<cls>` is the mean over windows.
    """
    rows: list[Tensor] = []
    for batch in source.batches(sequences_at_once(min(source.longest, most))):
        if batch.longest <= most:
            tokens_BL = batch.padded().to(loaded.device)
            hidden_BLC = loaded.model.embeddings(tokens_BL)
            own_BC = hidden_BLC[:, 0] if pool is Pool.CLS else mean_of_words(hidden_BLC, tokens_BL)
            rows += own_BC.float().cpu().unbind()
        else:
            rows += [_pooled_windows(loaded, tokens, pool, most) for tokens in batch.items]
    return torch.stack(rows).numpy()


def _pooled_windows(
    loaded: LoadedLanguageModel, tokens: NDArray[np.integer], pool: Pool, most: int
) -> Tensor:
    total_C, number = torch.zeros(loaded.config.channels), 0
    causal = loaded.config.shape is Shape.DECODER
    for window in windows(tokens, most, loaded.vocabulary, causal=causal):
        tokens_1L = torch.from_numpy(window.tokens)[None].to(loaded.device)
        channels_LC = loaded.model.embeddings(tokens_1L)[0].float().cpu()
        places = np.arange(len(window.tokens))[window.kept]
        taken = [0] if pool is Pool.CLS else places[is_word(window.tokens[places])]
        total_C += channels_LC[taken].sum(0)
        number += len(taken)
    return total_C / number


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
    tokens_of = dict(zip(source.samples.ids, source.items, strict=True))
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
            _, known[variant.sequence] = score(loaded, old, most)
        yield score(loaded, new, most)[1] - known[variant.sequence]


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
