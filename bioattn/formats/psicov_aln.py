"""The `.aln` of PSICOV, CCMpred and their kin: one row a line, no names."""

from bioattn.formats.alignment import Alignment
from bioattn.formats.alignment_rows import WHITE_SPACE, empty_rows, read_columns


def parse_psicov(source: str, data: bytes) -> Alignment:
    """Read bare rows; they are named `row1`, `row2`, ... Blank lines are passed over.

    Raises: FormatError naming the line for rows that do not fit each other or a row broken by white space.
    """
    raw = empty_rows(source)
    for number, line in enumerate(data.split(b"\n"), start=1):
        text = line.strip(WHITE_SPACE)
        if text:
            raw.add(number, "", text)
    return read_columns(raw)
