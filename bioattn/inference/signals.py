"""Ctrl-C and SIGTERM as a request that work answers where it can stop."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from bioattn.errors import Interrupted

EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


class StopRequest:
    """Whether a signal has come; made by `stop_on_signals`."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None

    def check(self) -> None:
        """Raises: Interrupted when a signal has come."""
        if self.signal is not None:
            raise Interrupted(f"stopped by {self.signal.name}", EXIT_CODES[self.signal])


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Note SIGINT and SIGTERM, for the body to `check` between steps; outside the main thread do nothing.

    An exception raised by the signal itself could strike inside the HDF5 library, which does not survive that. A
    second signal gets what it would have got without this: the process ends.
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
