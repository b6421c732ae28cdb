"""What the control groups of this process grant it: the limits of containers and batch systems (Linux).

A process belongs to one group of each of version 1's hierarchies, or to one of version 2's; a limit of any group
above it counts too. In a container the groups above are often out of sight: the mount is its own group.
"""

import math
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


def memory_limit() -> int | None:
    """The least memory limit in bytes; None without one."""
    return min((limit for limit, _ in _memory_limits()), default=None)


def memory_left() -> int | None:
    """Bytes left under the tightest limit, cache counted as free; None without a limit."""
    return min((max(limit - used, 0) for limit, used in _memory_limits()), default=None)


def cpu_quota() -> float | None:
    """The cores whose time this process may use up, 1.5 for example; None without a limit."""
    return min(_cpu_quotas(), default=None)


def granted_by_quota() -> int | None:
    """Threads worth having under the CPU quota: its cores, rounded up; None without a limit."""
    quota = cpu_quota()
    return None if quota is None else max(math.ceil(quota), 1)


def _memory_limits() -> Iterator[tuple[int, int]]:
    """Limit and use in bytes of each group that has a limit."""
    for folder in _groups("memory"):
        for limit_file, use_file, cache in _MEMORY_FILES:
            with suppress(OSError, ValueError):
                limit = int(_content(folder / limit_file))
                used = int(_content(folder / use_file))
                for line in _content(folder / "memory.stat").splitlines():
                    if line.startswith(f"{cache} "):
                        used -= int(line.split()[1])
                if limit < _UNLIMITED:
                    yield limit, used


def _cpu_quotas() -> Iterator[float]:
    for folder in _groups("cpu"):
        with suppress(OSError, ValueError):
            quota, period = (int(part) for part in _content(folder / "cpu.max").split())
            yield quota / period
        with suppress(OSError, ValueError):
            quota = int(_content(folder / "cpu.cfs_quota_us"))
            if quota > 0:
                yield quota / int(_content(folder / "cpu.cfs_period_us"))


def _groups(controller: str) -> Iterator[Path]:
    """The folders of the groups this process is in, from its own up to the mount, in either version."""
    members = {"": "/", controller: "/"}
    with suppress(OSError, ValueError):
        for line in _content(MEMBERSHIP).splitlines():
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


def _content(path: Path) -> str:
    return path.read_text(encoding="ascii").strip()
