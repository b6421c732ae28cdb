"""Reading files of results: `with open_attention(path) as attention: attention.weights("promoter.cross.0")`."""

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
from bioattn.store import schema
from bioattn.store.choices import Reduction
from bioattn.store.stored import (
    has_key_index,
    main_array,
    read_list,
    read_samples,
    require_format,
    stored_columns,
    stored_group,
    stored_inputs,
)
from bioattn.store.windows import genomic_interval

Choice = str | Sequence[str] | slice | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteInfo:
    """One attention site of a file."""

    name: str
    layout: schema.GroupLayout
    dims: tuple[str, ...]
    """Axes of the weights, `sample` first; where each sample has its own array, those of one."""
    shape: tuple[int, ...]
    """Where each sample has its own array, that of the first; empty where there is none."""
    dtype: np.dtype[Any]
    heads: tuple[int, ...]
    """Head numbers of the model along the head axis, or those reduced over."""
    reduce: Reduction

    def kind(self, dim: str) -> str:
        """What the places of an axis are, such as `position`, `residue` or `msa_row`. Raises: KeyError."""
        return self.layout.axis(dim).kind

    @property
    def has_two_kinds(self) -> bool:
        """Whether queries and keys are not places of one kind, as where a decoder looks at its source."""
        keys = self.layout.axis(schema.KEY).kind
        return schema.QUERY in self.dims and self.kind(schema.QUERY) != keys

    @property
    def per_sample(self) -> bool:
        """Whether each sample has its own array."""
        return self.layout.per_sample

    @property
    def treatments(self) -> list[str] | None:
        """Names along the treatment axis; None without one."""
        names = self.layout.axis("treatment").coordinates if "treatment" in self.dims else None
        return None if names is None else [str(name) for name in names]

    @property
    def key_edges(self) -> NDArray[np.int64] | None:
        """K + 1 bin edges in bases from the window's first base, 5'→3'; None when keys are not positions, or only
        the largest weights of each query were kept."""
        return self._edges(schema.KEY)

    @property
    def query_edges(self) -> NDArray[np.int64] | None:
        """Q + 1 bin edges of the queries; None when queries are not positions."""
        return self._edges(schema.QUERY)

    @property
    def receptive_field(self) -> int | None:
        """Bases one key sees, centred on its bin; None when keys are not positions."""
        field = self.layout.attributes.get("receptive_field")
        return None if field is None else int(field)  # type: ignore[arg-type]

    @property
    def null_key(self) -> bool:
        """Whether rows sum to at most 1; what is missing went to a key that stands for "nowhere"."""
        return bool(self.layout.attributes.get("sink", False))

    @property
    def phases(self) -> int:
        """Shifted windows whose weights were averaged into finer bins."""
        return int(self.layout.attributes.get("phases", 1))  # type: ignore[arg-type]

    @property
    def has_value_weighted(self) -> bool:
        """Whether the weights times the norm of the value vector are there, too."""
        return any(array.name == schema.VALUE_WEIGHTED for array in self.layout.arrays)

    @property
    def has_contributions(self) -> bool:
        """Whether what each key adds to the prediction is there, too."""
        return any(array.name == schema.CONTRIBUTIONS for array in self.layout.arrays)

    @property
    def intercept(self) -> NDArray[np.float64]:
        """By treatment, what contributions are added to; empty where there are none."""
        return np.array(self.layout.attributes.get("intercept", ()), dtype=np.float64)

    def _edges(self, dim: str) -> NDArray[np.int64] | None:
        edges = self.layout.axis(dim).edges if dim in self.dims else None
        return None if edges is None else np.array(edges, dtype=np.int64)


class ResultFile:
    """An open file of results; the base of what `open_attention` and `open_attribution` give."""

    def __init__(self, path: Path, file: h5py.File, format_name: str) -> None:
        """Raises: FormatError when it is of another format, a newer major version, or damaged."""
        require_format(path, file, format_name)
        self.path = path
        self._file = file
        with damage_named(path):
            self.inputs = stored_inputs(file)
            """What the samples are, such as `promoters` or `alignments`."""
            self.model_sha256 = text_attribute(file, "model_sha256") or ""
            self.input_sha256 = text_attribute(file, "input_sha256") or ""
            self.task = text_attribute(file, "task") or ""
            self.window_length = int(file.attrs.get("window_length", 0))
            """Positions of the window of promoters; 0 for other inputs."""
            self.downstream = int(file.attrs["downstream"]) if "downstream" in file.attrs else None
            """Positions of the window from position 0 of each gene on; None when the file does not say."""

    @cached_property
    def samples(self) -> pd.DataFrame:
        """The sample table by name, in file order.

        Of promoters chrom, start, end (0-based, half-open; -1 unknown) and strand; of alignments length (match
        columns that the model saw), alignment_columns (all of them), rows, extra_rows, query and input_sha256.
        """
        columns = dict(self._table.columns)
        index = pd.Index(columns.pop("id"), name="id")
        return pd.DataFrame(columns, index=index)

    @cached_property
    def _table(self) -> schema.Samples:
        with damage_named(self.path):
            return read_samples(self._file, stored_columns(self._file)[0])

    def sample_list(self, name: str, sample: str) -> NDArray[Any] | list[str] | None:
        """A list of one sample; None where it has none.

        Raises: BioattnError when the file does not hold the sample, or no such lists.
        """
        with damage_named(self.path):
            _, lists = stored_columns(self._file)
            listed = next((each for each in lists if each.name == name), None)
            if listed is None:
                raise BioattnError(
                    f"{self.path}: holds {self.inputs}, which have no {name.replace('_', ' ')}"
                )
            return read_list(self._file, listed, self._number_of(sample))

    def predictions(self) -> pd.DataFrame:
        """The model's predictions, genes × treatments (response units, or probabilities of a binary model).

        Raises: BioattnError for a file without any, FormatError for a damaged one.
        """
        if schema.PREDICTIONS not in self._file:
            raise BioattnError(f"{self.path}: holds no predictions")
        with damage_named(self.path):
            group = self._file[schema.PREDICTIONS]
            return pd.DataFrame(
                group["values"][:],
                index=pd.Index(strings(group[schema.SAMPLE]), name="gene_id"),
                columns=strings(group["treatment"]),
            )

    @cached_property
    def treatments(self) -> list[str]:
        """All treatments asked for, in the order of every treatment axis; empty without one."""
        if schema.PREDICTIONS not in self._file:
            return []
        with damage_named(self.path):
            return strings(self._file[f"{schema.PREDICTIONS}/treatment"])

    def _genes(self, gene: Choice) -> int | list[int] | slice:
        return choice(gene, self._numbers, f"{self.path}: gene")

    def _treatments(self, treatment: str | Sequence[str] | None) -> int | list[int] | slice:
        numbers = {name: number for number, name in enumerate(self.treatments)}
        return choice(treatment, numbers, f"{self.path}: treatment")

    def _number_of(self, sample: str) -> int:
        if sample not in self._numbers:
            raise BioattnError(f"{self.path}: sample {sample!r} is not in the file")
        return self._numbers[sample]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self._table.ids)}


class AttentionFile(ResultFile):
    """An open attention file; made by `open_attention`, usable inside its `with` only."""

    def __init__(self, path: Path, file: h5py.File) -> None:
        super().__init__(path, file, schema.FORMAT)

    @property
    def over_alignments(self) -> bool:
        """Whether the samples are alignments."""
        return self.inputs == "alignments"

    @property
    def over_promoters(self) -> bool:
        """Whether the samples are promoters, all of one length."""
        return self.inputs == "promoters"

    @cached_property
    def sites(self) -> dict[str, SiteInfo]:
        with damage_named(self.path):
            return {name: self._site_info(name) for name in self._file[schema.SITES]}

    def weights(
        self,
        site: str,
        *,
        gene: Choice = None,
        sample: str | None = None,
        treatment: str | Sequence[str] | None = None,
        head: int | None = None,
        value_weighted: bool = False,
    ) -> NDArray[np.floating]:
        """The weights of a site, axes as `sites[site].dims`; only what is asked for is read.

        gene, treatment: one name (its axis is dropped), several (in that order), or None for all; gene can also
        be a slice of sample numbers. Of ragged axes that several samples share, the places behind a sample's end
        are 0. sample: one name; its weights have the sample's own lengths. Where each sample has its own array one
        must be named. head: one of `sites[site].heads`.

        Raises: BioattnError for a site, gene, treatment or head that the file does not hold; FormatError when
        the data are damaged.
        """
        info = self._info(site)
        if value_weighted and not info.has_value_weighted:
            raise BioattnError(
                f"{self.path}: site {site} has no value-weighted attention; export with --value-weighted"
            )
        return self._read(
            info, schema.VALUE_WEIGHTED if value_weighted else schema.WEIGHTS, gene, sample, treatment, head
        )

    def contributions(
        self,
        site: str,
        *,
        gene: Choice = None,
        treatment: str | Sequence[str] | None = None,
        head: int | None = None,
    ) -> NDArray[np.floating]:
        """What each key adds to the prediction, with its sign; axes, choices and errors as `weights`.

        In the units of the predictions (log-odds of a binary model). Over heads and keys they add up, with
        `sites[site].intercept`, to the prediction.
        """
        info = self._info(site)
        if not info.has_contributions:
            raise BioattnError(
                f"{self.path}: site {site} has no contributions; train with --readout shared, and export without "
                "--reduce"
            )
        return self._read(info, schema.CONTRIBUTIONS, gene, None, treatment, head)

    def atom_contributions(self, sample: str) -> tuple[list[str], NDArray[np.float32]]:
        """Of a molecule: the tasks, and what each atom at each radius contributes to each, (task, radius, atom).

        Raises: BioattnError when the file holds no molecules, or not this one; FormatError for a damaged one.
        """
        if schema.ATOM_CONTRIBUTIONS not in self._file:
            raise BioattnError(f"{self.path}: holds {self.inputs}; a file over molecules is needed")
        number = self._number_of(sample)
        with damage_named(self.path):
            group = self._file[schema.ATOM_CONTRIBUTIONS]
            values = group["values"][number]
            return strings(group["task"]), values[..., : int(self._file["samples/atoms"][number])]

    def key_index(self, site: str, *, sample: str, head: int | None = None) -> NDArray[np.int32]:
        """Of which key (0-based) each of the weights of a site reduced with `top-k` is; the same shape.

        Raises: BioattnError for a sample, head or site that the file does not hold, or a site that is not reduced
        so; FormatError when the data are damaged.
        """
        info = self._info(site)
        if not has_key_index(info.layout):
            raise BioattnError(
                f"{self.path}: site {site} holds all keys, in order; it was not reduced with top-k"
            )
        return self._read(info, schema.KEY_INDEX, None, sample, None, head)

    def columns(self, sample: str) -> NDArray[np.int64]:
        """(R,) which match columns of its alignment the residues of a sample are, from 0.

        Raises: BioattnError when the file does not hold the sample, or no alignments.
        """
        return np.asarray(self.sample_list("columns", sample), dtype=np.int64)

    def row_names(self, sample: str, *, extra: bool = False) -> list[str] | None:
        """Names of the rows that the model saw of a sample, in its order; None where they are not known.

        extra: those of the extra MSA ("" stands for no row). Raises: BioattnError when the file does not hold the
        sample, or no alignments.
        """
        names = self.sample_list("extra_row_names" if extra else "row_names", sample)
        return None if names is None else [str(name) for name in names]

    def coordinates(self, site: str, dim: str, sample: str | None = None) -> NDArray[Any] | list[str]:
        """What the places along an axis are called: names, head numbers, middles of bins, match columns, or
        numbers.

        sample: whose, where each has its own array. Raises: BioattnError for what the file does not hold.
        """
        info = self._info(site)
        where = f"{schema.SITES}/{site}" + (
            f"/{schema.sample_group(self._own(info, sample))}" if info.per_sample else ""
        )
        if not isinstance(self._file.get(f"{where}/{dim}"), h5py.Dataset):
            raise BioattnError(f"{self.path}: site {site} has no axis {dim!r}")
        with damage_named(self.path):
            scale = self._file[f"{where}/{dim}"]
            return strings(scale) if h5py.check_string_dtype(scale.dtype) is not None else scale[:]

    def names(self, site: str, dim: str, sample: str) -> list[str]:
        """What stands at the places of an axis in one sample: the text list of its kind, else numbers from 0.

        Raises: BioattnError for what the file does not hold.
        """
        axis = self._info(site).layout.axis(dim)
        with damage_named(self.path):
            _, lists = stored_columns(self._file)
        for each in lists:
            if each.kind == axis.kind and each.dtype == "text":
                found = self.sample_list(each.name, sample)
                if found is not None:
                    return [str(name) for name in found]
        return [str(name) for name in self.coordinates(site, dim, sample)]

    def key_bins(self, site: str, gene: str) -> pd.DataFrame:
        """Where the keys of a site lie for one gene: window and chromosome coordinates, one row per key.

        Columns window_start, window_end (bases from the window's first base, 5'→3') and, for a gene whose place
        is known, chrom, start, end (0-based, half-open, clipped to the gene's window; start = end for a bin of
        padding alone) and strand.

        Raises: BioattnError when the keys are not positions or the gene is not in the file.
        """
        info = self._info(site)
        edges = info.key_edges
        if edges is None:
            raise BioattnError(f"{self.path}: the keys of site {site} are not positions")
        if gene not in self._numbers:
            raise BioattnError(f"{self.path}: gene {gene!r} is not in the file")
        table = pd.DataFrame({"window_start": edges[:-1], "window_end": edges[1:]})
        place: Any = self.samples.iloc[self._numbers[gene]]
        if place["strand"] not in ("+", "-"):
            return table
        first, last = genomic_interval(
            edges[:-1], edges[1:], int(place["start"]), int(place["end"]), place["strand"], self.window_length
        )
        return table.assign(chrom=place["chrom"], start=first, end=last, strand=place["strand"])

    def _read(
        self,
        info: SiteInfo,
        name: str,
        gene: Choice,
        sample: str | None,
        treatment: str | Sequence[str] | None,
        head: int | None,
    ) -> NDArray[Any]:
        dims = info.dims[1:] if not info.per_sample else info.dims
        selection: list[Any] = [slice(None)] * len(dims)
        if treatment is not None:
            if info.treatments is None:
                raise BioattnError(f"{self.path}: site {info.name} does not tell treatments apart")
            numbers = {each: number for number, each in enumerate(info.treatments)}
            selection[dims.index("treatment")] = choice(treatment, numbers, f"{self.path}: treatment")
        if head is not None:
            if schema.HEAD not in dims or head not in info.heads:
                raise BioattnError(f"{self.path}: site {info.name} holds no head {head}")
            selection[dims.index(schema.HEAD)] = info.heads.index(head)
        where = f"{schema.SITES}/{info.name}"
        if info.per_sample:
            if gene is not None and not isinstance(gene, str):
                raise BioattnError(
                    f"{self.path}: holds {self.inputs}, whose arrays differ; ask for one sample"
                )
            where += f"/{schema.sample_group(self._own(info, sample or gene))}"
        elif sample is not None:
            selection = [self._number_of(sample), *self._trimmed(info, name, sample, selection)]
        else:
            selection = [self._genes(gene), *selection]
        with damage_named(self.path):
            return read_selection(self._file[f"{where}/{name}"], selection)

    def _trimmed(self, info: SiteInfo, name: str, sample: str, selection: list[Any]) -> list[Any]:
        """The selection without what lies behind the sample's ends."""
        if not info.layout.ragged:
            return selection
        lengths = self._table.lengths(self._number_of(sample))
        array = next(each for each in info.layout.arrays if each.name == name)
        own = info.layout.shape(array, lengths)
        return [
            slice(size) if each == slice(None) else each for each, size in zip(selection, own, strict=True)
        ]

    def _own(self, info: SiteInfo, sample: str | None) -> int:
        if sample is None:
            raise BioattnError(f"{self.path}: every sample has its own shape; say which sample is wanted")
        return self._number_of(sample)

    def _info(self, site: str) -> SiteInfo:
        if site not in self.sites:
            raise BioattnError(f"{self.path}: no site {site!r}; it holds {', '.join(self.sites) or 'none'}")
        return self.sites[site]

    def _site_info(self, name: str) -> SiteInfo:
        layout = stored_group(self._file, f"{schema.SITES}/{name}")
        array = main_array(layout)
        where = f"{layout.path}/{schema.sample_group(0)}" if layout.per_sample else layout.path
        heads = layout.attributes["heads"]
        assert isinstance(heads, tuple)
        dims = array.dims if array is not None else self._dims_without_samples(layout)
        return SiteInfo(
            name=name,
            layout=layout,
            dims=dims if layout.per_sample else (schema.SAMPLE, *dims),
            shape=() if array is None else tuple(self._file[f"{where}/{array.name}"].shape),
            dtype=np.dtype(np.float32 if array is None else array.dtype),
            heads=tuple(int(head) for head in heads),
            reduce=Reduction(str(layout.attributes.get("reduce"))),
        )

    @staticmethod
    def _dims_without_samples(layout: schema.GroupLayout) -> tuple[str, ...]:
        names = [axis.name for axis in layout.axes]
        return tuple(name for name in names if name != schema.KEY or schema.RANK not in names)


@contextmanager
def open_attention(path: Path | str) -> Iterator[AttentionFile]:
    """Open an attention file of format 1.x or 2.x for reading.

    Raises: BioattnError when it cannot be opened; FormatError when it is no attention file, of a newer major
    version, damaged, or not self-contained.
    """
    path = Path(path)
    with open_hdf5(path) as file:
        yield AttentionFile(path, file)


def choice(
    wanted: str | Sequence[str] | slice | None, numbers: dict[str, int], what: str
) -> int | list[int] | slice:
    """The numbers of the names asked for: one number for one name, all for None, a slice as it is.

    what: the beginning of the sentence about a name that is not there. Raises: BioattnError.
    """
    if wanted is None:
        return slice(None)
    if isinstance(wanted, slice):
        return wanted
    for name in [wanted] if isinstance(wanted, str) else wanted:
        if name not in numbers:
            raise BioattnError(f"{what} {name!r} is not in the file")
    return numbers[wanted] if isinstance(wanted, str) else [numbers[name] for name in wanted]


def read_selection(dataset: h5py.Dataset, selection: list[Any]) -> NDArray[Any]:
    """Index with any number of lists, in any order; HDF5 takes one at a time, sorted."""
    lists = [axis for axis, choice in enumerate(selection) if isinstance(choice, list)]
    if not lists:
        return np.asarray(dataset[tuple(selection)])
    axis = lists[0]
    dropped = sum(1 for choice in selection[:axis] if isinstance(choice, int))
    pieces = [
        read_selection(dataset, [*selection[:axis], number, *selection[axis + 1 :]])
        for number in selection[axis]
    ]
    if pieces:
        return np.stack(pieces, axis=axis - dropped)
    return np.asarray(dataset[(*selection[:axis], slice(0, 0), *selection[axis + 1 :])])
