"""What language models say of sequences, as tables: likelihoods, scores of variants, and predictions."""

import logging
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bioattn.errors import BioattnError, SettingsError
from bioattn.models.language.config import Output, Shape, Target, TargetKind
from bioattn.models.language.folder import LoadedLanguageModel
from bioattn.models.language.layers import Readout, is_word, require_length
from bioattn.models.language.scoring import read_variants, score, variant_scores
from bioattn.models.language.source import (
    TokenSource,
    letters_in,
    read_tokens,
    sequences_at_once,
    tokens_at_once,
)
from bioattn.text import counted

LOGGER = logging.getLogger("bioattn")

LIKELIHOODS = ("id", "words", "log_likelihood", "bits_per_word", "perplexity")
VARIANTS = ("sequence", "mutant", "score")
NO_OUTPUT = "was published without an output layer"
Cell = str | int | float | None
"""Of a table; None where there is no value."""


def prediction_header(readout: Readout) -> list[str]:
    """The columns: `id`, one for each target, and behind it `target.class` for each class of sequences."""
    names = ["id"]
    for target in readout.fine_tuned.targets:
        names.append(target.name)
        if target.kind is TargetKind.CLASS:
            names += [f"{target.name}.{each}" for each in target.classes]
    return names


def predictions(loaded: LoadedLanguageModel, source: TokenSource) -> Iterator[list[Cell]]:
    """The row of each sequence: numbers, the likeliest class and the probability of each class, and the likeliest
    tag of each token."""
    assert loaded.model.readout is not None
    targets = loaded.model.readout.fine_tuned.targets
    for part in source.batches(sequences_at_once(source.longest)):
        with torch.inference_mode():
            outputs = loaded.model.predictions(part.padded().to(loaded.device))
        for row, (name, tokens) in enumerate(zip(part.samples.ids, part.items, strict=True)):
            cells: list[Cell] = [name]
            for target, given in zip(targets, outputs, strict=True):
                of_tokens = target.kind is TargetKind.TAGS
                words = np.flatnonzero(is_word(tokens))
                cells += _cells(target, given[row, words] if of_tokens else given[row])
            yield cells


def _cells(target: Target, given: Tensor) -> list[Cell]:
    """given: outputs (W,), of tags one row for each word."""
    values = given.double().cpu().numpy()
    if target.kind is TargetKind.NUMBER:
        return [float(values[0] * target.sd + target.mean)]
    if target.kind is TargetKind.TAGS:
        return ["".join(target.classes[each] for each in values.argmax(-1))]
    shares = np.exp(values - values.max())
    shares /= shares.sum()
    return [target.classes[int(values.argmax())], *shares.tolist()]


def read_source(loaded: LoadedLanguageModel, inputs: Any, window: int | None) -> tuple[TokenSource, int]:
    """Sequences as tokens, and how many tokens are read at once.

    Raises: FormatError for sequences that the model cannot read.
    """
    most = tokens_at_once(loaded.config, window)
    readout = loaded.model.readout
    source = read_tokens(inputs, loaded.vocabulary, most, whole=readout is not None)
    if readout is not None and readout.fine_tuned.num_tokens:
        require_length(source.items, source.samples.ids, readout.fine_tuned.num_tokens, source.path)
    longer = sum(len(tokens) > most for tokens in source.items)
    if longer:
        lies = "lies farthest from an edge"
        taken = lies if loaded.config.shape is Shape.ENCODER else "has the most tokens before it"
        LOGGER.info(
            f"{counted(longer, 'sequence')} of {source.num_samples:,} with more than {most:,} tokens: read in "
            f"windows that overlap by half (--window); what is said of a token is of the window where it {taken}"
        )
    return source, most


def require_likelihoods(loaded: LoadedLanguageModel) -> None:
    """Raises: SettingsError for a fine-tuned model."""
    if loaded.model.readout is not None:
        raise SettingsError(
            f"{loaded.path}: was fine-tuned, and says no longer how likely sequences are; give the model that it "
            "was trained from"
        )


def sequence_table(
    loaded: LoadedLanguageModel, source: TokenSource, most: int
) -> tuple[list[str], Iterator[list[Cell]]]:
    """Names of the columns, and a row for each sequence: predictions of a fine-tuned model, else likelihoods."""
    if loaded.model.readout is not None:
        return prediction_header(loaded.model.readout), predictions(loaded, source)
    named = zip(source.samples.ids, source.items, strict=True)
    if loaded.config.form.output is Output.NONE:
        return ["id", "words"], ([name, int(np.count_nonzero(is_word(tokens)))] for name, tokens in named)
    return list(LIKELIHOODS), ([name, *_likelihood(loaded, tokens, most)] for name, tokens in named)


def variant_table(
    loaded: LoadedLanguageModel, inputs: Any, source: TokenSource, most: int, variants: Path
) -> tuple[list[str], Iterator[list[Cell]], int]:
    """Names of the columns, a row for each mutant of a table, and how many these are.

    Raises: SettingsError or BioattnError for a model that says nothing of likelihoods; as `read_variants`.
    """
    require_likelihoods(loaded)
    if loaded.config.form.output is Output.NONE:
        raise BioattnError(f"{loaded.path}: {NO_OUTPUT}, so that it scores no variants")
    sequences = dict(letters_in(inputs, loaded.vocabulary.alphabet)[1])
    mutants = read_variants(variants, sequences)
    scores = variant_scores(loaded, source, sequences, mutants, most)
    rows = zip(mutants, scores, strict=True)
    return list(VARIANTS), ([each.sequence, each.mutant, value] for each, value in rows), len(mutants)


def _likelihood(loaded: LoadedLanguageModel, tokens: Any, most: int) -> list[Cell]:
    words, log_likelihood = score(loaded, tokens, most)
    if not words:
        return [0, None, None, None]
    nats = -log_likelihood / words
    return [words, log_likelihood, nats / math.log(2), math.exp(min(nats, 700.0))]
