"""How a memory network is trained: what `training/trainer.py` asks of this family."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from bioattn.choices import SPLIT_NAMES, TEST, TRAIN, VALIDATION
from bioattn.errors import FormatError
from bioattn.io.settings import build
from bioattn.models.memory.facts import UNKNOWN, Batch, Book, Question, Reader, read_book
from bioattn.models.memory.family import MemoryModelConfig, MemoryTraining, MemoryTrainingConfig
from bioattn.models.memory.model import MemoryNetwork
from bioattn.system.progress import Progress
from bioattn.system.shard import Shard
from bioattn.text import counted
from bioattn.training.predicted_tokens import SUMS, Evaluation, Row, TokenTask, figures_of, sums_of
from bioattn.training.task import Step

HELD_OUT = 0.1
"""Share of the stories for validation, and of those for the test, where no column says it."""
FEW_STORIES = 10
"""With fewer stories than this, questions are split, not stories."""
BATCH = 256
"""Questions that are judged at once."""


class MemoryTask(TokenTask):
    metric = "bits per answer"
    shown: Mapping[str, str] = {"accuracy": "accuracy", "bits": "bits per answer"}
    model: MemoryNetwork
    family, training_kind = "memory", MemoryTrainingConfig

    def __init__(self, settings: MemoryTraining, device: torch.device) -> None:
        super().__init__(settings, device)
        self.book = read_book(settings.facts, settings.questions)
        self.sides = split(self.book, self.training.seed)
        train = self.sides[TRAIN]
        if not train:
            raise FormatError(f"{self.book.questions}: has no question for training")
        answers = {each.answer for each in train}
        for each in self.book.asked:
            if not each.answer:
                raise FormatError(f"{each.text.where}: has no answer; training needs one for every question")
        stories = [self.book.stories[name] for name in {each.story for each in train}]
        texts = [text.words for story in stories for text in story.values()]
        texts += [each.text.words for each in train]
        chosen = {
            "words": sorted({word for text in texts for word in text} | answers),
            "answers": sorted(answers),
            "places": max(map(len, texts)),
        }
        self.config = build(MemoryModelConfig, {**settings.model, **chosen}, settings.source("model"))
        self.supervised = bool(self.training.hop_weight) and any(each.true_facts for each in train)
        for each in self.book.asked if self.supervised else ():
            if each.true_facts and len(each.true_facts) != self.config.hops:
                raise FormatError(
                    f"{each.text.where}: names {counted(len(each.true_facts), 'fact')}, the model makes "
                    f"{counted(self.config.hops, 'hop')}; "
                    f"give --hops {len(each.true_facts)}, or hop_weight = 0 to learn from answers alone"
                )
        self.decided_by(facts=self.book.facts, questions=self.book.questions)

    def prepare(self, progress: Progress) -> None:
        self.reader = Reader(self.config, self.book)
        self.batches = {}
        for side in (VALIDATION, TEST):
            own = self.sides[side]
            firsts = range(0, len(own), BATCH)
            self.batches[side] = [self.reader.batch(own[first : first + BATCH]) for first in firsts]
        self.validation = self.batches[VALIDATION]
        self.num_sums = len(SUMS) + 1 + self.config.hops
        self.make(MemoryNetwork)
        taught = "with the true facts of each hop" if self.supervised else "from answers alone"
        self.summary = (
            f"a memory network of {counted(self.config.hops, 'hop')} ({self.weights}) on "
            f"{counted(len(self.sides[TRAIN]), 'question')}, {taught}"
        )

    def parts(self, step: Step, shard: Shard) -> Iterator[Tensor]:
        training, train = self.training, self.sides[TRAIN]
        generator = np.random.default_rng([training.seed, step.number])
        drawn = [train[place] for place in generator.integers(len(train), size=training.batch_size)]
        own = drawn[shard.slice(len(drawn))]
        if own:
            batch = self.reader.batch(own).to(self.device)
            linear = not self.supervised and step.number < training.linear_fraction * training.steps
            with training.precision.autocast(self.device):
                reading = self.model(batch.question_BW, batch.facts_BFW, linear=linear)
            loss = F.cross_entropy(reading.logits_BA.float(), batch.answer_B, reduction="sum")
            if self.supervised:
                known_B = (batch.true_BK != UNKNOWN).all(-1)
                own_BK1 = reading.weights_BKF[known_B].gather(-1, batch.true_BK[known_B][..., None])
                nats_B = -own_BK1.float().clamp(min=1e-9).log().mean((1, 2))
                loss = loss + training.hop_weight * nats_B.sum()
            yield loss / len(drawn)

    def batch_sums(self, model: MemoryNetwork, batch: Batch) -> Tensor:
        """`SUMS` of answers, questions with true facts, hits of each hop."""
        batch = batch.to(self.device)
        logits_BA, weights_BKF = model(batch.question_BW, batch.facts_BFW)
        known_B = (batch.true_BK != UNKNOWN).all(-1)
        right_BK = (weights_BKF.argmax(-1) == batch.true_BK)[known_B]
        answers = sums_of(logits_BA, batch.answer_B, UNKNOWN)
        return torch.cat([answers, known_B.sum()[None], right_BK.sum(0)])

    def figures(self, sums: Sequence[float]) -> dict[str, float]:
        """Of answers, and the share of questions of which each hop reads the true fact most."""
        tokens, nats, right, known, *hits = sums
        hops = {f"hop {hop}": hit / known for hop, hit in enumerate(hits, start=1)} if known else {}
        return {**figures_of((tokens, nats, right)), **hops}

    def evaluate(self, progress: Progress) -> Evaluation:
        """The model on questions of both held-out sides, beside the most frequent answer."""
        answers = self.config.answers
        counts = Counter(each.answer for each in self.sides[TRAIN])
        frequent_A = torch.tensor([counts[answer] + 1.0 for answer in answers]).log()
        rows: list[Row] = []
        for side, batches in self.batches.items():
            if batches:
                rows.append(self.model_row(side, batches))
                answer_B = torch.cat([batch.answer_B for batch in batches])
                simple = sums_of(frequent_A.expand(len(answer_B), -1), answer_B, UNKNOWN)
                rows.append(Row(SPLIT_NAMES[side], "most frequent answer", figures_of(simple.tolist())))
        hops = {f"hop {hop}": (f"hop {hop}", 4) for hop in range(1, self.config.hops + 1)}
        columns = {"bits": ("bits per answer", 4), "accuracy": ("accuracy", 4)}
        return Evaluation(
            rows, "answers", columns | (hops if any("hop 1" in row.figures for row in rows) else {})
        )

    def describe(self) -> tuple[str, str]:
        config = self.config
        return (
            f"Memory network of {counted(config.hops, 'hop')}",
            f"{counted(len(config.words), 'word')}, {counted(len(config.answers), 'answer')}, "
            f"{config.channels} channels. Trained by bioattn on `{self.book.questions.name}` "
            f"({counted(len(self.sides[TRAIN]), 'question')}).",
        )


def split(book: Book, seed: int) -> dict[int, list[Question]]:
    """Questions by side: as the table says, else stories at random, or questions where there are few stories."""
    if any(each.split for each in book.asked):
        return {
            side: [each for each in book.asked if each.split == name] for side, name in enumerate(SPLIT_NAMES)
        }
    units = [each.name if len(book.stories) < FEW_STORIES else each.story for each in book.asked]
    names = list(dict.fromkeys(units))
    held_out = round(HELD_OUT * len(names))
    order = np.random.default_rng([seed, len(names)]).permutation(len(names))
    side_of = dict.fromkeys(names, TRAIN)
    side_of |= {names[place]: VALIDATION for place in order[:held_out]}
    side_of |= {names[place]: TEST for place in order[held_out : 2 * held_out]}
    return {
        side: [each for each, unit in zip(book.asked, units, strict=True) if side_of[unit] == side]
        for side in range(len(SPLIT_NAMES))
    }
