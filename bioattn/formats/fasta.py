"""FASTA records, read one at a time and written with fixed line length.

What is refused, with file and line: text before the first `>`, a header without a name, a name given twice.
Skipped are blank lines, white space within a sequence and `;` comments before the first record; a record without
sequence is passed on as it stands.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from bioattn.errors import FormatError
from bioattn.io.files import read_lines, text_output

LINE_LENGTH = 60


class FastaRecord(NamedTuple):
    name: str
    """The first word of the header."""
    description: str
    """The rest of the header, possibly empty."""
    sequence: str
    """The sequence as written, without white space; letters are not checked."""
    line: int = 0
    """1-based line of the header; 0 when the record was not read from a file."""


def read_fasta(path: Path, lines: Iterable[tuple[int, str]] | None = None) -> Iterator[FastaRecord]:
    """Yield the records of a FASTA file (plain, gzip, bgzip or xz).

    lines: those of the file that are FASTA, numbered; None: all.

    Raises: FormatError naming the line for text before the first header, a nameless or repeated record, an empty
    file, damaged compression or bytes that are not UTF-8.
    """
    lines_of_name: dict[str, int] = {}
    name: str | None = None
    description = ""
    header_line = 0
    parts: list[str] = []
    for number, line in read_lines(path) if lines is None else lines:
        if line.startswith(">"):
            if name is not None:
                yield FastaRecord(name, description, "".join(parts), header_line)
            name, description = split_header(path, number, line)
            if name in lines_of_name:
                raise FormatError(
                    f"{path}:{number}: the name {name!r} was used on line {lines_of_name[name]} already; "
                    "names must be unique"
                )
            header_line = number
            lines_of_name[name] = number
            parts = []
        elif name is not None:
            parts.append(line if line.isalnum() else "".join(line.split()))
        elif line.strip() and not line.startswith(";"):
            refuse_flat_file(path, line)
            raise FormatError(
                f"{path}:{number}: {line[:40]!r} stands where a FASTA header ('>name') is expected"
            )
    if name is None:
        raise FormatError(f"{path}: holds no FASTA record (no line starts with '>')")
    yield FastaRecord(name, description, "".join(parts), header_line)


def refuse_flat_file(path: Path, line: str) -> None:
    """Raises: FormatError when the first line of a file is that of GenBank or EMBL."""
    if line.startswith(("LOCUS ", "ID   ")):
        raise FormatError(
            f"{path}: is a GenBank or EMBL file; give the GFF3 and FASTA of the same record (NCBI offers both; "
            "Bio.SeqIO and bcbio-gff make them)"
        )


def split_header(path: Path, number: int, line: str) -> tuple[str, str]:
    """Name (the first word) and description of a header line. Raises: FormatError when there is no name."""
    header = line[1:]
    if not header.strip():
        raise FormatError(f"{path}:{number}: the FASTA header has no name after '>'")
    name, *rest = header.split(maxsplit=1)
    return name, rest[0].rstrip() if rest else ""


def format_record(name: str, description: str, sequence: str) -> str:
    """The text of one record, sequence lines of 60 letters, ending in a newline.

    Raises: FormatError when the name is empty or has white space, or the description a line break.
    """
    if not name or len(name.split()) != 1 or name != name.strip():
        raise FormatError(f"{name!r} cannot be a FASTA name: it is empty or contains white space")
    if len(description.splitlines()) > 1 or description != description.strip():
        raise FormatError(f"{name}: the description {description!r} has line breaks or outer white space")
    header = f">{name} {description}\n" if description else f">{name}\n"
    lines = [sequence[i : i + LINE_LENGTH] for i in range(0, len(sequence), LINE_LENGTH)]
    return header + "\n".join(lines) + "\n" if lines else header


def write_fasta(path: Path, records: Iterable[FastaRecord]) -> None:
    """Write records whole or not at all; a `.gz` name gives gzip."""
    with text_output(path) as file:
        for record in records:
            file.write(format_record(record.name, record.description, record.sequence))
