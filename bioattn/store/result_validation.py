"""Checking files of results against their schema (`docs/formats/attention.md`), a few megabytes at a time."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bioattn.errors import BioattnError, FormatError
from bioattn.io.hdf5 import damage_named, open_hdf5, strings, text_attribute
from bioattn.store.attribution import ATTRIBUTION, BASES, GAP, SEQUENCE, VALUES
from bioattn.store.choices import Method, Reduction, WeightType
from bioattn.store.contents import (
    group_paths,
    read_list,
    read_samples,
    require_format,
    stored_columns,
    stored_group,
    stored_inputs,
    text_list,
)
from bioattn.store.kinds import Problem, error
from bioattn.store.schema import (
    ATTRIBUTION_FORMAT,
    CONTRIBUTIONS,
    FORMAT,
    HEAD,
    ID,
    KEY,
    KEY_INDEX,
    PREDICTIONS,
    SAMPLE,
    SITES,
    SLAB_BYTES,
    TEXT,
    VALUE_WEIGHTED,
    WEIGHTS,
    Array,
    FileLayout,
    GroupLayout,
    Samples,
    axis_length,
    bin_centres,
    sample_group,
    slabs,
)
from bioattn.store.shards import UNFINISHED, shard_of_hdf5
from bioattn.store.windows import PROMOTERS, window_problems
from bioattn.system.progress import SILENT, Progress

_ROOT_TEXT = ("format", "format_version", "generated_by", "model_sha256", "inputs")
_PROMOTER_ROOT_TEXT = ("input_sha256", "task")
_CENTRED = 1e-5
"""How far the values of a position may sum from 0, as a share of the largest of them."""

WrongValues = tuple[str, int, str] | None
"""The name of an array, the place of a sample, and what is wrong with its values."""
Slab = Mapping[str, NDArray[Any]]
"""Values of each array of a group, samples first."""


def row_sum_tolerance(dtype: np.dtype[Any]) -> float:
    """How far a row of stored weights may be from its sum: rounding to float16 moves each by up to 2^-11."""
    return 2e-3 if dtype == np.float16 else 1e-4


def validate_attention(path: Path, progress: Progress = SILENT) -> list[Problem]:
    """Everything wrong with an attention file; an empty list when it keeps its contract.

    Reads every value once: HDF5's checksums, sums of rows, NaN and infinities are checked beside names, shapes,
    dtypes and dimension scales. A file that cannot be read further is a problem too, never an exception.
    """
    return _validate(path, FORMAT, progress)


def validate_attribution(path: Path, progress: Progress = SILENT) -> list[Problem]:
    """Everything wrong with an attribution file, as `validate_attention`: sums over bases, zeros at N."""
    return _validate(path, ATTRIBUTION_FORMAT, progress)


def _validate(path: Path, format_name: str, progress: Progress) -> list[Problem]:
    problems: list[Problem] = []
    try:
        with open_hdf5(path) as file:
            require_format(path, file, format_name)
            problems += _root(file, format_name)
            needed = {FORMAT: SITES, ATTRIBUTION_FORMAT: ATTRIBUTION}[format_name]
            for name in ("samples", needed):
                if not isinstance(file.get(name), h5py.Group):
                    problems.append(error(f"/{name}", "the group is missing"))
                    return problems
            problems += _table(file)
            if problems:
                return problems  # the shapes of all arrays follow from the samples
            columns, lists = stored_columns(file)
            layout = FileLayout(inputs=stored_inputs(file), model_sha256="", columns=columns, lists=lists)
            samples = read_samples(file, columns)
            problems += sample_problems(file, layout, samples)
            if problems:
                return problems
            groups = group_paths(file)
            progress.begin("checking", len(groups) * len(samples))
            for group in groups:
                with damage_named(path):
                    problems += _Group(file, group, layout, samples, progress).problems()
            with suppress(FormatError):
                record = shard_of_hdf5(path, file)
                if record is not None and len(samples) > record.stop - record.first:
                    problems.append(error("/samples", f"has more samples than inputs of {record.part}"))
            if UNFINISHED in file.attrs:
                problems.append(error("", "is unfinished: repeat the command that made it with --resume"))
    except BioattnError as problem:
        problems.append(error("", str(problem).removeprefix(f"{path}: ")))
    finally:
        progress.end()
    return problems


def _root(file: h5py.File, format_name: str) -> Iterator[Problem]:
    needed = list(_ROOT_TEXT)
    if stored_inputs(file) == PROMOTERS:
        needed += _PROMOTER_ROOT_TEXT
        if "window_length" not in file.attrs:
            yield error("/", "the attribute 'window_length' is missing")
    if format_name == ATTRIBUTION_FORMAT:
        needed.append("method_settings")
        method = text_attribute(file, "method")
        if method not in tuple(Method):
            yield error("/", f"the attribute 'method' is {method!r}, one of {', '.join(Method)} is needed")
    for name in needed:
        if text_attribute(file, name) is None:
            yield error("/", f"the attribute {name!r} is missing or not text")


def _table(file: h5py.File) -> Iterator[Problem]:
    """Whether all columns and lists are there, the columns as long as each other."""
    group = file["samples"]
    for name in ("columns", "lists"):
        if name not in group.attrs:
            yield error("/samples", f"the attribute {name!r} is missing")
            return
    columns, lists = text_list(group, "columns"), text_list(group, "lists")
    lengths = {}
    for name in (ID.name, *columns):
        dataset = group.get(name)
        if not isinstance(dataset, h5py.Dataset):
            yield error(f"/samples/{name}", "the dataset is missing")
            return
        if dataset.ndim != 1:
            yield error(f"/samples/{name}", f"has {dataset.ndim} axes, one is needed")
            return
        lengths[name] = len(dataset)
    if len(set(lengths.values())) != 1:
        yield error("/samples", f"the datasets differ in length: {lengths}")
    for name in lists:
        if not isinstance(group.get(name), h5py.Group):
            what = "is a dataset, a group is needed" if name in group else "the group is missing"
            yield error(f"/samples/{name}", what)


def sample_problems(file: h5py.File, layout: FileLayout, samples: Samples) -> Iterator[Problem]:
    """What is wrong with the names, lengths, lists and places of the samples of a file."""
    twice = next((name for name, times in Counter(samples.ids).items() if times > 1), None)
    if twice is not None:
        yield error("/samples/id", f"{twice!r} occurs more than once")
    columns = samples.columns
    for column in layout.columns:
        values = columns[column.name]
        if isinstance(values, np.ndarray) and values.dtype.kind not in "iuf":
            yield error(f"/samples/{column.name}", f"has dtype {values.dtype}, numbers or text are needed")
            return
        if column.lengths:
            for text, length in zip(values, columns[column.lengths], strict=True):
                if len(text) != length:
                    yield error(
                        f"/samples/{column.name}",
                        f"a {column.name} of {len(text)} letters has {column.lengths} {length}",
                    )
                    return
    for listed in layout.lists:
        for number, length in enumerate(columns[listed.lengths]):
            where = f"/samples/{listed.name}/{sample_group(number)}"
            item = file.get(where)
            if item is None and listed.dtype == TEXT:
                continue  # names are optional
            if listed.dtype != TEXT and not (
                isinstance(item, h5py.Dataset) and item.shape == (length,) and item.dtype.kind == "i"
            ):
                yield error(where, f"{length} integers are needed")
                return
            places = read_list(file, listed, number)
            assert places is not None
            if len(places) != length:
                yield error(where, f"has {len(places)} names for {length} {listed.lengths}")
                return
            if listed.choice_of:
                below, values = int(columns[listed.choice_of][number]), np.asarray(places)
                if len(values) and (values[0] < 0 or values[-1] >= below or (np.diff(values) <= 0).any()):
                    yield error(where, f"is not an ascending choice of the {listed.name} 0 to {below - 1}")
                    return
    yield from window_problems(file, samples)


class _Group:
    """One group of arrays, being checked."""

    def __init__(
        self, file: h5py.File, path: str, layout: FileLayout, samples: Samples, progress: Progress
    ) -> None:
        self._file = file
        self._path = path
        self._where = f"/{path}"
        self._file_layout = layout
        self._samples = samples
        self._progress = progress
        self._is_site = path.startswith(f"{SITES}/")

    def problems(self) -> Iterator[Problem]:
        """Everything wrong with it."""
        group = self._file[self._path]
        if not isinstance(group, h5py.Group):
            yield error(self._where, "is a dataset, a group is needed")
            return
        problems = list(self._attributes(group))
        yield from problems
        if problems:
            return
        per_sample = not self._has_sample_axis(group)
        names = {sample_group(number) for number in range(len(self._samples))} if per_sample else set()
        if per_sample:
            for name in sorted(names ^ set(group)):
                yield error(
                    f"{self._where}/{name}", "is missing" if name in names else "belongs to no sample"
                )
            if not set(names) <= set(group):
                return
        for holder in [group[name] for name in sorted(names)] if per_sample else [group]:
            if not isinstance(holder, h5py.Group):
                yield error(holder.name, "is a dataset, a group is needed")
                return
            for name in self._needed(group):
                if not isinstance(holder.get(name), h5py.Dataset):
                    yield error(f"{holder.name}/{name}", "the dataset is missing")
                    return
                for dim in text_list(holder[name], "dims"):
                    if not isinstance(holder.get(dim), h5py.Dataset):
                        yield error(f"{holder.name}/{dim}", "the dimension scale is missing")
                        return
        if per_sample and not names:
            return
        layout = stored_group(self._file, self._path)
        yield from self._layout_problems(layout, group)
        if not per_sample:
            yield from self._arrays(layout, group, None)
            return
        for number in range(len(self._samples)):
            yield from self._arrays(layout, group[sample_group(number)], number)
            self._progress.advance()

    def _attributes(self, group: h5py.Group) -> Iterator[Problem]:
        for name in ("axes", "axis_kinds", "axis_lengths"):
            if name not in group.attrs:
                yield error(self._where, f"the attribute {name!r} is missing")
                return
        columns = {*self._samples.columns, ""}
        for name in text_list(group, "axis_lengths"):
            if name not in columns:
                yield error(self._where, f"lengths of an axis are in /samples/{name}, which is not there")
            elif name and (shortest := min(self._samples.columns[name], default=1)) < 1:
                yield error(f"/samples/{name}", f"has {shortest}, at least 1 is needed")
        if not self._is_site:
            return
        reduce = text_attribute(group, "reduce")
        if reduce not in tuple(Reduction):
            yield error(
                self._where, f"the attribute 'reduce' is {reduce!r}, one of {', '.join(Reduction)} is needed"
            )
            return
        for name in ("heads", *(("top_k",) if reduce == Reduction.TOP_K else ())):
            if name not in group.attrs:
                yield error(self._where, f"the attribute {name!r} is missing")

    def _has_sample_axis(self, group: h5py.Group) -> bool:
        return text_list(group, "axes")[0] == SAMPLE

    def _needed(self, group: h5py.Group) -> tuple[str, ...]:
        if self._path == ATTRIBUTION:
            return VALUES, SEQUENCE
        if not self._is_site:
            return (VALUES,)
        return (WEIGHTS, KEY_INDEX) if text_attribute(group, "reduce") == Reduction.TOP_K else (WEIGHTS,)

    def _layout_problems(self, layout: GroupLayout, group: h5py.Group) -> Iterator[Problem]:
        """What is wrong with a group whatever its samples."""
        if self._path == ATTRIBUTION:
            position, base = layout.axis("position"), layout.axis("base")
            if position.size != self._file.attrs.get("window_length"):
                yield error(f"{self._where}/position", "has another length than the attribute window_length")
            if base.coordinates != BASES:
                yield error(f"{self._where}/base", f"is not {' '.join(BASES)}")
        elsewhere = self._file.get(f"{PREDICTIONS}/treatment")
        for axis in layout.axes:
            treatments = elsewhere if axis.kind == "treatment" else None
            if treatments is not None and strings(treatments) != list(axis.coordinates or ()):
                yield error(f"{self._where}/{axis.name}", "differs from the names elsewhere in the file")
            edges = group.get(f"{axis.name}_edges")
            if edges is None:
                continue
            values = edges[:]
            if len(values) != len(group[axis.name]) + 1:
                yield error(edges.name, f"has {len(values)} edges for {len(group[axis.name])} bins")
            elif (np.diff(values) <= 0).any():
                yield error(edges.name, "the edges do not increase")
            elif not np.array_equal(group[axis.name][:], bin_centres(values)):
                yield error(f"{self._where}/{axis.name}", f"is not the middle of the bins of {edges.name}")

    def _arrays(self, layout: GroupLayout, holder: h5py.Group, number: int | None) -> Iterator[Problem]:
        """The arrays of all samples, or those of one sample's own."""
        lengths = None if number is None else self._samples.lengths(number)
        ids = self._samples.ids
        if number is not None and text_attribute(holder, SAMPLE) != ids[number]:
            said = text_attribute(holder, SAMPLE)
            yield error(holder.name, f"says that it is of {said!r}, /samples says {ids[number]!r}")
        if number is None and (
            not isinstance(holder.get(SAMPLE), h5py.Dataset) or strings(holder[SAMPLE]) != ids
        ):
            yield error(f"{holder.name}/{SAMPLE}", "differs from the names elsewhere in the file")
            return
        before = () if number is not None else (len(ids),)
        for array in layout.arrays:
            dataset = holder.get(array.name)
            problems = list(
                self._array(layout, array, holder, dataset, (*before, *layout.shape(array, lengths)))
            )
            yield from problems
            if problems:
                return
        yield from self._coordinates(layout, holder, number)
        yield from self._values(layout, holder, number)

    def _array(
        self, layout: GroupLayout, array: Array, holder: h5py.Group, dataset: Any, shape: tuple[int, ...]
    ) -> Iterator[Problem]:
        """Shape, type and dimension scales."""
        where = f"{holder.name}/{array.name}"
        if not isinstance(dataset, h5py.Dataset):
            yield error(where, "the dataset is missing")
            return
        before = (SAMPLE,) if len(shape) > len(array.dims) else ()
        names = [axis.name for axis in layout.axes]
        if list(array.dims) != [name for name in names if name in array.dims]:
            yield error(
                where, f"has axes {array.dims}, a selection of {tuple(names)} in this order is needed"
            )
            return
        wanted = {
            WEIGHTS: tuple(WeightType),
            VALUE_WEIGHTED: tuple(WeightType),
            CONTRIBUTIONS: tuple(WeightType),
            KEY_INDEX: ("int32", "int64"),
        }
        if self._path in (ATTRIBUTION, PREDICTIONS):
            wanted |= {VALUES: ("float32",), SEQUENCE: ("uint8",), GAP: ("float32",)}
        if array.name in wanted and str(dataset.dtype) not in wanted[array.name]:
            yield error(where, f"has dtype {dataset.dtype}, {' or '.join(wanted[array.name])} is needed")
            return
        for place, name in enumerate((*before, *array.dims)):
            scale = holder[name]
            # HDF5's labels and references lie in a heap without checksums: a flipped bit there can crash HDF5.
            if len(scale) != dataset.shape[place]:
                yield error(scale.name, f"has {len(scale)} values for {dataset.shape[place]}")
        if dataset.shape != shape:
            yield error(where, f"has shape {dataset.shape}, {shape} is needed")

    def _coordinates(self, layout: GroupLayout, holder: h5py.Group, number: int | None) -> Iterator[Problem]:
        for axis in layout.axes:
            heads = holder[HEAD][:] if axis.name == HEAD and HEAD in holder else None
            if heads is not None and not np.array_equal(heads, layout.attributes["heads"]):
                yield error(f"{holder.name}/{HEAD}", "differs from the attribute 'heads' of the site")
            if axis.lengths is None:
                continue
            if number is None:
                longest = max(map(int, self._samples.columns[axis.lengths]), default=0)
                if axis_length(axis) < min(longest, axis.limit or longest):
                    yield error(
                        f"{holder.name}/{axis.name}", f"is shorter than the longest {axis.lengths}, {longest}"
                    )
            else:
                for listed in self._file_layout.lists:
                    if listed.dtype != TEXT and listed.kind == axis.kind and axis.name in holder:
                        values = read_list(self._file, listed, number)
                        if values is None or not np.array_equal(holder[axis.name][:], values):
                            yield error(f"{holder.name}/{axis.name}", f"differs from /samples/{listed.name}")

    def _values(self, layout: GroupLayout, holder: h5py.Group, number: int | None) -> Iterator[Problem]:
        """Read all values and report the first problem."""
        reported = False
        noun = "gene" if self._file_layout.inputs == PROMOTERS else "sample"
        for first, slab in self._slabs(layout, holder, number):
            size = len(next(iter(slab.values())))
            problem = None if reported else self._problem(layout, slab, first)
            if problem is not None:
                name, place, message = problem
                yield error(
                    f"{holder.name}/{name}", f"{noun} {self._samples.ids[first + place]!r}: {message}"
                )
                reported = True
            self._progress.advance(size if number is None else 0)

    def _slabs(
        self, layout: GroupLayout, holder: h5py.Group, number: int | None
    ) -> Iterator[tuple[int, Slab]]:
        """Some megabytes of all arrays at a time, with the number of the first sample in them."""
        if number is not None:
            # All arrays of a sample's own have one shape, so that one index is good for all.
            shape = holder[layout.arrays[0].name].shape
            for index in slabs(shape, max(array.itemsize for array in layout.arrays)):
                yield number, {array.name: holder[array.name][index][None] for array in layout.arrays}
            return
        step = max(1, SLAB_BYTES // max(1, layout.bytes_of_sample()))
        for first in range(0, len(self._samples), step):
            rows = slice(first, first + step)
            yield first, {array.name: holder[array.name][rows] for array in layout.arrays}

    def _problem(self, layout: GroupLayout, slab: Slab, first: int) -> WrongValues:
        for name, values in slab.items():
            finite = np.isfinite(values).reshape(len(values), -1).all(axis=1)
            if not finite.all():
                return name, int(np.argmin(finite)), "holds NaN or infinities"
        if self._path == ATTRIBUTION:
            return _attribution_problem(slab[VALUES], slab[SEQUENCE])
        if not self._is_site:
            return None
        if not layout.ragged or layout.per_sample:
            return _weights_problem(layout, slab, self._samples.lengths(first) if layout.ragged else None)
        for place in range(len(slab[WEIGHTS])):
            lengths = self._samples.lengths(first + place)
            own: dict[str, NDArray[Any]] = {}
            for array in layout.arrays:
                values = slab[array.name][place]
                own[array.name] = values[layout.within(array, lengths)][None]
                if np.count_nonzero(values) != np.count_nonzero(own[array.name]):
                    return array.name, place, "holds values behind its end"
            problem = _weights_problem(layout, own, lengths)
            if problem is not None:
                return problem[0], place, problem[2]
        return None


def _weights_problem(layout: GroupLayout, slab: Slab, lengths: Mapping[str, int] | None) -> WrongValues:
    """The first sample whose weights are impossible; lengths: of ragged axes, if there are any."""
    stored = [name for name in (WEIGHTS, VALUE_WEIGHTED) if name in slab]
    problem = _first_problem((name, slab[name] < 0, "holds negative values") for name in stored)
    if problem is not None:
        return problem
    weights = slab[WEIGHTS]
    reduce = Reduction(str(layout.attributes["reduce"]))
    tolerance = row_sum_tolerance(weights.dtype)
    low, high = 1 - tolerance, 1 + tolerance
    num_keys = axis_length(layout.axis(KEY), lengths) if reduce is Reduction.TOP_K else 0
    if reduce is Reduction.TOP_K:  # the k largest of K weigh at least what k of K alike would
        low = weights.shape[-1] / num_keys - tolerance
    if reduce in (Reduction.MAX_HEADS, Reduction.MAX_ROWS):
        high = np.inf
    if layout.attributes.get("sink"):
        low = 0.0
    sums = weights.sum(axis=-1, dtype=np.float32).reshape(len(weights), -1)
    wrong = (sums < low) | (sums > high)
    if wrong.any():
        sample = int(np.argmax(wrong.any(axis=1)))
        worst = float(sums[sample][np.argmax(wrong[sample])])
        return WEIGHTS, sample, f"a row of weights sums to {worst:.6g}"
    return _order_problem(weights, slab[KEY_INDEX], num_keys) if KEY_INDEX in slab else None


def _order_problem(weights: NDArray[Any], keys: NDArray[Any], num_keys: int) -> WrongValues:
    """What is wrong with the order of the largest weights, or with the keys that they are of."""
    ordered = np.sort(keys, axis=-1)
    checks = (
        (WEIGHTS, np.diff(weights, axis=-1) > 0, "the weights of a query do not fall from its largest on"),
        (KEY_INDEX, (keys < 0) | (keys >= num_keys), f"names a key outside 0 to {num_keys - 1}"),
        (KEY_INDEX, np.diff(ordered, axis=-1) == 0, "names a key of a query twice"),
    )
    return _first_problem(checks)


def _attribution_problem(values: NDArray[np.float32], codes: NDArray[np.uint8]) -> WrongValues:
    """The first sample whose values are impossible, and why."""
    tolerance = _CENTRED * (np.abs(values).max(axis=-1) + np.finfo(np.float32).tiny)
    checks = (
        (SEQUENCE, codes > 4, "holds codes above 4"),
        (
            VALUES,
            np.abs(values.sum(axis=-1, dtype=np.float64)) > tolerance,
            "values of a position do not sum to 0",
        ),
        (VALUES, (codes > 3)[:, None, :, None] & (values != 0), "has values where the sequence is N"),
    )
    return _first_problem(checks)


def _first_problem(checks: Iterable[tuple[str, NDArray[np.bool_], str]]) -> WrongValues:
    """The first check that some sample fails; checks: name of the array, what is wrong, why."""
    for name, wrong, message in checks:
        by_sample = wrong.reshape(len(wrong), -1).any(axis=1)
        if by_sample.any():
            return name, int(np.argmax(by_sample)), message
    return None
