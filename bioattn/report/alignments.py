"""What an MSA/pair model found in each alignment: contacts, what they are compared with, attention by
layer and head.

Shape suffix R: the match columns that the model saw.

Predictions, attention, alignments and structures of a protein find each other by what is in them: the digest
of the alignment, the protein's id, the sequence.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bioattn.alignments.alphabet import letters_of
from bioattn.alignments.contact_dataset import open_contact_dataset
from bioattn.alignments.couplings import average_product_correction
from bioattn.alignments.rows import ALONE, centre_on_query, find_name
from bioattn.choices import MIN_SEPARATION, Reduction
from bioattn.errors import BioattnError
from bioattn.formats.alignment import GAP, Alignment
from bioattn.formats.alignment_file import read_alignment
from bioattn.interpret.alignment_maps import head_map
from bioattn.io.files import sha256_of
from bioattn.report.inputs import ReportInputs
from bioattn.report.promoter_maps import pack_bytes
from bioattn.store.reader import Attention, open_attention
from bioattn.structures.chain import read_chains
from bioattn.structures.column_mapping import map_columns
from bioattn.structures.contacts import contact_scores, contacts, known_pairs
from bioattn.structures.predictions import DISTOGRAM, Distances, read_distances, read_scores
from bioattn.system.progress import Progress, watched

_SITE = re.compile(r"(?P<stack>[a-z_]+)\.(?P<block>\d+)\.(?P<kind>[a-z_]+)\Z")
_KINDS = {
    "msa_row": "row attention",
    "triangle_starting": "triangle attention, starting node",
    "triangle_ending": "triangle attention, ending node",
}
_STACKS = {"evoformer": "", "extra_msa": " (extra MSA)"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadSource:
    """One head of one site whose queries and keys are residues."""

    site: str
    kind: str
    block: int
    head: int | None
    """None where the file holds something made of all heads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnHead(HeadSource):
    """One head's map, packed."""

    map: str
    """(R, R) square roots of weights, queries first, in 255ths of the largest; deflated, base64."""
    largest: float
    agreement: float | None
    """Pearson r of the symmetrised, corrected map with the predicted contacts, over pairs at least 6 apart."""
    precision: float | None
    """Of its L best pairs against the structure."""


def list_heads(attention: Attention) -> list[HeadSource]:
    """All maps of residues, row attention first."""
    found: list[HeadSource] = []
    for info in attention.sites.values():
        has_map = info.reduce == Reduction.TOP_K or {"query", "key"} <= set(info.dims)
        if info.kind("key") != "residue" or not has_map:
            continue
        name = _SITE.match(info.name)
        if name is None:
            kind, block = info.name.rpartition(".")[0], int(info.name.rpartition(".")[2] or 0)
        else:
            kind = _KINDS.get(name["kind"], name["kind"]) + _STACKS.get(name["stack"], f" ({name['stack']})")
            block = int(name["block"])
        heads: list[int | None] = list(info.heads) if "head" in info.dims else [None]
        found += [HeadSource(site=info.name, kind=kind, block=block, head=head) for head in heads]
    order = list(_KINDS.values())

    def rank(source: HeadSource) -> tuple[int, str, int, int]:
        place = order.index(source.kind) if source.kind in order else len(order)
        return place, source.kind, source.block, -1 if source.head is None else source.head

    return sorted(found, key=rank)


def draw_heads(
    attention: Attention,
    sample: str,
    sources: list[HeadSource],
    contact_RR: NDArray[np.floating] | None,
    cb_R: NDArray[np.floating] | None,
    *,
    room: int,
) -> list[DrawnHead]:
    """The heads whose maps fit into `room` bytes, in the order of `sources`.

    Where not all fit, those whose pairs are contacts most often stay (with a structure), or those most like the
    predicted contacts. One map is in memory at a time.
    """
    judged = []
    for number, source in enumerate(sources):
        map_RR = head_map(attention, attention.sites[source.site], sample, source.head)
        corrected = average_product_correction(map_RR + map_RR.T)
        agreement = precision = None
        far = np.triu_indices(len(corrected), k=MIN_SEPARATION)
        if contact_RR is not None and len(far[0]) > 2:
            one, other = corrected[far], np.asarray(contact_RR, np.float64)[far]
            if one.std() > 0 and other.std() > 0:
                agreement = round(float(np.corrcoef(one, other)[0, 1]), 4)
        if cb_R is not None:
            found = contact_scores(corrected, cb_R)["P@L"]
            precision = round(found, 4) if np.isfinite(found) else None
        judged.append((number, agreement, precision))
    best_first = sorted(
        judged, key=lambda each: (-((each[1] or 0.0) if each[2] is None else each[2]), each[0])
    )
    drawn: dict[int, DrawnHead] = {}
    for number, agreement, precision in best_first:
        source = sources[number]
        map_RR = head_map(attention, attention.sites[source.site], sample, source.head)
        largest = float(map_RR.max(initial=0.0))
        text = pack_bytes(np.sqrt(np.maximum(map_RR, 0) / (largest or 1.0)) * 255)
        room -= len(text)
        if room < 0 and drawn:
            break
        drawn[number] = DrawnHead(
            **asdict(source),
            map=text,
            largest=float(f"{largest:.6g}"),
            agreement=agreement,
            precision=precision,
        )
    return [drawn[number] for number in sorted(drawn)]


@dataclass(slots=True)
class Protein:
    """One protein, and what was given of it; of several models each has its own."""

    id: str
    input_sha256: str
    folder: Path | None = None
    """Of its prediction."""
    scores: Mapping[str, Any] = field(default_factory=dict)
    """Of its prediction: the content of `scores.json`; empty without one."""
    attention: Path | None = None
    alignment: Alignment | None = None
    cb: NDArray[np.float32] | None = None
    """(columns of the alignment, 3)."""
    cb_source: str = ""

    def distances(self) -> Distances | None:
        """The predicted ones. Raises: FormatError when their file is damaged."""
        if self.folder is None or not (self.folder / DISTOGRAM).is_file():
            return None
        return read_distances(self.folder)


def find_proteins(inputs: ReportInputs) -> list[Protein]:
    """The proteins of predictions and attention. Raises: FormatError when a folder's scores are damaged."""
    found: list[Protein] = []
    for folder in inputs.prediction:
        scores = read_scores(folder)
        found.append(Protein(scores["id"], scores["input"]["sha256"], folder, scores))
    for path in inputs.alignment_attention:
        with open_attention(path) as attention:
            model = attention.model_sha256
            of_model = [each for each in found if each.scores and each.scores["model"]["sha256"] == model]
            for name, digest in attention.samples["input_sha256"].items():
                mine = [each for each in of_model if each.input_sha256 == digest and each.attention is None]
                same = next((each for each in mine if each.id == name), mine[0] if mine else None)
                if same is None:
                    same = Protein(str(name), str(digest))
                    found.append(same)
                same.attention, same.id = path, str(name)
    return found


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
                names = [protein.id, *(f"row {number}" for number in range(2, len(known.msa) + 1))]
                rows = [np.frombuffer(letters_of(row).encode(), np.uint8) for row in known.msa]
                protein.alignment = Alignment.plain(names, np.array(rows))
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


def _target_alone(protein: Protein) -> Alignment | None:
    """The target's row over all match columns, from the prediction or the attention."""
    if (distances := protein.distances()) is not None:
        letters = np.frombuffer(distances.letters.encode(), np.uint8)
    elif protein.attention is not None:
        with open_attention(protein.attention) as attention:
            size = int(attention.samples["alignment_columns"].loc[protein.id])
            letters = np.full(size, GAP, np.uint8)
            query = str(attention.samples["query"].loc[protein.id])
            letters[attention.columns(protein.id)] = np.frombuffer(query.encode(), np.uint8)
    else:
        return None
    return Alignment.plain([protein.id], letters[None])


MAX_PAGES = 24
MAX_ROWS = 80
ALONE_BYTES, BESIDE_BYTES = 7_500_000, 3_000_000
"""What the pages together may take of a report on alignments alone, and of one on promoters too."""
DISTANCE_STEP = 0.1
"""Ångström."""
UNKNOWN, APART, TOUCHING = 0, 1, 2
_TOLD = (
    *("num_likely", "prediction_scores", "num_heads"),
    *("concerns", "mean_plddt", "trained_on"),
)
"""Fields of a page that findings tell of and scripts do not need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignmentPage:
    id: str
    sequence: str
    """R letters of the target, `-` where it has a gap."""
    columns: list[int]
    """(R,) match columns, from 1."""
    num_rows: int | None
    row_names: list[str]
    rows: list[str]
    """R letters each, the target first; the target alone where the alignment was not given."""
    contact: str | None
    """Probabilities (R, R) in 255ths, deflated, base64."""
    distance: str | None
    """Expected distances (R, R) in tenths of an ångström, at most 25.5."""
    truth: str | None
    """(R, R): 0 not known, 1 apart, 2 in contact."""
    truth_source: str
    num_likely: int
    """Pairs at least 6 columns apart with a probability above 0.5."""
    prediction_scores: dict[str, float] | None
    heads: list[DrawnHead]
    num_heads: int
    """Of the attention file; `heads` may be fewer."""
    concerns: Sequence[str]
    """Reasons not to expect contacts from the alignment."""
    mean_plddt: float | None
    trained_on: str | None
    """A family that the model was trained on and this protein is like."""

    @property
    def size(self) -> int:
        """Bytes of its maps and rows."""
        maps = [self.contact, self.distance, self.truth, *self.rows, *(head.map for head in self.heads)]
        return sum(len(text) for text in maps if text is not None)

    def data(self) -> dict[str, Any]:
        """What the scripts of the page are given."""
        return {name: value for name, value in asdict(self).items() if name not in _TOLD}


def collect_alignments(inputs: ReportInputs, progress: Progress) -> tuple[list[AlignmentPage], list[str]]:
    """The pages, and the ids of alignments for which no page is left.

    Raises: BioattnError for an alignment or structure that belongs to none of the predictions.
    """
    proteins = find_proteins(inputs)
    for path in inputs.alignment:
        digest = sha256_of(path)
        mine = [protein for protein in proteins if protein.input_sha256 == digest]
        if not mine:
            raise BioattnError(
                f"{path}: is the input of none of the predictions and attention files given; give the alignment "
                "that was run"
            )
        for protein in mine:
            protein.alignment = read_alignment(path)
            if protein.scores and (query := protein.scores["settings"]["query"]) is not None:
                row = find_name(protein.alignment.names, query, str(path))
                protein.alignment = centre_on_query(protein.alignment, row, str(path))
    give_truth(proteins, inputs)
    number_of = Counter(protein.id for protein in proteins)
    shown, rest = proteins[:MAX_PAGES], proteins[MAX_PAGES:]
    left = BESIDE_BYTES if inputs.attention is not None else ALONE_BYTES
    pages: list[AlignmentPage] = []
    for number, protein in enumerate(watched(progress, "alignments", shown)):
        page = _page(protein, left // (len(shown) - number))
        if page.size > left and pages:
            rest = [*shown[number:], *rest]
            break
        if number_of[page.id] > 1:  # of several models
            page = replace(page, id=f"{page.id} ({protein.folder or protein.attention})")
        pages.append(page)
        left -= page.size
    return pages, [protein.id for protein in rest]


def _page(protein: Protein, room: int) -> AlignmentPage:
    contact_RR = distance_RR = None
    columns: NDArray[np.int64] | None = None
    sequence = ""
    if (distances := protein.distances()) is not None:
        contact_RR, distance_RR = distances.contact_probability, distances.expected_distance
        columns = distances.columns
        sequence = "".join(distances.letters[column] for column in columns)
    sources: list[HeadSource] = []
    seen: list[str] | None = None
    if protein.attention is not None:
        with open_attention(protein.attention) as attention:
            if columns is None:
                columns = attention.columns(protein.id)
                sequence = str(attention.samples["query"][protein.id])
            elif not np.array_equal(columns, attention.columns(protein.id)):
                raise BioattnError(
                    f"{protein.attention}: saw other columns of {protein.id} than the prediction in "
                    f"{protein.folder}; make both in one run"
                )
            seen = attention.row_names(protein.id)
            sources = list_heads(attention)
    if columns is None:
        raise BioattnError(
            f"{protein.folder}: holds no distances, and no attention of {protein.id} was given"
        )
    cb_R = None if protein.cb is None else protein.cb[columns]
    heads: list[DrawnHead] = []
    contact = None if contact_RR is None else pack_bytes(np.clip(contact_RR, 0, 1) * 255)
    distance = None if distance_RR is None else pack_bytes(np.clip(distance_RR / DISTANCE_STEP, 0, 255))
    truth = None
    if cb_R is not None:
        known_RR = np.where(known_pairs(cb_R, 0), APART, UNKNOWN)
        truth = pack_bytes(np.where(contacts(cb_R, min_separation=1), TOUCHING, known_RR).astype(np.uint8))
    used = sum(len(text) for text in (contact, truth) if text is not None)
    if distance is not None and used + len(distance) > room / 2:
        distance = None  # of a very long protein: heads say more
    used += len(distance or "")
    if protein.attention is not None and sources:
        with open_attention(protein.attention) as attention:
            heads = draw_heads(attention, protein.id, sources, contact_RR, cb_R, room=room - used)
    names, rows = _rows(protein, columns, sequence, seen)
    likely = 0
    if contact_RR is not None:
        far = np.triu(np.abs(columns[:, None] - columns[None]) >= MIN_SEPARATION)
        likely = int((contact_RR[far] > 0.5).sum())
    return AlignmentPage(
        id=protein.id,
        sequence=sequence,
        columns=(columns + 1).tolist(),
        num_rows=None if protein.alignment is None else protein.alignment.num_rows,
        row_names=names,
        rows=rows,
        contact=contact,
        distance=distance,
        truth=truth,
        truth_source=protein.cb_source,
        num_likely=likely,
        prediction_scores=None if cb_R is None or contact_RR is None else contact_scores(contact_RR, cb_R),
        heads=heads,
        num_heads=len(sources),
        concerns=protein.scores.get("warnings", [ALONE] if len(seen or ()) == 1 else []),
        mean_plddt=protein.scores.get("mean_plddt"),
        trained_on=protein.scores.get("trained_on"),
    )


def _rows(
    protein: Protein, columns: NDArray[np.int64], sequence: str, seen: list[str] | None
) -> tuple[list[str], list[str]]:
    """Names and letters of rows to show: the target first, then those the model saw, in its order, else the
    first.
    """
    alignment = protein.alignment
    if alignment is None:
        return [protein.id], [sequence]
    order = list(range(alignment.num_rows))
    if seen:
        first_of = {name: row for row, name in reversed(list(enumerate(alignment.names)))}
        order = [first_of[name] for name in dict.fromkeys(seen) if name in first_of] or order
    order = order[:MAX_ROWS]
    rows = [alignment.residues[row, columns].tobytes().decode("ascii") for row in order]
    return [alignment.names[row] for row in order], rows
