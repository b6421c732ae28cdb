"""How long-running library code tells its caller where it is, without printing anything itself."""

from typing import Protocol


class Progress(Protocol):
    """Receives the advance of one piece of work at a time."""

    def begin(self, description: str, total: int | None) -> None:
        """Start a piece of work of `total` steps (None: unknown)."""

    def advance(self, steps: int = 1, **status: float | str) -> None:
        """`steps` more are done; `status` holds figures worth showing beside the bar, such as a metric."""

    def note(self, sentence: str) -> None:
        """A result on the way that is worth keeping in sight, such as that of an epoch."""

    def end(self) -> None:
        """The piece of work is over."""


class NoProgress:
    """Ignores every report."""

    def begin(self, description: str, total: int | None) -> None:
        """Ignore."""

    def advance(self, steps: int = 1, **status: float | str) -> None:
        """Ignore."""

    def note(self, sentence: str) -> None:
        """Ignore."""

    def end(self) -> None:
        """Ignore."""
