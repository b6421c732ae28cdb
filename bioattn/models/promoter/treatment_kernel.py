"""Kernel attention over measured treatments: what a treatment that was never measured is like.

A training treatment has learned tokens of its own. Those of another one are their mean, weighted by a Gaussian of
the distance of features and molecules (Nadaraya 1964, Watson 1964). The widths are those with which each training
treatment's responses are best told by the others (leave-one-out).

Shape suffixes: T treatments, N measured (training) ones, K columns, D features, M tokens, C channels, G genes.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray
from torch import Tensor, nn

from bioattn.attention.operator import attention_weights
from bioattn.attention.score import GaussianScore
from bioattn.io.files import text_output
from bioattn.models.promoter.treatment_encoder import IdEncoder
from bioattn.models.promoter.treatment_vocabulary import TreatmentBatch, TreatmentVocabulary
from bioattn.molecules.similarity import tanimoto

WIDTHS = np.geomspace(0.05, 20.0, 25)
"""Tried by leave-one-out; another category lies at the distance 1, a number as many standard deviations away."""


class KernelEncoder(IdEncoder):
    """Tokens of training treatments; of others the mean of theirs, weighted by likeness."""

    def __init__(self, vocabulary: TreatmentVocabulary, channels: int, num_tokens: int) -> None:
        super().__init__(len(vocabulary.names), channels, num_tokens)
        number, self.sizes = (
            len(vocabulary.names),
            [len(values) + 1 for values in vocabulary.categories.values()],
        )
        features = sum(self.sizes) + 2 * len(vocabulary.numbers) + 1
        self.measured_ND: Tensor
        self.measured_bits: Tensor
        self.register_buffer("measured_ND", torch.zeros(number, features))
        self.register_buffer(
            "measured_bits", torch.zeros(number, vocabulary.bytes_of_molecule, dtype=torch.uint8)
        )
        self.score = GaussianScore(1, features)
        self.score.width_HD.requires_grad_(False)
        self.molecule_width: Tensor
        self.register_buffer("molecule_width", torch.ones(()))

    @torch.no_grad()
    def remember(self, treatments: TreatmentBatch, responses_NG: NDArray[np.floating]) -> None:
        """Keep the training treatments' features, and choose the widths by their responses (NaN = missing)."""
        self.measured_ND.copy_(self._features(treatments))
        self.measured_bits.copy_(treatments.bits_TB)
        groups = self._groups(len(treatments.numbers_TN[0]))
        distance_KNN = [
            np.square(each[:, None] - each).sum(-1)
            for each in (self.measured_ND[:, group].double().cpu().numpy() for group in groups)
        ]
        if self.measured_bits.shape[1]:
            bits = self.measured_bits.cpu().numpy()
            distance_KNN.append(2 * (1 - tanimoto(bits, bits)))
        width_K = chosen_widths(np.array(distance_KNN), responses_NG)
        for group, width in zip(groups, width_K, strict=False):
            self.score.width_HD[:, group] = 1 / width
        if self.measured_bits.shape[1]:
            self.molecule_width.fill_(width_K[-1])

    def weights(self, treatments: TreatmentBatch) -> Tensor:
        """What each measured treatment counts for each treatment (T, N); a measured one is itself."""
        bias_TN = None
        if self.measured_bits.shape[1]:
            similar_TN = tanimoto(treatments.bits_TB.cpu().numpy(), self.measured_bits.cpu().numpy())
            bias_TN = (torch.from_numpy(similar_TN) - 1).to(self.measured_ND) / self.molecule_width**2
        like_TN = attention_weights(
            self._features(treatments)[None], self.measured_ND[None], score=self.score, bias=bias_TN
        )[0]
        own_TN = F.one_hot(treatments.index_T.clamp(min=0), len(self.measured_ND)).to(like_TN)
        return torch.where((treatments.index_T >= 0)[:, None], own_TN, like_TN)

    def forward(self, treatments: TreatmentBatch) -> Tensor:
        """Tokens (T, M, C)."""
        return torch.einsum("tn,nmc->tmc", self.weights(treatments), self.tokens_TMC)

    def _features(self, treatments: TreatmentBatch) -> Tensor:
        """Features as vectors (T, D) whose squared distance is 1 for another category, or for a number that one
        treatment has and the other has not."""
        parts = [
            F.one_hot(treatments.categories_TF[:, f], size).float() * 0.5**0.5
            for f, size in enumerate(self.sizes)
        ]
        both = torch.stack([treatments.numbers_TN, treatments.present_TN], dim=-1).flatten(1)
        nothing_T1 = both.new_zeros(len(both), 1)  # without columns, molecules alone count
        return torch.cat([*parts, both, nothing_T1], dim=1)

    def _groups(self, numbers: int) -> list[slice]:
        """The places of each column in the vectors."""
        ends = np.cumsum([0, *self.sizes, *[2] * numbers]).tolist()
        return [slice(first, last) for first, last in itertools.pairwise(ends)]


def kernel_encoder(model: nn.Module) -> KernelEncoder | None:
    """The kernel encoder of a promoter model; None where treatments are known otherwise."""
    return next((module for module in model.modules() if isinstance(module, KernelEncoder)), None)


def chosen_widths(squared_KNN: NDArray[np.float64], responses_NG: NDArray[np.floating]) -> list[float]:
    """The width of each feature with the least leave-one-out error, one after the other, twice.

    squared_KNN: squared distances of treatments by each feature.
    """
    means_N1 = np.nanmean(responses_NG, axis=1, keepdims=True)
    filled_NG = np.where(np.isfinite(responses_NG), responses_NG, means_N1).astype(np.float64)
    gram_NN = filled_NG @ filled_NG.T
    width_K = np.full(len(squared_KNN), float(WIDTHS[len(WIDTHS) // 2]))

    def error(width_K: NDArray[np.float64]) -> float:
        logits_NN = -0.5 * np.tensordot(1 / width_K**2, squared_KNN, 1)
        np.fill_diagonal(logits_NN, -np.inf)
        weights_NN = np.exp(logits_NN - logits_NN.max(1, keepdims=True))
        missed_NN = np.eye(len(gram_NN)) - weights_NN / weights_NN.sum(1, keepdims=True)
        return float(np.einsum("ni,ij,nj->", missed_NN, gram_NN, missed_NN, optimize=True))

    for feature in [*range(len(width_K))] * 2 if len(gram_NN) > 1 else []:
        tried = []
        for width in WIDTHS:
            width_K[feature] = width
            tried.append(error(width_K))
        width_K[feature] = WIDTHS[int(np.argmin(tried))]
    found: list[float] = width_K.tolist()
    return found


def weights_sentence(name: str, weights_N: NDArray[np.floating], names: Sequence[str]) -> str:
    """What a treatment leans on, such as `x: 0.62 menadione, 0.21 H2O2`."""
    order = np.argsort(-weights_N, kind="stable")[:3]
    return f"{name}: {', '.join(f'{weights_N[n]:.2f} {names[n]}' for n in order if weights_N[n] >= 0.005)}"


def write_weights(
    path: Path, treatments: Sequence[str], weights_TN: NDArray[np.floating], names: Sequence[str]
) -> None:
    with text_output(path) as file:
        file.write("\t".join(["treatment", *names]) + "\n")
        for name, weights_N in zip(treatments, weights_TN, strict=True):
            file.write("\t".join([name, *(f"{weight:.6g}" for weight in weights_N)]) + "\n")
