"""What language models say of sequences, as tables: likelihoods, scores of variants, and predictions."""

import logging
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.errors import BioattnError, SettingsError
from bioattn.inference.passes import finite_results, padded, require_finite
from bioattn.models.language.config import Output, Score, Shape, Target, TargetKind
from bioattn.models.language.layers import is_word, require_length
from bioattn.models.language.scoring import (
    Tokens,
    Wanted,
    batches,
    contacts,
    outputs,
    read_variants,
    total,
    variant_scores,
)
from bioattn.models.language.source import TokenSource, letters_in, read_tokens, tokens_at_once
from bioattn.sequences.choices import Alphabet
from bioattn.sequences.vocabulary import PAD
from bioattn.system.progress import SILENT, Progress
from bioattn.text import counted, listed

if TYPE_CHECKING:
    import pandas as pd

    from bioattn.models.language.folder import LoadedLanguageModel

LOGGER = logging.getLogger("bioattn")

NO_OUTPUT = "was published without an output layer"
LIKELIHOODS = ("id", "words", "log_likelihood", "bits_per_word", "perplexity")
SEQUENCES_AT_ONCE, BYTES_AT_ONCE = 512, 1 << 28
"""Sequences that are sorted by length, and embeddings that are held, before they are written."""
Cell = str | int | float | None
"""Of a table; None where there is no value."""


def predictions(loaded: "LoadedLanguageModel", sequences: Sequence[Tokens]) -> list[list[Cell]]:
    """Of each sequence numbers, the likeliest class and the probability of each class, and the likeliest tag of
    each token."""
    assert loaded.model.readout is not None
    targets = loaded.model.readout.fine_tuned.targets
    rows: dict[int, list[Cell]] = {}
    for batch in batches(loaded, range(len(sequences)), lambda number: len(sequences[number])):
        tokens_BL = padded([sequences[number] for number in batch], PAD).to(loaded.device)
        with torch.inference_mode():
            given = loaded.model.predictions(tokens_BL)
        for row, number in enumerate(batch):
            words = np.flatnonzero(is_word(sequences[number]))
            rows[number] = [
                cell
                for target, own in zip(targets, given, strict=True)
                for cell in _cells(target, own[row, words] if target.kind is TargetKind.TAGS else own[row])
            ]
    return [rows[number] for number in range(len(sequences))]


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


def read_source(loaded: "LoadedLanguageModel", inputs: Any, window: int | None) -> tuple[TokenSource, int]:
    """Sequences as tokens, and how many tokens are read at once."""
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


def require_likelihoods(loaded: "LoadedLanguageModel") -> None:
    """Raises: SettingsError for a fine-tuned model."""
    if loaded.model.readout is not None:
        raise SettingsError(
            f"{loaded.path}: was fine-tuned, and says no longer how likely sequences are; give the model that it "
            "was trained from"
        )


class Results(NamedTuple):
    """Of some consecutive sequences."""

    source: TokenSource
    rows: list[list[Cell]]
    """Of the table."""
    embeddings: NDArray[np.float32] | None
    """(sequences, layers, channels), or of all words."""
    contacts: list[NDArray[np.float32]]
    """(R, R) of each, where they are asked for."""


def table_header(loaded: "LoadedLanguageModel", score: Score) -> list[str]:
    """Names of the columns: predictions of a fine-tuned model (one for each target, and behind it `target.class`
    for each class of sequences), else likelihoods; without a score neither.
    """
    if score is Score.NONE:
        return ["id", "words"]
    if loaded.model.readout is None:
        return ["id", "words"] if loaded.config.form.output is Output.NONE else list(LIKELIHOODS)
    names = ["id"]
    for target in loaded.model.readout.fine_tuned.targets:
        names.append(target.name)
        if target.kind is TargetKind.CLASS:
            names += [f"{target.name}.{each}" for each in target.classes]
    return names


def results(
    loaded: "LoadedLanguageModel", source: TokenSource, wanted: Wanted, most: int, progress: Progress = SILENT
) -> Iterator[Results]:
    """What is wanted of all sequences, in their order, a few hundred at a time. Raises: as `outputs`."""
    header = table_header(loaded, wanted.score)
    predicts = wanted.score is not Score.NONE and loaded.model.readout is not None
    scores = header == list(LIKELIHOODS)
    asked = replace(wanted, score=wanted.score if scores else Score.NONE)
    number_of = [int(is_word(tokens).sum()) for tokens in source.items]
    held = loaded.config.channels * len(wanted.layers) * (np.mean(number_of) if wanted.pool is None else 1)
    held += wanted.contacts * np.square(number_of, dtype=float).mean()
    size = int(np.clip(BYTES_AT_ONCE // (4 * held + 1), 1, SEQUENCES_AT_ONCE))
    noun = "residues" if loaded.vocabulary.alphabet is Alphabet.PROTEIN else "words"
    half = "" if loaded.model.bias_V.dtype is torch.float32 else ", or --precision fp32"
    began, done = time.perf_counter(), 0

    def advance(words: int) -> None:
        nonlocal done
        done += words
        progress.advance(words, **{f"{noun}/s": f"{done / (time.perf_counter() - began):,.0f}"})

    progress.begin(noun, sum(number_of))
    for part in source.batches(size):
        found = outputs(loaded, part.items, asked, most, advance)
        rows = predictions(loaded, part.items) if predicts else [[] for _ in found]
        for row, name, tokens, output in zip(rows, part.samples.ids, part.items, found, strict=True):
            if output.embedding is not None:
                with finite_results(f"sequence {name!r}", loaded.path):
                    require_finite(output.embedding, "embeddings", half)
            if scores and output.likely is not None:
                words, log_likelihood = total(loaded, tokens, output.likely)
                nats = -log_likelihood / max(1, words)
                cells = [log_likelihood, nats / math.log(2), math.exp(min(nats, 700.0))]
                row += [words, *(cells if words else [None] * 3)]
            elif not predicts:
                row.append(int(np.count_nonzero(is_word(tokens))))
            row.insert(0, name)
        kept = [each.embedding for each in found if each.embedding is not None]
        join = np.concatenate if wanted.pool is None else np.stack
        maps = []
        for name, tokens in zip(part.samples.ids, part.items, strict=True) if wanted.contacts else ():
            maps.append(contacts(loaded, tokens, name, most))
            if not (scores or wanted.layers):
                advance(len(maps[-1]))
        yield Results(part, rows, join(kept) if kept else None, maps)
    progress.end()


def variant_table(
    loaded: "LoadedLanguageModel",
    inputs: Any,
    source: TokenSource,
    most: int,
    variants: "Path | pd.DataFrame | Sequence[str]",
    score: Score = Score.MASKED,
) -> tuple[list[str], Iterator[list[Cell]], int]:
    """Names of the columns, a row for each mutant of a table, and how many these are.

    Raises: SettingsError or BioattnError for a model that says nothing of likelihoods; as `read_variants`.
    """
    require_likelihoods(loaded)
    if loaded.config.form.output is Output.NONE:
        raise BioattnError(f"{loaded.path}: {NO_OUTPUT}, so that it scores no variants")
    sequences = dict(letters_in(inputs, loaded.vocabulary.alphabet)[1])
    mutants = read_variants(variants, sequences)
    scores = variant_scores(loaded, source, sequences, mutants, most, score)
    rows = ([each.sequence, each.mutant, value] for each, value in zip(mutants, scores, strict=True))
    return ["sequence", "mutant", "score"], rows, len(mutants)


def warn_of_missing(
    loaded: "LoadedLanguageModel", source: object, names: Sequence[str], score: Score
) -> None:
    """Warn of rows without likelihoods. source: of the sequences or variants `names`, which had no words."""
    if names:
        LOGGER.warning(
            f"{source}: {listed(names)}: no word that the model could be asked for (N and X are unknown ones); "
            "the cells of the table are empty"
        )
    if loaded.config.form.output is Output.NONE and score is not Score.NONE:
        LOGGER.warning(f"{loaded.path}: {NO_OUTPUT}; the table has no likelihoods")
