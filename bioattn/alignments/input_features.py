"""From an alignment to the numbers an MSA/pair model is given (AlphaFold 2 supplement 1.2.7 and table 1).

`encode_alignment` does once what is the same for every sample; `sample_input_features` then draws the cluster
centres, the masked cells and the extra rows. AlphaFold 2 does so for every recycling pass, at inference too:

    encoded = encode_alignment(alignment)
    for number in range(num_recycles + 1):
        random = np.random.default_rng([seed, number])
        features = sample_input_features(encoded, max_clusters=512, max_extra=5120, random=random)

Shapes: S rows of the alignment without duplicates, N cluster centres, E extra rows, R match columns.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from bioattn.alignments.alphabet import (
    GAP,
    MASK,
    NUM_AATYPES,
    NUM_MSA_CLASSES,
    NUM_PROFILE_CLASSES,
    RESIDUES,
    aatype_codes,
    msa_codes,
)
from bioattn.alignments.rows import first_of_each
from bioattn.formats.alignment import Alignment, require_proteins

_ROWS_PER_BLOCK = 2048
_COLUMNS_PER_BLOCK = 64
_CELLS_PER_COUNT = 1 << 22
# Classes that count as agreement: residues and unknown, but neither gap nor mask.
_AGREEING = np.eye(NUM_MSA_CLASSES, GAP, dtype=np.float32)


def assign_clusters(centres: NDArray[np.uint8], rows: NDArray[np.uint8]) -> NDArray[np.int32]:
    """For each row the centre with most equal cells; ties go to the first. Gaps and masked cells equal nothing.

    centres: (N, R) and rows: (S, R), classes 0..22. Returns (S,) indices into centres. Counted by blocked matrix
    products of one-hot rows, so memory is that of one block (about 20 MB) whatever S and R.
    """
    assignment = np.zeros(len(rows), np.int32)
    for first in range(0, len(rows), _ROWS_PER_BLOCK):
        block = rows[first : first + _ROWS_PER_BLOCK]
        agreement = np.zeros((len(block), len(centres)), np.float32)
        for column in range(0, centres.shape[1], _COLUMNS_PER_BLOCK):
            part = slice(column, column + _COLUMNS_PER_BLOCK)
            of_rows, of_centres = (
                _AGREEING[codes[:, part]].reshape(len(codes), -1) for codes in (block, centres)
            )
            agreement += of_rows @ of_centres.T
        assignment[first : first + len(block)] = agreement.argmax(axis=1)
    return assignment


def cluster_profiles(
    centres: NDArray[np.uint8], rows: NDArray[np.uint8], assignment: NDArray[np.int32]
) -> NDArray[np.float32]:
    """(N, R, 23): in each column the part of each class among a centre and its members, gap and mask counted."""
    num_centres, num_columns = centres.shape
    cells = num_columns * NUM_MSA_CLASSES
    offsets = np.arange(num_columns, dtype=np.intp) * NUM_MSA_CLASSES
    order = np.argsort(assignment, kind="stable")
    bounds = np.searchsorted(assignment[order], np.arange(num_centres + 1))
    rows_per_count = max(1, _CELLS_PER_COUNT // max(1, num_columns))
    profiles = np.empty((num_centres, num_columns, NUM_MSA_CLASSES), np.float32)
    for index, centre in enumerate(centres):
        counts = np.bincount(centre + offsets, minlength=cells)
        members = order[bounds[index] : bounds[index + 1]]
        for first in range(0, len(members), rows_per_count):
            part = rows[members[first : first + rows_per_count]]
            counts += np.bincount((part + offsets).ravel(), minlength=cells)
        profiles[index] = counts.reshape(num_columns, NUM_MSA_CLASSES) / (1e-6 + 1 + len(members))
    return profiles


def cluster_deletion_means(
    centre_deletions: csr_array, row_deletions: csr_array, assignment: NDArray[np.int32]
) -> NDArray[np.float32]:
    """(N, R): mean number of deletions before each column over a centre, (N, R), and its members, of (S, R)."""
    num_centres, num_rows = centre_deletions.shape[0], row_deletions.shape[0]
    membership = csr_array(
        (np.ones(num_rows), (assignment, np.arange(num_rows))), shape=(num_centres, num_rows)
    )
    sums = (membership @ row_deletions + centre_deletions).toarray()
    sizes = np.bincount(assignment, minlength=num_centres)
    means: NDArray[np.float32] = (sums / (1e-6 + 1 + sizes)[:, None]).astype(np.float32)
    return means


UNIFORM_FRACTION = 0.1
PROFILE_FRACTION = 0.1
SAME_FRACTION = 0.1
MASK_FRACTION = 1 - UNIFORM_FRACTION - PROFILE_FRACTION - SAME_FRACTION
"""Of the chosen cells, the parts drawn uniformly from the 20 residues, drawn from the column's profile, left as
they were, and masked."""


def replacement_probabilities(
    codes: NDArray[np.integer], profile: NDArray[np.floating]
) -> NDArray[np.float64]:
    """Probability of each of the 23 classes for chosen cells: shape (*codes.shape, 23), each row sums to 1.

    codes: classes 0..21 of the cells. profile: (*codes.shape, 22), or what broadcasts to it: the profile of the
    column each cell stands in.
    """
    probabilities = np.zeros((*codes.shape, NUM_MSA_CLASSES))
    probabilities[..., : len(RESIDUES)] = UNIFORM_FRACTION / len(RESIDUES)
    probabilities[..., :NUM_PROFILE_CLASSES] += PROFILE_FRACTION * profile
    probabilities += SAME_FRACTION * np.eye(NUM_MSA_CLASSES)[codes]
    probabilities[..., MASK] = MASK_FRACTION
    return probabilities


def mask_msa(
    msa: NDArray[np.uint8], profile: NDArray[np.floating], fraction: float, random: np.random.Generator
) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Replace a random `fraction` of all cells, gaps and the first row included.

    msa: (S, R) classes 0..21; profile: (R, 22). Returns the new MSA (classes 0..22) and which cells were chosen,
    whether or not the draw left them as they were: those a model is asked to restore.
    """
    chosen = random.random(msa.shape) < fraction
    cells = msa[chosen]
    cumulative = replacement_probabilities(cells, profile[np.nonzero(chosen)[1]]).cumsum(axis=-1)
    draw = random.random(len(cells)) * cumulative[:, -1]
    masked = msa.copy()
    # The last class is the mask, so rounding at the upper end cannot give a class without probability.
    masked[chosen] = (cumulative[:, :-1] <= draw[:, None]).sum(axis=-1)
    return masked, chosen


TARGET_CHANNELS = 1 + NUM_AATYPES
MSA_CHANNELS = 2 * NUM_MSA_CLASSES + 3


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedAlignment:
    """An alignment without duplicate rows, as codes (`bioattn.alignments.alphabet`); row 0 is the query."""

    aatype: NDArray[np.int32]
    """(R,): the query, 0..20."""
    msa: NDArray[np.uint8]
    """(S, R): 0..21."""
    deletions: csr_array
    """(S, R) int32, sparse: letters inserted before each column. Those after the last column are lost."""
    profile: NDArray[np.float32]
    """(R, 22): part of each class in each column, over all S rows."""
    records: NDArray[np.intp] | None = None
    """(S,): which rows of the alignment these are, from 0; None where nobody keeps count."""

    def part(
        self, rows: NDArray[np.integer], columns: NDArray[np.integer] | None = None
    ) -> "EncodedAlignment":
        """Some rows, the query first, of some columns, None = all; the profile stays that of all rows."""
        if columns is None:
            columns = np.arange(self.msa.shape[1])
        return EncodedAlignment(
            aatype=self.aatype[columns],
            msa=self.msa[rows][:, columns],
            deletions=self.deletions[rows][:, columns],
            profile=self.profile[columns],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFeatures:
    """One sample of an alignment, as AlphaFold 2 names it; nothing is padded, masks are ones.

    aatype: (R,), the query, 0..20. residue_index: (R,), 0..R-1. target_feat: (R, 22), 0 (no chain break) and the
    query one-hot. msa_feat: (N, R, 49), masked centre one-hot (23), has deletion, deletion value, cluster profile
    (23), mean deletion value. extra_msa: (E, R), 0..21, at least one row. extra_has_deletion: (E, R), 0 or 1.
    extra_deletion_value: (E, R), atan(deletions / 3) * 2 / pi. extra_msa_mask: (E, R), zeros in the one row that
    stands for no row at all: no model may skip its extra stack then, since without covered pairs the outer product
    mean still adds its bias, divided by 0.001. true_msa: (N, R), the centres before masking. bert_mask: (N, R), 1
    where a cell was chosen for masking.
    """

    aatype: NDArray[np.int32]
    residue_index: NDArray[np.int32]
    seq_mask: NDArray[np.float32]
    target_feat: NDArray[np.float32]
    msa_feat: NDArray[np.float32]
    msa_mask: NDArray[np.float32]
    extra_msa: NDArray[np.int32]
    extra_has_deletion: NDArray[np.float32]
    extra_deletion_value: NDArray[np.float32]
    extra_msa_mask: NDArray[np.float32]
    true_msa: NDArray[np.int32]
    bert_mask: NDArray[np.float32]


def encode_alignment(alignment: Alignment, *, source: str = "the alignment") -> EncodedAlignment:
    """Leave out duplicate rows (the first stays, with its deletions) and translate letters to codes.

    Rows are duplicates when their match columns have the same letters. The first row is the query; its gaps become
    residues of unknown kind and its insertions are left out, as suits a model that predicts columns rather than
    residues.

    Raises: FormatError beginning with `source` when the letters are those of nucleotides.
    """
    require_proteins(alignment, source)
    rows = first_of_each(alignment.residues)
    msa = msa_codes(alignment.residues[rows])
    places = [
        (row, column, len(letters))
        for row, index in enumerate(rows)
        for column, letters in alignment.insertions[index].items()
        if column < alignment.num_columns
    ]
    triples = np.array(places, np.int64).reshape(-1, 3)
    deletions = csr_array((triples[:, 2].astype(np.int32), (triples[:, 0], triples[:, 1])), shape=msa.shape)
    return EncodedAlignment(
        aatype=aatype_codes(alignment.residues[0]),
        msa=msa,
        deletions=deletions,
        profile=column_profile(msa),
        records=rows,
    )


def sample_input_features(
    encoded: EncodedAlignment,
    *,
    max_clusters: int,
    max_extra: int,
    masked_fraction: float = 0.15,
    random: np.random.Generator,
) -> InputFeatures:
    """Draw centres, masked cells and extra rows.

    The query is always the first centre; the other rows are shuffled, the first `max_clusters` - 1 of them become
    centres, the next `max_extra` the extra rows. All rows that are no centre, also those beyond `max_extra`, take
    part in the clusters. `masked_fraction` of the centres' cells are replaced (see `mask_msa`).
    """
    shuffled = encoded.part(shuffled_rows(len(encoded.msa), random))
    masked, chosen = mask_msa(shuffled.msa[:max_clusters], encoded.profile, masked_fraction, random)
    return assemble_features(shuffled, masked, chosen, max_extra)


def shuffled_rows(num_rows: int, random: np.random.Generator) -> NDArray[np.intp]:
    """The order in which rows become centres and then extra rows: row 0 first."""
    # What follows the centres is in random order already: AlphaFold's second shuffle, of the extra rows, would
    # change nothing.
    return np.concatenate([[0], 1 + random.permutation(num_rows - 1)])


def assemble_features(
    encoded: EncodedAlignment, masked: NDArray[np.uint8], chosen: NDArray[np.bool_], max_extra: int
) -> InputFeatures:
    """Features of a sample already drawn: rows of `encoded` are the centres, then the extra rows and all others.

    masked: (N, R) centres after masking; chosen: (N, R) cells masking chose. max_extra: extra rows at most.
    """
    num_centres, num_columns = masked.shape
    rows = encoded.msa[num_centres:]
    assignment = assign_clusters(masked, rows)
    centre_deletions, row_deletions = encoded.deletions[:num_centres], encoded.deletions[num_centres:]
    deletions = centre_deletions.toarray().astype(np.float32)
    means = cluster_deletion_means(centre_deletions, row_deletions, assignment)
    msa_feat = np.zeros((num_centres, num_columns, MSA_CHANNELS), np.float32)
    np.put_along_axis(msa_feat, masked[..., None].astype(np.intp), 1, axis=-1)
    msa_feat[..., NUM_MSA_CLASSES] = np.minimum(deletions, 1)
    msa_feat[..., NUM_MSA_CLASSES + 1] = deletion_value(deletions)
    msa_feat[..., NUM_MSA_CLASSES + 2 : -1] = cluster_profiles(masked, rows, assignment)
    msa_feat[..., -1] = deletion_value(means)
    target_feat = np.zeros((num_columns, TARGET_CHANNELS), np.float32)
    target_feat[np.arange(num_columns), 1 + encoded.aatype] = 1

    num_extra = min(max_extra, len(rows))
    extra_msa = np.zeros((max(1, num_extra), num_columns), np.int32)
    extra_deletions = np.zeros(extra_msa.shape, np.float32)
    extra_msa[:num_extra] = rows[:num_extra]
    extra_deletions[:num_extra] = row_deletions[:num_extra].toarray()
    return InputFeatures(
        aatype=encoded.aatype,
        residue_index=np.arange(num_columns, dtype=np.int32),
        seq_mask=np.ones(num_columns, np.float32),
        target_feat=target_feat,
        msa_feat=msa_feat,
        msa_mask=np.ones(masked.shape, np.float32),
        extra_msa=extra_msa,
        extra_has_deletion=np.minimum(extra_deletions, 1),
        extra_deletion_value=deletion_value(extra_deletions),
        extra_msa_mask=np.full(extra_msa.shape, float(num_extra > 0), np.float32),
        true_msa=encoded.msa[:num_centres].astype(np.int32),
        bert_mask=chosen.astype(np.float32),
    )


def deletion_value(deletions: NDArray[np.float32]) -> NDArray[np.float32]:
    """Map numbers of deletions to 0..1."""
    values: NDArray[np.float32] = np.arctan(deletions / np.float32(3)) * np.float32(2 / np.pi)
    return values


def column_profile(msa: NDArray[np.uint8]) -> NDArray[np.float32]:
    """(R, 22): part of each class in each column of (S, R) codes 0..21, gap and unknown counted."""
    num_rows, num_columns = msa.shape
    offsets = np.arange(num_columns, dtype=np.intp) * NUM_PROFILE_CLASSES
    counts = np.zeros(num_columns * NUM_PROFILE_CLASSES, np.int64)
    rows_per_count = max(1, _CELLS_PER_COUNT // num_columns)
    for first in range(0, num_rows, rows_per_count):
        part = msa[first : first + rows_per_count]
        counts += np.bincount((part + offsets).ravel(), minlength=counts.size)
    profile: NDArray[np.float32] = (counts.reshape(num_columns, -1) / num_rows).astype(np.float32)
    return profile
