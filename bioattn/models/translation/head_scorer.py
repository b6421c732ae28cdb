"""What the heads of translation models are judged by: held-out pairs, given the true prefix."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from bioattn.errors import BioattnError
from bioattn.inference.token_heads import TokenHeadScorer
from bioattn.models.translation.batches import Batch, batch_of
from bioattn.models.translation.inference.probe import LONGEST, open_dataset
from bioattn.promoters.dataset import SPLIT_NAMES

if TYPE_CHECKING:
    from bioattn.models.translation.folder import LoadedTranslator

PAIRS, BATCH_SIZE = 64, 8
"""Pairs by which heads are judged, spread evenly over the lengths of the split up to `LONGEST` words."""


class TranslationHeadScorer(TokenHeadScorer[Batch]):
    """Scores a model's heads on one split of a dataset."""

    item = "pair"

    def __init__(self, loaded: "LoadedTranslator", path: Path, split: str) -> None:
        """Raises: BioattnError for a dataset that does not fit, a split without pairs, a model without heads."""
        dataset = open_dataset(loaded, path)
        fitting = [
            row
            for row in np.flatnonzero(dataset.split == SPLIT_NAMES.index(split)).tolist()
            if max(map(len, dataset.pairs[row])) <= LONGEST
        ]
        if not fitting:
            raise BioattnError(
                f"{path}: no pair of at most {LONGEST} words is in the {split} split; choose another with --split"
            )
        fitting.sort(key=lambda row: len(dataset.pairs[row].source))
        rows = (
            [fitting[place * len(fitting) // PAIRS] for place in range(PAIRS)]
            if len(fitting) > PAIRS
            else fitting
        )
        self._pairs = [dataset.pairs[row] for row in rows]
        parts = [
            batch_of(self._pairs[first : first + BATCH_SIZE]) for first in range(0, len(rows), BATCH_SIZE)
        ]
        super().__init__(loaded, [dataset.ids[row] for row in rows], parts)
        if not self.sites:
            raise BioattnError(f"a model of architecture {loaded.config.architecture} has no heads to judge")

    def predicted(self, part: Batch) -> tuple[Tensor, Tensor]:
        batch = part.to(self._device)
        return self._model(batch.source_BS, batch.prefix_BT), batch.wanted_BT

    def passes(self) -> Iterator[Callable[[], object]]:
        for pair in self._pairs:
            yield partial(self.predicted, batch_of([pair]))
