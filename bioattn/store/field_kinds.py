"""The kinds of files of the field and of the rooms below this one: sequences, alignments, structures, datasets."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from bioattn.alignments import contact_dataset
from bioattn.alignments.rows import FORMAT as STATISTICS_FORMAT
from bioattn.errors import BioattnError, FormatError
from bioattn.formats.alignment_file import read_alignment
from bioattn.formats.bed import read_bed
from bioattn.formats.fasta import read_fasta
from bioattn.formats.meme import read_meme
from bioattn.formats.nucleotides import decode
from bioattn.formats.rr import RR_START, read_rr
from bioattn.io.files import read_json, read_lines
from bioattn.molecules.dataset import (
    MOLECULE_DATASET,
    describe_molecule_dataset,
    open_molecule_dataset,
    validate_molecule_dataset,
)
from bioattn.promoters.dataset import (
    PROMOTER_DATASET,
    describe_bed,
    describe_dataset,
    describe_promoters,
    read_dataset,
)
from bioattn.promoters.preparation import PromoterFiles
from bioattn.promoters.promoter_fasta import read_promoters
from bioattn.sequences.pairs import PAIR_DATASET, describe_pair_dataset, open_pair_dataset
from bioattn.simulate.description import INDEX
from bioattn.store.kinds import (
    Candidate,
    FileKind,
    ReportInput,
    Sample,
    dataset_kind,
    json_object,
    sample_name,
    shown_as,
    starts_with,
)
from bioattn.structures.chain import read_chains
from bioattn.text import some

_STRUCTURE_START = re.compile(
    rb"(\s|#[^\n]*\n)*(data_|DATA_|global_|(ATOM  |HETATM)[ 0-9A-Z*]|"
    rb"(HEADER|TITLE |COMPND|SOURCE|KEYWDS|EXPDTA|AUTHOR|REVDAT|JRNL  |REMARK|USER  |DBREF |SEQRES|MODRES|HELIX |"
    rb"SHEET |SSBOND|LINK  |NUMMDL|CRYST1|PARENT|MODEL )[ 0-9])"
)

_ALIGNED = frozenset({".a3m", ".a2m", ".afa"})

_MATRICES = frozenset({".pfm", ".pcm", ".pwm", ".motif", ".motifs", ".jaspar"})
_MATRIX_ROW = re.compile(rb"\s*(A[\s:|\[]+)?-?\d[\d\s.eE+-]*[\]|]?\s*")
_MOTIF_LINE = re.compile(
    rb"^(MEME version \d|P[0O]\s+[ACGT]\s|Pos(ition)?\tA\tC\tG\t[TU]|A(:|\t\|)\t[\d.])", re.MULTILINE
)
"""A line of MEME, TRANSFAC, CIS-BP, UniPROBE or RSAT."""

_ROWS_SEEN = 100
"""Rows of a FASTA of proteins by which it is told from an alignment."""


def _describe_structure(path: Path) -> dict[str, Any]:
    chains = read_chains(path)
    return {
        "chains": {chain.name: len(chain) for chain in chains},
        "missing_cb": sum(chain.num_missing_cb for chain in chains),
    }


def _describe_contacts(path: Path) -> dict[str, Any]:
    contacts = read_rr(path)
    return {
        "target": contacts.target,
        "residues": len(contacts.sequence),
        "pairs": len(contacts.pairs),
        "likeliest": contacts.pairs[0].probability if contacts.pairs else None,
    }


def _is_motif_file(candidate: Candidate) -> bool:
    """Whether a file has a line of a format of motifs, or begins as matrices of JASPAR or HOMER do."""
    lines = candidate.head.lstrip().splitlines()
    if not lines or _MOTIF_LINE.search(candidate.head):
        return bool(lines)
    has_name = lines[0].startswith(b">") or not _MATRICES.isdisjoint(candidate.path.suffixes)
    row = lines[lines[0].startswith(b">") :][:1]
    return has_name and bool(row) and _MATRIX_ROW.fullmatch(row[0]) is not None


def _describe_motifs(path: Path) -> dict[str, Any]:
    motifs = read_meme(path).motifs
    return {"motifs": len(motifs), "names": some([motif.name for motif in motifs])}


def _are_proteins(candidate: Candidate) -> bool:
    """Whether a file is a FASTA of proteins that are not aligned: of several lengths, and without a gap."""
    is_fasta = candidate.head.lstrip().startswith(b">") and contact_dataset.looks_like_alignment(
        candidate.head
    )
    if not is_fasta or not _ALIGNED.isdisjoint(candidate.path.suffixes):
        return False
    try:
        rows = [record.sequence.rstrip("*") for record in islice(read_fasta(candidate.path), _ROWS_SEEN)]
    except BioattnError:
        return False
    return len(set(map(len, rows))) > 1 and all(row.isalpha() and row.isupper() for row in rows)


def _proteins(path: Path) -> dict[str, str]:
    return {record.name: record.sequence for record in read_fasta(path)}


def _describe_proteins(path: Path) -> dict[str, Any]:
    lengths = [len(sequence) for sequence in _proteins(path).values()]
    return {"proteins": len(lengths), "shortest": min(lengths), "longest": max(lengths)}


def _is_bed(candidate: Candidate) -> bool:
    columns = candidate.columns
    return len(columns) >= 6 and columns[1].isdecimal() and columns[2].isdecimal()


def _promoters_sample(path: Path) -> Sample:
    figures = describe_promoters(path)
    audit = PromoterFiles.beside(path).audit
    if not audit.is_file() and not figures["with_location"]:
        raise BioattnError(
            f"{path}: is no FASTA of `bioattn prepare promoters`: no record says where its promoter lies, and "
            f"there is no {audit.name} beside it"
        )
    sections: dict[str, Mapping[str, Any]] = {"general": {"promoters": figures["promoters"]}}
    if audit.is_file():
        sections |= audit_sample(audit).sections
    return Sample(sample_name(path), sections)


def audit_sample(path: Path) -> Sample:
    """Genes by what became of them: kept, trimmed, and dropped by reason."""
    lines = read_lines(path)
    columns = next(lines)[1].split("\t")
    try:
        status, reason = columns.index("status"), columns.index("reason")
        found = Counter(
            f"dropped: {cells[reason]}" if cells[status] == "dropped" else cells[status]
            for _, line in lines
            if (cells := line.split("\t"))
        )
    except (ValueError, IndexError) as error:
        raise FormatError(f"{path}: is no complete audit ({error}); prepare the promoters again") from error
    order = {"kept": 0, "trimmed": 1}
    genes = dict(sorted(found.items(), key=lambda item: (order.get(item[0], 2), item[0])))
    return Sample(sample_name(path), {"promoters": genes})


def _dataset_sample(path: Path) -> Sample:
    figures = describe_dataset(path)
    treatments = figures["treatments"]
    number = treatments["count"] if isinstance(treatments, dict) else len(treatments)
    cells = figures["genes"] * number
    measured = 1 - figures["missing_targets"] / cells if cells else None
    shown = {"genes": figures["genes"], "treatments": number, "measured": measured}
    return Sample(sample_name(path), {"datasets": {**shown, **figures["genes_per_split"]}})


def _statistics_sample(path: Path) -> Sample:
    contact_dataset.describe_statistics(path)  # refuses what is incomplete
    content = read_json(path)
    figures = {name: content.get(name) for name in ("depth", "columns", "neff", "gaps")}
    figures |= {"query_identity": content["median_query_identity"], "warnings": len(content["warnings"])}
    return Sample(sample_name(path), {"general": {"neff": figures["neff"]}, "alignments": figures})


def _is_simulation(candidate: Candidate) -> bool:
    content = candidate.json or candidate.index(INDEX)
    return isinstance(content, dict) and str(content.get("format")).startswith("bioattn-simulated-")


def _describe_simulation(path: Path) -> dict[str, Any]:
    content = read_json(path / INDEX if path.is_dir() else path)
    sizes = {
        name: len(value) for name, value in content.items() if name in ("families", "motifs", "treatments")
    }
    return {**content, **sizes}


def _sequences(path: Path) -> dict[str, str]:
    return {
        promoter.gene_id: decode(promoter.codes[promoter.flank : len(promoter.codes) - promoter.flank])
        for promoter in read_promoters(path)
    }


FIELD_KINDS: Sequence[FileKind] = (
    dataset_kind(
        "dataset",
        "promoter dataset HDF5",
        PROMOTER_DATASET,
        describe_dataset,
        read_dataset,
        report=shown_as("dataset", describe_dataset),
        multiqc=_dataset_sample,
    ),
    dataset_kind(
        "contact-dataset",
        "contact dataset HDF5",
        contact_dataset.CONTACT_DATASET,
        contact_dataset.describe_contact_dataset,
        contact_dataset.open_contact_dataset,
        contact_dataset.validate_contact_dataset,
        report=shown_as("contact_dataset", contact_dataset.describe_contact_dataset),
    ),
    dataset_kind(
        "pair-dataset",
        "dataset of pairs of sequences",
        PAIR_DATASET,
        describe_pair_dataset,
        open_pair_dataset,
    ),
    dataset_kind(
        "molecule-dataset",
        "dataset of molecules",
        MOLECULE_DATASET,
        describe_molecule_dataset,
        open_molecule_dataset,
        validate_molecule_dataset,
    ),
    FileKind("contacts", "predicted contacts (CASP RR)", starts_with(RR_START), _describe_contacts, read_rr),
    FileKind(
        "structure",
        "protein structure",
        lambda candidate: _STRUCTURE_START.match(candidate.head) is not None,
        _describe_structure,
        read_chains,
        report=shown_as("structure", _describe_structure),
    ),
    FileKind(
        "alignment",
        "alignment",
        lambda candidate: contact_dataset.looks_like_alignment(candidate.head),
        contact_dataset.describe_alignment,
        read_alignment,
        report=shown_as("alignment", contact_dataset.describe_alignment),
    ),
    FileKind("proteins", "FASTA of proteins", _are_proteins, _describe_proteins, _proteins, order=-1),
    FileKind(
        "msa-statistics",
        "statistics of a prepared alignment",
        json_object(STATISTICS_FORMAT),
        contact_dataset.describe_statistics,
        read_json,
        multiqc=_statistics_sample,
    ),
    FileKind("simulation", "simulated data", _is_simulation, _describe_simulation),
    FileKind(
        "promoters",
        "promoter FASTA",
        lambda candidate: candidate.head.lstrip().startswith(b">"),
        describe_promoters,
        _sequences,
        report=shown_as("promoters", describe_promoters),
        multiqc=_promoters_sample,
        order=1,
    ),
    FileKind(
        "motif-database",
        "motifs (MEME, JASPAR, HOMER, TRANSFAC)",
        _is_motif_file,
        _describe_motifs,
        read_meme,
        report=lambda path: ReportInput("motifs"),
        order=-1,
    ),
    FileKind("bed", "BED", _is_bed, describe_bed, read_bed, order=2),
)
