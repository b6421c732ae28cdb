"""Contacts from attention: maps, symmetrised and corrected, weighed by a regression fitted on a few proteins.

Every head of row attention gives a map (R, R), the mean over the alignment's rows; every head of a language model
of proteins that of a sequence, without special tokens. Maps are symmetrised and lose
what a residue shares with all others (average product correction); a logistic regression with an L1 penalty says
how much each head tells of contacts (Rao et al. 2021, Transformer protein language models are unsupervised
structure learners; Rao et al. 2021, MSA Transformer). The correction's means leave the diagonal out (Dunn et al.
2008), unlike those of Rao et al.'s code: what a residue gives itself tells of no contact.

Shape suffixes: R residues (of alignments the match columns that the model saw), F features (heads of all sites),
N pairs.
"""

import logging
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from bioattn import __version__
from bioattn.alignments.alphabet import RESIDUES, letters_of
from bioattn.alignments.contact_dataset import ContactDataset, ContactProtein, open_contact_dataset
from bioattn.alignments.couplings import average_product_correction
from bioattn.choices import TRAIN, Reduction, require_names
from bioattn.errors import BioattnError, SettingsError
from bioattn.formats.rr import SMALLEST, ranked_pairs, write_rr
from bioattn.interpret.alignment_maps import read_protein, require_residues, residue_map, self_attention
from bioattn.interpret.file_kinds import REGRESSION_FORMAT
from bioattn.io.files import json_result, text_output, write_json
from bioattn.store.reader import Attention, SiteInfo, open_attention
from bioattn.structures.contacts import FIGURES, contact_scores, contacts, known_pairs
from bioattn.system.progress import SILENT, Progress, watched
from bioattn.text import listed

LOGGER = logging.getLogger("bioattn")

REGRESSION_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ContactRegression:
    """How much each head tells of contacts; a JSON file holds these fields."""

    model_sha256: str
    inverse_strength: float
    proteins: list[str]
    intercept: float
    weights: dict[str, list[float]]
    """By site, one weight per head; of the corrected maps as they are."""

    @property
    def num_heads_used(self) -> int:
        """Heads whose weight is not 0."""
        return sum(weight != 0 for heads in self.weights.values() for weight in heads)


def write_regression(path: Path, regression: ContactRegression) -> None:
    """Write a regression as JSON. Raises: BioattnError when it cannot be written."""
    header = {"format": REGRESSION_FORMAT, "format_version": REGRESSION_VERSION}
    write_json(path, header | {"generated_by": f"bioattn {__version__}"} | asdict(regression))


def read_regression(path: Path) -> ContactRegression:
    """Read a file of `write_regression`. Raises: FormatError when it is another or damaged."""
    command = "export contacts ATTENTION --fit DATASET"
    with json_result(path, REGRESSION_FORMAT, REGRESSION_VERSION, command) as content:
        del content["generated_by"]
        return ContactRegression(**content)


MAX_STEPS = 5000
TOLERANCE = 1e-3
"""Largest violation of the optimality conditions, whose scale is 1: the penalty's gradient."""
BLOCK = 1 << 16


def fit_sparse_logistic(
    features_NF: NDArray[np.float32], labels_N: NDArray[np.bool_], inverse_strength: float
) -> tuple[NDArray[np.float64], float]:
    """Weights (F,) and intercept that minimise ‖w‖₁ + c Σ log(1 + exp(−y (x·w + b))), y = ±1; b is not penalised.

    c = `inverse_strength`: smaller = more weights are exactly 0. The penalty is on features as they are given:
    scale them first if their scales differ.

    A weight is the difference of two parts that are not negative, whose sum is penalised; L-BFGS-B keeps them so.
    """
    number, width = features_NF.shape
    share = min(max(float(labels_N.mean()), 1 / (number + 1)), number / (number + 1))

    def objective(parts: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weights_F, intercept = parts[:width] - parts[width:-1], parts[-1]
        loss, gradient_F, gradient = 0.0, np.zeros(width), 0.0
        for start in range(0, number, BLOCK):
            block = features_NF[start : start + BLOCK].astype(np.float64)
            labels = labels_N[start : start + BLOCK]
            logits = block @ weights_F + intercept
            loss += np.logaddexp(0, np.where(labels, -logits, logits)).sum()
            surplus = expit(logits) - labels
            gradient_F += surplus @ block
            gradient += surplus.sum()
        slopes = inverse_strength * np.concatenate([gradient_F, -gradient_F, [gradient]])
        slopes[:-1] += 1
        return parts[:-1].sum() + inverse_strength * loss, slopes

    found = minimize(
        objective,
        np.append(np.zeros(2 * width), math.log(share / (1 - share))),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * (2 * width) + [(None, None)],
        options={"gtol": TOLERANCE, "ftol": 0, "maxiter": MAX_STEPS, "maxfun": 2 * MAX_STEPS, "maxcor": 30},
    )
    if found.nit >= MAX_STEPS:
        unsettled = f"the logistic regression did not settle in {MAX_STEPS} steps"
        LOGGER.warning(f"{unsettled}; its last weights are kept")
    return found.x[:width] - found.x[width:-1], float(found.x[-1])


ROW_SITES = "msa_row"
INVERSE_STRENGTH = 0.15
"""Loss of one pair against the penalty, as Rao et al. chose it."""


class FitReport(NamedTuple):
    """What a regression reaches: means of `FIGURES` over proteins, NaN without any."""

    fitted: dict[str, float]
    """On the proteins it was fitted on."""
    held_out: dict[str, float]
    """On the dataset's other proteins that the attention file holds."""
    num_held_out: int


def head_maps(attention: Attention, sample: str) -> Iterator[tuple[str, int, NDArray[np.float64]]]:
    """Site, head and map (R, R) of every head of `contact_sites`, one in memory at a time. Raises: as that.

    Maps are symmetric and corrected; their diagonal is 0.
    """
    protein = read_protein(attention, sample)
    for info in contact_sites(attention):
        for head in info.heads:
            map_RR = residue_map(attention, info, protein, head)
            yield info.name, head, average_product_correction(map_RR + map_RR.T)


def contact_sites(attention: Attention) -> list[SiteInfo]:
    """The sites of row attention over the clustered MSA, or of a language model's encoder, else decoder.

    Raises: BioattnError when there is none, the file's tokens are not the residues of whole proteins, or maps are
    reduced over heads, keys or otherwise than by the mean over rows.
    """
    require_residues(attention)
    sites = attention.sites.values()
    if attention.inputs == "alignments":
        what, wanted = "row attention", f"evoformer.*.{ROW_SITES}"
        needed = "mean-rows (or none), see [attention] of `run evoformer --config`"
        rows = [info for info in sites if info.name.split(".")[-1] == ROW_SITES]
        stack = [info for info in rows if not info.name.startswith("extra_msa.")]
    else:
        what, wanted, needed = "self-attention", "language.encoder.*", "all heads and keys, without --reduce"
        stack = self_attention(attention)
    if not stack:
        raise BioattnError(f"{attention.path}: holds no {what}; write it with --sites '{wanted}'")
    for info in stack:
        if info.reduce not in (Reduction.MEAN_ROWS, Reduction.NONE):
            raise BioattnError(
                f"{attention.path}: site {info.name} was reduced with {info.reduce}; contacts need {needed}"
            )
    return stack


def predict_contacts(attention: Attention, sample: str, regression: ContactRegression) -> NDArray[np.float64]:
    """Contact probabilities (R, R) of one protein, symmetric; the diagonal means nothing.

    Raises: BioattnError when the sample is not in the file, or the regression belongs to another model or heads.
    """
    if regression.model_sha256 != attention.model_sha256:
        raise BioattnError(
            f"{attention.path}: its attention is of another model than the regression was fitted on; fit one on "
            "attention of this model with --fit"
        )
    heads = {info.name: len(info.heads) for info in contact_sites(attention)}
    if heads != {site: len(weights) for site, weights in regression.weights.items()}:
        raise BioattnError(
            f"{attention.path}: holds other sites or heads of attention than the regression was fitted on "
            f"({len(heads)} sites, the regression {len(regression.weights)}); write the same --sites and --heads"
        )
    length = len(read_protein(attention, sample).letters)
    logits_RR = np.full((length, length), regression.intercept)
    for site, head, map_RR in head_maps(attention, sample):
        weight = regression.weights[site][attention.sites[site].heads.index(head)]
        logits_RR += weight * map_RR
    return np.asarray(expit(logits_RR))


def mean_map(attention: Attention, sample: str) -> NDArray[np.float64]:
    """Mean of the corrected maps of all heads (R, R): what attention says of contacts when nobody tells it of any.

    Raises: BioattnError when the sample or `contact_sites` are not in the file.
    """
    total_RR = sum((map_RR for _, _, map_RR in head_maps(attention, sample)), np.zeros(()))
    return total_RR / sum(len(info.heads) for info in contact_sites(attention))


def fit_contacts(
    attention_path: Path, dataset_path: Path, progress: Progress = SILENT
) -> tuple[ContactRegression, FitReport]:
    """Fit on the proteins of the dataset's training split that the attention file holds; judge on the others.

    Pairs at least 6 columns apart whose residues the structure has are fitted on. All features of these proteins
    are in memory at once (4 bytes a pair and head).

    Raises: BioattnError when no protein of the training split is in the attention file, or one has another length
    there; FormatError when a file is damaged.
    """
    dataset = open_contact_dataset(dataset_path)
    with open_attention(attention_path) as attention:
        names = [(info.name, info.heads) for info in contact_sites(attention)]
        fitted, held_out = _proteins_of(attention, dataset)
        features, labels = [], []
        for protein in watched(progress, "reading attention", fitted):
            seen = read_protein(attention, protein.id).columns
            pairs = np.nonzero(np.triu(known_pairs(protein.cb))[np.ix_(seen, seen)])
            of_heads = [map_RR[pairs].astype(np.float32) for _, _, map_RR in head_maps(attention, protein.id)]
            features.append(np.stack(of_heads, axis=1))
            labels.append(contacts(protein.cb)[np.ix_(seen, seen)][pairs])
        features_NF, labels_N = np.concatenate(features), np.concatenate(labels)
        del features
        if not labels_N.any():
            raise BioattnError(f"{dataset_path}: its training proteins have no contacts to fit on")
        # Attention weights are near 1 / R: the penalty has to see features of one size.
        scale_F = features_NF.std(axis=0, dtype=np.float64)
        scale_F[scale_F == 0] = 1
        features_NF /= scale_F.astype(np.float32)
        weights_F, intercept = fit_sparse_logistic(features_NF, labels_N, INVERSE_STRENGTH)
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
            proteins=[protein.id for protein in fitted],
            inverse_strength=INVERSE_STRENGTH,
        )

        def scores(protein: ContactProtein) -> dict[str, float]:
            columns = read_protein(attention, protein.id).columns
            return contact_scores(predict_contacts(attention, protein.id, regression), protein.cb, columns)

        on_fitted, on_others = (
            pd.DataFrame(map(scores, each), columns=[*FIGURES], dtype=float).mean()
            for each in (fitted, held_out)
        )
    return regression, FitReport(dict(on_fitted), dict(on_others), len(held_out))


def _proteins_of(
    attention: Attention, dataset: ContactDataset
) -> tuple[list[ContactProtein], list[ContactProtein]]:
    """Proteins in both files: those to fit on, and the others."""
    known = attention.samples.index
    proteins = [dataset.protein(index) for index, name in enumerate(dataset.ids) if name in known]
    for protein in proteins:
        # The columns that the model saw must be columns of the dataset's alignment, with the same residues.
        _, written, seen, num_columns = read_protein(attention, protein.id)
        letters = "".join(letter if letter in RESIDUES else "X" for letter in written)
        same_width = num_columns == protein.num_columns > seen.max()
        if not same_width or letters != letters_of(protein.aatype[seen]):
            raise BioattnError(
                f"{attention.path}: {protein.id!r} has {num_columns:,} columns there, "
                f"{protein.num_columns:,} in {dataset.path}, or another target row; both must come from the same "
                "alignment or sequence"
            )
    fitted = [protein for protein in proteins if protein.split == TRAIN]
    if not fitted:
        raise BioattnError(
            f"{attention.path}: holds no protein of the training split of {dataset.path}; it holds "
            f"{', '.join(map(str, known[:5]))}"
        )
    return fitted, [protein for protein in proteins if protein.split != TRAIN]


RR_SUFFIX = ".rr"
TABLE_SUFFIXES = (".tsv", ".tsv.gz")


def export_contacts(
    attention_path: Path,
    output: Path,
    *,
    regression: ContactRegression | None = None,
    sample: str | None = None,
    progress: Progress = SILENT,
) -> int:
    """Write the pairs of residues at least 6 apart, likeliest first; returns how many proteins are in the file.

    output: CASP RR (one protein) by its name `.rr`, else a table: sample, column_i, column_j (match columns of the
    alignment, or residues of the sequence, from 1), letter_i, letter_j and probability, or score without a
    regression: the mean corrected map of all heads, which ranks pairs but is no probability. sample: one protein;
    None = all.

    Raises: SettingsError for another name or for RR without a regression; BioattnError when RR is asked of several
    proteins, the sample is not there, or the regression belongs to another model; as `contact_sites`.
    """
    as_rr = output.name.endswith(RR_SUFFIX)
    if not as_rr and not output.name.endswith(TABLE_SUFFIXES):
        raise SettingsError(f"--output {output}: end its name in .rr (CASP RR), .tsv or .tsv.gz")
    if as_rr and regression is None:
        raise SettingsError(
            f"--output {output}: RR holds probabilities, which need --regression; without one write .tsv"
        )
    with open_attention(attention_path) as attention:
        contact_sites(attention)
        noun = attention.inputs.removesuffix("s")
        names = [str(name) for name in attention.samples.index]
        if sample is not None:
            require_names("--sample", [sample], names, attention.path, noun)
            names = [sample]
        if as_rr and len(names) > 1:
            raise BioattnError(
                f"--output {output}: RR holds one {noun} and {attention_path} has {len(names):,}; "
                f"choose one with --sample ({listed(names)}) or write .tsv"
            )
        if as_rr and regression is not None:
            _, residues, columns, num_columns = read_protein(attention, names[0])
            # The model sees every column in which the target has a residue.
            letters = np.full(num_columns, "-")
            letters[columns] = list(residues)
            how = "logistic regression on attention, symmetrised, average product correction"
            method = [f"bioattn {__version__}", how]
            map_RR = predict_contacts(attention, names[0], regression)
            write_rr(output, "".join(letters), map_RR, target=names[0], method=method, columns=columns)
            return 1
        with text_output(output) as file:
            file.write("\t".join([*CONTACT_COLUMNS, "score" if regression is None else "probability"]) + "\n")
            for name in watched(progress, "proteins", names):
                protein = read_protein(attention, name)
                if regression is None:
                    map_RR, least = mean_map(attention, name), -np.inf
                else:
                    map_RR, least = predict_contacts(attention, name, regression), SMALLEST
                file.writelines(contact_lines(name, protein.letters, protein.columns, map_RR, least))
    return len(names)


CONTACT_COLUMNS = ("sample", "column_i", "column_j", "letter_i", "letter_j")
"""Of a table of contacts, before the probability or score."""


def contact_lines(
    name: str,
    letters: str,
    columns: NDArray[np.integer],
    map_RR: NDArray[np.floating],
    least: float = SMALLEST,
) -> Iterator[str]:
    """The lines of a protein in a table of contacts, the likeliest pair first. columns, least: as `ranked_pairs`
    takes them."""
    first, second = ranked_pairs(map_RR, columns, least)
    for i, j in zip(first.tolist(), second.tolist(), strict=True):
        places = f"{columns[i] + 1}\t{columns[j] + 1}\t{letters[i]}\t{letters[j]}"
        yield f"{name}\t{places}\t{map_RR[i, j]:.6g}\n"
