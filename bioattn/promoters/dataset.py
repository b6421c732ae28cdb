"""The promoter dataset: sequences, responses, treatments and splits in one HDF5 file, enough to train from.

The schema is written down in `docs/formats/dataset.md`. The file is sealed (`bioattn.io.seal`), every array
carries the SHA-256 of its content and the root one of the attributes: a flipped bit or a later edit is found and
named when the file is read.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import h5py
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn import __version__
from bioattn.errors import BioattnError, FormatError
from bioattn.formats.checked_arrays import (
    DAMAGE,
    CheckedArrays,
    canonical_json,
    encode_text,
    other_format,
    plain,
    put_array,
)
from bioattn.io.files import parse_json, unreadable
from bioattn.io.seal import check_seal, write_sealed
from bioattn.io.self_contained import require_self_contained
from bioattn.promoters.treatments import TreatmentTable
from bioattn.text import counted

DATASET_FORMAT = "bioattn-promoter-dataset"
DATASET_VERSION = 1
TRAIN, VALIDATION, TEST = 0, 1, 2
SPLIT_NAMES = ("train", "validation", "test")

Task = Literal["regression", "binary"]

_HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class PromoterDataset:
    """Promoters × treatments: everything a promoter model is trained on."""

    gene_ids: list[str]
    """Unique; the order of all arrays along genes."""
    chrom: list[str]
    """"" where the promoter FASTA gave no location."""
    start: NDArray[np.int64]
    """0-based first base of the window without flanks; -1 where there is no location."""
    end: NDArray[np.int64]
    """Base after the last one of the window without flanks; -1 where there is no location."""
    strand: list[str]
    """`+`, `-` or `.`."""
    codes: NDArray[np.uint8]
    """(genes, length + 2 * flank): A=0 C=1 G=2 T=3 N=4, 5'->3' in gene orientation; shorter promoters are padded
    with N on the left, so that the anchor stays in one column."""
    flank: int
    """Extra bases on each side of the window, for shifted training samples."""
    targets: NDArray[np.float32]
    """(genes, treatments): responses, or 0/1 for the binary task; NaN = missing."""
    treatments: TreatmentTable
    gene_split: NDArray[np.uint8]
    """(genes,): TRAIN, VALIDATION or TEST."""
    treatment_split: NDArray[np.uint8]
    """(treatments,): likewise; all TRAIN unless treatments were held out."""
    task: Task
    metadata: dict[str, Any]
    """What made the dataset (settings, counts, leakage between the splits); JSON types only."""
    standard_error: NDArray[np.float32] | None = None
    """(genes, treatments): standard errors of the targets, in their units, where the tables gave them."""
    target_mean: NDArray[np.float64] | None = None
    """(treatments,): subtracted from the responses when they were standardised; None = they were not."""
    target_sd: NDArray[np.float64] | None = None
    """(treatments,): the responses were divided by it; response = target * target_sd + target_mean."""

    def __post_init__(self) -> None:
        problem = next(iter(_shape_problems(self)), None)
        if problem:
            raise BioattnError(f"promoter dataset: {problem}")

    @property
    def length(self) -> int:
        """Bases of a window without flanks."""
        return int(self.codes.shape[1]) - 2 * self.flank

    @property
    def num_genes(self) -> int:
        """Promoters in the dataset."""
        return len(self.gene_ids)

    @property
    def num_treatments(self) -> int:
        """Treatments in the dataset."""
        return int(self.targets.shape[1])

    def genes_in(self, split: int) -> NDArray[np.int64]:
        """Rows of the genes on one side of the split (TRAIN, VALIDATION or TEST)."""
        return np.flatnonzero(self.gene_split == split)

    def treatments_in(self, split: int) -> NDArray[np.int64]:
        """Columns of the treatments on one side of the split."""
        return np.flatnonzero(self.treatment_split == split)


def write_dataset(path: Path, dataset: PromoterDataset) -> None:
    """Write `dataset` as HDF5, whole or not at all; the same dataset gives the same bytes.

    Raises: BioattnError when the file cannot be written or the metadata are not JSON.
    """
    attributes = {
        "format": DATASET_FORMAT,
        "format_version": DATASET_VERSION,
        "generated_by": f"bioattn {__version__}",
        "task": dataset.task,
        "length": dataset.length,
        "flank": dataset.flank,
        "treatment_index": str(dataset.treatments.frame.index.name or "treatment"),
    }
    write_sealed(path, lambda file: _fill(file, dataset, attributes))


def _fill(file: h5py.File, dataset: PromoterDataset, attributes: dict[str, Any]) -> None:
    put_array(file, "genes/id", encode_text(dataset.gene_ids))
    put_array(file, "genes/chrom", encode_text(dataset.chrom))
    put_array(file, "genes/start", dataset.start.astype("<i8"))
    put_array(file, "genes/end", dataset.end.astype("<i8"))
    put_array(file, "genes/strand", encode_text(dataset.strand))
    put_array(file, "genes/split", dataset.gene_split)
    put_array(file, "sequences/codes", dataset.codes)
    put_array(file, "treatments/name", encode_text(dataset.treatments.names))
    put_array(file, "treatments/split", dataset.treatment_split)
    if dataset.target_mean is not None and dataset.target_sd is not None:
        put_array(file, "treatments/mean", dataset.target_mean.astype("<f8"))
        put_array(file, "treatments/sd", dataset.target_sd.astype("<f8"))
    features = file.create_group("treatments/features")
    for index, column in enumerate(dataset.treatments.columns):
        values = dataset.treatments.frame[column]
        numeric = dataset.treatments.is_numeric(column)
        content = (
            values.to_numpy().astype("<f8") if numeric else encode_text([str(value) for value in values])
        )
        put_array(features, f"{index:06d}", content, name=column)
    put_array(file, "targets/values", dataset.targets.astype("<f4"))
    if dataset.standard_error is not None:
        put_array(file, "targets/standard_error", dataset.standard_error.astype("<f4"))
    put_array(file, "metadata", encode_text([canonical_json(dataset.metadata)]))
    for name, value in attributes.items():
        file.attrs[name] = value
    file.attrs["attributes_sha256"] = _attributes_digest(attributes)


def read_dataset(path: Path) -> PromoterDataset:
    """Read a promoter dataset, checking the version, the digest of every array, shapes and values.

    Raises: FormatError naming what is wrong: not a dataset, another version, truncated, or the array that changed
    after it was written.
    """
    try:
        with path.open("rb") as raw:
            magic = raw.read(len(_HDF5_MAGIC))
    except OSError as error:
        raise unreadable(path, error) from error
    if magic != _HDF5_MAGIC:
        raise FormatError(
            f"{path}: is not an HDF5 file; a dataset made by `bioattn prepare dataset` is needed"
        )
    check_seal(path)
    try:
        with h5py.File(path, "r") as file:
            require_self_contained(path, file)
            dataset = _read(path, file)
    except BioattnError:
        raise
    except DAMAGE as error:
        raise FormatError(
            f"{path}: the dataset is truncated or damaged ({error}); make it again with `bioattn prepare dataset`"
        ) from error
    problems = list(_value_problems(dataset))
    if problems:
        raise FormatError(f"{path}: {problems[0]}")
    return dataset


def validate_dataset(path: Path) -> list[str]:
    """Everything found wrong with a dataset file, one sentence each; empty when it is good."""
    try:
        dataset = read_dataset(path)
    except BioattnError as error:
        return [str(error)]
    findings = []
    if not (dataset.gene_split == TRAIN).any():
        findings.append(f"{path}: no gene is in the training split")
    if not (dataset.treatment_split == TRAIN).any():
        findings.append(f"{path}: no treatment is in the training split")
    empty = np.isnan(dataset.targets).all(axis=1).sum()
    if empty:
        findings.append(f"{path}: no value for any treatment in {counted(empty, 'gene')}")
    empty = np.isnan(dataset.targets).all(axis=0).sum()
    if empty:
        findings.append(f"{path}: no value for any gene in {counted(empty, 'treatment')}")
    return findings


def _read(path: Path, file: h5py.File) -> PromoterDataset:
    attributes = _read_attributes(path, file)
    arrays = CheckedArrays(path, file)
    features = file["treatments/features"]
    frame: dict[str, pd.Series] = {}
    names = arrays.text("treatments/name")
    for key in sorted(features):
        column = str(features[key].attrs["name"])
        text = features[key].dtype.kind == "S"
        values = (
            arrays.text(f"treatments/features/{key}")
            if text
            else arrays.get(f"treatments/features/{key}", "f8")
        )
        frame[column] = pd.Series(values, index=range(len(names)), dtype=object if text else np.float64)
    table = pd.DataFrame(frame, index=range(len(names)))
    table.index = pd.Index(names, dtype=object, name=attributes["treatment_index"])
    standardised = "mean" in file["treatments"]
    return PromoterDataset(
        gene_ids=arrays.text("genes/id"),
        chrom=arrays.text("genes/chrom"),
        start=arrays.get("genes/start", "i8"),
        end=arrays.get("genes/end", "i8"),
        strand=arrays.text("genes/strand"),
        codes=arrays.get("sequences/codes", "u1"),
        flank=int(attributes["flank"]),
        targets=arrays.get("targets/values", "f4"),
        treatments=TreatmentTable(table),
        gene_split=arrays.get("genes/split", "u1"),
        treatment_split=arrays.get("treatments/split", "u1"),
        task=cast(Task, attributes["task"]),
        metadata=parse_json(arrays.text("metadata")[0], f"{path}: /metadata"),
        standard_error=arrays.get("targets/standard_error", "f4")
        if "standard_error" in file["targets"]
        else None,
        target_mean=arrays.get("treatments/mean", "f8") if standardised else None,
        target_sd=arrays.get("treatments/sd", "f8") if standardised else None,
    )


def _read_attributes(path: Path, file: h5py.File) -> dict[str, Any]:
    found = {name: plain(value) for name, value in file.attrs.items()}
    if found.get("format") != DATASET_FORMAT:
        advice = "make one with `bioattn prepare dataset`"
        raise other_format(path, "promoter dataset", found.get("format"), DATASET_FORMAT, advice)
    version = found.get("format_version")
    if version != DATASET_VERSION:
        newer = isinstance(version, int) and version > DATASET_VERSION
        advice = "update bioattn" if newer else "make the dataset again with `bioattn prepare dataset`"
        raise FormatError(
            f"{path}: the dataset has format version {version}, this bioattn reads {DATASET_VERSION}; {advice}"
        )
    digest = found.pop("attributes_sha256", None)
    if digest != _attributes_digest(found):
        raise FormatError(f"{path}: the root attributes changed after the dataset was written; make it again")
    return found


def _attributes_digest(attributes: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical_json(dict(sorted(attributes.items()))).encode()).hexdigest()


def _shape_problems(dataset: PromoterDataset) -> list[str]:
    """Contradictions between the sizes of the parts."""
    genes, problems = len(dataset.gene_ids), []
    if dataset.codes.ndim != 2 or dataset.codes.dtype != np.uint8:
        return [
            f"codes have shape {dataset.codes.shape} ({dataset.codes.dtype}), (genes, bases) uint8 is needed"
        ]
    if dataset.targets.ndim != 2:
        return [f"targets have shape {dataset.targets.shape}, (genes, treatments) is needed"]
    treatments = len(dataset.treatments.frame)
    sizes = {
        "chrom": (len(dataset.chrom), genes),
        "start": (len(dataset.start), genes),
        "end": (len(dataset.end), genes),
        "strand": (len(dataset.strand), genes),
        "codes": (len(dataset.codes), genes),
        "gene_split": (len(dataset.gene_split), genes),
        "rows of targets": (dataset.targets.shape[0], genes),
        "columns of targets": (dataset.targets.shape[1], treatments),
        "treatment_split": (len(dataset.treatment_split), treatments),
    }
    problems += [
        f"{name} has {found:,} entries, {wanted:,} are needed"
        for name, (found, wanted) in sizes.items()
        if found != wanted
    ]
    if dataset.flank < 0 or dataset.length < 1:
        problems.append(f"flank {dataset.flank} does not fit sequences of {dataset.codes.shape[1]} bases")
    if len(set(dataset.gene_ids)) != genes:
        problems.append("a gene id occurs more than once")
    if dataset.task not in ("regression", "binary"):
        problems.append(f"the task {dataset.task!r} is neither regression nor binary")
    if dataset.standard_error is not None and dataset.standard_error.shape != dataset.targets.shape:
        problems.append("standard errors and targets differ in shape")
    for name, values in (("target_mean", dataset.target_mean), ("target_sd", dataset.target_sd)):
        if values is not None and values.shape != (treatments,):
            problems.append(f"{name} has shape {values.shape}, ({treatments},) is needed")
    if (dataset.target_mean is None) != (dataset.target_sd is None):
        problems.append("target_mean and target_sd must be given together")
    return problems


def _value_problems(dataset: PromoterDataset) -> list[str]:
    """Values that no dataset may hold."""
    problems = []
    if dataset.codes.size and dataset.codes.max() > 4:
        problems.append(f"sequence codes reach {dataset.codes.max()}, 0 to 4 are defined")
    for name, split in (("gene", dataset.gene_split), ("treatment", dataset.treatment_split)):
        if split.size and split.max() > TEST:
            problems.append(f"the {name} split has the code {split.max()}, 0 to 2 are defined")
    if np.isinf(dataset.targets).any():
        problems.append("the targets hold infinities")
    if dataset.task == "binary" and not np.isin(dataset.targets[~np.isnan(dataset.targets)], (0, 1)).all():
        problems.append("the task is binary but some targets are neither 0 nor 1")
    return problems
