"""Checking files of results: what is read of them must fit together (`docs/formats/attention.md`).

That bytes are those that were written is HDF5's to check (every value is read once), and what cannot be read
the reader's to say. Here names, shapes and coordinates are held against the samples, and values against what they
promise: rows of weights sum to 1, values of attribution to 0.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bioattn.errors import BioattnError
from bioattn.io.hdf5 import damage_named, open_hdf5, strings, text_attribute
from bioattn.store.attribution import ATTRIBUTION, GAP, SEQUENCE, VALUES
from bioattn.store.choices import Method, Reduction, WeightType
from bioattn.store.contents import Stored, read_samples
from bioattn.store.kinds import Problem, error
from bioattn.store.schema import (
    ATTRIBUTION_FORMAT,
    CONTRIBUTIONS,
    FORMAT,
    HEAD,
    KEY,
    KEY_INDEX,
    PREDICTIONS,
    SAMPLE,
    SITES,
    SLAB_BYTES,
    TEXT,
    VALUE_WEIGHTED,
    WEIGHTS,
    FileLayout,
    GroupLayout,
    Samples,
    Values,
    axis_length,
    axis_places,
    listed_places,
    sample_group,
    slabs,
)
from bioattn.store.shards import UNFINISHED
from bioattn.store.windows import PROMOTERS, window_problems
from bioattn.system.progress import SILENT, Progress

_NEEDED = {
    FORMAT: ("generated_by", "model_sha256", "inputs"),
    ATTRIBUTION_FORMAT: ("generated_by", "model_sha256", "inputs", "method", "method_settings"),
}
_NEEDED_OF_PROMOTERS = ("input_sha256", "task", "window_length")
_TYPES = {
    **dict.fromkeys((WEIGHTS, VALUE_WEIGHTED, CONTRIBUTIONS), tuple(WeightType)),
    KEY_INDEX: ("int32",),
    SEQUENCE: ("uint8",),
    GAP: ("float32",),
}
_CENTRED = 1e-5
"""How far the values of a position may sum from 0, as a share of the largest of them."""

WrongValues = tuple[str, int, str] | None
"""The name of an array, the place of a sample, and what is wrong with its values."""
Slab = Mapping[str, NDArray[Any]]
"""Values of each array of a group, samples first."""


def validate_results(path: Path, progress: Progress = SILENT) -> list[Problem]:
    """Everything wrong with a file of attention or attribution; an empty list when it keeps its contract.

    A file that cannot be read further is a problem too, never an exception.
    """
    problems: list[Problem] = []
    try:
        with open_hdf5(path) as file:
            is_attribution = text_attribute(file, "format") == ATTRIBUTION_FORMAT
            layout = Stored(path, file, ATTRIBUTION_FORMAT if is_attribution else FORMAT).layout
            samples = read_samples(file, layout.columns, layout.lists)
            problems += _root(file, layout)
            problems += _sample_problems(layout, samples)
            if problems:
                return problems  # the shapes of all arrays follow from the samples
            progress.begin("checking", len(layout.groups) * len(samples))
            for group in layout.groups:
                with damage_named(path):
                    problems += _Group(file, group, layout, samples, progress).problems()
            if layout.shard is not None and len(samples) > layout.shard.stop - layout.shard.first:
                problems.append(error("/samples", f"has more samples than inputs of {layout.shard.part}"))
            if UNFINISHED in file.attrs:
                problems.append(error("", "is unfinished: repeat the command that made it with --resume"))
    except BioattnError as problem:
        problems.append(error("", str(problem).removeprefix(f"{path}: ")))
    finally:
        progress.end()
    return problems


def _root(file: h5py.File, layout: FileLayout) -> Iterator[Problem]:
    needed = _NEEDED[layout.format] + (_NEEDED_OF_PROMOTERS if layout.inputs == PROMOTERS else ())
    for name in needed:
        if name not in file.attrs:
            yield error("/", f"the attribute {name!r} is missing")
    method = layout.attributes.get("method")
    if layout.format == ATTRIBUTION_FORMAT and method not in tuple(Method):
        yield error("/", f"the attribute 'method' is {method!r}, one of {', '.join(Method)} is needed")
    if layout.format == ATTRIBUTION_FORMAT and all(group.path != ATTRIBUTION for group in layout.groups):
        yield error(f"/{ATTRIBUTION}", "the group is missing")


def _sample_problems(layout: FileLayout, samples: Samples) -> Iterator[Problem]:
    """What is wrong with the names, lengths, lists and windows of the samples."""
    columns = samples.columns
    if len({len(values) for values in columns.values()}) > 1:
        yield error("/samples", "the columns differ in length")
        return
    twice = next((name for name, times in Counter(samples.ids).items() if times > 1), None)
    if twice is not None:
        yield error("/samples/id", f"{twice!r} occurs more than once")
    for column in layout.columns:
        for text, length in zip(columns[column.name], columns.get(column.lengths, ()), strict=False):
            if len(text) != length:
                message = f"a {column.name} of {len(text)} letters has {column.lengths} {length}"
                yield error(f"/samples/{column.name}", message)
                return
    for listed in layout.lists:
        for number, (values, length) in enumerate(
            zip(samples.lists[listed.name], columns[listed.lengths], strict=True)
        ):
            where = f"/samples/{listed.name}/{sample_group(number)}"
            if values is None and listed.dtype == TEXT:
                continue  # names are optional
            if values is None or len(values) != length:
                have = 0 if values is None else len(values)
                yield error(where, f"has {have} entries for {length} {listed.lengths}")
                return
            if listed.choice_of and length:
                below, numbers = int(columns[listed.choice_of][number]), np.asarray(values)
                if numbers[0] < 0 or numbers[-1] >= below or (np.diff(numbers) <= 0).any():
                    yield error(where, f"is not an ascending choice of the {listed.name} 0 to {below - 1}")
                    return
    yield from window_problems(layout.attributes, samples)


class _Group:
    """One group of arrays, being checked."""

    def __init__(
        self, file: h5py.File, group: GroupLayout, layout: FileLayout, samples: Samples, progress: Progress
    ) -> None:
        self._group = group
        self._holder = file[group.path]
        self._layout = layout
        self._samples = samples
        self._progress = progress
        self._is_site = group.path.startswith(f"{SITES}/")
        predictions = (each.axis("treatment") for each in layout.groups if each.path == PREDICTIONS)
        self._treatments = next((axis.coordinates for axis in predictions), None)

    def problems(self) -> Iterator[Problem]:
        """Everything wrong with it."""
        where = f"/{self._group.path}"
        problems = list(self._attributes(where))
        if self._group.per_sample:
            names = {sample_group(number) for number in range(len(self._samples))}
            for name in sorted(names ^ set(self._holder)):
                said = "is missing" if name in names else "belongs to no sample"
                problems.append(error(f"{where}/{name}", said))
        yield from problems
        if problems:
            return
        if not self._group.per_sample:
            yield from self._arrays(self._holder, None)
            return
        for number in range(len(self._samples)):
            yield from self._arrays(self._holder[sample_group(number)], number)
            self._progress.advance()

    def _attributes(self, where: str) -> Iterator[Problem]:
        for axis in self._group.axes:
            if axis.lengths and axis.lengths not in self._samples.columns:
                yield error(where, f"lengths of an axis are in /samples/{axis.lengths}, which is not there")
            elif axis.lengths and (shortest := min(self._samples.columns[axis.lengths], default=1)) < 1:
                yield error(f"/samples/{axis.lengths}", f"has {shortest}, at least 1 is needed")
        needed = {"reduce", "heads"} if self._is_site else set()
        reduce = self._group.attributes.get("reduce")
        if self._is_site and reduce not in tuple(Reduction):
            yield error(
                where, f"the attribute 'reduce' is {reduce!r}, one of {', '.join(Reduction)} is needed"
            )
        if reduce == Reduction.TOP_K:
            needed.add("top_k")
        for name in sorted(needed - set(self._group.attributes)):
            yield error(where, f"the attribute {name!r} is missing")
        names = {array.name for array in self._group.arrays}
        arrays = {WEIGHTS} if self._is_site else {VALUES}
        arrays |= {KEY_INDEX} if reduce == Reduction.TOP_K else set()
        arrays |= {SEQUENCE} if self._group.path == ATTRIBUTION else set()
        if len(self._samples) or not self._group.per_sample:
            for name in sorted(arrays - names):
                yield error(f"{where}/{name}", "the dataset is missing")

    def _arrays(self, holder: h5py.Group, number: int | None) -> Iterator[Problem]:
        """The arrays of all samples, or those of one sample's own."""
        problems = [*self._names(holder, number), *self._shapes(holder, number)]
        yield from problems or self._values(holder, number)

    def _names(self, holder: h5py.Group, number: int | None) -> Iterator[Problem]:
        """Whether samples and coordinates are called what they are called elsewhere in the file."""
        ids = self._samples.ids
        if number is None and strings(holder[SAMPLE]) != ids:
            yield error(f"{holder.name}/{SAMPLE}", "differs from /samples/id")
        if number is not None and (said := text_attribute(holder, SAMPLE)) != ids[number]:
            yield error(holder.name, f"says that it is of {said!r}, /samples says {ids[number]!r}")
        lengths = listed = None
        if number is not None:
            lengths, listed = self._samples.lengths(number), self._listed(number)
        for axis in self._group.axes:
            where, scale = f"{holder.name}/{axis.name}", holder[axis.name]
            if f"{axis.name}_name" in holder:
                for row, sample in enumerate(ids):
                    names = self._listed(row).get(axis.kind, [])
                    if strings(holder[f"{axis.name}_name"], row)[: len(names)] != list(map(str, names)):
                        yield error(f"{where}_name", f"{sample!r}: differs from what the file says elsewhere")
            expected: Any = axis_places(axis, lengths, listed)
            if axis.kind == "treatment" and self._treatments is not None:
                expected = self._treatments
            elif axis.name == HEAD and self._is_site:
                expected = self._group.attributes["heads"]
            is_text = h5py.check_string_dtype(scale.dtype) is not None
            if axis.edges is not None and (np.diff(axis.edges) <= 0).any():
                yield error(f"{where}_edges", "the edges do not increase")
            elif list(strings(scale) if is_text else scale[:]) != list(expected):
                yield error(where, "differs from what the file says elsewhere")

    def _listed(self, number: int) -> Mapping[str, Values]:
        return listed_places(self._layout.lists, lambda column: self._samples.lists[column.name][number])

    def _shapes(self, holder: h5py.Group, number: int | None) -> Iterator[Problem]:
        lengths = None if number is None else self._samples.lengths(number)
        before = () if number is not None else (len(self._samples),)
        for array in self._group.arrays:
            dataset, where = holder[array.name], f"{holder.name}/{array.name}"
            types = _TYPES.get(array.name, (str(dataset.dtype),))
            if str(dataset.dtype) not in types:
                yield error(where, f"has dtype {dataset.dtype}, {' or '.join(types)} is needed")
            shape = (*before, *self._group.shape(array, lengths))
            if dataset.shape != shape:
                yield error(where, f"has shape {dataset.shape}, {shape} is needed")

    def _values(self, holder: h5py.Group, number: int | None) -> Iterator[Problem]:
        """Read all values and report the first problem."""
        reported = False
        noun = "gene" if self._layout.inputs == PROMOTERS else "sample"
        for first, slab in self._slabs(holder, number):
            problem = None if reported else self._problem(slab, first)
            if problem is not None:
                name, place, message = problem
                sample = f"{noun} {self._samples.ids[first + place]!r}"
                yield error(f"{holder.name}/{name}", f"{sample}: {message}")
                reported = True
            self._progress.advance(len(next(iter(slab.values()))) if number is None else 0)

    def _slabs(self, holder: h5py.Group, number: int | None) -> Iterator[tuple[int, Slab]]:
        """Some megabytes of all arrays at a time, with the number of the first sample in them."""
        arrays = self._group.arrays
        if number is not None:
            # All arrays of a sample's own have one shape, so that one index is good for all.
            for index in slabs(holder[arrays[0].name].shape, max(array.itemsize for array in arrays)):
                yield number, {array.name: holder[array.name][index][None] for array in arrays}
            return
        step = max(1, SLAB_BYTES // max(1, self._group.bytes_of_sample()))
        for first in range(0, len(self._samples), step):
            yield first, {array.name: holder[array.name][first : first + step] for array in arrays}

    def _problem(self, slab: Slab, first: int) -> WrongValues:
        group = self._group
        for name, values in slab.items():
            finite = np.isfinite(values).reshape(len(values), -1).all(axis=1)
            if not finite.all():
                return name, int(np.argmin(finite)), "holds NaN or infinities"
        if group.path == ATTRIBUTION:
            return _attribution_problem(slab[VALUES], slab[SEQUENCE])
        if not self._is_site:
            return None
        if not group.ragged or group.per_sample:
            return _weights_problem(group, slab, self._samples.lengths(first) if group.ragged else None)
        for place in range(len(slab[WEIGHTS])):
            lengths = self._samples.lengths(first + place)
            own: dict[str, NDArray[Any]] = {}
            for array in group.arrays:
                values = slab[array.name][place]
                own[array.name] = values[group.within(array, lengths)][None]
                if np.count_nonzero(values) != np.count_nonzero(own[array.name]):
                    return array.name, place, "holds values behind its end"
            problem = _weights_problem(group, own, lengths)
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
    # Rounding to float16 moves each weight by up to 2^-11.
    tolerance = 2e-3 if weights.dtype == np.float16 else 1e-4
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
