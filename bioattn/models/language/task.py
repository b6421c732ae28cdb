"""How a language model is trained: what `training/trainer.py` asks of this family."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray
from torch import Tensor

from bioattn.alignments.alphabet import msa_codes
from bioattn.alignments.weights import sequence_weights
from bioattn.choices import SPLIT_NAMES, TEST, TRAIN, VALIDATION
from bioattn.errors import BioattnError
from bioattn.formats.nucleotides import reverse_complement
from bioattn.inference.passes import IGNORED
from bioattn.io.settings import build, settings_error
from bioattn.models.family import CONFIG, WEIGHTS
from bioattn.models.language.config import LanguageModelConfig, LanguageTrainingConfig, Shape
from bioattn.models.language.family import LanguageTrainingSettings
from bioattn.models.language.folder import VOCABULARY, load_language_model, write_language_model
from bioattn.models.language.model import LanguageModel
from bioattn.models.language.simple_models import Profile, SimpleModel
from bioattn.models.language.windows import Exercise, Windows, exercise
from bioattn.sequences.choices import Alphabet
from bioattn.sequences.sequence_dataset import open_sequence_dataset
from bioattn.sequences.vocabulary import SPECIAL
from bioattn.system.progress import Progress
from bioattn.system.shard import Shard
from bioattn.training.predicted_tokens import SUMS, Evaluation, Row, TokenTask, figures_of, sums_of
from bioattn.training.settings import UpdateConfig
from bioattn.training.task import Results, Step, set_seed

VALIDATION_BATCH = 16
"""Windows of one forward pass in validation."""
EVALUATION_WINDOWS = 512
"""Windows of each side by which the trained model is judged."""
MAX_COUNTED = 20_000_000
"""Training letters that the simple model counts at most."""
PREDICTED = {
    Shape.ENCODER: "masked tokens",
    Shape.DECODER: "next tokens",
    Shape.ENCODER_DECODER: "tokens of masked spans",
}


class LanguageTask(TokenTask):
    betas = (0.9, 0.98)
    family = "language"
    training_kind: type[UpdateConfig] = LanguageTrainingConfig
    model: LanguageModel

    def __init__(self, settings: LanguageTrainingSettings, device: torch.device) -> None:
        super().__init__(settings, device)
        self.dataset = open_sequence_dataset(settings.dataset)
        self.start = None if settings.start is None else load_language_model(settings.start, device)
        if self.start is not None and self.start.config.alphabet is self.dataset.vocabulary.alphabet:
            self.dataset = replace(self.dataset, vocabulary=self.start.vocabulary)
        self.config = self._config()
        self.keeps_start = self.start is not None or self.config.alphabet is Alphabet.ALIGNMENT
        self.decided_by(dataset=settings.dataset)
        start = None if self.start is None else self.start.sha256
        self.digest = {**self.digest, "from": start, "model": self.config.to_json()}

    def _config(self) -> LanguageModelConfig:
        """The architecture that the settings ask for, or that of the model which training goes on from.

        Raises: SettingsError or FormatError when that model has another one than settings or dataset ask for.
        """
        vocabulary, source = self.dataset.vocabulary, self.settings.source("model")
        chosen: dict[str, Any] = {"alphabet": str(vocabulary.alphabet), "kmer": vocabulary.kmer}
        if vocabulary.alphabet is Alphabet.ALIGNMENT:
            chosen["context"] = int(self.dataset.segments.end.max()) + 2
        wanted = {**self.settings.model, **chosen}
        if self.start is None:
            return build(LanguageModelConfig, wanted, source)
        own = asdict(self.start.config)
        config = build(LanguageModelConfig, {**own, **wanted}, source)
        for name, value in asdict(config).items():
            if value != own[name] and name != "dropout":
                where = str(self.settings.dataset) if name in chosen else source
                raise settings_error(
                    where,
                    f"{name} is {value}, but {self.settings.start} (--from) was trained with {own[name]}",
                )
        return config

    def prepare(self, progress: Progress) -> None:
        training = self.training
        self.windows = {
            side: Windows(self.dataset, self.config, self.dataset.segments_in(side))
            for side in (TRAIN, VALIDATION, TEST)
        }
        if not len(self.windows[TRAIN].segments):
            raise BioattnError(
                f"{self.settings.dataset}: has no sequence for training; prepare another split"
            )
        unknown = len(self.dataset.vocabulary.letters)
        if all((self.dataset.segment(number) >= unknown).all() for number in self.windows[TRAIN].segments):
            raise BioattnError(
                f"{self.settings.dataset}: no training sequence has a letter that is certain (N and X are not); "
                "prepare other sequences"
            )
        self.num_words = len(self.dataset.vocabulary.tokens) - len(SPECIAL)
        self.validation = self._exercises(VALIDATION, training.validation_windows)
        if self.start is not None:
            self.start.require_output()
        torch.manual_seed(training.seed)
        self.model = self._first_model()
        self.profile = self._profile() if self.config.alphabet is Alphabet.ALIGNMENT else None
        self.update_in_one_stage()
        self.summary = (
            f"{self.config.shape} ({sum(p.numel() for p in self.model.parameters()):,} weights) on "
            f"{self.dataset.letters_in(TRAIN):,} letters"
        )

    def _first_model(self) -> LanguageModel:
        """A model with random weights, or those that training goes on from."""
        model = LanguageModel(self.config, self.dataset.vocabulary).to(self.device)
        if self.start is not None:
            self.start.model.fine_tune(None)
            model.load_state_dict(self.start.model.state_dict())
        return model

    def _profile(self) -> Profile:
        """That of the training rows; they are drawn as often as it weighs them."""
        rows = self.windows[TRAIN]
        numbers = rows.segments.tolist()
        letters = np.frombuffer((self.dataset.vocabulary.letters + "X").encode(), np.uint8)
        weights = sequence_weights(
            msa_codes(letters[np.stack([self.dataset.segment(number) for number in numbers])])
        )
        self.windows[TRAIN] = replace(rows, weights=weights)
        first = int(self.config.shape is Shape.DECODER)
        predicted = (rows.window(number, 0)[first:] for number in numbers)
        return Profile.counted(predicted, weights, len(self.dataset.vocabulary.tokens))

    def begin(self) -> None:
        """A model of an alignment starts from the profile."""
        if self.profile is not None and self.start is None:
            assert self.model.profile_LV is not None
            with torch.no_grad():
                self.model.profile_LV[: len(self.profile.nats_LV)] = torch.from_numpy(self.profile.nats_LV)

    def parts(self, step: Step, shard: Shard) -> Iterator[Tensor]:
        training = self.training
        generator = np.random.default_rng([training.seed, step.number])
        draw = partial(self.windows[TRAIN].random, generator, turned=training.reverse_complement)
        windows = [draw() for _ in range(training.batch_size)]
        whole = exercise(windows, self.config, training, generator, self.num_words, learning=True)
        targets = max(1, int((whole.targets_BL != IGNORED).sum()))
        own = shard.slice(training.batch_size)
        set_seed(training.seed * 1_000_003 + step.number)
        if own.start < own.stop:
            tokens_BL, targets_BL, source_BS = whole.part(own).to(self.device)
            chosen = targets_BL != IGNORED
            with training.precision.autocast(self.device):
                # Only what is asked for becomes logits: of a masked model a seventh.
                hidden_NC = self.model.hidden(tokens_BL, source_BS)[chosen]
                logits_NV = self.model.logits(hidden_NC, chosen.nonzero()[:, 1])
            loss = F.cross_entropy(logits_NV.float(), targets_BL[chosen], reduction="sum") / targets
            yield loss

    def batch_sums(self, model: LanguageModel, batch: Exercise) -> Tensor:
        tokens_BL, targets_BL, source_BS = batch.to(self.device)
        return sums_of(model(tokens_BL, source_BS), _words(targets_BL, self.num_words), IGNORED)

    def evaluate(self, progress: Progress) -> Results:
        exercises = {side: self._exercises(side, EVALUATION_WINDOWS) for side in (VALIDATION, TEST)}
        exercises = {side: each for side, each in exercises.items() if each}
        simple: Profile | SimpleModel | None = None
        if self.settings.baselines and exercises and self.config.shape is not Shape.ENCODER_DECODER:
            progress.begin("simple model", 1)
            validation = self._words(exercises.get(VALIDATION, []))
            both = self.config.shape is Shape.ENCODER
            simple = self.profile or SimpleModel.learned(
                self._counted(), self.num_words, validation, both_sides=both
            )
            progress.end()
        rows: list[Row] = []
        self.model.eval()
        for side, own in exercises.items():
            rows.append(self.model_row(side, own))
            if simple is not None:
                counts = sum((simple.sums(*each) for each in self._words(own)), np.zeros(len(SUMS)))
                rows.append(Row(SPLIT_NAMES[side], simple.name, figures_of(counts.tolist())))
        return Evaluation(rows, PREDICTED[self.config.shape])

    def _words(self, exercises: Sequence[Exercise]) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Words shown and asked for of each window, as `SimpleModel.sums` takes them."""
        found = []
        for part in exercises:
            for tokens_L, targets_L in zip(part.tokens_BL, part.targets_BL, strict=True):
                targets = _words(targets_L, self.num_words).numpy() - len(SPECIAL)
                shown = targets if self.config.shape is Shape.DECODER else tokens_L.numpy() - len(SPECIAL)
                hidden = (shown < 0) | (shown >= self.num_words)
                found.append((np.where(hidden, -1, shown), targets))
        return found

    def _counted(self) -> Iterator[NDArray[np.int64]]:
        """Words of the training side as the simple model learns them."""
        vocabulary, left = self.dataset.vocabulary, MAX_COUNTED
        turned = self.training.reverse_complement and vocabulary.alphabet is Alphabet.DNA
        for segment in self.windows[TRAIN].segments.tolist():
            codes = np.asarray(self.dataset.segment(segment))[:left]
            for strand in (codes, reverse_complement(codes)) if turned else (codes,):
                words = vocabulary.tokenize(strand) - len(SPECIAL)
                yield np.where(words < 0, -1, words)
            left -= len(codes)
            if left <= 0:
                return

    def _exercises(self, side: int, number: int) -> list[Exercise]:
        """What is asked of windows of a side: always the same."""
        if not len(self.windows[side].segments):
            return []
        windows = [self.windows[side].window(*place) for place in self.windows[side].places(number)]
        generator = np.random.default_rng([self.training.seed, side])
        made = []
        for first in range(0, len(windows), VALIDATION_BATCH):
            some = windows[first : first + VALIDATION_BATCH]
            made.append(exercise(some, self.config, self.training, generator, self.num_words))
        # Of sequences without a certain letter nothing can be asked.
        return made if any((each.targets_BL != IGNORED).any() for each in made) else []

    def write(self, folder: Path) -> Sequence[str]:
        write_language_model(folder, self.model)
        return (WEIGHTS, CONFIG, VOCABULARY)[: 2 + (self.model.vocabulary.published is not None)]

    def record(self) -> dict[str, Any]:
        start = self.settings.start
        begun = None if start is None else {"folder": start.name, "sha256": self.digest["from"]}
        return {**super().record(), "from": begun}

    def describe(self) -> tuple[str, str]:
        config, start = self.config, self.settings.start
        return (
            f"Language model: {config.shape} of {config.alphabet}",
            f"{config.layers} layers of {config.channels} channels and {config.num_heads} heads, positions "
            f"{config.positions}, up to {config.context} tokens at once. Trained by bioattn on "
            f"`{self.settings.dataset.name}` ({self.dataset.letters_in(TRAIN):,} letters)"
            + ("." if start is None else f", from the weights of `{start.name}`."),
        )


def _words(targets: Tensor, num_words: int) -> Tensor:
    """Targets that are words; all others `IGNORED`."""
    is_word = (targets >= len(SPECIAL)) & (targets < len(SPECIAL) + num_words)
    return torch.where(is_word, targets, IGNORED)
