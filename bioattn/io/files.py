"""Files: names of an output while it is made, text whatever its compression, outputs whole or not at all."""

import errno
import gzip
import hashlib
import io
import json
import lzma
import os
import re
import shutil
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.text import human_bytes

OUTPUT_SUFFIXES = ("", ".partial")
"""What is written for an output: itself, and the folder it is made in."""
RECORDS = "bioattn-records"
PIPED = "bioattn-piped-"
"""How the name of a temporary folder begins that holds copies of pipes, and what is made of them on the way."""
_TEMPORARY = re.compile(r"(?<![^/])\.tmp-\d+-(?=[^/])")


def temporary_path(path: Path) -> Path:
    """Temporary name under which this process writes `path`; the suffixes stay."""
    return path.with_name(f".tmp-{os.getpid()}-{path.name}")


def final_name(name: str) -> str:
    """The name of a file, or a path, without what `temporary_path` puts before names.

    >>> final_name("out/.tmp-17-x.tsv"), final_name("x.tsv")
    ('out/x.tsv', 'x.tsv')
    """
    return _TEMPORARY.sub("", name)


def partial_path(output: Path) -> Path:
    """The name of what is kept of an output whose making was interrupted, a file or a folder."""
    return output.with_name(f"{output.name}.partial")


def aside_path(path: Path) -> Path:
    """The name of an old folder while a new one gets its name."""
    return path.with_name(f".tmp-old-{path.name}")


def run_record_path(output: Path) -> Path:
    """Where the run record of an output stands."""
    return output.parent / RECORDS / f"{output.name}.json"


GZIP_MAGIC = b"\x1f\x8b"
XZ_MAGIC = b"\xfd7zXZ\x00"
_HDF5_MAGIC = b"\x89HDF"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_LONGEST_NAME = 200
"""Bytes; file systems take 255, and what is written beside a file has a longer name."""
_OTHER_MAGIC = {
    b"BZh": "compressed with bzip2",
    b"PK\x03\x04": "a spreadsheet (save it as CSV or TSV) or zip archive",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook (save it as .xlsx or CSV)",
    b"\x28\xb5\x2f\xfd": "compressed with zstd",
}


def open_bytes(path: Path) -> BinaryIO:
    """Open `path` for reading, decompressing gzip (bgzip included) and xz by content, not by name.

    Raises: BioattnError when the file is missing, a folder or not readable; FormatError when it is packed in
    another way.
    """
    try:
        raw = path.open("rb")
        magic = raw.read(len(XZ_MAGIC))
        raw.seek(0)
    except OSError as error:
        raise unreadable(path, error) from error
    packed = next((name for start, name in _OTHER_MAGIC.items() if magic.startswith(start)), None)
    if packed is None and not is_packed(magic):
        return raw
    raw.close()
    if packed is not None:
        raise FormatError(f"{path}: is {packed}; unpack it, or compress it with gzip or xz")
    return cast(BinaryIO, lzma.open(path) if magic == XZ_MAGIC else gzip.open(path))


def is_packed(start: bytes) -> bool:
    """Tell from its first bytes whether a file is gzip or xz."""
    return start.startswith((GZIP_MAGIC, XZ_MAGIC))


@contextmanager
def decompression_errors(path: Path) -> Iterator[None]:
    """Turn errors of gzip, xz and UTF-8 decoding in the body into one FormatError about `path`."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise FormatError(
            f"{path}: the compressed data end early or are damaged ({error}); fetch or compress the file again"
        ) from error
    except UnicodeDecodeError as error:
        raise _no_text(path, error) from error
    except OSError as error:
        raise unreadable(path, error) from error


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (1-based line number, line without its end) of a text file, plain, gzip or xz; CRLF is accepted.

    The text is UTF-8, or UTF-16 (Excel's "Unicode text"), also without a byte order mark.

    Raises: FormatError when the file is neither or its compression is damaged; BioattnError when unreadable.
    """
    with open_bytes(path) as raw, decompression_errors(path):
        start = cast(io.BufferedReader, raw).peek(2)[:2]  # gzip and xz can as well
        encoding = "utf-16" if start in _UTF16_MARKS else "utf-8-sig"
        if len(start) == 2 and 0 in start and any(start):
            encoding = "utf-16-le" if start[1] == 0 else "utf-16-be"
        text = io.TextIOWrapper(raw, encoding=encoding, newline=None)
        for number, line in enumerate(text, start=1):
            yield number, line.rstrip("\n")


def _no_text(path: Path, error: UnicodeDecodeError) -> FormatError:
    """Make the error for a file that is not UTF-8. Text is decoded in blocks, so the line is looked for again."""
    where, byte = str(path), error.object[error.start]
    if path.is_file():  # no standard input
        with open_bytes(path) as raw, decompression_errors(path):
            for number, line in enumerate(raw, start=1):
                if number == 1 and line.startswith(_HDF5_MAGIC):
                    return FormatError(f"{path}: is an HDF5 file, text is needed here")
                try:
                    line.decode("utf-8")
                except UnicodeDecodeError as found:
                    where, byte = f"{path}:{number}", line[found.start]
                    break
    return FormatError(f"{where}: not UTF-8 text (byte 0x{byte:02x}); save the file as UTF-8 or ASCII")


def unreadable(path: Path, error: OSError) -> BioattnError:
    """Make the error for an input that cannot be opened."""
    if isinstance(error, FileNotFoundError):
        return BioattnError(f"{path}: no such file or folder")
    if isinstance(error, IsADirectoryError):
        return BioattnError(f"{path}: is a folder, a file is needed")
    return BioattnError(f"{path}: cannot be read ({error.strerror or error})")


def unwritable(path: Path, error: OSError) -> BioattnError:
    """Make the error for an output that cannot be written; it names the output, not its temporary file."""
    folder_exists = path.parent.is_dir()
    path = Path(final_name(str(path)))
    if isinstance(error, FileNotFoundError) and folder_exists:
        return BioattnError(f"{path}: cannot be written, the folder {path.parent} takes no files")
    if isinstance(error, FileNotFoundError):
        return BioattnError(f"{path}: the folder {path.parent} does not exist; create it first")
    if error.errno == errno.ENOSPC:
        return BioattnError(f"{path}: no space left on the device; nothing was written under this name")
    return BioattnError(f"{path}: cannot be written ({error.strerror or error})")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Name `path` where the system refuses to read it. Raises: BioattnError."""
    try:
        yield
    except OSError as error:
        raise unreadable(path, error) from error


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Name `path` where the system refuses to write it. Raises: BioattnError."""
    try:
        yield
    except OSError as error:
        raise unwritable(path, error) from error


def first_bytes(path: Path, number: int) -> bytes:
    """The first bytes of a file as they lie on disk. Raises: BioattnError when it cannot be read."""
    with reading(path), path.open("rb") as file:
        return file.read(number)


def check_output(output: Path, inputs: Iterable[Path] = (), option: str = "--output") -> None:
    """Refuse an output that cannot be written or would destroy an input, before any work is done.

    option: what named the output, for messages. Raises: SettingsError when `output` is `-` or as `check_apart`;
    BioattnError when it is a folder or a device, or the folder it is to stand in is missing or read-only.
    """
    if str(output) == "-":
        raise SettingsError(f"{option} -: this cannot go to standard output; give a file name")
    if output.is_dir():
        raise BioattnError(f"{output}: is a folder, a file name is needed")
    if output.exists() and not output.is_file():
        raise BioattnError(f"{output}: is a device or pipe, which would be replaced; give a file name")
    check_parent(output)
    check_apart(output, inputs, option)


def require_free_space(output: Path, wanted: int, advice: str) -> None:
    """Raises: BioattnError when the disk of `output` has less than `wanted` bytes free."""
    folder = output.absolute().parent
    with writing(output):
        free = shutil.disk_usage(folder).free
    if wanted > free:
        raise BioattnError(
            f"{output}: takes {human_bytes(wanted)}, but only {human_bytes(free)} are free in {folder}; {advice}"
        )


def is_file_name(name: str) -> bool:
    """Tell whether text from a file can name a file in a folder, on every system and without leaving the folder.

    >>> [is_file_name(name) for name in ("P12345", "../../x", "a\\\\b", "..", "a\\x00b", "CON", "x" * 300)]
    [True, False, False, False, False, False, False]
    """
    stem = name.split(".")[0].rstrip().upper()
    return (
        name.strip(" .") != ""
        and not re.search(r"[/\\\x00-\x1f\x7f]|^[A-Za-z]:", name)
        and not re.fullmatch(r"CON|PRN|AUX|NUL|(COM|LPT)[0-9]", stem)
        and len(name.encode("utf-8", "surrogatepass")) <= _LONGEST_NAME
    )


def check_parent(output: Path) -> None:
    """Check the folder of an output. Raises: BioattnError when it is missing or read-only."""
    if not output.parent.is_dir():
        raise unwritable(output, FileNotFoundError())
    if not os.access(output.parent, os.W_OK):
        raise BioattnError(f"{output}: cannot be written, the folder {output.parent} is read-only")


def check_apart(output: Path, inputs: Iterable[Path], option: str = "--output") -> None:
    """Refuse an output that is an input, contains one, or lies in an input folder (a model).

    What stands beside an output while it is made (`.partial`) counts as the output.

    Raises: SettingsError.
    """
    target = output.resolve()
    written = [target.with_name(target.name + end) for end in OUTPUT_SUFFIXES] if target.name else []
    for path in inputs:
        place = path.resolve()
        if place == target:
            raise SettingsError(f"{option} would write {output}, which is an input; choose another name")
        for name in written:
            if place.is_relative_to(name):
                raise SettingsError(
                    f"{option} {output}: {name.name} would be replaced, and with it the input {path}; choose "
                    "another name"
                )
        if place.is_dir() and target.is_relative_to(place):
            raise SettingsError(
                f"{option} {output}: lies in the folder {path}, which is an input; choose another place"
            )


@contextmanager
def atomic_output(path: Path) -> Iterator[Path]:
    """Give a temporary name beside `path`; rename it to `path` on success, remove it on any failure.

    The temporary name keeps the suffixes, so writers that look at them (gzip, pandas) behave.

    Raises: BioattnError when the folder is missing, read-only or full.
    """
    temporary = temporary_path(path)
    if path.is_dir():
        raise BioattnError(f"{path}: is a folder, a file name is needed")
    try:
        with writing(path):
            yield temporary
            temporary.replace(path)
    finally:
        remove_leftover(temporary)


def remove_leftover(path: Path) -> None:
    """Remove a file if it is there; errors are ignored, so that they never hide the one that came first."""
    with suppress(OSError):
        path.unlink()


@contextmanager
def text_output(path: Path, level: int = 9) -> Iterator[io.TextIOBase]:
    """Open `path` for atomic text writing; a `.gz` name gives gzip without clock or name, so bytes repeat.

    level: gzip's, 1 (fast) to 9 (small). Raises: BioattnError for the name of a workbook.
    """
    if path.suffix.lower() in (".xlsx", ".xls"):
        raise BioattnError(
            f"{path}: workbooks are not written; give a name that ends in .tsv, which Excel opens"
        )
    with atomic_output(path) as temporary:
        if path.suffix == ".gz":
            with (
                temporary.open("wb") as raw,
                gzip.GzipFile(filename="", mode="wb", compresslevel=level, fileobj=raw, mtime=0) as packed,
                io.TextIOWrapper(packed, encoding="utf-8", newline="\n") as text,
            ):
                yield text
        else:
            with temporary.open("w", encoding="utf-8", newline="\n") as text:
                yield text


def sha256_of(path: Path) -> str:
    """Compute the SHA-256 of a file, in hexadecimal."""
    with reading(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_json(path: Path, content: Any) -> None:
    """Write `content` as indented JSON, keys in the order given, atomically."""
    with text_output(path) as file:
        json.dump(content, file, indent=2, allow_nan=False)
        file.write("\n")


def read_json(path: Path) -> Any:
    """Read JSON. Raises: FormatError naming the line when it does not parse."""
    return parse_json("\n".join(line for _, line in read_lines(path)), str(path))


@contextmanager
def json_result(path: Path, format: str, version: str | int, command: str) -> Iterator[dict[str, Any]]:
    """The content of a JSON file of `bioattn COMMAND`, without its format and version.

    Raises: FormatError for another file or version, or when what is made of the content inside the `with` misses
    something.
    """
    content = read_json(path)
    if not isinstance(content, dict) or content.pop("format", None) != format:
        raise FormatError(f"{path}: is not a file of `bioattn {command}` (its format is not {format!r})")
    try:
        if content.pop("format_version") != version:
            raise FormatError(f"{path}: is of another version; this bioattn reads version {version}")
        yield content
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise FormatError(f"{path}: is incomplete ({error!r}); run `bioattn {command}` again") from error


def parse_json(text: str | bytes, source: str) -> Any:
    """Parse JSON; `source` names it in messages.

    Raises: FormatError naming the line when it does not parse, is nested more deeply than Python can follow, or
    holds a number of more digits than Python reads.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise FormatError(f"{source}:{error.lineno}: not valid JSON ({error.msg})") from error
    except RecursionError as error:
        raise FormatError(f"{source}: not valid JSON (nested too deeply)") from error
    except ValueError as error:
        raise FormatError(f"{source}: not valid JSON ({str(error).partition(';')[0]})") from error
