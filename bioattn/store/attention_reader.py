"""Reading attention files: `with open_attention(path) as attention: attention.weights("promoter.cross.0")`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.errors import BioattnError
from bioattn.io.hdf5_input import damage_named, open_hdf5, strings, text_attribute
from bioattn.store.alignment_attention_reader import (
    alignment_samples,
    array_of,
    first_array,
    is_over_alignments,
    read_head,
    row_names,
    seen_columns,
)
from bioattn.store.alignment_schema import KEY_INDEX, AlignmentReduction
from bioattn.store.choices import Reduction
from bioattn.store.result_file import ResultFile, require_format
from bioattn.store.schema import (
    FORMAT,
    FORMAT_VERSION,
    KEY_EDGES,
    PREDICTIONS,
    QUERY_EDGES,
    VALUE_WEIGHTED,
    WEIGHTS,
)
from bioattn.store.selection import choice, read_selection
from bioattn.store.window_coordinates import genomic_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteInfo:
    """One attention site of a file."""

    name: str
    dims: tuple[str, ...]
    """Axes of the weights, `sample` first; in files over alignments those of one sample."""
    shape: tuple[int, ...]
    """In files over alignments of the first sample: the others have their own."""
    dtype: np.dtype[Any]
    treatments: list[str] | None
    """Names along the treatment axis; None without one."""
    heads: tuple[int, ...]
    """Head numbers of the model along the head axis, or those reduced over."""
    reduce: Reduction | AlignmentReduction
    key_edges: NDArray[np.int64] | None
    """K + 1 bin edges in bases from the window's first base, 5'→3'; None when keys are not positions."""
    query_edges: NDArray[np.int64] | None
    receptive_field: int | None
    sink: bool
    """Rows sum to at most 1; what is missing went to a key that stands for "nowhere"."""
    has_value_weighted: bool
    keys: str | None = None
    """In files over alignments: whether keys and queries are the `residue`s or the `row`s."""
    phases: int = 1
    """Shifted windows whose weights were averaged into finer bins."""


class AttentionFile(ResultFile):
    """An open attention file; made by `open_attention`, usable inside its `with` only."""

    def __init__(self, path: Path, file: h5py.File) -> None:
        require_attention(path, file)
        self.over_alignments = is_over_alignments(file)
        """Whether the samples are alignments and not promoters."""
        super().__init__(path, file, over_promoters=not self.over_alignments)

    @cached_property
    def samples(self) -> pd.DataFrame:
        """Chrom, start, end (0-based, half-open; -1 unknown) and strand by gene id, in file order.

        Of alignments: length (match columns that the model saw), alignment_columns (all of them), rows,
        extra_rows, query and input_sha256.
        """
        if not self.over_alignments:
            return super().samples
        with damage_named(self.path):
            return alignment_samples(self._file)

    @cached_property
    def sites(self) -> dict[str, SiteInfo]:
        """The sites by name."""
        with damage_named(self.path):
            return {name: _site_info(name, group) for name, group in self._file["sites"].items()}

    @cached_property
    def treatments(self) -> list[str]:
        """All treatments asked for, in the order of every treatment axis; alignments have none."""
        if PREDICTIONS not in self._file:
            return []
        with damage_named(self.path):
            return strings(self._file[f"{PREDICTIONS}/treatment"])

    def weights(
        self,
        site: str,
        *,
        gene: str | Sequence[str] | slice | None = None,
        sample: str | None = None,
        treatment: str | Sequence[str] | None = None,
        head: int | None = None,
        value_weighted: bool = False,
    ) -> NDArray[np.floating]:
        """The weights of a site, axes as `sites[site].dims`; only what is asked for is read.

        gene, treatment: one name (its axis is dropped), several (in that order), or None for all; gene can also
        be a slice of sample numbers. sample: like one gene; files over alignments need it, as each alignment has
        its own shape. head: one of `sites[site].heads`.

        Raises: BioattnError for a site, gene, treatment or head that the file does not hold; FormatError when
        the data are damaged.
        """
        info = self._info(site)
        if self.over_alignments:
            if gene is not None or treatment is not None or value_weighted:
                raise BioattnError(
                    f"{self.path}: holds alignments; they are chosen with sample and head only"
                )
            return self._array(info, WEIGHTS, sample, head)
        if sample is not None:
            gene = sample
        if value_weighted and not info.has_value_weighted:
            raise BioattnError(
                f"{self.path}: site {site} has no value-weighted attention; export with --value-weighted"
            )
        selection: list[Any] = [slice(None)] * len(info.dims)
        selection[0] = choice(gene, self._gene_numbers, f"{self.path}: gene")
        if treatment is not None:
            if info.treatments is None:
                raise BioattnError(f"{self.path}: site {site} does not tell treatments apart")
            numbers = {name: number for number, name in enumerate(info.treatments)}
            selection[info.dims.index("treatment")] = choice(treatment, numbers, f"{self.path}: treatment")
        if head is not None:
            if "head" not in info.dims or head not in info.heads:
                raise BioattnError(f"{self.path}: site {site} holds no head {head}")
            selection[info.dims.index("head")] = info.heads.index(head)
        dataset = self._file[f"sites/{site}/{VALUE_WEIGHTED if value_weighted else WEIGHTS}"]
        with damage_named(self.path):
            return read_selection(dataset, selection)

    def columns(self, sample: str) -> NDArray[np.int64]:
        """(R,) which match columns of its alignment the residues of a sample are, from 0.

        Raises: BioattnError when the file does not hold the sample, or no alignments.
        """
        if not self.over_alignments:
            raise BioattnError(f"{self.path}: holds promoters, which have no columns")
        with damage_named(self.path):
            return seen_columns(self._file, self._number_of(sample))

    def row_names(self, sample: str, *, extra: bool = False) -> list[str] | None:
        """Names of the rows that the model saw of a sample, in its order; None where they are not known.

        extra: those of the extra MSA ("" stands for no row). Raises: BioattnError when the file does not hold the
        sample, or no alignments.
        """
        if not self.over_alignments:
            raise BioattnError(f"{self.path}: holds promoters, which have no rows")
        with damage_named(self.path):
            names = row_names(self._file, self._number_of(sample), extra=extra)
        return None if names is None else list(names)

    def key_index(self, site: str, *, sample: str, head: int | None = None) -> NDArray[np.int32]:
        """Of which key (0-based) each of the weights of a site reduced with `top-k` is; the same shape.

        Raises: BioattnError for a sample, head or site that the file does not hold, or a site that is not reduced
        so; FormatError when the data are damaged.
        """
        info = self._info(site)
        if info.reduce != AlignmentReduction.TOP_K:
            raise BioattnError(
                f"{self.path}: site {site} holds all keys, in order; it was not reduced with top-k"
            )
        return self._array(info, KEY_INDEX, sample, head)

    def _array(self, info: SiteInfo, quantity: str, sample: str | None, head: int | None) -> NDArray[Any]:
        """One array of one alignment."""
        if sample is None:
            raise BioattnError(f"{self.path}: every alignment has its own shape; say which sample is wanted")
        number = self._number_of(sample)
        if head is not None and ("head" not in info.dims or head not in info.heads):
            raise BioattnError(f"{self.path}: site {info.name} holds no head {head}")
        with damage_named(self.path):
            dataset = array_of(self._file[f"sites/{info.name}"], number, quantity)
            return read_head(dataset, info.dims, None if head is None else info.heads.index(head))

    def _number_of(self, sample: str) -> int:
        if sample not in self._gene_numbers:
            raise BioattnError(f"{self.path}: sample {sample!r} is not in the file")
        return self._gene_numbers[sample]

    def predictions(self) -> pd.DataFrame:
        """The model's predictions, genes × treatments (response units, or probabilities of a binary model).

        Raises: BioattnError for a file without any, FormatError for a damaged one.
        """
        if PREDICTIONS not in self._file:
            raise BioattnError(f"{self.path}: holds no predictions")
        return super().predictions()

    def key_bins(self, site: str, gene: str) -> pd.DataFrame:
        """Where the keys of a site lie for one gene: window and chromosome coordinates, one row per key.

        Columns window_start, window_end (bases from the window's first base, 5'→3') and, for a gene whose place
        is known, chrom, start, end (0-based, half-open, clipped to the gene's window; start = end for a bin of
        padding alone) and strand.

        Raises: BioattnError when the keys are not positions or the gene is not in the file.
        """
        info = self._info(site)
        if info.key_edges is None:
            raise BioattnError(f"{self.path}: the keys of site {site} are not positions")
        if gene not in self._gene_numbers:
            raise BioattnError(f"{self.path}: gene {gene!r} is not in the file")
        table = pd.DataFrame({"window_start": info.key_edges[:-1], "window_end": info.key_edges[1:]})
        number = self._gene_numbers[gene]
        chrom, strand = str(self.samples["chrom"].iloc[number]), str(self.samples["strand"].iloc[number])
        start, end = int(self.samples["start"].iloc[number]), int(self.samples["end"].iloc[number])
        if strand not in ("+", "-"):
            return table
        first, last = genomic_interval(
            info.key_edges[:-1], info.key_edges[1:], start, end, strand, self.window_length
        )
        return table.assign(chrom=chrom, start=first, end=last, strand=strand)

    def _info(self, site: str) -> SiteInfo:
        if site not in self.sites:
            raise BioattnError(f"{self.path}: no site {site!r}; it holds {', '.join(self.sites) or 'none'}")
        return self.sites[site]


@contextmanager
def open_attention(path: Path | str) -> Iterator[AttentionFile]:
    """Open an attention file for reading.

    Raises: BioattnError when it cannot be opened; FormatError when it is no attention file, of a newer major
    version, damaged, or not self-contained.
    """
    path = Path(path)
    with open_hdf5(path) as file:
        yield AttentionFile(path, file)


def require_attention(path: Path, file: h5py.File) -> None:
    """Raises: FormatError when the file is not attention or its major version is newer than this reader's."""
    require_format(path, file, "attention", FORMAT, FORMAT_VERSION)


def _site_info(name: str, group: h5py.Group) -> SiteInfo:
    reduce = text_attribute(group, "reduce") or ""
    ragged = WEIGHTS not in group
    weights = first_array(group) if ragged else group[WEIGHTS]
    receptive_field = group.attrs.get("receptive_field")
    return SiteInfo(
        name=name,
        dims=tuple(str(dim.label) for dim in weights.dims),
        shape=weights.shape,
        dtype=weights.dtype,
        treatments=strings(group["treatment"]) if "treatment" in group else None,
        heads=tuple(int(head) for head in group.attrs["heads"]),
        reduce=AlignmentReduction(reduce) if ragged else Reduction(reduce),
        key_edges=group[KEY_EDGES][:].astype(np.int64) if KEY_EDGES in group else None,
        query_edges=group[QUERY_EDGES][:].astype(np.int64) if QUERY_EDGES in group else None,
        receptive_field=None if receptive_field is None else int(receptive_field),
        sink=bool(group.attrs.get("sink", 0)),
        has_value_weighted=VALUE_WEIGHTED in group,
        keys=text_attribute(group, "keys"),
        phases=int(group.attrs.get("phases", 1)),
    )
