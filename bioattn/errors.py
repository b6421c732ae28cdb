"""The errors bioattn raises for bad input; every message is one sentence written for the user.

The command line turns `SettingsError`, for a command line that is wrong by itself, into exit code 2, and every
other `BioattnError`, for what it took a file to find out, into 1. Anything else that escapes is a bug and is shown
with its traceback.
"""

from bioattn.text import shortened


class BioattnError(Exception):
    """Bad input or an impossible request; the message names the file, line, record or option and what to do."""

    def __init__(self, message: str = "") -> None:
        super().__init__(shortened(message))


class FormatError(BioattnError):
    """A file does not hold what its format demands."""


class SettingsError(BioattnError):
    """Options that contradict each other or are out of range, whatever the files hold."""


class Interrupted(BioattnError):  # noqa: N818 - a request, not a failure
    """Work stopped on a signal after saving its state; `exit_code` is 130 (Ctrl-C) or 143 (SIGTERM)."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class LostProcess(BioattnError):  # noqa: N818 - somebody else's failure
    """Another process of the run ended, or does not answer."""


class NotFiniteError(BioattnError):
    """A model gives NaN or infinite values; the message says in what, and `instead` what may help."""

    def __init__(self, what: str, instead: str) -> None:
        super().__init__(what)
        self.instead = instead
