"""Flat files of GenBank and EMBL, which hold genes and sequences in one, read by Biopython.

Genes are named by locus_tag, else gene, else protein_id; features of one name are one gene: its extent is that of
its `gene` feature, else of RNA and CDS, which are its transcripts, a CDS that of the first RNA that spans it.
Chromosomes are called by accession and version.
"""

import io
import logging
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bioattn.errors import FormatError
from bioattn.formats.fasta import FastaRecord
from bioattn.formats.genes import Annotation, GeneDraft, Place, TranscriptDraft
from bioattn.io.files import decompression_errors, open_bytes, read_lines
from bioattn.text import counted

LOGGER = logging.getLogger("bioattn")
_FEATURE = re.compile(r"(?:     |FT   )(?=\S*[A-Za-z])\S")
_NAMES = ("locus_tag", "gene", "protein_id")


def is_genbank(line: str) -> bool:
    """Tell by its first line whether a file is of GenBank or EMBL."""
    return line.startswith(("LOCUS ", "ID   "))


def read_genbank(path: Path, id_attribute: str | None = None) -> Annotation:
    """Read the genes of a GenBank or EMBL file (plain, gzip or xz).

    id_attribute: the qualifier, or database of db_xref, that names the gene; a gene without it keeps its name and
    gets problem `no_id`.

    Raises: FormatError when Biopython cannot read it, it holds no gene, or no gene has `id_attribute`.
    """
    lines = (number for number, line in read_lines(path) if _FEATURE.match(line))
    lengths, circular = dict[str, int](), set[str]()
    found: list[tuple[int, str, list[Place], Any]] = []
    ids: dict[str, str] = {}
    nameless = 0
    for record in _records(path):
        chrom = _name(record)
        lengths[chrom] = len(record)
        if record.annotations.get("topology") == "circular":
            circular.add(chrom)
        for feature, line in zip(record.features, lines, strict=False):
            if feature.type not in ("gene", "CDS") and not feature.type.endswith("RNA"):
                continue
            name = next(filter(None, (_qualifier(feature, each) for each in _NAMES)), "")
            places = _places(chrom, feature.location, lengths[chrom] if chrom in circular else 0)
            nameless += not name
            if name and places:
                found.append((line, name, places, feature))
                if id_attribute is not None and (identifier := _qualifier(feature, id_attribute)):
                    ids.setdefault(name, identifier)
    if not found:
        raise FormatError(f"{path}: holds no gene (no feature with a {', '.join(_NAMES[:2])} or {_NAMES[2]})")
    if id_attribute is not None and not ids:
        raise FormatError(f"{path}: no gene has the qualifier {id_attribute!r} named by --id-attribute")
    if nameless:
        LOGGER.warning(f"{path}: {counted(nameless, 'gene feature')} without a name left out")
    drafts: dict[str, GeneDraft] = {}
    for line, name, places, feature in found:
        problem = "no_id" if id_attribute is not None and name not in ids else ""
        gene_id = ids.get(name, name)
        draft = drafts.setdefault(gene_id, GeneDraft(gene_id, line, problem=problem))
        symbol = _qualifier(feature, "gene")
        draft.name = draft.name or (symbol if symbol != gene_id else "")
        if feature.type == "gene":
            is_pseudo = not {"pseudo", "pseudogene"}.isdisjoint(feature.qualifiers)
            draft.biotype = "pseudogene" if is_pseudo else draft.biotype
            low, high = _ends(places)
            draft.places[places[0]._replace(start=low, end=high)] = None
        elif feature.type == "CDS":
            _transcript_of(draft, feature, places).cds += places
        else:
            identifier = _qualifier(feature, "transcript_id") or f"{feature.type}{len(draft.transcripts) + 1}"
            draft.transcript(identifier, feature.type).spans += places
    genes = [draft.finish() for draft in drafts.values()]
    return Annotation(path, "GenBank", genes, lengths, circular=frozenset(circular))


def genbank_sequences(path: Path) -> Iterator[FastaRecord]:
    """Yield the sequences; the description is the definition and, of circular ones, `topology=circular`.

    Raises: FormatError when Biopython cannot read it, or a record has no sequence.
    """
    for record in _records(path):
        try:
            sequence = str(record.seq)
        except ValueError as error:
            raise FormatError(
                f"{path}: record {_name(record)} has no sequence; fetch the record with it ('GenBank (full)')"
            ) from error
        circular = record.annotations.get("topology") == "circular"
        description = " ".join([*record.description.split(), *["topology=circular"] * circular])
        yield FastaRecord(_name(record), description, sequence)


def _records(path: Path) -> Iterator[Any]:
    from Bio import SeqIO

    with open_bytes(path) as raw, decompression_errors(path), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # lengths of LOCUS lines, which Prokka's names break
        text = io.TextIOWrapper(raw, encoding="utf-8", errors="replace").read()
        kind = "EMBL" if text.lstrip().startswith("ID") else "GenBank"
        try:
            yield from SeqIO.parse(io.StringIO(text), kind.lower())
        except (ValueError, AssertionError, LookupError, AttributeError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise FormatError(
                f"{path}: cannot be read as {kind} ({reason}); take its GFF3 and FASTA"
            ) from error


def _name(record: Any) -> str:
    return str(record.id if record.id not in ("", ".", "<unknown id>") else record.name)


def _qualifier(feature: Any, name: str) -> str:
    """The first value of a qualifier, or that id of a database: the 123 of /db_xref="GeneID:123" for GeneID."""
    values = feature.qualifiers.get(name) or [
        value.removeprefix(f"{name}:")
        for value in feature.qualifiers.get("db_xref", ())
        if value.startswith(f"{name}:")
    ]
    return "".join(values[0].split()) if values else ""


def _places(chrom: str, location: Any, turn: int) -> list[Place]:
    """Parts of a feature, in the order of the forward strand; turn: length of a circular chromosome, else 0.

    Parts behind the origin go on counting, as in GFF3.
    """
    parts = [part for part in getattr(location, "parts", ()) if part.ref is None]
    if location is not None and location.strand == -1:
        parts.reverse()
    places: list[Place] = []
    shift = 0
    for part in parts:
        start, end = int(part.start), int(part.end)
        if places and start == 0 and turn == places[-1].end:
            shift = turn
        strand = {1: "+", -1: "-"}.get(part.strand, ".")
        places.append(Place(chrom, start + shift, end + shift, strand))
    return places


def _ends(places: list[Place]) -> tuple[int, int]:
    return min(place.start for place in places), max(place.end for place in places)


def _transcript_of(draft: GeneDraft, feature: Any, cds: list[Place]) -> TranscriptDraft:
    """The first RNA without a CDS that spans this one; else one of its own."""
    low, high = _ends(cds)
    for transcript in draft.transcripts.values():
        if transcript.spans and not transcript.cds:
            first, last = _ends(transcript.spans)
            if first <= low and high <= last:
                return transcript
    identifier = _qualifier(feature, "protein_id") or f"CDS{len(draft.transcripts) + 1}"
    return draft.transcript(identifier, "CDS")
