"""A soak: does memory stay flat when bioattn runs long? One process each, its memory sampled while it works.

    python benchmarks/soak.py --work DIR              # everything; about a quarter of an hour on one core
    python benchmarks/soak.py --work DIR --tasks run,export --promoters 1000000
    python benchmarks/soak.py --work DIR --tables-only

Tasks:

run        `run promoter` over 100,000 promoters with the model of `make demo` (trained here, 20 epochs)
export     `export attention`, the same
long-run, long-export   the same with windows of 1,000 bases and ten treatments, model of five epochs
training   `train promoter` on the demo's dataset, 50 epochs
evoformer  `run evoformer --attention` over 1,000 simulated alignments, with data/models/evoformer-contacts
evoformer-training      `train evoformer` with a small model, 400 steps on simulated families

Every tenth of a second the resident size of the process is read from /proc/PID/smaps_rollup, and what of it is
anonymous (heap and stacks) rather than pages of libraries and files. Time is the process's own
(CPU seconds), so that a busy machine does not stretch the beginning. The first tenth of the run, five seconds at
least, is warm-up (imports, reading the input through, the first batches); the last two samples may see the process
go and do not count. What a batch needs for a moment comes and goes, so the rest is cut into twenty blocks of equal
time and each block's highest size is taken. The table tells the lowest and highest of these; their distance as a
share of the highest (wanted: at most 5 %); and what a straight line through the blocks' mean anonymous sizes gains
over the whole run, with its standard error. Every finished task is kept in DIR as JSON, so an interrupted soak
goes on. Markdown on stdout.
"""

import argparse
import json
import shutil
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

from measured_process import REPOSITORY, Cost, Sample, processor, run_bioattn

DEMO = REPOSITORY / "data" / "demo"
EVOFORMER_MODEL = REPOSITORY / "data" / "models" / "evoformer-contacts"
WARM_UP, WARM_UP_SECONDS = 0.1, 5.0
BLOCKS = 20
EVERY = 0.1
FAMILIES, COPIES = 20, 50


def demo_model(work: Path) -> Path:
    """The model of `make demo`."""
    model = work / "demo-model"
    if not model.exists():
        windows = ["--upstream", "200", "--downstream", "0", "--flank", "20", "-o", "demo.fa"]
        run_bioattn(
            ["prepare", "promoters", DEMO / "genome.fa.gz", DEMO / "annotation.gff3.gz", *windows], work
        )
        sides = ["--holdout", "validation=chr7", "--holdout", "test=chr8", "-o", "demo.dataset.h5"]
        table = ["--treatment-table", DEMO / "treatments.tsv"]
        run_bioattn(["prepare", "dataset", "demo.fa", DEMO / "responses.tsv.gz", *table, *sides], work)
        run_bioattn(["train", "promoter", "demo.dataset.h5", "-o", model.name, "--epochs", "20"], work)
    return model


def long_model(work: Path) -> Path:
    """A model of windows of 1,000 bases and ten treatments."""
    model = work / "long-model"
    if not model.exists():
        promoters = simulated_promoters(work, 3000, 1000)
        folder = promoters.parent
        run_bioattn(
            ["prepare", "dataset", promoters, folder / "responses.tsv", "-o", "long.dataset.h5"], work
        )
        run_bioattn(
            ["train", "promoter", "long.dataset.h5", "-o", model.name, "--epochs", "5", "--no-baselines"],
            work,
        )
    return model


def simulated_promoters(work: Path, number: int, length: int) -> Path:
    """`number` promoters of `length` bases and, for 1,000 bases, ten treatments, as a user would make them."""
    folder = work / f"promoters-{number}-{length}"
    promoters = folder / "promoters.fa"
    if not promoters.exists():
        treatments = ["--treatments", "10"] if length > 200 else ["--treatments", "4"]
        numbers = ["--genes", str(number), "--length", str(length), *treatments]
        run_bioattn(["simulate", "promoters", "-o", folder, *numbers, "--seed", "1", "--force"], work)
        windows = ["--upstream", str(length), "--downstream", "0", "-o", promoters]
        run_bioattn(
            ["prepare", "promoters", folder / "genome.fa", folder / "annotation.gff3", *windows], work
        )
        (folder / "genome.fa").unlink()
    return promoters


def run(work: Path, number: int) -> Cost:
    """Predictions of many short promoters."""
    arguments = ["run", "promoter", demo_model(work), simulated_promoters(work, number, 200)]
    return run_bioattn([*arguments, "-o", "predictions.tsv"], work, every=EVERY)


def export(work: Path, number: int) -> Cost:
    """Attention of many short promoters."""
    arguments = ["export", "attention", demo_model(work), simulated_promoters(work, number, 200)]
    return _export(work, arguments)


def long_run(work: Path, number: int) -> Cost:
    """Predictions of many long promoters."""
    arguments = ["run", "promoter", long_model(work), simulated_promoters(work, number, 1000)]
    return run_bioattn([*arguments, "-o", "predictions.tsv"], work, every=EVERY)


def long_export(work: Path, number: int) -> Cost:
    """Attention of many long promoters."""
    return _export(work, ["export", "attention", long_model(work), simulated_promoters(work, number, 1000)])


def _export(work: Path, arguments: list[str | Path]) -> Cost:
    cost = run_bioattn([*arguments, "-o", "attention.h5", "--force"], work, every=EVERY)
    (work / "attention.h5").unlink()
    return cost


def training(work: Path, _number: int) -> Cost:
    """Fifty epochs; patience lets none be left out."""
    demo_model(work)
    (work / "fifty.toml").write_text("[training]\npatience = 50\n")
    shutil.rmtree(work / "fifty-epochs", ignore_errors=True)
    arguments = ["train", "promoter", "demo.dataset.h5", "-o", "fifty-epochs", "--epochs", "50"]
    return run_bioattn([*arguments, "-c", "fifty.toml", "--no-baselines"], work, every=EVERY)


def evoformer(work: Path, _number: int) -> Cost:
    """A thousand alignments: copies of twenty families, in turn, so that every twenty are as large as the last."""
    alignments = work / "alignments"
    if not alignments.exists():
        sizes = ["--min-depth", "40", "--max-depth", "60", "--min-length", "30", "--max-length", "40"]
        run_bioattn(
            ["simulate", "msa", "-o", "families", "--families", str(FAMILIES), *sizes, "--force"], work
        )
        unfinished = work / "unfinished-alignments"
        unfinished.mkdir(exist_ok=True)
        for number, family in enumerate(sorted((work / "families" / "msa").iterdir())):
            for copy in range(COPIES):
                shutil.copy(family, unfinished / f"copy{copy:02d}-{number:02d}.a3m")
        unfinished.rename(alignments)
    shutil.rmtree(work / "contacts", ignore_errors=True)
    arguments = ["run", "evoformer", alignments, "--model", EVOFORMER_MODEL, "-o", "contacts", "--force"]
    cost = run_bioattn([*arguments, "--attention", "contacts.h5"], work, every=EVERY)
    (work / "contacts.h5").unlink()
    return cost


def evoformer_training(work: Path, _number: int) -> Cost:
    """Four hundred steps on families that are simulated on the way."""
    if not (work / "contacts.dataset.h5").exists():
        run_bioattn(
            ["prepare", "contacts", REPOSITORY / "data/families/PAIRS.tsv", "-o", "contacts.dataset.h5"], work
        )
    shutil.rmtree(work / "contacts-model", ignore_errors=True)
    arguments = ["train", "evoformer", "contacts.dataset.h5", "-o", "contacts-model", "--steps", "50"]
    return run_bioattn([*arguments, "--simulated-steps", "350"], work, every=EVERY)


TASKS: dict[str, Callable[[Path, int], Cost]] = {
    "run": run,
    "export": export,
    "long-run": long_run,
    "long-export": long_export,
    "training": training,
    "evoformer": evoformer,
    "evoformer-training": evoformer_training,
}


def blocks_of(samples: list[Sample]) -> list[list[Sample]]:
    """What counts, in blocks of equal time."""
    begin, end = max(WARM_UP * samples[-1].seconds, WARM_UP_SECONDS), samples[-3].seconds
    blocks: list[list[Sample]] = [[] for _ in range(BLOCKS)]
    for sample in samples[:-2]:
        if sample.seconds >= begin:
            blocks[min(BLOCKS - 1, int(BLOCKS * (sample.seconds - begin) / (end - begin)))].append(sample)
    return [block for block in blocks if block]


def growth(blocks: list[list[Sample]]) -> tuple[float, float]:
    """Bytes that a line through the blocks' mean anonymous sizes gains, first to last, and the standard error."""
    x = [statistics.fmean(sample.seconds for sample in block) for block in blocks]
    y = [statistics.fmean(sample.anonymous for sample in block) for block in blocks]
    fitted = statistics.linear_regression(x, y)
    left = sum((b - fitted.slope * a - fitted.intercept) ** 2 for a, b in zip(x, y, strict=True))
    spread = sum((a - statistics.fmean(x)) ** 2 for a in x)
    whole = x[-1] - x[0]
    return fitted.slope * whole, (left / (len(x) - 2) / spread) ** 0.5 * whole


def table(work: Path) -> None:
    """Print what is there."""
    print(f"{processor()}, one thread; MB = 10⁶ bytes\n")
    print(
        "| task | promoters, epochs, alignments or steps | CPU s | resident MB, by block | anonymous MB, by block "
        "| spread | a line gains, MB | single samples, resident MB |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for path in sorted(work.glob("soak-*.json"), key=_order):
        found = json.loads(path.read_text())
        blocks = blocks_of([Sample(*sample) for sample in found["samples"]])
        resident = [max(sample.resident for sample in block) / 1e6 for block in blocks]
        anonymous = [max(sample.anonymous for sample in block) / 1e6 for block in blocks]
        single = [sample.resident / 1e6 for block in blocks for sample in block]
        gain, error = growth(blocks)
        print(
            f"| {found['task']} | {found['number']:,} | {found['cpu']:.0f} "
            f"| {min(resident):.0f} to {max(resident):.0f} | {min(anonymous):.0f} to {max(anonymous):.0f} "
            f"| {1 - min(resident) / max(resident):.1%} | {gain / 1e6:+.1f} ± {error / 1e6:.1f} "
            f"| {min(single):.0f} to {max(single):.0f} |"
        )


def _order(path: Path) -> tuple[int, int]:
    found = json.loads(path.read_text())
    return list(TASKS).index(found["task"]), found["number"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True, help="folder of inputs, models and figures")
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--promoters", type=int, default=100_000)
    parser.add_argument("--tables-only", action="store_true")
    options = parser.parse_args()
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    numbers = {"training": 50, "evoformer": FAMILIES * COPIES, "evoformer-training": 400}
    for task in [] if options.tables_only else options.tasks.split(","):
        number = numbers.get(task, options.promoters)
        kept = work / f"soak-{task}-{number}.json"
        if kept.exists():
            continue
        print(f"{task}, {number:,}", file=sys.stderr)
        cost = TASKS[task](work, number)
        unfinished = kept.with_suffix(".unfinished")
        figures = {"task": task, "number": number, "wall": cost.wall, "cpu": cost.cpu, "peak": cost.peak}
        unfinished.write_text(json.dumps({**figures, "samples": cost.samples}))
        unfinished.rename(kept)
    table(work)


if __name__ == "__main__":
    main()
