"""Residue numbers of the target's columns."""

import numpy as np

from bioattn.formats.alignment import Alignment, split_insertions
from bioattn.models.evoformer.inference.outputs import target_row


def alignment_of(name: str, row: str) -> Alignment:
    match, inserted = split_insertions(row.encode())
    return Alignment(
        names=[name],
        descriptions=[""],
        residues=np.frombuffer(match, np.uint8)[None],
        insertions=[inserted],
    )


def test_insertions_count_and_gaps_do_not() -> None:
    target = target_row(alignment_of("q", "aMK--cdGAe"))
    assert target.letters == "MK--GA"
    assert target.numbers == [2, 3, None, None, 6, 7]
    assert (target.num_gaps, target.num_inserted) == (2, 4)


def test_a_range_in_the_name_counts_when_it_fits() -> None:
    assert target_row(alignment_of("X_ECOLI/24-28", "MKc-GA")).numbers == [24, 25, None, 27, 28]
    assert target_row(alignment_of("X_ECOLI/24-27", "MKc-GA")).numbers == [1, 2, None, 4, 5]
    assert target_row(alignment_of("X/28-24", "MK-GA")).numbers == [1, 2, None, 3, 4]
