"""One way to read genes, whatever the format: GFF3, GTF or BED, told apart by content and not by name.

BED has six columns or more: every row is a gene, and there are no transcripts.
"""

import re
from pathlib import Path

from bioattn.errors import BioattnError, FormatError
from bioattn.formats.genes import MAX_POSITION_DIGITS, Annotation, GeneDraft, Place
from bioattn.formats.gff import read_gff3
from bioattn.formats.gtf import read_gtf
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
        is_header = first and len(columns) >= 3 and all(each.strip().isalpha() for each in columns[1:3])
        first = False
        if is_header:
            continue
        place = _parse_row(path, number, line, columns)
        draft = drafts.setdefault(columns[3].strip(), GeneDraft(columns[3].strip(), number))
        draft.places[place] = None
    if not drafts:
        raise FormatError(f"{path}: holds no BED row")
    return Annotation(path, "BED", [draft.finish() for draft in drafts.values()])


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


_GTF_ATTRIBUTES = re.compile(r"""\s*[^\s=;"]+\s+("[^"]*"|[^\s=;"]+)\s*(;|$)""")


def read_annotation(path: Path, id_attribute: str | None = None) -> Annotation:
    """Read the genes of a GFF3, GTF or BED file (plain, gzip, bgzip or xz).

    id_attribute: which attribute holds the gene id; see `read_gff3` and `read_gtf` for what holds without it. BED
    has its ids in column 4.

    Raises: FormatError when the file is none of the three or damaged; BioattnError for `id_attribute` with BED.
    """
    kind = annotation_format(path)
    if kind == "GFF3":
        return read_gff3(path, id_attribute)
    if kind == "GTF":
        return read_gtf(path, id_attribute)
    if id_attribute is not None:
        raise BioattnError(
            f"--id-attribute: {path} is BED, which has no attributes; its ids stand in column 4"
        )
    return read_bed(path)


def annotation_format(path: Path) -> str:
    """Tell by the first feature row: GFF3, GTF or BED. Raises: FormatError when the file is none of them."""
    version = ""
    for number, line in read_lines(path):
        if line.startswith("##gff-version"):
            version = line.removeprefix("##gff-version").strip()
        if not line or line.isspace() or line[0] == "#" or line.split(None, 1)[0] in ("track", "browser"):
            continue
        if line[0] == ">":
            raise FormatError(
                f"{path}:{number}: a FASTA record stands where an annotation (GFF3, GTF, BED) is needed"
            )
        columns = line.split("\t")
        # First BED: its score and name can be numbers where GFF has positions, but no GFF type is a number.
        if len(columns) >= 3 and (_are_numbers(columns[1:3]) or columns[0].lower() in ("chrom", "chr")):
            return "BED"
        if (len(columns) >= 8 and _are_numbers(columns[3:5])) or columns[3:5] == [".", "."]:
            attributes = columns[8] if len(columns) > 8 else ""
            if _GTF_ATTRIBUTES.match(attributes):
                return "GTF"
            if version.startswith(("1", "2")):
                raise FormatError(f"{path}: is GFF version {version}; convert it to GFF3 or GTF")
            return "GFF3"
        if version.startswith("3"):
            return "GFF3"  # whose reader says what is wrong with the row
        hint = "" if "\t" in line else " (columns must be separated by tabs)"
        raise FormatError(f"{path}:{number}: the first row is neither GFF3 nor GTF nor BED{hint}")
    raise FormatError(f"{path}: holds no annotation row")


def _are_numbers(columns: list[str]) -> bool:
    return all(column.strip().lstrip("-").isdecimal() for column in columns)
