"""The pairs of alignment and structure of a contact dataset: their table, their families, their audit.

Homologous chains on different sides of a split make a test too easy, so families come from sequences. Local
alignment with BLOSUM62 and gap costs 11 and 1; two chains are related when a score as high is expected by
chance less than once in 1,000 datasets of this size (Karlin-Altschul statistics with BLAST's parameters for
these costs).
"""

import logging
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from bioattn.alignments.contact_dataset import SPLIT_NAMES, TRAIN, split_groups
from bioattn.errors import BioattnError, FormatError
from bioattn.formats.tables import MISSING, open_table, refuse_duplicate_columns
from bioattn.structures.chain import protein_aligner, scorable
from bioattn.system.progress import SILENT, Progress
from bioattn.text import counted, quoted

MAX_EXPECTED = 1e-3
MAX_PAIRS = 1_000_000
"""Largest number of pairs; more would take longer than some minutes."""
_LAMBDA, _K = 0.267, 0.041


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
    aligner = protein_aligner("local", -11)
    texts = [scorable(sequence) for sequence in sequences]
    number = math.comb(len(texts), 2)
    progress.begin("comparing chains", len(texts))
    pairs = []
    for first, second in combinations(range(len(texts)), 2):
        if second == first + 1:
            progress.advance()
        if not texts[first] or not texts[second]:
            continue
        chances = _K * len(texts[first]) * len(texts[second]) * number
        if chances * math.exp(-_LAMBDA * aligner.score(texts[first], texts[second])) >= MAX_EXPECTED:
            continue
        blocks = zip(*aligner.align(texts[first], texts[second])[0].aligned, strict=True)
        letters = [
            texts[first][start + step] == texts[second][other + step]
            for (start, end), (other, _) in blocks
            for step in range(end - start)
        ]
        pairs.append(RelatedPair(first, second, sum(letters) / len(letters), len(letters)))
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
    split: int | None
    """TRAIN, VALIDATION or TEST; None = the table has no such column."""


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
        pair = _pair(row, where, path.parent, line)
        if lines.setdefault(pair.id, line) != line:
            raise FormatError(
                f"{where}: the id {pair.id!r} stands in line {lines[pair.id]} too; ids are unique"
            )
        pairs.append(pair)
    if not pairs:
        raise FormatError(f"{path}: has a header but no pairs")
    parted = split_groups([pair.group or pair.id for pair in pairs], [pair.split or 0 for pair in pairs])
    if parted:
        raise FormatError(
            f"{path}: the split parts the groups {quoted(parted)}; keep a family on one side of the split"
        )
    return pairs


def _pair(row: dict[str, str], where: str, folder: Path, line: int) -> ContactPair:
    for name in REQUIRED:
        if not row[name]:
            raise FormatError(f"{where}: {name} is empty")
    files = {
        name: folder / row[name]
        for name in ("msa", "structure", "mapping")
        if row.get(name, "").lower() not in (MISSING if name == "mapping" else ())
    }
    for name, file in files.items():
        if file.is_dir():
            raise FormatError(f"{where}: {name}: {file} is a folder, a file is needed")
        if not file.is_file():
            raise FormatError(
                f"{where}: {name}: no such file as {file}; file names count from the table's folder"
            )
    if "group" in row and not row["group"]:
        raise FormatError(f"{where}: group is empty; give every pair a group or leave the column out")
    split = None
    if "split" in row:
        split = SPLIT_NAMES.index(row["split"]) if row["split"] in SPLIT_NAMES else TRAIN
        if row["split"] not in ("", *SPLIT_NAMES):
            raise FormatError(f"{where}: split {row['split']!r} is none of {', '.join(SPLIT_NAMES)}")
    return ContactPair(
        line=line,
        id=row["id"],
        msa=files["msa"],
        structure=files["structure"],
        chain=row.get("chain") or None,
        mapping=files.get("mapping"),
        group=row.get("group"),
        split=split,
    )


LOGGER = logging.getLogger(__name__)


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
            "%s are too many to compare with each other; whether groups are related to each other is unknown",
            counted(len(pairs), "chain"),
        )
    related = related_pairs(sequences, progress) if compared else []
    given = [pair.group for pair in pairs if pair.group is not None]
    if given:
        _warn_of_relatives(pairs, related)
        return given, "given"
    groups = [pairs[first].id for first in families(len(pairs), related)]
    parted = split_groups(groups, [pair.split or TRAIN for pair in pairs])
    if parted:
        members = [pair.id for pair, group in zip(pairs, groups, strict=True) if group == parted[0]]
        raise BioattnError(
            f"{table}: the pairs {quoted(members, limit=4)} are related by sequence but stand on different sides "
            "of the split; put them on one side, or add a column `group` that says which pairs belong together"
        )
    return groups, "related by sequence" if compared else "each pair its own"


def _warn_of_relatives(pairs: Sequence[ContactPair], related: Sequence[RelatedPair]) -> None:
    for relatives in related:
        first, second = pairs[relatives.first], pairs[relatives.second]
        if first.group != second.group:
            LOGGER.warning(
                "%s and %s are of different groups but related: %.0f %% of %s equal; a split between them leaks",
                first.id,
                second.id,
                100 * relatives.identity,
                counted(relatives.aligned, "aligned residue"),
            )


class ContactAuditRow(NamedTuple):
    """One pair, kept or refused; None and "" stand for an empty field."""

    id: str
    status: str
    """kept or refused."""
    reason: str = ""
    """Of a refusal: structure, alignment, mapping or sequence."""
    group: str = ""
    split: str = ""
    chain: str = ""
    rows: int | None = None
    """In the file."""
    distinct_rows: int | None = None
    """Without duplicates."""
    kept_rows: int | None = None
    """With --max-depth."""
    columns: int | None = None
    mapped: int | None = None
    """Columns with a residue in the structure."""
    contacts: int | None = None
    """Pairs of columns nearer than 8 ångström, at least 6 columns apart."""
    closest_row: str = ""
    """Name of the row the chain was aligned to or, with a mapping, agrees with best."""
    identity: float | None = None
    """Part of the residues aligned to that row that equal it."""
    missing_cb: int | None = None
    """Residues of the chain other than glycine without CB."""
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
