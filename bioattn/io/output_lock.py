"""One run per output: an advisory lock, which goes with the process that holds it, however that ends.

The lock of `NAME` is `flock` on the file `.NAME.lock` beside it, which says who holds it and goes when the output
is done. What a killed process leaves of it is no obstacle: the next run takes it over, and removes the temporary
files of that process. Without locks (Windows, some network file systems, folders that take no files) runs are not
told apart, and nothing else changes.
"""

import contextlib
import glob
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bioattn.errors import BioattnError
from bioattn.io.output_names import partial_folder, run_record_path, temporary_path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_HOLDER = re.compile(r"(process (\d+) on (\S+)\n)?")
"""What stands in a lock file; nothing before its maker has come to write it, or on a full disk."""
_held: dict[Path, bool] = {}
"""Outputs that this process has locked, and whether a writer inside may take the lock over."""


@contextmanager
def lock_output(path: Path) -> Iterator[None]:
    """Keep other runs from writing `path`, a file or a folder, while the body does.

    What belongs to an output that this process has locked (its temporary file, `NAME.partial/`, its record
    `NAME.run.json`) needs no lock.

    Raises: BioattnError when another run, in another process or in this one, is writing it.
    """
    place = _place(path)
    if place is None or _inside_held(place):
        yield
        return
    if place in _held:
        if not _held[place]:
            raise _taken(path, f"process {os.getpid()} on {socket.gethostname()}")
        _held[place] = False
        try:
            yield
        finally:
            _held[place] = True
        return
    with _locked(path, place, may_be_taken_over=False):
        yield


@contextmanager
def reserve_output(path: Path) -> Iterator[None]:
    """As `lock_output`, for the whole of a command: the writer in the body takes the lock over.

    So the second of two runs learns of the first before it works for hours, also where files are written last.
    """
    place = _place(path)
    if place is None or place in _held or _inside_held(place):
        yield
        return
    with _locked(path, place, may_be_taken_over=True):
        yield


@contextmanager
def _locked(path: Path, place: Path, *, may_be_taken_over: bool) -> Iterator[None]:
    lock = place.with_name(f".{place.name}.lock")
    descriptor = _acquire(path, place, lock)
    _held[place] = may_be_taken_over
    try:
        yield
    finally:
        del _held[place]
        if descriptor is not None:
            _release(descriptor, lock)


def _acquire(path: Path, place: Path, lock: Path) -> int | None:
    """Lock the file and return its descriptor; None where there are no locks."""
    if fcntl is None:
        return None
    while True:
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        except OSError:
            return None  # the folder is missing, read-only or full: writing will say so
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            content = _content(descriptor)
            os.close(descriptor)
            raise _taken(path, content.strip()) from None
        except OSError:  # a network file system without locks
            _release(descriptor, lock)
            return None
        if _HOLDER.fullmatch(_content(descriptor)) is None:  # somebody else's file, to be left alone
            os.close(descriptor)
            return None
        if _is_same(descriptor, lock):
            _take_over(descriptor, place)
            return descriptor
        os.close(descriptor)  # whoever held it before us has just removed it


def _release(descriptor: int, lock: Path) -> None:
    if _is_same(descriptor, lock):
        _remove(lock)
    os.close(descriptor)


def _take_over(descriptor: int, place: Path) -> None:
    """Remove the temporary files of a killed process, and write this process into the lock file."""
    host = socket.gethostname()
    earlier = _HOLDER.fullmatch(_content(descriptor))
    # Only of this machine: there are network file systems whose locks end at the machine.
    if earlier is not None and earlier[3] == host:
        # Also its record, and what a writer put beside its temporary file.
        pattern = f".tmp-{earlier[2]}-*{glob.escape(place.name)}*"
        for leftover in place.parent.glob(pattern):
            _remove(leftover)
    with contextlib.suppress(OSError):  # a full disk; the lock holds without it
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {host}\n".encode(), 0)


def _content(descriptor: int) -> str:
    """Read the lock file, which names its holder."""
    with contextlib.suppress(OSError):
        return os.pread(descriptor, 512, 0).decode(errors="replace")
    return ""


def _is_same(descriptor: int, lock: Path) -> bool:
    """Tell whether the locked file is still the one under the name of the lock."""
    try:
        return os.path.samestat(os.fstat(descriptor), lock.stat())
    except OSError:
        return False


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _place(path: Path) -> Path | None:
    """Resolve an output to one path; None for what cannot be locked, such as standard output."""
    if path.name in ("", "-", ".."):
        return None
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            return None  # /dev/null
        return path.parent.resolve() / path.name
    except OSError:
        return None


def _inside_held(place: Path) -> bool:
    """Tell whether `place` is part of an output that this process has locked, or its run record."""
    for held in _held:
        partial, temporary = partial_folder(held), temporary_path(held)
        if place in (partial, temporary, run_record_path(held)) or {held, partial, temporary} & set(
            place.parents
        ):
            return True
    return False


def _taken(path: Path, holder: str) -> BioattnError:
    who = f" ({holder})" if holder else ""
    return BioattnError(
        f"{path}: another run is writing this output{who}; wait for it to end, or choose another name"
    )
