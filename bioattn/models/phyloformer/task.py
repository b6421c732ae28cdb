"""How a Phyloformer model is trained: what `training/trainer.py` asks of this family."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bioattn.errors import FormatError
from bioattn.io.config_file import build
from bioattn.models.family import CONFIG, WEIGHTS
from bioattn.models.model_folder import write_model
from bioattn.models.phyloformer.config import PhyloformerConfig, PhyloformerTrainingConfig
from bioattn.models.phyloformer.family import PhyloformerTraining
from bioattn.models.phyloformer.folder import MODEL_TYPE
from bioattn.models.phyloformer.model import Phyloformer
from bioattn.models.phyloformer.substitution import simple_distances
from bioattn.models.phyloformer.training_pairs import TrainingPair, read_pair_table, read_pairs
from bioattn.promoters.bootstrap import Statistic, estimate
from bioattn.promoters.dataset import SPLIT_NAMES, TEST, TRAIN, VALIDATION
from bioattn.store.training_record import MODEL_ROW
from bioattn.system.progress import Progress
from bioattn.system.shard import Shard
from bioattn.text import counted
from bioattn.training.predicted_tokens import Evaluation, Row
from bioattn.training.task import ConfiguredTask, Judgement, PartLoss, Step

HELD_OUT = 0.05
"""Share of the alignments for validation, and of those for the test, where no column says it."""
ERRORS = {"relative": "mean relative error", "absolute": "mean absolute error"}
"""Of the distances of an alignment's pairs; tables have means over alignments."""


class PhyloformerTask(ConfiguredTask):
    """One training run of a Phyloformer model."""

    shown: Mapping[str, str] = ERRORS
    smaller_is_better = True
    model: Phyloformer

    def __init__(self, settings: PhyloformerTraining, device: torch.device) -> None:
        self.settings = settings
        self.device = device
        self.training = build(
            PhyloformerTrainingConfig, settings.merged("training"), settings.source("training")
        )
        self.config = build(PhyloformerConfig, settings.merged("model"), settings.source("model"))
        self.keeps_start = self.config.likelihood
        self.error = "relative" if self.training.relative else "absolute"
        self.metric = ERRORS[self.error]
        self.rows, digest = read_pair_table(settings.pairs)
        self.decided_by(pairs=settings.pairs)
        # The table alone would not tell that a tree is another one.
        self.digest = {**self.digest, "pairs": digest}

    def prepare(self, progress: Progress) -> None:
        """Read all alignments and trees, and make the model."""
        training = self.training
        pairs = read_pairs(self.rows, self.config.alphabet, progress)
        side_of = [side for *_, side in self.rows]
        if not any(side_of):
            order = np.random.default_rng([training.seed, len(pairs)]).permutation(len(pairs))
            edges = [HELD_OUT * len(pairs), 2 * HELD_OUT * len(pairs)]
            side_of = [
                SPLIT_NAMES[(VALIDATION, TEST, TRAIN)[np.searchsorted(edges, n, "right")]] for n in order
            ]
        self.sides = {
            side: [pair for pair, own in zip(pairs, side_of, strict=True) if own == name]
            for side, name in enumerate(SPLIT_NAMES)
        }
        if not self.sides[TRAIN]:
            raise FormatError(f"{self.settings.pairs}: has no alignment for training")
        torch.manual_seed(training.seed)
        self.model = Phyloformer(self.config).to(self.device)
        self.update_as(training)
        weights = sum(p.numel() for p in self.model.parameters())
        self.summary = (
            f"a Phyloformer of {counted(self.config.num_blocks, 'block')} ({weights:,} weights) on "
            f"{counted(len(self.sides[TRAIN]), 'alignment')} of {self.config.alphabet}"
        )

    def parts(self, step: Step, shard: Shard) -> Iterator[PartLoss]:
        """This process's alignments of a step, one after the other."""
        training, train = self.training, self.sides[TRAIN]
        generator = np.random.default_rng([training.seed, step.number])
        drawn = generator.integers(len(train), size=training.batch_size)
        for place in drawn[shard.slice(len(drawn))]:
            with training.precision.autocast(self.device):
                estimated_P = self._estimated(self.model, train[place])
            true_P = torch.from_numpy(train[place].distances_P).to(estimated_P)
            errors_P = (estimated_P - true_P).abs()
            loss = (errors_P / true_P if training.relative else errors_P).mean() / len(drawn)
            yield PartLoss(loss, loss)

    def _estimated(self, model: nn.Module, pair: TrainingPair) -> Tensor:
        estimated_P: Tensor = model(torch.from_numpy(pair.codes_NL.astype(np.int64)).to(self.device)).float()
        return estimated_P

    def validate(self, model: nn.Module, shard: Shard) -> Tensor | None:
        """`ERRORS` of the validation alignments."""
        pairs = self.sides[VALIDATION]
        if not pairs:
            return None
        errors = torch.zeros(len(pairs), len(ERRORS), dtype=torch.float64)
        for number in range(len(pairs))[shard.slice(len(pairs))]:
            estimated_P = self._estimated(model, pairs[number]).double().cpu().numpy()
            errors[number] = torch.tensor([*_errors(estimated_P, pairs[number]).values()])
        return errors

    def judge(self, values: Tensor) -> Judgement:
        """Means over alignments."""
        figures = dict(zip(ERRORS, values.mean(0).tolist(), strict=True))
        return Judgement(figures[self.error], figures)

    def evaluate(self, progress: Progress) -> Evaluation:
        """The model on alignments of both held-out sides, beside simple methods."""
        rows: list[Row] = []
        gains: dict[str, tuple[float, float]] = {}
        names = sorted(ERRORS, key=lambda name: name != self.error)
        for side in (VALIDATION, TEST):
            found: dict[str, list[dict[str, float]]] = {}
            for pair in self.sides[side]:
                with torch.inference_mode():
                    own_P = self._estimated(self.model, pair).double().cpu().numpy()
                others = simple_distances(pair.codes_NL, self.config.alphabet)
                for name, distances_P in {MODEL_ROW: own_P, **others}.items():
                    found.setdefault(name, []).append(_errors(distances_P, pair))
            for name, errors in found.items():
                mean = {key: float(np.mean([each[key] for each in errors])) for key in ERRORS}
                rows.append(Row(SPLIT_NAMES[side], name, mean))
                pairs = zip(errors, found[MODEL_ROW], strict=True)
                gain = _mean([theirs[self.error] - ours[self.error] for theirs, ours in pairs])
                gains[name] = estimate(gain, len(errors))[1:]
        columns = {name: (ERRORS[name], 4) for name in names}
        return Evaluation(rows, "alignments", columns, gains=gains)

    def write(self, folder: Path) -> Sequence[str]:
        """Write weights and config."""
        write_model(folder, MODEL_TYPE, self.model, self.config)
        return (WEIGHTS, CONFIG)

    def describe(self) -> tuple[str, str]:
        """Title and text of the model card."""
        config = self.config
        return (
            f"Evolutionary distances of {config.alphabet} alignments",
            f"Phyloformer of {counted(config.num_blocks, 'block')}, {config.channels} channels, "
            f"{counted(config.num_heads, 'head')}. Trained by bioattn on `{self.settings.pairs.name}` "
            f"({counted(len(self.sides[TRAIN]), 'alignment')}).",
        )


def _mean(values: Sequence[float]) -> Statistic:
    return lambda weights_RA: weights_RA @ np.array(values) / len(values)


def _errors(estimated_P: NDArray[np.float64], pair: TrainingPair) -> dict[str, float]:
    """`ERRORS` of an alignment."""
    errors_P = np.abs(estimated_P - pair.distances_P)
    return {"relative": float((errors_P / pair.distances_P).mean()), "absolute": float(errors_P.mean())}
