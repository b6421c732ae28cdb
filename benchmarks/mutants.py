"""Mutation test: one operator or number of a module is changed, and the tests of that module have to notice.

    python benchmarks/mutants.py                        # 200 mutants of the default modules, some 15 minutes
    python benchmarks/mutants.py --sample 50 --seed 1 --only batches
    python benchmarks/mutants.py --budget 600           # stops after ten minutes and says how many were run

Prints Markdown: mutants and survivors by module, then every survivor with its line. A mutant counts as killed when
a test fails, or when the tests take far longer than without it. The sample is spread evenly over the modules,
drawn by `--seed`. Changed are comparisons, arithmetic, `and` and `or`, `not`, truth values, whole numbers and
decimals, and pairs of functions such as `min` and `max`; not changed are annotations, messages (`raise` and
logging), docstrings, constants of a module and defaults of a class's fields.

The tests run in a copy of the repository, in forked processes that have the large libraries loaded already.
"""

import argparse
import ast
import copy
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parent.parent
PROMOTER = "bioattn/models/promoter/training"
SPLITS = ["tests/promoters/test_splits.py", "tests/promoters/test_gene_split.py"]
ATTENTION = ["tests/attention/test_operator.py", "tests/attention/test_operator_paths.py"]
TESTS = {
    f"{PROMOTER}/losses.py": ["tests/training/promoter/test_losses_and_batches.py"],
    f"{PROMOTER}/batches.py": ["tests/training/promoter/test_losses_and_batches.py"],
    "bioattn/training/task.py": ["tests/training/test_optimisation.py"],
    "bioattn/promoters/windows.py": ["tests/promoters/test_windows.py"],
    "bioattn/promoters/operons.py": ["tests/promoters/test_windows.py"],
    "bioattn/promoters/splits.py": SPLITS,
    "bioattn/promoters/gene_split.py": SPLITS,
    "bioattn/attention/operator.py": ATTENTION,
    "bioattn/attention/score.py": ATTENTION,
    "bioattn/store/merging.py": [
        "tests/store/test_part_sets.py",
        "tests/store/test_merging.py",
    ],
}
"""The modules that are changed, and the tests that have to notice."""
HEAVY = (
    "torch",
    "pandas",
    "scipy.sparse",
    "scipy.stats",
    "h5py",
    "hypothesis",
    "pytest",
    "safetensors.torch",
)
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
PAIRS = [("min", "max"), ("minimum", "maximum"), ("any", "all"), ("ones", "zeros"), ("argmin", "argmax")]
PAIRS += [("mean", "sum"), ("amin", "amax"), ("floor", "ceil"), ("mean", "median")]
NAMES = {**{right: left for left, right in PAIRS}, **dict(PAIRS)}
SLOWER = 2
"""So many times the time of the unchanged module, and 10 s more, is too long."""


class Mutant(NamedTuple):
    """One change of one module."""

    module: str
    line: int
    change: str
    """The statement before and after."""
    source: str


class Outcome(NamedTuple):
    """What the tests made of a mutant."""

    mutant: Mutant
    killed: bool
    seconds: float


def mutants_of(module: str) -> Iterator[Mutant]:
    """Every mutant of a module, in the order of its source."""
    tree = ast.parse((REPOSITORY / module).read_text(encoding="utf-8"))
    for number, node in enumerate(_places(tree)):
        for variant in range(len(_variants(copy.deepcopy(node)))):
            changed = copy.deepcopy(tree)
            target = list(_places(changed))[number]
            before = ast.unparse(target)
            _variants(target)[variant]()
            yield Mutant(module, node.lineno, f"`{before}` → `{ast.unparse(target)}`", ast.unparse(changed))


def _places(node: ast.AST) -> Iterator[ast.expr]:
    """Expressions that can be changed; annotations, messages, docstrings and decorators are passed over."""
    constants = isinstance(node, ast.Module | ast.ClassDef)
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if (
                not isinstance(child, ast.AST)
                or isinstance(child, ast.Raise | ast.JoinedStr)
                or _is_log(child)
            ):
                continue
            if constants and isinstance(child, ast.Assign | ast.AnnAssign):
                continue
            if isinstance(child, ast.expr) and _variants(copy.deepcopy(child)):
                yield child
            yield from _places(child)


def _is_log(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func).startswith("LOGGER")
    )


def _variants(node: ast.expr) -> list:
    """The changes of one expression, as functions that make them in place."""

    def put(**fields):
        return lambda: [setattr(node, name, value) for name, value in fields.items()]

    match node:
        case ast.Compare(ops=[operator]) if type(operator) in COMPARISONS:
            return [put(ops=[COMPARISONS[type(operator)]()])]
        case ast.BinOp(op=operator) if type(operator) in ARITHMETIC:
            return [put(op=ARITHMETIC[type(operator)]())]
        case ast.BoolOp(op=operator):
            return [put(op=ast.Or() if isinstance(operator, ast.And) else ast.And())]
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert()):
            if isinstance(node.op, ast.USub):
                return [put(op=ast.UAdd())]
            return [put(operand=ast.UnaryOp(op=copy.copy(node.op), operand=node.operand))]
        case ast.Constant(value=bool(value)):
            return [put(value=not value)]
        case ast.Constant(value=int(value)):
            return [put(value=value + 1)]
        case ast.Constant(value=float(value)):
            return [put(value=value * 2 + 1)]
        case ast.Name(id=("min" | "max" | "any" | "all") as name):
            return [put(id=NAMES[name])]
        case ast.Attribute(attr=name) if name in NAMES:
            return [put(attr=NAMES[name])]
    return []


def sample_of(modules: list[str], number: int, seed: int) -> list[Mutant]:
    """`number` mutants, as many of each module as there are and as the others leave room for."""
    chosen = random.Random(seed)
    pools = {module: list(mutants_of(module)) for module in modules}
    for pool in pools.values():
        chosen.shuffle(pool)
    found: list[Mutant] = []
    while len(found) < number and any(pools.values()):
        for pool in pools.values():
            if pool and len(found) < number:
                found.append(pool.pop())
    return found


def run_tests(folder: Path, tests: list[str], seconds: float) -> tuple[bool, float]:
    """Whether the tests pass within `seconds`, and how long they took, in a forked process."""
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.chdir(folder)
        sys.path[:0] = [str(folder), str(folder / "cli")]
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        import pytest

        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--hypothesis-seed=0"]
        os._exit(int(pytest.main([*options, *tests])))
    while time.monotonic() - started < seconds:
        finished, status = os.waitpid(child, os.WNOHANG)
        if finished:
            return os.waitstatus_to_exitcode(status) == 0, time.monotonic() - started
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False, time.monotonic() - started


def run(mutants: list[Mutant], budget: float) -> list[Outcome]:
    """The outcomes of as many mutants as the budget (seconds) allows."""
    started = time.monotonic()
    outcomes = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = copied_repository(Path(temporary) / "repository")
        limits = {}
        for module in dict.fromkeys(mutant.module for mutant in mutants):
            passed, seconds = run_tests(folder, TESTS[module], 600)
            if not passed:
                raise SystemExit(f"the tests of {module} fail without any change: {' '.join(TESTS[module])}")
            limits[module] = SLOWER * seconds + 10
            print(f"{module}: {seconds:.1f} s unchanged", file=sys.stderr)
        for number, mutant in enumerate(mutants, start=1):
            if time.monotonic() - started > budget:
                break
            path = folder / mutant.module
            unchanged = path.read_text(encoding="utf-8")
            path.write_text(mutant.source, encoding="utf-8")
            passed, seconds = run_tests(folder, TESTS[mutant.module], limits[mutant.module])
            path.write_text(unchanged, encoding="utf-8")
            outcomes.append(Outcome(mutant, not passed, seconds))
            word = "survived" if passed else "killed"
            print(
                f"{number} {word} {mutant.module}:{mutant.line} {mutant.change}", file=sys.stderr, flush=True
            )
    return outcomes


def copied_repository(folder: Path) -> Path:
    """The files that git knows or would add, as far as the tests of the modules need them."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    command += ["bioattn", "cli", "tests", "pyproject.toml"]
    listed = subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True)
    for name in listed.stdout.splitlines():
        if (REPOSITORY / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(REPOSITORY / name, folder / name)
    return folder


def table(outcomes: list[Outcome], wanted: int) -> str:
    """The result as Markdown."""
    killed = sum(outcome.killed for outcome in outcomes)
    lines = [
        f"{killed} of {len(outcomes)} mutants killed ({100 * killed / max(1, len(outcomes)):.0f} %), "
        f"{wanted} were drawn.",
        "",
        "| module | mutants | killed |",
        "| --- | --- | --- |",
    ]
    for module in dict.fromkeys(outcome.mutant.module for outcome in outcomes):
        here = [outcome for outcome in outcomes if outcome.mutant.module == module]
        lines.append(f"| `{module}` | {len(here)} | {sum(outcome.killed for outcome in here)} |")
    survivors = [outcome.mutant for outcome in outcomes if not outcome.killed]
    if survivors:
        lines += ["", "| survivor | change |", "| --- | --- |"]
        lines += map(row_of, survivors)
    return "\n".join(lines)


def row_of(mutant: Mutant) -> str:
    """The row of a survivor."""
    change = mutant.change.replace("|", "\\|")
    return f"| `{mutant.module}` line {mutant.line} | {change} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sample", type=int, default=200, help="mutants to draw")
    parser.add_argument("--seed", type=int, default=0, help="seed of the draw")
    parser.add_argument("--only", default="", help="only modules whose path holds this text")
    parser.add_argument(
        "--budget", type=float, default=3600, help="seconds, after which no other mutant begins"
    )
    parser.add_argument("--again", type=Path, help="page of an earlier run: only the survivors that it lists")
    options = parser.parse_args()
    for name in HEAVY:
        __import__(name)
    mutants = sample_of([module for module in TESTS if options.only in module], options.sample, options.seed)
    if options.again is not None:
        page = options.again.read_text(encoding="utf-8")
        mutants = [mutant for mutant in mutants if row_of(mutant) in page]
    print(table(run(mutants, options.budget), len(mutants)))


if __name__ == "__main__":
    main()
