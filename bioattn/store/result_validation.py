"""Checking files of results: what is read of them must fit together (`docs/formats/attention.md`).

That bytes are those that were written is HDF5's to check (every value is read once), and what cannot be read
the reader's to say. Here names and shapes are held against the samples, and values against what they promise: rows
of weights sum to 1, values of attribution to 0.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bioattn.choices import Reduction
from bioattn.errors import BioattnError
from bioattn.io.hdf5 import damage_named, open_hdf5, strings, text_attribute
from bioattn.store import schema
from bioattn.store.attribution import ATTRIBUTION, SEQUENCE, VALUES
from bioattn.store.contents import Stored, read_samples
from bioattn.store.kinds import Problem
from bioattn.store.shards import UNFINISHED
from bioattn.store.windows import PROMOTERS
from bioattn.system.progress import SILENT, Progress

_NEEDED = {
    schema.FORMAT: ("generated_by", "model_sha256", "inputs"),
    schema.ATTRIBUTION_FORMAT: ("generated_by", "model_sha256", "inputs", "method", "method_settings"),
}
_NEEDED_OF_PROMOTERS = ("input_sha256", "task", "window_length")
_CENTRED = 1e-5
"""How far the values of a position may sum from 0, as a share of the largest of them."""

Slab = Mapping[str, NDArray[Any]]


def validate_results(path: Path, progress: Progress = SILENT) -> list[Problem]:
    """Everything wrong with a file of attention or attribution; an empty list when it keeps its contract.

    A file that cannot be read further is a problem too, never an exception.
    """
    problems: list[Problem] = []
    try:
        with open_hdf5(path) as file:
            is_attribution = text_attribute(file, "format") == schema.ATTRIBUTION_FORMAT
            layout = Stored(path, file, schema.ATTRIBUTION_FORMAT if is_attribution else schema.FORMAT).layout
            samples = read_samples(file, layout.columns, layout.lists)
            problems += _table_problems(file, layout, samples)
            if problems:
                return problems  # the shapes of all arrays follow from the samples
            progress.begin("checking", len(layout.groups) * len(samples))
            for group in layout.groups:
                with damage_named(path):
                    problems += _group_problems(file[group.path], group, samples, progress)
            if UNFINISHED in file.attrs:
                problems.append(Problem("", "is unfinished: repeat the command that made it with --resume"))
    except BioattnError as problem:
        problems.append(Problem("", str(problem).removeprefix(f"{path}: ")))
    finally:
        progress.end()
    return problems


def _table_problems(file: h5py.File, layout: schema.FileLayout, samples: schema.Samples) -> Iterator[Problem]:
    """What is wrong with the attributes of the root, and with the names and lists of the samples."""
    for name in _NEEDED[layout.format] + (_NEEDED_OF_PROMOTERS if layout.inputs == PROMOTERS else ()):
        if name not in file.attrs:
            yield Problem("/", f"the attribute {name!r} is missing")
    if layout.format == schema.ATTRIBUTION_FORMAT and all(
        group.path != ATTRIBUTION for group in layout.groups
    ):
        yield Problem(f"/{ATTRIBUTION}", "the group is missing")
    columns = samples.columns
    if len({len(values) for values in columns.values()}) > 1:
        yield Problem("/samples", "the columns differ in length")
        return
    twice = next((name for name, times in Counter(samples.ids).items() if times > 1), None)
    if twice is not None:
        yield Problem("/samples/id", f"{twice!r} occurs more than once")
    for listed in layout.lists:
        for number, (values, length) in enumerate(
            zip(samples.lists[listed.name], columns[listed.lengths], strict=True)
        ):
            has = 0 if values is None else len(values)
            if has != length and not (values is None and listed.dtype == schema.TEXT):  # names are optional
                where = f"/samples/{listed.name}/{schema.sample_group(number)}"
                yield Problem(where, f"has {has} entries for {length} {listed.lengths}")


def _group_problems(
    holder: h5py.Group, group: schema.GroupLayout, samples: schema.Samples, progress: Progress
) -> Iterator[Problem]:
    if not group.per_sample:
        if strings(holder[schema.SAMPLE]) != samples.ids:
            yield Problem(f"{holder.name}/{schema.SAMPLE}", "differs from /samples/id")
        yield from _array_problems(holder, group, samples, None, progress)
        return
    names = [schema.sample_group(number) for number in range(len(samples))]
    for name in sorted({*names} ^ {*holder}):
        yield Problem(f"{holder.name}/{name}", "is missing" if name in names else "belongs to no sample")
    for number, name in enumerate(names):
        if name in holder:
            if (said := text_attribute(holder[name], schema.SAMPLE)) != samples.ids[number]:
                where = f"{holder.name}/{name}"
                yield Problem(where, f"says that it is of {said!r}, /samples says {samples.ids[number]!r}")
            yield from _array_problems(holder[name], group, samples, number, progress)
        progress.advance()


def _array_problems(
    holder: h5py.Group,
    group: schema.GroupLayout,
    samples: schema.Samples,
    number: int | None,
    progress: Progress,
) -> Iterator[Problem]:
    """Wrong shapes, or the first wrong value, of the arrays of all samples, or of those of the sample `number`."""
    lengths = None if number is None else samples.lengths(number)
    before = () if number is not None else (len(samples),)
    fits = True
    for array in group.arrays:
        found = holder[array.name].shape if array.name in holder else None
        shape = (*before, *group.shape(array, lengths))
        if found != shape:
            fits = False
            wrong = "the dataset is missing" if found is None else f"has shape {found}, {shape} is needed"
            yield Problem(f"{holder.name}/{array.name}", wrong)
    told = not fits
    for first, slab in _slabs(holder, group, len(samples), number) if fits else ():
        problem = None if told else _wrong_value(group, slab, samples, first)
        if problem is not None:
            name, place, message = problem
            yield Problem(f"{holder.name}/{name}", f"{samples.ids[first + place]!r}: {message}")
            told = True
        progress.advance(len(next(iter(slab.values()))) if number is None else 0)


def _slabs(
    holder: h5py.Group, group: schema.GroupLayout, num_samples: int, number: int | None
) -> Iterator[tuple[int, Slab]]:
    """Some megabytes of all arrays at a time, with the number of the first sample in them."""
    arrays = group.arrays
    if number is not None:
        # All arrays of a sample's own have one shape, so that one index is good for all.
        for index in schema.slabs(holder[arrays[0].name].shape, max(array.itemsize for array in arrays)):
            yield number, {array.name: holder[array.name][index][None] for array in arrays}
        return
    step = max(1, schema.SLAB_BYTES // max(1, group.bytes_of_sample()))
    for first in range(0, num_samples, step):
        yield first, {array.name: holder[array.name][first : first + step] for array in arrays}


def _wrong_value(
    group: schema.GroupLayout, slab: Slab, samples: schema.Samples, first: int
) -> tuple[str, int, str] | None:
    """The name of an array, the place of the first sample whose values are impossible, and why."""
    for name, values in slab.items():
        finite = np.isfinite(values).reshape(len(values), -1).all(axis=1)
        if not finite.all():
            return name, int(np.argmin(finite)), "holds NaN or infinities"
    checks: list[tuple[str, NDArray[np.bool_], str]] = []
    if group.path == ATTRIBUTION:
        values = slab[VALUES]
        tolerance = _CENTRED * (np.abs(values).max(axis=-1) + np.finfo(np.float32).tiny)
        sums = np.abs(values.sum(axis=-1, dtype=np.float64))
        checks = [
            (SEQUENCE, slab[SEQUENCE] > 4, "holds codes above 4"),
            (VALUES, sums > tolerance, "values of a position do not sum to 0"),
        ]
    elif schema.WEIGHTS in slab:
        stored = [name for name in (schema.WEIGHTS, schema.VALUE_WEIGHTED) if name in slab]
        checks = [(name, slab[name] < 0, "holds negative values") for name in stored]
        sums = slab[schema.WEIGHTS].sum(axis=-1, dtype=np.float32)
        # Rounding to float16 moves each weight by up to 2^-11.
        error, reduce = 2e-3 if slab[schema.WEIGHTS].dtype == np.float16 else 1e-4, group.attributes["reduce"]
        low = 0.0 if group.attributes.get("sink") or reduce == Reduction.TOP_K else 1 - error
        high = np.inf if reduce in (Reduction.MAX_HEADS, Reduction.MAX_ROWS) else 1 + error
        wrong = (sums < low) | (sums > high)
        if group.ragged and not group.per_sample:  # rows behind a sample's end are 0
            weights = next(array for array in group.arrays if array.name == schema.WEIGHTS)
            for place in range(len(wrong)):
                *within, _ = group.within(weights, samples.lengths(first + place))
                inside = np.zeros_like(wrong[place])
                inside[tuple(within)] = True
                wrong[place] &= inside
        worst = f" to {sums[wrong].flat[0]:.6g}" if wrong.any() else ""
        checks.append((schema.WEIGHTS, wrong, f"a row of weights sums{worst}"))
    for name, wrong, message in checks:
        by_sample = wrong.reshape(len(wrong), -1).any(axis=1)
        if by_sample.any():
            return name, int(np.argmax(by_sample)), message
    return None
