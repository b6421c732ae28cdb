"""Detecting inputs that change while a command reads them, by size, time and inode.

A command that reads for hours must not make its result of half an input and half another. Inputs of a command are
watched while it runs; whoever gives an output its final name asks first (`require_unchanged_inputs`).
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bioattn.errors import BioattnError

_State = tuple[int, int, int, int]
_watched: dict[Path, _State | None] = {}
"""States at the beginning, by path as given."""
_in_memory: set[Path] = set()
"""Those of them that outputs no longer depend on."""


@contextmanager
def watched_inputs(paths: Iterable[Path]) -> Iterator[None]:
    """Watch the files `paths`, and the files of model folders among them, while the body runs."""
    earlier, earlier_in_memory = dict(_watched), set(_in_memory)
    _watched.update((file, _state(file)) for path in paths for file in (path, *_model_files(path)))
    try:
        yield
    finally:
        _watched.clear()
        _watched.update(earlier)
        _in_memory.clear()
        _in_memory.update(earlier_in_memory)


def has_changed(path: Path) -> bool:
    """Tell whether a watched file was written to, replaced or removed; False for files that are not watched."""
    earlier = _watched.get(path)
    return earlier is not None and _state(path) != earlier


def require_unchanged_inputs(output: Path | None = None) -> None:
    """Check the watched inputs before `output` gets its name; `output` itself is not watched any more.

    Raises: BioattnError naming a watched file that changed.
    """
    if output is not None:
        for path in [path for path in _watched if output in (path, *path.parents)]:
            del _watched[path]
    for path in _watched:
        if path not in _in_memory and has_changed(path):
            raise _changed(path)


def inputs_were_read() -> None:
    """Say that the watched inputs are in memory: outputs depend on them no longer; run records still tell changes.

    Raises: BioattnError when one changed before.
    """
    require_unchanged_inputs()
    _in_memory.update(_watched)


@contextmanager
def unchanged(*paths: Path) -> Iterator[None]:
    """Check that files which the body opens more than once stay the same, watched or not.

    Raises: BioattnError naming one that changed while the body read it, unless the body raises.
    """
    earlier = {path: _state(path) for path in paths}
    yield
    for path, state in earlier.items():
        if _state(path) != state:
            raise _changed(path)


def _model_files(path: Path) -> list[Path]:
    """List the files of a model folder; empty for any other path."""
    try:
        return list(path.iterdir()) if (path / "config.json").is_file() else []
    except OSError:
        return []


def _changed(path: Path) -> BioattnError:
    return BioattnError(f"{path}: changed while it was read; run the command again")


def _state(path: Path) -> _State | None:
    """State of a file; None for folders and pipes, whose times change by themselves."""
    try:
        if not path.is_file():
            return None
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns
