"""BED6 and wider: every row is a gene; BED has no transcripts."""

from pathlib import Path

from bioattn.errors import FormatError
from bioattn.formats.genes import MAX_POSITION_DIGITS, Annotation, GeneDraft, Place
from bioattn.io.files import read_lines

_NO_STRAND = (".", "*", "?", "")


def read_bed(path: Path) -> Annotation:
    """Read the genes of a BED file with at least six columns; column 4 is the gene id.

    Further columns are ignored. Lines starting with `#`, `track` or `browser`, blank lines and a line of column
    names at the top are passed over.

    Raises: FormatError naming the line for fewer than six columns, positions that are not whole numbers, negative
    or inverted, an empty name, an unknown strand; and when there is no row.
    """
    drafts: dict[str, GeneDraft] = {}
    first = True
    for number, line in read_lines(path):
        if not line or line.isspace() or line[0] == "#" or line.split(None, 1)[0] in ("track", "browser"):
            continue
        columns = line.split("\t")
        if first and _is_header(columns):
            first = False
            continue
        first = False
        place = _parse_row(path, number, line, columns)
        draft = drafts.setdefault(columns[3].strip(), GeneDraft(columns[3].strip(), number))
        draft.places[place] = None
    if not drafts:
        raise FormatError(f"{path}: holds no BED row")
    return Annotation(path, "BED", [draft.finish() for draft in drafts.values()])


def _is_header(columns: list[str]) -> bool:
    return len(columns) >= 3 and columns[1].strip().isalpha() and columns[2].strip().isalpha()


def _parse_row(path: Path, number: int, line: str, columns: list[str]) -> Place:
    if len(columns) < 6:
        hint = "" if "\t" in line else "; are the columns separated by spaces?"
        raise FormatError(
            f"{path}:{number}: {len(columns)} columns where a gene needs BED6 (chromosome, start, end, "
            f"name, score, strand), tab-separated{hint}"
        )
    chrom, name, strand = columns[0].strip(), columns[3].strip(), columns[5].strip()
    positions = columns[1].strip(), columns[2].strip()
    if not all(text.isdecimal() and len(text) <= MAX_POSITION_DIGITS for text in positions):
        raise FormatError(
            f"{path}:{number}: start {columns[1][:40]!r} and end {columns[2][:40]!r} must be whole numbers "
            f"from 0 up, of at most {MAX_POSITION_DIGITS} digits"
        )
    start, end = int(positions[0]), int(positions[1])
    if start > end:
        raise FormatError(
            f"{path}:{number}: start {start} lies behind end {end}; BED writes the lower one first"
        )
    if not name or name == ".":
        raise FormatError(f"{path}:{number}: column 4 is empty; it must hold the gene id")
    if strand not in ("+", "-"):
        if strand not in _NO_STRAND:
            raise FormatError(f"{path}:{number}: strand {strand!r} is none of + - .")
        strand = "."
    return Place(chrom, start, end, strand)
