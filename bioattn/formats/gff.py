"""GFF3: genes from the Parent hierarchy, in whatever order its rows stand.

A gene is a row without Parent whose type ends in `gene` (gene, pseudogene, ncRNA_gene, transposable_element_gene).
Transcript rows directly below it are its transcripts; a CDS directly below it (bacteria) counts as one. Where a
file has no gene rows (gffread, UCSC, Prodigal, Prokka), transcripts and CDS rows without a parent make the genes.
Where it has, CDS rows whose Parent it lacks are what is left of genes that were cut away: counted and ignored.
The `##FASTA` section, or the first line starting with `>`, ends the features.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from bioattn.errors import FormatError
from bioattn.formats.genes import (
    MAX_POSITION_DIGITS,
    Annotation,
    GeneDraft,
    Place,
    TranscriptDraft,
    parse_position,
)
from bioattn.io.files import read_lines

NAME_ATTRIBUTES = ("gene", "Name", "gene_name")
BIOTYPE_ATTRIBUTES = ("gene_biotype", "gene_type", "biotype", "locus_type")
ID_PREFIXES = ("gene-", "gene:")

# Rows that never decide where a gene, transcript or CDS lies and are never the parent of one that does.
_IGNORED_TYPES = frozenset(("exon", "intron", "start_codon", "stop_codon", "polypeptide", "protein"))
_IGNORED_TYPES |= {"five_prime_UTR", "three_prime_UTR", "UTR"}
_SEQUENCE_TYPES = frozenset(("region", "chromosome", "contig", "supercontig", "scaffold"))


class Row(NamedTuple):
    """One feature row."""

    line: int
    kind: str
    place: Place
    attributes: dict[str, str]

    @property
    def parents(self) -> list[str]:
        """Ids in the Parent attribute."""
        text = self.attributes.get("Parent", "")
        return [unquote(parent) for parent in text.split(",") if parent] if text else []

    def value(self, *names: str) -> str:
        """The first of these attributes that has a value, percent-decoded; "" when none has."""
        for name in names:
            text = self.attributes.get(name)
            if text:
                return unquote(text) if "%" in text else text
        return ""


def read_gff3(path: Path, id_attribute: str | None = None) -> Annotation:
    """Read the genes of a GFF3 file.

    id_attribute: attribute of the gene rows that names the gene; by default locus_tag, else gene_id, else ID
    without a leading `gene-` or `gene:`. A gene without that attribute gets its default id and problem `no_id`.

    Raises: FormatError naming the line for rows that are not GFF3, and when the file holds no gene or no gene has
    `id_attribute`.
    """
    header = _Header()
    rows = list(_read_rows(path, header))
    hierarchy = _Hierarchy(path, rows, id_attribute)
    genes = hierarchy.genes()
    if not genes:
        raise FormatError(f"{path}: holds no gene, transcript or CDS row that could be a gene")
    if id_attribute is not None and all(gene.problem == "no_id" for gene in genes):
        known = sorted({name for row in rows if is_gene(row) for name in row.attributes})
        raise FormatError(
            f"{path}: no gene has the attribute {id_attribute!r} named by --id-attribute; gene rows have "
            f"{', '.join(known) or 'no attributes'}"
        )
    return Annotation(
        path,
        "GFF3",
        [gene.finish() for gene in genes],
        header.lengths,
        header.labels,
        frozenset(header.circular),
        sorted(hierarchy.remnants),
    )


def is_gene(row: Row) -> bool:
    """Tell whether a row is a gene of its own."""
    return row.kind.endswith("gene") and "Parent" not in row.attributes


class _Header:
    """What the file says about its chromosomes."""

    def __init__(self) -> None:
        self.lengths: dict[str, int] = {}
        self.labels: dict[str, str] = {}
        self.circular: set[str] = set()

    def directive(self, line: str) -> None:
        words = line.split()
        if words[0] != "##sequence-region" or len(words) != 4 or not words[3].isdecimal():
            return
        with suppress(ValueError):  # longer than any chromosome: a remark, not a region
            self.lengths[unquote(words[1])] = parse_position(words[3])

    def sequence_row(self, row: Row) -> None:
        chrom = row.place.chrom
        if row.place.start == 0 and chrom not in self.labels:
            self.lengths.setdefault(chrom, row.place.end)
            label = row.value("chromosome", "Name")
            if label:
                self.labels[chrom] = label
        if row.attributes.get("Is_circular", "").lower() == "true":
            self.circular.add(chrom)


def _read_rows(path: Path, header: _Header) -> Iterator[Row]:
    last_text, last_attributes = "", dict[str, str]()
    for number, line in read_lines(path):
        if not line or line.isspace():
            continue
        if line[0] == "#":
            if line.startswith("##FASTA"):
                return
            if line.startswith("##"):
                header.directive(line)
            continue
        if line[0] == ">":
            return
        columns = nine_columns(path, number, line, "GFF3")
        kind = columns[2].strip()
        if kind in _IGNORED_TYPES or columns[3] == columns[4] == ".":
            continue
        chrom = unquote(columns[0]) if "%" in columns[0] else columns[0]
        place = parse_place(path, number, chrom, columns)
        if columns[8] != last_text:  # the parts of one CDS mostly share their attributes
            last_text, last_attributes = columns[8], _parse_attributes(path, number, columns[8])
        row = Row(number, kind, place, last_attributes)
        if kind in _SEQUENCE_TYPES:
            header.sequence_row(row)
        else:
            yield row


def nine_columns(path: Path, number: int, line: str, kind: str) -> list[str]:
    """The columns of a GFF3 or GTF row. Raises: FormatError when there are more or fewer than nine."""
    columns = line.split("\t")
    if len(columns) != 9:
        hint = "" if "\t" in line else "; are the columns separated by spaces?"
        raise FormatError(f"{path}:{number}: {len(columns)} columns where {kind} has 9, tab-separated{hint}")
    return columns


def parse_place(path: Path, number: int, chrom: str, columns: list[str]) -> Place:
    """Chromosome, positions and strand of a GFF3 or GTF row, now 0-based and half-open.

    Raises: FormatError naming the line for positions that are not numbers, below 1 or inverted, and other strands.
    """
    try:
        first, last = parse_position(columns[3]), parse_position(columns[4])
    except ValueError:
        raise FormatError(
            f"{path}:{number}: start {columns[3][:40]!r} and end {columns[4][:40]!r} must be whole numbers "
            f"of at most {MAX_POSITION_DIGITS} digits"
        ) from None
    if first < 1:
        raise FormatError(f"{path}:{number}: start {first} is below 1; positions in GFF and GTF count from 1")
    if first > last:
        raise FormatError(
            f"{path}:{number}: start {first} lies behind end {last}; GFF and GTF write the lower "
            "position first on both strands"
        )
    strand = columns[6].strip()
    if strand not in ("+", "-"):
        if strand not in (".", "?", ""):
            raise FormatError(f"{path}:{number}: strand {strand!r} is none of + - . ?")
        strand = "."
    return Place(chrom.strip(), first - 1, last, strand)


def _parse_attributes(path: Path, number: int, text: str) -> dict[str, str]:
    attributes = {}
    for piece in text.split(";"):
        name, equals, value = piece.partition("=")
        # A stray ";" inside a free-text note leaves pieces without "=": they are passed over.
        if equals:
            attributes[name.strip()] = value.strip()
    if not attributes and text.strip() not in ("", "."):
        raise FormatError(
            f"{path}:{number}: the last column {text[:60]!r} does not hold GFF3 name=value attributes"
        )
    return attributes


class _Hierarchy:
    """Finds the gene and transcript of every row."""

    def __init__(self, path: Path, rows: list[Row], id_attribute: str | None) -> None:
        self.path = path
        self.rows = rows
        self.id_attribute = id_attribute
        self.row_of_id: dict[str, Row] = {}
        self.drafts: dict[str, GeneDraft] = {}
        self.has_gene_rows = any(is_gene(row) for row in rows)
        self.remnants: list[int] = []
        """Lines of CDS rows that belong to no gene."""
        self.homes_of_cds: dict[tuple[str, str], list[TranscriptDraft]] = {}

    def genes(self) -> list[GeneDraft]:
        """All genes, in file order."""
        gene_rows = [row for row in self.rows if is_gene(row)]
        for row in self.rows:
            identifier = row.value("ID")
            if identifier and row.kind != "CDS":
                self.row_of_id.setdefault(identifier, row)
        for row in gene_rows:
            draft = self._draft(row, *self._gene_id(row))
            draft.places[row.place] = None
        others = [row for row in self.rows if not is_gene(row)]
        for row in others:
            if row.kind != "CDS":
                self._add_transcript(row)
        for row in others:
            if row.kind == "CDS":
                self._add_cds(row)
        return sorted(self.drafts.values(), key=lambda draft: draft.line)

    def _gene_id(self, row: Row) -> tuple[str, str]:
        """(gene id, problem) of a gene row."""
        if self.id_attribute is not None:
            named = row.value(self.id_attribute)
            if named:
                return _without_prefix(named) if self.id_attribute == "ID" else named, ""
        default = row.value("locus_tag", "gene_id") or _without_prefix(row.value("ID"))
        if not default:
            default = f"{row.place.chrom}:{row.place.start}-{row.place.end}({row.place.strand})"
        return default, "" if self.id_attribute is None else "no_id"

    def _draft(self, row: Row, gene_id: str, problem: str) -> GeneDraft:
        draft = self.drafts.get(gene_id)
        if draft is None:
            draft = self.drafts[gene_id] = GeneDraft(gene_id, row.line, problem=problem)
        if is_gene(row):
            draft.line = min(draft.line, row.line)
            draft.name = draft.name or row.value(*NAME_ATTRIBUTES)
            draft.biotype = draft.biotype or _biotype(row)
        return draft

    def _ancestors(self, row: Row, parent: str) -> list[Row]:
        """Rows from `parent` up to the top; [] when the file does not hold the parent."""
        chain: list[Row] = []
        identifier: str | None = parent
        seen: set[str] = set()
        while identifier is not None and identifier in self.row_of_id:
            if identifier in seen:
                raise FormatError(
                    f"{self.path}:{row.line}: the Parent attributes above this row form a circle"
                )
            seen.add(identifier)
            chain.append(self.row_of_id[identifier])
            upper = chain[-1].parents
            identifier = next((p for p in upper if p in self.row_of_id), upper[0] if upper else None)
        return chain

    def _add_transcript(self, row: Row) -> None:
        if not _is_transcript(row):
            return
        chains = [chain for parent in row.parents if (chain := self._ancestors(row, parent))]
        for chain in chains:
            if len(chain) == 1 and is_gene(chain[0]):
                draft = self._draft(chain[0], *self._gene_id(chain[0]))
                self._transcript(draft, row).spans.append(row.place)
        if not chains:
            self._transcript(self._orphan_gene(row), row).spans.append(row.place)

    def _add_cds(self, row: Row) -> None:
        # Parts of one CDS name the same parents, mostly in consecutive rows: look them up once.
        key = (row.attributes.get("Parent", ""), row.attributes.get("ID", ""))
        homes = self.homes_of_cds.get(key) if key[0] else None
        if homes is None:
            homes = self.homes_of_cds[key] = self._find_homes(row)
        for home in homes:
            home.cds.append(row.place)
        if not homes:
            self.remnants.append(row.line)

    def _find_homes(self, row: Row) -> list[TranscriptDraft]:
        """The transcripts a CDS row belongs to; none when it is a remnant or lies below something else."""
        chains = [chain for parent in row.parents if (chain := self._ancestors(row, parent))]
        homes = []
        for chain in chains:
            top = chain[-1]
            if is_gene(top):
                draft = self._draft(top, *self._gene_id(top))
            elif _is_transcript(top):
                draft = self._orphan_gene(top)
            else:
                continue
            middle = chain[-2] if len(chain) > 1 else top
            homes.append(self._transcript(draft, row if is_gene(middle) else middle))
        if not chains and not (self.has_gene_rows and row.parents):
            homes.append(self._transcript(self._orphan_gene(row), row))
        return homes

    def _orphan_gene(self, row: Row) -> GeneDraft:
        """The gene of a transcript or CDS that has no gene row."""
        named = row.value(self.id_attribute) if self.id_attribute else ""
        parent = row.parents[0] if row.parents else ""
        gene_id = (
            named
            or row.value("locus_tag", "gene_id", "geneID")
            or _without_prefix(parent)
            or row.value("gene", "ID")
            or f"{row.place.chrom}:{row.place.start}-{row.place.end}({row.place.strand})"
        )
        draft = self._draft(row, gene_id, "" if named or self.id_attribute is None else "no_id")
        draft.name = draft.name or row.value("gene_name", "gene", "Name")
        draft.biotype = draft.biotype or row.value(*BIOTYPE_ATTRIBUTES)
        return draft

    def _transcript(self, draft: GeneDraft, row: Row) -> TranscriptDraft:
        key = row.value("ID") or f"{row.kind} of {draft.gene_id}"
        if key not in draft.transcripts:
            draft.transcripts[key] = TranscriptDraft(key, row.kind)
        return draft.transcripts[key]


def _is_transcript(row: Row) -> bool:
    return row.kind.endswith(("RNA", "gene", "gene_segment")) or "transcript" in row.kind


def _biotype(row: Row) -> str:
    stated = row.value(*BIOTYPE_ATTRIBUTES)
    return stated or ("" if row.kind == "gene" else row.kind)


def _without_prefix(identifier: str) -> str:
    for prefix in ID_PREFIXES:
        if identifier.startswith(prefix):
            return identifier[len(prefix) :]
    return identifier
