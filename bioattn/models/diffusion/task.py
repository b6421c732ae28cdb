"""How a diffusion model is trained: what `training/trainer.py` asks of this family.

Shape suffixes: G genes, B promoters, L positions, T treatments.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray
from torch import Tensor

from bioattn.choices import SPLIT_NAMES, TEST, TRAIN, VALIDATION, Noise
from bioattn.choices import Task as ResponseKind
from bioattn.errors import BioattnError, SettingsError
from bioattn.inference.runner import with_ability
from bioattn.io.settings import build
from bioattn.models.diffusion.family import DiffusionModelConfig, DiffusionTraining, DiffusionTrainingConfig
from bioattn.models.diffusion.model import OFF, UNKNOWN, Denoiser
from bioattn.models.diffusion.run import levels_of
from bioattn.models.diffusion.sampling import AT_ONCE
from bioattn.models.family import WEIGHTS, load_runner
from bioattn.models.noise import BASES, noised
from bioattn.promoters.dataset import PromoterDataset, read_dataset
from bioattn.simulate.motifs import MarkovBackground
from bioattn.system.progress import Progress
from bioattn.system.shard import Shard
from bioattn.text import counted
from bioattn.training.predicted_tokens import SUMS, Evaluation, Row, TokenTask, figures_of, sums_of
from bioattn.training.task import Step, set_seed

Codes = NDArray[np.uint8]
Levels = NDArray[np.int64]
EVALUATION_PROMOTERS = 1024
"""Promoters of each side by which the trained model is judged."""
MARKOV_ORDERS = (1, 2, 3, 4, 5)


class DiffusionTask(TokenTask):
    family = "diffusion"
    training_kind = DiffusionTrainingConfig
    metric = "bits per base"
    shown: Mapping[str, str] = {
        "accuracy": "accuracy",
        "gain": "bits saved by treatments",
        "bits": "bits per base",
    }
    num_sums = 2 * len(SUMS)
    model: Denoiser

    def __init__(self, settings: DiffusionTraining, device: torch.device) -> None:
        super().__init__(settings, device)
        self.dataset = read_dataset(settings.dataset)
        trained = self.dataset.treatments_in(TRAIN)
        names = self.dataset.treatments.names
        chosen: dict[str, Any] = {"length": self.dataset.length, "treatments": [names[i] for i in trained]}
        self.vectors_TG, inputs = None, {"dataset": settings.dataset}
        if settings.tokens_from is not None:
            runner = load_runner(settings.tokens_from, device)
            encoder = with_ability(runner, "treatment_vectors", "give treatments vectors", "--tokens-from")
            self.vectors_TG = encoder.treatment_vectors(self.dataset.treatments.select(chosen["treatments"]))
            chosen["frozen_channels"] = self.vectors_TG.shape[1]
            inputs["tokens_from"] = settings.tokens_from / WEIGHTS
        self.config = build(DiffusionModelConfig, {**settings.model, **chosen}, settings.source("model"))
        try:
            self.cuts = level_cuts(self.dataset, trained, self.config.levels, self.training.threshold)
        except SettingsError as error:
            raise SettingsError(f"{settings.dataset}: {error}") from error
        self.decided_by(**inputs)

    def prepare(self, progress: Progress) -> None:
        dataset = self.dataset
        levels_GT = levels_of(dataset.targets[:, dataset.treatments_in(TRAIN)], self.cuts)
        inner = slice(dataset.flank, dataset.flank + dataset.length)
        self.codes, self.levels = {}, {}
        for side in (TRAIN, VALIDATION, TEST):
            genes = dataset.genes_in(side)
            self.codes[side] = dataset.codes[genes] if side == TRAIN else dataset.codes[genes][:, inner]
            self.levels[side] = levels_GT[genes]
        if not len(self.codes[TRAIN]):
            raise BioattnError(f"{self.settings.dataset}: has no promoter for training")
        self.validation = self._batches(VALIDATION, self.training.validation_promoters)
        self.make(Denoiser)
        if self.vectors_TG is not None:
            self.model.freeze(self.vectors_TG)
        self.summary = (
            f"{self.config.noise} noise ({self.weights}) on {counted(len(self.codes[TRAIN]), 'promoter')} "
            f"and {counted(len(self.config.treatments), 'treatment')}"
        )

    def parts(self, step: Step, shard: Shard) -> Iterator[Tensor]:
        training, size = self.training, self.training.batch_size
        rng = np.random.default_rng([training.seed, step.number])
        genes_B = rng.integers(len(self.codes[TRAIN]), size=size)
        first_B = rng.integers(2 * self.dataset.flank + 1, size=size)
        place_BL = first_B[:, None] + np.arange(self.config.length)
        codes_BL = self.codes[TRAIN][genes_B[:, None], place_BL]
        levels_BT = self.levels[TRAIN][genes_B].copy()
        levels_BT[rng.random(levels_BT.shape) < training.drop_treatment] = UNKNOWN
        levels_BT[rng.random(size) < training.drop_all] = UNKNOWN
        own = shard.slice(size)
        set_seed(training.seed * 1_000_003 + step.number)
        if own.start < own.stop:
            logits_BL4, codes, weight_BL = self._logits(self.model, codes_BL, levels_BT, rng, own)
            nats_BL = F.cross_entropy(logits_BL4.transpose(1, 2), codes, reduction="none", ignore_index=BASES)
            loss = (nats_BL * weight_BL).sum(1).sum() / size
            yield loss

    def _logits(
        self, model: Denoiser, codes_BL: Codes, levels_BT: Levels, rng: np.random.Generator, own: slice
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Logits of noised promoters (B, L, 4), their true codes, and the weights of the bases."""
        noise = noised(codes_BL, self.config.noise, rng)
        bases, time_B1, weight_BL = (each[own].to(self.device) for each in noise)
        levels = torch.from_numpy(levels_BT[own]).to(self.device)
        with self.training.precision.autocast(self.device):
            logits_BL4 = model(bases, time_B1, levels)[:, 0]
        return logits_BL4.float(), torch.from_numpy(codes_BL[own]).long().to(self.device), weight_BL

    def _batches(self, side: int, most: int) -> list[tuple[int, slice]]:
        """Sides and rows of at most so many promoters of a side."""
        promoters = min(len(self.codes[side]), most)
        return [(side, slice(n, min(promoters, n + AT_ONCE))) for n in range(0, promoters, AT_ONCE)]

    def batch_sums(self, model: Denoiser, batch: tuple[int, slice]) -> Tensor:
        """`SUMS` with the treatments known, then with none known, in which all promoters count alike."""
        side, rows = batch
        codes_BL, levels_BT = self.codes[side][rows], self.levels[side][rows]
        sums = torch.zeros(2, len(SUMS), dtype=torch.float64)
        for kind, levels in enumerate((levels_BT, np.full_like(levels_BT, UNKNOWN))):
            rng = np.random.default_rng([side, rows.start // AT_ONCE])
            logits, codes, weight_BL = self._logits(model, codes_BL, levels, rng, slice(0, len(codes_BL)))
            for row in range(len(codes)):
                wanted = torch.where(weight_BL[row] > 0, codes[row], BASES)
                row_sums = sums_of(logits[row], wanted, BASES).cpu()
                # Each promoter counts alike, however many of its bases were hidden: so the mean is the bound.
                sums[kind] += row_sums / row_sums[0].clamp(min=1)
        return sums.flatten()

    def figures(self, sums: Sequence[float]) -> dict[str, float]:
        """Bits per base, and how many fewer they are than without the treatments."""
        known, unknown = figures_of(sums[: len(SUMS)]), figures_of(sums[len(SUMS) :])
        return {**known, "gain": unknown["bits"] - known["bits"]}

    def evaluate(self, progress: Progress) -> Evaluation:
        """The model on both held-out sides; with masked noise beside the best Markov chain."""
        rows: list[Row] = []
        inner = self.codes[TRAIN][:, self.dataset.flank : self.dataset.flank + self.config.length]
        chains = [MarkovBackground.fitted(inner, order) for order in MARKOV_ORDERS]
        masked = self.config.noise is Noise.MASKED
        for side in (VALIDATION, TEST):
            if batches := self._batches(side, EVALUATION_PROMOTERS):
                codes = self.codes[side][:EVALUATION_PROMOTERS]
                rows.append(self.model_row(side, batches))
                rows += [_markov_row(each, SPLIT_NAMES[side], codes) for each in chains if masked]
        return Evaluation(rows, "bases (upper bound)" if masked else "noised bases")

    def record(self) -> dict[str, Any]:
        levels = zip(self.config.treatments, self.cuts.tolist(), strict=True)
        return {**super().record(), "levels": {name: list(cuts) for name, cuts in levels}}

    def describe(self) -> tuple[str, str]:
        config = self.config
        return (
            f"Diffusion model of promoters of {config.length:,} bp",
            f"{config.noise} noise; treatments by {config.condition}: {', '.join(config.treatments)}. Trained by "
            f"bioattn on `{self.settings.dataset.name}` ({len(self.codes[TRAIN]):,} promoters). It writes short "
            "regulatory DNA like that of its dataset; that a design works, only an experiment can tell.",
        )


def level_cuts(
    dataset: PromoterDataset, treatments: NDArray[np.int64], levels: int, threshold: float
) -> NDArray[np.float64]:
    """Responses that divide the levels, (T, levels - 1): a response above a cut has a higher level.

    Raises: SettingsError for a treatment without training promoters on both sides of a cut.
    """
    targets_GT = dataset.targets[dataset.genes_in(TRAIN)][:, treatments].astype(np.float64)
    if dataset.task == ResponseKind.BINARY:
        if levels > 2:
            raise SettingsError(f"is binary, so that a response has 2 levels, not {levels}; leave out levels")
        cuts = np.full((len(treatments), 1), 0.5)
    elif levels == 2:
        cuts = np.full((len(treatments), 1), threshold)
    else:
        shares = np.arange(1, levels) / levels
        cuts = np.array([np.quantile(each[~np.isnan(each)], shares) for each in targets_GT.T])
    found_GT = levels_of(targets_GT, cuts)
    for place, index in enumerate(treatments):
        for level in range(OFF, OFF + levels):
            if not (found_GT[:, place] == level).any():
                name = dataset.treatments.names[index]
                raise SettingsError(
                    f"no training promoter has level {level} of {levels} for treatment {name!r} (cuts: "
                    f"{', '.join(f'{cut:g}' for cut in cuts[place])}); give another threshold, or leave it out"
                )
    return cuts


def _markov_row(chain: MarkovBackground, side: str, codes: Codes) -> Row:
    nats = chain.nats(codes)
    best = np.array(chain.transitions).argmax(1)
    windows = np.lib.stride_tricks.sliding_window_view(codes, chain.order + 1, axis=1)
    known = (windows < BASES).all(-1)
    context = windows[..., :-1].astype(np.int64) @ 4 ** np.arange(chain.order - 1, -1, -1)
    right = (best[np.minimum(context, len(best) - 1)] == windows[..., -1]) & known
    sums = [float(known.sum()), float(np.nansum(nats)), float(right.sum())]
    return Row(side, f"Markov chain of order {chain.order}", figures_of(sums))
