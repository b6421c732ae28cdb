"""Promoters in the sample table: where their windows lie, and from window positions to the chromosome."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bioattn.store.schema import TEXT, Attribute, Column, Samples

PROMOTERS = "promoters"
PROMOTER_COLUMNS = (
    Column("chrom", TEXT, "chromosome; empty where it is not known"),
    Column("start", "int64", "0-based first base of the window along the chromosome; -1 unknown"),
    Column("end", "int64", "base after the last one of the window; -1 unknown"),
    Column("strand", TEXT, "+, - or . for unknown"),
    Column("name", TEXT, "common name of the gene; empty where it is not known"),
)


def promoter_samples(
    ids: list[str],
    chrom: list[str],
    start: Sequence[int] | NDArray[np.int64],
    end: Sequence[int] | NDArray[np.int64],
    strand: list[str],
    name: list[str] | None = None,
) -> Samples:
    """Gene ids, where their windows lie (0-based, half-open; -1 unknown) and common names, in file order."""
    bounds = {"start": np.asarray(start, dtype=np.int64), "end": np.asarray(end, dtype=np.int64)}
    return Samples({"id": ids, "chrom": chrom, **bounds, "strand": strand, "name": name or [""] * len(ids)})


def window_attributes(
    input_sha256: str, window_length: int, task: str, downstream: int | None
) -> dict[str, Attribute]:
    """What a file over promoters says at its root.

    input_sha256: of the sequence file. window_length: positions of the model's window; shorter promoters lie at
    its right end. task: `regression` or `binary`, the unit of predictions. downstream: positions of the window
    from position 0 of each gene on; None when the sequence file does not say.
    """
    attributes: dict[str, Attribute] = {
        "input_sha256": input_sha256,
        "window_length": window_length,
        "task": task,
    }
    return attributes if downstream is None else {**attributes, "downstream": downstream}


def genomic_interval(
    window_start: NDArray[np.int64],
    window_end: NDArray[np.int64],
    start: int,
    end: int,
    strand: str,
    window_length: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Chromosome coordinates (0-based, half-open) of window intervals, clipped to the gene's window.

    A promoter shorter than the window lies at its right (3') end, so the window's right edge is the promoter's:
    `end` on the + strand, `start` on the − strand. Position p is base `end - window_length + p` on the + strand
    and `start + window_length - 1 - p` on the − strand.

    >>> genomic_interval(np.array([2]), np.array([4]), 100, 110, "+", 10)
    (array([102]), array([104]))
    >>> genomic_interval(np.array([2]), np.array([4]), 100, 110, "-", 10)
    (array([106]), array([108]))
    """
    if strand == "+":
        first, last = end - window_length + window_start, end - window_length + window_end
    else:
        first, last = start + window_length - window_end, start + window_length - window_start
    return np.clip(first, start, end), np.clip(last, start, end)
