"""Sampling of promoters and treatments for the checks, and their predictions.

Shape suffixes: B promoters, T treatments, L bases, P bins.
"""

from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from bioattn.errors import BioattnError
from bioattn.formats.nucleotides import UNKNOWN
from bioattn.inference.runner import Codes, Floats, Predictor, WindowSource
from bioattn.text import counted

READ_AT_ONCE = 1024
MIN_PROMOTERS = 20
"""Least number of promoters; fewer give useless intervals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Promoters drawn from a FASTA, in file order."""

    ids: list[str]
    codes: Codes
    """Codes (B, length) as the model takes them."""
    sha256: str
    """SHA-256 of the whole FASTA."""
    held_out: bool
    """Whether all of them are genes the model was not trained on."""


def draw_sample(source: WindowSource, count: int, seed: int, held_out: Collection[str] = ()) -> Sample:
    """`count` samples drawn uniformly from a source (all of them, if it holds no more).

    held_out: ids that the model was not trained on; where enough of them are in the source, only they are drawn.

    Raises: BioattnError when the source holds fewer than `MIN_PROMOTERS`.
    """
    if source.num_samples < MIN_PROMOTERS:
        raise BioattnError(
            f"{source.path}: holds {counted(source.num_samples, 'promoter')}; the checks need {MIN_PROMOTERS} or "
            "more to say anything"
        )
    preferred = np.array(
        [name in held_out for batch in source.batches(READ_AT_ONCE) for name in batch.samples.ids], np.bool_
    )
    only_held_out = int(preferred.sum()) >= MIN_PROMOTERS
    rows = np.flatnonzero(preferred) if only_held_out else np.arange(source.num_samples)
    if len(rows) > count:
        rows = np.sort(np.random.default_rng([seed, 0]).choice(rows, count, replace=False))
    ids, codes = [], []
    for number, batch in enumerate(source.batches(READ_AT_ONCE)):
        chosen = rows[rows // READ_AT_ONCE == number] % READ_AT_ONCE
        ids += [batch.samples.ids[row] for row in chosen]
        codes.append(batch.codes[chosen])
    return Sample(ids=ids, codes=np.concatenate(codes), sha256=source.sha256, held_out=only_held_out)


def draw_treatments(names: list[str], count: int, seed: int) -> list[str]:
    """`count` of the names drawn uniformly, in their order; all names, if there are no more."""
    if len(names) <= count:
        return list(names)
    rows = np.random.default_rng([seed, 1]).choice(len(names), count, replace=False)
    return [names[row] for row in np.sort(rows)]


def known_bins(codes_BL: Codes, edges: tuple[int, ...]) -> NDArray[np.bool_]:
    """(B, P): True where a bin [edges[p], edges[p + 1]) holds at least one base that is not N."""
    known_BL = codes_BL != UNKNOWN
    return np.stack([known_BL[:, start:end].any(1) for start, end in pairwise(edges)], 1)


def predict(
    predictor: Predictor, codes_BL: Codes, listening: AbstractContextManager[object] | None = None
) -> Floats:
    """Predictions (B, T) in response units (binary: logits); `listening` is a `capture` or `substitute`."""
    answers, size = [], predictor.batch_size
    with torch.inference_mode(), listening or nullcontext():
        for first in range(0, len(codes_BL), size):
            codes = torch.from_numpy(np.ascontiguousarray(codes_BL[first : first + size]))
            answers.append(predictor.forward(codes.to(predictor.runner.device)).double().cpu().numpy())
    return np.concatenate(answers)
