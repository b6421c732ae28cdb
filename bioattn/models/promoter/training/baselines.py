"""What simple models reach on the same split: the rows every trained model is printed beside.

All are fitted on training genes, choose their settings on validation genes and are scored on validation and test
genes; no choice looks at a test gene. Treatments held out from training take no part.

Shape suffixes: G genes, T treatments (those of training), D directions in treatment space.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from bioattn.errors import BioattnError
from bioattn.models.promoter.config import Conditioning, PromoterModelConfig
from bioattn.models.promoter.model import PromoterModel, RidgeModel
from bioattn.models.promoter.training.ridge import (
    Codes,
    Kmers,
    LinearModel,
    Matrix,
    RidgePath,
    Standardiser,
    find_start_codon,
)
from bioattn.models.promoter.treatment_vocabulary import TreatmentVocabulary
from bioattn.promoters.dataset import TEST, TRAIN, VALIDATION, PromoterDataset
from bioattn.promoters.homology import canonical_columns
from bioattn.promoters.response_metrics import SharedAxis, auroc, fit_shared_axis, median, pearson, summarise
from bioattn.system.progress import SILENT, Progress
from bioattn.text import counted, duration

LOGGER = logging.getLogger("bioattn")
Fits: TypeAlias = Callable[["BaselineData", RidgePath], Iterator[tuple[Matrix, str]]]
"""Ridge weights (rank, treatments) to choose from, each with a description."""

PENALTIES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
"""Ratios of noise to signal variance tried; real promoters tell little of expression and want the large ones."""

KMERS = (4, 5, 6)
"""Lengths of the k-mers tried: the longer ones say more and need more promoters."""

WINDOWS = (300, 500)
"""Bases upstream of the anchor whose k-mers are tried, besides the whole window."""

BUMPS = ((-150, 150), (-300, 300))
"""Centre and width, in bases from the anchor, of the distance weights tried for the positional k-mer ridges."""

CODON_SHARES = (0.1, 0.3, 0.6)
"""Weights tried for codons against k-mers where the window is coding."""


class FeatureSet(NamedTuple):
    """Blocks of counts and the weight of each."""

    blocks: tuple[Kmers, ...]
    shares: tuple[float, ...] | None = None
    """One per block; None: equal."""

    def name(self, downstream: int) -> str:
        """Such as `6-mers −300..0`; downstream: bases of the window from the anchor on."""
        return " + ".join(block.name(downstream) for block in self.blocks)


@dataclass(frozen=True, slots=True)
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
        length = int(self.codes.shape[1])
        self.downstream = 0 if self.start_codon is None else length - self.start_codon
        """Bases of the window from the start codon on; 0 where the window is not coding."""
        self.upstream = length - self.downstream
        """Bases of the window before the start codon, or all."""
        stored = dataset.metadata.get("downstream")
        self.after_anchor = self.downstream if stored is None else int(stored)
        """Bases of the window from the anchor on: as the dataset has it, else from the start codon; else 0."""
        self._paths: dict[FeatureSet, RidgePath] = {}

    def path(self, features: FeatureSet) -> RidgePath:
        if features not in self._paths:
            standardiser = Standardiser(features.blocks, features.shares, self.codes[self.train])
            self._paths[features] = RidgePath(standardiser, self.codes[self.train], self.deviations)
        return self._paths[features]

    def fitted(self, name: str, candidates: Sequence[FeatureSet], fits: Fits) -> Baseline:
        """The row of the fit with the best validation score (median Pearson r over treatments, or AUROC)."""
        best: tuple[LinearModel, str] | None = None
        highest = -np.inf
        metric = auroc if self.task == "binary" else pearson
        for features in candidates:
            path = self.path(features)
            validation_GR = path.rotate(self.codes[self.validation])
            for weights_RT, choice in fits(self, path):
                predicted_GT = validation_GR @ weights_RT + self.mean
                score = float(median(metric(self.targets[self.validation], predicted_GT))[0])
                if best is None or score > highest:
                    highest = score if np.isfinite(score) else -np.inf
                    best = path.model(weights_RT, self.mean), f"{features.name(self.after_anchor)}, {choice}"
        assert best is not None
        model, choice = best
        return self.row(name, choice, model.predict(self.codes), model)

    def row(self, name: str, choice: str, predictions: Matrix, model: LinearModel | None = None) -> Baseline:
        """A row with its metrics; none where there are no genes. predictions: for all genes."""
        validation, test = (
            summarise(self.targets[genes], predictions[genes], self.axis, self.task) if len(genes) else {}
            for genes in (self.validation, self.test)
        )
        return Baseline(name, choice, predictions, validation, test, model)


def default_baselines(dataset: PromoterDataset, progress: Progress = SILENT) -> list[Baseline]:
    """The set printed after every training: the mean, ridges on k-mers in windows, by distance, of rank 1 and by
    component, and where the window is coding the region + codon ridge.

    About 20 s on one core for 3,500 training genes and 170 treatments, nearly all of it for 6-mers. Time and
    memory are bounded by the number of features (2,080 canonical 6-mers), not by the number of treatments.
    """
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
    progress.begin("simple models", len(rows))
    began = time.monotonic()
    found = []
    for row in rows:
        found.append(row(data))
        progress.advance(1, fitted=found[-1].name)
    progress.end()
    progress.note(f"{counted(len(found), 'simple model')} fitted in {duration(time.monotonic() - began)}")
    return found


def best_simple(rows: Sequence[Baseline], task: str) -> Baseline | None:
    """The row that is best on validation genes; without any the first with a model, and None without rows."""
    figure = "auroc" if task == "binary" else "pearson"
    return max(
        rows,
        key=lambda row: (np.nan_to_num(row.validation.get(figure, -1.0), nan=-1.0), row.model is not None),
        default=None,
    )


def training_mean(data: BaselineData) -> Baseline:
    """No sequence at all: each treatment's mean over training genes, for every gene."""
    return data.row("training mean", "", np.tile(data.mean, (len(data.codes), 1)))


def kmer_ridge(data: BaselineData, ks: Sequence[int] = KMERS, windows: Sequence[int] = WINDOWS) -> Baseline:
    """Ridge on the canonical k-mers before the anchor; k, window and penalty chosen on validation genes."""
    return data.fitted("k-mer ridge", kmer_windows(data, ks, windows), by_penalty)


def positional_ridge(data: BaselineData) -> Baseline:
    """Ridge on canonical k-mers counted by their distance from the anchor; k, distance and penalty chosen."""
    return data.fitted("positional k-mer ridge", kmer_bumps(data, KMERS), by_penalty)


def rank_one_ridge(data: BaselineData) -> Baseline:
    """Positional ridge of one number a gene, its coordinate on the shared axis, times the axis.

    Says how far one gets when no treatment has anything of its own.
    """
    if data.axis is None:
        direction_TD = principal_directions(data.deviations)[:, :1]
    else:
        direction_TD = data.axis.loading[:, None].astype(np.float32)
    return data.fitted(
        "rank-1 ridge", kmer_bumps(data, KMERS), partial(by_penalty, directions_TD=direction_TD)
    )


def component_ridge(data: BaselineData, ks: Sequence[int] = KMERS) -> Baseline:
    """Ridge of the responses' principal components, each with a penalty and a scale of its own.

    The strongest simple model of the promoter known here. Components beyond the first few are mostly noise; a
    penalty shared by all either keeps that noise or blunts the first. Each component takes the penalty whose
    validation predictions point most nearly the way of its scores, and is then scaled by least squares on
    validation genes (not below 0).
    """
    candidates = [*kmer_bumps(data, ks), *kmer_windows(data, ks)]
    return data.fitted("component ridge", candidates, by_component)


def region_codon_ridge(data: BaselineData) -> Baseline:
    """Ridge on positional 6-mers before and codons after the start codon, where windows reach into the gene."""
    return data.fitted("region + codon ridge", kmers_and_codons(data), by_penalty)


def region_codon_component_ridge(data: BaselineData) -> Baseline:
    """The same features, each principal component of the responses with a penalty of its own."""
    return data.fitted("region + codon component ridge", kmers_and_codons(data), by_component)


def by_penalty(
    _data: BaselineData, path: RidgePath, directions_TD: Matrix | None = None
) -> Iterator[tuple[Matrix, str]]:
    """One fit per penalty; with orthonormal `directions_TD`, only of the responses' part in these directions."""
    for penalty in PENALTIES:
        weights_RT = path.weights(penalty, directions_TD)
        yield weights_RT if directions_TD is None else weights_RT @ directions_TD.T, f"penalty {penalty:g}"


def by_component(data: BaselineData, path: RidgePath) -> Iterator[tuple[Matrix, str]]:
    """One fit, with a penalty and a scale of its own for each principal component."""
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
    yield weights_RD @ directions_TD.T, "a penalty per component"


def kmer_windows(data: BaselineData, ks: Sequence[int], windows: Sequence[int] = WINDOWS) -> list[FeatureSet]:
    """For each k a feature set per window that is shorter than the promoter, and one for all of it."""
    widths = [*(width for width in sorted(set(windows)) if width < data.upstream), data.upstream]
    anchor = -data.downstream
    return [FeatureSet((Kmers(k, anchor - width, anchor),)) for k in ks for width in widths]


def kmer_bumps(data: BaselineData, ks: Sequence[int]) -> list[FeatureSet]:
    """For each k a feature set per distance weighting, over all that lies before the anchor."""
    anchor = -data.downstream
    return [
        FeatureSet((Kmers(k, anchor - data.upstream, anchor, centre=anchor + centre, width=width),))
        for k in ks
        for centre, width in BUMPS
    ]


def kmers_and_codons(data: BaselineData) -> list[FeatureSet]:
    """Positional 6-mers with the codons of the rest of the window, at several shares; for coding windows."""
    (kmers,) = kmer_bumps(data, [6])[0].blocks
    codons = Kmers(3, -data.downstream, canonical=False, step=3)
    return [FeatureSet((kmers, codons), (1.0 - share, share)) for share in CODON_SHARES]


def principal_directions(deviations_GT: Matrix) -> Matrix:
    """Orthonormal directions of treatment space by falling variance over genes: shape=(treatments, treatments)."""
    _, vectors_TD = np.linalg.eigh(deviations_GT.T.astype(np.float64) @ deviations_GT)
    return np.ascontiguousarray(vectors_TD[:, ::-1], np.float32)


def as_promoter_model(
    simple: Baseline,
    vocabulary: TreatmentVocabulary,
    length: int,
    mean_T: NDArray[np.float64],
    sd_T: NDArray[np.float64],
) -> PromoterModel:
    """The model that predicts what `simple` does, in units of the responses.

    length: bases of a window. mean_T, sd_T: what the dataset's units are of the responses'.
    """
    linear = simple.model
    blocks = () if linear is None else linear.standardiser.blocks
    config = PromoterModelConfig(
        length=length,
        conditioning=Conditioning.RIDGE,
        unconditional=False,
        channels=len(vocabulary.names),
        pool=1,
        ridge_kmers=tuple(block.k for block in blocks),
    )
    model = PromoterModel([config], vocabulary)
    network = model.members[0].network
    assert isinstance(network, RidgeModel)
    offset_T = simple.predictions[0].astype(np.float64)
    if linear is not None:
        offset_T = linear.mean.astype(np.float64)
        sizes = [len(mean_F) for mean_F in linear.standardiser.means]
        parts = np.split(linear.coefficients.astype(np.float64), np.cumsum(sizes)[:-1])
        for number, (block, part_FT) in enumerate(zip(blocks, parts, strict=True)):
            added_FT = linear.standardiser.factors[number][:, None] * part_FT
            offset_T = offset_T - linear.standardiser.means[number] @ added_FT
            columns = canonical_columns(block.k) if block.canonical else np.arange(4**block.k)
            network.set_block(number, block.weights(length), added_FT[columns])
    network.offset_T.copy_(torch.from_numpy(offset_T))
    model.members[0].set_units(mean_T, sd_T)
    return model.eval()
