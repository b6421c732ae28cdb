"""A soak: does memory stay flat when bioattn runs long? One process each, its memory sampled while it works.

    python benchmarks/soak.py --work DIR              # everything; about a quarter of an hour on one core
    python benchmarks/soak.py --work DIR --tasks run export --promoters 1000000

`run` and `export` take 100,000 promoters of 200 bases and a model of four treatments, `long-run` and
`long-export` as many of 1,000 bases and ten treatments; `training` is 50 epochs on the demo; `evoformer` 1,000
simulated alignments with attention; `evoformer-training` 400 steps.

Every tenth of a second the resident size of the process is read, and what of it is anonymous (heap and stacks).
Time is the process's own (CPU seconds), so that a busy machine does not stretch the beginning. The first tenth of
the run, five seconds at least, is warm-up; the last two samples may see the process go. What a batch needs comes
and goes, so the rest is cut into twenty blocks of equal time, of which the highest size is taken. The table has
the lowest and highest of these, their distance as a share of the highest (wanted: at most 5 %), and what a
straight line through the blocks' mean anonymous sizes gains over the run, with its standard error. Finished tasks
are kept in DIR as JSON.
"""

import json
import shutil
import statistics
import sys
from pathlib import Path

from common import DATA, options, table
from processes import Cost, Sample, processor, run_bioattn

WARM_UP, WARM_UP_SECONDS = 0.1, 5.0
BLOCKS = 20
FAMILIES, COPIES = 20, 50
DEMO = DATA / "demo"
TASKS = {
    "run": "run promoter short-model {short} -o out.tsv",
    "export": "export attention short-model {short} -o out.h5 --force",
    "long-run": "run promoter long-model {long} -o out.tsv",
    "long-export": "export attention long-model {long} -o out.h5 --force",
    "training": "train promoter short.dataset.h5 -o fifty --epochs 50 -c fifty.toml --no-baselines --force",
    "evoformer": f"run evoformer alignments --model {DATA}/models/evoformer-contacts -o contacts --force"
    " --attention out.h5",
    "evoformer-training": "train evoformer contacts.dataset.h5 -o contacts-model --steps 50"
    " -c training.simulated_steps=350 --force",
}


def commands(work: Path, lines: str, result: str) -> None:
    """Run commands whose result is not there."""
    for line in lines.splitlines() if not (work / result).exists() else ():
        run_bioattn(line.split(), work)


def prepare(work: Path, task: str, number: int) -> dict[str, Path]:
    """Make what a task reads; the promoters by name."""
    window = "--upstream 200 --downstream 0 --flank 20"
    commands(
        work,
        f"prepare promoters {DEMO}/genome.fa.gz {DEMO}/annotation.gff3.gz {window} -o demo.fa\n"
        f"prepare dataset demo.fa {DEMO}/responses.tsv.gz --treatment-table {DEMO}/treatments.tsv"
        " --holdout validation=chr7 --holdout test=chr8 -o short.dataset.h5\n"
        "train promoter short.dataset.h5 -o short-model --epochs 20",
        "short-model",
    )
    (work / "fifty.toml").write_text("[training]\npatience = 50\n")  # which leaves none of the epochs out
    if task.startswith("long"):
        fasta = promoters(work, 3000, 1000)
        commands(
            work,
            f"prepare dataset {fasta} {fasta.parent}/responses.tsv -o long.dataset.h5\n"
            "train promoter long.dataset.h5 -o long-model --epochs 5 --no-baselines",
            "long-model",
        )
        return {"long": promoters(work, number, 1000)}
    if task == "evoformer" and not (work / "alignments").exists():
        sizes = "--depth 40:60 --length 30:40"
        commands(work, f"simulate msa -o families --families {FAMILIES} {sizes}", "families")
        (work / "unfinished").mkdir(exist_ok=True)
        # In turn, so that every twenty alignments are as large as the last.
        for place, family in enumerate(sorted((work / "families" / "msa").iterdir())):
            for copy in range(COPIES):
                shutil.copy(family, work / "unfinished" / f"copy{copy:02d}-{place:02d}.a3m")
        (work / "unfinished").rename(work / "alignments")
    if task == "evoformer-training":
        pairs = DATA / "families" / "PAIRS.tsv"
        commands(work, f"prepare contacts {pairs} -o contacts.dataset.h5", "contacts.dataset.h5")
    return {"short": promoters(work, number, 200)} if task in ("run", "export") else {}


def promoters(work: Path, number: int, length: int) -> Path:
    """`number` simulated promoters of `length` bases."""
    folder = work / f"promoters-{number}-{length}"
    sizes = f"--genes {number} --length {length} --treatments {10 if length > 200 else 4}"
    commands(
        work,
        f"simulate promoters -o {folder} {sizes} --seed 1 --force\n"
        f"prepare promoters {folder}/genome.fa {folder}/annotation.gff3 --upstream {length} --downstream 0"
        f" -o {folder}/promoters.fa",
        f"{folder.name}/promoters.fa",
    )
    return folder / "promoters.fa"


def blocks_of(samples: list[Sample]) -> list[list[Sample]]:
    """The samples that count, in blocks of equal time."""
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


def row(task: str, number: int, cost: Cost) -> list[str]:
    blocks = blocks_of([Sample(*sample) for sample in cost.samples])
    resident, anonymous = (
        [max(getattr(sample, kind) for sample in block) / 1e6 for block in blocks]
        for kind in ("resident", "anonymous")
    )
    gain, error = growth(blocks)
    sizes = (f"{min(each):.0f} to {max(each):.0f}" for each in (resident, anonymous))
    share = f"{1 - min(resident) / max(resident):.1%}"
    return [task, f"{number:,}", f"{cost.cpu:.0f}", *sizes, share, f"{gain / 1e6:+.1f} ± {error / 1e6:.1f}"]


def main() -> None:
    parser = options(__doc__, output=False)
    parser.add_argument("--work", type=Path, required=True, help="folder of inputs, models and figures")
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--promoters", type=int, default=100_000)
    given = parser.parse_args()
    work = given.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    numbers = {"training": 50, "evoformer": FAMILIES * COPIES, "evoformer-training": 400}
    rows = []
    for task in given.tasks:
        number = numbers.get(task, given.promoters)
        kept = work / f"soak-{task}-{number}.json"
        if not kept.exists():
            print(f"{task}, {number:,}", file=sys.stderr)
            words = TASKS[task].format(**prepare(work, task, number)).split()
            kept.write_text(json.dumps(run_bioattn(words, work, every=0.1)))
        rows.append(row(task, number, Cost(*json.loads(kept.read_text()))))
    header = (
        "task",
        "promoters, epochs, alignments or steps",
        "CPU s",
        "resident MB, by block",
        "anonymous MB",
    )
    print(
        f"{processor()}, one thread; MB = 10⁶ bytes\n\n{table([*header, 'spread', 'a line gains, MB'], rows)}"
    )


if __name__ == "__main__":
    main()
