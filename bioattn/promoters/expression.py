"""Expression as matrices: AnnData files, and raw counts, of which log2 ratios are made."""

import logging
import re
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.errors import BioattnError, FormatError
from bioattn.promoters.genes import GeneNames
from bioattn.text import counted, listed, quoted

if TYPE_CHECKING:
    from bioattn.promoters.responses import Responses

LOGGER = logging.getLogger("bioattn")


def read_expression(
    path: Path,
    layer: str | None = None,
    sample_column: str | None = None,
    gene_column: str | None = None,
    promoters: GeneNames | None = None,
) -> pd.DataFrame:
    """Read a matrix of an AnnData file, X or a layer, as genes × samples, NaN = missing.

    Genes are in var, or in obs where that has more names of `promoters`: names of the index, or of the column that
    has most. sample_column: a column of the samples; those that share its value become one, the sum of raw counts
    or else the mean. gene_column: the column of gene ids.
    """
    try:
        import anndata
    except ImportError:
        raise BioattnError(
            f"{path}: AnnData files need anndata, which is not installed: pip install anndata"
        ) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of names that come again, which are averaged and told
            data = anndata.read_h5ad(path)
    except Exception as error:
        raise FormatError(f"{path}: is an HDF5 file, but not AnnData ({error})") from error
    matrix = data.X if layer is None else data.layers.get(layer)
    if matrix is None:
        raise BioattnError(
            f"{path}: has no {'X' if layer is None else f'layer {layer!r}'}; choose with --layer among "
            f"{quoted(list(data.layers))}"
        )
    tables: tuple[Any, Any] = (data.var, data.obs)
    sides = [(_gene_names(path, table, gene_column, promoters), table) for table in tables]
    in_var, in_obs = (0.0 if promoters is None else promoters.share(ids) for ids, _ in sides)
    (genes, _), (_, samples) = sides if in_var >= in_obs else sides[::-1]
    advice = (
        ""
        if sample_column or not len(samples.columns)
        else (f", each a treatment; --obs-column averages them by {quoted(list(samples.columns), 4)}")
    )
    side = "var" if in_var >= in_obs else "obs"
    LOGGER.info(f"{path}: AnnData, genes in {side}, {counted(len(samples), 'sample')}{advice}")
    matrix = matrix.T if in_var >= in_obs else matrix
    if sample_column is None:
        return pd.DataFrame(_dense(matrix), genes, list(map(str, samples.index)))
    labels = np.array(_column(path, samples, sample_column, "--treatment-column"))
    merged = np.sum if is_counts(np.asarray(getattr(matrix, "data", matrix))) else np.nanmean
    without = samples.index[labels == ""]
    if len(without):
        LOGGER.warning(
            f"{path}: {counted(len(without), 'sample')} without a value of {sample_column!r} left out: "
            f"{quoted(list(map(str, without)))}"
        )
    groups = [name for name in dict.fromkeys(labels.tolist()) if name]
    return pd.DataFrame(
        {name: merged(_dense(matrix[:, np.flatnonzero(labels == name)]), axis=1) for name in groups}, genes
    )


def _dense(matrix: Any) -> NDArray[np.float64]:
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix, dtype=np.float64)


def _column(path: Path, table: Any, column: str, option: str) -> list[str]:
    if column not in table:
        raise BioattnError(f"{path}: {option}: no column {column!r}; there are {quoted(list(table), 20)}")
    return [
        "" if pd.isna(value) else f"{value:g}" if isinstance(value, float) else str(value)
        for value in table[column]
    ]


def _gene_names(path: Path, table: Any, column: str | None, promoters: GeneNames | None) -> list[str]:
    """A column, or the index or the column of text that has twice as many names of promoters."""
    if column is not None and column in table:
        return _column(path, table, column, "--gene-column")
    best = list(map(str, table.index))
    for text in table.select_dtypes(["object", "category", "string"]) if promoters is not None else ():
        names = _column(path, table, text, "--gene-column")
        if promoters is not None and promoters.share(names) > 2 * promoters.share(best):
            best = names
    return best


def replicates_of(names: Sequence[str]) -> dict[str, list[str]]:
    """Names that look like replicates, by what they are of: NAME_rep1, NAME_rep2; or X_1, X_2, Y_1, Y_2 (doses and
    times have other numbers, and X_1, X_2, … alone may be different treatments).

    >>> replicates_of(["heat_rep1", "heat_rep2", "cold"]), replicates_of(["a1", "a2", "b1", "b2"])
    ({'heat': ['heat_rep1', 'heat_rep2']}, {'a': ['a1', 'a2'], 'b': ['b1', 'b2']})
    >>> replicates_of(["treatment1", "treatment2"]), replicates_of(["cold_10", "cold_30", "heat_10", "heat_30"])
    ({}, {})
    """
    groups: dict[str, list[str]] = {}
    for name, stem in zip(names, without_replicate(names), strict=True):
        groups.setdefault(stem, []).append(name)
    several = {stem: group for stem, group in groups.items() if len(group) > 1}
    said = {
        stem: group
        for stem, group in several.items()
        if all((part := _REPLICATE.fullmatch(name)) is not None and part[2] for name in group)
    }
    return several if len(several) > 1 else said


LARGEST_RATIO = 100.0
"""No log2 ratio is as large as this."""
FEWEST_COUNTS = 10
"""A gene with fewer in all samples together has no ratio (the filter of DESeq2's vignette)."""
_ALIGNMENT = re.compile(r"^.*/(?=.*am$)|(_?Aligned)?(\.sorted\w*)?(\.out)?\.[bs]am$")
_REPLICATE = re.compile(r"(.+?)[._ -]?(rep(?:licate)?|r)?[._ -]?(\d+)", re.IGNORECASE)


def is_counts(values: NDArray[np.float64]) -> bool:
    """Whether a matrix of genes × samples is of raw counts: whole numbers, none below 0 and some large."""
    return is_linear(values) and bool((values[~np.isnan(values)] % 1 == 0).all())


FEWEST_LEVELS = 4
"""Whole numbers from 0 of more kinds than classes or scores have are counts, if small ones."""


def are_small_counts(values: NDArray[np.float64]) -> bool:
    """Whether a matrix holds whole numbers from 0 of some range, none of them as large as `is_counts` needs."""
    known = values[~np.isnan(values)]
    whole = bool(known.size) and bool((known >= 0).all() and (known % 1 == 0).all())
    return whole and known.max() > FEWEST_LEVELS


def is_linear(values: NDArray[np.float64]) -> bool:
    """Whether a matrix is of counts or abundances (TPM), not of logarithms: none below 0 and some large."""
    known = values[~np.isnan(values)]
    return bool(known.size) and bool((known >= 0).all() and known.max() >= LARGEST_RATIO)


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
        f"log2 ratios are made of counts ({sums.min():,.0f} to {sums.max():,.0f} in a sample) by size factors "
        "alone; those of DESeq2 or edgeR, which weigh replicates and depth, are better"
    )
    values = np.where(
        counts.sum(axis=1, keepdims=True) < FEWEST_COUNTS, np.nan, np.log2(counts / factors + 1)
    )
    return replace(responses, values=values)


def without_replicate(names: Sequence[str]) -> list[str]:
    """Names of samples or BAM files without the numbers of their replicates, which run from 1; others stay.

    >>> without_replicate(["ctrl_1", "ctrl_3", "heat.rep2", "mock", "cold_10", "cold_30", "/a/b_1.sorted.bam"])
    ['ctrl', 'ctrl', 'heat', 'mock', 'cold_10', 'cold_30', 'b']
    """
    names = [_ALIGNMENT.sub("", name) for name in names]
    parts = [_REPLICATE.fullmatch(name) for name in names]
    numbers: dict[str, list[int]] = {}
    for part in filter(None, parts):
        numbers.setdefault(part[1], []).append(int(part[3]))
    return [
        part[1] if part and (part[2] or max(numbers[part[1]]) <= len(numbers[part[1]]) + 1) else name
        for name, part in zip(names, parts, strict=True)
    ]
