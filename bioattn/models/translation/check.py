"""Held-out pairs, and what a model predicts of their targets: what `explain check` and `explain heads` ask of it.

Shape suffixes: N pairs, L source tokens, M target words, W words of the target's vocabulary.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.checks.engine import CheckSettings, Evidence, draw_rows
from bioattn.checks.tokens import TokenProbe
from bioattn.choices import SPLIT_NAMES, TEST, VALIDATION
from bioattn.errors import BioattnError
from bioattn.inference.inputs import Inputs, dataset_in
from bioattn.inference.passes import padded
from bioattn.inference.token_heads import TokenHeadScorer
from bioattn.io.files import sha256_of
from bioattn.models.translation.batches import Batch, batch_of, with_ends
from bioattn.models.translation.run import LoadedTranslator
from bioattn.sequences.pairs import Pair, PairDataset, open_pair_dataset
from bioattn.sequences.vocabulary import PAD, SPECIAL, UNKNOWN
from bioattn.system.progress import Progress

SOURCE_SITE = "translation.source"
"""How the names of sites begin at which decoders attend to source tokens."""
LONGEST = 256
"""Most words of either side: every word of some sources is replaced in turn, and the target read again."""
BATCH_TOKENS = 8192
PAIRS, BATCH_SIZE = 64, 8
"""Pairs by which heads are judged, spread evenly over the lengths of the split up to `LONGEST` words."""


@dataclass(kw_only=True)
class TranslationProbe(TokenProbe):
    """Sources, and target words given the true ones before."""

    noun = "pair"
    aligns = True

    loaded: LoadedTranslator
    pairs: list[Pair]
    sites: tuple[str, ...] = (f"{SOURCE_SITE}*",)

    @property
    def known_NL(self) -> NDArray[np.bool_]:  # noqa: N802
        return np.asarray(self.tokens_NL != PAD)

    @property
    def num_words(self) -> int:
        return len(self.loaded.model.target.tokens) - len(SPECIAL)

    def draw_positions(self, random: np.random.Generator) -> NDArray[np.int64]:
        return random.integers(0, [len(pair.target) for pair in self.pairs])

    def queries(self, position_N: NDArray[np.int64]) -> NDArray[np.int64]:
        """The step that writes a word has its number."""
        return position_N

    def exchangeable(self, _position_N: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.asarray(self.tokens_NL >= len(SPECIAL))

    def true_log_likelihoods(self) -> NDArray[np.float64]:
        words_NM1 = torch.from_numpy(self.words_NM).clamp(min=0)[..., None]
        batches = self._likely(self.tokens_NL, np.arange(len(self.pairs)), self.words_NM.shape[1])
        found = [likely_BMW.take_along_dim(words_NM1[own], -1)[..., 0] for own, likely_BMW in batches]
        return np.where(self.words_NM >= 0, torch.cat(found).numpy(), 0.0)

    def word_log_likelihoods(
        self, tokens_NL: NDArray[np.int64], row_N: NDArray[np.int64], position_N: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """ln of the probability of every word at one position of the targets of `row_N`, (N, W)."""
        place_N = torch.from_numpy(position_N)
        batches = self._likely(tokens_NL, row_N, int(position_N.max()) + 1)
        found = [each[torch.arange(len(each)), place_N[own]] for own, each in batches]
        return torch.cat(found).numpy()

    def _likely(
        self, tokens_NL: NDArray[np.int64], row_N: NDArray[np.int64], steps: int
    ) -> Iterator[tuple[slice, torch.Tensor]]:
        """Batches, and ln of the probabilities (B, steps, W) of words."""
        device, size = self.loaded.device, max(1, BATCH_TOKENS // tokens_NL.shape[1])
        for first in range(0, len(tokens_NL), size):
            own = slice(first, first + size)
            prefix_BT = batch_of([self.pairs[row] for row in row_N[own]]).prefix_BT[:, :steps]
            prefix_BT = torch.nn.functional.pad(prefix_BT, (0, steps - prefix_BT.shape[1]), value=PAD)
            with torch.inference_mode():
                logits = self.loaded.model(torch.from_numpy(tokens_NL[own]).to(device), prefix_BT.to(device))
            yield own, logits[..., len(SPECIAL) :].double().log_softmax(-1).cpu()


def make_probe(
    loaded: LoadedTranslator, inputs: Inputs, settings: CheckSettings, _evidence: Evidence
) -> TranslationProbe:
    """`settings.samples` pairs of at most `LONGEST` words, drawn from the test side (or else validation) of a
    dataset.

    Raises: FormatError for what is no such dataset; BioattnError for a model without attention, or
    another alphabet.
    """
    if not any(name.startswith(SOURCE_SITE) for name in loaded.sites):
        raise BioattnError(
            f"a model of architecture {loaded.config.architecture} does not attend to source tokens: there is no "
            "alignment that could be checked"
        )
    path = dataset_in(inputs)
    dataset = _open_dataset(loaded, path)
    side = TEST if (dataset.split == TEST).any() else VALIDATION
    rows = _short_pairs(dataset, side)
    chosen = draw_rows(len(rows), settings.samples, settings.seed)
    pairs = [dataset.pairs[rows[place]] for place in chosen.tolist()]
    sha256 = sha256_of(path)
    words = [np.where(pair.target == UNKNOWN, -1, pair.target - len(SPECIAL)) for pair in pairs]
    sources = [pair.source for pair in pairs] or [np.zeros(0, np.int64)]
    return TranslationProbe(
        loaded=loaded,
        settings=settings,
        inputs=path,
        ids=[dataset.ids[rows[place]] for place in chosen.tolist()],
        sha256=sha256,
        held_out=loaded.held_out(SPLIT_NAMES[side], sha256),
        pairs=pairs,
        tokens_NL=padded([with_ends(each) for each in sources], PAD).numpy(),
        words_NM=padded(words or [np.zeros(1, np.int64)], -1).numpy(),
    )


def _open_dataset(loaded: LoadedTranslator, path: Path) -> PairDataset:
    """Raises: FormatError for what is no such dataset; BioattnError for other alphabets than the model's."""
    dataset, model = open_pair_dataset(path), loaded.model
    if (dataset.source, dataset.target) != (model.source, model.target):
        raise BioattnError(
            f"{path}: is from {dataset.source.alphabet} to {dataset.target.alphabet}, the model from "
            f"{model.source.alphabet} to {model.target.alphabet}, or of other characters"
        )
    return dataset


def _short_pairs(dataset: PairDataset, side: int) -> list[int]:
    """Rows of a side of the split whose pairs have at most `LONGEST` words."""
    rows: list[int] = np.flatnonzero(dataset.split == side).tolist()
    return [row for row in rows if max(map(len, dataset.pairs[row])) <= LONGEST]


class TranslationHeadScorer(TokenHeadScorer[Batch]):
    item = "pair"

    def __init__(self, loaded: LoadedTranslator, path: Path, split: str, _progress: Progress) -> None:
        """Raises: BioattnError for a dataset that does not fit, a split without pairs, a model without heads."""
        dataset = _open_dataset(loaded, path)
        fitting = _short_pairs(dataset, SPLIT_NAMES.index(split))
        if not fitting:
            raise BioattnError(
                f"{path}: no pair of at most {LONGEST} words is in the {split} split; choose another with --split"
            )
        fitting.sort(key=lambda row: len(dataset.pairs[row].source))
        number = min(PAIRS, len(fitting))
        rows = [fitting[place * len(fitting) // number] for place in range(number)]
        self._pairs = [dataset.pairs[row] for row in rows]
        firsts = range(0, len(rows), BATCH_SIZE)
        parts = [batch_of(self._pairs[first : first + BATCH_SIZE]) for first in firsts]
        super().__init__(loaded, [dataset.ids[row] for row in rows], parts)
        if not self.sites:
            raise BioattnError(f"a model of architecture {loaded.config.architecture} has no heads to judge")

    def predicted(self, part: Batch) -> tuple[Tensor, Tensor]:
        batch = part.to(self._device)
        return self._model(batch.source_BS, batch.prefix_BT), batch.wanted_BT

    def passes(self) -> Iterator[Callable[[], object]]:
        for pair in self._pairs:
            yield partial(self.predicted, batch_of([pair]))
