"""Unpacking gzip and xz up to a limit: a few kilobytes can be packed so that they unpack to more than any disk.

What unpacks to more than `MOST_TIMES` its size is refused once it is larger than `ALWAYS_ALLOWED`; sequences and
tables of the field pack to a third to a fiftieth. The environment variable `BIOATTN_MAX_UNPACKED` names another
number of bytes, and then counts alone.
"""

import gzip
import io
import lzma
import os
from typing import Any, BinaryIO

from bioattn.errors import FormatError, SettingsError
from bioattn.text import human_bytes

LIMIT_VARIABLE = "BIOATTN_MAX_UNPACKED"
MOST_TIMES = 200
ALWAYS_ALLOWED = 1 << 30
_BUFFER = 1 << 16


def unpacked(raw: BinaryIO, source: str, size: int, *, xz: bool) -> BinaryIO:
    """Open the content of `raw`, which holds gzip (of one member or several) or xz of `size` bytes.

    source: the file, for messages. Closing closes `raw`. Reading raises FormatError beyond the limit, and what
    gzip and lzma raise on damage. Raises: SettingsError when the environment variable is no number.
    """
    inner = lzma.LZMAFile(raw, "rb") if xz else gzip.GzipFile(fileobj=raw, mode="rb")  # noqa: SIM115 - closed by `_Limited`
    return io.BufferedReader(_Limited(inner, raw, source, _limit(size), size), _BUFFER)


def _limit(size: int) -> int:
    named = os.environ.get(LIMIT_VARIABLE)
    if named is None:
        return max(ALWAYS_ALLOWED, MOST_TIMES * size)
    if not named.isdecimal() or len(named) > 18:
        raise SettingsError(f"{LIMIT_VARIABLE}={named}: a number of bytes is needed")
    return int(named)


class _Limited(io.RawIOBase):
    """A decompressed file that counts the bytes it gives."""

    def __init__(self, inner: Any, raw: BinaryIO, source: str, limit: int, size: int) -> None:
        super().__init__()
        self._inner = inner
        self._raw = raw
        self._source = source
        self._limit = limit
        self._size = size
        self._given = 0

    def readinto(self, buffer: Any, /) -> int:
        """Decompress into a buffer."""
        number: int = self._inner.readinto(buffer)
        self._given += number
        if self._given > self._limit:
            size, limit = human_bytes(self._size), human_bytes(self._limit)
            raise FormatError(
                f"{self._source}: its {size} unpack to more than {limit}; if that is right, unpack it yourself, "
                f"or name more bytes in the environment variable {LIMIT_VARIABLE}"
            )
        return number

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        if not self.closed:
            self._inner.close()
            self._raw.close()
        super().close()
