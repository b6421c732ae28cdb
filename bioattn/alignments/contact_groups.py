"""Which proteins of a contact dataset belong to one family, so that no split parts them."""

import logging
from collections.abc import Sequence
from pathlib import Path

from bioattn.alignments.contact_dataset import TRAIN, split_groups
from bioattn.alignments.contact_pairs import ContactPair
from bioattn.errors import BioattnError
from bioattn.structures.relatedness import MAX_PAIRS, RelatedPair, families, related_pairs
from bioattn.system.progress import Progress
from bioattn.text import counted, quoted

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
