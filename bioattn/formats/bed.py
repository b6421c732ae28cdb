"""Genes of BED files: a gene of every row, with the coding part that BED12 says."""

from pathlib import Path

from bioattn.errors import FormatError
from bioattn.formats.genes import MAX_POSITION_DIGITS, Annotation, GeneDraft, Place
from bioattn.io.files import read_lines

_NO_STRAND = (".", "*", "?", "")


def read_bed(path: Path) -> Annotation:
    """Read the genes of a BED file with at least six columns; column 4 is the gene id.

    A row of BED12 is a transcript, too: its coding sequence are the parts of its blocks (columns 10-12) within the
    thick part (columns 7 and 8; none where that is empty). Other columns are ignored. Lines starting with `#`,
    `track` or `browser`, blank lines and a line of column names at the top are passed over.

    Raises: FormatError naming the line for fewer than six columns, positions that are not whole numbers, negative
    or inverted, an empty name, an unknown strand; and when there is no row.
    """
    drafts: dict[str, GeneDraft] = {}
    first = True
    for number, line in read_lines(path):
        if not line or line.isspace() or line[0] == "#" or line.split(None, 1)[0] in ("track", "browser"):
            continue
        columns = [column.strip() for column in line.split("\t")]
        is_header = first and len(columns) >= 3 and all(column.isalpha() for column in columns[1:3])
        first = False
        if is_header:
            continue
        place = _bed_place(f"{path}:{number}", line, columns)
        draft = drafts.setdefault(columns[3], GeneDraft(columns[3], number))
        draft.places[place] = None
        coding = _coding_parts(place, columns)
        if coding is not None:
            transcript = draft.transcript(columns[3], "mRNA" if coding else "transcript")
            transcript.spans.append(place)
            transcript.cds += coding
    if not drafts:
        raise FormatError(f"{path}: holds no BED row")
    return Annotation(path, "BED", [draft.finish() for draft in drafts.values()])


def _bed_place(where: str, line: str, columns: list[str]) -> Place:
    if len(columns) < 6:
        hint = "" if "\t" in line else "; are the columns separated by spaces?"
        raise FormatError(
            f"{where}: {len(columns)} columns where a gene needs BED6 (chromosome, start, end, "
            f"name, score, strand), tab-separated{hint}"
        )
    chrom, start, end, name, _, strand = columns[:6]
    if not all(text.isdecimal() and len(text) <= MAX_POSITION_DIGITS for text in (start, end)):
        raise FormatError(
            f"{where}: start {start[:40]!r} and end {end[:40]!r} must be whole numbers "
            f"from 0 up, of at most {MAX_POSITION_DIGITS} digits"
        )
    if int(start) > int(end):
        raise FormatError(f"{where}: start {start} lies behind end {end}; BED writes the lower one first")
    if name in ("", "."):
        raise FormatError(f"{where}: column 4 is empty; it must hold the gene id")
    if strand not in ("+", "-", *_NO_STRAND):
        raise FormatError(f"{where}: strand {strand!r} is none of + - .")
    return Place(chrom, int(start), int(end), strand if strand in ("+", "-") else ".")


def _coding_parts(place: Place, columns: list[str]) -> list[Place] | None:
    """The coding parts of a row of BED12; None where it is none, as with two BED6 side by side."""
    if len(columns) < 12 or not all(column.isdecimal() for column in columns[6:8]):
        return None
    sizes, starts = ([int(n) for n in column.split(",") if n.isdecimal()] for column in columns[10:12])
    if not columns[9].isdecimal() or not int(columns[9]) == len(sizes) == len(starts):
        return None
    first, last = int(columns[6]), int(columns[7])
    blocks = (
        (place.start + start, place.start + start + size) for start, size in zip(starts, sizes, strict=True)
    )
    return [
        place._replace(start=max(start, first), end=min(end, last))
        for start, end in blocks
        if max(start, first) < min(end, last)
    ]
