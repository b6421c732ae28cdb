"""Flip bits in files, cut them, and hand them to validate, inspect and whoever uses them (`make torture`).

    python -m tests.faults.flip_bits --places 1000           # every kind of file: results/damaged-files.md
    python -m tests.faults.flip_bits --places 100 attention  # one kind

Each damaged file must be refused, or give byte for byte what the whole file gives. A crash of the interpreter, a
hang, a traceback, or another result is a failure. Nine of ten places are flips of one bit, the tenth is a cut.
"""

import argparse
import hashlib
import json
import os
import select
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from bioattn.training.state import STATE_FILE
from bioattn_cli.main import main as main_of_bioattn
from tests.faults.commands import contents, make_inputs
from tests.faults.forked import LONGEST, Forks, Run
from tests.programs import import_all

CUT_ONE_IN = 10
BATCH = 50
"""Damaged files of one process."""
TRAIN = "train promoter {i}/x.dataset.h5 -o out -c {i}/promoter.toml --threads 1 --device cpu "


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of file and who uses it; `{i}` stands for the folder of inputs."""

    path: str
    """A file or a folder, of which every file has its turn."""
    use: str
    outputs: Sequence[str]
    inspected: bool = True
    """Whether `validate` and `inspect` know the kind."""


KINDS = {
    "dataset": Kind(path="x.dataset.h5", use=TRAIN + "--epochs 1 --no-baselines", outputs=["out"]),
    "model": Kind(
        path="model",
        use="run promoter {i}/model {i}/promoters.fa -o out.tsv --threads 1",
        outputs=["out.tsv"],
    ),
    "attention": Kind(
        path="attention.h5", use="export tracks {i}/attention.h5 -o out --downstream 0", outputs=["out"]
    ),
    "attention of alignments": Kind(
        path="family.attention.h5",
        use="export contacts {i}/family.attention.h5 -o out.tsv",
        outputs=["out.tsv"],
    ),
    "attribution": Kind(
        path="attribution.h5", use="export attribution {i}/attribution.h5 -o out", outputs=["out"]
    ),
    "distogram": Kind(
        path="prediction/distogram.h5",
        use="plot distogram {i}/prediction/distogram.h5 -o out.png",
        outputs=["out.png"],
    ),
    "contact dataset": Kind(
        path="families.dataset.h5",
        use="train evoformer {i}/families.dataset.h5 -o out --steps 1 -c {i}/evoformer.toml --threads 1",
        outputs=["out"],
    ),
    "evoformer model": Kind(
        path="contact-model",
        use="run evoformer {i}/family.a3m --model {i}/contact-model -o out --threads 1",
        outputs=["out"],
    ),
    "trainer state": Kind(
        path="state/out.partial/trainer_state.safetensors",
        use=TRAIN + "--epochs 3 --no-baselines --resume",
        outputs=["out"],
        inspected=False,
    ),
}


@dataclass(slots=True, kw_only=True)
class Tally:
    """What became of the damaged files of one kind."""

    places: int = 0
    refused: int = 0
    """By whoever uses the file."""
    same: int = 0
    """The use gave byte for byte what the whole file gives."""
    named: int = 0
    """`validate` found the damage."""
    problems: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def add(self, trial: "Trial") -> None:
        """Count one damaged file."""
        self.places += 1
        self.refused += trial.use == "refused"
        self.same += trial.use == "same"
        self.named += trial.named
        for problem in trial.problems:
            self.problems[problem] += 1
            self.examples.append(f"{trial.what}: {problem}: {trial.said[-300:]}")


@dataclass(slots=True, kw_only=True)
class Trial:
    """One damaged file and what was made of it."""

    what: str
    use: str = ""
    """"refused", "same", or "another" result."""
    named: bool = False
    said: str = ""
    problems: list[str] = field(default_factory=list)


class Flips:
    """Inputs, undamaged results, and a copy of the inputs to damage.

    Damaged files are tried in processes that were forked for a batch of them: what crashes there is seen here.
    """

    def __init__(self, forks: Forks, scratch: Path, made: Path | None = None) -> None:
        """made: a folder that `make_inputs` has filled; None = make one."""
        self.scratch = scratch
        self.inputs = scratch / "inputs"
        if made is None:
            make_inputs(self.inputs, forks)
        else:
            shutil.copytree(made, self.inputs)
        _make_state(self.inputs, forks)
        self.hurt = scratch / "hurt"
        shutil.copytree(self.inputs, self.hurt)
        os.environ["BIOATTN_CACHE"] = str(scratch / "cache")
        import_all(["bioattn.*", "bioattn_cli.*"])

    def run_kind(self, name: str, places: int, seed: int = 0) -> Tally:
        """Damage a kind of file in so many places, one at a time."""
        kind = KINDS[name]
        tally = Tally()
        whole = self._in_child(kind, [None], seed, {})
        made = json.loads(whole[0].said)
        for first in range(0, places, BATCH):
            numbers: list[int | None] = list(range(first, min(places, first + BATCH)))
            while numbers:
                trials = self._in_child(kind, numbers, seed, made)
                for trial in trials:
                    tally.add(trial)
                del numbers[: len(trials)]
        return tally

    def _in_child(
        self, kind: Kind, numbers: Sequence[int | None], seed: int, made: Mapping[str, str]
    ) -> list[Trial]:
        """Try some places (None: the whole file) in a process of its own, up to the first that ends it badly."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            self._be_child(kind, numbers, seed, made, writer)
        os.close(writer)
        trials: list[Trial] = []
        began = ""
        for line in _lines(reader):
            if line.startswith("begin "):
                began = line[6:]
            else:
                trials.append(Trial(**json.loads(line)))
                began = ""
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if began:
            problem = "hangs" if status == -signal.SIGKILL else f"the interpreter ends with status {status}"
            trials.append(Trial(what=began, problems=[problem]))
            self._mend(kind)
        assert trials, (self.scratch / "stderr").read_text()
        return trials

    def _mend(self, kind: Kind) -> None:
        """Put back what a process that ended badly could not."""
        for path in _files(self.inputs / kind.path):
            shutil.copy(path, self.hurt / path.relative_to(self.inputs))

    def _be_child(
        self, kind: Kind, numbers: Sequence[int | None], seed: int, made: Mapping[str, str], writer: int
    ) -> None:
        """Try the places and write a line before and after each; never returns."""
        status = 1
        try:
            for number, name in ((1, "stdout"), (2, "stderr")):
                os.dup2(os.open(self.scratch / name, os.O_RDWR | os.O_CREAT | os.O_TRUNC), number)
                # pytest has put something else in the place of the streams
                setattr(sys, name, os.fdopen(number, "w", encoding="utf-8", closefd=False))
            with os.fdopen(writer, "w", buffering=1) as lines:
                for number in numbers:
                    if number is None:
                        _, said, found = self._use(kind, self.inputs)
                        assert found, said
                        lines.write(json.dumps(asdict(Trial(what="whole", said=json.dumps(found)))) + "\n")
                        continue
                    with self._damage(kind, np.random.default_rng([seed, number])) as what:
                        lines.write(f"begin {what}\n")
                        lines.write(json.dumps(asdict(self._try(kind, what, made))) + "\n")
            status = 0
        except BaseException:  # noqa: BLE001 - a mistake of this script: shown below
            traceback.print_exc()
        finally:
            os._exit(status)

    def _try(self, kind: Kind, what: str, made: Mapping[str, str]) -> Trial:
        """Hand a damaged file to whoever takes it."""
        trial = Trial(what=what)
        status, trial.said, found = self._use(kind, self.hurt)
        trial.use = "refused" if status in (1, 2) else "same" if found == made else "another"
        trial.problems = [problem for problem in [_problem("use", status, trial.said)] if problem]
        if trial.use == "another":
            trial.problems.append("use: another result")
        if kind.inspected:
            for command in ("validate", "inspect"):
                code, out, err = self._run([command, str(self.hurt / kind.path)], self.scratch)
                trial.problems += [problem for problem in [_problem(command, code, out + err)] if problem]
                if command == "validate":
                    trial.named = code == 1
                    if trial.use == "refused" and code == 0:
                        trial.problems.append("validate finds nothing in what is refused")
        return trial

    @contextmanager
    def _damage(self, kind: Kind, rng: np.random.Generator) -> Iterator[str]:
        """Damage one file, and mend it."""
        files = _files(self.hurt / kind.path)
        path = files[int(rng.integers(len(files)))]
        content = path.read_bytes()
        where, bit = int(rng.integers(len(content))), int(rng.integers(8))
        name = path.relative_to(self.hurt)
        if rng.integers(CUT_ONE_IN) == 0:
            path.write_bytes(content[:where])
            what = f"{name}, cut to {where} of {len(content)} bytes"
        else:
            changed = bytearray(content)
            changed[where] ^= 1 << bit
            path.write_bytes(changed)
            what = f"{name}, byte {where} of {len(content)}, bit {bit}"
        try:
            yield what
        finally:
            path.write_bytes(content)

    def _use(self, kind: Kind, inputs: Path) -> tuple[int, str, dict[str, str]]:
        """Use a file in an empty folder: exit code, what was said, digests of the outputs and of stdout."""
        work = self.scratch / "work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        if kind.path.startswith("state/"):
            shutil.copytree(inputs / "state", work, dirs_exist_ok=True)
        code, out, err = self._run(kind.use.replace("{i}", str(inputs)).split(), work)
        if code != 0:
            return code, err, {}
        return code, err, contents(work, kind.outputs) | {"stdout": hashlib.sha256(out.encode()).hexdigest()}

    def _run(self, arguments: Sequence[str], folder: Path) -> tuple[int, str, str]:
        """One command in this process: exit code, stdout, stderr."""
        for number in (1, 2):
            os.ftruncate(number, 0)
            os.lseek(number, 0, os.SEEK_SET)
        os.chdir(folder)
        try:
            code = main_of_bioattn(arguments)
        except BaseException:  # noqa: BLE001 - as the interpreter would: shown, and exit code 1
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        out, err = (
            (self.scratch / name).read_text(encoding="utf-8", errors="replace")
            for name in ("stdout", "stderr")
        )
        return code, out, err


def _lines(reader: int) -> Iterator[str]:
    """Lines of a pipe until it is closed, or nothing has come for long."""
    rest = b""
    try:
        while select.select([reader], [], [], LONGEST)[0] and (piece := os.read(reader, 1 << 16)):
            *lines, rest = (rest + piece).split(b"\n")
            yield from (line.decode() for line in lines)
    finally:
        os.close(reader)


def _files(place: Path) -> list[Path]:
    """A file, or all files of a folder."""
    return sorted(path for path in place.rglob("*") if path.is_file()) if place.is_dir() else [place]


def _make_state(inputs: Path, forks: Forks) -> None:
    """The folder of a training that was killed after it had saved its state."""
    folder = inputs / "state"
    arguments = KINDS["trainer state"].use.replace("{i}", str(inputs)).replace("--resume", "").split()
    folder.mkdir()
    steps = forks.run(Run(arguments=arguments, folder=str(folder), trace=True)).trace
    saved = [
        number for number, step in enumerate(steps) if step.startswith("os.rename") and STATE_FILE in step
    ]
    shutil.rmtree(folder)
    folder.mkdir()
    moment = saved[len(saved) // 2] + 1
    forks.run(Run(arguments=arguments, folder=str(folder), signal=signal.SIGKILL, at_step=moment))
    assert (inputs / KINDS["trainer state"].path).is_file()


def _problem(step: str, code: int, said: str) -> str:
    """What must never happen, or nothing."""
    if "Traceback" in said or code not in (0, 1, 2):
        return f"{step}: a traceback ({(said.strip().splitlines() or ['?'])[-1][:80]})"
    if code and not said.strip():
        return f"{step}: refused without a sentence"
    return ""


def main() -> int:
    """Parse the command line and print one line for each kind."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--places", type=int, default=1000, help="of each kind [1000]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("kinds", nargs="*", help=f"[all] {', '.join(KINDS)}")
    given = parser.parse_args()
    failed = 0
    print("file                       places  refused  same  found by validate  failures", flush=True)  # noqa: T201
    with tempfile.TemporaryDirectory() as folder, Forks(Path(folder)) as forks:
        flips = Flips(forks, Path(folder))
        for name in given.kinds or KINDS:
            tally = flips.run_kind(name, given.places, given.seed)
            number = sum(tally.problems.values())
            failed += number
            named = f"{tally.named:,}" if KINDS[name].inspected else "-"
            print(  # noqa: T201
                f"{name:25} {tally.places:8,} {tally.refused:8,} {tally.same:5,} {named:>18} {number:9,}",
                flush=True,
            )
            for problem, times in tally.problems.most_common():
                print(f"    {problem} ({times} times)", flush=True)  # noqa: T201
            for line in tally.examples[:5]:
                print(f"    {line}", flush=True)  # noqa: T201
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
