"""Every command × every fault that a machine or its people can bring about (`make torture`).

    python -m tests.faults.matrix                                # all
    python -m tests.faults.matrix --fault "disk full" "run promoter"

A run under a fault ends with 0 and the result that it always has, or with 1 and one sentence. Whatever it ends
with, what stands under a final name is whole, inputs are as they were, and once the fault is gone the same command
(with --resume where there is one) makes what it always makes and leaves nothing else lying about.
"""
# ruff: noqa: T201 - a program

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bioattn.io.output_lock import lock_output

from bioattn.store.inspection import validate_file
from tests.faults.commands import COMMANDS, Command, contents, others
from tests.faults.forked import HANGS, Forks, Outcome, Run
from tests.faults.torture import Torture, Undisturbed, belongs

Case = tuple[str, Run]
"""What it is, and the run."""
TEMPORARY_KB = 4
"""What a folder and a lock take on a small disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How one case went."""

    fault: str
    command: str
    case: str
    status: int
    problems: tuple[str, ...]
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One kind of fault."""

    name: str
    cases: Callable[[Command, Run, int], Iterator[Case]]
    """Runs with the fault, from the run without it and the bytes of its result."""
    place: Callable[[Path, str], "ExitStack"] | None = None
    """Makes the folder that the run works in, a disk of its own, by the case."""
    must_fail: bool = False
    must_work: bool = False
    changes_inputs: bool = False
    needs_root: bool = False


def _limits(**values: Sequence[int]) -> Callable[[Command, Run, int], Iterator[Case]]:
    def cases(_command: Command, run: Run, _size: int) -> Iterator[Case]:
        for name, numbers in values.items():
            for number in numbers:
                yield f"{name} {number}", replace(run, limits={name: number})

    return cases


def _file_sizes(_command: Command, run: Run, size: int) -> Iterator[Case]:
    # Not less than 8 kB: what is said goes into files, too.
    for limit in sorted({max(8192, size * part // 10) for part in (1, 3, 7)}):
        yield f"{limit:,} bytes", replace(run, limits={"FSIZE": limit})


def _disk_sizes(_command: Command, run: Run, size: int) -> Iterator[Case]:
    for part in (0.0, 0.3, 0.7):
        yield f"{TEMPORARY_KB + int(size * part / 1024)} kB", run


def _once(**changes: object) -> Callable[[Command, Run, int], Iterator[Case]]:
    def cases(_command: Command, run: Run, _size: int) -> Iterator[Case]:
        yield ", ".join(f"{name} {value}" for name, value in changes.items()), replace(run, **changes)

    return cases


def _environments(*environments: dict[str, str | None]) -> Callable[[Command, Run, int], Iterator[Case]]:
    def cases(_command: Command, run: Run, _size: int) -> Iterator[Case]:
        for each in environments:
            yield " ".join(f"{name}={value}" for name, value in each.items()), replace(run, environment=each)

    return cases


def _changes(command: Command, run: Run, _size: int) -> Iterator[Case]:
    for name in command.inputs:
        for how in ("truncate", "empty", "delete", "replace", "append"):
            for opened in (0, 1, 2):
                if how == "append" and opened == 0:
                    continue  # an input like any other
                yield (
                    f"{name}: {how} when opened {opened} times",
                    replace(run, change={"file": name, "how": how, "opened": opened}),
                )


@contextmanager
def _small_disk(folder: Path, size: str) -> Iterator[None]:
    _mount("-t", "tmpfs", "-o", f"size={size.removesuffix(' kB')}k", "tmpfs", str(folder))
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _make_room(folder: Path) -> None:
    if os.path.ismount(folder):
        _mount("-o", "remount,rw,size=200m", str(folder))


def _disk(folder: Path, case: str) -> ExitStack:
    stack = ExitStack()
    stack.enter_context(_small_disk(folder, case))
    return stack


def _read_only_disk(folder: Path, _case: str) -> ExitStack:
    stack = ExitStack()
    stack.enter_context(_small_disk(folder, "4000"))
    _mount("-o", "remount,ro", str(folder))
    return stack


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def can_mount() -> bool:
    """Whether this user may mount a disk (root in a container may not, either)."""
    if os.geteuid() != 0:
        return False
    with tempfile.TemporaryDirectory() as folder:
        try:
            with _small_disk(Path(folder), "64 kB"):
                return True
        except (OSError, subprocess.CalledProcessError):
            return False


def _locked(command: Command, run: Run, _size: int) -> Iterator[Case]:
    for output in command.outputs:
        if output not in command.beside:
            yield output, run


def _lock(folder: Path, case: str) -> ExitStack:
    stack = ExitStack()
    stack.enter_context(lock_output(folder / case))
    return stack


FAULTS = [
    Fault(name="disk full", cases=_disk_sizes, place=_disk, must_fail=True, needs_root=True),
    Fault(name="file size limit", cases=_file_sizes),
    Fault(name="read-only output", cases=_once(), place=_read_only_disk, must_fail=True, needs_root=True),
    Fault(name="another run", cases=_locked, place=_lock, must_fail=True),
    Fault(name="file handles", cases=_limits(NOFILE=(10, 11, 12, 13, 14, 16, 20))),
    Fault(name="memory", cases=_limits(AS=(1 << 20, 8 << 20, 32 << 20, 128 << 20))),
    Fault(name="input changed", cases=_changes, changes_inputs=True),
    Fault(name="clock", cases=_once(clock=3600.0), must_work=True),
    Fault(name="stdout closed", cases=_once(stdout="closed")),
    Fault(name="stdout full", cases=_once(stdout="full")),
    Fault(name="stdout without reader", cases=_once(stdout="gone")),
    Fault(name="stderr closed", cases=_once(stderr="closed"), must_work=True),
    Fault(name="stderr full", cases=_once(stderr="full"), must_work=True),
    Fault(name="stderr without reader", cases=_once(stderr="gone"), must_work=True),
    Fault(name="stdin closed", cases=_once(stdin="closed"), must_work=True),
    Fault(
        name="environment",
        cases=_environments(
            {"TMPDIR": "/nonexistent"},
            {"TMPDIR": None, "HOME": None, "BIOATTN_CACHE": None, "XDG_CACHE_HOME": None},
            {"HOME": "/proc", "BIOATTN_CACHE": None, "XDG_CACHE_HOME": None},
            {"LC_ALL": "C", "LANG": None},
        ),
        must_work=True,
    ),
]


def run_case(torture: Torture, fault: Fault, command: Command, case: str, run: Run) -> Result:
    """One case: run, look, take the fault away, repeat, look again."""
    usual = torture.undisturbed(command)
    folder = Path(run.folder)
    folder.mkdir()
    inputs = torture.inputs
    problems: list[str] = []
    if fault.changes_inputs:
        inputs = folder / "inputs"
        shutil.copytree(torture.inputs, inputs)
        work = folder / "work"
        work.mkdir()
        changed = str(inputs / run.change["file"])
        run = replace(
            run, arguments=command.argv(inputs), folder=str(work), change={**run.change, "file": changed}
        )
        folder = work
    with ExitStack() as stack:
        if fault.place is not None:
            place = stack.enter_context(fault.place(folder, case))
        done = torture.forks.run(run)
        problems += _problems(fault, run, done)
        another_input = done.status == 0 and run.change.get("opened") == 0
        for output in command.outputs if not another_input else ():
            if not _is_whole(folder, command, output, usual, done):
                problems.append(f"{output} is not whole")
        if fault.name == "another run":
            place.close()
        else:
            _make_room(folder)
        if fault.changes_inputs:
            shutil.rmtree(inputs)
            shutil.copytree(torture.inputs, inputs)
        # The result of another input is replaced; what was not finished goes on.
        how = command.replace if another_input else command.resume or command.replace
        again = torture.forks.run(Run(arguments=command.argv(inputs, how), folder=str(folder)))
        if again.status != 0:
            problems.append(f"afterwards ended with {again.status}: {again.stderr[-300:]}")
        elif contents(folder, command.outputs) != usual.new:
            problems.append("afterwards makes something else")
        elif (more := others(folder, command.outputs)) != usual.leftovers:
            problems.append(f"left lying about: {', '.join(more)}")
    if contents(torture.scratch, ["inputs"]) != torture.input_digests:
        problems.append("inputs are not what they were")
    if not problems:
        shutil.rmtree(run.folder, ignore_errors=True)
    return Result(
        fault=fault.name,
        command=command.name,
        case=case,
        status=done.status,
        problems=tuple(problems),
        sentence=_sentence(done),
    )


def _is_whole(folder: Path, command: Command, output: str, usual: Undisturbed, done: Outcome) -> bool:
    """Whether an output is what it always is or, after a failure, absent.

    Of several inputs of which some failed, one file holds the others; that it is valid is all that is asked of it.
    """
    wanted = {name: digest for name, digest in usual.new.items() if belongs(name, output)}
    found = contents(folder, [output])
    if done.status == 1 and output in command.without_failed and (folder / output).exists():
        return not validate_file(folder / output)
    if done.status != 0 and output in command.grows:
        return all(wanted.get(name) == digest for name, digest in found.items())
    return found == wanted or (done.status != 0 and not (folder / output).exists())


def _sentence(done: Outcome) -> str:
    return " ".join(line for line in done.stderr.splitlines() if line.startswith("bioattn: error: "))


def _problems(fault: Fault, run: Run, done: Outcome) -> list[str]:
    """What is wrong with how it ended."""
    found = []
    if done.status == HANGS:
        return ["hangs"]
    if "Traceback" in done.stderr:
        found.append(f"traceback: {done.stderr[-500:]}")
    if done.status not in (0, 1) and not (run.stdout == "gone" and done.status == 141):
        found.append(f"ended with {done.status}: {done.stderr[-300:]}")
    if done.status == 1 and run.stderr == "file" and done.stderr.count("bioattn: error: ") != 1:
        found.append(f"no sentence: {done.stderr[-300:]}")
    if fault.must_fail and done.status == 0:
        found.append("went through")
    if fault.must_work and done.status != 0:
        found.append(f"did not work: {done.stderr[-300:]}")
    return found


def cases_of(torture: Torture, fault: Fault, command: Command) -> list[Case]:
    """All cases of a fault for a command."""
    usual = torture.undisturbed(command)
    run = Run(arguments=command.argv(torture.inputs), folder=str(torture.new_folder()))
    Path(run.folder).rmdir()
    cases = []
    for case, changed in fault.cases(command, run, usual.size):
        folder = torture.new_folder()
        folder.rmdir()
        cases.append((case, replace(changed, folder=str(folder))))
    return cases


def table(results: Sequence[Result]) -> str:
    """Markdown: commands × faults, as `cases: went through + refused, problems`."""
    faults = list(dict.fromkeys(result.fault for result in results))
    lines = ["| fault | commands | cases | worked all the same | one sentence, exit 1 | problems |"]
    lines.append("| --- | --- | --- | --- | --- | --- |")
    for fault in faults:
        own = [result for result in results if result.fault == fault]
        cells = [len({result.command for result in own}), len(own)]
        cells += [sum(r.status == 0 for r in own), sum(r.status != 0 for r in own)]
        cells += [sum(bool(r.problems) for r in own)]
        lines.append(f"| {fault} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main() -> int:
    """Read the arguments, try all, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commands", nargs="*", help="names of commands [default: all]")
    parser.add_argument("--fault", action="append", help="names of faults [default: all]")
    parser.add_argument("--scratch", type=Path, help="folder to work in [default: a temporary one]")
    parser.add_argument("-v", "--verbose", action="store_true", help="print every sentence")
    arguments = parser.parse_args()
    scratch = arguments.scratch or Path(tempfile.mkdtemp(prefix="faults-"))
    scratch.mkdir(exist_ok=True)
    began = time.monotonic()
    results = []
    mounts = can_mount()
    with Forks(scratch) as forks:
        torture = Torture(forks, scratch)
        for fault in FAULTS:
            if (arguments.fault and fault.name not in arguments.fault) or (fault.needs_root and not mounts):
                continue
            for command in COMMANDS:
                if arguments.commands and command.name not in arguments.commands:
                    continue
                for case, run in cases_of(torture, fault, command):
                    result = run_case(torture, fault, command, case, run)
                    results.append(result)
                    if arguments.verbose:
                        print(
                            f"{fault.name} | {command.name} | {case} | {result.status} | {result.sentence}",
                            flush=True,
                        )
                    for problem in result.problems:
                        print(
                            f"{fault.name} | {command.name} | {case}: {problem}", file=sys.stderr, flush=True
                        )
    wrong = sum(bool(result.problems) for result in results)
    print(table(results))
    print(f"\n{len(results)} cases, {wrong} with problems, {time.monotonic() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
