"""Checking an attention file against its schema (`docs/formats/attention.md`), a few megabytes at a time."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np

from bioattn.attention.site import AXES
from bioattn.errors import BioattnError
from bioattn.io.hdf5_input import damage_named, open_hdf5, strings, text_attribute
from bioattn.store.alignment_attention_reader import is_over_alignments
from bioattn.store.alignment_attention_validation import validate_alignments
from bioattn.store.attention_checks import WEIGHT_TYPES, digest_of, dimensions, names, slab_problem
from bioattn.store.attention_reader import require_attention
from bioattn.store.choices import Reduction
from bioattn.store.content_digest import CONTENT_DIGEST, content_digest
from bioattn.store.findings import Finding, error
from bioattn.store.schema import (
    DIGEST,
    KEY_EDGES,
    PREDICTIONS,
    QUERY_EDGES,
    SAMPLE_FIELDS,
    VALUE_WEIGHTED,
    WEIGHTS,
    Digest,
    row_sum_tolerance,
)
from bioattn.store.window_coordinates import downstream_fits
from bioattn.system.progress import NoProgress, Progress

SLAB_BYTES = 1 << 24
ROOT_TEXT = ("format", "format_version", "generated_by", "model_sha256", CONTENT_DIGEST)
PROMOTER_ROOT_TEXT = ("input_sha256", "task")


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
            findings += _root(file)
            if not all(isinstance(file.get(name), h5py.Group) for name in ("samples", "sites")):
                return findings
            if is_over_alignments(file):
                findings += validate_alignments(file, progress)
                return findings
            total = sum(len(group[WEIGHTS]) for group in file["sites"].values() if WEIGHTS in group)
            progress.begin("checking", total)
            findings += sample_findings(file)
            ids = strings(file["samples/id"])
            treatments: list[str] = []
            if PREDICTIONS in file:
                findings += prediction_findings(file[PREDICTIONS], ids)
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
    promoters = not is_over_alignments(file)
    for name in (*ROOT_TEXT, *(PROMOTER_ROOT_TEXT if promoters else ())):
        if text_attribute(file, name) is None:
            yield error("/", f"the attribute {name!r} is missing or not text")
    if promoters and "window_length" not in file.attrs:
        yield error("/", "the attribute 'window_length' is missing")
    if not downstream_fits(file):
        yield error("/", "the attribute 'downstream' is no number of positions of the window")
    for name in ("samples", "sites"):
        if not isinstance(file.get(name), h5py.Group):
            yield error(f"/{name}", "the group is missing")
    stored = text_attribute(file, CONTENT_DIGEST)
    if stored is not None and stored != content_digest(file):
        yield error("/", f"{CONTENT_DIGEST} differs: an attribute, shape or dtype is not what was written")


def sample_findings(file: h5py.File) -> Iterator[Finding]:
    """What is wrong with the names and places of the samples of a file over promoters."""
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
            yield from digest_of(dataset, dataset[:])
        else:
            yield from digest_of(dataset, strings(dataset))
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


def prediction_findings(group: h5py.Group, ids: list[str]) -> Iterator[Finding]:
    """What is wrong with the predictions of samples `ids`."""
    where = f"/{PREDICTIONS}"
    for name in ("values", "sample", "treatment"):
        if not isinstance(group.get(name), h5py.Dataset):
            yield error(f"{where}/{name}", "the dataset is missing")
            return
    yield from dimensions(f"{where}/values", group, group["values"], ("sample", "treatment"))
    yield from names(f"{where}/sample", group.get("sample"), ids)
    yield from digest_of(group["treatment"], strings(group["treatment"]))
    values = group["values"][:]
    yield from digest_of(group["values"], values)
    if not np.isfinite(values).all():
        yield error(f"{where}/values", "holds NaN or infinities")


def _site(
    where: str, group: h5py.Group, ids: list[str], treatments: list[str], progress: Progress
) -> Iterator[Finding]:
    weights = group.get(WEIGHTS)
    if not isinstance(weights, h5py.Dataset):
        yield error(f"{where}/{WEIGHTS}", "the dataset is missing")
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
    yield from dimensions(f"{where}/{WEIGHTS}", group, weights, dims)
    yield from names(f"{where}/sample", group.get("sample"), ids)
    yield from _axes(where, group, weights, dims, treatments)
    sums_to_one = Reduction(reduce) is not Reduction.MAX_HEADS
    yield from _values(f"{where}/{WEIGHTS}", weights, sums_to_one, bool(group.attrs["sink"]), ids, progress)
    extra = group.get(VALUE_WEIGHTED)
    if extra is not None:
        if extra.shape != weights.shape or extra.dtype != weights.dtype:
            yield error(f"{where}/{VALUE_WEIGHTED}", f"has shape {extra.shape}, weights have {weights.shape}")
            return
        yield from dimensions(f"{where}/{VALUE_WEIGHTED}", group, extra, dims)
        yield from _values(f"{where}/{VALUE_WEIGHTED}", extra, None, False, ids, NoProgress())


def _axes(
    where: str, group: h5py.Group, weights: h5py.Dataset, dims: tuple[str, ...], treatments: list[str]
) -> Iterator[Finding]:
    """Coordinates other than sample."""
    for axis, name in enumerate(dims[1:], start=1):
        if not isinstance(group.get(name), h5py.Dataset):
            continue  # reported with the dimensions
        if name == "treatment":
            yield from names(f"{where}/treatment", group[name], treatments or strings(group[name]))
        else:
            yield from digest_of(group[name], group[name][:])
        edges = group.get({"key": KEY_EDGES, "query": QUERY_EDGES}.get(name, ""))
        if edges is None:
            continue
        values = edges[:]
        yield from digest_of(edges, values)
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
    bounds = None
    if sums_to_one is not None:
        # With a sink a row may lose mass to it; a maximum over heads may only gain.
        bounds = (0.0 if sink else 1 - tolerance, 1 + tolerance if sums_to_one else np.inf)
    reported = False
    for first in range(0, len(dataset), step):
        slab = dataset[first : first + step]
        digest.add(slab)
        progress.advance(len(slab))
        if not reported:
            problem = slab_problem(slab, bounds)
            if problem is not None:
                sample, message = problem
                yield error(where, f"gene {ids[first + sample]!r}: {message}")
                reported = True
    if text_attribute(dataset, DIGEST) != digest.hexdigest():
        yield error(where, f"the values are not those that were written ({DIGEST} differs)")
