"""Results with labelled axes, in a file or in memory: `attention.weights("promoter.cross.0")`."""

import weakref
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from bioattn.attention.site import AttentionSite
from bioattn.choices import Reduction
from bioattn.errors import BioattnError
from bioattn.io.hdf5 import open_hdf5
from bioattn.store import schema
from bioattn.store.contents import Contents, LabelledArray, Stored

if TYPE_CHECKING:
    import pandas as pd
    import xarray

Choice = str | Sequence[str] | slice | None
Names = str | Sequence[str] | None
"""One name, whose axis is dropped; several, in that order; None for all."""
Site = TypeVar("Site", "SiteInfo", AttentionSite)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
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
    treatments: list[str] | None
    """Names along the treatment axis; None without one."""
    key_edges: NDArray[np.int64] | None
    """K + 1 bin edges in bases from the window's first base, 5'→3'; None when keys are not positions, or only the
    largest weights of each query were kept."""
    receptive_field: int | None
    """Bases one key sees, centred on its bin; None when keys are not positions."""
    null_key: bool
    """Whether rows sum to at most 1; what is missing went to a key that stands for "nowhere"."""
    phases: int
    """Shifted windows whose weights were averaged into finer bins."""
    has_value_weighted: bool
    """Whether the weights times the norm of the value vector are there, too."""
    has_contributions: bool
    """Whether what each key adds to the prediction is there, too."""
    intercept: NDArray[np.float64]
    """By treatment, what contributions are added to; empty where there are none."""

    def __repr__(self) -> str:
        return f"<site {self.name}: {', '.join(self.dims)}; {len(self.heads):,} heads>"

    def kind(self, dim: str) -> str:
        """What the places of an axis are, such as `position`, `residue` or `msa_row`. Raises: KeyError."""
        return self.layout.axis(dim).kind

    @property
    def has_two_kinds(self) -> bool:
        """Whether queries and keys are not places of one kind, as where a decoder looks at its source."""
        keys = self.layout.axis(schema.KEY).kind
        return schema.QUERY in self.dims and self.kind(schema.QUERY) != keys


class Sites(dict[str, Site]):
    """Attention sites by name, in the order of the model; shown as a table."""

    def __repr__(self) -> str:
        table = [["site", "axes of its weights", "heads"]]
        table += [[name, ", ".join(site.dims), f"{len(site.heads):,}"] for name, site in self.items()]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in table)


class Results:
    """Results of a model over samples, with named axes. They are in memory, or in a file that is open and is read
    when something is asked for. Usable with `with`, which closes the file."""

    def __init__(self, contents: Contents, close: ExitStack | None = None) -> None:
        self._contents = contents
        self.path = contents.path
        """Of their file; in memory a name for messages."""
        self.close = weakref.finalize(self, (close or ExitStack()).close)
        """Close the file. What was read of it stays."""
        layout = contents.layout
        self._groups = {group.path: group for group in layout.groups}
        said = layout.attributes
        self.inputs = layout.inputs
        """What the samples are, such as `promoters` or `alignments`."""
        self.model_sha256 = layout.model_sha256
        self.input_sha256 = str(said.get("input_sha256", ""))
        self.task = str(said.get("task", ""))
        self.verdict = str(said.get("verdict", ""))
        """Code of the verdict on the maps at the end of the model's training; empty where none is known."""
        self.window_length = int(said.get("window_length", 0))  # type: ignore[arg-type]
        """Positions of the window of promoters; 0 for other inputs."""
        downstream = said.get("downstream")
        self.downstream = None if downstream is None else int(downstream)  # type: ignore[arg-type]
        """Positions of the window from position 0 of each gene on; None when that is not known."""

    @classmethod
    def open(cls, path: Path | str) -> Self:
        """Open a file of such results.

        Raises: BioattnError when it cannot be opened; FormatError when it is of another format, damaged, or not
        self-contained.
        """
        with ExitStack() as stack:
            file = stack.enter_context(open_hdf5(Path(path)))
            return cls(Stored(Path(path), file, cls._format), stack.pop_all())

    _format: str

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.samples)} {self.inputs}: {self.path}>"

    def save(self, path: Path | str) -> None:
        """Write the results as HDF5 (docs/formats). Raises: BioattnError or OSError when that cannot be done."""
        self._contents.save(Path(path))

    def array(self, *args: Any, **choices: Any) -> LabelledArray:
        """The values with labelled axes."""
        raise NotImplementedError

    def to_xarray(self, *args: Any, **choices: Any) -> "xarray.DataArray":
        """The values as an xarray.DataArray. Arguments and errors: as `array`."""
        return self.array(*args, **choices).to_xarray()

    def to_pandas(self, *args: Any, **choices: Any) -> "pd.Series":
        """The values as a Series with an index level for each axis. Arguments and errors: as `array`."""
        return self.array(*args, **choices).to_pandas()

    @cached_property
    def samples(self) -> "pd.DataFrame":
        """The sample table by name, in order.

        Of promoters chrom, start, end (0-based, half-open; -1 unknown) and strand; of alignments length (match
        columns that the model saw), alignment_columns (all of them), rows, extra_rows, query and input_sha256.
        """
        import pandas as pd

        columns = dict(self._contents.samples.columns)
        index = pd.Index(columns.pop("id"), name="id")
        return pd.DataFrame(columns, index=index)

    def sample_list(self, name: str, sample: str) -> NDArray[Any] | list[str] | None:
        """A list of one sample; None where it has none.

        Raises: BioattnError when there is no such sample, or no such lists.
        """
        for column in self._contents.layout.lists:
            if column.name == name:
                return self._contents.listed(column, self._number_of(sample))
        raise BioattnError(f"{self.path}: holds {self.inputs}, which have no {name.replace('_', ' ')}")

    def predictions(self) -> "pd.DataFrame":
        """The model's predictions, genes × treatments (response units, or probabilities of a binary model).

        Raises: BioattnError without any, FormatError for a damaged file.
        """
        import pandas as pd

        if schema.PREDICTIONS not in self._groups:
            raise BioattnError(f"{self.path}: holds no predictions")
        values = self._contents.read(schema.PREDICTIONS, "values", [slice(None)])
        return pd.DataFrame(
            values, index=pd.Index(self._contents.samples.ids, name="gene_id"), columns=self.treatments
        )

    @cached_property
    def treatments(self) -> list[str]:
        """All treatments asked for, in the order of every treatment axis; empty without one."""
        if schema.PREDICTIONS not in self._groups:
            return []
        return [str(name) for name in self._groups[schema.PREDICTIONS].axis("treatment").coordinates or ()]

    @cached_property
    def positions(self) -> NDArray[np.int64]:
        """Coordinates of the window's bases: from position 0 of each gene, upstream negative; where that is not
        known, from the window's first base."""
        before = 0 if self.downstream is None else self.window_length - self.downstream
        return np.arange(self.window_length) - before

    def _named(self, samples: Choice) -> Names:
        if samples is None or isinstance(samples, str):
            return samples
        return self._contents.samples.ids[samples] if isinstance(samples, slice) else list(samples)

    def _genes(self, gene: Choice) -> int | list[int] | slice:
        return choice(gene, self._numbers, f"{self.path}: gene")

    def _treatments(self, treatment: Names) -> int | list[int] | slice:
        numbers = {name: number for number, name in enumerate(self.treatments)}
        return choice(treatment, numbers, f"{self.path}: treatment")

    def _number_of(self, sample: str) -> int:
        if sample not in self._numbers:
            raise BioattnError(f"{self.path}: sample {sample!r} is not in the file")
        return self._numbers[sample]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """Rows of samples by id, and of genes by a common name that no other has."""
        names = list(map(str, self._contents.samples.columns.get("name", ())))
        times = Counter(names)
        unique = {name: row for row, name in enumerate(names) if name and times[name] == 1}
        return unique | {name: row for row, name in enumerate(self._contents.samples.ids)}


_LACKS = {
    schema.VALUE_WEIGHTED: "has no value-weighted attention; export with --value-weighted",
    schema.CONTRIBUTIONS: "has no contributions; export without --reduce, of a model that is a sum over positions",
    schema.KEY_INDEX: "holds all keys, in order; it was not reduced with top-k",
}
"""What to say of a site that has no such array."""


class Attention(Results):
    """Attention weights with labelled axes."""

    _format = schema.FORMAT

    @cached_property
    def sites(self) -> "Sites[SiteInfo]":
        """Attention sites by name."""
        sites = Sites[SiteInfo]()
        for path, layout in self._groups.items():
            folder, _, name = path.partition("/")
            if folder != schema.SITES:
                continue
            arrays = {array.name: array for array in layout.arrays}
            array, said = arrays[schema.WEIGHTS], dict[str, Any](layout.attributes)
            axes = {axis.name: axis for axis in layout.axes if axis.name in array.dims}
            named = axes["treatment"].coordinates if "treatment" in axes else None
            edges = axes[schema.KEY].edges if schema.KEY in axes else None
            shape: tuple[int, ...] = ()
            if not layout.per_sample:
                shape = (len(self._contents.samples), *layout.shape(array))
            elif len(self._contents.samples):
                shape = layout.shape(array, self._contents.samples.lengths(0))
            sites[name] = SiteInfo(
                name=name,
                layout=layout,
                dims=array.dims if layout.per_sample else (schema.SAMPLE, *array.dims),
                shape=shape,
                dtype=np.dtype(array.dtype),
                heads=tuple(map(int, said["heads"])),
                reduce=Reduction(said["reduce"]),
                treatments=None if named is None else [str(name) for name in named],
                key_edges=None if edges is None else np.array(edges, dtype=np.int64),
                receptive_field=said.get("receptive_field"),
                null_key=bool(said.get("sink", False)),
                phases=said.get("phases", 1),
                has_value_weighted=schema.VALUE_WEIGHTED in arrays,
                has_contributions=schema.CONTRIBUTIONS in arrays,
                intercept=np.array(said.get("intercept", ()), dtype=np.float64),
            )
        return sites

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
        name = schema.VALUE_WEIGHTED if value_weighted else schema.WEIGHTS
        return self._read(site, name, gene, sample, treatment, head)

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
        return self._read(site, schema.CONTRIBUTIONS, gene, None, treatment, head)

    def atom_contributions(self, sample: str) -> tuple[list[str], NDArray[np.float32]]:
        """Of a molecule: the tasks, and what each atom at each radius contributes to each, (task, radius, atom).

        Raises: BioattnError when the file holds no molecules, or not this one; FormatError for a damaged one.
        """
        group = self._groups.get(schema.ATOM_CONTRIBUTIONS)
        if group is None:
            raise BioattnError(f"{self.path}: holds {self.inputs}; a file over molecules is needed")
        number = self._number_of(sample)
        values = self._contents.read(group.path, "values", [number])
        tasks = [str(name) for name in group.axis("task").coordinates or ()]
        return tasks, values[..., : self._contents.samples.lengths(number)["atoms"]]

    def key_index(self, site: str, *, sample: str, head: int | None = None) -> NDArray[np.int32]:
        """Of which key (0-based) each of the weights of a site reduced with `top-k` is; the same shape.

        Raises: BioattnError for a sample, head or site that the file does not hold, or a site that is not reduced
        so; FormatError when the data are damaged.
        """
        return self._read(site, schema.KEY_INDEX, None, sample, None, head)

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
        """What the places along an axis are called: residues and tokens with their numbers from 1, names, head
        numbers, middles of bins, or numbers.

        sample: whose; None = of all samples, where they share one array. Raises: BioattnError for what the file
        does not hold.
        """
        info = self._info(site)
        number = None if sample is None and not info.layout.per_sample else self._own(info, sample)
        if dim == schema.SAMPLE and not info.layout.per_sample:
            return self._contents.samples.ids
        try:
            axis = info.layout.axis(dim)
        except KeyError as error:
            raise BioattnError(f"{self.path}: site {site} has no axis {dim!r}") from error
        if number is None:
            return schema.axis_places(axis, None)
        lists = [column for column in self._contents.layout.lists if column.kind == axis.kind]
        listed = schema.listed_places(lists, lambda column: self._contents.listed(column, number))
        return schema.axis_places(axis, self._contents.samples.lengths(number), listed)

    def array(
        self,
        site: str | None = None,
        *,
        samples: Choice = None,
        treatments: Names = None,
        head: int | None = None,
        value_weighted: bool = False,
        contributions: bool = False,
    ) -> LabelledArray:
        """The weights of a site; only what is asked for is read.

        site: None for the only one. samples: genes or alignments, by name or a slice of their numbers; where their
        lengths differ None is the only one, and where each has its own array one must be named. head: the model's
        number of it, whose axis is then dropped; None for all. The keys that `top-k` kept of one sample are named
        along all axes, as `key`; the places of several samples along their own, as `query_name` and `key_name`.
        value_weighted: the weights times the norm of the value that they multiply. Keys and queries that are bins
        of a promoter have their middles as coordinates, in bases from the window's first base. contributions: what
        a key adds to the prediction instead, of models whose answer is a sum over positions.

        Raises: BioattnError for what the file does not hold, or where a site or sample must be named.
        """
        if site is None and len(self.sites) != 1:
            held = f"several sites; name one: {', '.join(self.sites)}" if self.sites else "no site"
            raise BioattnError(f"{self.path}: holds {held}")
        info, samples = self._info(site or next(iter(self.sites))), self._named(samples)
        if samples is None and info.layout.ragged and len(self._contents.samples) == 1:
            samples = self._contents.samples.ids[0]
        if info.layout.per_sample and isinstance(samples, list) and len(samples) == 1:
            samples = str(samples[0])
        one = samples if isinstance(samples, str) else None
        if contributions:
            values = self.contributions(info.name, gene=samples, treatment=treatments, head=head)
        else:
            name = schema.VALUE_WEIGHTED if value_weighted else schema.WEIGHTS
            gene = None if one is not None else samples
            values = self._read(info.name, name, gene, one, treatments, head)
        chosen = {
            schema.SAMPLE: samples,
            "treatment": treatments,
            schema.HEAD: None if head is None else str(head),
        }
        dims = [dim for dim in info.dims if not isinstance(chosen.get(dim), str)]
        coordinates = {}
        for dim in dims:
            named = chosen.get(dim)
            coordinates[dim] = self.coordinates(info.name, dim, one) if named is None else list(named)
        long_name = "attention weight" + (" × norm of the value" if value_weighted else "")
        long_name = "contribution to the prediction" if contributions else long_name
        further: dict[str, tuple[tuple[str, ...], NDArray[Any]]] = {}
        if one is not None and info.reduce is Reduction.TOP_K:
            index = self._read(info.name, schema.KEY_INDEX, None, one, treatments, head)
            further[schema.KEY] = tuple(dims), np.asarray(self.coordinates(info.name, schema.KEY, one))[index]
        elif one is None and info.layout.ragged:
            import pandas as pd

            kinds = {listed.kind for listed in self._contents.layout.lists}
            for dim in [dim for dim in dims if dim in info.dims[1:] and info.kind(dim) in kinds]:
                ids = coordinates[schema.SAMPLE]
                names = pd.DataFrame([list(self.coordinates(info.name, dim, sample)) for sample in ids])
                padded = names.reindex(columns=range(len(coordinates[dim]))).fillna("")
                further[f"{dim}_name"] = (schema.SAMPLE, dim), padded.to_numpy()
        return LabelledArray(
            name=info.name, values=values, coordinates=coordinates, long_name=long_name, further=further
        )

    def at_bases(
        self,
        *,
        samples: Choice = None,
        treatments: Names = None,
        sites: str | Sequence[str] | None = None,
        heads: int | Sequence[int] | None = None,
        value_weighted: bool = False,
        weights: bool = False,
    ) -> LabelledArray:
        """Where a promoter model looked, base by base: axes sample, treatment, position.

        What each base adds to the prediction, with its sign, summed over heads and sites, where the file has
        contributions; else, or with `weights`, attention averaged over them. A bin's value is shared by its bases
        and smoothed by a Gaussian of half the bin's width (motifs straddle the edges of bins); a profile keeps its
        sum. This is the profile that `simulate score`, `export motifs` and the figures use. sites: shell patterns
        (None: those that tell treatments apart); heads: the model's numbers of them (None: all). Positions count
        from position 0 of the gene, upstream is negative; where that is not known, from the window's first base.

        Raises: BioattnError for attention that is not over promoters, and for what is not there.
        """
        from bioattn.python.profiles import attention_at_bases

        return attention_at_bases(
            self,
            self._genes(samples),
            self._treatments(treatments),
            [sites] if isinstance(sites, str) else sites,
            [heads] if isinstance(heads, int) else heads,
            value_weighted=value_weighted,
            weights=weights,
        )

    def _read(
        self, site: str, name: str, gene: Choice, sample: str | None, treatment: Names, head: int | None
    ) -> NDArray[Any]:
        info = self._info(site)
        arrays = {array.name: array for array in info.layout.arrays}
        if name not in arrays:
            raise BioattnError(f"{self.path}: site {site} {_LACKS[name]}")
        dims = info.dims[1:] if not info.layout.per_sample else info.dims
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
        number = None
        if info.layout.per_sample:
            if gene is not None and not isinstance(gene, str):
                raise BioattnError(
                    f"{self.path}: holds {self.inputs}, whose arrays differ; name one: samples='NAME'"
                )
            number = self._own(info, sample or gene)
        elif sample is not None:
            row = self._number_of(sample)
            ends = info.layout.shape(arrays[name], self._contents.samples.lengths(row))
            selection = [
                slice(end) if part == slice(None) else part for part, end in zip(selection, ends, strict=True)
            ]
            selection.insert(0, row)
        else:
            selection.insert(0, self._genes(gene))
        return self._contents.read(info.layout.path, name, selection, number)

    def _own(self, info: SiteInfo, sample: str | None) -> int:
        if sample is None:
            raise BioattnError(f"{self.path}: every sample has its own shape; say which sample is wanted")
        return self._number_of(sample)

    def _info(self, site: str) -> SiteInfo:
        if site not in self.sites:
            raise BioattnError(f"{self.path}: no site {site!r}; it holds {', '.join(self.sites) or 'none'}")
        return self.sites[site]


open_attention = Attention.open


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
