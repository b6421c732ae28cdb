"""How long-running library code tells its caller where it is, without printing anything itself."""

from collections.abc import Collection, Iterator
from typing import TypeVar

Item = TypeVar("Item")


class Progress:
    """Receives the advance of one piece of work at a time. This one ignores it; the command line shows it."""

    def begin(self, description: str, total: int | None) -> None:
        """Start a piece of work of `total` steps (None: unknown)."""

    def advance(self, steps: int = 1, **status: float | str) -> None:
        """`steps` more are done; `status` holds figures worth showing beside the bar, such as a metric."""

    def note(self, sentence: str) -> None:
        """A result on the way that is worth keeping in sight, such as that of an epoch."""

    def end(self) -> None:
        """The piece of work is over."""


SILENT = Progress()


def watched(progress: Progress, description: str, items: Collection[Item]) -> Iterator[Item]:
    """Give `items` one by one, each a step of a piece of work, which is over when they or the loop end."""
    progress.begin(description, len(items))
    try:
        for item in items:
            yield item
            progress.advance()
    finally:
        progress.end()
