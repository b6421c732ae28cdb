"""A genome as one memory-mapped array of codes, made once from FASTA and shared by every process that reads it.

The codes (one byte a base, see `bioattn.formats.nucleotides`) lie in an index file in a cache folder, never beside
the FASTA: `BIOATTN_CACHE`, else `XDG_CACHE_HOME/bioattn`, else `~/.cache/bioattn`. The index remembers path, size
and times of its FASTA and is made again when they change; it appears whole under its name, so that processes which
build it at the same time end with the same file.

Index file: the codes of all chromosomes one after another, JSON (chromosomes with lengths, source), the size of
that JSON (8 bytes) and `bioattn-genome 2`.
"""

import hashlib
import json
import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyfaidx
from numpy.typing import NDArray

from bioattn.errors import BioattnError, FormatError
from bioattn.formats.fasta import FastaRecord, read_fasta, split_header
from bioattn.formats.nucleotides import UNKNOWN, encode
from bioattn.io.files import (
    PIPED,
    XZ_MAGIC,
    atomic_output,
    first_bytes,
    is_packed,
    reading,
    remove_leftover,
    unreadable,
)
from bioattn.io.folders import cache_folder
from bioattn.system.progress import SILENT, Progress

MAGIC = b"bioattn-genome 2"
_END = struct.Struct("<Q16s")
PIECE_LENGTH = 1 << 24


class Chromosome(NamedTuple):
    """One sequence of the genome."""

    name: str
    description: str
    """What the FASTA header says after the name."""
    length: int


class Genome:
    """Codes of a whole genome, addressed by chromosome name and 0-based positions.

    Positions before the start or beyond the end of a chromosome read as N.
    """

    def __init__(self, index: Path) -> None:
        """Map an existing index file; `open_genome` makes one when needed.

        Raises: FormatError when the file is not a complete genome index.
        """
        footer = _footer(index)
        if footer is None:
            raise FormatError(f"{index}: is not a whole bioattn genome index; delete it and run again")
        self.index = index
        self.chromosomes = [Chromosome(*entry) for entry in footer["chromosomes"]]
        self.names = [chromosome.name for chromosome in self.chromosomes]
        self.lengths = {chromosome.name: chromosome.length for chromosome in self.chromosomes}
        ends = np.cumsum([chromosome.length for chromosome in self.chromosomes], dtype=np.int64)
        self.offsets: NDArray[np.int64] = np.concatenate([np.zeros(1, np.int64), ends])
        """Where each chromosome starts in `codes`; one more entry holds the total length."""
        # A plain view: every slice of np.memmap would pay for its subclass.
        self.codes: NDArray[np.uint8] = np.asarray(
            np.memmap(index, dtype=np.uint8, mode="r", shape=(int(ends[-1]),))
        )
        """All chromosomes one after another, shape (total length,), read-only."""
        self._number = {name: number for number, name in enumerate(self.names)}
        self._windows: dict[int, tuple[NDArray[np.uint8], NDArray[np.int64]]] = {}

    def chromosome(self, name: str) -> NDArray[np.uint8]:
        """Codes of a whole chromosome, a read-only view. name: of `names`."""
        number = self._number[name]
        return self.codes[self.offsets[number] : self.offsets[number + 1]]

    def chromosome_numbers(self, names: Sequence[str]) -> NDArray[np.int64]:
        """Numbers of chromosomes, each of `names`, for `windows`."""
        return np.array([self._number[name] for name in names], dtype=np.int64)

    def windows(
        self,
        numbers: NDArray[np.int64],
        starts: NDArray[np.int64],
        length: int,
        around: NDArray[np.bool_] | None = None,
    ) -> NDArray[np.uint8]:
        """Codes of many windows of one length, a new array of shape (n, length); N beyond chromosome ends.

        numbers: of the chromosomes, shape (n,), as given by `chromosome_numbers`.
        starts: 0-based first positions, shape (n,); they may be negative.
        around: windows, shape (n,), that go on at the other end of their chromosome; None: none.
        """
        if length not in self._windows:
            room = self.codes[:length].size if length else 0
            view = np.lib.stride_tricks.sliding_window_view(self.codes, room)
            # A genome shorter than the window has no window that fits.
            self._windows[length] = view, self.offsets[1:] - length
        view, last_starts = self._windows[length]
        begins = self.offsets.take(numbers)
        absolute = begins + starts
        outside = (absolute < begins) | (absolute > last_starts.take(numbers))
        if not outside.any():
            codes: NDArray[np.uint8] = view[absolute]
            return codes
        ends = self.offsets.take(numbers + 1)
        codes = np.full((absolute.size, length), UNKNOWN, dtype=np.uint8)
        inside = np.flatnonzero(~outside)
        if inside.size:
            codes[inside] = view[absolute[inside]]
        for row in np.flatnonzero(outside):
            start = int(absolute[row])
            if around is not None and around[row]:
                turn = np.arange(start - begins[row], start - begins[row] + length) % (
                    ends[row] - begins[row]
                )
                codes[row] = self.codes[begins[row] + turn]
                continue
            first, last = max(start, int(begins[row])), min(start + length, int(ends[row]))
            if first < last:
                codes[row, first - start : last - start] = self.codes[first:last]
        return codes


def open_genome(fasta: Path, progress: Progress = SILENT) -> Genome:
    """The genome of a FASTA file (plain, gzip, bgzip or xz), indexed first if it is new or has changed.

    Raises: FormatError for a FASTA that cannot be read as DNA or that is empty; BioattnError when the index cannot
    be written.
    """
    with reading(fasta):
        state = fasta.stat()
    # The change time moves even when a tool sets the old modification time on new content.
    source: list[str | int] = [str(fasta.resolve()), state.st_size, state.st_mtime_ns, state.st_ctime_ns]
    piped = next((folder for folder in fasta.parents if folder.name.startswith(PIPED)), None)
    if piped is not None:
        index = piped / "piped.genome"
    else:
        name = hashlib.sha256(str(fasta.resolve()).encode()).hexdigest()[:16]
        index = cache_folder() / f"{fasta.name}-{name}.genome"
    footer = _footer(index) if index.is_file() else None
    if footer is None or footer["source"] != source:
        if index.parent.is_dir() and not os.access(index.parent, os.W_OK):
            raise BioattnError(
                f"{index.parent}: the genome's index cannot be written, the folder is read-only; name another one "
                "in BIOATTN_CACHE"
            )
        _build_index(fasta, index, source, progress)
    return Genome(index)


def _build_index(fasta: Path, index: Path, source: list[str | int], progress: Progress) -> None:
    with atomic_output(index) as temporary:  # several runs may make it at once, all the same
        chromosomes: list[Chromosome] = []
        progress.begin(f"indexing {fasta.name}", None)
        with temporary.open("wb") as file:
            for piece in _dna_pieces(fasta, temporary.with_name(temporary.name + ".fai")):
                if not chromosomes or chromosomes[-1].name != piece.name:
                    chromosomes.append(Chromosome(piece.name, piece.description, 0))
                length = chromosomes[-1].length
                codes = encode(piece.sequence, f"{fasta}: record {piece.name!r}", length)
                file.write(codes.data)
                chromosomes[-1] = chromosomes[-1]._replace(length=length + codes.size)
                progress.advance(codes.size)
            for chromosome in chromosomes:
                if not chromosome.length:
                    raise FormatError(
                        f"{fasta}: record {chromosome.name!r} has no sequence; is the file cut short?"
                    )
            footer = json.dumps({"source": source, "chromosomes": chromosomes}).encode()
            file.write(footer + _END.pack(len(footer), MAGIC))
        progress.end()


def _footer(index: Path) -> dict[str, Any] | None:
    """The JSON of an index file; None when it is something else or incomplete."""
    with reading(index), index.open("rb") as file:
        end = file.seek(0, os.SEEK_END) - _END.size
        file.seek(max(end, 0))
        size, magic = _END.unpack(file.read().ljust(_END.size))
        if magic != MAGIC or size > end:
            return None
        file.seek(end - size)
        try:
            footer: dict[str, Any] = json.loads(file.read(size))
        except ValueError:
            return None
    return footer if sum(length for _, _, length in footer["chromosomes"]) == end - size else None


class _UnevenError(Exception):
    """A FASTA is not as regular as pyfaidx wants it."""


def _dna_pieces(fasta: Path, fai: Path) -> Iterator[FastaRecord]:
    """The letters of all records in pieces of bounded size.

    Plain files whose lines are even go through pyfaidx, about three times as fast as line by line; for everything
    else (any compression, uneven lines, blank lines) and for the messages there is the streaming reader.
    """
    if not is_packed(first_bytes(fasta, len(XZ_MAGIC))):
        with suppress(_UnevenError):
            yield from _even_pieces(fasta, fai)
            return
    yield from read_fasta(fasta)


def _even_pieces(fasta: Path, fai: Path) -> Iterator[FastaRecord]:
    """The records through pyfaidx, its index at `fai`. Raises: _UnevenError before the first piece."""
    with ExitStack() as stack:
        stack.callback(remove_leftover, fai)
        try:
            reader = stack.enter_context(pyfaidx.Fasta(str(fasta), indexname=str(fai), as_raw=True))
        except (pyfaidx.FastaIndexingError, ValueError, IndexError, RuntimeError, OSError) as error:
            raise _UnevenError from error
        entries = reader.faidx.index
        try:
            if not (all(entry.rlen for entry in entries.values()) and _ends_fit(fasta, entries.values())):
                raise _UnevenError
            # Comments and blank lines before a header come along with it; only the first loses its first letter.
            headers = {
                name: ("?" + reader[name].long_name.rstrip()).split("\n")[-1][1:]
                for name in reader.keys()  # noqa: SIM118 - a Fasta iterates over records, not names
            }
        except OSError as error:
            raise unreadable(fasta, error) from error
        except ValueError as error:  # no text, or zero bytes, which it counts as letters of no line
            raise _UnevenError from error
        for name, header in headers.items():
            _, description = split_header(fasta, 0, ">" + header)
            for start in range(0, entries[name].rlen, PIECE_LENGTH):
                text = reader[name][start : start + PIECE_LENGTH]
                yield FastaRecord(name, description, text if text.isalnum() else "".join(text.split()))


def _ends_fit(fasta: Path, entries: Iterable[Any]) -> bool:
    """Whether every record begins behind its header and ends where even lines would.

    pyfaidx passes over blank lines behind a header without counting them, and lets a last line be longer, of which
    it then reads on into the next header.
    """
    with fasta.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        for entry in entries:
            file.seek(entry.offset)
            if file.read(1) in (b"\n", b"\r"):
                return False
            line_end = entry.lenb - entry.lenc
            end = entry.offset + entry.rlen + -(-entry.rlen // entry.lenc) * line_end
            if end - line_end == size:  # no line end at the end of the file
                continue
            file.seek(end - 1)
            around = file.read(2)
            if around[:1] not in (b"\n", b"\r") or around[1:] not in (b"", b">", b"\n", b"\r"):
                return False
    return True
