"""Folders that appear whole or not at all, and never replace a file that bioattn did not write."""

import os
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

from bioattn.errors import BioattnError, SettingsError
from bioattn.io.files import aside_path, check_apart, check_parent, final_name, partial_path, writing
from bioattn.text import listed

_SHOWN = 3


def check_output_folder(folder: Path, inputs: Iterable[Path] = (), *, force: bool) -> None:
    """Refuse a folder that cannot take a result, before any work is done.

    Raises: SettingsError when `folder` is no name of one or holds an input; BioattnError when it is a file, its
    place is missing or read-only, or it holds something and `force` is not given.
    """
    if folder.name in ("", "-", ".."):
        raise SettingsError(f"--output {folder}: give the name of a folder to make")
    check_parent(folder)
    check_apart(folder, inputs)
    if folder.exists() and not folder.is_dir():
        raise BioattnError(f"{folder}: is a file, a folder is needed; choose another --output")
    if folder.is_dir() and any(folder.iterdir()) and not force:
        raise already_there(folder)


def already_there(output: Path) -> BioattnError:
    """The error that `output` exists and --force is not given."""
    return BioattnError(f"{output}: exists already; choose another --output, or --force to replace it")


def is_ours(name: str, names: Iterable[str]) -> bool:
    """Whether the path `name` below a folder is one of `names`, which may be shell patterns, folder by folder."""
    return any(name.count("/") == ours.count("/") and fnmatchcase(name, ours) for ours in names)


def require_own_files(folder: Path, names: Collection[str]) -> None:
    """Refuse to remove `folder` unless every file in it has one of `names`, those that bioattn gives there.

    A name `logos/*.svg` stands for files in a folder of the folder; deeper folders are never ours.

    Raises: BioattnError naming what else lies there, or when it is no folder.
    """
    inner_names = {name.rpartition("/")[0] for name in names}
    if folder.is_file():
        raise BioattnError(
            f"{folder}: is a file, which would be replaced by a folder; move it away or choose another --output"
        )
    with writing(folder):
        entries = []
        for path in sorted(folder.iterdir()):
            inner = path.is_dir() and not path.is_symlink() and is_ours(path.name, inner_names)
            entries += sorted(path.iterdir()) if inner else [path]
    relative = {path.relative_to(folder).as_posix(): path for path in entries}
    others = [
        name for name, path in relative.items() if path.is_dir() or not is_ours(final_name(name), names)
    ]
    if others:
        raise BioattnError(
            f"{folder}: holds {listed(others, _SHOWN)}, which bioattn did not write there, so it is not "
            "replaced; move that away or choose another --output"
        )


@contextmanager
def atomic_folder(path: Path, names: Collection[str]) -> Iterator[Path]:
    """Give the empty folder `<path>.partial`; rename it to `path` on success, remove it on any failure.

    names: all that the body may call its files, as `require_own_files` takes them. A folder `path` steps aside
    first and goes last; what a killed run left in `<path>.partial` goes at once. Either is refused where it holds
    a file of another name; whether an earlier result may be replaced at all is the caller's to know.

    Raises: BioattnError as `require_own_files`, when the folder around it is missing, read-only or full.
    """
    partial = partial_path(path)
    restore_folder(path, names)
    for folder in (partial, path):
        if folder.exists():
            require_own_files(folder, names)
    try:
        with writing(path):
            if partial.exists():
                shutil.rmtree(partial)
            partial.mkdir()
            yield partial
            replace_folder(partial, path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def replace_folder(new: Path, path: Path) -> None:
    """Rename the folder `new` to `path`; a folder that has this name is moved aside first and removed last.

    Raises: OSError; then `path` is what it was.
    """
    aside = aside_path(path)
    if path.exists():
        if aside.exists():  # of a run that was killed before it could remove it
            _remove(aside)
        path.rename(aside)
    try:
        new.rename(path)
    except OSError:
        if aside.exists():
            aside.rename(path)
        raise
    if aside.exists():
        _remove(aside)


def restore_folder(path: Path, names: Collection[str]) -> None:
    """Clean up after a run that was killed in `replace_folder`: move the old folder back, or remove it.

    Raises: BioattnError when it holds a file that has none of `names`, or the folder around it is read-only.
    """
    aside = aside_path(path)
    if not aside.exists():
        return
    require_own_files(aside, names)
    with writing(path):
        if path.exists():
            _remove(aside)
        else:
            aside.rename(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def cache_folder() -> Path:
    """Find the folder of genome indexes, and create it when missing. Raises: BioattnError when that fails."""
    usual = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "bioattn"
    folder = Path(os.environ.get("BIOATTN_CACHE") or usual)
    try:
        folder = folder.expanduser()
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: this user has no home folder
        reason = error.strerror if isinstance(error, OSError) else error
        raise BioattnError(
            f"{folder}: the cache folder cannot be made ({reason}); name another one in BIOATTN_CACHE"
        ) from error
    return folder
