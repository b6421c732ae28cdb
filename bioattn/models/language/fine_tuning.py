"""How a language model learns the columns of a table: numbers, classes, or tags of tokens.

Shape suffixes: B sequences, L tokens, N rows of a side (of tags: tokens), W outputs of a target, T targets.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bioattn.choices import SPLIT_NAMES, TEST, TRAIN, VALIDATION
from bioattn.errors import BioattnError, SettingsError
from bioattn.inference.passes import padded
from bioattn.io.files import sha256_of
from bioattn.models.language.config import FineTuned, FineTuningConfig, PredictedFrom, Shape, TargetKind
from bioattn.models.language.family import LanguageTrainingSettings
from bioattn.models.language.layers import is_word, require_length
from bioattn.models.language.model import LanguageModel
from bioattn.models.language.simple_models import (
    Features,
    Linear,
    fit_linear,
    sequence_features,
    token_features,
)
from bioattn.models.language.source import framed_tokens
from bioattn.models.language.targets import (
    Wanted,
    figures_of,
    main_figure,
    read_targets,
    records_of,
    wanted_of,
)
from bioattn.models.language.task import LanguageTask
from bioattn.sequences.vocabulary import PAD, SPECIAL, Vocabulary
from bioattn.store.training_record import MODEL_ROW
from bioattn.system.progress import Progress
from bioattn.system.shard import Shard
from bioattn.text import counted
from bioattn.training.predicted_tokens import Evaluation, Row
from bioattn.training.task import Judgement, Step, set_seed

PREDICTED_AT_ONCE = 8192
"""Tokens of a forward pass without gradients."""
RESAMPLES = 200
"""Of held-out sequences (of tags: tokens), for the interval of a difference."""
MOST_TOLD = 4
"""Columns whose content is told before training."""
MAX_LEARNED = 20_000
"""Training sequences that simple models learn from at most."""


@dataclass(frozen=True, slots=True)
class FineTuningResults(Evaluation):
    predicted: str = "sequences"
    smaller_is_better: bool = False

    def tables(self) -> list[list[list[str]]]:
        """One table for each side and kind of target: means over its targets."""
        tables = []
        kinds = dict.fromkeys((row.side, tuple(row.figures)) for row in self.rows)
        for side, figures in kinds:
            own = [row for row in self.rows if row.side == side and tuple(row.figures) == figures]
            targets = list(dict.fromkeys(row.target for row in own))
            about = targets[0] if len(targets) == 1 else f"mean of {len(targets)} columns"
            table = [[f"{side}, {about}", *figures]]
            for name in dict.fromkeys(row.name for row in own):
                cells = [[row.figures[figure] for row in own if row.name == name] for figure in figures]
                means = (float(np.mean(each)) for each in cells)
                table.append([name, *(f"{mean:.4f}" if np.isfinite(mean) else "–" for mean in means)])
            tables.append(table)
        return tables

    def deciding(self, row: Row) -> tuple[str, float]:
        return next(iter(row.figures.items()))


def with_replaced(tokens_BL: Tensor, share: float, number: int) -> Tensor:
    """Tokens of which a share of the words became random ones of `number` tokens; special ones stay."""
    if not share:
        return tokens_BL
    chosen_BL = torch.rand(tokens_BL.shape, device=tokens_BL.device) < share
    others_BL = torch.randint_like(tokens_BL, len(SPECIAL), number)
    return torch.where(chosen_BL & (tokens_BL >= len(SPECIAL)), others_BL, tokens_BL)


class FineTuningTask(LanguageTask):
    training_kind = FineTuningConfig
    shown: Mapping[str, str] = {}
    smaller_is_better = False
    training: FineTuningConfig

    def __init__(self, settings: LanguageTrainingSettings, device: torch.device) -> None:
        super().__init__(settings, device)
        assert settings.targets is not None
        self.keeps_start, self.profile = False, None
        own = {"targets": sha256_of(settings.targets), "columns": list(settings.target)}
        self.digest = {**self.digest, **own}

    def prepare(self, progress: Progress) -> None:
        training, settings = self.training, self.settings
        assert settings.targets is not None
        table = read_targets(settings.targets, settings.target)
        self.record_N = records_of(table, self.dataset.ids, settings.dataset)
        self.sides = self._sides(self.record_N) if table.sides is None else table.sides
        torch.manual_seed(training.seed)
        self.model = self._first_model()
        vocabulary = self.model.vocabulary
        encoder_reads = training.pool is PredictedFrom.CLS and self.config.shape is not Shape.DECODER
        if encoder_reads and not vocabulary.begins:
            raise SettingsError(
                f"{settings.start}: has no <cls>; set pool = 'mean' in [training] of --config"
            )
        self.tokens = []
        for row, name in enumerate(table.ids):
            codes, where = self._codes(row), f"{settings.dataset}: {name}"
            words = vocabulary.tokenize(codes)
            self.tokens.append(framed_tokens(words, len(codes), vocabulary, self.config.context, where))
        self.learned, self.validated = (np.flatnonzero(self.sides == side) for side in (TRAIN, VALIDATION))
        if not len(self.learned):
            raise BioattnError(f"{settings.targets}: no row is for training")
        num_tokens, varying = 0, np.zeros(0, np.int64)
        if training.pool is PredictedFrom.VARYING:
            num_tokens = len(self.tokens[0])
            require_length(self.tokens, table.ids, num_tokens, settings.dataset)
            varying = np.flatnonzero(np.ptp(np.stack([self.tokens[row] for row in self.learned]), axis=0))
            if not len(varying):
                raise BioattnError(f"{settings.targets}: all training sequences are alike")
        places = [is_word(each) for each in self.tokens]
        self.wanted = [wanted_of(table, name, places, self.sides == TRAIN) for name in table.columns]
        self.model.fine_tune(
            FineTuned(
                targets=tuple(each.target for each in self.wanted),
                pool=training.pool,
                lora=training.lora,
                alpha=training.alpha,
                readout_channels=training.readout_channels,
                num_tokens=num_tokens,
                varying=tuple(varying.tolist()),
            )
        )
        self.update_in_one_stage()
        names = {main_figure(each.target) for each in self.wanted}
        self.metric = names.pop() if len(names) == 1 else "mean figure"
        rising = [torch.arange(zeros.numel()).view_as(zeros) for zeros in self._zeros(self.validated)]
        figures = [
            each.figures(self.validated, given) for each, given in zip(self.wanted, rising, strict=True)
        ]
        # Of one class no AUROC is known, of two numbers no rank correlation.
        if not all(np.isfinite(next(iter(each.values()))) for each in figures):
            self.metric = "minus loss"
        told = [each.told(self.learned) for each in self.wanted[:MOST_TOLD]]
        learning = sum(p.numel() for p in self.model.parameters() if p.requires_grad)
        self.summary = (
            f"{learning:,} weights ({self.config.shape}) on {counted(len(self.wanted), 'column')} of "
            f"{counted(len(self.learned), 'sequence')} ({'; '.join(told)})"
        )

    def _sides(self, record_N: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sides that the dataset gives. Raises: BioattnError where it parts a record."""
        segments = self.dataset.segments
        sides = np.full(len(self.dataset.ids), -1, np.int64)
        sides[segments.record] = segments.split
        if len(segments.record) > len(np.unique(segments.record)):
            raise BioattnError(
                f"{self.settings.dataset}: records are parted between training and test (--split position); "
                "prepare it with --split homology or record, or give --targets a column split"
            )
        return sides[record_N]

    def parts(self, step: Step, shard: Shard) -> Iterator[Tensor]:
        """This process's sequences of a step: each epoch is an order of its own."""
        training = self.training
        size = min(training.batch_size, len(self.learned))
        per_epoch = len(self.learned) // size
        epoch, place = divmod(step.number, per_epoch)
        order = np.random.default_rng([training.seed, epoch]).permutation(self.learned)
        rows = order[place * size : (place + 1) * size]
        wanted = [each.of(rows) for each in self.wanted]
        own = rows[shard.slice(len(rows))]
        set_seed(training.seed * 1_000_003 + step.number)
        if not len(own):
            return
        with training.precision.autocast(self.device):
            outputs = self.model.predictions(
                with_replaced(self._padded(own), training.replaced, len(self.model.vocabulary.tokens))
            )
        loss = torch.zeros((), device=self.device)
        for each, whole, given in zip(self.wanted, wanted, outputs, strict=True):
            known = max(1, int(each.known(whole).sum()))
            loss = loss + each.losses(given.float(), each.of(own).to(self.device)) / known
        loss = loss / len(self.wanted)
        yield loss

    def validate(self, model: nn.Module, shard: Shard) -> Tensor | None:
        """Outputs of the validation sequences, target by target."""
        if not len(self.validated):
            return None
        own = shard.slice(len(self.validated))
        outputs = self._outputs(cast(LanguageModel, model), self.validated, own)
        return torch.cat([each.flatten() for each in outputs])

    def judge(self, values: Tensor) -> Judgement:
        """The mean of the main figures; where one cannot be computed, minus the loss."""
        figures, losses, place = [], [], 0
        for wanted, zeros in zip(self.wanted, self._zeros(self.validated), strict=True):
            given = values[place : place + zeros.numel()].reshape(zeros.shape)
            place += zeros.numel()
            figures.append(wanted.figures(self.validated, given))
            values_N = wanted.flat(self.validated)
            losses.append(float(wanted.losses(given, values_N)) / max(1, int(wanted.known(values_N).sum())))
        names = dict.fromkeys(name for each in figures for name in each)
        means = {name: float(np.mean([each[name] for each in figures if name in each])) for name in names}
        score, loss = float(np.mean([next(iter(each.values())) for each in figures])), float(np.mean(losses))
        return Judgement(score if np.isfinite(score) else -loss, {"loss": loss, **means})

    def evaluate(self, progress: Progress) -> FineTuningResults:
        held_out = {side: np.flatnonzero(self.sides == side) for side in (VALIDATION, TEST)}
        held_out = {side: each for side, each in held_out.items() if len(each)}
        self.model.eval()
        columns = {wanted.target.name: wanted for wanted in self.wanted}
        outputs: dict[tuple[int, str, str], Tensor] = {}
        for side, own in held_out.items():
            for column, given in zip(columns, self._outputs(self.model, own, slice(len(own))), strict=True):
                outputs[side, column, MODEL_ROW] = given
        if self.settings.baselines and held_out:
            progress.begin("simple models", len(columns))
            for column, wanted in columns.items():
                for side, name, given in self._simple(wanted, held_out):
                    outputs[side, column, name] = given
                progress.advance(1)
            progress.end()
        rows = [
            Row(SPLIT_NAMES[side], name, columns[column].figures(held_out[side], given), column)
            for (side, column, name), given in outputs.items()
        ]
        judged, chosen = FineTuningResults(rows).best_simple()
        if not chosen:
            return FineTuningResults(rows)
        side = SPLIT_NAMES.index(judged)
        gains = []
        for column, wanted in columns.items():
            both = (outputs[side, column, name] for name in (MODEL_ROW, chosen[column]))
            gains.append(_gains(wanted, held_out[side], *both))
        gains_TR = np.array(gains)
        # Of few sequences some resamples have no figure.
        gains_TR = gains_TR[:, ~np.isnan(gains_TR).all(axis=0)]
        if not gains_TR.size:
            return FineTuningResults(rows)
        low, high = np.percentile(np.nanmean(gains_TR, axis=0), [2.5, 97.5])
        names = " and ".join(dict.fromkeys(chosen.values()))
        return FineTuningResults(rows, gains={names: (float(low), float(high))})

    def _simple(
        self, wanted: Wanted, held_out: Mapping[int, NDArray[np.int64]]
    ) -> Iterator[tuple[int, str, Tensor]]:
        """Side, name and outputs of linear models, one for each set of features."""
        vocabulary, of_tokens = self.model.vocabulary, wanted.target.kind is TargetKind.TAGS
        learned = np.sort(np.random.default_rng(0).permutation(self.learned)[:MAX_LEARNED])
        sides = [learned, *held_out.values()]
        tokens = [self.tokens[row] for own in sides for row in own.tolist()]
        if of_tokens:
            sets = token_features(tokens, len(vocabulary.tokens) - len(SPECIAL), len(SPECIAL))
        else:
            # Words of the alphabet, whatever the tokens of the model are.
            plain = Vocabulary(vocabulary.alphabet)
            codes = [self._codes(row) for own in sides for row in own.tolist()]
            words = [plain.tokenize(each) - len(SPECIAL) for each in codes]
            sets = sequence_features(words, len(plain.tokens) - len(SPECIAL))
            if self.start is not None:
                # As of word2vec: of the model that training goes on from.
                embedding = self.start.model.embed.weight.detach().float().cpu().numpy()
                means = np.stack([embedding[each[is_word(each)]].mean(0) for each in tokens])
                sets = chain(sets, [("mean token embedding", means)])
        ends = np.cumsum([len(wanted.flat(own)) for own in sides])
        for name, features in sets:
            of_side = dict(zip((TRAIN, *held_out), np.split(features, ends[:-1]), strict=True))

            def score(model: Linear, of_side: Mapping[int, Features] = of_side) -> float:
                if VALIDATION not in held_out:
                    return 0.0
                figures = wanted.figures(held_out[VALIDATION], model.outputs(of_side[VALIDATION]))
                return float(np.nan_to_num(next(iter(figures.values())), nan=-np.inf))

            model = fit_linear(of_side[TRAIN], wanted, wanted.flat(learned), score)
            for side in held_out:
                yield side, f"linear on {name}", model.outputs(of_side[side])

    def _codes(self, row: int) -> NDArray[np.uint8]:
        return self.dataset.record(int(self.record_N[row]))

    def _zeros(self, rows: NDArray[np.int64]) -> list[Tensor]:
        """Outputs (N, W) of each target, all 0."""
        return [torch.zeros(len(each.flat(rows)), each.target.width) for each in self.wanted]

    def _outputs(self, model: LanguageModel, rows: NDArray[np.int64], own: slice) -> list[Tensor]:
        """Outputs (N, W) of each target on the CPU, 0 for rows that are not `own`."""
        found = self._zeros(rows)
        size = max(1, PREDICTED_AT_ONCE // max(len(self.tokens[row]) for row in rows))
        ends = np.cumsum([0, *(len(self.tokens[row]) for row in rows)])
        for first in range(own.start or 0, own.stop, size):
            chosen = rows[first : min(first + size, own.stop)]
            with torch.no_grad(), self.training.precision.autocast(self.device):
                outputs = model.predictions(self._padded(chosen))
            for target, all_NW, given in zip(self.wanted, found, outputs, strict=True):
                if target.target.kind is not TargetKind.TAGS:
                    all_NW[first : first + len(chosen)] = given.cpu()
                    continue
                for place, each in enumerate(given.cpu(), start=first):
                    all_NW[ends[place] : ends[place + 1]] = each[: ends[place + 1] - ends[place]]
        return found

    def _padded(self, rows: NDArray[np.int64]) -> Tensor:
        return padded([self.tokens[row] for row in rows.tolist()], PAD).to(self.device)

    def record(self) -> dict[str, Any]:
        targets = self.settings.targets
        assert targets is not None
        entry = {"file": targets.name, "sha256": self.digest["targets"], "columns": self.digest["columns"]}
        return super().record() | {"targets": entry}


def _gains(
    wanted: Wanted, rows: NDArray[np.int64], ours_NW: Tensor, theirs_NW: Tensor
) -> NDArray[np.float64]:
    """The main figure of ours less that of theirs, on resamples of the rows."""
    values_N = wanted.flat(rows)
    known = wanted.known(values_N)
    values = values_N[known].double().numpy() if values_N.is_floating_point() else values_N[known].numpy()
    both = [each[known].double().numpy() for each in (ours_NW, theirs_NW)]
    generator = np.random.default_rng(0)
    gains = []
    for _ in range(RESAMPLES):
        drawn = generator.integers(len(values), size=len(values))
        figures = (figures_of(wanted.target, each[drawn], values[drawn]) for each in both)
        ours, theirs = (next(iter(each.values())) for each in figures)
        gains.append(ours - theirs)
    return np.array(gains)
