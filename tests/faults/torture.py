"""Kill every command at random moments and at every step on the file system, go on, and compare (`make torture`).

    python -m tests.faults.torture --kills 200 --steps        # all commands: benchmarks/results/faults.md
    python -m tests.faults.torture --kills 20 "run promoter"  # one command

After each kill, what stands under a final name must be absent, the whole earlier result or the whole new one, byte
for byte, and the inputs as they were. Then the command is given again (with --resume where there is one): the
bytes must be those of a run that nobody disturbed, and nothing else may lie about. Every second kill strikes a run
that replaces an earlier result.
"""
# ruff: noqa: T201 - a program

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.faults.commands import COMMANDS, Command, check_records, contents, make_inputs, others
from tests.faults.forked import Forks, Outcome, Run

SIGNALS = {signal.SIGKILL: -signal.SIGKILL, signal.SIGTERM: 143, signal.SIGINT: 130}


@dataclass(frozen=True, slots=True, kw_only=True)
class Undisturbed:
    """What a command leaves when nothing happens to it."""

    new: dict[str, str]
    """Digests of its files."""
    old: dict[str, str]
    """Of what an earlier run with other options left."""
    records: list[str]
    """Run records."""
    leftovers: list[str]
    """What else lies there: a genome index."""
    outcome: Outcome
    size: int
    """Bytes of all files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """One kill."""

    command: str
    moment: str
    replacing: bool
    status: int
    stood: str
    """What stood under the final names after it: nothing, old, new or, of several files, mixed."""
    problems: tuple[str, ...]
    cpu: float


class Torture:
    """Commands, their inputs, and what they make when nobody disturbs them."""

    def __init__(self, forks: Forks, scratch: Path) -> None:
        self.forks = forks
        self.scratch = scratch
        self.inputs = scratch / "inputs"
        make_inputs(self.inputs, forks)
        self.input_digests = contents(scratch, ["inputs"])
        self._undisturbed: dict[str, Undisturbed] = {}
        self._number = 0

    def undisturbed(self, command: Command) -> Undisturbed:
        """Run it in peace, once."""
        if command.name not in self._undisturbed:
            folder = self.new_folder()
            outcome = self._run(command, folder)
            assert outcome.status == 0, f"{command.name}: {outcome.stderr}"
            new, leftovers = contents(folder, command.outputs), others(folder, command.outputs)
            size, records = sum((folder / name).stat().st_size for name in new), _records(folder)
            old = {}
            if command.other:
                shutil.rmtree(folder)
                folder.mkdir()
                earlier = self._run(command, folder, command.other)
                assert earlier.status == 0, f"{command.name} {command.other}: {earlier.stderr}"
                old = contents(folder, command.outputs)
                assert old != new, f"{command.name} {command.other}: makes the same"
                folder.rename(self.scratch / f"old-{command.name}")
            self._undisturbed[command.name] = Undisturbed(
                new=new, old=old, records=records, leftovers=leftovers, outcome=outcome, size=size
            )
        return self._undisturbed[command.name]

    def strike(
        self,
        command: Command,
        *,
        number: int = signal.SIGKILL,
        after: float | None = None,
        at_step: int | None = None,
        replacing: bool = False,
    ) -> Strike:
        """Kill it once, look, go on, and look again."""
        usual = self.undisturbed(command)
        replacing = replacing and bool(usual.old)
        folder = self.new_folder()
        if replacing:
            folder.rmdir()
            shutil.copytree(self.scratch / f"old-{command.name}", folder)
        more = [command.replace] if replacing else []
        killed = self._run(command, folder, *more, number=number, after=after, at_step=at_step)
        problems = []
        if killed.status not in (0, SIGNALS[signal.Signals(number)]):
            problems.append(f"ended with {killed.status}: {killed.stderr[-300:]}")
        if number != signal.SIGKILL and "Traceback" in killed.stderr:
            problems.append(f"traceback: {killed.stderr[-600:]}")
        stood = self._what_stands(folder, command, usual, replacing, problems)
        if contents(self.scratch, ["inputs"]) != self.input_digests:
            problems.append("inputs are not what they were")
        again = [command.resume or command.replace]
        if replacing or (command.resume and stood != "nothing" and "train" not in command.name):
            again.append(command.replace)
        resumed = self._run(command, folder, *dict.fromkeys(again))
        if resumed.status != 0:
            problems.append(f"going on ended with {resumed.status}: {resumed.stderr[-600:]}")
        elif (found := contents(folder, command.outputs)) != usual.new:
            different = [name for name in {*found, *usual.new} if found.get(name) != usual.new.get(name)]
            problems.append(f"another result in {', '.join(sorted(different))}")
        elif _records(folder) != usual.records:
            problems.append(f"run records are {', '.join(_records(folder))}, not {', '.join(usual.records)}")
        # The lock of a cache that was complete when its maker was killed, and so is not made again.
        caches = {f".{name}.lock" for name in usual.leftovers}
        lying = [name for name in others(folder, command.outputs) if name not in {*usual.leftovers, *caches}]
        if not problems and lying:
            problems.append(f"left lying about: {', '.join(lying)}")
        if not problems:
            shutil.rmtree(folder)
        return Strike(
            command=command.name,
            moment=f"step {at_step}" if after is None else f"{after:.3f} s",
            replacing=replacing,
            status=killed.status,
            stood=stood,
            problems=tuple(problems),
            cpu=killed.cpu + resumed.cpu,
        )

    def _what_stands(
        self, folder: Path, command: Command, usual: Undisturbed, replacing: bool, problems: list[str]
    ) -> str:
        """One word for it; `problems` gets what may not be."""
        try:
            check_records(folder)
        except ValueError as error:
            problems.append(f"a run record is not whole: {error}")
        states = set()
        for output in command.outputs:
            found = {
                name: digest
                for name, digest in contents(folder, [output]).items()
                if output not in command.grows or _is_final(name)
            }
            new = {name: digest for name, digest in usual.new.items() if belongs(name, output)}
            old = {name: digest for name, digest in usual.old.items() if belongs(name, output)}
            if not (folder / output).exists():
                states.add("nothing")
            elif found == new:
                states.add("new")
            elif replacing and found == old:
                states.add("old")
            elif output in command.grows and all(
                digest in (new.get(name), old.get(name)) for name, digest in found.items()
            ):
                states.add("some")
            else:
                states.add("PARTIAL")
                different = [name for name in found if found[name] not in (new.get(name), old.get(name))]
                names = ", ".join(different) or "files are missing"
                problems.append(f"{output} is neither the earlier result nor the new one: {names}")
        return states.pop() if len(states) == 1 else "some"

    def _run(
        self,
        command: Command,
        folder: Path,
        *more: str,
        number: int = 0,
        after: float | None = None,
        at_step: int | None = None,
    ) -> Outcome:
        return self.forks.run(
            Run(
                arguments=command.argv(self.inputs, *more),
                folder=str(folder),
                signal=number,
                after=after,
                at_step=at_step,
            )
        )

    def new_folder(self) -> Path:
        """An empty folder to run in."""
        self._number += 1
        folder = self.scratch / f"run-{self._number}"
        folder.mkdir()
        return folder


def _records(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.run.json"))


def _is_final(name: str) -> bool:
    """Whether a file in a growing folder has its final name, and so has the folder that it is in."""
    return not any(part.startswith(".") or part.endswith(".partial") for part in Path(name).parts)


def belongs(name: str, output: str) -> bool:
    """Whether a file is an output or in it."""
    return name == output or name.startswith(output + "/")


def table(strikes: Sequence[Strike]) -> str:
    """Markdown: per command the kills, what they left, and what went wrong."""
    lines = [
        "| command | kills | ended before | nothing | old | new | some | partial | wrong after going on | CPU s |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    names = list(dict.fromkeys(strike.command for strike in strikes))
    for name in [*names, "all"]:
        own = [strike for strike in strikes if name in (strike.command, "all")]
        cells: list[object] = [len(own), sum(strike.status == 0 for strike in own)]
        cells += [sum(s.stood == word for s in own) for word in ("nothing", "old", "new", "some")]
        cells += [sum(any("neither" in p for p in s.problems) for s in own)]
        cells += [sum(any("neither" not in p for p in s.problems) for s in own)]
        cells += [f"{sum(strike.cpu for strike in own):.0f}"]
        lines.append(f"| {name} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main() -> int:
    """Read the arguments, torture, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commands", nargs="*", help="names of commands [default: all]")
    parser.add_argument("--kills", type=int, default=200, help="kills at random moments, in all")
    parser.add_argument("--steps", action="store_true", help="also kill before every step on the file system")
    parser.add_argument("--signal", choices=["KILL", "TERM", "INT"], default="KILL")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scratch", type=Path, help="folder to work in [default: a temporary one]")
    arguments = parser.parse_args()
    chosen = [command for command in COMMANDS if not arguments.commands or command.name in arguments.commands]
    number = signal.Signals[f"SIG{arguments.signal}"]
    draw = random.Random(arguments.seed)
    strikes = []
    began = time.monotonic()
    scratch = arguments.scratch or Path(tempfile.mkdtemp(prefix="torture-"))
    scratch.mkdir(exist_ok=True)
    with Forks(scratch) as forks:
        torture = Torture(forks, scratch)

        def strike(command: Command, **moment: float | int) -> None:
            replacing = len(strikes) % 2 == 1
            strikes.append(torture.strike(command, number=number, replacing=replacing, **moment))
            last = strikes[-1]
            for problem in last.problems:
                how = "replacing, " if last.replacing else ""
                print(
                    f"{last.command}, {how}{arguments.signal} at {last.moment}: {problem}",
                    file=sys.stderr,
                    flush=True,
                )

        for kill in range(arguments.kills):
            command = chosen[kill % len(chosen)]
            usual = torture.undisturbed(command)
            strike(command, after=draw.uniform(0, usual.outcome.seconds))
        if arguments.steps:
            for command in chosen:
                for step in range(torture.undisturbed(command).outcome.steps):
                    strike(command, at_step=step)
    wrong = sum(bool(strike.problems) for strike in strikes)
    print(table(strikes))
    print(
        f"\n{len(strikes)} × SIG{arguments.signal}, {wrong} with problems, {time.monotonic() - began:.0f} s"
    )
    if not wrong and arguments.scratch is None:
        shutil.rmtree(scratch)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
