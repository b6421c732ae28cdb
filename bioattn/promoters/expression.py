"""Expression as matrices: AnnData files, and raw counts, of which log2 ratios are made."""

import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import BioattnError, FormatError
from bioattn.promoters.genes import GeneNames
from bioattn.text import listed, quoted

if TYPE_CHECKING:
    from bioattn.promoters.responses import Responses

LOGGER = logging.getLogger("bioattn")


class Expression(NamedTuple):
    """A matrix of an AnnData file."""

    genes: list[str]
    samples: list[str]
    values: NDArray[np.float64]
    """(genes, samples), NaN = missing."""
    side: str
    """Where the genes are: var or obs."""


def read_expression(
    path: Path,
    layer: str | None = None,
    sample_column: str | None = None,
    gene_column: str | None = None,
    promoters: GeneNames | None = None,
) -> Expression:
    """Read a matrix of an AnnData file, X or a layer.

    Genes are in var, or in obs where that has more names of `promoters`: names of the index, or of the column that
    has most. sample_column: a column of the samples; those that share its value become one, the sum of raw counts
    or else the mean. gene_column: the column of gene ids.

    Raises: BioattnError when anndata is not installed, and for a layer or column that is not there; FormatError
    for an HDF5 file that is not AnnData.
    """
    try:
        import anndata
    except ImportError:
        raise BioattnError(
            f"{path}: AnnData files need anndata, which is not installed: pip install anndata"
        ) from None
    try:
        data = anndata.read_h5ad(path)
    except Exception as error:
        raise FormatError(f"{path}: is an HDF5 file, but not AnnData ({error})") from error
    if layer is not None and layer not in data.layers:
        raise BioattnError(
            f"{path}: --layer: there is no layer {layer!r}; it has {quoted(list(data.layers))}"
        )
    names = {"var": _gene_names(data.var, promoters), "obs": _gene_names(data.obs, promoters)}
    share = {side: 0.0 if promoters is None else promoters.share(ids) for side, ids in names.items()}
    side = "obs" if share["obs"] > share["var"] else "var"
    values = data.X if layer is None else data.layers[layer]
    if values is None:
        raise BioattnError(
            f"{path}: has no X; choose one of its layers with --layer: {quoted(list(data.layers))}"
        )
    genes, samples = (data.obs, data.var) if side == "obs" else (data.var, data.obs)
    matrix = values if side == "obs" else values.T
    if gene_column is not None:
        names[side] = _column(path, genes, gene_column, "--gene-column")
    labels = list(map(str, samples.index))
    if sample_column is not None:
        labels = _column(path, samples, sample_column, "--treatment-column")
    groups = list(dict.fromkeys(label for label in labels if label))
    chosen = [np.flatnonzero([label == group for label in labels]) for group in groups]
    if len(groups) < matrix.shape[1]:
        counts = is_counts(matrix.data if hasattr(matrix, "toarray") else matrix)
        mean = np.sum if counts else np.nanmean
        values = np.stack([mean(_dense(matrix[:, columns]), axis=1) for columns in chosen], axis=1)
    else:
        values = _dense(matrix)
    return Expression(names[side], groups, values, side)


def _dense(matrix: Any) -> NDArray[np.float64]:
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix, dtype=np.float64)


def _column(path: Path, table: Any, column: str, option: str) -> list[str]:
    if column not in table:
        raise BioattnError(
            f"{path}: {option}: there is no column {column!r}; it has {quoted(list(table), 20)}"
        )
    return ["" if value != value else str(value) for value in table[column]]


def _gene_names(table: Any, promoters: GeneNames | None) -> list[str]:
    """The index, or the column of text that has twice as many names of promoters."""
    best = list(map(str, table.index))
    if promoters is not None:
        for column in table.select_dtypes(["object", "category", "string"]):
            names = list(map(str, table[column]))
            if promoters.share(names) > 2 * promoters.share(best):
                best = names
    return best


LARGEST_RATIO = 100.0
"""No log2 ratio is as large as this."""
FEWEST_COUNTS = 10
"""A gene with fewer in all samples together has no ratio (the filter of DESeq2's vignette)."""
_REPLICATE = re.compile(r"(.+?)[._ -]?(rep(?:licate)?|r)?[._ -]?(\d+)", re.IGNORECASE)


def is_counts(values: NDArray[np.float64]) -> bool:
    """Whether a matrix of genes × samples is of raw counts: whole numbers, none below 0 and some large."""
    known = values[~np.isnan(values)]
    return bool(known.size) and bool(
        (known >= 0).all() and (known % 1 == 0).all() and known.max() >= LARGEST_RATIO
    )


def size_factors(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sequencing depth of the samples (samples,), by DESeq2's median of ratios (Anders and Huber 2010).

    counts: (genes, samples). The ratios are those to the geometric mean of a gene, of genes with a count in every
    sample; where there is none, to the mean over counts above 0 (`poscounts`).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(counts)
        everywhere = np.isfinite(logs).all(axis=1)
        if everywhere.any():
            means = logs[everywhere].mean(axis=1, keepdims=True)
            return np.asarray(np.exp(np.median(logs[everywhere] - means, axis=0)))
        logs[~np.isfinite(logs)] = np.nan
        means = np.nansum(logs, axis=1, keepdims=True) / counts.shape[1]
        factors = np.exp(np.nanmedian(logs - means, axis=0))
    return np.asarray(factors / np.exp(np.log(factors).mean()))


def log_counts(responses: "Responses") -> "Responses":
    """log2(count / size factor + 1) of raw counts; missing for genes with fewer than `FEWEST_COUNTS` in all."""
    counts = np.nan_to_num(responses.values)
    factors = size_factors(counts)
    sums = counts.sum(axis=0)
    LOGGER.info(
        "size factors: "
        + listed([f"{name} {size:.2f}" for name, size in zip(responses.treatments, factors, strict=True)], 20)
    )
    LOGGER.warning(
        f"log2 ratios are made of raw counts ({sums.min():,.0f} to {sums.max():,.0f} in a sample) by size factors "
        "alone; those of DESeq2 or edgeR, which weigh replicates and depth, are better"
    )
    values = np.where(
        counts.sum(axis=1, keepdims=True) < FEWEST_COUNTS, np.nan, np.log2(counts / factors + 1)
    )
    return replace(responses, values=values)


def without_replicate(names: Sequence[str]) -> list[str]:
    """Names of samples without the numbers of their replicates, which run from 1; others stay.

    >>> without_replicate(["ctrl_1", "ctrl_3", "heat.rep2", "mock", "cold_10", "cold_30"])
    ['ctrl', 'ctrl', 'heat', 'mock', 'cold_10', 'cold_30']
    """
    parts = [_REPLICATE.fullmatch(name) for name in names]
    numbers: dict[str, list[int]] = {}
    for part in filter(None, parts):
        numbers.setdefault(part[1], []).append(int(part[3]))
    return [
        part[1] if part and (part[2] or max(numbers[part[1]]) <= len(numbers[part[1]]) + 1) else name
        for name, part in zip(names, parts, strict=True)
    ]
