"""Runs of `bioattn` with something going wrong, many a minute: a server that has imported everything and forks.

`Forks` starts the server (this file as a program) and gives it one `Run` after the other. Each run is a process of
its own that calls the program's `main` as the console script does; what is to go wrong is set up in that process
before: a signal after a time or at the n-th step on the file system, limits, other standard streams, another
clock, inputs that change. Nothing of it is in bioattn.
"""

import contextlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.programs import import_all

REPOSITORY = Path(__file__).resolve().parents[2]
FILE_EVENTS = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink")
LONGEST = 120.0
"""Seconds after which a run counts as hanging."""
HANGS = -1000
"""Its exit status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run and what goes wrong with it."""

    arguments: Sequence[str]
    folder: str
    """Where it runs; its changes are what counts as a step on the file system."""
    signal: int = 0
    after: float | None = None
    """Seconds until the signal comes."""
    at_step: int | None = None
    """The signal comes before the n-th step on the file system (from 0)."""
    twice: bool = False
    """A second signal follows at once."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """`NOFILE`, `FSIZE`, and `AS` as bytes more than the process has at its start."""
    environment: Mapping[str, str | None] = field(default_factory=dict)
    """None takes the variable away."""
    stdin: str = "/dev/null"
    """A file; "closed"."""
    stdout: str = "file"
    """"file" or "closed", "full" (a full disk), "gone" (a pipe that nobody reads)."""
    stderr: str = "file"
    """As stdout."""
    clock: float = 0.0
    """Seconds by which the clock goes backwards each time it is read."""
    change: Mapping[str, Any] = field(default_factory=dict)
    """`file`, `how` (`change_file`), `opened`: the change comes when the file has been opened so many times."""
    trace: bool = False
    """Return the steps on the file system."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How it went."""

    status: int
    """Exit code, or minus the signal that ended it."""
    stdout: str
    stderr: str
    seconds: float
    cpu: float
    steps: int
    """Steps on the file system until then."""
    trace: Sequence[str] = ()


class Forks:
    """The server, to be used in `with`."""

    def __init__(self, scratch: Path, python: str = sys.executable) -> None:
        """python: a program that takes `-m MODULE` as Python does."""
        self._process = subprocess.Popen(
            [python, "-m", "tests.faults.forked", str(scratch)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "OMP_NUM_THREADS": "1",
                "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{REPOSITORY / 'cli'}",
                "BIOATTN_CACHE": str(scratch / "cache"),
            },
        )

    def start(self, run: Run) -> None:
        """Begin a run; `outcome` waits for it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asdict(run)) + "\n")
        self._process.stdin.flush()

    def outcome(self) -> Outcome:
        """How the run went that was started."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the server of runs has died")
        return Outcome(**json.loads(line))

    def run(self, run: Run) -> Outcome:
        """Run to the end."""
        self.start(run)
        return self.outcome()

    def __enter__(self) -> "Forks":
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def serve(scratch: Path) -> None:
    """Read runs from stdin, a line each, and answer each with its outcome."""
    import_all()
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        answers.write(json.dumps(asdict(_run(Run(**json.loads(line)), scratch))) + "\n")
        answers.flush()


def _run(run: Run, scratch: Path) -> Outcome:
    out, err, steps = scratch / "stdout", scratch / "stderr", scratch / "steps"
    for path in (out, err, steps):
        path.write_bytes(b"")
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        _be_child(run, out, err, steps)
    with os.fdopen(os.pidfd_open(child)) as handle:
        if run.after is not None:
            select.select([handle], [], [], run.after)
            for _ in range(1 + run.twice):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, run.signal)
        hangs = not select.select([handle], [], [], LONGEST)[0]
        if hangs:
            os.kill(child, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    trace = steps.read_text(errors="replace").splitlines()
    return Outcome(
        status=HANGS if hangs else os.waitstatus_to_exitcode(status),
        stdout=out.read_text(errors="replace"),
        stderr=err.read_text(errors="replace"),
        seconds=time.monotonic() - began,
        cpu=usage.ru_utime + usage.ru_stime,
        steps=len(trace),
        trace=trace if run.trace else (),
    )


def _be_child(run: Run, out: Path, err: Path, steps: Path) -> None:
    """The run; never returns."""
    code = 70
    try:
        os.setsid()
        os.chdir(run.folder)
        log = os.open(steps, os.O_WRONLY | os.O_APPEND)
        _open_streams(run, out, err)
        for name, value in run.environment.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        _small_parts()
        if run.clock:
            _turn_back_clock(run.clock)
        _watch_files(run, log)
        _set_limits(run.limits)
        sys.argv = ["bioattn", *run.arguments]
        import gc

        gc.freeze()
        from bioattn_cli.main import main

        code = main()
        sys.stdout.flush()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 71
    except BaseException:  # noqa: BLE001 - as the interpreter would: shown, and exit code 1
        import traceback

        with contextlib.suppress(BaseException):
            traceback.print_exc()
        code = 1
    finally:
        with contextlib.suppress(BaseException):
            sys.stderr.flush()
        os._exit(code)


def _open_streams(run: Run, out: Path, err: Path) -> None:
    """Standard streams as asked for, and Python's objects for them."""
    if run.stdin == "closed":
        os.close(0)
        sys.stdin = None  # type: ignore[assignment]
    else:
        os.dup2(os.open(run.stdin, os.O_RDONLY), 0)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    for number, kind, path in ((1, run.stdout, out), (2, run.stderr, err)):
        if kind == "closed":
            os.close(number)
            stream = None
        else:
            if kind == "file":
                os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND), number)
            elif kind == "full":
                os.dup2(os.open("/dev/full", os.O_WRONLY), number)
            else:
                reader, writer = os.pipe()
                os.dup2(writer, number)
                os.close(reader)
                os.close(writer)
            stream = open(  # noqa: SIM115
                number, "w", encoding="utf-8", closefd=False, buffering=8192 if number == 1 else 1
            )
        setattr(sys, "stdout" if number == 1 else "stderr", stream)


def _small_parts() -> None:
    """Parts, states and blocks so small that tiny inputs have several of them."""
    from bioattn.interpret.attribution import run as attribution
    from bioattn.models.promoter.inference import run as promoters

    promoters.MAX_PART_SAMPLES = attribution.MAX_PART_SAMPLES = 8


def _turn_back_clock(seconds: float) -> None:
    reads = 0

    def earlier(real: Any) -> Any:
        def read() -> Any:
            nonlocal reads
            reads += 1
            unit = 1_000_000_000 if "_ns" in real.__name__ else 1
            return real() - type(real())(seconds * reads * unit)

        return read

    for name in ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"):
        setattr(time, name, earlier(getattr(time, name)))


def _watch_files(run: Run, log: int) -> None:
    """Count the steps on the file system, and let come at some of them what is to come."""
    folder = os.path.realpath(run.folder)
    changed = os.path.realpath(run.change["file"]) if run.change else None
    done, opened, busy = 0, 0, False

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal done, opened, busy
        if busy or not (event in FILE_EVENTS or event == "open") or not arguments:
            return
        path = arguments[0]
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if not isinstance(path, (str, os.PathLike)):
            return
        place = os.path.abspath(path)  # noqa: PTH100 - links are not followed
        busy = True
        try:
            if event == "open" and changed is not None and os.path.realpath(place) == changed:
                if opened == run.change["opened"]:
                    change_file(Path(changed), run.change["how"])
                opened += 1
            flags = arguments[2] if event == "open" else 0
            writes = event != "open" or (
                isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            )
            if not writes or not (place == folder or place.startswith(folder + os.sep)):
                return
            if done == run.at_step:
                for _ in range(1 + run.twice):
                    os.kill(os.getpid(), run.signal)
            os.write(log, f"{event} {' '.join(str(a) for a in arguments[:2])}\n".encode(errors="replace"))
            done += 1
        finally:
            busy = False

    sys.addaudithook(note)


def change_file(path: Path, how: str) -> None:
    """Do to an input what another process might do meanwhile."""
    if not path.exists():
        return
    if how == "delete":
        path.unlink()
    elif how == "empty":
        os.truncate(path, 0)
    elif how == "truncate":
        os.truncate(path, path.stat().st_size // 2)
    elif how == "append":
        with path.open("ab") as file:
            file.write(b"# appended\n")
    elif how == "replace":
        other = path.with_name(path.name + ".other")
        other.write_bytes(b"something else altogether\n")
        other.replace(path)
    else:
        raise ValueError(how)


def _set_limits(limits: Mapping[str, int]) -> None:
    for name, value in limits.items():
        if name == "AS":
            with open("/proc/self/statm") as file:  # noqa: PTH123
                value += int(file.read().split()[0]) * resource.getpagesize()
        number = getattr(resource, f"RLIMIT_{name}")
        resource.setrlimit(number, (value, resource.getrlimit(number)[1]))


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
