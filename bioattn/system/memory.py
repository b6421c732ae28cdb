"""How much memory is free for this process: what the machine has, and what it was granted. And keeping it."""

import ctypes
import os
import sys
from contextlib import suppress
from pathlib import Path

from bioattn.system import cgroups

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's `mallopt`."""


def free_memory() -> int | None:
    """Bytes this process can still allocate; None where the system does not say.

    The least of: memory the machine can give without swapping, what is left under the limit of the control groups
    (containers, batch systems), what is left under `ulimit -v`.
    """
    limits = [_machine(), cgroups.memory_left(), _address_space()]
    return min((limit for limit in limits if limit is not None), default=None)


def _machine() -> int | None:
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    with suppress(OSError, ValueError, AttributeError):
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
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
