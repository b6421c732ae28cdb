"""Sampling of promoters and treatments for the checks, and their predictions.

Shape suffixes: B promoters, T treatments, L bases, P bins.
"""

from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from bioattn.errors import BioattnError
from bioattn.models.promoter.folder import LoadedPromoterModel
from bioattn.models.promoter.inference.batches import N_CODE, make_batch, scan_promoters
from bioattn.models.promoter.treatment_vocabulary import TreatmentBatch
from bioattn.promoters.promoter_fasta import read_promoters
from bioattn.text import counted

Codes: TypeAlias = NDArray[np.uint8]
Floats: TypeAlias = NDArray[np.float64]
MIN_PROMOTERS = 20
"""Least number of promoters; fewer give useless intervals."""
BATCH_BYTES = 1 << 24
"""Bytes of the widest tensor of a batch at most."""


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


def draw_sample(
    path: Path, length: int, count: int, seed: int, held_out: Collection[str] | None = None
) -> Sample:
    """`count` promoters drawn uniformly from a FASTA (all of them, if it holds no more).

    held_out: ids of genes the model was not trained on; where enough of them are in the file, only they are drawn.

    Raises: BioattnError when the file holds fewer than `MIN_PROMOTERS`; FormatError as `scan_promoters`.
    """
    source = scan_promoters(path, length)
    wanted = set(held_out or ())
    preferred = np.array([promoter.gene_id in wanted for promoter in read_promoters(path)], dtype=np.bool_)
    if source.num_promoters < MIN_PROMOTERS:
        raise BioattnError(
            f"{path}: holds {counted(source.num_promoters, 'promoter')}; the checks need {MIN_PROMOTERS} or more "
            "to say anything"
        )
    only_held_out = int(preferred.sum()) >= MIN_PROMOTERS
    rows = np.flatnonzero(preferred) if only_held_out else np.arange(source.num_promoters)
    if len(rows) > count:
        rows = np.sort(np.random.default_rng([seed, 0]).choice(rows, count, replace=False))
    chosen = set(rows.tolist())
    batch = make_batch(
        [promoter for number, promoter in enumerate(read_promoters(path)) if number in chosen], length
    )
    return Sample(
        ids=list(batch.samples.ids), codes=batch.codes, sha256=source.sha256, held_out=only_held_out
    )


def draw_treatments(names: list[str], count: int, seed: int) -> list[str]:
    """`count` of the names drawn uniformly, in their order; all names, if there are no more."""
    if len(names) <= count:
        return list(names)
    rows = np.random.default_rng([seed, 1]).choice(len(names), count, replace=False)
    return [names[row] for row in np.sort(rows)]


def known_bins(codes_BL: Codes, edges: tuple[int, ...]) -> NDArray[np.bool_]:
    """(B, P): True where a bin [edges[p], edges[p + 1]) holds at least one base that is not N."""
    known_BL = codes_BL != N_CODE
    return np.stack([known_BL[:, start:end].any(1) for start, end in pairwise(edges)], 1)


def predict(
    model: LoadedPromoterModel,
    treatments: TreatmentBatch,
    codes_BL: Codes,
    listening: AbstractContextManager[object] | None = None,
) -> Floats:
    """Predictions (B, T) in response units (binary: logits); `listening` is a `capture` or `substitute`."""
    answers = []
    with torch.inference_mode(), listening or nullcontext():
        for part_BL in batches(model, treatments.size, codes_BL):
            codes = torch.from_numpy(part_BL).to(model.device)
            answers.append(model.model(codes, treatments).double().cpu().numpy())
    return np.concatenate(answers)


def batches(model: LoadedPromoterModel, num_treatments: int, codes_BL: Codes) -> Iterator[Codes]:
    """Yields batches of promoters, so that no tensor of a forward pass exceeds `BATCH_BYTES`."""
    config = model.config
    per_treatment = max(config.num_heads * config.num_bins, config.channels, config.hidden_channels)
    widest = max(2 * config.length * config.channels, num_treatments * per_treatment)
    size = max(1, min(256, BATCH_BYTES // (4 * widest)))
    for first in range(0, len(codes_BL), size):
        yield np.ascontiguousarray(codes_BL[first : first + size])
