"""How many CPU threads this process has been granted, and work spread over them in a fixed order."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from bioattn.system.cgroups import granted_by_quota
from bioattn.system.torchrun import launch

Item = TypeVar("Item")
Result = TypeVar("Result")


def granted_cores() -> int:
    """The cores this process may run on: the affinity mask and the CPU quota, not the machine's core count, say
    what a batch system or container granted.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = granted_by_quota()
    return cores if quota is None else min(cores, quota)


def granted_threads() -> int:
    """The cores granted, or OMP_NUM_THREADS if that is less, as Snakemake and batch systems set it.

    Processes that were launched together share the cores. torchrun sets OMP_NUM_THREADS to 1 where nobody else
    has, so there 1 says nothing.
    """
    processes = launch().local_count
    granted = max(1, granted_cores() // processes)
    told = os.environ.get("OMP_NUM_THREADS", "")
    if told.isdecimal() and int(told) > (processes > 1):
        granted = min(granted, int(told))
    return granted


def map_in_order(
    function: Callable[[Item], Result], items: Iterable[Item], threads: int | None = None
) -> Iterator[Result]:
    """Results in the order of `items`, at most two items per thread ahead of the one asked for.

    threads: None takes those granted; 1 works in the calling thread. When the caller stops, items not yet begun
    are dropped.
    """
    threads = threads or granted_threads()
    if threads == 1:
        yield from map(function, items)
        return
    waiting: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(threads)
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > 2 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
