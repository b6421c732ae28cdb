"""One way to read genes, whatever the format: GFF3, GTF or BED, told apart by content and not by name.

GTF has genes by their gene_id; gene and transcript rows may be absent: the extent of a gene is that of its gene
row, else of its transcript rows, else of its exons and CDS. BED has six columns or more: every row is a gene, and
there are no transcripts.
"""

import re
from pathlib import Path

from bioattn.errors import BioattnError, FormatError
from bioattn.formats.genes import MAX_POSITION_DIGITS, Annotation, GeneDraft, Place, TranscriptDraft
from bioattn.formats.gff import nine_columns, parse_place, read_gff3
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


_GTF_NAMES = ("gene_name", "gene")
_GTF_BIOTYPES = ("gene_biotype", "gene_type")
_GTF_TRANSCRIPTS = ("transcript", "mRNA")

_ATTRIBUTE = re.compile(r'\s*([^\s;"]+)\s+(?:"([^"]*)"|([^;"]*?))\s*(?:;|$)')
_GENE_ID = re.compile(r'(?:^|[;\s])gene_id\s+(?:"([^"]*)"|([^;"\s]+))')
_TRANSCRIPT_ID = re.compile(r'(?:^|[;\s])transcript_id\s+(?:"([^"]*)"|([^;"\s]+))')


def read_gtf(path: Path, id_attribute: str | None = None) -> Annotation:
    """Read the genes of a GTF file.

    id_attribute: attribute of the gene row (or, without one, of the gene's first row) that names the gene; by
    default gene_id. A gene without that attribute keeps its gene_id and gets problem `no_id`.

    Raises: FormatError naming the line for rows that are not GTF or have no gene_id, and when the file holds no
    gene or no gene has `id_attribute`.
    """
    builder = _GtfGenes(path, id_attribute)
    for number, line in read_lines(path):
        if not line or line.isspace() or line[0] == "#":
            continue
        builder.add(number, nine_columns(path, number, line, "GTF"))
    return Annotation(path, "GTF", [draft.finish() for draft in builder.finish()])


def parse_attributes(text: str) -> dict[str, str]:
    """Parse the attributes of a GTF row; of a repeated name the first value counts.

    >>> parse_attributes('gene_id "YAL068C"; level 2; note "a; b";')
    {'gene_id': 'YAL068C', 'level': '2', 'note': 'a; b'}
    """
    attributes: dict[str, str] = {}
    for match in _ATTRIBUTE.finditer(text):
        attributes.setdefault(match[1], match[2] if match[2] is not None else match[3])
    return attributes


class _GtfGenes:
    """Collects rows by gene_id."""

    def __init__(self, path: Path, id_attribute: str | None) -> None:
        self.path = path
        self.id_attribute = id_attribute or "gene_id"
        self.drafts: dict[str, GeneDraft] = {}
        self.names: dict[str, str] = {}
        """The gene's value of `id_attribute`, by gene_id; the gene row has the last word."""
        self.described_by_gene_row: set[str] = set()
        self.exons: dict[tuple[str, str], list[Place]] = {}
        self.attributes_seen: dict[str, None] = {}

    def add(self, number: int, columns: list[str]) -> None:
        """Take one row."""
        kind = columns[2].strip()
        if kind not in ("gene", "exon", "CDS") and kind not in _GTF_TRANSCRIPTS:
            return
        place = parse_place(self.path, number, columns[0], columns)
        match = _GENE_ID.search(columns[8])
        gene_id = (match[1] or match[2] or "") if match else ""
        if not gene_id:
            raise FormatError(
                f"{self.path}:{number}: the {kind} row has no gene_id attribute, which GTF requires"
            )
        draft = self.drafts.get(gene_id)
        if draft is None:
            draft = self.drafts[gene_id] = GeneDraft(gene_id, number)
            self._describe(draft, columns[8])
        if kind == "gene":
            if gene_id not in self.described_by_gene_row:
                self.described_by_gene_row.add(gene_id)
                self._describe(draft, columns[8])
            draft.places[place] = None
            return
        match = _TRANSCRIPT_ID.search(columns[8])
        transcript_id = (match[1] or match[2] or "") if match else ""
        if kind == "exon":
            self.exons.setdefault((gene_id, transcript_id), []).append(place)
            return
        transcript = _transcript(draft, transcript_id)
        if kind == "CDS":
            transcript.cds.append(place)
        else:
            transcript.spans.append(place)
            stated = parse_attributes(columns[8])
            biotype = stated.get("transcript_biotype") or stated.get("transcript_type")
            transcript.kind = "mRNA" if biotype == "protein_coding" else biotype or kind

    def _describe(self, draft: GeneDraft, text: str) -> None:
        attributes = parse_attributes(text)
        self.attributes_seen.update(dict.fromkeys(attributes))
        draft.name = next((attributes[n] for n in _GTF_NAMES if attributes.get(n)), draft.name)
        draft.biotype = next((attributes[n] for n in _GTF_BIOTYPES if attributes.get(n)), draft.biotype)
        if attributes.get(self.id_attribute):
            self.names[draft.gene_id] = attributes[self.id_attribute]

    def finish(self) -> list[GeneDraft]:
        """All genes in file order, under their final ids."""
        for (gene_id, transcript_id), exons in self.exons.items():
            transcript = _transcript(self.drafts[gene_id], transcript_id)
            if not transcript.spans:
                transcript.spans = exons
        if not self.drafts:
            raise FormatError(f"{self.path}: holds no gene, transcript, exon or CDS row")
        if not self.names:
            raise FormatError(
                f"{self.path}: no gene has the attribute {self.id_attribute!r} named by --id-attribute; the rows "
                f"have {', '.join(self.attributes_seen)}"
            )
        renamed: dict[str, GeneDraft] = {}
        for gene_id, draft in self.drafts.items():
            final_id = self.names.get(gene_id, "")
            if not final_id:
                draft.problem = "no_id"
            draft.gene_id = final_id or gene_id
            if draft.gene_id in renamed:
                _join(renamed[draft.gene_id], draft)
            else:
                renamed[draft.gene_id] = draft
        return list(renamed.values())


def _join(first: GeneDraft, second: GeneDraft) -> None:
    """Join the drafts of two gene_ids that have one name; most often the gene then lies at several places."""
    for draft in (first, second):
        if not draft.places:
            draft.places = dict.fromkeys(draft.finish().places)
    first.places.update(second.places)
    first.transcripts.update(second.transcripts)


def _transcript(draft: GeneDraft, transcript_id: str) -> TranscriptDraft:
    if transcript_id not in draft.transcripts:
        draft.transcripts[transcript_id] = TranscriptDraft(transcript_id, "transcript")
    return draft.transcripts[transcript_id]


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
