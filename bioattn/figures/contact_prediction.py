"""Predicted contacts from the files they come in, and the true ones from a structure, a dataset or a table.

R match columns of the alignment, counted from 0 here and from 1 in the files.
"""

import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.alignments.contact_dataset import CONTACT_DATASET, open_contact_dataset
from bioattn.choices import MIN_SEPARATION, require_names
from bioattn.errors import BioattnError, FormatError
from bioattn.formats.alignment import Alignment
from bioattn.formats.rr import RR_START, read_rr
from bioattn.formats.tables import open_table
from bioattn.io.hdf5 import is_hdf5, open_hdf5, text_attribute
from bioattn.store.kinds import read_table
from bioattn.structures.chain import read_chain
from bioattn.structures.column_mapping import map_columns
from bioattn.structures.contacts import contacts, known_pairs
from bioattn.structures.predictions import read_distances
from bioattn.text import listed, quoted

LOGGER = logging.getLogger("bioattn")

UNKNOWN = "X"
MOST_COLUMNS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ContactPrediction:
    """A ranking of pairs of columns."""

    name: str
    letters: str
    """(R,) letters of the target: `-` for a gap, X where the file does not tell."""
    scores: NDArray[np.float64]
    """(R, R), symmetric; larger = likelier in contact; NaN = not among the file's pairs."""
    quantity: str
    whole: bool = True
    """Whether R is the width of the alignment; otherwise columns after the last pair of the file are missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContactTruth:
    """Which pairs are in contact."""

    contacts: NDArray[np.bool_]
    """(R, R), symmetric, at least six columns apart."""
    known: NDArray[np.bool_]
    """(R, R): pairs that can be scored."""
    length: int
    """L: columns with a residue in the structure, or all columns where there is none."""
    cb: NDArray[np.float32] | None = None
    """(R, 3) ångström, NaN = not known; None where the truth is a table."""


def read_contact_prediction(path: Path, sample: str | None = None) -> ContactPrediction:
    """Read a folder of `run evoformer`, one of its files, or a file of `export contacts`.

    sample: name of the alignment, where a table holds several.

    Raises: BioattnError when the file has another form, or holds several alignments and none is chosen.
    """
    if path.is_dir():
        names = ("distogram.h5", "contacts.rr", "contacts.tsv")
        files = [path / name for name in names if (path / name).is_file()]
        if not files:
            raise BioattnError(
                f"{path}: holds none of {', '.join(names)}; give the folder of one prediction of `run evoformer`"
            )
        path = files[0]
    if is_hdf5(path):
        distances = read_distances(path)
        size = len(distances.letters)
        scores = np.full((size, size), np.nan)
        scores[np.ix_(distances.columns, distances.columns)] = distances.contact_probability
        np.fill_diagonal(scores, np.nan)
        name, letters = distances.name, distances.letters
        return ContactPrediction(name=name, letters=letters, scores=scores, quantity="probability")
    with path.open("rb") as file:
        begins_as_rr = file.read(len(RR_START)) == RR_START
    if not begins_as_rr and path.suffix != ".rr":
        return contacts_of_table(read_table(path), path, sample)
    listed_pairs = read_rr(path)
    size = len(listed_pairs.sequence) or max((pair.j for pair in listed_pairs.pairs), default=0)
    scores = np.full((size, size), np.nan)
    for pair in listed_pairs.pairs:
        scores[pair.i - 1, pair.j - 1] = scores[pair.j - 1, pair.i - 1] = pair.probability
    return ContactPrediction(
        name=listed_pairs.target,
        letters=listed_pairs.sequence or UNKNOWN * size,
        scores=scores,
        quantity="probability",
        whole=bool(listed_pairs.sequence),
    )


def contacts_of_table(table: pd.DataFrame, source: object, sample: str | None) -> ContactPrediction:
    """The prediction in a table as `export contacts` writes it.

    source: for messages. sample: the alignment, where the table holds several.

    Raises: FormatError for another table; BioattnError when it holds several alignments and none is chosen.
    """
    quantity = next((name for name in ("probability", "score") if name in table), None)
    if quantity is None or not {"column_i", "column_j"} <= set(table):
        raise FormatError(
            f"{source}: holds no predicted contacts; give a prediction of `run evoformer`, or a table with the "
            f"columns column_i, column_j and probability (or score); it has {listed(list(map(str, table)))}"
        )
    name = ""
    if "sample" in table:
        names = list(dict.fromkeys(table["sample"].astype(str)))
        if sample is None and len(names) > 1:
            raise BioattnError(
                f"{source}: holds {len(names):,} alignments; choose with --sample ({quoted(names)})"
            )
        require_names("--sample", [sample] if sample else [], names, source, "alignment")
        name = sample or "".join(names)
        table = table[table["sample"].astype(str) == name]
    i, j = _pairs(table, source)
    if table[quantity].dtype.kind not in "fi":
        raise FormatError(f"{source}: {quantity} is not a number throughout")
    size = 1 + int(j.max(initial=0))
    scores, letters = np.full((size, size), np.nan), np.full(size, UNKNOWN)
    scores[i, j] = scores[j, i] = table[quantity]
    for columns, side in ((i, "letter_i"), (j, "letter_j")):
        if side in table:
            letters[columns] = table[side].fillna(UNKNOWN).astype(str)
    return ContactPrediction(
        name=name, letters="".join(letters), scores=scores, quantity=quantity, whole=False
    )


def _pairs(table: pd.DataFrame, source: object) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The two columns of each pair, from 0. Raises: FormatError for a pair that is none, with its line."""
    ends = [pd.to_numeric(table[name], errors="coerce").to_numpy() for name in ("column_i", "column_j")]
    right = (ends[0] >= 1) & (ends[1] > ends[0]) & (ends[1] <= MOST_COLUMNS) & (ends[0] % 1 == 0)
    if not right.all() or not len(table):
        line = 2 + int(right.argmin()) if len(table) else 1
        raise FormatError(
            f"{source}:{line}: column_i and column_j must be whole numbers from 1, the first below the second"
        )
    return ends[0].astype(np.intp) - 1, ends[1].astype(np.intp) - 1


def read_contact_truth(
    path: Path,
    prediction: ContactPrediction,
    *,
    chain: str | None = None,
    sample: str | None = None,
) -> ContactTruth:
    """Read the true contacts between columns of a predicted alignment.

    path: a PDB or mmCIF file, whose `chain` is aligned to the target; a contact dataset, of which `sample` (or the
    prediction's name) is taken; or a table with column_i and column_j.

    Warns of a structure with CA only, whose contacts differ from those of CB.

    Raises: BioattnError when the truth is of another alignment.
    """
    size = len(prediction.letters)
    if not path.is_dir() and is_hdf5(path):
        with open_hdf5(path) as file:
            kind = text_attribute(file, "format")
        if kind != CONTACT_DATASET.format:
            raise BioattnError(f"{path}: is no contact dataset; give one, a structure or a table of contacts")
        dataset = open_contact_dataset(path)
        protein = dataset.protein(dataset.index(sample or prediction.name))
        _require_columns(prediction, protein.num_columns, f"{path}: {protein.id!r}")
        return truth_from_coordinates(protein.cb[:size])
    try:
        is_table = {"column_i", "column_j"} <= set(open_table(path).header)
    except FormatError:
        is_table = False
    if is_table:
        i, j = _pairs(read_table(path), path)
        if prediction.whole and (j >= size).any():
            line = 2 + int((j >= size).argmax())
            raise BioattnError(
                f"{path}:{line}: column {j[line - 2] + 1} does not exist, the prediction has {size:,}; both must "
                "come from the same alignment"
            )
        kept = (j < size) & (j - i >= MIN_SEPARATION)
        pairs = np.zeros((size, size), dtype=np.bool_)
        pairs[i[kept], j[kept]] = pairs[j[kept], i[kept]] = True
        apart = np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
        return ContactTruth(contacts=pairs, known=apart >= MIN_SEPARATION, length=size)
    residues = read_chain(path, chain)
    if 2 * residues.num_missing_cb > len(residues):
        LOGGER.warning(
            f"{path}: {residues.num_missing_cb} of {len(residues)} residues have no CB; CA stands in its place, "
            "by which other pairs are in contact"
        )
    target = prediction.name or "the target"
    if set(prediction.letters) <= {UNKNOWN, "-"}:
        raise BioattnError(
            f"{path}: cannot be aligned, as the prediction does not say its residues; give distogram.h5 "
            "or contacts.rr"
        )
    mapping = map_columns(residues, Alignment.plain([target], prediction.letters), source=str(path))
    return truth_from_coordinates(mapping.column_cb(residues, size))


def _require_columns(prediction: ContactPrediction, number: int, subject: str) -> None:
    """Raises: BioattnError when an alignment of `number` columns cannot be the predicted one."""
    size = len(prediction.letters)
    if number < size or (prediction.whole and number > size):
        raise BioattnError(
            f"{subject} has {number:,} columns, the prediction {size:,}; both must come from the same alignment"
        )


def truth_from_coordinates(cb: NDArray[np.float32]) -> ContactTruth:
    """From (R, 3) CB coordinates, NaN where a column has no residue in the structure."""
    return ContactTruth(
        contacts=contacts(cb), known=known_pairs(cb), length=int((~np.isnan(cb).any(axis=-1)).sum()), cb=cb
    )
