"""The promoter dataset: sequences, responses, treatments and splits in one HDF5 file, enough to train from.

The schema is written down in `docs/formats/dataset.md`.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from bioattn.choices import SPLIT_NAMES, Task
from bioattn.errors import BioattnError
from bioattn.formats.bed import read_bed
from bioattn.io.dataset_file import DatasetKind, put_metadata
from bioattn.io.hdf5 import hdf5_file, put_array, set_attribute, text_attribute
from bioattn.promoters.promoter_fasta import read_promoters
from bioattn.promoters.treatments import TreatmentTable, named_treatments
from bioattn.text import some

PROMOTER_DATASET = DatasetKind(
    name="promoter dataset", format="bioattn-promoter-dataset", version=2, command="bioattn prepare dataset"
)
LARGEST_VALUE = 1e12
"""Largest target: training sums squares in float32, which ends at 3.4e38."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PromoterDataset:
    """Promoters × treatments: everything a promoter model is trained on."""

    gene_ids: list[str]
    """Unique; the order of all arrays along genes."""
    chrom: list[str]
    """"" where the promoter FASTA gave no location."""
    start: NDArray[np.int64]
    """Start and end of the window without flanks, 0-based half-open; -1 where there is no location."""
    end: NDArray[np.int64]
    strand: list[str]
    codes: NDArray[np.uint8]
    """(genes, length + 2 * flank): A=0 C=1 G=2 T=3 N=4, 5'->3' in gene orientation; shorter promoters are padded
    with N on the left, so that the anchor stays in one column."""
    flank: int
    """Extra bases on each side of the window, for shifted training samples."""
    targets: NDArray[np.float32]
    """(genes, treatments): responses, or 0/1 for the binary task; NaN = missing."""
    treatments: TreatmentTable
    gene_split: NDArray[np.uint8]
    """(genes,), and (treatments,): TRAIN, VALIDATION or TEST."""
    treatment_split: NDArray[np.uint8]
    task: Task
    metadata: dict[str, Any]
    """What made the dataset (settings, counts, leakage between the splits); JSON types only."""
    target_mean: NDArray[np.float64] | None = None
    """(treatments,): subtracted from the responses when they were standardised; None = they were not."""
    target_sd: NDArray[np.float64] | None = None
    """(treatments,): the responses were divided by it; response = target * target_sd + target_mean."""

    def __post_init__(self) -> None:
        largest = np.abs(np.nan_to_num(self.targets)).max(initial=0)
        if largest > LARGEST_VALUE:
            raise BioattnError(f"responses reach {largest:g}; up to {LARGEST_VALUE:g} can be trained on")

    def __repr__(self) -> str:
        genes, treatments = self.targets.shape
        return f"<{genes:,} promoters of {self.length:,} bases × {treatments:,} treatments, {self.task}>"

    @property
    def length(self) -> int:
        """Bases of a window without flanks."""
        return int(self.codes.shape[1]) - 2 * self.flank

    @property
    def num_genes(self) -> int:
        return len(self.gene_ids)

    @property
    def num_treatments(self) -> int:
        return int(self.targets.shape[1])

    def genes_in(self, split: int) -> NDArray[np.int64]:
        """Rows of the genes on one side of the split (TRAIN, VALIDATION or TEST)."""
        return np.flatnonzero(self.gene_split == split)

    def treatments_in(self, split: int) -> NDArray[np.int64]:
        """Columns of the treatments on one side of the split."""
        return np.flatnonzero(self.treatment_split == split)


def write_dataset(path: Path, dataset: PromoterDataset) -> None:
    """Write `dataset` as HDF5, whole or not at all; the same dataset gives the same bytes."""
    with hdf5_file(path) as file:
        put_array(file, "genes/id", dataset.gene_ids)
        put_array(file, "genes/chrom", dataset.chrom)
        put_array(file, "genes/start", dataset.start.astype("<i8"))
        put_array(file, "genes/end", dataset.end.astype("<i8"))
        put_array(file, "genes/strand", dataset.strand)
        put_array(file, "genes/split", dataset.gene_split)
        put_array(file, "sequences/codes", dataset.codes)
        put_array(file, "treatments/name", dataset.treatments.names)
        put_array(file, "treatments/split", dataset.treatment_split)
        if dataset.target_mean is not None and dataset.target_sd is not None:
            put_array(file, "treatments/mean", dataset.target_mean.astype("<f8"))
            put_array(file, "treatments/sd", dataset.target_sd.astype("<f8"))
        features = file.create_group("treatments/features")
        for index, column in enumerate(dataset.treatments.columns):
            values = dataset.treatments.frame[column]
            if dataset.treatments.is_numeric(column):
                node = put_array(features, f"{index:06d}", values.to_numpy().astype("<f8"))
            else:
                node = put_array(features, f"{index:06d}", [str(value) for value in values])
            set_attribute(node, "name", column)
        put_array(file, "targets/values", dataset.targets.astype("<f4"))
        put_metadata(file, dataset.metadata)
        PROMOTER_DATASET.write_attributes(
            file,
            task=str(dataset.task),
            length=dataset.length,
            flank=dataset.flank,
            treatment_index=str(dataset.treatments.frame.index.name or "treatment"),
        )


def read_dataset(path: Path) -> PromoterDataset:
    """Read a promoter dataset."""
    with PROMOTER_DATASET.open(path) as arrays:
        attributes = arrays.attributes
        names, features = arrays.text("treatments/name"), {}
        for key, node in sorted(arrays.file["treatments/features"].items()):
            where = f"treatments/features/{key}"
            values = arrays.text(where) if node.dtype.kind == "S" else arrays.get(where, "f8")
            features[text_attribute(node, "name") or ""] = values
        return PromoterDataset(
            gene_ids=arrays.text("genes/id"),
            chrom=arrays.text("genes/chrom"),
            start=arrays.get("genes/start", "i8"),
            end=arrays.get("genes/end", "i8"),
            strand=arrays.text("genes/strand"),
            codes=arrays.get("sequences/codes", "u1"),
            flank=int(attributes["flank"]),
            targets=arrays.get("targets/values", "f4"),
            treatments=named_treatments(names, features, attributes["treatment_index"]),
            gene_split=arrays.get("genes/split", "u1"),
            treatment_split=arrays.get("treatments/split", "u1"),
            task=cast(Task, attributes["task"]),
            metadata=arrays.metadata(),
            target_mean=arrays.optional("treatments/mean", "f8"),
            target_sd=arrays.optional("treatments/sd", "f8"),
        )


def describe_promoters(path: Path) -> dict[str, Any]:
    """The main figures of a promoter FASTA. Raises: FormatError naming a record that is no promoter."""
    number = located = unknown = bases = 0
    shortest, longest = math.inf, 0
    flanks: set[int] = set()
    chromosomes: set[str] = set()
    for promoter in read_promoters(path):
        number += 1
        located += promoter.strand in ("+", "-")
        window = promoter.codes.size - 2 * promoter.flank
        shortest, longest = min(shortest, window), max(longest, window)
        bases += promoter.codes.size
        unknown += int((promoter.codes > 3).sum())
        flanks.add(promoter.flank)
        if promoter.chrom:
            chromosomes.add(promoter.chrom)
    return {
        "promoters": number,
        "with_location": located,
        "shortest": int(shortest),
        "longest": longest,
        "flanks": sorted(flanks),
        "chromosomes": some(sorted(chromosomes)),
        "unknown_bases": f"{100 * unknown / bases:.3g} %",
    }


def describe_dataset(path: Path) -> dict[str, Any]:
    """The main figures of a promoter dataset. Raises: FormatError when it is damaged."""
    dataset = read_dataset(path)
    return {
        "task": dataset.task,
        "genes": dataset.num_genes,
        "treatments": some(dataset.treatments.names),
        "length": dataset.length,
        "flank": dataset.flank,
        "missing_targets": int(np.isnan(dataset.targets).sum()),
        "genes_per_split": {name: len(dataset.genes_in(code)) for code, name in enumerate(SPLIT_NAMES)},
        "treatments_per_split": {
            name: len(dataset.treatments_in(code)) for code, name in enumerate(SPLIT_NAMES)
        },
        "treatment_features": list(dataset.treatments.columns),
    }


def describe_bed(path: Path) -> dict[str, Any]:
    """The genes of a BED file. Raises: FormatError naming the line that is no gene."""
    genes = read_bed(path).genes
    chromosomes = {place.chrom for gene in genes for place in gene.places}
    return {"genes": len(genes), "chromosomes": some(sorted(chromosomes))}
