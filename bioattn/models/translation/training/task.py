"""How a translation model is trained: what `training/trainer.py` asks of this family."""

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from bioattn.errors import BioattnError, SettingsError
from bioattn.io.settings import build
from bioattn.models.translation.batches import IGNORED, Batch, batch_of
from bioattn.models.translation.config import UNUSED, TranslationModelConfig, TranslationTrainingConfig
from bioattn.models.translation.family import TranslationTraining
from bioattn.models.translation.model import Translator
from bioattn.models.translation.training.counts import AlignedCounts
from bioattn.promoters.dataset import SPLIT_NAMES, TEST, TRAIN, VALIDATION
from bioattn.sequences.pairs import Pair, open_pair_dataset
from bioattn.store.training_record import MODEL_ROW
from bioattn.system.progress import Progress
from bioattn.system.shard import Shard
from bioattn.training.predicted_tokens import SUMS, Evaluation, Row, figures_of, sums_of
from bioattn.training.task import ConfiguredTask, Judgement, PartLoss, Step

POOL = 8
"""A batch is drawn from so many times its pairs, ordered by length, so that little of it is padding."""
EVALUATION_PAIRS = 512
"""Pairs of each side by which the trained model is judged."""
MAX_COUNTED = 1_000_000
"""Training tokens that the simple model counts at most."""


class TranslationTask(ConfiguredTask):
    """One training run of a translation model."""

    metric = "bits per token"
    shown: Mapping[str, str] = {"accuracy": "accuracy", "bits": "bits per token"}
    smaller_is_better = True
    model: Translator
    family, training_kind = "translation", TranslationTrainingConfig

    def __init__(self, settings: TranslationTraining, device: torch.device) -> None:
        super().__init__(settings, device)
        self.dataset = open_pair_dataset(settings.dataset)
        self.pairs = {side: self._fitting(self.dataset.side(side)) for side in (TRAIN, VALIDATION, TEST)}
        if not self.pairs[TRAIN]:
            raise BioattnError(
                f"{settings.dataset}: has no pair for training of at most longest = {self.training.longest} tokens"
            )
        source, target = self.dataset.source, self.dataset.target
        chosen = {
            "source_alphabet": str(source.alphabet),
            "target_alphabet": str(target.alphabet),
            "source_characters": source.characters,
            "target_characters": target.characters,
            "longest_source": max(len(pair.source) for pair in self.pairs[TRAIN]),
        }
        given = settings.model
        self.config = build(TranslationModelConfig, {**given, **chosen}, settings.source("model"))
        for each in sorted(UNUSED[self.config.architecture] & given.keys()):
            raise SettingsError(f"{each} is not for architecture = {self.config.architecture}; leave it out")
        self.decided_by(dataset=settings.dataset)

    def _fitting(self, pairs: list[Pair]) -> list[Pair]:
        fitting = [pair for pair in pairs if max(map(len, pair)) <= self.training.longest]
        return sorted(fitting, key=lambda pair: (len(pair.source), len(pair.target)))

    def prepare(self, progress: Progress) -> None:
        training = self.training
        self.lengths = np.array([len(pair.source) for pair in self.pairs[TRAIN]])
        self.validation = self._batches(VALIDATION, training.validation_pairs)
        torch.manual_seed(training.seed)
        self.model = Translator(self.config).to(self.device)
        self.update_as(training)
        weights = sum(p.numel() for p in self.model.parameters())
        left_out = len(self.dataset.side(TRAIN)) - len(self.pairs[TRAIN])
        self.summary = (
            f"{self.config.architecture} ({weights:,} weights) on {len(self.pairs[TRAIN]):,} pairs"
            + (f"; {left_out:,} are longer than {training.longest:,} tokens" if left_out else "")
        )

    def parts(self, step: Step, shard: Shard) -> Iterator[PartLoss]:
        training = self.training
        drawn = self._drawn(step.number)
        tokens = sum(len(pair.target) + 1 for pair in drawn)
        torch.manual_seed(training.seed * 1_000_003 + step.number)
        own = drawn[shard.slice(len(drawn))]
        if own:
            batch = batch_of(own).to(self.device)
            with training.precision.autocast(self.device):
                logits_BTV = self.model(batch.source_BS, batch.prefix_BT)
            loss = F.cross_entropy(
                logits_BTV.float().flatten(0, 1),
                batch.wanted_BT.flatten(),
                ignore_index=IGNORED,
                reduction="sum",
            )
            yield PartLoss(loss / tokens, loss / tokens)

    def _drawn(self, step: int) -> list[Pair]:
        training = self.training
        number = len(self.lengths)
        if training.grow_every:
            longest = max(int(self.lengths[0]), 1 + step // training.grow_every)
            number = int(np.searchsorted(self.lengths, longest, side="right"))
        generator = np.random.default_rng([training.seed, step])
        pool = np.sort(generator.integers(number, size=training.batch_size * POOL))
        first = int(generator.integers(POOL)) * training.batch_size
        return [self.pairs[TRAIN][place] for place in pool[first : first + training.batch_size].tolist()]

    def validate(self, model: nn.Module, shard: Shard) -> Tensor | None:
        """`SUMS` of the tokens of the validation pairs."""
        if not self.validation:
            return None
        return self._sums(cast(Translator, model), self.validation, shard.slice(len(self.validation)))

    def _sums(self, model: Translator, batches: Sequence[Batch], own: slice) -> Tensor:
        """`SUMS`, a row per batch, 0 where it is not `own`."""
        sums = torch.zeros(len(batches), len(SUMS), dtype=torch.float64)
        with self.training.precision.autocast(self.device):
            for number in range(own.start, own.stop):
                batch = batches[number].to(self.device)
                sums[number] = sums_of(
                    model(batch.source_BS, batch.prefix_BT), batch.wanted_BT, IGNORED
                ).cpu()
        return sums

    def judge(self, values: Tensor) -> Judgement:
        figures = figures_of(values.sum(0).tolist())
        return Judgement(figures["bits"], figures)

    def evaluate(self, progress: Progress) -> Evaluation:
        train = self.pairs[TRAIN]
        tokens = sum(len(pair.target) for pair in train)
        counted = train[:: -(-tokens // MAX_COUNTED)]
        model, target = self.model, self.dataset.target
        simple = AlignedCounts(counted, len(target.tokens), len(self.dataset.source.tokens))
        rows: list[Row] = []
        for side in (VALIDATION, TEST):
            batches = self._batches(side, EVALUATION_PAIRS)
            if not batches:
                continue
            with torch.no_grad():
                sums = self._sums(model, batches, slice(0, len(batches))).sum(0)
            rows.append(Row(SPLIT_NAMES[side], MODEL_ROW, figures_of(sums.tolist())))
            counts = sum((simple.sums(pair) for pair in self._spread(side, EVALUATION_PAIRS)), np.zeros(3))
            rows.append(Row(SPLIT_NAMES[side], simple.name, figures_of(counts.tolist())))
        return Evaluation(rows, "next target tokens")

    def _spread(self, side: int, number: int) -> list[Pair]:
        """Pairs of a side, evenly spread over all lengths."""
        pairs = self.pairs[side]
        places = np.unique(np.linspace(0, len(pairs) - 1, min(number, len(pairs))).round().astype(int))
        return [pairs[place] for place in places.tolist()]

    def _batches(self, side: int, number: int) -> list[Batch]:
        pairs, size = self._spread(side, number), self.training.batch_size
        return [batch_of(pairs[first : first + size]) for first in range(0, len(pairs), size)]

    def describe(self) -> tuple[str, str]:
        config = self.config
        return (
            f"Translation model: {config.source_alphabet} to {config.target_alphabet}",
            f"{config.architecture}, {config.layers} layers of {config.channels} channels, sources of up to "
            f"{config.longest_source:,} tokens. Trained by bioattn on `{self.settings.dataset.name}` "
            f"({len(self.pairs[TRAIN]):,} pairs).",
        )
