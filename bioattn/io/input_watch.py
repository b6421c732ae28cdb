"""Whether an input is still what it was when the work began: by size, time and identity, which cost nothing.

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
    """Remember what the files `paths`, and those of model folders among them, are while the body runs."""
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
    """Whether a watched file was written to, replaced or removed; of others nothing is known."""
    earlier = _watched.get(path)
    return earlier is not None and _state(path) != earlier


def require_unchanged_inputs(output: Path | None = None) -> None:
    """Ask before `output` gets its name; of all paths given to a command, it is watched too, but is no input.

    Raises: BioattnError naming a watched file that changed.
    """
    if output is not None:
        for path in [path for path in _watched if output in (path, *path.parents)]:
            del _watched[path]
    for path in _watched:
        if path not in _in_memory and has_changed(path):
            raise _changed(path)


def inputs_were_read() -> None:
    """From now on they may change: all that is needed of them is in memory. The run record will tell it still.

    Raises: BioattnError when one changed before.
    """
    require_unchanged_inputs()
    _in_memory.update(_watched)


@contextmanager
def unchanged(*paths: Path) -> Iterator[None]:
    """For files that are opened more than once, also by callers who watch nothing.

    Raises: BioattnError naming one that changed while the body read it, unless the body raises.
    """
    earlier = {path: _state(path) for path in paths}
    yield
    for path, state in earlier.items():
        if _state(path) != state:
            raise _changed(path)


def _model_files(path: Path) -> list[Path]:
    """The files of a model folder; of other folders nothing is known."""
    try:
        return list(path.iterdir()) if (path / "config.json").is_file() else []
    except OSError:
        return []


def _changed(path: Path) -> BioattnError:
    return BioattnError(f"{path}: changed while it was read; run the command again")


def _state(path: Path) -> _State | None:
    """None for what is no file: the times of folders and pipes change by themselves."""
    try:
        if not path.is_file():
            return None
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns
