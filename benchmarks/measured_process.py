"""`bioattn` commands as processes of their own, with what they cost: CPU time, peak memory, memory over time.

Import nothing large where this is used: the highest resident size that the kernel tells of a child begins with
that of its parent.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
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
    """The processor's name as the system gives it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown processor"
