"""What bioattn costs as inputs grow: CPU time, memory and disk of every step, as Markdown on stdout.

    python benchmarks/scale.py --work DIR                # ten minutes of CPU time a round
    python benchmarks/scale.py --work DIR --quick        # two sizes of each step, once
    python benchmarks/scale.py --work DIR --tables-only  # what is there, measured before

Every measurement is a `bioattn` command as a user types it, on random input of a given size, or one block of the
Evoformer. Each is a process of its own on one thread, forked from one that has imported everything, so times are
without the start, which is measured too. Rounds go through all sizes in turn, so that what else a machine does
slows all alike; the table has the median of the rounds. What is measured is kept in DIR/points.jsonl, so an
interrupted run goes on. Tables, fits and estimates are printed by `scale_tables.py`.
"""

import argparse
import importlib
import json
import os
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from measured_process import REPOSITORY, resident_peak, run_bioattn, size_of

KEPT = "points.jsonl"
SMALL_MODEL = REPOSITORY / "data" / "models" / "evoformer-contacts"


class Point(NamedTuple):
    """One size of one step."""

    task: str
    sizes: tuple[tuple[str, int], ...]
    variant: str = ""
    """Options other than the plain ones."""
    once: bool = False
    """Measured in one round only: dear, or there to check what the others foretell."""

    @property
    def name(self) -> str:
        """For the file of figures."""
        return " ".join([self.task, *(f"{key}={value}" for key, value in self.sizes), self.variant]).strip()


class Figures(NamedTuple):
    """What one measurement gave."""

    cpu: float
    """Seconds of processor time, without the start."""
    peak: int
    """Highest resident size, bytes; 0.2 GB of it are libraries."""
    bytes: int
    """Size of the result."""


def point(task: str, *values: int, variant: str = "", once: bool = False) -> Point:
    """A point by the numbers in the order of `SIZES`."""
    return Point(task, tuple(zip(SIZES[task], values, strict=True)), variant, once)


PROMOTERS = ("genes", "treatments", "bases")
SIZES = {
    "start": (),
    "prepare promoters": ("genes", "megabases"),
    "prepare dataset": PROMOTERS,
    "train": PROMOTERS,
    "baselines": PROMOTERS,
    "run": PROMOTERS,
    "export": PROMOTERS,
    "attribution": PROMOTERS,
    "check": ("samples", "treatments", "bases"),
    "block": ("rows", "residues"),
    "extra block": ("rows", "residues"),
    "evoformer": ("blocks", "extra_blocks", "rows", "residues"),
    "small evoformer": ("rows", "residues"),
}

POINTS = (
    point("start"),
    *(point("prepare promoters", *at) for at in ((2000, 20), (10000, 20), (10000, 100), (30000, 100))),
    *(
        point("prepare dataset", *at)
        for at in (
            (2000, 10, 1000),
            (10000, 10, 1000),
            (10000, 10, 250),
            (10000, 100, 1000),
            (2000, 1000, 1000),
        )
    ),
    point("prepare dataset", 8000, 300, 2000, once=True),
    *(
        point("train", *at)
        for at in (
            *((1000, 10, 1000), (1000, 1, 1000), (1000, 100, 1000), (500, 1000, 1000)),
            *((1000, 10, 250), (1000, 10, 2000), (4000, 10, 1000)),
        )
    ),
    point("train", 2000, 300, 500, once=True),
    *(
        point("baselines", *at)
        for at in ((1000, 10, 1000), (2000, 10, 1000), (4000, 10, 1000), (1000, 300, 1000), (1000, 10, 2000))
    ),
    *(
        point(task, *at)
        for task in ("run", "export")
        for at in (
            *((2000, 10, 1000), (2000, 1, 1000), (2000, 100, 1000), (500, 1000, 1000)),
            *((4000, 10, 250), (2000, 10, 2000), (8000, 10, 1000)),
        )
    ),
    *(
        point("export", 2000, 10, 1000, variant=variant)
        for variant in (
            "--dtype float16",
            "--reduce mean-heads",
            "--heads 0",
            "--treatment treatment0",
            "--phases 4",
            "--value-weighted",
        )
    ),
    *(point(task, 3000, 200, 2000, once=True) for task in ("run", "export")),
    *(
        point("attribution", *at)
        for at in (
            (20, 10, 1000),
            (20, 1, 1000),
            (20, 100, 1000),
            (40, 10, 500),
            (10, 10, 2000),
            (80, 10, 1000),
        )
    ),
    point("attribution", 4, 1000, 1000, once=True),
    *(point("check", *at) for at in ((20, 5, 500), (60, 5, 500), (20, 20, 500), (20, 5, 1000))),
    *(point("block", *at) for at in ((128, 64), (128, 128), (128, 256), (128, 384), (32, 256), (512, 256))),
    *(point("block", *at, variant="bf16") for at in ((128, 128), (128, 256), (512, 256))),
    *(point("extra block", *at) for at in ((1024, 64), (1024, 128), (1024, 256), (5120, 128))),
    *(point("extra block", *at, variant="bf16") for at in ((1024, 128), (1024, 256))),
    *(point("evoformer", 1, 1, *at) for at in ((128, 64), (128, 128), (128, 256))),
    point("evoformer", 48, 4, 640, 96, once=True),
    *(point("small evoformer", *at) for at in ((128, 64), (128, 128), (128, 256), (128, 384), (1056, 128))),
    *(point("small evoformer", *at, variant="--attention") for at in ((128, 128), (128, 256))),
)
QUICK = {name for task in SIZES for name in [p.name for p in POINTS if p.task == task and not p.once][:2]}


def in_process(work: Path, act: Callable[[], float | None]) -> Figures:
    """Do it in a child of this process and measure that, unless it tells its seconds itself.

    Raises: RuntimeError with what it said when it fails.
    """
    log, figures = work / "last-command.log", work / "last-figures.json"
    child = os.fork()
    if child == 0:
        with log.open("w") as said:
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
        code = 1
        try:
            Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
            began = time.process_time()
            seconds = act()
            if seconds is None:
                seconds = time.process_time() - began
            figures.write_text(json.dumps({"cpu": seconds, "peak": resident_peak(), "bytes": 0}))
            code = 0
        except BaseException:  # noqa: BLE001 - whatever it is, it is told, and the child ends here
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if status:
        raise RuntimeError(log.read_text()[-2000:])
    return Figures(**json.loads(figures.read_text()))


def command(work: Path, arguments: list[str | Path]) -> Figures:
    """Run a `bioattn` command."""

    def act() -> None:
        from bioattn_cli.main import main as bioattn

        if code := bioattn([str(argument) for argument in arguments]):
            raise RuntimeError(f"ended with {code}")

    os.chdir(work)
    return in_process(work, act)


def made(work: Path, what: str, **sizes: int) -> Path:
    """The folder of an input, made the first time it is asked for."""
    folder = work / "-".join([what, *(f"{name}{size}" for name, size in sizes.items())])
    if not folder.exists():
        import scale_inputs

        unfinished = folder.with_name(folder.name + ".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        in_process(work, lambda: scale_inputs.MAKERS[what](unfinished, **sizes))
        unfinished.rename(folder)
    return folder


def _with_size(figures: Figures, output: Path) -> Figures:
    return figures._replace(bytes=size_of(output))


def start(work: Path, _variant: str) -> Figures:
    """A new process that predicts one promoter: what every command that runs a model takes to begin with."""
    cost = run_bioattn(["run", "promoter", *_on_promoters(work, 1, 10, 1000), "-o", work / "out.tsv"], work)
    return Figures(cost.cpu, cost.peak, 0)


def prepare_promoters(work: Path, _variant: str, genes: int, megabases: int) -> Figures:
    """Windows of 1,000 bases of a genome that was never seen before."""
    source = made(work, "genome", genes=genes, megabases=megabases)
    output = work / "out.fa"
    (source / "index").unlink(missing_ok=True)
    files = [source / "genome.fa", source / "annotation.gff3", "-o", output, "--index", source / "index"]
    return _with_size(command(work, ["prepare", "promoters", *files]), output)


def _dataset(work: Path, genes: int, treatments: int, bases: int, output: Path) -> Figures:
    promoters = made(work, "promoters", genes=genes, bases=bases)
    responses = made(work, "responses", genes=genes, treatments=treatments)
    files = [promoters / "promoters.fa", responses / "responses.tsv", "-o", output]
    return command(work, ["prepare", "dataset", *files])


def prepare_dataset(work: Path, _variant: str, genes: int, treatments: int, bases: int) -> Figures:
    """The default split, by chromosomes."""
    output = work / "out.dataset.h5"
    return _with_size(_dataset(work, genes, treatments, bases, output), output)


def _train(work: Path, genes: int, treatments: int, bases: int, *options: str) -> tuple[Figures, Path]:
    dataset = work / f"dataset-{genes}-{treatments}-{bases}.dataset.h5"
    if not dataset.exists():
        _dataset(work, genes, treatments, bases, dataset)
    output = work / "out-model"
    arguments = ["train", "promoter", dataset, "-o", output, "--threads", "1", "--force", *options]
    return command(work, arguments), output


def train(work: Path, _variant: str, genes: int, treatments: int, bases: int) -> Figures:
    """CPU seconds of an epoch: three epochs less one, halved; validation is in it."""
    one, _ = _train(work, genes, treatments, bases, "--no-baselines", "--epochs", "1")
    three, output = _train(work, genes, treatments, bases, "--no-baselines", "--epochs", "3")
    return Figures((three.cpu - one.cpu) / 2, three.peak, size_of(output))


def baselines(work: Path, _variant: str, genes: int, treatments: int, bases: int) -> Figures:
    """What --baselines adds to a training."""
    without, _ = _train(work, genes, treatments, bases, "--no-baselines", "--epochs", "1")
    with_them, output = _train(work, genes, treatments, bases, "--epochs", "1")
    return Figures(with_them.cpu - without.cpu, with_them.peak, size_of(output))


def _on_promoters(work: Path, genes: int, treatments: int, bases: int) -> list[str | Path]:
    model = made(work, "promoter-model", treatments=treatments, bases=bases) / "model"
    return [model, made(work, "promoters", genes=genes, bases=bases) / "promoters.fa", "--threads", "1"]


def run(work: Path, _variant: str, genes: int, treatments: int, bases: int) -> Figures:
    """Predictions as a table."""
    output = work / "out.tsv"
    files = _on_promoters(work, genes, treatments, bases)
    return _with_size(command(work, ["run", "promoter", *files, "-o", output]), output)


def export(work: Path, variant: str, genes: int, treatments: int, bases: int) -> Figures:
    """Attention, all of it unless the variant says otherwise."""
    output = work / "out.h5"
    files = _on_promoters(work, genes, treatments, bases)
    arguments = ["export", "attention", *files, "-o", output, "--force", *variant.split()]
    return _with_size(command(work, arguments), output)


def attribution(work: Path, _variant: str, genes: int, treatments: int, bases: int) -> Figures:
    """In-silico mutagenesis of every base."""
    output = work / "out.attribution.h5"
    files = _on_promoters(work, genes, treatments, bases)
    return _with_size(command(work, ["explain", "attribution", *files, "-o", output, "--force"]), output)


def check(work: Path, _variant: str, samples: int, treatments: int, bases: int) -> Figures:
    """The checks that need the model and promoters alone."""
    output = work / "out.json"
    files = _on_promoters(work, 1000, treatments, bases)
    arguments = ["explain", "check", *files, "-o", output, "--samples", str(samples)]
    return _with_size(command(work, arguments), output)


def block(work: Path, variant: str, rows: int, residues: int, extra: bool = False) -> Figures:
    """One block by itself."""
    import scale_inputs

    def act() -> float:
        return scale_inputs.run_block(rows, residues, extra=extra, bf16=variant == "bf16")

    return in_process(work, act)


def extra_block(work: Path, variant: str, rows: int, residues: int) -> Figures:
    """One block of the extra-MSA stack."""
    return block(work, variant, rows, residues, extra=True)


def evoformer(work: Path, _variant: str, blocks: int, extra_blocks: int, rows: int, residues: int) -> Figures:
    """A pass of a model of AlphaFold's widths from alignment to atoms: at most 128 rows, the others extra."""
    model = made(work, "evoformer-model", blocks=blocks, extra_blocks=extra_blocks) / "model"
    settings = work / "one-pass.toml"
    settings.write_text("[inputs]\nnum_recycles = 0\nmax_msa_clusters = 128\nmax_extra_msa = 5120\n")
    options: list[str | Path] = ["--config", settings]
    return _evoformer(work, model, rows, residues, options)


def small_evoformer(work: Path, variant: str, rows: int, residues: int) -> Figures:
    """The model that comes along."""
    attention = [variant, work / "out.attention.h5"] if variant else []
    figures = _evoformer(work, SMALL_MODEL, rows, residues, attention)
    return figures._replace(bytes=size_of(work / "out.attention.h5")) if variant else figures


def _evoformer(work: Path, model: Path, rows: int, residues: int, options: list[str | Path]) -> Figures:
    source = made(work, "alignment", rows=rows, residues=residues) / "alignment.a3m"
    output = work / "out-evoformer"
    shutil.rmtree(output, ignore_errors=True)
    files = [source, "--model", model, "-o", output, "--threads", "1"]
    return _with_size(command(work, ["run", "evoformer", *files, *options]), output)


TASKS: dict[str, Callable[..., Figures]] = {
    "start": start,
    "prepare promoters": prepare_promoters,
    "prepare dataset": prepare_dataset,
    "train": train,
    "baselines": baselines,
    "run": run,
    "export": export,
    "attribution": attribution,
    "check": check,
    "block": block,
    "extra block": extra_block,
    "evoformer": evoformer,
    "small evoformer": small_evoformer,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True, help="folder of inputs and figures")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tables-only", action="store_true")
    options = parser.parse_args()
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    if not options.tables_only:
        measure_all(work, 1 if options.quick else options.rounds, quick=options.quick)
    tables = Path(__file__).with_name("scale_tables.py")
    subprocess.run([sys.executable, str(tables), str(work / KEPT)], check=True)


def measure_all(work: Path, rounds: int, *, quick: bool) -> None:
    """Measure what is not kept yet."""
    kept = work / KEPT
    known = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    done = {(found["name"], found["round"]) for found in known}
    wanted = [each for each in POINTS if not quick or each.name in QUICK]
    import_everything()
    for number in range(rounds):
        for each in wanted:
            if (each.name, number) in done or (each.once and number):
                continue
            print(f"round {number + 1}: {each.name}", file=sys.stderr)
            figures = TASKS[each.task](work, each.variant, **dict(each.sizes))
            with kept.open("a") as file:
                file.write(json.dumps({"name": each.name, "round": number, **figures._asdict()}) + "\n")


def import_everything() -> None:
    """One thread, this working tree, and what the commands import when they run."""
    os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "cli")]
    for name in (
        "scipy.stats",
        "bioattn_cli.main",
        "bioattn.promoters.assemble",
        "bioattn.models.promoter.training.task",
        "bioattn.models.promoter.inference.run",
        "bioattn.models.evoformer.inference.runner",
        "bioattn.interpret.attribution.run",
        "bioattn.checks.engine",
        "scale_inputs",
    ):
        importlib.import_module(name)


if __name__ == "__main__":
    main()
