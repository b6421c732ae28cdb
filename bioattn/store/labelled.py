"""Arrays with a name and coordinates for each axis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.errors import BioattnError

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

    def __repr__(self) -> str:
        axes = ", ".join(f"{dim} {size}" for dim, size in zip(self.dims, self.values.shape, strict=True))
        return f"<{self.long_name} at {self.name}: {axes}>"

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
