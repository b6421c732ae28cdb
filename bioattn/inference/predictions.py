"""Predictions as a wide TSV: one row per gene, one column per treatment."""

from collections.abc import Sequence
from typing import TextIO

import numpy as np
from numpy.typing import NDArray


class PredictionWriter:
    """Writes rows as they come; seven significant digits, which is what float32 holds."""

    def __init__(self, file: TextIO, treatments: Sequence[str]) -> None:
        self._file = file
        self._row = "\t".join(["%s", *["%.7g"] * len(treatments)]) + "\n"
        file.write("\t".join(["gene_id", *treatments]) + "\n")

    def write(self, gene_ids: Sequence[str], predictions: NDArray[np.float32]) -> None:
        """predictions: (genes, treatments)."""
        self._file.write(
            "".join(
                self._row % (gene, *values)
                for gene, values in zip(gene_ids, predictions.tolist(), strict=True)
            )
        )
