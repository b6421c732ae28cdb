"""Where results are: in an HDF5 file that is read when it is asked for, or in memory."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bioattn.io.hdf5_input import damage_named
from bioattn.store import schema
from bioattn.store.stored import read_list, read_samples, require_format, stored_layout

HeldArrays = Mapping[str, Mapping[str, NDArray[Any] | Sequence[NDArray[Any]]]]
"""By path of the group and name; a list with an array for each sample where the group has those."""


class Stored:
    """Results in an open HDF5 file."""

    def __init__(self, path: Path, file: h5py.File, format_name: str = schema.FORMAT) -> None:
        """Raises: FormatError when it is of another format, a newer major version, or damaged."""
        require_format(path, file, format_name)
        self.path, self._file = path, file
        with damage_named(path):
            self.layout = stored_layout(path, file)

    @cached_property
    def samples(self) -> schema.Samples:
        """The sample table, without lists."""
        with damage_named(self.path):
            return read_samples(self._file, self.layout.columns)

    def listed(self, column: schema.ListColumn, number: int) -> schema.Values | None:
        """A list of the sample with this number; None where it has none."""
        with damage_named(self.path):
            return read_list(self._file, column, number)

    def shape(self, group: str, array: str, number: int | None = None) -> tuple[int, ...]:
        """The shape of an array; number: of the sample whose array it is, where each has one."""
        with damage_named(self.path):
            return tuple(self._dataset(group, array, number).shape)

    def read(self, group: str, array: str, selection: list[Any], number: int | None = None) -> NDArray[Any]:
        """Some values of an array. selection: for each axis a number, a list of numbers or a slice."""
        with damage_named(self.path):
            return read_selection(self._dataset(group, array, number), selection)

    def save(self, path: Path) -> None:
        """Copy the file. Raises: BioattnError when it cannot be written."""
        import shutil

        from bioattn.io.files import atomic_output

        with atomic_output(path) as temporary:
            shutil.copyfile(self.path, temporary)

    def _dataset(self, group: str, array: str, number: int | None) -> h5py.Dataset:
        own = "" if number is None else f"{schema.sample_group(number)}/"
        return self._file[f"{group}/{own}{array}"]


class Held:
    """Results in memory."""

    path = Path("the results in memory")
    """For messages."""

    def __init__(self, layout: schema.FileLayout, samples: schema.Samples, arrays: HeldArrays) -> None:
        self.layout, self.samples, self._arrays = layout, samples, arrays

    def listed(self, column: schema.ListColumn, number: int) -> schema.Values | None:
        return self.samples.lists[column.name][number]

    def shape(self, group: str, array: str, number: int | None = None) -> tuple[int, ...]:
        return tuple(self._array(group, array, number).shape)

    def read(self, group: str, array: str, selection: list[Any], number: int | None = None) -> NDArray[Any]:
        return read_selection(self._array(group, array, number), selection)

    def save(self, path: Path) -> None:
        """Write the results as HDF5. Raises: BioattnError when it cannot be written."""
        from bioattn.store.writer import result_file

        with result_file(path, self.layout, len(self.samples), keep=False) as writer:
            writer.append(schema.Block(self.samples, self._arrays))  # type: ignore[arg-type]

    def _array(self, group: str, array: str, number: int | None) -> NDArray[Any]:
        values = self._arrays[group][array]
        return values if number is None else values[number]  # type: ignore[return-value]


Contents = Stored | Held


class Collector:
    """Keeps the blocks of a model in memory: what `bioattn.store.writer.ResultWriter` does with a file."""

    def __init__(self, layout: schema.FileLayout) -> None:
        self.layout = layout
        self._groups = {group.path: group for group in layout.groups}
        self._samples: list[schema.Samples] = []
        self._arrays: dict[str, dict[str, list[NDArray[Any]]]] = {
            path: {array.name: [] for array in group.arrays} for path, group in self._groups.items()
        }

    def append(self, block: schema.Block) -> None:
        """Keep the next samples."""
        self._samples.append(block.samples)
        for path, arrays in block.arrays.items():
            group, kept = self._groups[path], self._arrays[path]
            for array in group.arrays:
                values = arrays[array.name]
                if not group.per_sample:
                    kept[array.name].append(group.padded(array, values, block.samples))
                    continue
                lengths = [block.samples.lengths(place) for place in range(len(block.samples))]
                kept[array.name] += [
                    values[place][group.within(array, lengths[place])] for place in range(len(values))
                ]

    @contextmanager
    def sample(self, sample: schema.Samples) -> Iterator[Mapping[str, "SampleArrays"]]:
        """Keep one sample whose arrays are all its own, by path of the group."""
        arrays = {
            path: {
                array.name: np.zeros(group.shape(array, sample.lengths(0)), dtype=array.dtype)
                for array in group.arrays
            }
            for path, group in self._groups.items()
        }
        yield {path: SampleArrays(of_group) for path, of_group in arrays.items()}
        self._samples.append(sample)
        for path, of_group in arrays.items():
            for name, values in of_group.items():
                self._arrays[path][name].append(values)

    def contents(self) -> Held:
        """All that was kept."""
        arrays: dict[str, dict[str, Any]] = {}
        for path, group in self._groups.items():
            kept = self._arrays[path]
            arrays[path] = {
                name: values if group.per_sample else np.concatenate(values) if len(values) > 1 else values[0]
                for name, values in kept.items()
            }
        samples = schema.join_blocks([schema.Block(each, {}) for each in self._samples]).samples
        return Held(self.layout, samples, arrays)


class SampleArrays:
    """One group's arrays of one sample, filled in C order."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._arrays = arrays
        self._filled = 0
        self._total = next(iter(arrays.values())).size

    def write(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Keep the next slices along the first axis, all arrays alike."""
        self.write_rows(arrays)

    def write_rows(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Keep the next rows (rows, last axis)."""
        values = next(iter(arrays.values()))
        for name, whole in self._arrays.items():
            whole.reshape(-1)[self._filled : self._filled + values.size] = arrays[name].reshape(-1)
        self._filled += values.size

    @property
    def complete(self) -> bool:
        """Whether all values are there."""
        return self._filled == self._total


def read_selection(array: Any, selection: list[Any]) -> NDArray[Any]:
    """Index with any number of lists, in any order; HDF5 takes one at a time, sorted."""
    lists = [axis for axis, choice in enumerate(selection) if isinstance(choice, list)]
    if not lists:
        return np.asarray(array[tuple(selection)])
    axis = lists[0]
    dropped = sum(1 for choice in selection[:axis] if isinstance(choice, int))
    pieces = [
        read_selection(array, [*selection[:axis], number, *selection[axis + 1 :]])
        for number in selection[axis]
    ]
    if pieces:
        return np.stack(pieces, axis=axis - dropped)
    return np.asarray(array[(*selection[:axis], slice(0, 0), *selection[axis + 1 :])])
