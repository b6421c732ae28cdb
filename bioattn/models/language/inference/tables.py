"""What language models say of sequences, as tables: likelihoods, scores of variants, and predictions."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bioattn.errors import BioattnError, SettingsError
from bioattn.models.language.config import Output, Shape
from bioattn.models.language.folder import LoadedLanguageModel
from bioattn.models.language.inference.predictions import Cell, prediction_header, predictions
from bioattn.models.language.inference.scoring import score
from bioattn.models.language.inference.source import (
    TokenSource,
    letters_in,
    read_tokens,
    say_windows,
    tokens_at_once,
)
from bioattn.models.language.inference.variants import read_variants, variant_scores
from bioattn.models.language.readout import is_word, require_length

LIKELIHOODS = ("id", "words", "log_likelihood", "bits_per_word", "perplexity")
VARIANTS = ("sequence", "mutant", "score")
NO_OUTPUT = "was published without an output layer"


def read_source(
    loaded: LoadedLanguageModel, inputs: Any, window: int | None, *, variants: bool = False
) -> tuple[TokenSource, int]:
    """Sequences as tokens, and how many are read at once. variants: whether these are scored.

    Raises: FormatError for sequences that the model cannot read; SettingsError for variants of a model that says
    nothing of likelihoods.
    """
    if variants:
        require_likelihoods(loaded)
        if loaded.config.form.output is Output.NONE:
            raise BioattnError(f"{loaded.path}: {NO_OUTPUT}, so that it scores no variants")
    most = tokens_at_once(loaded.config, window)
    readout = loaded.model.readout
    source = read_tokens(inputs, loaded.vocabulary, most, whole=readout is not None)
    if readout is not None and readout.fine_tuned.num_tokens:
        require_length(source.tokens, source.ids, readout.fine_tuned.num_tokens, source.path)
    say_windows(source, most, causal=loaded.config.shape is not Shape.ENCODER)
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
        return prediction_header(loaded.model.readout), predictions(
            loaded, source, tokens_per_batch(source.longest)
        )
    named = zip(source.ids, source.tokens, strict=True)
    if loaded.config.form.output is Output.NONE:
        return ["id", "words"], ([name, int(np.count_nonzero(is_word(tokens)))] for name, tokens in named)
    return list(LIKELIHOODS), ([name, *_likelihood(loaded, tokens, most)] for name, tokens in named)


def variant_table(
    loaded: LoadedLanguageModel, inputs: Any, source: TokenSource, most: int, variants: Path
) -> tuple[list[str], Iterator[list[Cell]], int]:
    """Names of the columns, a row for each mutant of a table, and how many these are."""
    sequences = dict(letters_in(inputs, loaded.vocabulary)[1])
    mutants = read_variants(variants, sequences)
    scores = variant_scores(loaded, source, sequences, mutants, most)
    rows = zip(mutants, scores, strict=True)
    return list(VARIANTS), ([each.sequence, each.mutant, value] for each, value in rows), len(mutants)


def tokens_per_batch(longest: int) -> int:
    """Sequences of a forward pass."""
    return max(1, 8192 // longest)


def _likelihood(loaded: LoadedLanguageModel, tokens: Any, most: int) -> list[Cell]:
    scored = score(loaded, tokens, most)
    if not scored.words:
        return [0, None, None, None]
    nats = -scored.log_likelihood / scored.words
    return [scored.words, scored.log_likelihood, nats / math.log(2), math.exp(min(nats, 700.0))]
