"""Whether an input is still what it was when the work began: by size, time and identity, which cost nothing."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

_State = tuple[int, int, int, int]
_watched: dict[Path, _State | None] = {}
"""States at the beginning, by path as given."""


@contextmanager
def watched_inputs(paths: Iterable[Path]) -> Iterator[None]:
    """Remember what the files `paths` are; `has_changed` compares with that while the body runs."""
    earlier = dict(_watched)
    _watched.update((path, _state(path)) for path in paths)
    try:
        yield
    finally:
        _watched.clear()
        _watched.update(earlier)


def has_changed(path: Path) -> bool:
    """Whether a watched file was written to, replaced or removed; of others nothing is known."""
    earlier = _watched.get(path)
    return earlier is not None and _state(path) != earlier


def _state(path: Path) -> _State | None:
    """None for what is no file: the times of folders and pipes change by themselves."""
    try:
        if not path.is_file():
            return None
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns
