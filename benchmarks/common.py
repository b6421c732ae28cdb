"""What benchmarks share: commands of bioattn in their process, folders of data, options, tables and intervals."""

import argparse
import contextlib
import io
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

REPOSITORY = Path(__file__).resolve().parent.parent
DATA = REPOSITORY / "data"
SHARED = Path(os.environ.get("BIOATTN_SHARED", REPOSITORY.parent / "shared"))
"""Public data files and golden vectors that are not in the repository."""


class CommandError(Exception):
    """A command of bioattn ended with another code than 0."""


def run(*words: object, show: bool = False) -> None:
    """Run a command in this process; its tables go to standard error. The first word may be several.

    show: print the command line. Raises: SystemExit when the command fails.
    """
    from bioattn_cli.main import main

    argv = [*shlex.split(str(words[0])), *map(str, words[1:])]
    if show:
        print("    bioattn " + shlex.join(argv), flush=True)
    with contextlib.redirect_stdout(sys.stderr):
        code = main(argv)
    if code:
        raise SystemExit(f"bioattn {shlex.join(argv)} ended with {code}")


def bioattn(command: str, *words: object) -> str:
    """Run a command, given as on a command line, with further words; return what it prints to standard output.

    Raises: CommandError with the command and what it said when it fails.
    """
    from bioattn_cli.main import main

    argv = [*shlex.split(command), *map(str, words)]
    printed, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said):
        code = main(argv)
    if code != 0:
        raise CommandError(f"bioattn {shlex.join(argv)} failed:\n{said.getvalue()}")
    return printed.getvalue()


@contextlib.contextmanager
def working_in(folder: Path) -> Iterator[None]:
    """Work in a folder where `data` and `shared` name the data, so that commands read as in the documentation."""
    for name, target in (("data", DATA), ("shared", SHARED)):
        if not (folder / name).exists():
            (folder / name).symlink_to(target)
    with contextlib.chdir(folder):
        yield


def options(
    description: str | None, *, seeds: Sequence[int] = (), output: bool = True
) -> argparse.ArgumentParser:
    """A command line whose help is the script's docstring, with --seeds (of this default) and --output."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawTextHelpFormatter)
    if seeds:
        parser.add_argument("--seeds", type=int, nargs="+", default=list(seeds))
    if output:
        parser.add_argument("-o", "--output", type=Path, help="write the tables here, too")
    return parser


def table(header: Iterable[object], rows: Iterable[Iterable[object]]) -> str:
    """A Markdown table; numbers that are not whole with three decimals."""
    names = list(header)
    lines = [names, ["---"] * len(names), *rows]
    return "".join(f"| {' | '.join(map(cell, line))} |\n" for line in lines)


def cell(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float | np.floating) else str(value)


def report(rows: Sequence[Mapping[str, object]], output: Path | None) -> None:
    """Print rows as a table whose columns are their keys, and write it if an output is named."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = table(names, ([row.get(name, "") for name in names] for row in rows))
    print(text, flush=True)
    if output is not None:
        output.write_text(text, encoding="utf-8")


def report_by_seed(
    measure: Callable[[Path, int], Sequence[Mapping[str, object]]], seeds: Sequence[int], output: Path | None
) -> None:
    """Report the rows that `measure` gives for a scratch folder and every seed."""
    rows: list[Mapping[str, object]] = []
    for seed in seeds:
        with tempfile.TemporaryDirectory() as scratch:
            rows += measure(Path(scratch), seed)
    report(rows, output)


def bootstrap(
    statistic: Callable[[np.ndarray], float], number: int, resamples: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """95 % interval of a statistic of unit numbers, `number` of them drawn with replacement."""
    random = np.random.default_rng(seed)
    values = [statistic(random.integers(number, size=number)) for _ in range(resamples)]
    low, high = np.nanpercentile(values, [2.5, 97.5])
    return float(low), float(high)


def mean_interval(values: Sequence[float] | np.ndarray, resamples: int = 2000) -> tuple[float, float]:
    """95 % interval of the mean of what is finite; NaN without any."""
    known = np.asarray(values)[np.isfinite(values)]
    if not len(known):
        return float("nan"), float("nan")
    return bootstrap(lambda chosen: float(known[chosen].mean()), len(known), resamples)
