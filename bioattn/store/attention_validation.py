"""Checking an attention file against its schema (`docs/formats/attention.md`), a few megabytes at a time."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bioattn.attention.site import AXES
from bioattn.errors import BioattnError
from bioattn.progress import NoProgress, Progress
from bioattn.store.attention_reader import require_attention
from bioattn.store.content_digest import CONTENT_DIGEST, content_digest
from bioattn.store.findings import Finding, error, warning
from bioattn.store.hdf5_access import damage_named, open_hdf5, require_self_contained, strings, text_attribute
from bioattn.store.schema import (
    DIGEST,
    KEY_EDGES,
    PREDICTIONS,
    QUERY_EDGES,
    SAMPLE_FIELDS,
    VALUE_WEIGHTED,
    WEIGHTS,
    Digest,
    Reduction,
    row_sum_tolerance,
)

SLAB_BYTES = 1 << 24
ROOT_TEXT = (
    "format",
    "format_version",
    "generated_by",
    "model_sha256",
    "input_sha256",
    "task",
    CONTENT_DIGEST,
)
WEIGHT_TYPES = (np.dtype(np.float32), np.dtype(np.float16))


def validate_attention(path: Path, progress: Progress | None = None) -> list[Finding]:
    """Everything wrong with an attention file; an empty list when it keeps its contract.

    Reads every value once: digests, sums of rows, NaN and infinities are checked beside names, shapes, dtypes and
    dimension scales. A file that cannot be read further is a finding too, never an exception.
    """
    progress = progress or NoProgress()
    findings: list[Finding] = []
    try:
        with open_hdf5(path) as file:
            require_attention(path, file)
            require_self_contained(path, file)
            findings += _root(file)
            if not all(isinstance(file.get(name), h5py.Group) for name in ("samples", "sites")):
                return findings
            total = sum(len(group[WEIGHTS]) for group in file["sites"].values() if WEIGHTS in group)
            progress.begin("checking", total)
            findings += _samples(file)
            ids = strings(file["samples/id"])
            treatments: list[str] = []
            if PREDICTIONS in file:
                findings += _predictions(file[PREDICTIONS], ids)
                treatments = strings(file[f"{PREDICTIONS}/treatment"])
            for name, group in file["sites"].items():
                with damage_named(path):
                    findings += _site(f"/sites/{name}", group, ids, treatments, progress)
    except BioattnError as problem:
        findings.append(error("", str(problem).removeprefix(f"{path}: ")))
    finally:
        progress.end()
    return findings


def _root(file: h5py.File) -> Iterator[Finding]:
    for name in ROOT_TEXT:
        if text_attribute(file, name) is None:
            yield error("/", f"the attribute {name!r} is missing or not text")
    if "window_length" not in file.attrs:
        yield error("/", "the attribute 'window_length' is missing")
    for name in ("samples", "sites"):
        if not isinstance(file.get(name), h5py.Group):
            yield error(f"/{name}", "the group is missing")
    stored = text_attribute(file, CONTENT_DIGEST)
    if stored is not None and stored != content_digest(file):
        yield error("/", f"{CONTENT_DIGEST} differs: an attribute, shape or dtype is not what was written")


def _samples(file: h5py.File) -> Iterator[Finding]:
    group = file["samples"]
    lengths = {}
    for name in SAMPLE_FIELDS:
        if not isinstance(group.get(name), h5py.Dataset):
            yield error(f"/samples/{name}", "the dataset is missing")
            return
        dataset = group[name]
        if dataset.ndim != 1:
            yield error(f"/samples/{name}", f"has {dataset.ndim} axes, one is needed")
            return
        lengths[name] = len(dataset)
        if name in ("start", "end"):
            if dataset.dtype.kind != "i":
                yield error(f"/samples/{name}", f"has dtype {dataset.dtype}, integers are needed")
                return
            yield from _digest_of(dataset, dataset[:])
        else:
            yield from _digest_of(dataset, strings(dataset))
    if len(set(lengths.values())) != 1:
        yield error("/samples", f"the datasets differ in length: {lengths}")
        return
    ids = strings(group["id"])
    twice = next((name for name, times in Counter(ids).items() if times > 1), None)
    if twice is not None:
        yield error("/samples/id", f"{twice!r} occurs more than once")
    start, end, strand = group["start"][:], group["end"][:], strings(group["strand"])
    for number, (name, direction) in enumerate(zip(ids, strand, strict=True)):
        if direction not in ("+", "-", "."):
            yield error("/samples/strand", f"gene {name!r} has {direction!r}, one of + - . is needed")
            return
        if direction != "." and not start[number] < end[number]:
            yield error("/samples", f"gene {name!r} has start {start[number]} and end {end[number]}")
            return


def _predictions(group: h5py.Group, ids: list[str]) -> Iterator[Finding]:
    where = f"/{PREDICTIONS}"
    for name in ("values", "sample", "treatment"):
        if not isinstance(group.get(name), h5py.Dataset):
            yield error(f"{where}/{name}", "the dataset is missing")
            return
    yield from _dimensions(f"{where}/values", group, group["values"], ("sample", "treatment"))
    yield from _names(f"{where}/sample", group.get("sample"), ids)
    yield from _digest_of(group["treatment"], strings(group["treatment"]))
    values = group["values"][:]
    yield from _digest_of(group["values"], values)
    if not np.isfinite(values).all():
        yield error(f"{where}/values", "holds NaN or infinities")


def _site(
    where: str, group: h5py.Group, ids: list[str], treatments: list[str], progress: Progress
) -> Iterator[Finding]:
    weights = group.get(WEIGHTS)
    if not isinstance(weights, h5py.Dataset):
        ragged = [name for name in group if name.startswith("s0")]
        hint = "; one dataset per sample is reserved for a later version" if ragged else ""
        yield error(f"{where}/{WEIGHTS}", f"the dataset is missing{hint}")
        return
    dims = tuple(str(dim.label) for dim in weights.dims)
    if not dims or dims[0] != "sample" or dims[-1] != "key" or dims != tuple(a for a in AXES if a in dims):
        yield error(f"{where}/{WEIGHTS}", f"has axes {dims}, a selection of {AXES} in this order is needed")
        return
    if weights.shape[0] != len(ids):
        yield error(f"{where}/{WEIGHTS}", f"has {weights.shape[0]:,} samples, /samples has {len(ids):,}")
        return
    if weights.dtype not in WEIGHT_TYPES:
        yield error(f"{where}/{WEIGHTS}", f"has dtype {weights.dtype}, float32 or float16 is needed")
        return
    reduce = text_attribute(group, "reduce")
    if reduce not in tuple(Reduction):
        yield error(where, f"the attribute 'reduce' is {reduce!r}, one of {', '.join(Reduction)} is needed")
        return
    for name in ("heads", "sink"):
        if name not in group.attrs:
            yield error(where, f"the attribute {name!r} is missing")
            return
    yield from _dimensions(f"{where}/{WEIGHTS}", group, weights, dims)
    yield from _names(f"{where}/sample", group.get("sample"), ids)
    yield from _axes(where, group, weights, dims, treatments)
    sums_to_one = Reduction(reduce) is not Reduction.MAX_HEADS
    yield from _values(f"{where}/{WEIGHTS}", weights, sums_to_one, bool(group.attrs["sink"]), ids, progress)
    extra = group.get(VALUE_WEIGHTED)
    if extra is not None:
        if extra.shape != weights.shape or extra.dtype != weights.dtype:
            yield error(f"{where}/{VALUE_WEIGHTED}", f"has shape {extra.shape}, weights have {weights.shape}")
            return
        yield from _dimensions(f"{where}/{VALUE_WEIGHTED}", group, extra, dims)
        yield from _values(f"{where}/{VALUE_WEIGHTED}", extra, None, False, ids, NoProgress())


def _dimensions(
    where: str, group: h5py.Group, dataset: h5py.Dataset, dims: tuple[str, ...]
) -> Iterator[Finding]:
    """Every axis has a label and a scale of its name, in the same group, of its length."""
    if dataset.ndim != len(dims):
        yield error(where, f"has {dataset.ndim} axes, {dims} are needed")
        return
    for axis, name in enumerate(dims):
        if not isinstance(group.get(name), h5py.Dataset):
            yield error(f"{group.name}/{name}", "the dimension scale is missing")
            continue
        scales = [scale.name for scale in dataset.dims[axis].values()]
        if dataset.dims[axis].label != name or f"{group.name}/{name}" not in scales:
            yield error(where, f"axis {axis} is not labelled {name!r} with the scale {group.name}/{name}")
        elif len(group[name]) != dataset.shape[axis]:
            yield error(f"{group.name}/{name}", f"has {len(group[name])} values for {dataset.shape[axis]}")


def _axes(
    where: str, group: h5py.Group, weights: h5py.Dataset, dims: tuple[str, ...], treatments: list[str]
) -> Iterator[Finding]:
    """Coordinates other than sample."""
    for axis, name in enumerate(dims[1:], start=1):
        if not isinstance(group.get(name), h5py.Dataset):
            continue  # reported with the dimensions
        if name == "treatment":
            yield from _names(f"{where}/treatment", group[name], treatments or strings(group[name]))
        else:
            yield from _digest_of(group[name], group[name][:])
        edges = group.get({"key": KEY_EDGES, "query": QUERY_EDGES}.get(name, ""))
        if edges is None:
            continue
        values = edges[:]
        yield from _digest_of(edges, values)
        if len(values) != weights.shape[axis] + 1:
            yield error(edges.name, f"has {len(values)} edges for {weights.shape[axis]} bins")
        elif (np.diff(values) <= 0).any():
            yield error(edges.name, "the edges do not increase")
        elif not np.array_equal(group[name][:], (values[:-1] + values[1:]) / 2):
            yield error(f"{where}/{name}", f"is not the middle of the bins of {edges.name}")


def _values(
    where: str,
    dataset: h5py.Dataset,
    sums_to_one: bool | None,
    sink: bool,
    ids: list[str],
    progress: Progress,
) -> Iterator[Finding]:
    """Digest, finiteness, range and row sums of one large array; `sums_to_one` None = rows are not weights."""
    digest = Digest()
    per_sample = max(1, dataset.size // max(1, len(dataset)) * dataset.dtype.itemsize)
    step = max(1, SLAB_BYTES // per_sample)
    tolerance = row_sum_tolerance(dataset.dtype)
    reported = False
    for first in range(0, len(dataset), step):
        slab = dataset[first : first + step]
        digest.add(slab)
        progress.advance(len(slab))
        if not reported:
            problem = _slab_problem(slab, sums_to_one, sink, tolerance)
            if problem is not None:
                sample, message = problem
                yield error(where, f"gene {ids[first + sample]!r}: {message}")
                reported = True
    if text_attribute(dataset, DIGEST) != digest.hexdigest():
        yield error(where, f"the values are not those that were written ({DIGEST} differs)")


def _slab_problem(
    slab: NDArray[np.floating], sums_to_one: bool | None, sink: bool, tolerance: float
) -> tuple[int, str] | None:
    """The first sample whose values are impossible, and why."""
    by_sample = slab.reshape(len(slab), -1)
    finite = np.isfinite(by_sample).all(axis=1)
    if not finite.all():
        return int(np.argmin(finite)), "holds NaN or infinities"
    negative = (by_sample < 0).any(axis=1)
    if negative.any():
        return int(np.argmax(negative)), "holds negative values"
    if sums_to_one is None:
        return None
    sums = slab.sum(axis=-1, dtype=np.float32).reshape(len(slab), -1)
    # With a sink a row may lose mass to it; a maximum over heads may only gain.
    low = 0.0 if sink else 1 - tolerance
    high = 1 + tolerance if sums_to_one else np.inf
    wrong = (sums < low) | (sums > high)
    if not wrong.any():
        return None
    sample = int(np.argmax(wrong.any(axis=1)))
    worst = float(sums[sample][np.argmax(wrong[sample])])
    return sample, f"a row of weights sums to {worst:.6g}"


def _names(where: str, dataset: Any, wanted: list[str]) -> Iterator[Finding]:
    if not isinstance(dataset, h5py.Dataset):
        return  # reported with the dimensions
    found = strings(dataset)
    yield from _digest_of(dataset, found)
    if found != wanted:
        yield error(where, "differs from the names elsewhere in the file")


def _digest_of(dataset: h5py.Dataset, values: Any) -> Iterator[Finding]:
    digest = Digest()
    digest.add(values)
    stored = text_attribute(dataset, DIGEST)
    if stored is None:
        yield warning(dataset.name, f"has no {DIGEST}, so damage to it cannot be seen")
    elif stored != digest.hexdigest():
        yield error(dataset.name, f"the values are not those that were written ({DIGEST} differs)")
