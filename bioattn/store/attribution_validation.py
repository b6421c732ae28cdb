"""Checking an attribution file against its schema (`docs/formats/attribution.md`), a few megabytes at a time."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bioattn.errors import BioattnError
from bioattn.io.hdf5_input import open_hdf5, strings, text_attribute
from bioattn.store.attention_checks import digest_of, dimensions, names
from bioattn.store.attention_validation import prediction_findings, sample_findings
from bioattn.store.attribution_reader import require_attribution
from bioattn.store.attribution_schema import ATTRIBUTION, BASES, GAP, SEQUENCE, VALUE_DIMS, VALUES
from bioattn.store.choices import Method
from bioattn.store.content_digest import CONTENT_DIGEST, content_digest
from bioattn.store.findings import Finding, error
from bioattn.store.schema import DIGEST, PREDICTIONS, Digest
from bioattn.store.window_coordinates import downstream_fits
from bioattn.system.progress import NoProgress, Progress

SLAB_BYTES = 1 << 24
ROOT_TEXT = (
    "format",
    "format_version",
    "generated_by",
    "model_sha256",
    "input_sha256",
    "task",
    "method_settings",
    CONTENT_DIGEST,
)
CENTRED = 1e-5
"""How far the values of a position may sum from 0, as a share of the largest of them."""


def validate_attribution(path: Path, progress: Progress | None = None) -> list[Finding]:
    """Everything wrong with an attribution file; an empty list when it keeps its contract.

    Reads every value once: digests, sums over bases, zeros at N, NaN and infinities are checked beside names,
    shapes, dtypes and dimension scales. A file that cannot be read further is a finding too, never an exception.
    """
    progress = progress or NoProgress()
    findings: list[Finding] = []
    try:
        with open_hdf5(path) as file:
            require_attribution(path, file)
            findings += _root(file)
            if not all(
                isinstance(file.get(name), h5py.Group) for name in ("samples", ATTRIBUTION, PREDICTIONS)
            ):
                return findings
            findings += sample_findings(file)
            ids = strings(file["samples/id"])
            findings += prediction_findings(file[PREDICTIONS], ids)
            findings += _attribution(file, ids, progress)
    except BioattnError as problem:
        findings.append(error("", str(problem).removeprefix(f"{path}: ")))
    finally:
        progress.end()
    return findings


def _root(file: h5py.File) -> Iterator[Finding]:
    for name in ROOT_TEXT:
        if text_attribute(file, name) is None:
            yield error("/", f"the attribute {name!r} is missing or not text")
    method = text_attribute(file, "method")
    if method not in tuple(Method):
        yield error("/", f"the attribute 'method' is {method!r}, one of {', '.join(Method)} is needed")
    if "window_length" not in file.attrs:
        yield error("/", "the attribute 'window_length' is missing")
    if not downstream_fits(file):
        yield error("/", "the attribute 'downstream' is no number of positions of the window")
    for name in ("samples", ATTRIBUTION, PREDICTIONS):
        if not isinstance(file.get(name), h5py.Group):
            yield error(f"/{name}", "the group is missing")
    stored = text_attribute(file, CONTENT_DIGEST)
    if stored is not None and stored != content_digest(file):
        yield error("/", f"{CONTENT_DIGEST} differs: an attribute, shape or dtype is not what was written")


def _attribution(file: h5py.File, ids: list[str], progress: Progress) -> Iterator[Finding]:
    group = file[ATTRIBUTION]
    where = f"/{ATTRIBUTION}"
    kinds: dict[str, tuple[tuple[str, ...], Any]] = {
        VALUES: (VALUE_DIMS, np.float32),
        SEQUENCE: (("sample", "position"), np.uint8),
    }
    if GAP in group:
        kinds[GAP] = (("sample", "treatment"), np.float32)
    for name, (dims, kind) in kinds.items():
        dataset = group.get(name)
        if not isinstance(dataset, h5py.Dataset):
            yield error(f"{where}/{name}", "the dataset is missing")
            return
        if dataset.dtype != kind:
            yield error(f"{where}/{name}", f"has dtype {dataset.dtype}, {np.dtype(kind)} is needed")
            return
        problems = list(dimensions(f"{where}/{name}", group, dataset, dims))
        if problems:
            yield from problems
            return
    yield from names(f"{where}/sample", group["sample"], ids)
    yield from names(f"{where}/treatment", group["treatment"], strings(file[f"{PREDICTIONS}/treatment"]))
    yield from names(f"{where}/base", group["base"], list(BASES))
    yield from digest_of(group["position"], group["position"][:])
    if len(group["position"]) != file.attrs.get("window_length"):
        yield error(f"{where}/position", "has another length than the attribute window_length")
    if GAP in group:
        gap = group[GAP][:]
        yield from digest_of(group[GAP], gap)
        if not np.isfinite(gap).all():
            yield error(f"{where}/{GAP}", "holds NaN or infinities")
    yield from _values(group, ids, progress)


def _values(group: h5py.Group, ids: list[str], progress: Progress) -> Iterator[Finding]:
    values, sequence = group[VALUES], group[SEQUENCE]
    digests = {VALUES: Digest(), SEQUENCE: Digest()}
    step = max(1, SLAB_BYTES // max(1, 4 * values.size // max(1, len(values))))
    progress.begin("checking", len(values))
    reported = False
    for first in range(0, len(values), step):
        slab, codes = values[first : first + step], sequence[first : first + step]
        digests[VALUES].add(slab)
        digests[SEQUENCE].add(codes)
        progress.advance(len(slab))
        problem = None if reported else _problem(slab, codes)
        if problem is not None:
            sample, message = problem
            yield error(f"/{ATTRIBUTION}", f"gene {ids[first + sample]!r}: {message}")
            reported = True
    for name, digest in digests.items():
        if text_attribute(group[name], DIGEST) != digest.hexdigest():
            yield error(
                f"/{ATTRIBUTION}/{name}", f"the values are not those that were written ({DIGEST} differs)"
            )


def _problem(values: NDArray[np.float32], codes: NDArray[np.uint8]) -> tuple[int, str] | None:
    """The first sample whose values are impossible, and why."""
    tolerance = CENTRED * (np.abs(values).max(axis=-1) + np.finfo(np.float32).tiny)
    checks = (
        (codes > 4, "holds codes above 4"),
        (~np.isfinite(values), "holds NaN or infinities"),
        (np.abs(values.sum(axis=-1, dtype=np.float64)) > tolerance, "values of a position do not sum to 0"),
        ((codes > 3)[:, None, :, None] & (values != 0), "has values where the sequence is N"),
    )
    for wrong, message in checks:
        by_sample = wrong.reshape(len(wrong), -1).any(axis=1)
        if by_sample.any():
            return int(np.argmax(by_sample)), message
    return None
