"""What an MSA/pair model found in each alignment: contacts, what they are compared with, attention by layer and
head.

A prediction, the attention, the alignment and the structure of one protein find each other by what is in them: the
digest of the alignment, the protein's id, the sequence. Shape suffix R: the match columns that the model saw.
"""

import base64
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bioattn.alignments.alphabet import letters_of
from bioattn.alignments.contact_dataset import open_contact_dataset
from bioattn.alignments.query import centre_on_query, find_name
from bioattn.errors import BioattnError, FormatError
from bioattn.files import read_json, sha256_of
from bioattn.formats.alignment import Alignment
from bioattn.formats.alignment_file import read_alignment
from bioattn.progress import Progress
from bioattn.report.head_maps import DrawnHead, HeadSource, draw_heads, list_heads
from bioattn.report.inputs import ReportInputs
from bioattn.store.attention_reader import open_attention
from bioattn.store.hdf5_access import open_hdf5
from bioattn.structures.chain import read_chains
from bioattn.structures.column_mapping import map_columns
from bioattn.structures.contacts import contacts, known_pairs
from bioattn.training.evoformer.contact_metrics import ContactScores, contact_scores

MAX_PAGES = 24
MAX_ROWS = 80
"""Rows of an alignment that a page shows."""
ALONE_BYTES, BESIDE_BYTES = 7_500_000, 3_000_000
"""What the pages together may take of a report on alignments alone, and of one on promoters too."""
DISTANCE_STEP = 0.1
"""Ångström."""
UNKNOWN, APART, TOUCHING = 0, 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignmentPage:
    """One alignment."""

    id: str
    sequence: str
    """R letters of the target, `-` where it has a gap."""
    columns: list[int]
    """(R,) match columns, from 1."""
    num_rows: int | None
    row_names: list[str]
    rows: list[str]
    """R letters each, the target first; the target alone where the alignment was not given."""
    rows_known: bool
    contact: str | None
    """Probabilities (R, R) in 255ths, deflated, base64."""
    distance: str | None
    """Expected distances (R, R) in tenths of an ångström, at most 25.5."""
    truth: str | None
    """(R, R): 0 not known, 1 apart, 2 in contact."""
    truth_source: str
    num_likely: int
    """Pairs at least 6 columns apart with a probability above 0.5."""
    prediction_scores: ContactScores | None
    heads: list[DrawnHead]
    num_heads: int
    """Of the attention file; `heads` may be fewer."""
    mean_plddt: float | None
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Subject:
    """A page on its way."""

    id: str
    input_sha256: str
    folder: Path | None = None
    attention: Path | None = None
    query: str | None = None
    alignment: Alignment | None = None
    cb: NDArray[np.float32] | None = None
    """(columns of the alignment, 3)."""
    cb_source: str = ""


def collect_alignments(inputs: ReportInputs, progress: Progress) -> tuple[list[AlignmentPage], list[str]]:
    """The pages, and the ids of alignments for which no page is left.

    Raises: BioattnError for an alignment or structure that belongs to none of the predictions.
    """
    subjects = _subjects(inputs)
    _give_alignments(subjects, inputs)
    _give_truth(subjects, inputs)
    shown, rest = subjects[:MAX_PAGES], subjects[MAX_PAGES:]
    room = BESIDE_BYTES if inputs.attention is not None else ALONE_BYTES
    pages = []
    progress.begin("alignments", len(shown))
    try:
        for subject in shown:
            pages.append(_page(subject, room // max(1, len(shown))))
            progress.advance()
    finally:
        progress.end()
    return pages, [subject.id for subject in rest]


def _subjects(inputs: ReportInputs) -> list[_Subject]:
    found: list[_Subject] = []
    for folder in inputs.prediction:
        scores = read_json(folder / "scores.json")
        try:
            found.append(
                _Subject(
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
                    same = _Subject(str(name), str(digest))
                    found.append(same)
                same.attention, same.id = path, str(name)
    return found


def _give_alignments(subjects: list[_Subject], inputs: ReportInputs) -> None:
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


def _give_truth(subjects: list[_Subject], inputs: ReportInputs) -> None:
    for path in inputs.contact_dataset:
        dataset = open_contact_dataset(path)
        for subject in subjects:
            if subject.id not in dataset.ids:
                continue
            protein = dataset.protein(dataset.index(subject.id))
            subject.cb, subject.cb_source = protein.cb, path.name
            if subject.alignment is None:
                subject.alignment = _as_alignment(subject.id, protein.msa)
    for path in inputs.structure:
        reasons = []
        for subject in subjects:
            alignment = subject.alignment or _target_alone(subject)
            if alignment is None:
                continue
            for chain in read_chains(path):
                try:
                    mapping = map_columns(chain, alignment, source=str(path))
                except BioattnError as error:
                    reasons.append(str(error))
                    continue
                subject.cb = mapping.column_cb(chain, alignment.num_columns)
                subject.cb_source = path.name
                break
        if not any(subject.cb_source == path.name for subject in subjects):
            raise BioattnError(reasons[0] if reasons else f"{path}: there is no alignment it could belong to")


def _as_alignment(name: str, msa: NDArray[np.uint8]) -> Alignment:
    """Of a dataset, which keeps no names."""
    rows = [letters_of(row) for row in msa]
    return Alignment(
        names=[name, *(f"row {number}" for number in range(2, len(rows) + 1))],
        descriptions=[""] * len(rows),
        residues=np.array([np.frombuffer(row.encode(), np.uint8) for row in rows]),
        insertions=[{} for _ in rows],
    )


def _target_alone(subject: _Subject) -> Alignment | None:
    """The target's row over all match columns, from the prediction."""
    if subject.folder is None or not (subject.folder / "distogram.h5").is_file():
        return None
    with open_hdf5(subject.folder / "distogram.h5") as file:
        text = str(file.attrs["sequence"])
    return Alignment(
        names=[subject.id],
        descriptions=[""],
        residues=np.frombuffer(text.encode(), np.uint8)[None],
        insertions=[{}],
    )


def _page(subject: _Subject, room: int) -> AlignmentPage:
    contact_RR = distance_RR = None
    columns: NDArray[np.int64] | None = None
    sequence, plddt = "", None
    if subject.folder is not None:
        plddt = read_json(subject.folder / "scores.json").get("mean_plddt")
        if (subject.folder / "distogram.h5").is_file():
            with open_hdf5(subject.folder / "distogram.h5") as file:
                contact_RR = np.asarray(file["contact_probability"], np.float64)
                distance_RR = np.asarray(file["expected_distance"], np.float64)
                columns = np.asarray(file["column_i"], np.int64) - 1
                whole = str(file.attrs["sequence"])
                sequence = "".join(whole[column] for column in columns)
    sources: list[HeadSource] = []
    seen: list[str] | None = None
    if subject.attention is not None:
        with open_attention(subject.attention) as attention:
            if columns is None:
                columns = attention.columns(subject.id)
                sequence = str(attention.samples["query"][subject.id])
            elif not np.array_equal(columns, attention.columns(subject.id)):
                raise BioattnError(
                    f"{subject.attention}: saw other columns of {subject.id} than the prediction in "
                    f"{subject.folder}; make both in one run"
                )
            seen = attention.row_names(subject.id)
            sources = list_heads(attention)
    if columns is None:
        raise BioattnError(
            f"{subject.folder}: holds no distances, and no attention of {subject.id} was given"
        )
    cb_R = None if subject.cb is None else subject.cb[columns]
    heads: list[DrawnHead] = []
    used = sum(len(_packed(each)) for each in (contact_RR, distance_RR) if each is not None)
    if subject.attention is not None and sources:
        with open_attention(subject.attention) as attention:
            heads = draw_heads(attention, subject.id, sources, contact_RR, cb_R, room=room - used)
    names, rows = _rows(subject, columns, sequence, seen)
    likely = 0
    if contact_RR is not None:
        far = np.triu(np.abs(columns[:, None] - columns[None]) >= 6)
        likely = int((contact_RR[far] > 0.5).sum())
    return AlignmentPage(
        id=subject.id,
        sequence=sequence,
        columns=(columns + 1).tolist(),
        num_rows=None if subject.alignment is None else subject.alignment.num_rows,
        row_names=names,
        rows=rows,
        rows_known=subject.alignment is not None,
        contact=None if contact_RR is None else _packed(np.clip(contact_RR, 0, 1) * 255),
        distance=None if distance_RR is None else _packed(np.clip(distance_RR / DISTANCE_STEP, 0, 255)),
        truth=None if cb_R is None else _packed(_truth(cb_R)),
        truth_source=subject.cb_source,
        num_likely=likely,
        prediction_scores=None if cb_R is None or contact_RR is None else contact_scores(contact_RR, cb_R),
        heads=heads,
        num_heads=len(sources),
        mean_plddt=plddt,
    )


def _rows(
    subject: _Subject, columns: NDArray[np.int64], sequence: str, seen: list[str] | None
) -> tuple[list[str], list[str]]:
    """Names and letters of rows to show: the target first, then those the model saw, in its order, else the
    first.
    """
    alignment = subject.alignment
    if alignment is None:
        return [subject.id], [sequence]
    order = list(range(alignment.num_rows))
    if seen:
        first_of: dict[str, int] = {}
        for row, name in enumerate(alignment.names):
            first_of.setdefault(name, row)
        order = [first_of[name] for name in dict.fromkeys(seen) if name in first_of] or order
    order = order[:MAX_ROWS]
    return [alignment.names[row] for row in order], [
        alignment.residues[row, columns].tobytes().decode("ascii") for row in order
    ]


def _truth(cb: NDArray[np.floating]) -> NDArray[np.uint8]:
    present = known_pairs(cb, 0)
    touching = contacts(cb, min_separation=1)
    return np.where(touching, TOUCHING, np.where(present, APART, UNKNOWN)).astype(np.uint8)


def _packed(values: NDArray[np.floating] | NDArray[np.uint8]) -> str:
    whole = np.rint(values).astype(np.uint8)
    return base64.b64encode(zlib.compress(whole.tobytes(), 9)).decode("ascii")
