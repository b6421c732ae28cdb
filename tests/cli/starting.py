"""How long a program takes to start, in processor time as on a quiet machine."""

import os
import subprocess
import sys
from collections.abc import Callable

_REFERENCE = "import typer.main, pydantic, asyncio, unittest, http.client, sqlite3, xml.dom.minidom"
_REFERENCE_SECONDS = 0.15
"""Processor time of starting Python with these on a quiet machine."""


def seconds_to_start(start: Callable[[], object], limit: float) -> float:
    """Processor time of the processes that `start` waits for, of up to three tries until it is below `limit`.

    Where the machine is slower now than a quiet one, it counts as so much less.
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
