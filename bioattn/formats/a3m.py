"""A3M and A2M: FASTA records in which upper case and `-` are match columns and lower case is an insertion.

A2M pads insertions with `.` to equal length, A3M leaves the padding out; both are read alike.
"""

from pathlib import Path

from bioattn.errors import FormatError
from bioattn.files import text_output
from bioattn.formats.alignment import Alignment, Annotations
from bioattn.formats.alignment_rows import RawRows, read_with_insertions

ANNOTATION_RECORDS = ("ss_dssp", "sa_dssp", "aa_dssp", "ss_pred", "aa_pred", "ss_conf")
"""Records of HH-suite that are no rows: one character per match column, digits among them."""


def split_records(source: str, data: bytes) -> RawRows:
    """The records of FASTA-like text, white space and blank lines removed, `#` and `;` lines passed over.

    A header without a name, as public alignments have it for the query, is given `row` and its number.

    Raises: FormatError for text before the first `>`.
    """
    first, *records = (b"\n" + data).split(b"\n>")
    line = 1 + first.count(b"\n")
    for number, text in enumerate(first.splitlines()):
        if text.strip() and not text.startswith((b"#", b";")):
            shown = text[:40].decode("utf-8", "replace")
            raise FormatError(f"{source}:{number}: {shown!r} stands where a header ('>name') is expected")
    raw = RawRows(source, [], [], [], [])
    for record in records:
        header, _, body = record.partition(b"\n")
        words = header.decode("utf-8").split(maxsplit=1) or [f"row{len(raw.names) + 1}"]
        if b"#" in body or b";" in body:
            body = b"\n".join(text for text in body.split(b"\n") if not text.startswith((b"#", b";")))
        raw.names.append(words[0])
        raw.descriptions.append(words[1].rstrip() if len(words) == 2 else "")
        raw.texts.append(body.translate(None, b" \t\n\r\v\f"))
        raw.lines.append(line)
        line += 1 + record.count(b"\n")
    return raw


def parse_a3m(source: str, data: bytes) -> Alignment:
    """Read A3M or A2M text; HH-suite's structure records become column annotations.

    Raises: FormatError naming the line for whatever does not belong there (see `split_records` and
    `read_with_insertions`), and for a structure record that does not fit the columns.
    """
    return alignment_of_records(split_records(source, data))


def alignment_of_records(raw: RawRows) -> Alignment:
    """As `parse_a3m`, for records split already."""
    rows, notes = split_annotation_records(raw)
    columns = {name: text.decode("utf-8") for name, text in zip(notes.names, notes.texts, strict=True)}
    alignment = read_with_insertions(rows, Annotations(columns=columns))
    for index, text in enumerate(columns.values()):
        if len(text) != alignment.num_columns:
            raise FormatError(
                f"{notes.place(index)} describes {len(text):,} columns where the rows have "
                f"{alignment.num_columns:,} match columns"
            )
    return alignment


def split_annotation_records(raw: RawRows) -> tuple[RawRows, RawRows]:
    """The rows proper and the records of HH-suite that describe columns."""
    if not any(name in ANNOTATION_RECORDS for name in raw.names):
        return raw, RawRows(raw.source, [], [], [], [])
    parts = []
    for wanted in (False, True):
        chosen = [index for index, name in enumerate(raw.names) if (name in ANNOTATION_RECORDS) == wanted]
        parts.append(
            RawRows(raw.source, *([values[index] for index in chosen] for values in raw[1:]))  # type: ignore[arg-type]
        )
    return parts[0], parts[1]


def write_a3m(alignment: Alignment, path: Path) -> None:
    """Write A3M whole or not at all, one line a sequence; a `.gz` name gives gzip.

    `parse_a3m` gives the same alignment back, but for annotations other than HH-suite's records.
    """
    with text_output(path) as file:
        for name in ANNOTATION_RECORDS:
            if name in alignment.annotations.columns:
                file.write(f">{name}\n{alignment.annotations.columns[name]}\n")
        for index, (name, description) in enumerate(
            zip(alignment.names, alignment.descriptions, strict=True)
        ):
            header = f"{name} {description}" if description else name
            file.write(f">{header}\n{alignment.row_with_insertions(index)}\n")
