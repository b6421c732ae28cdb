"""How much memory and how many cores this process may use; and keeping what it has.

Containers and batch systems grant less than the machine has, by control groups (Linux): a process belongs to one
group of each of version 1's hierarchies, or to one of version 2's; a limit of any group above it counts too. In a
container the groups above are often out of sight: the mount is its own group.
"""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
_UNLIMITED = 1 << 60
"""From here on version 1 means that there is no limit."""
_MEMORY_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""Limit, use, and the part of the use that is cache and can be had back (in `memory.stat`): versions 2 and 1."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3


def free_memory() -> int | None:
    """Bytes this process can still allocate; None where the system does not say.

    The least of: memory the machine can give without swapping, what is left under the limit of the control groups
    (containers, batch systems), what is left under `ulimit -v`.
    """
    limits = [_machine(), memory_left(), _address_space()]
    return min((limit for limit in limits if limit is not None), default=None)


def _machine() -> int | None:
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def _address_space() -> int | None:
    if sys.platform == "win32":
        return None
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return None
    with suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        return max(limit - pages * os.sysconf("SC_PAGE_SIZE"), 0)
    return limit


def keep_freed_memory() -> None:
    """Keep up to 128 MB that a batch has freed for the next one, for the rest of this process.

    glibc gives large arrays back to the system as soon as they are freed, and the next batch gets new pages, which
    the system must fill with zeros: 4 to 10 % of an export's processor time, and memory that goes up and down.
    Where the allocator is another one, or the user has set it up (MALLOC_TRIM_THRESHOLD_), nothing changes.
    """
    if sys.platform != "linux" or any(name.startswith("MALLOC_") for name in os.environ):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, 32 << 20)
        mallopt(_TRIM_THRESHOLD, 128 << 20)


def memory_limit() -> int | None:
    """The least memory limit in bytes; None without one."""
    return min((limit for limit, _ in _memory_limits()), default=None)


def memory_left() -> int | None:
    """Bytes left under the tightest limit, cache counted as free; None without a limit."""
    return min((max(limit - used, 0) for limit, used in _memory_limits()), default=None)


def cpu_quota() -> float | None:
    """The cores whose time this process may use up, 1.5 for example; None without a limit."""
    quotas = []
    for folder in _groups("cpu"):
        with suppress(OSError, ValueError):
            quota, period = (int(part) for part in (folder / "cpu.max").read_text().split())
            quotas.append(quota / period)
        with suppress(OSError, ValueError):
            quota = int((folder / "cpu.cfs_quota_us").read_text())
            if quota > 0:
                quotas.append(quota / int((folder / "cpu.cfs_period_us").read_text()))
    return min(quotas, default=None)


def _memory_limits() -> Iterator[tuple[int, int]]:
    for folder in _groups("memory"):
        for limit_file, use_file, cache in _MEMORY_FILES:
            with suppress(OSError, ValueError):
                limit = int((folder / limit_file).read_text())
                used = int((folder / use_file).read_text())
                for line in (folder / "memory.stat").read_text().splitlines():
                    if line.startswith(f"{cache} "):
                        used -= int(line.split()[1])
                if limit < _UNLIMITED:
                    yield limit, used


def _groups(controller: str) -> Iterator[Path]:
    """The folders of the groups this process is in, from its own up to the mount, in either version."""
    members = {"": "/", controller: "/"}
    with suppress(OSError, ValueError):
        for line in MEMBERSHIP.read_text().splitlines():
            _, names, path = line.split(":", 2)
            for name in names.split(","):
                members[name] = path
    for name in ("", controller):
        root = MOUNT / name
        own = root / members[name].lstrip("/")
        for folder in (own, *own.parents):
            if folder.is_dir():
                yield folder
            if folder == root:
                break
