"""Standard streams that whoever started the program had closed (`bioattn … >&-`, some schedulers)."""

import os
import sys


def open_standard_streams() -> None:
    """Let something stand for each that is closed, before an output of ours gets its number and what is printed.

    What is read is at its end, what is told is lost, and what is printed as data fails, to be reported as such.
    """
    for number, access in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, access)  # gets the lowest number that is free
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
