"""Ridge regression of many responses on sequence counts, for any penalty from one eigendecomposition.

Responses are centred on their training means, and missing ones set to that mean for the fit so that all treatments
share one decomposition. Features have mean squared row length 1 (`Standardiser`), so a penalty is the ratio of
noise to signal variance and means the same for every set of features.

Shape suffixes: G genes, T treatments, F features, R rank, D directions in treatment space.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from bioattn.models.promoter.training.sequence_counts import Codes, Standardiser

Matrix: TypeAlias = NDArray[np.float32]

GENES_PER_BLOCK = 4096


@dataclass(frozen=True, slots=True)
class LinearModel:
    """A fitted baseline: standardised counts of a promoter, times coefficients, plus the training mean."""

    standardiser: Standardiser
    coefficients: Matrix
    """(features, treatments)."""
    mean: Matrix
    """(treatments,)."""

    def predict(self, codes: Codes) -> Matrix:
        """Responses to windows of shape (genes, bases): shape=(genes, treatments)."""
        blocks = range(0, max(1, len(codes)), GENES_PER_BLOCK)
        parts = [self.standardiser.features(codes[start : start + GENES_PER_BLOCK]) for start in blocks]
        return np.concatenate([features_GF @ self.coefficients + self.mean for features_GF in parts])


class RidgePath:
    """All ridge fits of one set of features.

    The smaller of the two Gram matrices is decomposed: features × features, or genes × genes where there are fewer
    training genes than features. Time grows with the cube of the smaller of the two.
    """

    def __init__(self, standardiser: Standardiser, train_codes: Codes, deviations: Matrix) -> None:
        """deviations: training responses less their means, 0 where missing, shape=(genes, treatments)."""
        self.standardiser = standardiser
        features_GF = standardiser.features(train_codes)
        if features_GF.shape[0] < features_GF.shape[1]:
            eigenvalues_R, vectors_GR = np.linalg.eigh(features_GF @ features_GF.T)
            self._rotation_FR: Matrix = features_GF.T @ vectors_GR
            self._rotated_RT: Matrix = vectors_GR.T @ deviations
        else:
            eigenvalues_R, self._rotation_FR = np.linalg.eigh(features_GF.T @ features_GF)
            self._rotated_RT = self._rotation_FR.T @ (features_GF.T @ deviations)
        self._eigenvalues_R = np.maximum(eigenvalues_R, 0.0)  # rounding can make an empty direction negative

    def rotate(self, codes: Codes) -> Matrix:
        """Features of windows in the basis of the decomposition, shape=(genes, rank): `@ weights` predicts."""
        return np.asarray(self.standardiser.features(codes) @ self._rotation_FR)

    def weights(self, penalty: float, directions_TD: Matrix | None = None) -> Matrix:
        """Ridge weights in that basis: shape=(rank, treatments).

        With orthonormal `directions_TD`, shape=(treatments, directions), the columns are directions in treatment
        space instead: the fit of each direction's score.
        """
        rotated_RT = self._rotated_RT if directions_TD is None else self._rotated_RT @ directions_TD
        return np.asarray(rotated_RT / (self._eigenvalues_R + penalty)[:, None], np.float32)

    def model(self, weights_RT: Matrix, mean: Matrix) -> LinearModel:
        """The fit with these weights, as a model of sequences."""
        return LinearModel(self.standardiser, self._rotation_FR @ weights_RT, mean)
