"""How long `bioattn prepare promoters` takes for 30,000 genes, as a Markdown table on stdout.

    python benchmarks/prepare_promoters.py [--genes 30000] [--megabases 120] [--repeats 3]

Genome and annotation are made up: as many genes as asked for, each with one mRNA, five exons and five CDS, both
strands. The whole command is timed, Python's start included, with a new genome and with one indexed already.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

CHROMOSOMES = 5


def write_inputs(folder: Path, genes: int, megabases: int) -> tuple[Path, Path]:
    """A random genome and annotation."""
    random = np.random.default_rng(0)
    genome, annotation = folder / "genome.fa", folder / "genes.gff3"
    length = megabases * 1_000_000 // CHROMOSOMES
    with genome.open("wb") as file:
        for number in range(1, CHROMOSOMES + 1):
            bases = np.frombuffer(b"ACGT", np.uint8)[random.integers(0, 4, length, dtype=np.uint8)]
            lines = np.full((length // 60, 61), ord("\n"), np.uint8)
            lines[:, :60] = bases[: length // 60 * 60].reshape(-1, 60)
            file.write(f">Chr{number}\n".encode() + lines.tobytes())
    per_chromosome = genes // CHROMOSOMES
    spacing = length // per_chromosome
    with annotation.open("w") as file:
        file.write("##gff-version 3\n")
        for number in range(1, CHROMOSOMES + 1):
            for gene in range(per_chromosome):
                start = gene * spacing + int(random.integers(100, spacing // 4))
                size = min(int(random.integers(1000, 3000)), spacing)
                name = f"AT{number}G{gene:05d}"
                where, strand = f"Chr{number}\tmade", "+-"[int(random.integers(2))]

                def row(kind: str, first: int, last: int, attributes: str, at=where, strand=strand) -> None:
                    file.write(f"{at}\t{kind}\t{first}\t{last}\t.\t{strand}\t.\t{attributes}\n")

                row("gene", start, start + size, f"ID={name};Name={name};gene_biotype=protein_coding")
                row("mRNA", start, start + size, f"ID={name}.1;Parent={name};Name={name}.1;Index=1")
                step = size // 5
                for exon in range(5):
                    first = start + exon * step
                    row("exon", first, first + step // 2, f"Parent={name}.1")
                    row("CDS", first + 20, first + step // 2, f"ID={name}.p;Parent={name}.1")
    return genome, annotation


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--genes", type=int, default=30_000)
    parser.add_argument("--megabases", type=int, default=120)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(
        f"{options.genes:,} genes, {options.megabases} Mb, median of {options.repeats} (min to max), seconds\n"
    )
    print("| options | new genome | indexed genome |")
    print("| --- | --- | --- |")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        genome, annotation = write_inputs(folder, options.genes, options.megabases)
        environment = {**os.environ, "BIOATTN_CACHE": str(folder / "cache")}

        def seconds(*arguments: str) -> float:
            command = [
                sys.executable,
                "-m",
                "bioattn_cli",
                "prepare",
                "promoters",
                str(genome),
                str(annotation),
            ]
            started = time.perf_counter()
            subprocess.run(
                [*command, "-o", str(folder / "x.fa"), "-q", *arguments],
                check=True,
                env=environment,
                stderr=subprocess.DEVNULL,
            )
            return time.perf_counter() - started

        for arguments in (
            (),
            ("--overlap", "trim", "--flank", "50"),
            ("--overlap", "mask", "--anchor", "cds"),
        ):
            cold, warm = [], []
            for _ in range(options.repeats):
                for index in (folder / "cache").glob("*.genome"):
                    index.unlink()
                cold.append(seconds(*arguments))
                warm.append(seconds(*arguments))
            cells = [f"{statistics.median(t):.2f} ({min(t):.2f} to {max(t):.2f})" for t in (cold, warm)]
            print(f"| {' '.join(arguments) or 'none'} | {cells[0]} | {cells[1]} |", flush=True)


if __name__ == "__main__":
    main()
