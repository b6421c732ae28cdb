"""The proteins of a report: predictions, attention, alignments and structures that belong together.

They find each other by what is in them: the digest of the alignment, the protein's id, the sequence.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bioattn.alignments.alphabet import letters_of
from bioattn.alignments.contact_dataset import open_contact_dataset
from bioattn.alignments.filtering import centre_on_query, find_name
from bioattn.errors import BioattnError
from bioattn.formats.alignment import GAP, Alignment
from bioattn.formats.alignment_file import read_alignment
from bioattn.io.files import sha256_of
from bioattn.report.inputs import ReportInputs
from bioattn.store.reader import open_attention
from bioattn.structures.chain import read_chains
from bioattn.structures.column_mapping import map_columns
from bioattn.views.predictions import PredictionScores, read_scores


@dataclass(slots=True)
class Protein:
    """One protein, and what was given of it."""

    id: str
    input_sha256: str
    prediction: PredictionScores | None = None
    attention: Path | None = None
    query: str | None = None
    alignment: Alignment | None = None
    cb: NDArray[np.float32] | None = None
    """(columns of the alignment, 3)."""
    cb_source: str = ""


def find_proteins(inputs: ReportInputs) -> list[Protein]:
    """The proteins of predictions and attention. Raises: FormatError when a folder's scores are damaged."""
    found: list[Protein] = []
    for folder in inputs.prediction:
        scores = read_scores(folder)
        found.append(Protein(scores.id, scores.input_sha256, prediction=scores, query=scores.query))
    for path in inputs.alignment_attention:
        with open_attention(path) as attention:
            for name, digest in attention.samples["input_sha256"].items():
                mine = [each for each in found if each.input_sha256 == digest and each.attention is None]
                same = next((each for each in mine if each.id == name), mine[0] if mine else None)
                if same is None:
                    same = Protein(str(name), str(digest))
                    found.append(same)
                same.attention, same.id = path, str(name)
    return found


def give_alignments(proteins: list[Protein], inputs: ReportInputs) -> None:
    """To each its alignment, by digest. Raises: BioattnError for one that belongs to none."""
    for path in inputs.alignment:
        digest = sha256_of(path)
        mine = [protein for protein in proteins if protein.input_sha256 == digest]
        if not mine:
            raise BioattnError(
                f"{path}: is the input of none of the predictions and attention files given; give the alignment "
                "that was run"
            )
        for protein in mine:
            alignment = read_alignment(path)
            if protein.query is not None:
                row = find_name(alignment.names, protein.query, str(path))
                alignment = centre_on_query(alignment, row, str(path))
            protein.alignment = alignment


def give_truth(proteins: list[Protein], inputs: ReportInputs) -> None:
    """To each its structure: by sequence, or else by id in a contact dataset.

    Raises: BioattnError for a structure that belongs to none.
    """
    for path in inputs.contact_dataset:
        dataset = open_contact_dataset(path)
        for protein in proteins:
            if protein.id not in dataset.ids:
                continue
            known = dataset.protein(dataset.index(protein.id))
            protein.cb, protein.cb_source = known.cb, path.name
            if protein.alignment is None:
                protein.alignment = _as_alignment(protein.id, known.msa)
    closest = [0.0] * len(proteins)
    owner: dict[int, Path] = {}
    for path in inputs.structure:
        chains = read_chains(path)
        reasons, fits = [], False
        for number, protein in enumerate(proteins):
            alignment = protein.alignment or _target_alone(protein)
            if alignment is None:
                continue
            for chain in chains:
                try:
                    mapping = map_columns(chain, alignment, source=str(path))
                except BioattnError as error:
                    reasons.append(str(error))
                    continue
                fits = True
                # The structure of a relative may fit as well; the one with most equal residues is the protein's.
                equal = mapping.identity * len(mapping.columns)
                if equal > closest[number]:
                    closest[number], owner[number] = equal, path
                    protein.cb = mapping.column_cb(chain, alignment.num_columns)
                    protein.cb_source = path.name
        if not fits:
            raise BioattnError(reasons[0] if reasons else f"{path}: holds no chain of a protein given")
    for path in inputs.structure:
        if path not in owner.values():
            raise BioattnError(
                f"{path}: every protein that it fits has one at least as close among those given; leave one out"
            )


def _as_alignment(name: str, msa: NDArray[np.uint8]) -> Alignment:
    """Of a dataset, which keeps no names."""
    rows = [letters_of(row) for row in msa]
    return Alignment(
        names=[name, *(f"row {number}" for number in range(2, len(rows) + 1))],
        descriptions=[""] * len(rows),
        residues=np.array([np.frombuffer(row.encode(), np.uint8) for row in rows]),
        insertions=[{} for _ in rows],
    )


def _target_alone(protein: Protein) -> Alignment | None:
    """The target's row over all match columns, from the prediction or the attention."""
    distances = None if protein.prediction is None else protein.prediction.distances()
    if distances is not None:
        letters = np.frombuffer(distances.letters.encode(), np.uint8)
    elif protein.attention is not None:
        with open_attention(protein.attention) as attention:
            size = int(attention.samples["alignment_columns"].loc[protein.id])
            letters = np.full(size, GAP, np.uint8)
            query = str(attention.samples["query"].loc[protein.id])
            letters[attention.columns(protein.id)] = np.frombuffer(query.encode(), np.uint8)
    else:
        return None
    return Alignment(names=[protein.id], descriptions=[""], residues=letters[None], insertions=[{}])
