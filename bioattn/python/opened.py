"""`bioattn.open`: what is in a file or folder that bioattn reads or writes.

Attention and attribution files stay open and are read as they are asked: `Attention` and `Attribution`.
"""

import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.errors import BioattnError
from bioattn.interpret.choices import Upsampling
from bioattn.interpret.maps.position_maps import position_maps
from bioattn.interpret.maps.upsampling import upsample
from bioattn.io.hdf5_input import open_hdf5
from bioattn.store.attribution import BASES, AttributionFile
from bioattn.store.kinds import recognise
from bioattn.store.reader import AttentionFile, ResultFile, SiteInfo, choice
from bioattn.store.schema import HEAD, SAMPLE
from bioattn.text import quoted

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LabelledArray:
    """Values with a name and coordinates for each axis. `numpy.asarray` gives the values alone."""

    name: str
    values: NDArray[Any]
    coordinates: Mapping[str, Sequence[Any] | NDArray[Any]]
    """The coordinates along each axis by the axis's name, in the order of the axes."""
    long_name: str
    """What the values are, in words."""

    @property
    def dims(self) -> tuple[str, ...]:
        """The names of the axes, in order."""
        return tuple(self.coordinates)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.values, dtype=dtype, copy=copy)

    def to_xarray(self) -> "xarray.DataArray":
        """An xarray.DataArray. Raises: BioattnError where xarray is not installed."""
        try:
            import xarray
        except ImportError as error:
            raise BioattnError("to_xarray() needs xarray: pip install xarray") from error
        return xarray.DataArray(
            self.values,
            coords={name: list(places) for name, places in self.coordinates.items()},
            dims=self.dims,
            name=self.name,
            attrs={"long_name": self.long_name},
        )

    def to_pandas(self) -> pd.Series:
        """A pandas Series whose index has a level for each axis; `.unstack("position")` makes a table of it."""
        every = pd.MultiIndex.from_product(list(self.coordinates.values()), names=self.dims)
        index = every.get_level_values(0) if len(self.dims) == 1 else every
        return pd.Series(self.values.reshape(-1), index=index, name=self.name)


Names = str | Sequence[str] | None
"""One name, whose axis is dropped; several, in that order; None for all."""


def open(path: Path | str) -> Any:
    """What is in a file or folder, as the Python object that fits it best.

    An attention file is an `Attention`, an attribution file an `Attribution`, a model folder a `Model`; a table is
    a pandas DataFrame, JSON a dict, a FASTA of promoters a dict of sequences by id; alignments, structures and
    datasets are what the library reads them as. Any other folder maps the names of its files to what is in them,
    and each is read when it is asked for.

    Raises: BioattnError when the path is of no kind that bioattn knows or cannot be read; FormatError when it is
    damaged.
    """
    path = Path(path)
    kind = recognise(path)
    if kind.is_model:
        from bioattn.python.model import load_model

        return load_model(path)
    if kind.name in _STAY_OPEN:
        return _STAY_OPEN[kind.name](path)
    if kind.read is not None:
        return kind.read(path)
    if path.is_dir():
        return Folder(path)
    raise BioattnError(f"{path}: is {kind.title}, which is not for reading; bioattn inspect describes it")


class Folder(Mapping[str, Any]):
    """The files and folders in a folder by name; each is opened (`bioattn.open`) when it is asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __getitem__(self, name: str) -> Any:
        if name not in self._names():
            raise KeyError(f"{self.path} holds no {name!r}; it holds {quoted(self._names())}")
        return open(self.path / name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __repr__(self) -> str:
        return f"<{self.path}: {quoted(self._names())}>"

    def _names(self) -> list[str]:
        return sorted(each.name for each in self.path.iterdir() if not each.name.startswith("."))


class _StaysOpen(ResultFile):
    """A file of results that is open until it is closed or no longer used; also usable with `with`."""

    def _keep(self, stack: ExitStack) -> None:
        self.close = weakref.finalize(self, stack.close)
        """Close the file. What was read of it stays."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.samples)} {self.inputs}: {self.path}>"

    def _positions(self) -> NDArray[np.int64]:
        """The coordinates of the window's bases: from position 0 of each gene, where the file says where it is."""
        before = 0 if self.downstream is None else self.window_length - self.downstream
        return np.arange(self.window_length) - before


class Attention(_StaysOpen, AttentionFile):
    """Attention weights with labelled axes, read from their file when they are asked for."""

    def __init__(self, path: Path, folder: "TemporaryDirectory[str] | None" = None) -> None:
        """folder: removed when the file is closed. Raises: as `open`."""
        with ExitStack() as stack:
            if folder is not None:
                stack.callback(folder.cleanup)
            super().__init__(path, stack.enter_context(open_hdf5(path)))
            self._keep(stack.pop_all())

    def array(
        self,
        site: str | None = None,
        *,
        samples: Names = None,
        treatments: Names = None,
        head: int | None = None,
        value_weighted: bool = False,
        contributions: bool = False,
    ) -> LabelledArray:
        """The weights of a site; only what is asked for is read.

        site: None for the only one. samples: genes or alignments; where each has its own array, one of them (None
        for the only one). head: the model's number of it, whose axis is then dropped; None for all.
        value_weighted: the weights times the norm of the value that they multiply. Keys and queries that are bins
        of a promoter have their middles as coordinates, in bases from the window's first base. contributions: what
        a key adds to the prediction instead, of models trained with --readout shared.

        Raises: BioattnError for what the file does not hold, or where a site or sample must be named.
        """
        info = self._chosen_site(site)
        if samples is None and info.per_sample and len(self.samples) == 1:
            samples = str(self.samples.index[0])
        one = samples if isinstance(samples, str) else None
        gene = None if one is not None else samples
        if contributions:
            values = self.contributions(info.name, gene=one or gene, treatment=treatments, head=head)
        else:
            values = self.weights(
                info.name,
                gene=gene,
                sample=one,
                treatment=treatments,
                head=head,
                value_weighted=value_weighted,
            )
        chosen = {SAMPLE: samples, "treatment": treatments, HEAD: None if head is None else str(head)}
        dims = [dim for dim in info.dims if not isinstance(chosen.get(dim), str)]
        coordinates = {}
        for dim, size in zip(dims, values.shape, strict=True):
            named = chosen.get(dim)
            places = self.coordinates(info.name, dim, one if info.per_sample else None)
            # Of ragged axes one sample has the first places alone.
            coordinates[dim] = places[:size] if named is None else list(named)
        long_name = "attention weight" + (" × norm of the value" if value_weighted else "")
        long_name = "contribution to the prediction" if contributions else long_name
        return LabelledArray(name=info.name, values=values, coordinates=coordinates, long_name=long_name)

    def to_xarray(self, site: str | None = None, **choices: Any) -> "xarray.DataArray":
        """The weights of a site as an xarray.DataArray. Arguments and errors: as `array`."""
        return self.array(site, **choices).to_xarray()

    def to_pandas(self, site: str | None = None, **choices: Any) -> pd.Series:
        """The weights of a site as a Series with an index level for each axis. As `array` otherwise."""
        return self.array(site, **choices).to_pandas()

    def at_bases(
        self,
        *,
        samples: Names = None,
        treatments: Names = None,
        sites: Sequence[str] | None = None,
        heads: Sequence[int] | None = None,
        value_weighted: bool = False,
        contributions: bool = False,
    ) -> LabelledArray:
        """Where a promoter model looked, base by base: axes sample, treatment, position.

        A bin's weight is shared by its bases and smoothed by a Gaussian of half the bin's width (motifs straddle
        the edges of bins); a profile keeps its sum. This is the profile that `simulate score`, `export motifs` and
        the figures use. Averaged over heads and sites: sites: shell patterns (None: those that tell treatments
        apart); heads: the model's numbers of them (None: all). Positions count from position 0 of the gene,
        upstream is negative; where the file does not know it, from the window's first base, 0. contributions: what
        each base adds to the prediction instead, with its sign, summed over heads (--readout shared).

        Raises: BioattnError for attention that is not over promoters, and for what the file does not hold.
        """
        over_bins = position_maps(
            self, sites, heads, value_weighted=value_weighted, contributions=contributions
        )
        every = {name: number for number, name in enumerate(self.treatments)}
        rows = np.arange(len(self.samples))[choice(samples, self._numbers, f"{self.path}: gene")]
        columns = np.arange(len(every))[choice(treatments, every, f"{self.path}: treatment")]
        ascending, back = np.unique(np.atleast_1d(rows), return_inverse=True)
        maps = [over_bins.read(ascending, self.treatments[column])[back] for column in np.atleast_1d(columns)]
        profiles = upsample(
            np.stack(maps, axis=-2), over_bins.key_edges, self.window_length, Upsampling.GAUSSIAN
        )
        coordinates: dict[str, Sequence[Any] | NDArray[Any]] = {
            SAMPLE: self.samples.index[np.atleast_1d(rows)].tolist(),
            "treatment": [self.treatments[column] for column in np.atleast_1d(columns)],
            "position": self._positions(),
        }
        single = {SAMPLE: rows.ndim == 0, "treatment": columns.ndim == 0}
        return LabelledArray(
            name="attention",
            values=profiles.squeeze(tuple(axis for axis, dim in enumerate(coordinates) if single.get(dim))),
            coordinates={dim: places for dim, places in coordinates.items() if not single.get(dim)},
            long_name="contribution of each base" if contributions else "attention weight of each base",
        )

    def _chosen_site(self, site: str | None) -> SiteInfo:
        if site is None and len(self.sites) != 1:
            raise BioattnError(f"{self.path}: holds several sites; name one: {', '.join(self.sites)}")
        return self._info(site or next(iter(self.sites)))


class Attribution(_StaysOpen, AttributionFile):
    """What each base of a promoter adds to the prediction, read from its file when it is asked for."""

    def __init__(self, path: Path) -> None:
        """Raises: as `open`."""
        with ExitStack() as stack:
            super().__init__(path, stack.enter_context(open_hdf5(path)))
            self._keep(stack.pop_all())

    def array(self, *, samples: Names = None, treatments: Names = None) -> LabelledArray:
        """What each of the four bases would add: axes sample, treatment, position, base (`values` has the unit).

        Raises: BioattnError for what the file does not hold.
        """
        coordinates: dict[str, Sequence[Any] | NDArray[Any]] = {
            SAMPLE: [str(name) for name in self.samples.index] if samples is None else samples,
            "treatment": self.treatments if treatments is None else treatments,
            "position": self._positions(),
            "base": BASES,
        }
        kept = {dim: places for dim, places in coordinates.items() if not isinstance(places, str)}
        values = self.values(gene=samples, treatment=treatments)
        return LabelledArray(name="attribution", values=values, coordinates=kept, long_name="contribution")

    def to_xarray(self, **choices: Any) -> "xarray.DataArray":
        return self.array(**choices).to_xarray()

    def to_pandas(self, **choices: Any) -> pd.Series:
        """`array` as a Series with an index level for each axis."""
        return self.array(**choices).to_pandas()

    def at_bases(self, *, samples: Names = None, treatments: Names = None) -> LabelledArray:
        """What the base that is there adds: axes sample, treatment, position. Raises: as `array`."""
        every = self.array(samples=samples, treatments=treatments)
        values = self.contributions(gene=samples, treatment=treatments)
        kept = {dim: places for dim, places in every.coordinates.items() if dim != "base"}
        return LabelledArray(name="attribution", values=values, coordinates=kept, long_name="contribution")


_STAY_OPEN = {"attention": Attention, "attribution": Attribution}
"""By the kind of file."""
