"""Promoters laid out as a genome: chromosomes with genes on both strands, and the annotation that finds them.

Along a chromosome every gene has a place of its own: a spacer, then the promoter window directly before the gene's
first base (for a gene on the minus strand, everything reverse complemented). Windows up to the promoter's length
therefore overlap neither each other nor another gene.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.formats.nucleotides import reverse_complement
from bioattn.io.files import text_output
from bioattn.simulate.motifs import MarkovBackground

MIN_CODONS, MAX_CODONS = 30, 60
MIN_SPACER, MAX_SPACER = 20, 60

_START_CODON = (0, 3, 2)
_STOP_CODONS = ((3, 0, 0), (3, 0, 2), (3, 2, 0))
_SENSE_CODONS = np.array(
    [codon for codon in itertools.product(range(4), repeat=3) if codon not in _STOP_CODONS], dtype=np.uint8
)


class PlacedGene(NamedTuple):
    """The position of a gene; 0-based, half-open, along the chromosome."""

    gene_id: str
    chrom: str
    start: int
    end: int
    strand: str


class Genome(NamedTuple):
    """Chromosomes and the genes on them."""

    chromosomes: dict[str, NDArray[np.uint8]]
    genes: list[PlacedGene]
    """In the order of the promoters, which is the order along the chromosomes."""


def lay_out_genome(
    rng: np.random.Generator,
    gene_ids: Sequence[str],
    promoters: NDArray[np.uint8],
    chromosome_count: int,
    background: MarkovBackground,
) -> Genome:
    """Put promoters (codes, shape (genes, length)) before made-up genes on `chromosome_count` chromosomes.

    Strands are drawn alike; genes are open reading frames of 30 to 60 codons; spacers of 20 to 60 bp and the
    run-out at the chromosome's end come from `background`.
    """
    count = len(gene_ids)
    minus = rng.random(count) < 0.5
    codons = MIN_CODONS + (rng.random(count) * (MAX_CODONS - MIN_CODONS + 1)).astype(np.int64)
    spacers = MIN_SPACER + (rng.random(count) * (MAX_SPACER - MIN_SPACER + 1)).astype(np.int64)
    spacer_codes = background.sample(rng, count + chromosome_count, MAX_SPACER)
    chromosomes: dict[str, NDArray[np.uint8]] = {}
    genes: list[PlacedGene] = []
    bounds = np.linspace(0, count, chromosome_count + 1).round().astype(int).tolist()
    for number in range(chromosome_count):
        chrom = f"chr{number + 1}"
        pieces: list[NDArray[np.uint8]] = []
        position = 0
        for gene in range(bounds[number], bounds[number + 1]):
            sense = _SENSE_CODONS[(rng.random(codons[gene] - 2) * len(_SENSE_CODONS)).astype(np.int64)]
            stop = _STOP_CODONS[int(rng.random() * len(_STOP_CODONS))]
            body = np.concatenate([_START_CODON, sense.ravel(), stop]).astype(np.uint8)
            spacer = spacer_codes[gene, : spacers[gene]]
            promoter = promoters[gene]
            start = position + spacer.size
            if minus[gene]:
                pieces += [spacer, reverse_complement(body), reverse_complement(promoter)]
            else:
                pieces += [spacer, promoter, body]
                start += promoter.size
            strand = "-" if minus[gene] else "+"
            genes.append(PlacedGene(gene_ids[gene], chrom, start, start + body.size, strand))
            position += spacer.size + promoter.size + body.size
        pieces.append(spacer_codes[count + number])
        chromosomes[chrom] = np.concatenate(pieces)
    return Genome(chromosomes, genes)


def write_annotation(path: Path, genome: Genome) -> None:
    """Write the genes as GFF3: gene, mRNA, exon and CDS of one extent (no UTR: TSS and start codon agree)."""
    with text_output(path) as file:
        file.write("##gff-version 3\n")
        for chrom, codes in genome.chromosomes.items():
            file.write(f"##sequence-region {chrom} 1 {codes.size}\n")
        for gene in genome.genes:
            transcript = f"{gene.gene_id}.t1"
            for feature, phase, attributes in (
                ("gene", ".", f"ID={gene.gene_id};biotype=protein_coding"),
                ("mRNA", ".", f"ID={transcript};Parent={gene.gene_id}"),
                ("exon", ".", f"ID={transcript}.exon1;Parent={transcript}"),
                ("CDS", "0", f"ID={transcript}.cds;Parent={transcript}"),
            ):
                columns = (gene.chrom, "bioattn", feature, gene.start + 1, gene.end, ".", gene.strand, phase)
                file.write("\t".join(map(str, columns)) + f"\t{attributes}\n")
