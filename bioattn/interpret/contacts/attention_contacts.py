"""Contacts from attention: row maps, symmetrised and corrected, weighed by a regression fitted on a few proteins.

Every head of row attention gives a map (R, R), the mean over the alignment's rows. Maps are symmetrised and lose
what a residue shares with all others (average product correction); a logistic regression with an L1 penalty says
how much each head tells of contacts (Rao et al. 2021, Transformer protein language models are unsupervised
structure learners; Rao et al. 2021, MSA Transformer). The correction's means leave the diagonal out (Dunn et al.
2008), unlike those of Rao et al.'s code: what a residue gives itself tells of no contact.

Shape suffixes: R residues (the match columns that the model saw), F features (heads of all sites), N pairs.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.alignments.alphabet import RESIDUES, letters_of
from bioattn.alignments.contact_dataset import TRAIN, ContactDataset, ContactProtein, open_contact_dataset
from bioattn.alignments.couplings import average_product_correction
from bioattn.errors import BioattnError
from bioattn.interpret.contacts.contact_regression import ContactRegression
from bioattn.interpret.contacts.sparse_logistic import fit_sparse_logistic
from bioattn.store.choices import Reduction
from bioattn.store.reader import AttentionFile, SiteInfo, open_attention
from bioattn.structures.contacts import ContactScores, contact_scores, contacts, known_pairs, mean_scores
from bioattn.system.progress import NoProgress, Progress

ROW_SITES = "msa_row"
INVERSE_STRENGTH = 0.15
"""Loss of one pair against the penalty, as Rao et al. chose it."""


class HeadMap(NamedTuple):
    """One head of one site."""

    site: str
    head: int
    map_RR: NDArray[np.float64]
    """Symmetric, corrected; the diagonal is 0."""


class FitReport(NamedTuple):
    """What a regression reaches; means over proteins, NaN without any."""

    fitted: ContactScores
    """On the proteins it was fitted on."""
    held_out: ContactScores
    """On the dataset's other proteins that the attention file holds."""
    num_held_out: int


def head_maps(attention: AttentionFile, sample: str) -> Iterator[HeadMap]:
    """The corrected map of every head of row attention over the clustered MSA, one in memory at a time.

    Raises: BioattnError when the file has none, or not the mean over rows.
    """
    for info in row_sites(attention):
        for head in info.heads:
            weights = attention.weights(info.name, sample=sample, head=head)
            map_RR = (
                weights.mean(axis=0, dtype=np.float64) if "row" in info.dims else weights.astype(np.float64)
            )
            yield HeadMap(info.name, head, average_product_correction(map_RR + map_RR.T))


def row_sites(attention: AttentionFile) -> list[SiteInfo]:
    """The sites of row attention over the clustered MSA.

    Raises: BioattnError when there is none, or maps that are not the mean over rows.
    """
    if not attention.over_alignments:
        raise BioattnError(f"{attention.path}: holds attention over promoters; contacts come from alignments")
    stack = [
        info
        for info in attention.sites.values()
        if info.name.split(".")[-1] == ROW_SITES and not info.name.startswith("extra_msa.")
    ]
    if not stack:
        raise BioattnError(
            f"{attention.path}: holds no row attention; write it with --sites 'evoformer.*.{ROW_SITES}'"
        )
    for info in stack:
        if info.reduce not in (Reduction.MEAN_ROWS, Reduction.NONE):
            raise BioattnError(
                f"{attention.path}: site {info.name} was reduced with {info.reduce}; contacts need "
                "mean-rows (or none), see [attention] of `run evoformer --config`"
            )
    return stack


def predict_contacts(
    attention: AttentionFile, sample: str, regression: ContactRegression
) -> NDArray[np.float64]:
    """Contact probabilities (R, R) of one alignment, symmetric; the diagonal means nothing.

    Raises: BioattnError when the sample is not in the file, or the regression belongs to another model or heads.
    """
    _require_same_heads(attention, regression)
    length = int(attention.samples["length"].get(sample, 0))
    logits_RR = np.full((length, length), regression.intercept)
    for site, head, map_RR in head_maps(attention, sample):
        weight = regression.weights[site][attention.sites[site].heads.index(head)]
        logits_RR += weight * map_RR
    probabilities: NDArray[np.float64] = 1 / (1 + np.exp(-logits_RR))
    return probabilities


def mean_map(attention: AttentionFile, sample: str) -> NDArray[np.float64]:
    """Mean of the corrected maps of all heads (R, R): what attention says of contacts when nobody tells it of any.

    Raises: BioattnError when the sample or row attention is not in the file.
    """
    length = int(attention.samples["length"].get(sample, 0))
    total_RR, number = np.zeros((length, length)), 0
    for _, _, map_RR in head_maps(attention, sample):
        total_RR += map_RR
        number += 1
    return total_RR / number


def fit_contacts(
    attention_path: Path,
    dataset_path: Path,
    *,
    inverse_strength: float = INVERSE_STRENGTH,
    progress: Progress | None = None,
) -> tuple[ContactRegression, FitReport]:
    """Fit on the proteins of the dataset's training split that the attention file holds; judge on the others.

    Pairs at least 6 columns apart whose residues the structure has are fitted on. All features of these proteins
    are in memory at once (4 bytes a pair and head).

    Raises: BioattnError when no protein of the training split is in the attention file, or one has another length
    there; FormatError when a file is damaged.
    """
    progress = progress or NoProgress()
    dataset = open_contact_dataset(dataset_path)
    with open_attention(attention_path) as attention:
        names = [(info.name, info.heads) for info in row_sites(attention)]
        fitted, held_out = _proteins_of(attention, dataset)
        progress.begin("reading attention", len(fitted))
        try:
            parts = []
            for protein in fitted:
                parts.append(_examples(attention, protein))
                progress.advance()
        finally:
            progress.end()
        features_NF = np.concatenate([features for features, _ in parts])
        labels_N = np.concatenate([labels for _, labels in parts])
        del parts
        if not labels_N.any():
            raise BioattnError(f"{dataset_path}: its training proteins have no contacts to fit on")
        # Attention weights are near 1 / R: the penalty has to see features of one size.
        scale_F = features_NF.std(axis=0, dtype=np.float64)
        scale_F[scale_F == 0] = 1
        features_NF /= scale_F.astype(np.float32)
        weights_F, intercept = fit_sparse_logistic(features_NF, labels_N, inverse_strength)
        weights_F /= scale_F
        del features_NF
        starts = np.cumsum([0, *(len(heads) for _, heads in names)])
        regression = ContactRegression(
            model_sha256=attention.model_sha256,
            weights={
                name: [float(weight) for weight in weights_F[start : start + len(heads)]]
                for (name, heads), start in zip(names, starts, strict=False)
            },
            intercept=intercept,
            proteins=tuple(protein.id for protein in fitted),
            inverse_strength=inverse_strength,
        )
        report = FitReport(
            _scores(attention, regression, fitted), _scores(attention, regression, held_out), len(held_out)
        )
    return regression, report


def _proteins_of(
    attention: AttentionFile, dataset: ContactDataset
) -> tuple[list[ContactProtein], list[ContactProtein]]:
    """Proteins in both files: those to fit on, and the others."""
    known = attention.samples.index
    fitted: list[ContactProtein] = []
    held_out: list[ContactProtein] = []
    for index, name in enumerate(dataset.ids):
        if name not in known:
            continue
        protein = dataset.protein(index)
        _require_same_alignment(attention, protein, dataset.path)
        (fitted if protein.split == TRAIN else held_out).append(protein)
    if not fitted:
        raise BioattnError(
            f"{attention.path}: holds no protein of the training split of {dataset.path}; it holds "
            f"{', '.join(map(str, known[:5]))}"
        )
    return fitted, held_out


def _require_same_alignment(attention: AttentionFile, protein: ContactProtein, dataset: Path) -> None:
    """The columns that the model saw must be columns of the dataset's alignment, with the same target residues."""
    sample = attention.samples.loc[protein.id]
    letters = "".join(letter if letter in RESIDUES else "X" for letter in str(sample["query"]))
    seen = attention.columns(protein.id)
    same_width = sample["alignment_columns"] == protein.num_columns > seen.max()
    if not same_width or letters != letters_of(protein.aatype[seen]):
        raise BioattnError(
            f"{attention.path}: {protein.id!r} has {sample['alignment_columns']:,} columns there, "
            f"{protein.num_columns:,} in {dataset}, or another target row; both must come from the same alignment"
        )


def _examples(
    attention: AttentionFile, protein: ContactProtein
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Features (N, F) and labels (N,) of the pairs that are judged."""
    seen = attention.columns(protein.id)
    apart = np.triu(known_pairs(protein.cb))[np.ix_(seen, seen)]
    pairs = np.nonzero(apart)
    features = [map_RR[pairs].astype(np.float32) for _, _, map_RR in head_maps(attention, protein.id)]
    return np.stack(features, axis=1), contacts(protein.cb)[np.ix_(seen, seen)][pairs]


def _scores(
    attention: AttentionFile, regression: ContactRegression, proteins: Sequence[ContactProtein]
) -> ContactScores:
    return mean_scores(
        [
            contact_scores(
                predict_contacts(attention, protein.id, regression),
                protein.cb,
                attention.columns(protein.id),
            )
            for protein in proteins
        ]
    )


def _require_same_heads(attention: AttentionFile, regression: ContactRegression) -> None:
    """A weight means something for the head it was fitted on only."""
    if regression.model_sha256 != attention.model_sha256:
        raise BioattnError(
            f"{attention.path}: its attention is of another model than the regression was fitted on; fit one on "
            "attention of this model with --fit"
        )
    heads = {info.name: len(info.heads) for info in row_sites(attention)}
    if heads != {site: len(weights) for site, weights in regression.weights.items()}:
        raise BioattnError(
            f"{attention.path}: holds other sites or heads of row attention than the regression was fitted on "
            f"({len(heads)} sites, the regression {len(regression.weights)}); write the same --sites and --heads"
        )
