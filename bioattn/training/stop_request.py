"""Ctrl-C and SIGTERM as a request that training looks at between steps, so that a step is never cut in half."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


class StopRequest:
    """Holds the exit code of the signal that came, or None."""

    def __init__(self) -> None:
        self.exit_code: int | None = None


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Note SIGINT and SIGTERM instead of dying of them; a second signal does what it did before.

    Outside the main thread no handler can be set, and the request stays empty.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    earlier = {number: signal.getsignal(number) for number in EXIT_CODES}

    def note(number: int, _frame: FrameType | None) -> None:
        request.exit_code = EXIT_CODES[signal.Signals(number)]
        for each, handler in earlier.items():
            signal.signal(each, handler)

    for number in EXIT_CODES:
        signal.signal(number, note)
    try:
        yield request
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
