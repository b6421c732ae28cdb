"""What a fine-tuned model predicts of sequences, as the lines of a table."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from bioattn.models.language.config import Target, TargetKind
from bioattn.models.language.folder import LoadedLanguageModel
from bioattn.models.language.inference.source import TokenSource
from bioattn.models.language.readout import Readout, is_word

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


def predictions(loaded: LoadedLanguageModel, source: TokenSource, batch_size: int) -> Iterator[list[Cell]]:
    """The row of each sequence: numbers, the likeliest class and the probability of each class, and the likeliest
    tag of each token."""
    assert loaded.model.readout is not None
    targets = loaded.model.readout.fine_tuned.targets
    for part in source.batches(batch_size):
        with torch.inference_mode():
            outputs = loaded.model.predictions(part.padded().to(loaded.device))
        for row, (name, tokens) in enumerate(zip(part.ids, part.tokens, strict=True)):
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
