"""Ctrl-C and SIGTERM as a request that long work looks at between steps, so that none is cut in half.

An exception raised by the signal itself could strike inside a training step, or inside the HDF5 library, which
does not survive that.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from bioattn.errors import Interrupted

EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


class StopRequest:
    """The signal that came, or None; made by `stop_on_signals`."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None

    def check(self, message: str | None = None) -> None:
        """Raises: Interrupted with `message` when a signal has come."""
        if self.signal is not None:
            raise Interrupted(message or f"stopped by {self.signal.name}", EXIT_CODES[self.signal])


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Note SIGINT and SIGTERM, for the body to look at; outside the main thread do nothing.

    A second signal gets what it would have got without this: the process ends.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    earlier = {number: signal.getsignal(number) for number in EXIT_CODES}

    def note(number: int, _frame: FrameType | None) -> None:
        request.signal = signal.Signals(number)
        for each, handler in earlier.items():
            signal.signal(each, handler)

    for number in EXIT_CODES:
        signal.signal(number, note)
    try:
        yield request
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
