"""The positions of an attention file's promoters on chromosomes, cut down to what the model saw."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.errors import BioattnError
from bioattn.interpret.tracks.layout import Windows, place_windows
from bioattn.store.reader import AttentionFile
from bioattn.text import first_names


@dataclass(frozen=True, slots=True, kw_only=True)
class ChromosomeLengths:
    """Bases by chromosome, and the file they come from."""

    lengths: Mapping[str, int]
    source: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class PromoterPlaces:
    """The promoters with a place, arrays of shape (n,) in file order."""

    samples: NDArray[np.int64]
    """Sample numbers in the attention file, ascending."""
    gene_ids: NDArray[np.object_]
    chroms: NDArray[np.object_]
    reverse: NDArray[np.bool_]
    """Whether the promoter is one of the − strand."""
    windows: Mapping[tuple[str, str], Windows]
    """The same promoters by chromosome and strand."""
    starts: NDArray[np.int64]
    """First base on the chromosome, 0-based."""
    ends: NDArray[np.int64]
    """Base after the last."""
    origins: NDArray[np.int64]
    """Where the model's whole window starts on the chromosome, which may lie before the chromosome."""
    lengths: dict[str, int]
    """Of the chromosomes; up to the last base of a window where they are not known."""
    without_place: int
    """Promoters asked for that have none."""


def place_promoters(
    attention: AttentionFile,
    genes: Sequence[str] | None = None,
    *,
    downstream: int = 0,
    chromosomes: ChromosomeLengths | None = None,
) -> PromoterPlaces:
    """Find the promoters of an attention file on their chromosomes; those without a location are counted only.

    genes: ids to take, None = all. downstream: bases of every window from position 0 on.

    Raises: BioattnError when no promoter has a location, or the chromosomes given lack one or end before a window.
    """
    samples = attention.samples
    requested = (
        np.arange(len(samples)) if genes is None else np.sort(samples.index.get_indexer(pd.Index(genes)))
    )
    chroms = samples["chrom"].to_numpy(dtype=object)
    strands = samples["strand"].to_numpy(dtype=object)
    placed = requested[(chroms[requested] != "") & np.isin(strands[requested].astype(str), ("+", "-"))]
    if not placed.size:
        raise BioattnError(
            f"{attention.path}: no promoter asked for has a place on a chromosome, which tracks need; make the "
            "FASTA with `bioattn prepare promoters`, or write chrom:start-end(strand) behind its ids"
        )
    windows: dict[tuple[str, str], Windows] = {}
    lengths = {} if chromosomes is None else dict(chromosomes.lengths)
    all_starts = samples["start"].to_numpy(dtype=np.int64)
    all_ends = samples["end"].to_numpy(dtype=np.int64)
    for chrom in sorted({str(name) for name in chroms[placed]}):
        if chromosomes is not None and chrom not in lengths:
            raise BioattnError(
                f"{chromosomes.source}: has no chromosome {chrom!r}, on which promoters of {attention.path} lie; "
                f"it has {first_names(list(lengths))}"
            )
        for strand in ("+", "-"):
            here = placed[(chroms[placed] == chrom) & (strands[placed] == strand)]
            if not here.size:
                continue
            windows[chrom, strand] = place_windows(
                chrom,
                strand,
                here,
                all_starts[here],
                all_ends[here],
                window_length=attention.window_length,
                downstream=downstream,
                chromosome_length=lengths.get(chrom) if chromosomes is not None else None,
            )
    if chromosomes is None:
        for (chrom, _), some in windows.items():
            lengths[chrom] = max(lengths.get(chrom, 0), int(some.ends.max()))
    every = Windows(*(np.concatenate(fields) for fields in zip(*windows.values(), strict=True)))
    order = np.argsort(every.samples)
    every = Windows(*(field[order] for field in every))
    return PromoterPlaces(
        samples=every.samples,
        gene_ids=samples.index.to_numpy(dtype=object)[every.samples],
        chroms=chroms[every.samples],
        reverse=strands[every.samples] == "-",
        windows=windows,
        starts=every.starts,
        ends=every.ends,
        origins=every.origins,
        lengths=lengths,
        without_place=len(requested) - len(placed),
    )
