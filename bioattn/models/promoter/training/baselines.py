"""What simple models reach on the same split: the rows every trained model is printed beside.

All are fitted on training genes, choose their settings on validation genes and are scored on validation and test
genes; no choice looks at a test gene. Treatments held out from training take no part.

Shape suffixes: G genes, T treatments (those of training), D directions in treatment space.
"""

import itertools
import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save_file
from scipy.optimize import nnls

from bioattn.choices import TEST, TRAIN, VALIDATION
from bioattn.io.files import atomic_output
from bioattn.models.promoter.config import Conditioning, PromoterModelConfig, Strand
from bioattn.models.promoter.model import PromoterModel, RidgeModel
from bioattn.models.promoter.training.ridge import (
    Codes,
    Kmers,
    LinearModel,
    Matrix,
    RidgePath,
    Standardised,
    find_start_codon,
)
from bioattn.models.promoter.treatment_vocabulary import TreatmentVocabulary
from bioattn.promoters.dataset import PromoterDataset
from bioattn.promoters.response_metrics import SharedAxis, auroc, fit_shared_axis, pearson, summarise
from bioattn.system.progress import SILENT, Progress
from bioattn.text import counted, duration

LOGGER = logging.getLogger("bioattn")
Weights: TypeAlias = Callable[[RidgePath], Matrix]
"""Weights of all treatments, as `RidgePath.rotate` takes them, by one way to shrink a ridge."""
Fits: TypeAlias = Callable[["BaselineData", RidgePath], Iterator[tuple[str, Weights]]]
"""Ways to shrink a ridge to choose from, with what messages call them."""

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

WINDOWED = ((3, 5), (4, 15), (5, 50), (5, 0), (6, 0))
"""Lengths of k-mers and of the windows they are counted in (0: one window), over all of the promoter."""

GENES_TO_CHOOSE = 10_000
"""At most so many training genes while settings are chosen; what is chosen is fitted to all of them."""

MOST_FEATURES = 12_000
"""Of a ridge on more genes than that: its Gram matrix takes 0.6 GB."""


Features: TypeAlias = tuple[tuple[Kmers, float], ...]
"""Blocks of counts and the weight of each, 1 in all."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """One row: a simple model, what it chose on validation genes, and what it predicts."""

    name: str
    choice: str
    """The settings chosen on validation genes; empty where there was nothing to choose."""
    predictions: Matrix
    """(genes, training treatments) for all genes of the dataset, in the units of its targets (binary: scores)."""
    validation: dict[str, float]
    """`bioattn.promoters.response_metrics.summarise` on validation genes, and on test genes; empty without any."""
    test: dict[str, float]
    model: LinearModel | None = None
    """Predicts other promoters (None for the mean)."""


class BaselineData:
    """The parts of a dataset that baselines use, cut to training treatments."""

    def __init__(self, dataset: PromoterDataset) -> None:
        window = slice(dataset.flank, dataset.flank + dataset.length)
        self.codes: Codes = dataset.codes[:, window]
        self.targets: Matrix = dataset.targets[:, dataset.treatment_split == TRAIN]
        self.task = dataset.task
        self.train, self.validation, self.test = (
            dataset.genes_in(split) for split in (TRAIN, VALIDATION, TEST)
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
        chosen_from = self.train
        if len(self.train) > GENES_TO_CHOOSE:
            chosen_from = np.random.default_rng(0).choice(self.train, GENES_TO_CHOOSE, replace=False)
        self._few = np.isin(self.train, chosen_from)
        self._paths: dict[Features, RidgePath] = {}

    def path(self, features: Features, genes: NDArray[np.bool_] | slice = slice(None)) -> RidgePath:
        """Fits to some training genes (True), or all."""
        codes = self.codes[self.train[genes]]
        blocks = [Standardised.fit(block, share, codes) for block, share in features]
        return RidgePath(blocks, codes, self.deviations[genes])

    def chosen(self, candidates: Sequence[Features], *fits: Fits) -> "Chosen":
        """The fit with the best score on validation genes."""
        found: list[Chosen] = []
        for features in candidates:
            path = self._paths.get(features) or self.path(features, self._few)
            if not any(block.window for block, _ in features):
                self._paths[features] = path
            validation_GR = path.rotate(self.codes[self.validation])
            for choice, weights in (each for fit in fits for each in fit(self, path)):
                weights_RT = weights(path)
                predicted_GT = validation_GR @ weights_RT + self.mean
                score = self.score(predicted_GT)
                if not found or score > found[0].score:
                    model = path.model(weights_RT, self.mean)
                    choice = f"{self.named(block for block, _ in features)}, {choice}"
                    found = [Chosen(score, choice, features, weights, model, predicted_GT)]
        return found[0]

    def named(self, blocks: Iterable[Kmers]) -> str:
        """Such as `6-mers −300..0`, from the anchor."""
        return " + ".join(block.name(self.after_anchor) for block in blocks)

    def score(self, predicted_GT: Matrix) -> float:
        """Mean Pearson r over treatments, or AUROC, on validation genes; −∞ without any."""
        metric = auroc if self.task == "binary" else pearson
        scores_T = metric(self.targets[self.validation], predicted_GT)[0]
        known_T = scores_T[np.isfinite(scores_T)]
        return float(known_T.mean()) if len(known_T) else -np.inf

    def refitted(self, chosen: "Chosen") -> LinearModel:
        """What was chosen, fitted to all training genes."""
        if self._few.all():
            return chosen.model
        path = self.path(chosen.features)
        return path.model(chosen.weights(path), self.mean)

    def fitted(self, name: str, candidates: Sequence[Features], fits: Fits) -> Baseline:
        """The row of the fit with the best validation score."""
        chosen = self.chosen(candidates, fits)
        model = self.refitted(chosen)
        return self.row(name, chosen.choice, model.predict(self.codes), model)

    def row(self, name: str, choice: str, predictions: Matrix, model: LinearModel | None = None) -> Baseline:
        """A row with its metrics; none where there are no genes. predictions: for all genes."""
        validation, test = (
            summarise(self.targets[genes], predictions[genes], self.axis, self.task) if len(genes) else {}
            for genes in (self.validation, self.test)
        )
        return Baseline(name, choice, predictions, validation, test, model)


class Chosen(NamedTuple):
    """A ridge chosen on validation genes."""

    score: float
    choice: str
    """Its features and how it is shrunk, for people."""
    features: Features
    weights: Weights
    model: LinearModel
    """Fitted to `GENES_TO_CHOOSE`."""
    predicted_GT: Matrix
    """Of validation genes."""


def default_baselines(
    dataset: PromoterDataset, progress: Progress = SILENT, strand: Strand = Strand.AUTO
) -> list[Baseline]:
    """The set printed after every training: without sequence the mean, and composition and position; ridges on
    k-mers of a region, by distance, of rank 1 and by component, and where the window is coding the region + codon
    ridge; ridges on logarithms of k-mer counts in windows; and a sum of them all.

    Time and memory are bounded by the number of genes or of features, not by the number of treatments.
    """
    data = BaselineData(dataset)
    # No sequence at all: each treatment's mean over training genes, for every gene.
    rows: list[Callable[[], Baseline]] = [
        lambda: data.row("training mean", "", np.tile(data.mean, (len(data.codes), 1)))
    ]
    if not np.isfinite(data.targets[data.validation]).any():
        LOGGER.warning(
            "no validation gene has a target: of the simple models only the training mean is shown"
        )
    elif not data.deviations.any():
        LOGGER.warning("no target varies over the training genes: only the training mean is shown")
    else:
        bumps = kmer_bumps(data, KMERS)
        # One number a gene, its coordinate on the shared axis, times the axis: how far one gets when no treatment
        # has anything of its own.
        if data.axis is None:
            shared_TD = principal_directions(data.deviations)[:, :1]
        else:
            shared_TD = data.axis.loading[:, None].astype(np.float32)
        rows += [
            lambda: covariates(data, dataset),
            lambda: data.fitted("k-mer ridge", kmer_windows(data, KMERS), by_penalty),
            lambda: data.fitted("positional k-mer ridge", bumps, by_penalty),
            lambda: data.fitted("rank-1 ridge", bumps, partial(by_penalty, directions_TD=shared_TD)),
            lambda: component_ridge(data),
        ]
        if data.start_codon is not None:
            ((near, _),), codons = (
                kmer_bumps(data, [6])[0],
                Kmers(3, -data.downstream, canonical=False, step=3),
            )
            both = [((near, 1.0 - share), (codons, share)) for share in CODON_SHARES]
            rows += [
                lambda: data.fitted("region + codon ridge", both, by_penalty),
                lambda: data.fitted("region + codon component ridge", both, by_component),
            ]
    progress.begin("simple models", len(rows) + (len(rows) > 1))
    began = time.monotonic()
    found = []
    for row in rows:
        found.append(row())
        progress.advance(1, fitted=found[-1].name)
    if len(rows) > 1:
        parts = [row.model for row in found if row.model is not None and "component" in row.name]
        found += windowed_ridges(data, strand, parts)
        progress.advance(1, fitted=found[-1].name)
    progress.end()
    progress.note(f"{counted(len(found), 'simple model')} fitted in {duration(time.monotonic() - began)}")
    return found


def write_baselines(path: Path, rows: Sequence[Baseline], job: str) -> None:
    """Keep rows for a run that goes on. job: names what they were fitted to."""
    tensors, said = dict[str, NDArray[np.float32]](), list[dict[str, Any]]()
    for number, row in enumerate(rows):
        said.append({"name": row.name, "choice": row.choice})
        arrays = [row.predictions]
        if row.model is not None:
            said[-1]["blocks"] = [asdict(each.block) for each in row.model.blocks]
            arrays += [row.model.coefficients, row.model.mean]
            arrays += [array for each in row.model.blocks for array in (each.mean_F, each.factor_F)]
        tensors |= {f"{number}.{place}": np.ascontiguousarray(array) for place, array in enumerate(arrays)}
    with atomic_output(path) as temporary:
        save_file(tensors, temporary, {"job": job, "rows": json.dumps(said)})


def read_baselines(path: Path, dataset: PromoterDataset, job: str) -> list[Baseline] | None:
    """The rows that `write_baselines` kept; None where there are none of this job."""
    if not path.is_file():
        return None
    with safe_open(path, "numpy") as file:
        if file.metadata()["job"] != job:
            return None
        data, rows = BaselineData(dataset), []
        for number, row in enumerate(json.loads(file.metadata()["rows"])):
            arrays = (file.get_tensor(f"{number}.{place}") for place in itertools.count())
            model, predictions = None, next(arrays)
            if "blocks" in row:
                coefficients, mean = next(arrays), next(arrays)
                blocks = [Standardised(Kmers(**each), next(arrays), next(arrays)) for each in row["blocks"]]
                model = LinearModel(blocks, coefficients, mean)
            rows.append(data.row(row["name"], row["choice"], predictions, model))
    LOGGER.info(f"{counted(len(rows), 'simple model')} of the interrupted run")
    return rows


def best_simple(rows: Sequence[Baseline], task: str) -> Baseline | None:
    """The row that is best on validation genes; without any the first with a model, and None without rows.

    Where a gene lies is no property of a promoter, so that row takes no part.
    """
    figure = "auroc" if task == "binary" else "pearson"
    return max(
        (row for row in rows if row.name != NO_SEQUENCE),
        key=lambda row: (np.nan_to_num(row.validation.get(figure, -1.0), nan=-1.0), row.model is not None),
        default=None,
    )


NO_SEQUENCE = "composition and position"


def covariates(data: BaselineData, dataset: PromoterDataset) -> Baseline:
    """Ridge on what needs no order of bases: GC share, known bases, strand and place on the chromosome.

    Of the place the share of the chromosome's genes before it, its square, and sine and cosine of a turn.
    """
    known_G = (data.codes < 4).sum(axis=1)
    gc_G = ((data.codes == 1) | (data.codes == 2)).sum(axis=1) / np.maximum(known_G, 1)
    place_G = np.zeros(len(known_G))
    names = np.array(dataset.chrom)
    for name in set(dataset.chrom) - {""}:
        genes = np.flatnonzero(names == name)
        place_G[genes] = np.argsort(np.argsort(dataset.start[genes], kind="stable")) / len(genes)
    turn_G, located_G = 2 * np.pi * place_G, names != ""
    columns = (gc_G, gc_G**2, known_G, np.array(dataset.strand) == "+", place_G, place_G**2)
    features_GF = np.stack([*columns, np.sin(turn_G) * located_G, np.cos(turn_G) * located_G], axis=1)
    features_GF -= features_GF[data.train].mean(axis=0)
    deviation_F = features_GF[data.train].std(axis=0)
    features_GF /= np.where(deviation_F > 1e-9, deviation_F, np.inf)
    train_GF = features_GF[data.train]
    right_FT = train_GF.T @ data.deviations.astype(np.float64)
    candidates = []
    for penalty in PENALTIES:
        solved_FT = np.linalg.solve(train_GF.T @ train_GF + penalty * np.eye(train_GF.shape[1]), right_FT)
        candidates.append((features_GF @ solved_FT + data.mean).astype(np.float32))
    return data.row(NO_SEQUENCE, "", max(candidates, key=lambda each: data.score(each[data.validation])))


def windowed_ridges(data: BaselineData, strand: Strand, others: Sequence[LinearModel]) -> list[Baseline]:
    """The best ridge on logarithms of k-mer counts in windows, and a sum of all these ridges and of `others`.

    Each has penalties of its own, for all treatments or by component. Short windows tell where short k-mers are,
    wide ones have room for long k-mers, and their errors differ, so that a sum is better than any of them. Its
    weights are those that fit validation genes best, none below 0, for all treatments (stacking, Breiman 1996).
    """
    fits: list[Fits] = [by_penalty] if data.targets.shape[1] == 1 else [by_penalty, by_component]
    canonical = strand is not Strand.FORWARD
    sets = kmers_in_windows(data, canonical)
    found = [data.chosen(sets[:1], *fits)]
    if strand is Strand.AUTO:
        other = kmers_in_windows(data, not canonical)
        turned = data.chosen(other[:1], *fits)
        if turned.score > found[0].score:
            found, sets = [turned], other
    found += [data.chosen([features], *fits) for features in sets[1:]]
    best = max(found, key=lambda each: each.score)
    predictions = [each.predicted_GT for each in found]
    predictions += [other.predict(data.codes[data.validation]) for other in others]
    wanted_GT = data.targets[data.validation].astype(np.float64) - data.mean
    weights = stacked(wanted_GT, [predicted_GT - data.mean for predicted_GT in predictions])
    models = [
        data.refitted(each) if weight or each is best else each.model
        for each, weight in zip(found, weights, strict=False)
    ]
    single = models[found.index(best)]
    parts = [(model, weight) for model, weight in zip([*models, *others], weights, strict=True) if weight]
    rows = [data.row("windowed k-mer ridge", best.choice, single.predict(data.codes), single)]
    if parts:
        total = LinearModel.total(*zip(*parts, strict=True))
        names = ", ".join(
            f"{weight:.2f} × {data.named(each.block for each in model.blocks)}" for model, weight in parts
        )
        rows.append(data.row("sum of k-mer ridges", names, total.predict(data.codes), total))
    return rows


PULL = 0.1
"""How much the first guess of weights counts, as a share of what the predictions say."""


def stacked(
    wanted_GT: NDArray[np.floating],
    predictions: Sequence[NDArray[np.floating]],
    guess: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Weights, none below 0, of the sum of predictions that is nearest to what is wanted, where it is known
    (stacking, Breiman 1996).

    guess: weights to which they are drawn (ridge); None: to none.
    """
    known_GT = np.isfinite(wanted_GT)
    columns = [predicted_GT[known_GT].astype(np.float64) for predicted_GT in predictions]
    products_PP = np.array([[one @ other for other in columns] for one in columns])
    right_P = np.array([one @ wanted_GT[known_GT] for one in columns])
    if guess is not None:
        pull = PULL * np.trace(products_PP) / len(columns)
        products_PP, right_P = products_PP + pull * np.eye(len(columns)), right_P + pull * guess
    # Of the normal equations: cells are many, predictions few.
    values_P, vectors_PP = np.linalg.eigh(products_PP)
    root_P = np.sqrt(np.maximum(values_P, 1e-9 * max(values_P[-1], 1e-30)))
    left_PP = (vectors_PP * root_P).T
    weights: NDArray[np.float64] = nnls(left_PP, (vectors_PP / root_P).T @ right_P)[0]
    return weights


def kmers_in_windows(data: BaselineData, canonical: bool) -> list[Features]:
    """Logarithms of k-mer counts in windows over all of the promoter, downstream bases too; first 5-mers by 50 bp,
    of which there are many sites in each window: these tell the strands apart."""
    length = int(data.codes.shape[1])
    found = list[Features]()
    for k, window in sorted(WINDOWED, key=lambda each: each != (5, 50)):
        block = Kmers(k, -length, canonical=canonical, window=window if window < length else 0, log=True)
        features = (int(block.columns.max()) + 1) * (int(block.windows(length).max()) + 1)
        if min(features, len(data.train)) <= MOST_FEATURES:
            found.append(((block, 1.0),))
    return list(dict.fromkeys(found))


def component_ridge(data: BaselineData, ks: Sequence[int] = KMERS) -> Baseline:
    """Ridge of the responses' principal components, each with a penalty and a scale of its own.

    The strongest simple model of the promoter known here. Components beyond the first few are mostly noise; a
    penalty shared by all either keeps that noise or blunts the first. Each component takes the penalty whose
    validation predictions point most nearly the way of its scores, and is then scaled by least squares on
    validation genes (not below 0).
    """
    candidates = [*kmer_bumps(data, ks), *kmer_windows(data, ks)]
    return data.fitted("component ridge", candidates, by_component)


def by_penalty(
    _data: BaselineData, _path: RidgePath, directions_TD: Matrix | None = None
) -> Iterator[tuple[str, Weights]]:
    """One fit per penalty; with orthonormal `directions_TD`, only of the responses' part in these directions."""
    for penalty in PENALTIES:

        def weights(path: RidgePath, penalty: float = penalty) -> Matrix:
            if directions_TD is None:
                return path.weights(penalty)
            return path.weights(penalty, directions_TD) @ directions_TD.T

        yield f"penalty {penalty:g}", weights


def by_component(data: BaselineData, path: RidgePath) -> Iterator[tuple[str, Weights]]:
    """One fit, with a penalty and a scale of its own for each principal component."""
    directions_TD = principal_directions(data.deviations)
    validation_GT = data.targets[data.validation]
    scores_GD = np.where(np.isnan(validation_GT), 0.0, validation_GT - data.mean) @ directions_TD
    validation_GR = path.rotate(data.codes[data.validation])
    number = directions_TD.shape[1]
    best_D, penalty_D, scale_D = np.full(number, -np.inf), np.full(number, PENALTIES[-1]), np.zeros(number)
    tiny = np.finfo(np.float32).tiny
    for penalty in PENALTIES:
        predicted_GD = validation_GR @ path.weights(penalty, directions_TD)
        agreement_D = (predicted_GD * scores_GD).sum(axis=0)
        size_D = np.maximum(np.square(predicted_GD).sum(axis=0), tiny)
        cosine_D = agreement_D / np.sqrt(size_D)
        better_D = cosine_D > best_D
        best_D[better_D], penalty_D[better_D] = cosine_D[better_D], penalty
        scale_D[better_D] = np.maximum(agreement_D / size_D, 0.0)[better_D]
    scaled_TD = directions_TD * scale_D

    def weights(path: RidgePath) -> Matrix:
        alike = [penalty_D == penalty for penalty in np.unique(penalty_D)]
        parts = [
            path.weights(float(penalty_D[these_D][0]), directions_TD[:, these_D]) @ scaled_TD[:, these_D].T
            for these_D in alike
        ]
        return np.asarray(np.sum(parts, axis=0), np.float32)

    yield "a penalty per component", weights


def kmer_windows(data: BaselineData, ks: Sequence[int], windows: Sequence[int] = WINDOWS) -> list[Features]:
    """For each k a feature set per window that is shorter than the promoter, and one for all of it."""
    widths = [*(width for width in sorted(set(windows)) if width < data.upstream), data.upstream]
    anchor = -data.downstream
    return [((Kmers(k, anchor - width, anchor), 1.0),) for k in ks for width in widths]


def kmer_bumps(data: BaselineData, ks: Sequence[int]) -> list[Features]:
    """For each k a feature set per distance weighting, over all that lies before the anchor."""
    anchor = -data.downstream
    return [
        ((Kmers(k, anchor - data.upstream, anchor, centre=anchor + centre, width=width), 1.0),)
        for k in ks
        for centre, width in BUMPS
    ]


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
    if linear is None:
        blocks, added = list[Kmers](), list[NDArray[np.float64]]()
        offset_T = simple.predictions[0].astype(np.float64)
    else:
        blocks, (added, offset_T) = [each.block for each in linear.blocks], linear.per_count()
    config = PromoterModelConfig(
        length=length,
        conditioning=Conditioning.RIDGE,
        unconditional=False,
        channels=len(vocabulary.names),
        ridge_blocks=tuple(
            (block.k, 2 if block.canonical else 1, int(block.windows(length).max()) + 1, int(block.log))
            for block in blocks
        ),
    )
    model = PromoterModel([config], vocabulary)
    network = model.members[0].network
    assert isinstance(network, RidgeModel)
    for block, kmers, added_FT in zip(network.blocks, blocks, added, strict=True):
        block.set(kmers.weights(length), kmers.windows(length), added_FT)
    network.offset_T.copy_(torch.from_numpy(offset_T))
    model.members[0].set_units(mean_T, sd_T)
    return model.eval()
