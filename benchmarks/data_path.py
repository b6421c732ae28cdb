"""Random 1-kb intervals of a genome as float32 one-hot batches: bioattn beside its peers, as Markdown on stdout.

    python benchmarks/data_path.py [--megabases 50] [--repeats 7] [--peers FOLDER]

Every contender is one process with one thread, started once, warmed up, and given its turns one after another, so
that whatever else the machine does hits all of them. A turn is at least half a second of passes over the same
intervals in batches of 64. The first batch of each is compared with a plain loop before anything is timed. The
peers are installed from PyPI into a throw-away environment (FOLDER keeps it for the next time); one that cannot be
installed or imported is left out by name.
"""

import hashlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import options, table
from processes import Contender, interleaved, peer_environment, serve

LENGTH, BATCH, BATCHES = 1000, 64, 94
CHROMOSOMES = 5
TURN_SECONDS = 0.5
PEERS = {"tangermeme": "tangermeme"}

Batches = Callable[[], int]
"""Makes all batches once and returns how many intervals that were."""


def write_genome(path: Path, megabases: int) -> None:
    """Random bases without N in lines of 60."""
    random = np.random.default_rng(0)
    with path.open("wb") as file:
        for number in range(CHROMOSOMES):
            count = megabases * 1_000_000 // CHROMOSOMES // 60
            lines = np.full((count, 61), ord("\n"), np.uint8)
            lines[:, :60] = np.frombuffer(b"ACGT", np.uint8)[
                random.integers(0, 4, (count, 60), dtype=np.uint8)
            ]
            file.write(f">chr{number}\n".encode() + lines.tobytes())


def intervals(megabases: int) -> list[tuple[str, int]]:
    """The same random (chromosome, start) for every contender."""
    random = np.random.default_rng(1)
    top = megabases * 1_000_000 // CHROMOSOMES // 60 * 60 - LENGTH
    count = BATCH * BATCHES
    chromosomes, starts = random.integers(0, CHROMOSOMES, count), random.integers(0, top, count)
    return [(f"chr{c}", int(s)) for c, s in zip(chromosomes, starts, strict=True)]


def first_batch_by_loop(fasta: Path, chosen: list[tuple[str, int]]) -> str:
    """Digest of the first batch, made without any of the contenders."""
    sequences = {}
    for record in fasta.read_text().split(">")[1:]:
        name, body = record.split("\n", 1)
        sequences[name] = body.replace("\n", "")
    planes = np.zeros((BATCH, 4, LENGTH), np.float32)
    for row, (chrom, start) in enumerate(chosen[:BATCH]):
        for column, base in enumerate(sequences[chrom][start : start + LENGTH]):
            planes[row, "ACGT".index(base), column] = 1
    return digest(planes)


def digest(planes: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(planes, dtype=np.float32).tobytes()).hexdigest()


def one_hot(codes: np.ndarray, out: torch.Tensor | None = None) -> torch.Tensor:
    """Planes A, C, G, T of a batch: (n, length) codes to (n, 4, length) in `out`; N is zero in all four."""
    bases = torch.arange(4, dtype=torch.uint8)[:, None]
    return torch.eq(torch.from_numpy(codes)[:, None], bases, out=out)  # compares and widens in one pass


def ours(fasta: Path, chosen: list[tuple[str, int]]) -> tuple[Batches, str]:
    """The mapped genome and one batch buffer."""
    from bioattn.formats.genome import open_genome

    genome = open_genome(fasta)
    numbers = genome.chromosome_numbers([chrom for chrom, _ in chosen])
    starts = np.array([start for _, start in chosen], dtype=np.int64)
    buffer = torch.empty((BATCH, 4, LENGTH))

    def run() -> int:
        for first in range(0, len(starts), BATCH):
            part = slice(first, first + BATCH)
            one_hot(genome.windows(numbers[part], starts[part], LENGTH), buffer)
        return len(starts)

    return run, digest(one_hot(genome.windows(numbers[:BATCH], starts[:BATCH], LENGTH)).numpy())


def frame_of(chosen: list[tuple[str, int]]) -> Any:
    """The intervals as the peers want them."""
    import pandas as pd

    frame = pd.DataFrame(chosen, columns=["chrom", "start"])
    return frame.assign(end=frame["start"] + LENGTH)


def tangermeme_loci(fasta: Path, chosen: list[tuple[str, int]], mode: str) -> tuple[Batches, str]:
    """`extract_loci` of all intervals at once, turned into float32 batches; or of one batch at a time, which like
    ours needs no room for all of them."""
    import pyfaidx
    from tangermeme.io import extract_loci

    frame = frame_of(chosen)
    opened = pyfaidx.Fasta(str(fasta))

    def extract(part: Any) -> torch.Tensor:
        return extract_loci(part, opened if mode == "batches" else str(fasta), in_window=LENGTH, n_jobs=1)

    def run() -> int:
        if mode == "batches":
            for first in range(0, len(frame), BATCH):
                extract(frame[first : first + BATCH]).float()
            return len(frame)
        loci = extract(frame)
        for first in range(0, len(loci), BATCH):
            loci[first : first + BATCH].float()
        return len(loci)

    return run, digest(extract(frame[:BATCH]).numpy())


CONTENDERS: dict[str, tuple[str, Callable[[Path, list[tuple[str, int]]], tuple[Batches, str]]]] = {
    "bioattn: mapped genome, reused float32 buffer": ("", ours),
    "tangermeme extract_loci, all at once, then float32 batches": (
        "tangermeme",
        lambda f, c: tangermeme_loci(f, c, "float"),
    ),
    "tangermeme extract_loci, batch by batch, float32": (
        "tangermeme",
        lambda f, c: tangermeme_loci(f, c, "batches"),
    ),
}


def serve_batches(name: str, fasta: Path, megabases: int) -> None:
    """Answer with the rate of one turn, once the first batch is made."""
    torch.set_num_threads(1)
    run, first = CONTENDERS[name][1](fasta, intervals(megabases))
    run()  # warm up: compilation, page cache, allocator

    def turn() -> float:
        done, started = 0, time.perf_counter()
        while time.perf_counter() - started < TURN_SECONDS:
            done += run()
        return done / (time.perf_counter() - started)

    serve(turn, first)


def compare(fasta: Path, megabases: int, repeats: int, peers: Path) -> None:
    expected = first_batch_by_loop(fasta, intervals(megabases))
    python, skipped = peer_environment(peers, PEERS)
    contenders: dict[str, Contender] = {}
    for name, (package, _) in CONTENDERS.items():
        if package not in skipped:
            try:
                words = (name, "--genome", fasta, "--megabases", megabases)
                started = Contender(python if package else sys.executable, __file__, *words)
            except RuntimeError as error:
                skipped[name] = str(error)
                continue
            if started.ready != expected:
                sys.exit(f"{name}: the first batch differs from the plain loop")
            contenders[name] = started
    rates = interleaved(contenders, repeats)
    best = statistics.median(rates[next(iter(rates))])
    print(
        f"{LENGTH}-base intervals of {megabases} Mb, batches of {BATCH} as float32 (n, 4, {LENGTH}), one process "
        f"and thread each, {repeats} interleaved turns; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n"
    )
    rows = []
    for name, found in rates.items():
        median = statistics.median(found)
        rate = f"{median:,.0f} ({min(found):,.0f} to {max(found):,.0f})"
        rows.append([name, rate, f"{best / median:.1f} ×"])
    rows += [[name, f"left out: {reason}", ""] for name, reason in skipped.items()]
    print(table(["path", "intervals/s, median (min to max)", "first row is faster by"], rows))


def main() -> None:
    parser = options(__doc__, output=False)
    parser.add_argument("--megabases", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--peers", type=Path, help="environment of the peers, kept for the next time")
    parser.add_argument("--serve", help="be a contender, with --genome")
    parser.add_argument("--genome", type=Path)
    given = parser.parse_args()
    if given.serve:
        serve_batches(given.serve, given.genome, given.megabases)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["BIOATTN_CACHE"] = str(folder / "cache")
        fasta = folder / "genome.fa"
        write_genome(fasta, given.megabases)
        compare(fasta, given.megabases, given.repeats, given.peers or folder / "peers")


if __name__ == "__main__":
    main()
