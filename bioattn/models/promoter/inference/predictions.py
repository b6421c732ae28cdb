"""Predictions as a wide TSV: one row per gene, one column per treatment."""

from collections.abc import Sequence
from typing import TextIO

from bioattn.store.prediction_table import PartSeal, part_line
from bioattn.store.schema import PREDICTIONS, Block
from bioattn.store.shard_record import ShardRecord


class PredictionWriter:
    """Writes rows as they come; seven significant digits, which is what float32 holds."""

    def __init__(self, file: TextIO, treatments: Sequence[str], shard: ShardRecord | None = None) -> None:
        """shard: of a part of a table, which says so in its first line and ends with a digest."""
        self._file = file
        self._row = "\t".join(["%s", *["%.7g"] * len(treatments)]) + "\n"
        self._seal = PartSeal() if shard is not None else None
        if shard is not None:
            self._write(part_line(shard))
        self._write("\t".join(["gene_id", *treatments]) + "\n")

    def write(self, block: Block) -> None:
        """The next genes, with predictions (genes, treatments)."""
        self._write(
            "".join(
                self._row % (gene, *values)
                for gene, values in zip(
                    block.samples.ids, block.arrays[PREDICTIONS]["values"].tolist(), strict=True
                )
            )
        )

    def finish(self) -> None:
        """All rows are written."""
        if self._seal is not None:
            self._file.write(self._seal.line())

    def _write(self, text: str) -> None:
        self._file.write(text)
        if self._seal is not None:
            self._seal.add(text)
