"""A3M, A2M and aligned FASTA: three readings of FASTA records, and how they are told apart. Writes A3M.

In A3M and A2M upper case and `-` are match columns and lower case is an insertion; A2M pads insertions with `.`
to equal length, A3M leaves the padding out, and both are read alike. In aligned FASTA every character is a column.
"""

import logging
import re
from pathlib import Path

from bioattn.errors import FormatError
from bioattn.formats.alignment import Alignment, Annotations
from bioattn.formats.alignment_rows import (
    WHITE_SPACE,
    RawRows,
    match_columns_by_case,
    match_width,
    read_columns,
    read_with_insertions,
)
from bioattn.io.files import text_output
from bioattn.text import counted

LOGGER = logging.getLogger("bioattn")
ANNOTATION_RECORDS = ("ss_dssp", "sa_dssp", "aa_dssp", "ss_pred", "aa_pred", "ss_conf")
"""Records of HH-suite that are no rows: one character per match column, digits among them."""
_COMMENT = (b"#", b";")
_NAMED_A3M = re.compile(r"\.(a3m|a2m)(\.gz|\.xz)?$")
_CHAINS = re.compile(rb"#(\d+(?:,\d+)*)[ \t]+(\d+(?:,\d+)*)[ \t]*\n")
"""The first line of ColabFold's A3M: lengths of the chains, and copies of each; `#59 1` is one chain."""


def parse_a3m(source: str, data: bytes) -> Alignment:
    """Read A3M or A2M text; HH-suite's structure records become column annotations.

    Raises: FormatError naming the line for text before the first `>`, rows that do not fit each other (see
    `read_with_insertions`) and a structure record that does not fit the columns.
    """
    return _with_insertions(_split_records(source, data))


def parse_aligned_fasta(source: str, data: bytes) -> Alignment:
    """Read FASTA text in which each character is a column.

    Raises: FormatError naming the line for text before the first `>` and rows that do not fit each other.
    """
    return read_columns(_split_records(source, data))


def parse_records(source: str, data: bytes) -> Alignment:
    """Read A3M, A2M or aligned FASTA; the letters decide which (rules in docs/formats/alignments.md)."""
    raw = _split_records(source, data)
    if any(name in ANNOTATION_RECORDS for name in raw.names):
        return _with_insertions(raw)
    has_lower = any(text != text.upper() for text in raw.texts)
    has_upper = any(text != text.lower() for text in raw.texts)
    if not (has_lower and has_upper):
        return read_columns(raw)
    if len({len(text) for text in raw.texts}) == 1:
        if len({match_width(text) for text in raw.texts}) != 1 and not _NAMED_A3M.search(source):
            LOGGER.warning(
                "%s: the rows are equally long only with their lower-case letters, so these are read as aligned "
                "residues, as in FASTA; in A3M they would be insertions",
                source,
            )
            return read_columns(raw)
        if raw.names[1:] == [] or match_columns_by_case(raw) is None:
            LOGGER.warning(
                "%s: lower-case letters are read as insertions, as in A3M; write them in upper case if they are "
                "aligned residues",
                source,
            )
    return _with_insertions(raw)


def write_a3m(alignment: Alignment, path: Path) -> None:
    """Write A3M whole or not at all, one line a sequence; a `.gz` name gives gzip.

    `parse_a3m` gives the same alignment back, but for annotations other than HH-suite's records.

    Raises: FormatError for a name or description that would not come back; BioattnError when it cannot be written.
    """
    with text_output(path) as file:
        for name in ANNOTATION_RECORDS:
            if name in alignment.annotations.columns:
                file.write(f">{name}\n{alignment.annotations.columns[name]}\n")
        for index, (name, description) in enumerate(
            zip(alignment.names, alignment.descriptions, strict=True)
        ):
            header = f"{name} {description}" if description else name
            if header.split(maxsplit=1)[:1] != [name] or "\n" in header or "\r" in header:
                raise FormatError(
                    f"row {index + 1}: {header[:60]!r} cannot be a header: no name, or a line break"
                )
            file.write(f">{header}\n{alignment.row_with_insertions(index)}\n")


def _split_records(source: str, data: bytes) -> RawRows:
    """Split the text into records, without white space and lines that start with `#` or `;`."""
    _refuse_multimer(source, data)
    first, *records = (b"\n" + data).split(b"\n>")
    for number, text in enumerate(first.split(b"\n")):
        if text.strip() and not text.startswith(_COMMENT):
            shown = text[:40].decode("utf-8", "replace")
            raise FormatError(f"{source}:{number}: {shown!r} stands where a header ('>name') is expected")
    line = 1 + first.count(b"\n")
    raw = RawRows(source)
    for record in records:
        header, _, body = record.partition(b"\n")
        name, description = [*header.decode("utf-8").split(maxsplit=1), "", ""][:2]
        if b"#" in body or b";" in body:
            body = b"\n".join(text for text in body.split(b"\n") if not text.startswith(_COMMENT))
        raw.add(line, name, body.translate(None, WHITE_SPACE), description.rstrip())
        line += 1 + record.count(b"\n")
    return raw


def _refuse_multimer(source: str, data: bytes) -> None:
    chains = _CHAINS.match(data)
    if chains is not None and (b"," in chains[1] or int(chains[2]) > 1):
        raise FormatError(
            f"{source}:1: {chains[0].decode().strip()!r} is ColabFold's header of a multimer (lengths of chains, "
            "copies of each), and models here read one chain; give the alignment of one chain"
        )


def _with_insertions(raw: RawRows) -> Alignment:
    kept: list[int] = []
    columns: dict[str, tuple[int, str]] = {}
    for index, name in enumerate(raw.names):
        if name in ANNOTATION_RECORDS:
            columns[name] = index, raw.texts[index].decode("utf-8")
        else:
            kept.append(index)
    annotations = Annotations(columns={name: text for name, (_, text) in columns.items()})
    alignment = read_with_insertions(raw.select(kept) if columns else raw, annotations)
    for index, text in columns.values():
        if len(text) != alignment.num_columns:
            raise FormatError(
                f"{raw.place(index)} describes {counted(len(text), 'column')} where the rows have "
                f"{counted(alignment.num_columns, 'match column')}"
            )
    return alignment
