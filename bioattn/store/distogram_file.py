"""Describing and checking the HDF5 files of a prediction: distances and representations
(`docs/formats/evoformer-output.md`)."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from bioattn.errors import FormatError
from bioattn.io.hdf5_input import open_hdf5, text_attribute
from bioattn.io.seal import check_seal
from bioattn.store.findings import Finding, error

DISTOGRAM_FORMAT = "bioattn-distogram"
REPRESENTATIONS_FORMAT = "bioattn-representations"
FORMAT_VERSION = 1
_ROWS_AT_ONCE = 64
_SCALES = ("column_i", "column_j", "residue_number")
_SYMMETRIC = ("contact_probability", "expected_distance")
_TOLERANCE = 1e-3


def describe_prediction_file(path: Path) -> dict[str, Any]:
    """Main figures of either file. Raises: FormatError when it is damaged."""
    sealed = check_seal(path)
    with open_hdf5(path) as file:
        arrays = {
            name: " × ".join(map(str, node.shape))
            for name, node in file.items()
            if isinstance(node, h5py.Dataset) and node.ndim > 1
        }
        columns = len(file["column_i"])
        return {
            "format_version": int(file.attrs.get("format_version", 0)),
            "generated_by": text_attribute(file, "generated_by"),
            "id": text_attribute(file, "id"),
            "target": text_attribute(file, "target"),
            "columns": columns,
            "model_sha256": text_attribute(file, "model_sha256"),
            "input_sha256": text_attribute(file, "input_sha256"),
            "sealed": sealed,
            "arrays": arrays,
        }


def validate_prediction_file(path: Path) -> list[Finding]:
    """What is wrong with either file: its seal, shapes, numbers that are none, probabilities that sum to no 1."""
    try:
        with open_hdf5(path) as file:
            return _check(file)
    except FormatError as problem:
        return [error("", str(problem).removeprefix(f"{path}: "))]


def _check(file: h5py.File) -> list[Finding]:
    kind = text_attribute(file, "format")
    version = int(file.attrs.get("format_version", 0))
    if version != FORMAT_VERSION:
        return [error("", f"has format version {version}, this bioattn reads {FORMAT_VERSION}")]
    required = [*_SCALES]
    if kind == DISTOGRAM_FORMAT:
        required += ["bin_edge", "probability", *_SYMMETRIC]
    missing = [error(name, "is missing") for name in required if name not in file]
    if missing:
        return missing
    size = len(file["column_i"])
    findings = []
    columns = file["column_i"][()]
    if np.any(np.diff(columns) <= 0) or (size and columns[0] < 1):
        findings.append(error("column_i", "columns must ascend from 1 on"))
    for name, node in file.items():
        if node.ndim < 2:
            continue
        if kind == DISTOGRAM_FORMAT and node.shape[:2] != (size, size):
            findings.append(error(name, f"has shape {node.shape} for {size} columns"))
            continue
        for start in range(0, len(node), _ROWS_AT_ONCE):
            part = node[start : start + _ROWS_AT_ONCE]
            if not np.isfinite(part).all():
                findings.append(error(name, "holds NaN or infinite values"))
                break
            if name == "probability" and np.any(np.abs(part.sum(-1) - 1) > _TOLERANCE):
                findings.append(error(name, f"does not sum to 1 in rows {start} and on"))
                break
    if kind == DISTOGRAM_FORMAT and not findings:
        for name in _SYMMETRIC:
            values = file[name][()]
            if np.any(np.abs(values - values.T) > _TOLERANCE * (1 + np.abs(values))):
                findings.append(error(name, "is not symmetric"))
    return findings
