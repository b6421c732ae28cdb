"""How a Phyloformer model is trained: what `training/trainer.py` asks of this family."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bioattn.choices import SPLIT_NAMES, TEST, TRAIN, VALIDATION
from bioattn.errors import FormatError
from bioattn.formats.alignment_file import read_alignment
from bioattn.formats.tables import open_table
from bioattn.io.files import sha256_of
from bioattn.io.settings import build
from bioattn.models.phyloformer.family import (
    PhyloformerConfig,
    PhyloformerTraining,
    PhyloformerTrainingConfig,
    PhylogenyAlphabet,
)
from bioattn.models.phyloformer.model import LEAST, Phyloformer
from bioattn.models.phyloformer.run import alignment_codes, require_alphabet
from bioattn.models.phyloformer.substitution import simple_distances
from bioattn.models.phyloformer.trees import read_newick
from bioattn.promoters.response_metrics import Statistic, estimate
from bioattn.store.training_record import MODEL_ROW
from bioattn.system.progress import Progress, watched
from bioattn.system.shard import Shard
from bioattn.text import counted, quoted
from bioattn.training.predicted_tokens import Evaluation, Row
from bioattn.training.task import ConfiguredTask, Judgement, Step, figures_by_part

ALIKE = 1e-5
"""Distances below are those of equal sequences, for which programs of trees write branches of 0 to some 1e-6."""
HELD_OUT = 0.05
"""Share of the alignments for validation, and of those for the test, where no column says it."""
ERRORS = {"relative": "mean relative error", "absolute": "mean absolute error"}
"""Of the distances of an alignment's pairs; tables have means over alignments."""


class TrainingPair(NamedTuple):
    """An alignment and the true distances of its pairs of sequences."""

    codes_NL: NDArray[np.uint8]
    distances_P: NDArray[np.float64]
    """In substitutions per site; above 0."""


class PhyloformerTask(ConfiguredTask):
    """One training run of a Phyloformer model."""

    shown: Mapping[str, str] = ERRORS
    smaller_is_better = True
    model: Phyloformer
    family, training_kind = "phyloformer", PhyloformerTrainingConfig

    def __init__(self, settings: PhyloformerTraining, device: torch.device) -> None:
        super().__init__(settings, device)
        self.config = build(PhyloformerConfig, settings.model, settings.source("model"))
        self.keeps_start = self.config.likelihood
        self.error = "relative" if self.training.relative else "absolute"
        self.metric = ERRORS[self.error]
        self.rows, digest = read_pair_table(settings.pairs)
        self.decided_by(pairs=settings.pairs)
        # The table alone would not tell that a tree is another one.
        self.digest = {**self.digest, "pairs": digest}

    def prepare(self, progress: Progress) -> None:
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
        self.make(Phyloformer)
        self.summary = (
            f"a Phyloformer of {counted(self.config.num_blocks, 'block')} ({self.weights}) on "
            f"{counted(len(self.sides[TRAIN]), 'alignment')} of {self.config.alphabet}"
        )

    def parts(self, step: Step, shard: Shard) -> Iterator[Tensor]:
        training, train = self.training, self.sides[TRAIN]
        generator = np.random.default_rng([training.seed, step.number])
        drawn = generator.integers(len(train), size=training.batch_size)
        for place in drawn[shard.slice(len(drawn))]:
            with training.precision.autocast(self.device):
                estimated_P = self._estimated(self.model, train[place])
            true_P = torch.from_numpy(train[place].distances_P).to(estimated_P)
            errors_P = (estimated_P - true_P).abs()
            loss = (errors_P / true_P if training.relative else errors_P).mean() / len(drawn)
            yield loss

    def _estimated(self, model: nn.Module, pair: TrainingPair) -> Tensor:
        estimated_P: Tensor = model(torch.from_numpy(pair.codes_NL.astype(np.int64)).to(self.device)).float()
        return estimated_P

    def validate(self, model: nn.Module, shard: Shard) -> Tensor | None:
        """`ERRORS` of the validation alignments."""
        pairs = self.sides[VALIDATION]
        if not pairs:
            return None

        def errors(pair: TrainingPair) -> Tensor:
            estimated_P = self._estimated(model, pair).double().cpu().numpy()
            return torch.tensor([*_errors(estimated_P, pair).values()])

        return figures_by_part(pairs, shard, len(ERRORS), errors)

    def judge(self, values: Tensor) -> Judgement:
        figures = dict(zip(ERRORS, values.mean(0).tolist(), strict=True))
        return Judgement(figures[self.error], figures)

    def evaluate(self, progress: Progress) -> Evaluation:
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

    def describe(self) -> tuple[str, str]:
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


def read_pair_table(path: Path) -> tuple[list[tuple[Path, Path, str]], str]:
    """Alignment, tree and side of the split (empty: no column says it) of each line, and a digest of all files.

    Raises: FormatError naming a missing column, the line of an unknown split; BioattnError for unreadable files.
    """
    table = open_table(path)
    places = [table.column(name, "a needed column") for name in ("alignment", "tree")]
    split = table.header.index("split") if "split" in table.header else None
    rows = []
    digest = hashlib.sha256(path.read_bytes())
    for line, cells in table.rows():
        side = "" if split is None else cells[split]
        if split is not None and side not in SPLIT_NAMES:
            raise FormatError(f"{path}:{line}: split is {side!r}; give one of {', '.join(SPLIT_NAMES)}")
        alignment, tree = (path.parent / cells[place] for place in places)
        for each in (alignment, tree):
            digest.update(sha256_of(each).encode())
        rows.append((alignment, tree, side))
    return rows, digest.hexdigest()


def read_pairs(
    rows: Sequence[tuple[Path, Path, str]], alphabet: PhylogenyAlphabet, progress: Progress
) -> list[TrainingPair]:
    """Read all alignments and trees. Distances of `ALIKE` become `LEAST` substitutions: of 0 no error is relative.

    Raises: FormatError naming a file of the other alphabet, or a tree whose leaves are not the alignment's rows.
    """
    pairs = []
    for path, newick, _ in watched(progress, "reading alignments", rows):
        alignment, tree = read_alignment(path), read_newick(newick)
        require_alphabet(alignment, alphabet, path)
        if sorted(alignment.names) != sorted(tree.names) or len({*tree.names}) < max(2, len(tree.names)):
            unlike = quoted(sorted({*tree.names} ^ {*alignment.names})) or "names that repeat, or one alone"
            raise FormatError(
                f"{newick}: its {len(tree.names)} leaves are not the {alignment.num_rows} sequences of {path}: "
                f"{unlike} in one of both; give both the same names"
            )
        order = [tree.names.index(name) for name in alignment.names]
        distances_P = tree.leaf_distances()[np.ix_(order, order)][np.triu_indices(len(order), 1)]
        codes_NL = alignment_codes(alignment, alphabet).astype(np.uint8)
        distances_P[distances_P < ALIKE] = LEAST / alignment.num_columns
        pairs.append(TrainingPair(codes_NL, distances_P))
    return pairs
