"""From a table of pairs of alignment and structure to a contact dataset and its audit.

Homologous chains on different sides of a split make a test too easy, so families come from sequences. Local
alignment with BLOSUM62 and gap costs 11 and 1; two chains are related when a score as high is expected by
chance less than once in 1,000 datasets of this size (Karlin-Altschul statistics with BLAST's parameters for
these costs).
"""

import logging
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from bioattn.alignments.choices import ContactSettings, PrepareContacts
from bioattn.alignments.contact_dataset import ContactProtein, split_groups, write_contact_dataset
from bioattn.alignments.input_features import encode_alignment
from bioattn.choices import MIN_IDENTITY, SPLIT_NAMES, TRAIN
from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.formats.alignment_file import read_alignment
from bioattn.formats.tables import MISSING, open_table, refuse_duplicate_columns
from bioattn.io.files import check_output
from bioattn.io.records import audit_path, write_audit
from bioattn.structures.chain import (
    Chain,
    aligned_residues,
    expected_alignments,
    protein_aligner,
    read_chain,
    scorable,
)
from bioattn.structures.column_mapping import map_columns, read_mapping
from bioattn.system.progress import SILENT, Progress, watched
from bioattn.text import counted, percentage, quoted

LOGGER = logging.getLogger(__name__)
MAX_EXPECTED = 1e-3
MAX_PAIRS = 1_000_000
"""Largest number of pairs; more would take longer than some minutes."""


class RelatedPair(NamedTuple):
    """Two chains, by index, and how they align."""

    first: int
    second: int
    identity: float
    """Fraction of the aligned residues that are equal."""
    aligned: int
    """Number of aligned residues."""


def related_pairs(sequences: Sequence[str], progress: Progress = SILENT) -> list[RelatedPair]:
    """All pairs of related sequences of one-letter codes, in ascending order."""
    number = math.comb(len(sequences), 2)
    progress.begin("comparing chains", len(sequences))
    pairs = []
    for first, second in combinations(range(len(sequences)), 2):
        if second == first + 1:
            progress.advance()
        one, other = scorable(sequences[first]), scorable(sequences[second])
        if number * expected_alignments(one, other, opening=-11) < MAX_EXPECTED:
            in_one, in_other = aligned_residues(protein_aligner("local", -11), one, other)
            equal = [one[i] == other[j] for i, j in zip(in_one, in_other, strict=True)]
            pairs.append(RelatedPair(first, second, sum(equal) / len(equal), len(equal)))
    progress.end()
    return pairs


def families(number: int, pairs: Sequence[RelatedPair]) -> list[int]:
    """For each of `number` chains, the lowest index among its direct and indirect relatives."""
    links = csr_array(
        (np.ones(len(pairs)), ([pair.first for pair in pairs], [pair.second for pair in pairs])),
        shape=(number, number),
    )
    labels = connected_components(links, directed=False)[1]
    _, first = np.unique(labels, return_index=True)
    return [int(index) for index in first[labels]]


REQUIRED = ("id", "msa", "structure")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContactPair:
    """One line of the table."""

    line: int
    """Of the file, from 1."""
    id: str
    msa: Path
    structure: Path
    chain: str | None
    """Author's chain id, `_` for the blank one; None = the only protein chain."""
    mapping: Path | None
    """Table of residues and match columns; None = found by alignment."""
    group: str | None
    """Family; None = the table has no such column."""
    split: int
    """TRAIN, VALIDATION or TEST."""


def read_pairs(path: Path) -> list[ContactPair]:
    """Read the table; relative file names count from its folder, columns of other names are not looked at.

    Raises: FormatError naming the line of a missing column, an empty or repeated id, a file that is not there, an
    unknown split, or a group whose members stand on different sides of the split.
    """
    table = open_table(path)
    refuse_duplicate_columns(table)
    for name in REQUIRED:
        table.column(name, "a table of pairs has id, msa and structure")
    pairs: list[ContactPair] = []
    lines: dict[str, int] = {}
    for line, cells in table.rows():
        row = dict(zip(table.header, cells, strict=True))
        where = f"{path}:{line}"
        for name in REQUIRED:
            if not row[name]:
                raise FormatError(f"{where}: {name} is empty")
        if lines.setdefault(row["id"], line) != line:
            raise FormatError(
                f"{where}: the id {row['id']!r} stands in line {lines[row['id']]} too; ids are unique"
            )
        files = {
            name: path.parent / row[name]
            for name in ("msa", "structure", "mapping")
            if row.get(name, "").lower() not in (MISSING if name == "mapping" else ())
        }
        for name, file in files.items():
            if not file.is_file():
                raise FormatError(
                    f"{where}: {name}: no such file as {file}; file names count from the table's folder"
                )
        if "group" in row and not row["group"]:
            raise FormatError(f"{where}: group is empty; give every pair a group or leave the column out")
        split = row.get("split") or SPLIT_NAMES[TRAIN]
        if split not in SPLIT_NAMES:
            raise FormatError(f"{where}: split {split!r} is none of {', '.join(SPLIT_NAMES)}")
        pairs.append(
            ContactPair(
                line=line,
                id=row["id"],
                msa=files["msa"],
                structure=files["structure"],
                chain=row.get("chain") or None,
                mapping=files.get("mapping"),
                group=row.get("group"),
                split=SPLIT_NAMES.index(split),
            )
        )
    if not pairs:
        raise FormatError(f"{path}: has a header but no pairs")
    parted = split_groups([pair.group or pair.id for pair in pairs], [pair.split for pair in pairs])
    if parted:
        raise FormatError(
            f"{path}: the split parts the groups {quoted(parted)}; keep a family on one side of the split"
        )
    return pairs


def family_groups(
    table: Path, pairs: Sequence[ContactPair], sequences: Sequence[str], progress: Progress
) -> tuple[list[str], str]:
    """Find the group of each pair; return the groups, and in a few words where they come from.

    sequences: one-letter codes of the pairs' chains. Groups that the table gives are kept, and related chains of
    different groups warned about; without a group column related chains form groups, named after the first member.

    Raises: BioattnError when such a group stands on different sides of the split that the table gives.
    """
    compared = len(pairs) * (len(pairs) - 1) // 2 <= MAX_PAIRS
    if not compared:
        LOGGER.warning(
            f"{counted(len(pairs), 'chain')} are too many to compare with each other; whether groups are related "
            "to each other is unknown"
        )
    related = related_pairs(sequences, progress) if compared else []
    given = [pair.group for pair in pairs if pair.group is not None]
    if given:
        for relatives in related:
            first, second = pairs[relatives.first], pairs[relatives.second]
            if first.group != second.group:
                equal = f"{percentage(relatives.identity)} of {counted(relatives.aligned, 'aligned residue')}"
                LOGGER.warning(
                    f"{first.id} and {second.id} are of different groups but related: {equal} equal; a split "
                    "between them leaks"
                )
        return given, "given"
    groups = [pairs[first].id for first in families(len(pairs), related)]
    parted = split_groups(groups, [pair.split for pair in pairs])
    if parted:
        members = [pair.id for pair, group in zip(pairs, groups, strict=True) if group == parted[0]]
        raise BioattnError(
            f"{table}: the pairs {quoted(members, limit=4)} are related by sequence but stand on different sides "
            "of the split; put them on one side, or add a column `group` that says which pairs belong together"
        )
    return groups, "related by sequence" if compared else "each pair its own"


@dataclass(slots=True, kw_only=True)
class ContactAuditRow:
    """One pair, kept or refused."""

    id: str
    status: str = "kept"
    """kept or refused."""
    reason: str = ""
    """Of a refusal: structure, alignment, mapping or sequence."""
    group: str
    split: str
    detail: str = ""
    """Why it was refused, in a sentence."""


def summary(rows: Sequence[ContactAuditRow]) -> str:
    """One line of counts, those of each side of the split among them."""
    kept = [row for row in rows if row.status == "kept"]
    reasons = Counter(row.reason for row in rows if row.status == "refused")
    groups = counted(len({row.group for row in kept}), "group")
    sides = Counter(row.split for row in kept)
    splits = ", ".join(f"{name} {sides[name]:,}" for name in SPLIT_NAMES)
    text = f"{counted(len(rows), 'pair')}: {len(kept):,} kept in {groups} ({splits})"
    if reasons:
        named = ", ".join(f"{reason} {count:,}" for reason, count in sorted(reasons.items()))
        text += f", {sum(reasons.values()):,} refused ({named})"
    return text


OUTPUT_SUFFIXES = (".h5", ".hdf5")


@dataclass(slots=True)
class _Entry:
    """A pair while the dataset is made."""

    pair: ContactPair
    audit: ContactAuditRow
    chain: Chain | None = None
    """None once the pair is refused."""

    def refuse(self, reason: str, error: BioattnError) -> None:
        self.chain = None
        self.audit.status, self.audit.reason, self.audit.detail = "refused", reason, str(error)


def prepare_contacts(given: PrepareContacts, progress: Progress = SILENT) -> list[ContactAuditRow]:
    """Write the dataset of all pairs that can be used, and beside it the audit; return the audit's rows.

    A pair whose structure, alignment or mapping cannot be read, or whose sequences do not match, is refused: it is
    warned about and named in the audit, and the others go on. Without a group column, chains related by sequence
    form groups; with one, related chains of different groups are warned about.

    Raises: SettingsError for an output of another name than X.h5 or one that is an input; BioattnError when the
    table is wrong, no pair can be used, related chains stand on different sides of a
    given split, or a file cannot be written; then nothing is left.
    """
    table, output, settings = given.pairs, given.output, given.settings
    pairs = read_pairs(table)
    inputs = [table, *(file for pair in pairs for file in (pair.msa, pair.structure, pair.mapping) if file)]
    check_output(output, inputs)
    if not output.name.endswith(OUTPUT_SUFFIXES):
        raise SettingsError(f"--output {output}: the dataset is HDF5; end its name in .h5")
    check_output(audit_path(output), inputs)
    entries = []
    for pair in watched(progress, "reading structures", pairs):
        split = SPLIT_NAMES[pair.split]
        entry = _Entry(pair, ContactAuditRow(id=pair.id, group=pair.group or pair.id, split=split))
        try:
            entry.chain = read_chain(pair.structure, pair.chain, chosen_by="in the column chain of the table")
        except BioattnError as error:
            entry.refuse("structure", error)
        entries.append(entry)
    known = [(entry, entry.chain.letters) for entry in entries if entry.chain is not None]
    groups, origin = family_groups(
        table, [entry.pair for entry, _ in known], [letters for _, letters in known], progress
    )
    for (entry, _), group in zip(known, groups, strict=True):
        entry.audit.group = group
    metadata: dict[str, Any] = {
        "grouping": origin,
        "max_depth": settings.max_depth,
        "min_identity": MIN_IDENTITY,
        "seed": settings.seed,
    }
    proteins = _proteins(table, output, entries, settings, progress)
    write_contact_dataset(output, proteins, metadata)
    _warn_of_refused(entries)
    rows = [entry.audit for entry in entries]
    write_audit(output, [each.name for each in fields(ContactAuditRow)], map(astuple, rows))
    LOGGER.info(summary(rows))
    if all(entry.pair.split == TRAIN for entry in entries if entry.chain is not None):
        LOGGER.info(
            "all proteins are for training: without others to judge by, training keeps its last weights; the "
            "column split of the table (train, validation or test) parts them"
        )
    return rows


def _proteins(
    table: Path, output: Path, entries: Sequence[_Entry], settings: ContactSettings, progress: Progress
) -> Iterator[ContactProtein]:
    """Read one alignment after the other; entries get their audit on the way.

    Raises: BioattnError when no pair can be used.
    """
    for entry in watched(progress, "mapping structures to alignments", entries):
        if entry.chain is not None and (protein := _protein(entry, entry.chain, settings)) is not None:
            yield protein
    if all(entry.chain is None for entry in entries):
        if len(entries) == 1:
            raise BioattnError(f"{table}:{entries[0].pair.line}: {entries[0].audit.detail}")
        _warn_of_refused(entries)
        raise BioattnError(f"{output}: is not written, none of {counted(len(entries), 'pair')} can be used")


def _protein(entry: _Entry, chain: Chain, settings: ContactSettings) -> ContactProtein | None:
    """The protein of a pair; None where it is refused."""
    pair, reason = entry.pair, "alignment"
    try:
        alignment = read_alignment(pair.msa)
        encoded = encode_alignment(alignment, source=str(pair.msa))
        if pair.mapping is None:
            reason = "sequence"
            mapping = map_columns(chain, alignment, source=f"{pair.msa} and {pair.structure}")
        else:
            reason = "mapping"
            mapping = read_mapping(pair.mapping, chain, alignment.num_columns)
            # Part of the mapped residues that each row has in their columns.
            letters = np.frombuffer(chain.letters.encode("ascii"), np.uint8)[mapping.residues]
            identities = (alignment.residues[:, mapping.columns] == letters).mean(axis=1)
            best = int(identities.argmax())
            if identities[best] < MIN_IDENTITY:
                raise BioattnError(
                    f"{pair.mapping}: no row of {pair.msa} has the residues of chain {chain.name} in these "
                    f"columns; the best, {alignment.names[best]!r}, has {percentage(identities[best])} of them "
                    f"({percentage(MIN_IDENTITY)} are needed); check that mapping and alignment belong together"
                )
    except BioattnError as error:
        entry.refuse(reason, error)
        return None
    rows = np.arange(len(encoded.msa))
    if settings.max_depth is not None and len(encoded.msa) > settings.max_depth:
        random = np.random.default_rng([settings.seed, *pair.id.encode()])
        others = 1 + random.choice(len(encoded.msa) - 1, settings.max_depth - 1, replace=False)
        rows = np.concatenate([[0], np.sort(others)])
    numbers = [""] * alignment.num_columns
    for column, residue in zip(mapping.columns, mapping.residues, strict=True):
        numbers[column] = f"{chain.numbers[residue]}{chain.insertion_codes[residue]}"
    return ContactProtein(
        id=pair.id,
        group=entry.audit.group,
        split=pair.split,
        chain=chain.name,
        msa=encoded.msa[rows],
        deletions=encoded.deletions[rows],
        aatype=encoded.aatype,
        cb=mapping.column_cb(chain, alignment.num_columns),
        residue_numbers=numbers,
    )


def _warn_of_refused(entries: Sequence[_Entry]) -> None:
    for entry in entries:
        if entry.audit.status == "refused":
            LOGGER.warning("%s is left out: %s", entry.pair.id, entry.audit.detail)
