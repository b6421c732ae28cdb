"""The proteins of a report: predictions, attention, alignments and structures that belong together.

They find each other by what is in them: the digest of the alignment, the protein's id, the sequence.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bioattn.alignments.alphabet import letters_of
from bioattn.alignments.contact_dataset import open_contact_dataset
from bioattn.alignments.query import centre_on_query, find_name
from bioattn.errors import BioattnError, FormatError
from bioattn.formats.alignment import GAP, Alignment
from bioattn.formats.alignment_file import read_alignment
from bioattn.io.files import read_json, sha256_of
from bioattn.io.hdf5_input import open_hdf5
from bioattn.report.inputs import ReportInputs
from bioattn.store.attention_reader import open_attention
from bioattn.structures.chain import read_chains
from bioattn.structures.column_mapping import map_columns


@dataclass(slots=True)
class Subject:
    """One protein, and what was given of it."""

    id: str
    input_sha256: str
    folder: Path | None = None
    attention: Path | None = None
    query: str | None = None
    alignment: Alignment | None = None
    cb: NDArray[np.float32] | None = None
    """(columns of the alignment, 3)."""
    cb_source: str = ""


def find_subjects(inputs: ReportInputs) -> list[Subject]:
    """The proteins of predictions and attention. Raises: FormatError when a folder's scores are damaged."""
    found: list[Subject] = []
    for folder in inputs.prediction:
        scores = read_json(folder / "scores.json")
        try:
            found.append(
                Subject(
                    str(scores["id"]),
                    str(scores["input"]["sha256"]),
                    folder=folder,
                    query=scores["settings"]["query"],
                )
            )
        except (KeyError, TypeError) as error:
            raise FormatError(f"{folder / 'scores.json'}: is incomplete ({error!r})") from error
    for path in inputs.alignment_attention:
        with open_attention(path) as attention:
            for name, digest in attention.samples["input_sha256"].items():
                mine = [each for each in found if each.input_sha256 == digest and each.attention is None]
                same = next((each for each in mine if each.id == name), mine[0] if mine else None)
                if same is None:
                    same = Subject(str(name), str(digest))
                    found.append(same)
                same.attention, same.id = path, str(name)
    return found


def give_alignments(subjects: list[Subject], inputs: ReportInputs) -> None:
    """To each its alignment, by digest. Raises: BioattnError for one that belongs to none."""
    for path in inputs.alignment:
        digest = sha256_of(path)
        mine = [subject for subject in subjects if subject.input_sha256 == digest]
        if not mine:
            raise BioattnError(
                f"{path}: is the input of none of the predictions and attention files given; give the alignment "
                "that was run"
            )
        for subject in mine:
            alignment = read_alignment(path)
            if subject.query is not None:
                row = find_name(alignment.names, subject.query, str(path))
                alignment = centre_on_query(alignment, row, str(path))
            subject.alignment = alignment


def give_truth(subjects: list[Subject], inputs: ReportInputs) -> None:
    """To each its structure: by sequence, or else by id in a contact dataset.

    Raises: BioattnError for a structure that belongs to none.
    """
    for path in inputs.contact_dataset:
        dataset = open_contact_dataset(path)
        for subject in subjects:
            if subject.id not in dataset.ids:
                continue
            protein = dataset.protein(dataset.index(subject.id))
            subject.cb, subject.cb_source = protein.cb, path.name
            if subject.alignment is None:
                subject.alignment = _as_alignment(subject.id, protein.msa)
    closest = [0.0] * len(subjects)
    owner: dict[int, Path] = {}
    for path in inputs.structure:
        chains = read_chains(path)
        reasons, fits = [], False
        for number, subject in enumerate(subjects):
            alignment = subject.alignment or _target_alone(subject)
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
                    subject.cb = mapping.column_cb(chain, alignment.num_columns)
                    subject.cb_source = path.name
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


def _target_alone(subject: Subject) -> Alignment | None:
    """The target's row over all match columns, from the prediction or the attention."""
    if subject.folder is not None and (subject.folder / "distogram.h5").is_file():
        with open_hdf5(subject.folder / "distogram.h5") as file:
            letters = np.frombuffer(str(file.attrs["sequence"]).encode(), np.uint8)
    elif subject.attention is not None:
        with open_attention(subject.attention) as attention:
            size = int(attention.samples["alignment_columns"].loc[subject.id])
            letters = np.full(size, GAP, np.uint8)
            query = str(attention.samples["query"].loc[subject.id])
            letters[attention.columns(subject.id)] = np.frombuffer(query.encode(), np.uint8)
    else:
        return None
    return Alignment(names=[subject.id], descriptions=[""], residues=letters[None], insertions=[{}])
