"""Means of responses that belong to one gene and treatment, with their standard errors and adjusted p."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


class CellMeans:
    """A matrix of means, to which values are added bit by bit; missing ones (NaN) are left out."""

    def __init__(self, *shape: int) -> None:
        self.count = np.zeros(shape, dtype=np.int32)
        """How many values each cell was given."""
        self._total, self._variance = np.zeros(shape), np.zeros(shape)
        self._errors = np.zeros(shape, dtype=np.int32)
        self._padj = np.full(shape, -np.inf)
        self._with_error = self._with_padj = False

    def add(self, place: Any, values: Values, standard_error: Values | None, padj: Values | None) -> None:
        """Add values to the cells that `place` indexes; a cell may occur several times."""
        present = ~np.isnan(values)
        np.add.at(self._total, place, np.where(present, values, 0.0))
        np.add.at(self.count, place, present)
        if standard_error is not None:
            known = present & ~np.isnan(standard_error)
            np.add.at(self._variance, place, np.where(known, standard_error, 0.0) ** 2)
            np.add.at(self._errors, place, known)
            self._with_error |= bool(known.any())
        if padj is not None:
            self._with_padj = True
            # NaN (not tested) wins over any number: the mean counts as tested only if all values were.
            np.maximum.at(self._padj, place, np.where(present, padj, -np.inf))

    @property
    def values(self) -> Values:
        """The means; NaN where nothing was given."""
        return self._over_count(self._total, self.count > 0)

    @property
    def standard_error(self) -> Values | None:
        """Standard errors of the means, values taken as independent; NaN where one of them has none."""
        known = (self.count > 0) & (self._errors == self.count)
        return self._over_count(np.sqrt(self._variance), known) if self._with_error else None

    @property
    def padj(self) -> Values | None:
        """The largest adjusted p of a cell's values; NaN where one was not tested."""
        return np.where(np.isneginf(self._padj), np.nan, self._padj) if self._with_padj else None

    def _over_count(self, sums: Values, known: NDArray[np.bool_]) -> Values:
        return np.divide(sums, self.count, out=np.full_like(sums, np.nan), where=known)
