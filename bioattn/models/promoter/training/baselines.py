"""What simple models reach on the same split: the rows every trained model is printed beside.

All are fitted on training genes, choose their settings on validation genes and are scored on validation and test
genes; no choice looks at a test gene. Treatments held out from training take no part, except in
`nearest_treatment`, which is about them.

Shape suffixes: G genes, T treatments (those of training), D directions in treatment space.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import BioattnError
from bioattn.models.promoter.training.ridge import (
    Block,
    BumpKmers,
    Codes,
    Codons,
    Kmers,
    LinearModel,
    Matrix,
    RidgePath,
    Standardiser,
    find_start_codon,
)
from bioattn.promoters.dataset import TEST, TRAIN, VALIDATION, PromoterDataset
from bioattn.promoters.response_metrics import (
    SharedAxis,
    auroc,
    fit_shared_axis,
    median,
    pearson,
    summarise,
)
from bioattn.system.progress import NoProgress, Progress

LOGGER = logging.getLogger("bioattn")

PENALTIES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
"""Ratios of noise to signal variance tried; real promoters tell little of expression and want the large ones."""

WINDOWS = (300, 500)
"""Bases upstream of the anchor whose k-mers are tried, besides the whole window."""

BUMPS = ((-150, 150), (-300, 300))
"""Centre and width, in bases from the anchor, of the distance weights tried for the positional k-mer ridges."""

CODON_SHARES = (0.1, 0.3, 0.6)
"""Weights tried for codons against k-mers where the window is coding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureSet:
    """Blocks of counts and the weight of each."""

    blocks: tuple[Block, ...]
    shares: tuple[float, ...] | None = None
    """One per block; None: equal."""

    @property
    def name(self) -> str:
        """Such as `6-mers −300..0`."""
        return " + ".join(block.name for block in self.blocks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """One row: a simple model, what it chose on validation genes, and what it predicts."""

    name: str
    choice: str
    """The settings chosen on validation genes; empty where there was nothing to choose."""
    predictions: Matrix
    """(genes, training treatments) for all genes of the dataset, in the units of its targets (binary: scores)."""
    validation: dict[str, float]
    """`bioattn.promoters.response_metrics.summarise` on validation genes."""
    test: dict[str, float]
    """The same on test genes; empty without test genes."""
    model: LinearModel | None = None
    """Predicts other promoters (None for the mean)."""


class BaselineData:
    """The parts of a dataset that baselines use, cut to training treatments."""

    def __init__(self, dataset: PromoterDataset) -> None:
        """Raises: BioattnError without training genes or without training treatments."""
        window = slice(dataset.flank, dataset.flank + dataset.length)
        self.codes: Codes = dataset.codes[:, window]
        self.targets: Matrix = dataset.targets[:, dataset.treatment_split == TRAIN]
        self.task = dataset.task
        self.train, self.validation, self.test = (
            dataset.genes_in(split) for split in (TRAIN, VALIDATION, TEST)
        )
        if not len(self.train) or not self.targets.shape[1]:
            raise BioattnError(
                f"baselines need training genes and training treatments; the dataset has {len(self.train)} and "
                f"{self.targets.shape[1]}"
            )
        train_targets_GT = self.targets[self.train].astype(np.float64)
        measured_GT = ~np.isnan(train_targets_GT)
        count_T = np.maximum(measured_GT.sum(axis=0), 1)
        mean_T = np.where(measured_GT, train_targets_GT, 0.0).sum(axis=0) / count_T
        self.mean: Matrix = mean_T.astype(np.float32)
        self.deviations: Matrix = np.where(measured_GT, train_targets_GT - mean_T, 0.0).astype(np.float32)
        varied = bool(np.abs(self.deviations).max(initial=0.0) > 0.0)
        self.axis: SharedAxis | None = (
            fit_shared_axis(train_targets_GT) if self.task == "regression" and varied else None
        )
        self.start_codon = find_start_codon(self.codes[self.train])
        self._paths: dict[FeatureSet, RidgePath] = {}

    @property
    def downstream(self) -> int:
        """Bases of the window from the start codon on; 0 where the window is not coding."""
        return 0 if self.start_codon is None else int(self.codes.shape[1]) - self.start_codon

    @property
    def upstream(self) -> int:
        """Bases of the window before the start codon, or all."""
        return int(self.codes.shape[1]) - self.downstream

    def path(self, features: FeatureSet) -> RidgePath:
        """The ridge fits of a feature set, made once."""
        if features not in self._paths:
            standardiser = Standardiser(features.blocks, features.shares, self.codes[self.train])
            self._paths[features] = RidgePath(standardiser, self.codes[self.train], self.deviations)
        return self._paths[features]

    def score(self, predictions: Matrix, genes: NDArray[np.int64]) -> dict[str, float]:
        """Metrics on some genes; empty without genes. predictions: (len(genes), treatments)."""
        return summarise(self.targets[genes], predictions, self.axis, self.task) if len(genes) else {}

    def validation_score(self, predictions: Matrix) -> float:
        """What choices are made by: median Pearson r over treatments, or AUROC; −inf where undefined."""
        metric = auroc if self.task == "binary" else pearson
        value = float(median(metric(self.targets[self.validation], predictions))[0])
        return value if np.isfinite(value) else -np.inf

    def baseline(self, name: str, choice: str, model: LinearModel) -> Baseline:
        """The row of a fitted model."""
        return self.row(name, choice, model.predict(self.codes), model)

    def row(self, name: str, choice: str, predictions: Matrix, model: LinearModel | None = None) -> Baseline:
        """The row of predictions for all genes."""
        return Baseline(
            name=name,
            choice=choice,
            predictions=predictions,
            validation=self.score(predictions[self.validation], self.validation),
            test=self.score(predictions[self.test], self.test),
            model=model,
        )


def default_baselines(dataset: PromoterDataset, progress: Progress | None = None) -> list[Baseline]:
    """The set printed after every training: the mean, ridges on k-mers in windows, by distance, of rank 1 and by
    component, and where the window is coding the region + codon ridge.

    About 15 s on one core for 3,500 training genes and 170 treatments. Time and memory are bounded by the number
    of features (2,080 canonical 6-mers), not by the number of treatments.
    """
    progress = progress or NoProgress()
    data = BaselineData(dataset)
    rows: list[Callable[[BaselineData], Baseline]] = [training_mean]
    if not np.isfinite(data.targets[data.validation]).any():
        LOGGER.warning(
            "no validation gene has a target: of the simple models only the training mean is shown"
        )
    elif not data.deviations.any():
        LOGGER.warning("no target varies over the training genes: only the training mean is shown")
    else:
        rows += [kmer_ridge, positional_ridge, rank_one_ridge, component_ridge]
        if data.start_codon is not None:
            rows += [region_codon_ridge, region_codon_component_ridge]
    progress.begin("baselines", len(rows))
    found = []
    for row in rows:
        found.append(row(data))
        progress.advance(1, baseline=found[-1].name)
    progress.end()
    return found


def training_mean(data: BaselineData) -> Baseline:
    """No sequence at all: each treatment's mean over training genes, for every gene."""
    return data.row("training mean", "", np.tile(data.mean, (len(data.codes), 1)))


def kmer_ridge(data: BaselineData, k: int = 6, windows: Sequence[int] = WINDOWS) -> Baseline:
    """Ridge on the canonical k-mers before the anchor; window and penalty chosen on validation genes."""
    model, choice, _ = best_ridge(data, kmer_windows(data, k, windows))
    return data.baseline(f"{k}-mer ridge", choice, model)


def positional_ridge(data: BaselineData, k: int = 6) -> Baseline:
    """Ridge on canonical k-mers counted by their distance from the anchor; distance and penalty chosen."""
    model, choice, _ = best_ridge(data, kmer_bumps(data, k))
    return data.baseline(f"positional {k}-mer ridge", choice, model)


def rank_one_ridge(data: BaselineData, k: int = 6) -> Baseline:
    """Positional ridge of one number a gene, its coordinate on the shared axis, times the axis.

    Says how far one gets when no treatment has anything of its own.
    """
    if data.axis is None:
        direction_TD = principal_directions(data.deviations)[:, :1]
    else:
        direction_TD = data.axis.loading[:, None].astype(np.float32)
    model, choice, _ = best_ridge(data, kmer_bumps(data, k), direction_TD)
    return data.baseline("rank-1 ridge", choice, model)


def component_ridge(data: BaselineData, k: int = 6) -> Baseline:
    """Positional ridge of the responses' principal components, each with a penalty and a scale of its own.

    The strongest simple model of the promoter known here. Components beyond the first few are mostly noise; a
    penalty shared by all either keeps that noise or blunts the first. Each component takes the penalty whose
    validation predictions point most nearly the way of its scores, and is then scaled by least squares on
    validation genes (not below 0).
    """
    model, choice = best_component_ridge(data, kmer_bumps(data, k))
    return data.baseline("component ridge", choice, model)


def region_codon_ridge(data: BaselineData) -> Baseline:
    """Ridge on positional 6-mers before and codons after the start codon, where windows reach into the gene.

    Raises: BioattnError when the windows have no start codon in common.
    """
    model, choice, _ = best_ridge(data, kmers_and_codons(data))
    return data.baseline("region + codon ridge", choice, model)


def region_codon_component_ridge(data: BaselineData) -> Baseline:
    """The same features, each principal component of the responses with a penalty of its own."""
    model, choice = best_component_ridge(data, kmers_and_codons(data))
    return data.baseline("region + codon component ridge", choice, model)


# --- parts -------------------------------------------------------------------------------------------------------


def best_ridge(
    data: BaselineData, candidates: Sequence[FeatureSet], directions_TD: Matrix | None = None
) -> tuple[LinearModel, str, float]:
    """The feature set and penalty with the best validation score: model, description, score.

    With orthonormal `directions_TD` only the responses' part in these directions is fitted and predicted.
    """
    best: tuple[LinearModel, str, float] | None = None
    for features in candidates:
        path = data.path(features)
        validation_GR = path.rotate(data.codes[data.validation])
        for penalty in PENALTIES:
            weights_RT = path.weights(penalty, directions_TD)
            if directions_TD is not None:
                weights_RT = weights_RT @ directions_TD.T
            score = data.validation_score(validation_GR @ weights_RT + data.mean)
            if best is None or score > best[2]:
                best = path.model(weights_RT, data.mean), f"{features.name}, penalty {penalty:g}", score
    if best is None:
        raise BioattnError("a ridge needs at least one set of features to choose from")
    return best


def best_component_ridge(data: BaselineData, candidates: Sequence[FeatureSet]) -> tuple[LinearModel, str]:
    """The feature set whose ridge by component has the best validation score: model and description."""
    best: tuple[LinearModel, str, float] | None = None
    for features in candidates:
        path = data.path(features)
        weights_RT = component_weights(data, path)
        score = data.validation_score(path.rotate(data.codes[data.validation]) @ weights_RT + data.mean)
        if best is None or score > best[2]:
            best = path.model(weights_RT, data.mean), f"{features.name}, a penalty per component", score
    if best is None:
        raise BioattnError("a ridge needs at least one set of features to choose from")
    return best[:2]


def component_weights(data: BaselineData, path: RidgePath) -> Matrix:
    """Ridge weights with a penalty and a scale chosen for each principal component: shape=(rank, treatments)."""
    directions_TD = principal_directions(data.deviations)
    validation_GT = data.targets[data.validation]
    scores_GD = np.where(np.isnan(validation_GT), 0.0, validation_GT - data.mean) @ directions_TD
    validation_GR = path.rotate(data.codes[data.validation])
    best_D = np.full(directions_TD.shape[1], -np.inf)
    weights_RD = np.zeros((validation_GR.shape[1], directions_TD.shape[1]), np.float32)
    tiny = np.finfo(np.float32).tiny
    for penalty in PENALTIES:
        candidate_RD = path.weights(penalty, directions_TD)
        predicted_GD = validation_GR @ candidate_RD
        agreement_D = (predicted_GD * scores_GD).sum(axis=0)
        size_D = np.maximum(np.square(predicted_GD).sum(axis=0), tiny)
        cosine_D = agreement_D / np.sqrt(size_D)
        better_D = cosine_D > best_D
        best_D[better_D] = cosine_D[better_D]
        weights_RD[:, better_D] = candidate_RD[:, better_D] * np.maximum(agreement_D / size_D, 0.0)[better_D]
    return weights_RD @ directions_TD.T


def kmer_windows(data: BaselineData, k: int, windows: Sequence[int]) -> list[FeatureSet]:
    """One feature set per window that is shorter than the promoter, and one for all of it."""
    widths = [*(width for width in sorted(set(windows)) if width < data.upstream), data.upstream]
    return [FeatureSet(blocks=(upstream_kmers(data, k, width),)) for width in widths]


def kmer_bumps(data: BaselineData, k: int) -> list[FeatureSet]:
    """One feature set per distance weighting, over all that lies before the anchor."""
    anchor = -data.downstream
    return [
        FeatureSet(blocks=(BumpKmers(k, anchor - data.upstream, anchor, anchor + centre, width),))
        for centre, width in BUMPS
    ]


def kmers_and_codons(data: BaselineData) -> list[FeatureSet]:
    """Positional 6-mers with the codons of the rest of the window, at several shares.

    Raises: BioattnError when the windows have no start codon in common.
    """
    if data.start_codon is None:
        raise BioattnError("the windows have no start codon in one column; counting codons needs one")
    (kmers,) = kmer_bumps(data, 6)[0].blocks
    codons = Codons(-data.downstream, 0)
    return [FeatureSet(blocks=(kmers, codons), shares=(1.0 - share, share)) for share in CODON_SHARES]


def upstream_kmers(data: BaselineData, k: int, width: int) -> Kmers:
    """Canonical k-mers in the last `width` bases before the anchor."""
    return Kmers(k, -data.downstream - width, -data.downstream)


def principal_directions(deviations_GT: Matrix) -> Matrix:
    """Orthonormal directions of treatment space by falling variance over genes: shape=(treatments, treatments)."""
    _, vectors_TD = np.linalg.eigh(deviations_GT.T.astype(np.float64) @ deviations_GT)
    return np.ascontiguousarray(vectors_TD[:, ::-1], np.float32)
