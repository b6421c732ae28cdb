"""GTF: genes by their gene_id; gene and transcript rows may be absent.

The extent of a gene is that of its gene row, else of its transcript rows, else of its exons and CDS.
"""

import re
from pathlib import Path

from bioattn.errors import FormatError
from bioattn.formats.genes import Annotation, GeneDraft, Place, TranscriptDraft
from bioattn.formats.gff import nine_columns, parse_place
from bioattn.io.files import read_lines

NAME_ATTRIBUTES = ("gene_name", "gene")
BIOTYPE_ATTRIBUTES = ("gene_biotype", "gene_type")
TRANSCRIPT_KINDS = ("transcript", "mRNA")

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
        if kind not in ("gene", "exon", "CDS") and kind not in TRANSCRIPT_KINDS:
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
        draft.name = next((attributes[n] for n in NAME_ATTRIBUTES if attributes.get(n)), draft.name)
        draft.biotype = next((attributes[n] for n in BIOTYPE_ATTRIBUTES if attributes.get(n)), draft.biotype)
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
