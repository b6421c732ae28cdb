"""What bioattn costs as inputs grow: CPU time, memory and disk of every step, as Markdown on stdout.

    python benchmarks/scale.py --work DIR             # --quick: two sizes of each step, once
    python benchmarks/scale.py --work DIR --tasks train run --rounds 1

Every measurement is a `bioattn` command as a user types it, a process of its own on one thread, on random input of
a given size (time and memory do not depend on what is in it). CPU seconds are less those of the start, the first
row. Rounds go through all sizes in turn, so that what else a machine does slows all alike; the table has medians.
What is measured is kept in DIR/points.jsonl, so an interrupted run goes on.
"""

import json
import shutil
import statistics
from collections.abc import Callable
from pathlib import Path

import numpy as np
from common import DATA, options, table
from processes import Cost, processor, run_bioattn, size_of

CHROMOSOMES = 20
PROMOTERS = ("genes", "treatments", "bases")
BY_SIZE = (
    (2000, 10, 1000),
    (2000, 1, 1000),
    (2000, 100, 1000),
    (500, 1000, 1000),
    (4000, 10, 250),
    (8000, 10, 1000),
)
SIZES: dict[str, tuple[tuple[str, ...], tuple[tuple[int, ...], ...]]] = {
    "start": (PROMOTERS, ((1, 10, 1000),)),
    "prepare promoters": (("genes", "megabases"), ((2000, 20), (10000, 20), (10000, 100), (30000, 100))),
    "prepare dataset": (
        PROMOTERS,
        ((2000, 10, 1000), (10000, 10, 1000), (10000, 100, 1000), (2000, 1000, 1000)),
    ),
    "train": (
        PROMOTERS,
        ((1000, 10, 1000), (1000, 100, 1000), (500, 1000, 1000), (1000, 10, 250), (4000, 10, 1000)),
    ),
    "run": (PROMOTERS, BY_SIZE),
    "export": (PROMOTERS, BY_SIZE),
    "attribution": (
        PROMOTERS,
        ((20, 10, 1000), (20, 1, 1000), (20, 100, 1000), (40, 10, 500), (80, 10, 1000)),
    ),
    "check": (PROMOTERS, ((20, 5, 500), (60, 5, 500), (20, 20, 500), (20, 5, 1000))),
    "small evoformer": (("rows", "residues"), ((128, 64), (128, 128), (128, 256), (128, 384), (1056, 128))),
}
"""Names of the sizes of each step, and the sizes."""
ONE = "--threads 1"


def main() -> None:
    parser = options(__doc__, output=False)
    parser.add_argument("--work", type=Path, required=True, help="folder of inputs and figures")
    parser.add_argument("--tasks", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    work = given.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    kept = work / "points.jsonl"
    points = [
        (task, size)
        for task in dict.fromkeys(["start", *given.tasks])
        for size in SIZES[task][1][: 2 if given.quick else None]
    ]
    for _ in range(1 if given.quick else given.rounds):
        for task, size in points:
            done = read(kept).get((task, size), [])
            if len(done) < given.rounds:
                cost, written = measure(work, task, size)
                with kept.open("a") as file:
                    print(json.dumps([task, size, cost.cpu, cost.peak, written]), file=file)
    print(f"{processor()}, one thread; MB = 10⁶ bytes; medians (least to most of the rounds)")
    print_tables(read(kept))


def read(kept: Path) -> dict[tuple[str, tuple[int, ...]], list[tuple[float, float, float]]]:
    """CPU seconds, highest memory and bytes written of every round, by step and size."""
    found: dict[tuple[str, tuple[int, ...]], list[tuple[float, float, float]]] = {}
    for line in kept.read_text().splitlines() if kept.exists() else ():
        task, size, *figures = json.loads(line)
        found.setdefault((task, tuple(size)), []).append(tuple(figures))
    return found


def print_tables(found: dict[tuple[str, tuple[int, ...]], list[tuple[float, float, float]]]) -> None:
    """A table for each step, less the start."""
    start = statistics.median(cpu for cpu, _, _ in found["start", SIZES["start"][1][0]])
    for task, (names, _) in SIZES.items():
        rows = []
        for (of, size), rounds in found.items():
            if of == task:
                cpu, peak, written = zip(*rounds, strict=True)
                less = 0 if task == "start" else start
                seconds = (
                    f"{statistics.median(cpu) - less:.2f} ({min(cpu) - less:.2f} to {max(cpu) - less:.2f})"
                )
                megabytes = (f"{statistics.median(each) / 1e6:.1f}" for each in (peak, written))
                rows.append([*(f"{number:,}" for number in size), seconds, *megabytes])
        if rows:
            print(f"\n### {task}\n\n{table([*names, 'CPU s (rounds)', 'memory MB', 'disk MB'], rows)}")


def measure(work: Path, task: str, size: tuple[int, ...]) -> tuple[Cost, int]:
    """Run a step once; what it cost, and bytes of its output. An epoch is half of three less one."""
    output = work / "out"
    shutil.rmtree(output, ignore_errors=True)
    output.unlink(missing_ok=True)
    if task == "prepare promoters":
        source = made(work, genome, *size)
        (work / "index").unlink(missing_ok=True)
        words = f"prepare promoters {source}/genome.fa {source}/annotation.gff3 --index index -o out.fa"
        output = work / "out.fa"
    elif task == "prepare dataset":
        words, output = dataset_words(work, size, "out.dataset.h5"), work / "out.dataset.h5"
    elif task == "small evoformer":
        source = made(work, alignment, *size)
        words = f"run evoformer {source}/alignment.a3m --model {DATA}/models/evoformer-contacts -o out {ONE}"
    elif task == "train":
        dataset = work / f"{'-'.join(map(str, size))}.dataset.h5"
        if not dataset.exists():
            run_bioattn(dataset_words(work, size, dataset.name).split(), work)
        train = f"train promoter {dataset.name} -o out --no-baselines --force {ONE} --epochs"
        one, three = (run_bioattn([*train.split(), epochs], work) for epochs in ("1", "3"))
        return three._replace(cpu=(three.cpu - one.cpu) / 2), size_of(output)
    else:
        on = f"{model(work, *size[1:])} {made(work, promoters, size[0], size[2])}/promoters.fa {ONE} -o"
        words = {
            "start": f"run promoter {on} out",
            "run": f"run promoter {on} out",
            "export": f"export attention {on} out --force",
            "attribution": f"explain attribution {on} out --force",
            "check": f"explain check {on} out --samples {size[0]}",
        }[task]
    return run_bioattn(words.split(), work), size_of(output)


def dataset_words(work: Path, size: tuple[int, ...], output: str) -> str:
    genes, treatments, bases = size
    fasta = made(work, promoters, genes, bases) / "promoters.fa"
    table_of = made(work, responses, genes, treatments) / "responses.tsv"
    return f"prepare dataset {fasta} {table_of} -o {output}"


def model(work: Path, treatments: int, bases: int) -> Path:
    """A model of default shape, trained for an epoch on few promoters."""
    folder = work / f"model-{treatments}-{bases}"
    if not folder.exists():
        run_bioattn(dataset_words(work, (400, treatments, bases), "few.dataset.h5").split(), work)
        train = f"train promoter few.dataset.h5 -o {folder.name} --epochs 1 --no-baselines {ONE}"
        run_bioattn(train.split(), work)
    return folder


def made(work: Path, make: Callable[..., None], *sizes: int) -> Path:
    """The folder of an input, made the first time it is asked for."""
    folder = work / "-".join([make.__name__, *map(str, sizes)])
    if not folder.exists():
        unfinished = work / "unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        make(unfinished, np.random.default_rng(0), *sizes)
        unfinished.rename(folder)
    return folder


def letters(random: np.random.Generator, alphabet: bytes, *shape: int) -> np.ndarray:
    return np.frombuffer(alphabet, np.uint8)[random.integers(0, len(alphabet), shape, dtype=np.uint8)]


def genome(folder: Path, random: np.random.Generator, genes: int, megabases: int) -> None:
    """A genome, and the annotation of genes spread evenly over it."""
    length, each = megabases * 1_000_000 // CHROMOSOMES, genes // CHROMOSOMES
    step = (length - 4000) // each
    with (folder / "genome.fa").open("w") as fasta, (folder / "annotation.gff3").open("w") as gff:
        gff.write("##gff-version 3\n")
        for name in (f"chr{number + 1}" for number in range(CHROMOSOMES)):
            fasta.write(f">{name}\n{letters(random, b'ACGT', length).tobytes().decode()}\n")
            for number in range(each):
                start, strand = 2000 + number * step, "+-"[number % 2]
                where = f"{name}\t.\tgene\t{start}\t{start + min(step, 900) - 1}\t.\t{strand}\t."
                gff.write(f"{where}\tID=gene-{name}.{number};locus_tag={name}.{number}\n")


def promoters(folder: Path, random: np.random.Generator, genes: int, bases: int) -> None:
    """Promoters with places on twenty chromosomes, as `prepare promoters` names them."""
    with (folder / "promoters.fa").open("w") as file:
        for number, codes in enumerate(letters(random, b"ACGT", genes, bases)):
            place = (
                f"chr{number % CHROMOSOMES + 1}:{number * bases}-{(number + 1) * bases}({'+-'[number % 2]})"
            )
            file.write(f">gene{number:06d} {place} flank=0 downstream=0\n{codes.tobytes().decode()}\n")


def responses(folder: Path, random: np.random.Generator, genes: int, treatments: int) -> None:
    with (folder / "responses.tsv").open("w") as file:
        file.write("\t".join(["gene", *(f"treatment{number}" for number in range(treatments))]) + "\n")
        for number in range(genes):
            values = "\t".join(f"{value:.3f}" for value in random.standard_normal(treatments))
            file.write(f"gene{number:06d}\t{values}\n")


def alignment(folder: Path, random: np.random.Generator, rows: int, residues: int) -> None:
    """Rows that share 60 % of their residues with the first."""
    query, *others = letters(random, b"ACDEFGHIKLMNPQRSTVWY", rows, residues)
    with (folder / "alignment.a3m").open("w") as file:
        for number, other in enumerate([query, *others]):
            row = np.where(random.random(residues) < 0.6, query, other)
            file.write(f">row{number}\n{row.tobytes().decode()}\n")


if __name__ == "__main__":
    main()
