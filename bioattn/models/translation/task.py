"""How a translation model is trained, and the simple model that it is compared with: counts of a few tokens."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray
from torch import Tensor

from bioattn.choices import SPLIT_NAMES, TEST, TRAIN, VALIDATION
from bioattn.errors import BioattnError, SettingsError
from bioattn.inference.passes import IGNORED
from bioattn.io.settings import build
from bioattn.models.translation.batches import Batch, batch_of
from bioattn.models.translation.family import (
    UNUSED,
    TranslationModelConfig,
    TranslationTraining,
    TranslationTrainingConfig,
)
from bioattn.models.translation.model import Translator
from bioattn.sequences.pairs import Pair, Tokens, open_pair_dataset
from bioattn.sequences.vocabulary import EOS
from bioattn.system.progress import Progress
from bioattn.system.shard import Shard
from bioattn.training.predicted_tokens import Evaluation, Row, TokenTask, figures_of, mixed, sums_of
from bioattn.training.task import Step, set_seed

POOL = 8
"""A batch is drawn from so many times its pairs, ordered by length, so that little of it is padding."""
EVALUATION_PAIRS = 512
"""Pairs of each side by which the trained model is judged."""
NO_TOKEN = 0
"""Stands for what lies beyond the ends of a sequence."""
MAX_COUNTED = 1_000_000
"""Training tokens that the simple model counts at most."""


class TranslationTask(TokenTask):
    model: Translator
    family, training_kind = "translation", TranslationTrainingConfig

    def __init__(self, settings: TranslationTraining, device: torch.device) -> None:
        super().__init__(settings, device)
        self.dataset = open_pair_dataset(settings.dataset)
        self.pairs = {}
        for side in (TRAIN, VALIDATION, TEST):
            fitting = [
                pair for pair in self.dataset.side(side) if max(map(len, pair)) <= self.training.longest
            ]
            self.pairs[side] = sorted(fitting, key=lambda pair: (len(pair.source), len(pair.target)))
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
            "genetic_code": int(self.dataset.metadata["settings"]["genetic_code"]),
        }
        given = settings.model
        self.config = build(TranslationModelConfig, {**given, **chosen}, settings.source("model"))
        for each in sorted(UNUSED[self.config.architecture] & given.keys()):
            raise SettingsError(f"{each} is not for architecture = {self.config.architecture}; leave it out")
        self.decided_by(dataset=settings.dataset)

    def prepare(self, progress: Progress) -> None:
        training = self.training
        self.lengths = np.array([len(pair.source) for pair in self.pairs[TRAIN]])
        self.validation = self._batches(VALIDATION, training.validation_pairs)
        self.make(Translator)
        left_out = len(self.dataset.side(TRAIN)) - len(self.pairs[TRAIN])
        self.summary = f"{self.config.architecture} ({self.weights}) on {len(self.pairs[TRAIN]):,} pairs" + (
            f"; {left_out:,} are longer than {training.longest:,} tokens" if left_out else ""
        )

    def parts(self, step: Step, shard: Shard) -> Iterator[Tensor]:
        training = self.training
        drawn = self._drawn(step.number)
        tokens = sum(len(pair.target) + 1 for pair in drawn)
        set_seed(training.seed * 1_000_003 + step.number)
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
            yield loss / tokens

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

    def batch_sums(self, model: Translator, batch: Batch) -> Tensor:
        batch = batch.to(self.device)
        return sums_of(model(batch.source_BS, batch.prefix_BT), batch.wanted_BT, IGNORED)

    def evaluate(self, progress: Progress) -> Evaluation:
        train = self.pairs[TRAIN]
        tokens = sum(len(pair.target) for pair in train)
        counted = train[:: -(-tokens // MAX_COUNTED)]
        simple = AlignedCounts(counted, len(self.dataset.target.tokens), len(self.dataset.source.tokens))
        simple.choose_order(self._spread(VALIDATION, EVALUATION_PAIRS))
        rows: list[Row] = []
        for side in (VALIDATION, TEST):
            if batches := self._batches(side, EVALUATION_PAIRS):
                rows.append(self.model_row(side, batches))
                pairs = self._spread(side, EVALUATION_PAIRS)
                counts = sum((simple.sums(pair) for pair in pairs), np.zeros(3))
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


class AlignedCounts:
    """Probabilities of a target token by counts of contexts that grow by one token after the other.

    Where source and target are as long in (nearly) all pairs, a context is the source token of the same place, the
    target token before, the source tokens beside, and the target token two before; elsewhere the target tokens
    before. Each order is mixed with the one below by Witten and Bell's weights, up to the `order` that predicts
    validation pairs best.
    """

    def __init__(self, pairs: Sequence[Pair], num_tokens: int, num_source: int) -> None:
        differing = sum(abs(len(pair.source) - len(pair.target)) > 1 for pair in pairs)
        self.aligned = differing <= len(pairs) / 20
        self.num_tokens, self.base = num_tokens, max(num_tokens, num_source)
        contexts, targets = zip(*(self._contexts(pair) for pair in pairs), strict=True)
        context_FN, target_N = np.concatenate(contexts, 1), np.concatenate(targets)
        self.name = f"counts of {'aligned tokens' if self.aligned else 'the tokens before'}"
        self.tables = []
        """Of each order the contexts that were seen, ascending, and counts (contexts, tokens) of what followed."""
        for codes in context_FN:
            seen, place = np.unique(codes, return_inverse=True)
            cells = np.bincount(place * num_tokens + target_N, minlength=len(seen) * num_tokens)
            self.tables.append((seen, cells.reshape(len(seen), -1).astype(np.float64)))
        self.order = len(self.tables)

    def choose_order(self, validation: Sequence[Pair]) -> None:
        if validation:
            orders = range(1, len(self.tables) + 1)
            self.order = min(orders, key=lambda order: sum(self.sums(pair, order)[1] for pair in validation))

    def _contexts(self, pair: Pair) -> tuple[NDArray[np.int64], Tokens]:
        """A number for each context of each order (F, N), and the tokens to predict, `<eos>` the last."""
        target = np.append(pair.target, EOS)
        size = len(target)
        before = np.concatenate([[NO_TOKEN] * 3, pair.target])
        if self.aligned:
            source = np.concatenate([[NO_TOKEN], pair.source, [EOS] + [NO_TOKEN] * size])
            features = [source[1:], before[2:], source, source[2:], before[1:]]
        else:
            features = [before[2:], before[1:], before]
        codes = [np.zeros(size, np.int64)]
        for each in features:
            codes.append(codes[-1] * self.base + each[:size])
        return np.stack(codes), target

    def sums(self, pair: Pair, order: int | None = None) -> NDArray[np.float64]:
        """Number, surprise in nats and hits of the tokens of a target and its end. order: None: `self.order`."""
        context_FN, targets = self._contexts(pair)
        probability_NV = np.full((len(targets), self.num_tokens), 1.0 / self.num_tokens)
        for codes, (contexts, counts) in zip(context_FN[: order or self.order], self.tables, strict=False):
            place = np.minimum(np.searchsorted(contexts, codes), len(contexts) - 1)
            seen = contexts[place] == codes
            probability_NV[seen] = mixed(counts[place[seen]], probability_NV[seen])
        own = probability_NV[np.arange(len(targets)), targets]
        return np.array([len(targets), -np.log(own).sum(), (probability_NV.argmax(-1) == targets).sum()])
