"""What `bioattn inspect` says of promoters, their datasets and BED files of genes."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from bioattn.formats.annotation import read_bed
from bioattn.promoters.dataset import SPLIT_NAMES, read_dataset
from bioattn.promoters.promoter_fasta import read_promoters
from bioattn.text import some


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
