"""Folders that bioattn writes to: space, file locks, HDF5 and file handles."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bioattn.errors import BioattnError
from bioattn.io.cache_folder import cache_folder
from bioattn.system.doctor.diagnosis import Diagnosis, Status
from bioattn.text import human_bytes

LEAST_SPACE = 1_000_000_000
"""Bytes: below, attention of a whole genome will not fit."""
LEAST_HANDLES = 128
"""Files a process should be allowed to open: a merge holds one for each part that it reads."""
_PROBE = ".bioattn-doctor-"
_NO_HDF5_LOCKS = "export HDF5_USE_FILE_LOCKING=FALSE, or write to another file system"

try:
    import fcntl
    import resource
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]
    resource = None  # type: ignore[assignment]


def storage_diagnoses(folder: Path) -> Iterator[Diagnosis]:
    """What is true of `folder`, where results are to stand, of the cache of genome indexes, and of open files."""
    problem = _problem_with_writing(folder)
    yield _folder_diagnosis("folder", folder, problem, "work in a folder of your own, or name one with -o")
    if problem is None:
        yield lock_diagnosis(folder)
        yield hdf5_diagnosis(folder)
    advice = "name another folder in BIOATTN_CACHE"
    try:
        cache = cache_folder()
        yield _folder_diagnosis("cache", cache, _problem_with_writing(cache), advice)
    except BioattnError as error:
        yield Diagnosis("files", "cache", str(error), None, Status.WARNING, advice)
    if resource is not None:
        yield handle_diagnosis(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _folder_diagnosis(name: str, folder: Path, problem: str | None, advice: str) -> Diagnosis:
    if problem is not None:
        return Diagnosis("files", name, f"{folder}: {problem}", str(folder), Status.WARNING, advice)
    free = shutil.disk_usage(folder).free
    text = f"{folder}: writable, {human_bytes(free)} free{_kind_of(folder)}"
    if free < LEAST_SPACE:
        return Diagnosis("files", name, text, str(folder), Status.WARNING, "make room")
    return Diagnosis("files", name, text, str(folder))


def _problem_with_writing(folder: Path) -> str | None:
    """Why no file can be written there, found out by writing one."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=_PROBE) as file:
            file.write(b"0123456789" * 1000)
            file.flush()
    except OSError as error:
        return f"cannot be written ({error.strerror or error})"
    return None


def _kind_of(folder: Path) -> str:
    """The file system of a folder, where the system says: locks and speed depend on it."""
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
        place = folder.resolve()
    except OSError:
        return ""
    best, kind = Path("/"), ""
    for line in mounts:
        _, point, found, *_ = line.split(" ")
        path = Path(point.replace("\\040", " "))
        if place.is_relative_to(path) and path.is_relative_to(best):
            best, kind = path, found
    return f" ({kind})" if kind else ""


def lock_diagnosis(folder: Path) -> Diagnosis:
    """Whether a second lock on a file is refused while the first is held, as `bioattn.io.output_lock` needs it."""
    without = "two runs that write the same output are not kept apart here"
    advice = "start one run per output, or write to a file system with locks (flock)"
    if fcntl is None:
        text = f"this system has none: {without}"
        return Diagnosis("files", "locks", text, False, Status.WARNING, advice)
    with (
        tempfile.NamedTemporaryFile(dir=folder, prefix=_PROBE) as first,
        Path(first.name).open("rb") as second,
    ):
        try:
            fcntl.flock(first.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            text = f"this file system has none ({error.strerror}): {without}"
        else:
            try:
                fcntl.flock(second.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return Diagnosis("files", "locks", "work in this folder", True)
            except OSError as error:
                text = f"this file system has none ({error.strerror}): {without}"
            else:
                text = f"are granted twice here: {without}"
    return Diagnosis("files", "locks", text, False, Status.WARNING, advice)


def hdf5_diagnosis(folder: Path) -> Diagnosis:
    """Whether an HDF5 file can be written and read there: the library takes locks of its own."""
    try:
        import h5py
    except (ImportError, OSError) as error:
        text, advice = f"not tried: h5py cannot be imported ({error})", "pip install --force-reinstall h5py"
        return Diagnosis("files", "HDF5", text, False, Status.ERROR, advice)
    told = os.environ.get("HDF5_USE_FILE_LOCKING")
    with tempfile.TemporaryDirectory(dir=folder, prefix=_PROBE) as inside:
        path = Path(inside) / "probe.h5"
        try:
            with h5py.File(path, "w") as file:
                file["numbers"] = range(10)
            with h5py.File(path, "r") as file, h5py.File(path, "r") as again:
                if file["numbers"][:].sum() != 45 or again["numbers"].shape != (10,):
                    raise OSError("what was read is not what was written")
        except OSError as error:
            text = f"a file written here cannot be read ({str(error).splitlines()[0]})"
            return Diagnosis("files", "HDF5", text, False, Status.ERROR, _NO_HDF5_LOCKS)
    locking = "" if told is None else f"; HDF5_USE_FILE_LOCKING is {told}"
    return Diagnosis("files", "HDF5", f"written and read in this folder{locking}", True)


def handle_diagnosis(limit: int) -> Diagnosis:
    """Whether `limit` files at once are enough; -1 is no limit."""
    text = "no limit" if limit < 0 else f"at most {limit:,} at once"
    if not 0 <= limit < LEAST_HANDLES:
        return Diagnosis("files", "open files", text, limit)
    text += ", which merges of many parts can reach"
    return Diagnosis("files", "open files", text, limit, Status.WARNING, "ulimit -n 1024")
