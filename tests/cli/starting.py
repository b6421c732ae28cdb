"""How long a program takes to start, in processor time as on the machine that limits are set for."""

import os
import subprocess
import sys
from collections.abc import Callable

_REFERENCE = "import typer.main, pydantic, asyncio, unittest, http.client, sqlite3, xml.dom.minidom"
_REFERENCE_SECONDS = 0.15
"""Processor time of starting Python with these on the machine that limits are set for: an assumption, not a
measurement. On two quiet cores of an AMD EPYC they took 0.21 to 0.27 s, and completion 0.52 to 0.67 s."""


def seconds_to_start(start: Callable[[], object], limit: float) -> float:
    """Processor time of the processes that `start` waits for, of up to three tries until it is below `limit`.

    Where `_REFERENCE` takes longer than assumed, because the machine is slow or busy, it counts as so much less.
    """
    for _ in range(3):
        own = _seconds(start)
        reference = _seconds(lambda: subprocess.run([sys.executable, "-c", _REFERENCE], check=True))
        found = own * min(1, _REFERENCE_SECONDS / reference)
        if found < limit:
            break
    return found


def _seconds(start: Callable[[], object]) -> float:
    before = os.times()
    start()
    return os.times().children_user - before.children_user
