"""Processes that are measured: `bioattn` commands with what they cost, contenders that take turns, PyPI's peers.

Import nothing large here: the highest resident size that the kernel tells of a child begins with its parent's.
"""

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import venv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

REPOSITORY = Path(__file__).resolve().parent.parent


class Sample(NamedTuple):
    """Memory of a process at one moment, in bytes."""

    seconds: float
    """Processor time it had taken, user and system: what else the machine does stretches no phase of it."""
    resident: int
    anonymous: int
    """The part of `resident` that is its own (heap, stacks), not pages of files that are mapped."""


class Cost(NamedTuple):
    """What a process took."""

    cpu: float
    """Seconds of processor time, user and system."""
    wall: float
    peak: int
    """Highest resident size, bytes."""
    samples: list[Sample]


def run_bioattn(
    arguments: Sequence[str | Path], folder: Path, *, every: float = 0.0, threads: int = 1
) -> Cost:
    """Run `bioattn ARGUMENTS` of this working tree in `folder`; with `every`, sample memory at that interval.

    Raises: RuntimeError with the end of what it said when it fails.
    """
    command = [sys.executable, "-m", "bioattn_cli", *map(str, arguments)]
    log = folder / "last-command.log"
    began = time.monotonic()
    with log.open("w") as said:
        process = subprocess.Popen(command, cwd=folder, env=one_thread(threads), stdout=said, stderr=said)
        samples: list[Sample] = []
        ended = threading.Event()
        watcher = threading.Thread(target=_watch, args=(process.pid, every, samples, ended))
        if every:
            watcher.start()
        _, status, usage = os.wait4(process.pid, 0)
        ended.set()
        if every:
            watcher.join()
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}:\n{log.read_text()[-2000:]}")
    return Cost(usage.ru_utime + usage.ru_stime, time.monotonic() - began, usage.ru_maxrss * 1024, samples)


def _watch(pid: int, every: float, samples: list[Sample], ended: threading.Event) -> None:
    rollup, stat = Path(f"/proc/{pid}/smaps_rollup"), Path(f"/proc/{pid}/stat")
    ticks = os.sysconf("SC_CLK_TCK")
    while not ended.wait(every):
        try:
            sizes = dict(line.split(":", 1) for line in rollup.read_text().splitlines()[1:])
            user, system = stat.read_text().rpartition(")")[2].split()[11:13]
        except (OSError, ValueError):
            continue  # it has just ended
        if "Rss" not in sizes:
            continue
        resident, anonymous = (int(sizes[name].split()[0]) * 1024 for name in ("Rss", "Anonymous"))
        samples.append(Sample((int(user) + int(system)) / ticks, resident, anonymous))


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files of a folder."""
    return sum(
        file.stat().st_size for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file()
    )


def memory(field: str) -> int:
    """VmRSS (resident now) or VmHWM (resident at most) of this process in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def peak_above(work: Callable[[], object]) -> int:
    """Bytes that this process holds at most during `work`, less those before."""
    Path("/proc/self/clear_refs").write_text("5")  # the highest resident size begins anew
    before = memory("VmRSS")
    work()
    return memory("VmHWM") - before


def in_own_process(script: str, *words: object, python: Path | str = sys.executable) -> Any:
    """The JSON that a script prints last, run with these words in a process of one thread."""
    command = [str(python), script, *map(str, words)]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=one_thread()).stdout
    return json.loads(said.splitlines()[-1])


def one_thread(threads: int = 1) -> dict[str, str]:
    """The environment of a process that finds bioattn of this working tree and computes in so many threads."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(REPOSITORY), str(REPOSITORY / "cli"))),
        **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), str(threads)),
        "TRANSFORMERS_VERBOSITY": "error",
    }


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown processor"


class Contender:
    """A process that runs `SCRIPT --serve NAME …`, which calls `serve`."""

    def __init__(self, python: Path | str, script: str, *words: object) -> None:
        """Raises: RuntimeError with the last line that it said when it does not start."""
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - lives as long as the process
        self._process = subprocess.Popen(
            [str(python), script, "--serve", *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={**one_thread(), "KERAS_BACKEND": "torch"},
        )
        answer = self._answer()
        if "ready" not in answer:
            self._log.seek(0)
            raise RuntimeError((self._log.read().strip().splitlines() or ["it ended without a word"])[-1])
        self.ready = answer["ready"]

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        lines = (
            line for line in self._process.stdout if line.startswith("{")
        )  # some libraries print on import
        return json.loads(next(lines, "{}"))

    def turn(self) -> float:
        """The figure of one turn."""
        print("go", file=self._process.stdin, flush=True)
        return float(self._answer()["figure"])

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._log.close()


def serve(turn: Callable[[], float], ready: object = True) -> None:
    """Be a contender: answer every line on standard input with the figure of one turn."""
    print(json.dumps({"ready": ready}), flush=True)
    for _ in sys.stdin:
        print(json.dumps({"figure": turn()}), flush=True)


def interleaved(contenders: dict[str, Contender], turns: int) -> dict[str, list[float]]:
    """The figures of all turns, which the contenders take one after another; ends them."""
    figures: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(turns):
        for name, contender in contenders.items():
            figures[name].append(contender.turn())
    for contender in contenders.values():
        contender.close()
    return figures


TORCH = "torch==2.13.0"


def peer_environment(folder: Path, peers: Mapping[str, str]) -> tuple[Path, dict[str, str]]:
    """An environment with the peers (import name → requirement): its Python, and why a peer is missing."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    return python, _missing(python, [str(python), "-m", "pip"], {"torch": TORCH, **peers}, TORCH)


def borrowing_environment(folder: Path, peers: Mapping[str, str]) -> tuple[Path, dict[str, str]]:
    """As `peer_environment`, but what our environment has is borrowed and not installed again: seconds.

    What is installed there stays there; a peer must be content with our versions.
    """
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder)
        (ours,) = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        (packages,) = folder.glob("lib/python*/site-packages")
        (packages / "borrowed.pth").write_text(f"import site; site.addsitedir({ours!r})\n", encoding="utf-8")
    return python, _missing(python, [sys.executable, "-m", "pip", "--python", str(python)], peers)


def _missing(python: Path, pip: list[str], peers: Mapping[str, str], *more: str) -> dict[str, str]:
    """Install what cannot be imported; why that failed, by package."""
    missing = {}
    for package, requirement in peers.items():
        if subprocess.run([python, "-c", f"import {package}"], capture_output=True).returncode:
            command = [*pip, "--disable-pip-version-check", "--quiet", "install", requirement, *more]
            installed = subprocess.run(command, capture_output=True, text=True)
            if installed.returncode:
                reason = installed.stderr.strip().splitlines() or ["pip failed"]
                missing[package] = f"not installed: {reason[-1]}"
    return missing
