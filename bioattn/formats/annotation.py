"""One way to read genes, whatever the format: GFF3, GTF or BED, told apart by content and not by name.

GFF3: a gene is a row without Parent whose type ends in `gene` (gene, pseudogene, ncRNA_gene,
transposable_element_gene). Transcript rows directly below it are its transcripts; a CDS directly below it
(bacteria) counts as one. Rows may stand in any order. Where a file has no gene rows (gffread, UCSC, Prodigal,
Prokka), transcripts and CDS rows without a parent make the genes. Where it has, CDS rows whose Parent it lacks are
what is left of genes that were cut away: counted and ignored. The `##FASTA` section, or the first line starting
with `>`, ends the features.

GTF: genes by their gene_id; gene and transcript rows may be absent: the extent of a gene is that of its gene row,
else of its transcript rows, else of its exons and CDS. In AUGUSTUS and BRAKER's rows of genes and transcripts the
bare id stands in place of attributes.

BED: six columns or more; every row is a gene, which is its transcript in BED12.
"""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from bioattn.errors import BioattnError, FormatError
from bioattn.formats.bed import read_bed
from bioattn.formats.fasta import FastaRecord, read_fasta, refuse_flat_file
from bioattn.formats.genes import (
    ID_PREFIX,
    MAX_POSITION_DIGITS,
    Annotation,
    GeneDraft,
    Place,
    TranscriptDraft,
)
from bioattn.io.files import read_lines

_TWO_NUMBERS = re.compile(r"\s*-*\d+\s*\t\s*-*\d+\s*")
_BARE_ID = re.compile(r"""\s*([^\s=;"]+)\s*""")
_GTF_ATTRIBUTES = re.compile(r"""\s*[^\s=;"]+\s+("[^"]*"|[^\s=;"]+)\s*(;|$)""")


def read_annotation(path: Path, id_attribute: str | None = None) -> Annotation:
    """Read the genes of a GFF3, GTF or BED file (plain, gzip, bgzip or xz).

    id_attribute: which attribute holds the gene id; see `read_gff3` and `read_gtf` for what holds without it. BED
    has its ids in column 4.

    Raises: FormatError when the file is none of these or damaged; BioattnError for `id_attribute` with BED.
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
    """Tell GFF3, GTF or BED by the first feature row.

    Raises: FormatError when the file is none of them.
    """
    version = ""
    for number, line in read_lines(path):
        if line.startswith("##gff-version"):
            version = line.removeprefix("##gff-version").strip()
        if not line or line.isspace() or line[0] == "#" or line.split(None, 1)[0] in ("track", "browser"):
            continue
        refuse_flat_file(path, line)
        if line[0] == ">":
            raise FormatError(
                f"{path}:{number}: a FASTA record stands where an annotation (GFF3, GTF, BED) is needed"
            )
        columns = line.split("\t")
        # First BED: its score and name can be numbers where GFF has positions, but no GFF type is a number.
        if len(columns) >= 3 and (
            _TWO_NUMBERS.fullmatch("\t".join(columns[1:3])) or columns[0].lower() in ("chrom", "chr")
        ):
            return "BED"
        positions = "\t".join(columns[3:5])
        if (len(columns) >= 8 and _TWO_NUMBERS.fullmatch(positions)) or positions == ".\t.":
            last = columns[8] if len(columns) > 8 else ""
            has_bare_id = columns[2] in _BARE_KINDS and last.strip() != "." and _BARE_ID.fullmatch(last)
            old = version.startswith(("1", "2")) and "_id" not in last and not has_bare_id
            if (_GTF_ATTRIBUTES.match(last) and not old) or (has_bare_id and not version.startswith("3")):
                return "GTF"
            if version.startswith(("1", "2")):
                raise FormatError(f"{path}: is GFF version {version}; convert it to GFF3 or GTF")
            return "GFF3"
        if version.startswith("3"):
            return "GFF3"  # whose reader says what is wrong with the row
        hint = "" if "\t" in line else " (columns must be separated by tabs)"
        raise FormatError(f"{path}:{number}: the first row is none of GFF3, GTF and BED{hint}")
    raise FormatError(f"{path}: holds no annotation row")


# --- rows of GFF3 and GTF ---


def _wrong_columns(where: str, columns: list[str], kind: str) -> FormatError:
    hint = "" if len(columns) > 1 else "; are the columns separated by spaces?"
    return FormatError(f"{where}: {len(columns)} columns where {kind} has 9, tab-separated{hint}")


def _place(where: str, chrom: str, columns: list[str]) -> Place:
    """Chromosome, positions and strand of a GFF3 or GTF row, now 0-based and half-open.

    Raises: FormatError for positions that are not numbers, below 1 or inverted, and other strands.
    """
    try:
        first, last = int(columns[3]), int(columns[4])
        if max(first, last) >= 10**MAX_POSITION_DIGITS:
            raise ValueError
    except ValueError:
        raise FormatError(
            f"{where}: start {columns[3][:40]!r} and end {columns[4][:40]!r} must be whole numbers "
            f"of at most {MAX_POSITION_DIGITS} digits"
        ) from None
    if first < 1:
        raise FormatError(f"{where}: start {first} is below 1; positions in GFF and GTF count from 1")
    if first > last:
        raise FormatError(
            f"{where}: start {first} lies behind end {last}; GFF and GTF write the lower "
            "position first on both strands"
        )
    strand = columns[6].strip()
    if strand not in ("+", "-", ".", "?", ""):
        raise FormatError(f"{where}: strand {strand!r} is none of + - . ?")
    return Place(chrom.strip(), first - 1, last, strand if strand in ("+", "-") else ".")


# --- GFF3 ---

_NAMES = ("gene", "Name", "gene_name", "symbol", "locus")
_BIOTYPES = ("gene_biotype", "gene_type", "biotype", "locus_type")
# Rows that never decide where a gene, transcript or CDS lies and are never the parent of one that does.
_IGNORED_TYPES = frozenset(("exon", "intron", "start_codon", "stop_codon", "polypeptide", "protein"))
_IGNORED_TYPES |= {"five_prime_UTR", "three_prime_UTR", "UTR"}
_SEQUENCE_TYPES = frozenset(("region", "chromosome", "contig", "supercontig", "scaffold"))


def read_gff3(path: Path, id_attribute: str | None = None) -> Annotation:
    """Read the genes of a GFF3 file.

    id_attribute: attribute of the gene rows, or database of their Dbxref, that names the gene; by default
    locus_tag, else gene_id, else ID without a leading `gene-` or `gene:`. A gene without that attribute gets its
    default id and problem `no_id`.

    Raises: FormatError naming the line for rows that are not GFF3, and when the file holds no gene or no gene has
    `id_attribute`.
    """
    file = _Gff3(path, id_attribute)
    file.read()
    genes = file.genes()
    if not genes:
        raise FormatError(f"{path}: holds no gene, transcript or CDS row that could be a gene")
    if id_attribute is not None and all(gene.problem == "no_id" for gene in genes):
        known = sorted({name for row in file.rows if row.is_gene for name in row.attributes})
        raise FormatError(
            f"{path}: no gene has the attribute {id_attribute!r} named by --id-attribute; gene rows have "
            f"{', '.join(known) or 'no attributes'}"
        )
    return Annotation(
        path,
        "GFF3",
        [gene.finish() for gene in genes],
        file.lengths,
        file.labels,
        frozenset(file.circular),
        sorted(file.remnants),
    )


def embedded_sequences(path: Path) -> Iterator[FastaRecord]:
    """Yield the sequences in the `##FASTA` section of a GFF3 file; none where it has none."""
    lines = itertools.dropwhile(lambda numbered: not numbered[1].startswith(">"), read_lines(path))
    first = next(lines, None)
    if first is not None:
        yield from read_fasta(path, itertools.chain([first], lines))


class _Row(NamedTuple):
    line: int
    kind: str
    place: Place
    attributes: dict[str, str]
    is_gene: bool
    parents: list[str]

    def value(self, *names: str, beside: str = "") -> str:
        """The first of these attributes that has a value, percent-decoded; "" when none has.

        beside: the id of the row; neither it nor a number (Araport11: locus=2200935) counts as a common name.
        """
        for name in names:
            text = unquote(self.attributes.get(name, ""))
            if text and text != beside and not (beside and text.isdecimal()):
                return text
        return ""

    def identifier(self, name: str) -> str:
        """An attribute, or that id of a database: the 123 of Dbxref=GeneID:123 for GeneID."""
        ids = self.attributes.get("Dbxref", "").split(",")
        return self.value(name) or next((x[len(name) + 1 :] for x in ids if x.startswith(name + ":")), "")


@dataclass
class _Gff3:
    path: Path
    id_attribute: str | None
    rows: list[_Row] = field(default_factory=list)
    lengths: dict[str, int] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    circular: set[str] = field(default_factory=set)
    row_of_id: dict[str, _Row] = field(default_factory=dict)
    drafts: dict[str, GeneDraft] = field(default_factory=dict)
    draft_of_line: dict[int, GeneDraft] = field(default_factory=dict)
    remnants: list[int] = field(default_factory=list)
    """Lines of CDS rows that belong to no gene."""

    def read(self) -> None:
        last_text, attributes = "", dict[str, str]()
        for number, line in read_lines(self.path):
            if not line or line.isspace():
                continue
            if line.startswith(("##FASTA", ">")):
                return
            if line[0] == "#":
                words = line.split()
                is_region = words[0] == "##sequence-region" and len(words) == 4
                if is_region and words[3].isdecimal() and len(words[3]) <= MAX_POSITION_DIGITS:
                    self.lengths[unquote(words[1])] = int(words[3])
                continue
            where, columns = f"{self.path}:{number}", line.split("\t")
            if len(columns) != 9:
                raise _wrong_columns(where, columns, "GFF3")
            kind = columns[2].strip()
            if kind in _IGNORED_TYPES or columns[3] == columns[4] == ".":
                continue
            place = _place(where, unquote(columns[0]) if "%" in columns[0] else columns[0], columns)
            if columns[8] != last_text:  # the parts of one CDS mostly share their attributes
                last_text, attributes = columns[8], _gff3_attributes(where, columns[8])
            names = (_unquoted(name) for name in attributes.get("Parent", "").split(","))
            parents = [unquote(name) for name in names if name]
            is_gene = kind.endswith("gene") and "Parent" not in attributes
            if attributes.get("Is_circular", "").lower() == "true":
                self.circular.add(place.chrom)
            row = _Row(number, kind, place, attributes, is_gene, parents)
            if kind not in _SEQUENCE_TYPES:
                self.rows.append(row)
                continue
            if place.start == 0 and place.chrom not in self.labels:
                self.lengths.setdefault(place.chrom, place.end)
                label = row.value("chromosome", "Name")
                if (
                    label and row.value("genome") != "genomic"
                ):  # NCBI's scaffolds name the chromosome they are of
                    self.labels[place.chrom] = label

    def genes(self) -> list[GeneDraft]:
        for row in self.rows:
            identifier = row.value("ID")
            if identifier and row.kind != "CDS":
                self.row_of_id.setdefault(identifier, row)
            if not row.is_gene:
                continue
            gene_id = row.identifier(self.id_attribute) if self.id_attribute else ""
            problem = "" if gene_id or self.id_attribute is None else "no_id"
            if self.id_attribute == "ID":
                gene_id = ID_PREFIX.sub("", gene_id)
            gene_id = gene_id or row.value("locus_tag", "gene_id") or ID_PREFIX.sub("", row.value("ID"))
            draft = self._draft(gene_id, row, problem)
            draft.name = draft.name or row.value(*_NAMES, beside=gene_id)
            draft.biotype = draft.biotype or row.value(*_BIOTYPES) or ("" if row.kind == "gene" else row.kind)
            draft.places[row.place] = None
            self.draft_of_line[row.line] = draft
        for row in self.rows:
            if row.kind == "CDS" or row.is_gene or not _is_transcript(row):
                continue
            chains = self._ancestors(row)
            for chain in chains:
                if len(chain) == 1 and chain[0].is_gene:
                    self._transcript(self.draft_of_line[chain[0].line], row).spans.append(row.place)
            if not chains:
                self._transcript(self._orphan_gene(row), row).spans.append(row.place)
        self._add_cds()
        return sorted(self.drafts.values(), key=lambda draft: draft.line)

    def _draft(self, gene_id: str, row: _Row, problem: str) -> GeneDraft:
        """The gene of an id; without one it is named by where it lies."""
        gene_id = gene_id or f"{row.place.chrom}:{row.place.start}-{row.place.end}({row.place.strand})"
        return self.drafts.setdefault(gene_id, GeneDraft(gene_id, row.line, problem=problem))

    def _ancestors(self, row: _Row) -> list[list[_Row]]:
        """Rows from a parent up to the top, for each parent that the file holds."""
        chains = []
        for parent in row.parents:
            chain: list[_Row] = []
            identifier: str | None = parent
            while identifier is not None and identifier in self.row_of_id:
                chain.append(self.row_of_id[identifier])
                if len(chain) > len(self.row_of_id):
                    raise FormatError(
                        f"{self.path}:{row.line}: the Parent attributes above this row form a circle"
                    )
                upper = chain[-1].parents
                identifier = next((p for p in upper if p in self.row_of_id), upper[0] if upper else None)
            if chain:
                chains.append(chain)
        return chains

    def _add_cds(self) -> None:
        # Parts of one CDS name the same parents, mostly in consecutive rows: look them up once.
        homes_of: dict[tuple[str, str], list[TranscriptDraft]] = {}
        for row in self.rows:
            if row.kind != "CDS":
                continue
            key = (row.attributes.get("Parent", ""), row.attributes.get("ID", ""))
            if not key[0] or key not in homes_of:
                homes_of[key] = self._homes(row)
            for home in homes_of[key]:
                home.cds.append(row.place)
            if not homes_of[key]:
                self.remnants.append(row.line)

    def _homes(self, row: _Row) -> list[TranscriptDraft]:
        """The transcripts a CDS row belongs to; none when it is a remnant or lies below something else."""
        chains = self._ancestors(row)
        homes = []
        for chain in chains:
            top = chain[-1]
            if top.is_gene:
                draft = self.draft_of_line[top.line]
            elif _is_transcript(top):
                draft = self._orphan_gene(top)
            else:
                continue
            middle = chain[-2] if len(chain) > 1 else top
            homes.append(self._transcript(draft, row if middle.is_gene else middle))
        if not chains and not (self.draft_of_line and row.parents):
            homes.append(self._transcript(self._orphan_gene(row), row))
        return homes

    def _orphan_gene(self, row: _Row) -> GeneDraft:
        named = row.identifier(self.id_attribute) if self.id_attribute else ""
        gene_id = (
            named
            or row.value("locus_tag", "gene_id", "geneID")
            or ID_PREFIX.sub("", row.parents[0] if row.parents else "")
            or row.value("gene", "ID")
        )
        draft = self._draft(gene_id, row, "" if named or self.id_attribute is None else "no_id")
        draft.name = draft.name or row.value("gene_name", "gene", "Name", beside=gene_id)
        draft.biotype = draft.biotype or row.value(*_BIOTYPES)
        return draft

    def _transcript(self, draft: GeneDraft, row: _Row) -> TranscriptDraft:
        return draft.transcript(row.value("ID") or f"{row.kind} of {draft.gene_id}", row.kind)


def _gff3_attributes(where: str, text: str) -> dict[str, str]:
    attributes = {}
    for piece in text.split(";"):
        name, equals, value = piece.partition("=")
        # A stray ";" inside a free-text note leaves pieces without "=": they are passed over.
        if equals:
            attributes[name.strip()] = _unquoted(value)
    if not attributes and text.strip() not in ("", "."):
        raise FormatError(f"{where}: the last column {text[:60]!r} does not hold GFF3 name=value attributes")
    return attributes


def _unquoted(value: str) -> str:
    """A value without blanks and quotes around it: some programs quote as in GTF."""
    value = value.strip()
    return value[1:-1].strip() if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value


def _is_transcript(row: _Row) -> bool:
    return row.kind.endswith(("RNA", "gene", "gene_segment")) or "transcript" in row.kind


# --- GTF ---

_GTF_NAMES = ("gene_name", "gene")
_GTF_BIOTYPES = ("gene_biotype", "gene_type")
_GTF_TRANSCRIPTS = ("transcript", "mRNA")
_BARE_KINDS = ("gene", *_GTF_TRANSCRIPTS)
_TRANSCRIPT_SUFFIX = re.compile(r"\.t?\d+$")
_ATTRIBUTE = re.compile(r'\s*([^\s;"]+)\s+(?:"([^"]*)"|([^;"]*?))\s*(?:;|$)')
_GENE_ID = re.compile(r'(?:^|[;\s])gene_id\s+(?:"([^"]*)"|([^;"\s]+))')
_DATABASE_ID = re.compile(r'db_xref\s+"([^":]+):([^"]+)"')
_TRANSCRIPT_ID = re.compile(r'(?:^|[;\s])transcript_id\s+(?:"([^"]*)"|([^;"\s]+))')


def read_gtf(path: Path, id_attribute: str | None = None) -> Annotation:
    """Read the genes of a GTF file.

    id_attribute: attribute of the gene row (or, without one, of the gene's first row) that names the gene; by
    default gene_id. A gene without that attribute keeps its gene_id and gets problem `no_id`.

    Raises: FormatError naming the line for rows that are not GTF or have no gene_id, and when the file holds no
    gene or no gene has `id_attribute`.
    """
    file = _Gtf(path, id_attribute or "gene_id")
    for number, line in read_lines(path):
        if line and not line.isspace() and line[0] != "#":
            file.add(number, line.split("\t"))
    return Annotation(path, "GTF", [draft.finish() for draft in file.genes()])


@dataclass
class _Gtf:
    path: Path
    id_attribute: str
    drafts: dict[str, GeneDraft] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    """The gene's value of `id_attribute`, by gene_id; the gene row has the last word."""
    described_by_gene_row: set[str] = field(default_factory=set)
    exons: dict[tuple[str, str], list[Place]] = field(default_factory=dict)
    gene_of_transcript: dict[str, str] = field(default_factory=dict)
    bare_transcripts: list[tuple[int, list[str]]] = field(default_factory=list)
    """Lines and columns of transcript rows that do not name their gene, which other rows of the transcript do."""
    attributes_seen: dict[str, None] = field(default_factory=dict)

    def add(self, number: int, columns: list[str]) -> None:
        where = f"{self.path}:{number}"
        if len(columns) != 9:
            raise _wrong_columns(where, columns, "GTF")
        kind = columns[2].strip()
        if kind not in ("gene", "exon", "CDS", *_GTF_TRANSCRIPTS):
            return
        bare = _BARE_ID.fullmatch(columns[8]) if kind in _BARE_KINDS else None
        if bare is not None and kind != "gene":
            self.bare_transcripts.append((number, columns))
            return
        place = _place(where, columns[0], columns)
        if bare is not None:
            columns[8] = f'gene_id "{bare[1]}"'
        match = _GENE_ID.search(columns[8])
        gene_id = (match[1] or match[2] or "") if match else ""
        if not gene_id:
            raise FormatError(f"{where}: the {kind} row has no gene_id attribute, which GTF requires")
        draft = self.drafts.get(gene_id)
        if draft is None:
            draft = self.drafts[gene_id] = GeneDraft(gene_id, number)
        if gene_id not in self.names or (kind in _GTF_TRANSCRIPTS and not draft.name):
            self._describe(draft, columns[8])
        if kind == "gene":
            if gene_id not in self.described_by_gene_row:
                self.described_by_gene_row.add(gene_id)
                self._describe(draft, columns[8])
            draft.places[place] = None
            return
        match = _TRANSCRIPT_ID.search(columns[8])
        transcript_id = (match[1] or match[2] or "") if match else ""
        self.gene_of_transcript.setdefault(transcript_id, gene_id)
        if kind == "exon":
            self.exons.setdefault((gene_id, transcript_id), []).append(place)
            return
        transcript = draft.transcript(transcript_id, "transcript")
        if kind == "CDS":
            transcript.cds.append(place)
        else:
            transcript.spans.append(place)
            stated = gtf_attributes(columns[8])
            biotype = stated.get("transcript_biotype") or stated.get("transcript_type")
            transcript.kind = "mRNA" if biotype == "protein_coding" else biotype or kind

    def _describe(self, draft: GeneDraft, text: str) -> None:
        attributes = gtf_attributes(text)
        self.attributes_seen.update(dict.fromkeys(attributes))
        draft.name = next((attributes[n] for n in _GTF_NAMES if attributes.get(n)), draft.name)
        draft.biotype = next((attributes[n] for n in _GTF_BIOTYPES if attributes.get(n)), draft.biotype)
        if attributes.get(self.id_attribute):
            self.names[draft.gene_id] = attributes[self.id_attribute]

    def genes(self) -> list[GeneDraft]:
        """All genes in file order, under their final ids."""
        for number, columns in self.bare_transcripts:
            transcript_id = columns[8].strip()
            gene_id = self.gene_of_transcript.get(transcript_id) or _TRANSCRIPT_SUFFIX.sub("", transcript_id)
            columns[8] = f'gene_id "{gene_id}"; transcript_id "{transcript_id}"'
            self.add(number, columns)
            self.drafts[gene_id].line = min(number, self.drafts[gene_id].line)
        for (gene_id, transcript_id), exons in self.exons.items():
            transcript = self.drafts[gene_id].transcript(transcript_id, "transcript")
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
            name = self.names.get(gene_id, "")
            if not name:
                draft.problem = "no_id"
            draft.gene_id = name or gene_id
            first = renamed.setdefault(draft.gene_id, draft)
            if first is not draft:
                _join(first, draft)
        return sorted(renamed.values(), key=lambda draft: draft.line)


def gtf_attributes(text: str) -> dict[str, str]:
    """Parse the attributes of a GTF row, and the ids in db_xref; of a repeated name the first value counts.

    >>> gtf_attributes('gene_id "YAL068C"; level 2; note "a; b";')
    {'gene_id': 'YAL068C', 'level': '2', 'note': 'a; b'}
    """
    attributes: dict[str, str] = {}
    for match in _ATTRIBUTE.finditer(text):
        attributes.setdefault(match[1], match[2] if match[2] is not None else match[3])
    return {**dict(_DATABASE_ID.findall(text)), **attributes} if "db_xref" in attributes else attributes


def _join(first: GeneDraft, second: GeneDraft) -> None:
    """Join the drafts of two gene_ids that have one name; most often the gene then lies at several places."""
    for draft in (first, second):
        if not draft.places:
            draft.places = dict.fromkeys(draft.finish().places)
    first.places.update(second.places)
    first.transcripts.update(second.transcripts)
