"""Lengths of chromosomes from a `.fai`, a table of sizes or the FASTA itself."""

from pathlib import Path

from bioattn.errors import FormatError
from bioattn.formats.genes import MAX_POSITION_DIGITS
from bioattn.formats.genome import open_genome
from bioattn.io.files import decompression_errors, open_bytes, read_lines
from bioattn.system.progress import Progress

LONGEST = 2**32 - 1
"""What bigWig and most programs can count to."""


def read_chromosome_lengths(path: Path, progress: Progress | None = None) -> dict[str, int]:
    """Read the number of bases of each chromosome, in file order.

    path: tab-separated name and length, further columns ignored (`samtools faidx`, UCSC chrom.sizes), `#` starting
    a comment; or FASTA, plain, gzip or xz, which is indexed as for `prepare promoters`.

    Raises: FormatError naming the line for a length that is none, or a chromosome named twice; as `open_genome`.
    """
    with open_bytes(path) as file, decompression_errors(path):
        start = file.read(1)
    if start == b">":
        return dict(open_genome(path, progress=progress).lengths)
    lengths: dict[str, int] = {}
    for number, line in read_lines(path):
        if not line.strip() or line.startswith("#"):
            continue
        cells = line.split("\t") if "\t" in line else line.split()
        length = cells[1].strip() if len(cells) > 1 else ""
        if not length.isdecimal() or len(length) > MAX_POSITION_DIGITS or not 0 < int(length) <= LONGEST:
            raise FormatError(
                f"{path}:{number}: {line[:60]!r} is not a chromosome and its length, separated by a tab"
            )
        name = cells[0].strip()
        if name in lengths:
            raise FormatError(f"{path}:{number}: chromosome {name!r} is named twice")
        lengths[name] = int(length)
    if not lengths:
        raise FormatError(f"{path}: names no chromosome")
    return lengths
